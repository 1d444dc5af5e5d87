//! Who does what: holders, a collector, a fork, a reader.

use crate::checker::Told;
use async_trait::async_trait;
use std::sync::{Arc, Mutex};
use tokio::sync::mpsc::Sender;
use toolcell_model::{Acquisition, FencingToken, ScopeKey, SnapshotId, TenantId};
use toolcell_snapshot::{
    EntryKind, ErrorKind, FetchRequest, Fetched, HeadWriter, NoProgress, RestoreItem, Retention, ScanEntry, SlotIndex,
    SnapshotEngine, SourceError, StampError, TimeNs, WorkspaceSink, WorkspaceSource,
};

/// Acquisitions are given out in order, and a lease service that has lost everything starts again at the floor: two
/// holders may have the same token.
pub(crate) struct Actor {
    pub(crate) engine: SnapshotEngine,
    pub(crate) slot: ScopeKey,
    pub(crate) told: Arc<Mutex<Told>>,
    pub(crate) number: u64,
}

/// A workspace of one file, other content for each holder and time.
struct OneFile(u64);

const TIME: TimeNs = TimeNs { secs: 5, nanos: 0 };

#[async_trait]
impl WorkspaceSource for OneFile {
    async fn scan(&self, sink: Sender<Vec<ScanEntry>>) -> Result<(), SourceError> {
        let entry = |path: &[u8], kind| ScanEntry {
            root: 0,
            path: path.to_vec(),
            kind,
            mode: 0o755,
            mtime: TIME,
            ctime: TimeNs { secs: 5, nanos: u32::try_from(self.0).unwrap_or_default() },
            inode: path.len() as u64,
            device: 1,
            nlink: 1,
        };
        let entries = vec![entry(b"", EntryKind::Dir), entry(b"f", EntryKind::File { size: 8 })];
        sink.send(entries).await.map_err(|_| SourceError::Vanished)
    }

    async fn fetch(&self, request: FetchRequest) -> Result<Fetched, SourceError> {
        let data = if request.path.is_empty() { Vec::new() } else { self.0.to_le_bytes().to_vec() };
        let size = data.len() as u64;
        let ctime = TimeNs { secs: 5, nanos: u32::try_from(self.0).unwrap_or_default() };
        let inode = request.path.len() as u64;
        Ok(Fetched { data, next_offset: size, end: true, size, mtime: TIME, ctime, inode, xattrs: Vec::new() })
    }
}

struct Nowhere;

#[async_trait]
impl WorkspaceSink for Nowhere {
    async fn put(&self, _: RestoreItem) -> Result<(), SourceError> {
        Ok(())
    }

    async fn finish(&self) -> Result<(), SourceError> {
        Ok(())
    }
}

pub(crate) fn roots() -> Vec<String> {
    vec!["/w".to_owned()]
}

impl Actor {
    /// Acquires above what it knows, and again above what it is told, as the runtime does.
    async fn hold(&self, slot: &ScopeKey) -> Option<HeadWriter> {
        let floor = self.engine.head(slot).await.ok()?.map_or(FencingToken(0), |head| head.token);
        // A lease service that has lost everything: whoever asks gets the next one above its floor.
        let mut token = FencingToken(floor.0 + 1);
        for _ in 0..2 {
            let acquisition = Acquisition::generate().unwrap();
            match self.engine.stamp(&TenantId::default_tenant(), slot, token, acquisition, None).await {
                Ok(writer) => return Some(writer),
                Err(StampError::Fenced { recorded }) => token = FencingToken(recorded.0 + 1),
                Err(_) => return None,
            }
        }
        None
    }

    async fn save(&self, writer: &mut HeadWriter, index: &mut SlotIndex, text: u64) -> bool {
        let saved = self.engine.snapshot(writer, index, &OneFile(text), &roots(), "i").await;
        match saved {
            Ok(receipt) => {
                let snapshot = receipt.snapshot.unwrap();
                if !receipt.unchanged {
                    let slot = writer.slot().clone();
                    self.told.lock().unwrap().acknowledged.push((slot, snapshot, receipt.generation));
                }
                true
            }
            Err(error) => {
                let head = self.engine.head(writer.slot()).await;
                if matches!(head, Ok(Some(head)) if head.token == writer.token()) {
                    self.see_missing("a snapshot", error.kind(), &error);
                }
                error.kind() != ErrorKind::Fenced
            }
        }
    }

