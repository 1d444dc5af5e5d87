//! Listings, from the index of each owner.

use super::failure::Effect;
use super::{ListPage, MAX_OBJECT_BYTES, ObjectName, ObjectPrefix, RedisStore};
use crate::error::StoreError;
use crate::store::Listed;

/// Longest page; of a longer one that is asked for, so much comes, and `more` says that there is more.
const MAX_PAGE: usize = 1000;
/// Owners that are asked for at a time.
const OWNERS: usize = 64;
/// After every character that a name can hold, so that `prefix` to `prefix` with it is all that begins with it.
const BEYOND: char = '~';

impl RedisStore {
    pub(super) async fn list_page(
        &self,
        prefix: &ObjectPrefix,
        after: Option<&ObjectName>,
        limit: usize,
    ) -> Result<ListPage, StoreError> {
        let limit = limit.min(MAX_PAGE);
        let mut page = ListPage::default();
        if let Some((owner, members)) = prefix.as_str().split_once('/') {
            // One owner: what comes after a name of a later one is nothing, of an earlier one all.
            let after = after.map(|name| name.as_str().split_once('/').unwrap_or_default());
            match after {
                Some((after_owner, _)) if after_owner > owner => {}
                Some((after_owner, member)) if after_owner == owner => {
                    self.list_owner(&mut page, owner, members, Some(member), limit).await?;
                }
                Some(_) | None => self.list_owner(&mut page, owner, members, None, limit).await?,
            }
            return Ok(page);
        }
        let (mut from, mut member) = match after.and_then(|name| name.as_str().split_once('/')) {
            Some((owner, member)) if owner >= prefix.as_str() => (format!("[{owner}"), Some((owner, member))),
            Some(_) | None => (format!("[{prefix}"), None),
        };
        loop {
            let owners = self.range(prefix.as_str(), &self.owners_key(), &from, prefix.as_str(), OWNERS).await?;
            for owner in &owners {
                let after = member.take().filter(|(of, _)| of == owner).map(|(_, member)| member);
                self.list_owner(&mut page, owner, "", after, limit).await?;
                if page.more {
                    return Ok(page);
                }
            }
            match owners.last() {
                Some(last) if owners.len() == OWNERS => from = format!("({last}"),
                Some(_) | None => return Ok(page),
            }
        }
    }

    /// Adds an owner's objects until the page is full, and then says whether there is one more.
    async fn list_owner(
        &self,
        page: &mut ListPage,
        owner: &str,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<(), StoreError> {
        let from = match after {
            Some(after) if after >= prefix => format!("({after}"),
            Some(_) | None => format!("[{prefix}"),
        };
        let room = limit.saturating_sub(page.objects.len());
        let object = format!("{owner}/{prefix}");
        let mut members = self.range(&object, &self.index_key(owner), &from, prefix, room + 1).await?;
        page.more = members.len() > room;
        members.truncate(room);
        if members.is_empty() {
            return Ok(());
        }
        let mut sizes = redis::pipe();
        for member in &members {
            sizes.cmd("HGET").arg(self.object_key(owner, member)).arg("bytes");
        }
        let sizes: Vec<Option<u64>> = self.connections.read_all(&object, &sizes).await?;
        for (member, bytes) in members.iter().zip(sizes) {
            // Removed since the index was read.
            let Some(bytes) = bytes else { continue };
            let name = ObjectName::parse(format!("{owner}/{member}"))
                .map_err(|_| StoreError::corrupt(&object, "its index holds what is no name"))?;
            if bytes > MAX_OBJECT_BYTES {
                return Err(StoreError::corrupt(name, "its size is not one"));
            }
            page.objects.push(Listed { name, bytes });
        }
        Ok(())
    }

    async fn range(
        &self,
        object: &str,
        key: &str,
        from: &str,
        prefix: &str,
        count: usize,
    ) -> Result<Vec<String>, StoreError> {
        let mut command = redis::cmd("ZRANGEBYLEX");
        command.arg(key).arg(from).arg(format!("({prefix}{BEYOND}")).arg("LIMIT").arg(0).arg(count);
        self.connections.command(object, Effect::Hidden, &command).await
    }
}
