//! Heads.

use super::failure::Effect;
use super::script::{EXCHANGE, HEAD};
use super::{HeadRecord, HeadVersion, MAX_HEAD_BYTES, RedisStore, check_size, head_name};
use crate::error::StoreError;
use crate::store::version_of;
use bytes::Bytes;
use toolcell_model::ScopeKey;

impl RedisStore {
    fn head_key(&self, slot: &ScopeKey) -> String {
        self.key(slot.as_str(), format_args!("head"))
    }

    pub(super) async fn head(&self, slot: &ScopeKey) -> Result<Option<HeadRecord>, StoreError> {
        let (object, key) = (head_name(slot), self.head_key(slot));
        let (bytes, version, data): (u64, Option<String>, Option<Vec<u8>>) = self
            .connections
            .script(&object, Effect::Hidden, &HEAD.script, HEAD.text, |command| {
                command.arg(1).arg(&key).arg(MAX_HEAD_BYTES);
            })
            .await?;
        check_size(&object, bytes, MAX_HEAD_BYTES)?;
        match (version, data.map(Bytes::from)) {
            (None, None) => Ok(None),
            (Some(version), Some(data)) if version_of(&data).0 == version => {
                Ok(Some(HeadRecord { data, version: HeadVersion(version) }))
            }
            (Some(_) | None, Some(_) | None) => Err(StoreError::corrupt(object, "its version is not that of its data")),
        }
    }

    pub(super) async fn replace_head(
        &self,
        slot: &ScopeKey,
        expected: Option<&HeadVersion>,
        data: &Bytes,
    ) -> Result<HeadVersion, StoreError> {
        let (object, key, version) = (head_name(slot), self.head_key(slot), version_of(data));
        if expected.is_some_and(|expected| expected.0.is_empty()) {
            // Nothing is what an absent head is expected by.
            return Err(StoreError::PreconditionFailed { object });
        }
        let expected = expected.map_or("", |expected| expected.0.as_str());
        let replaced: i64 = self
            .connections
            .script(&object, Effect::Visible, &EXCHANGE.script, EXCHANGE.text, |command| {
                command.arg(1).arg(&key).arg(expected).arg(&version.0).arg(data.as_ref());
            })
            .await?;
        if replaced == 1 { Ok(version) } else { Err(StoreError::PreconditionFailed { object }) }
    }
}
