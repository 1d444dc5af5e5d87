//! The snapshot store as the engine gets it: encrypted, if the configuration has a key.

use crate::config::EncryptionConfig;
use crate::error::StartError;
use std::sync::Arc;
use toolcell_snapshot::{EncryptedStore, SnapshotStore};

/// That a store which is encrypted gets a key, and one which is not gets none, is for the store and the engine to check.
pub(super) async fn sealed(
    config: &EncryptionConfig,
    store: Arc<dyn SnapshotStore>,
) -> Result<Arc<dyn SnapshotStore>, StartError> {
    match config.keys().map_err(StartError::EncryptionKey)? {
        None => Ok(store),
        Some(keys) => Ok(Arc::new(EncryptedStore::open(store, keys).await.map_err(StartError::Encryption)?)),
    }
}