    /// What a head or a pin names must be there.
    fn see_missing(&self, who: &str, kind: ErrorKind, error: &dyn std::error::Error) {
        if matches!(kind, ErrorKind::NotFound | ErrorKind::Corrupt) {
            let text = format!("{who} of actor {} misses what it needs: {}", self.number, chain(error));
            self.told.lock().unwrap().broken.push(text);
        }
    }

    /// Acquires, restores what the head names, saves twice.
    pub(crate) async fn holder(self, saves: u64) {
        let Some(mut writer) = self.hold(&self.slot).await else { return };
        let mut index = SlotIndex::empty();
        if let Some(snapshot) = writer.snapshot()
            && let Err(error) = self.engine.restore(&self.slot, snapshot, &roots(), &Nowhere).await
        {
            // Somebody else may have taken over, dropped it and collected it: then a commit fails.
            let fenced = self.engine.head(&self.slot).await;
            if matches!(fenced, Ok(Some(head)) if head.token == writer.token()) {
                self.see_missing("a restore", error.kind(), &error);
            }
            return;
        }
        for round in 0..saves {
            if !self.save(&mut writer, &mut index, self.number * 1000 + round).await {
                return;
            }
        }
    }

    /// Acquires, goes back to the oldest snapshot, saves.
    pub(crate) async fn rewinder(self) {
        let Some(mut writer) = self.hold(&self.slot).await else { return };
        let mut index = SlotIndex::empty();
        let Ok(history) = self.engine.history(&self.slot).await else { return };
        let Some(oldest) = history.last() else { return };
        if let Ok(receipt) = self.engine.recommit(&mut writer, &mut index, oldest.snapshot).await {
            let told = (self.slot.clone(), receipt.snapshot.unwrap(), receipt.generation);
            self.told.lock().unwrap().acknowledged.push(told);
            self.save(&mut writer, &mut index, self.number * 1000).await;
        }
    }

    /// Acquires, collects, saves, and collects again.
    pub(crate) async fn collector(self, saves: u64) {
        let Some(mut writer) = self.hold(&self.slot).await else { return };
        let mut index = SlotIndex::empty();
        for round in 0..=saves {
            let retention = Retention { keep_last: Some(1), ..Retention::default() };
            if let Err(error) = self.engine.gc(&mut writer, &mut index, &retention, &NoProgress).await
                && error.kind() == ErrorKind::Fenced
            {
                return;
            }
            if round < saves && !self.save(&mut writer, &mut index, self.number * 1000 + round).await {
                return;
            }
        }
    }

    /// Forks a snapshot into another slot, reads it there, and saves.
    pub(crate) async fn fork(self, source: ScopeKey, snapshot: SnapshotId) {
        let Some(mut writer) = self.hold(&self.slot).await else { return };
        let mut index = SlotIndex::empty();
        let forked = self.engine.fork(&source, snapshot, &mut writer, &mut index).await;
        if let Ok(receipt) = forked {
            let told = (self.slot.clone(), receipt.snapshot.unwrap(), receipt.generation);
            self.told.lock().unwrap().acknowledged.push(told);
            self.save(&mut writer, &mut index, self.number * 1000).await;
        }
    }

    /// Reads a snapshot that it does not hold.
    pub(crate) async fn reader(self, snapshot: SnapshotId) {
        let read = self.engine.restore_pinned(&self.slot, snapshot, &roots(), &Nowhere, &NoProgress).await;
        match read {
            Ok(_) | Err(toolcell_snapshot::RestoreError::NoSnapshot { .. }) => {}
            Err(error) => self.see_missing("a reader", error.kind(), &error),
        }
    }
}

fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(source) = next {
        text = format!("{text}: {source}");
        next = source.source();
    }
    text
}
