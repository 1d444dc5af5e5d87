//! A guest that lies is refused, whatever it says; nothing of it becomes a head.

use super::{Slot, roots};
use async_trait::async_trait;
use std::sync::Mutex;
use tokio::sync::mpsc::Sender;
use toolcell_snapshot::{
    CommitError, EntryKind, ErrorKind, FetchRequest, Fetched, MAX_XATTR_BYTES, ScanEntry, SnapshotError, SourceError,
    TimeNs, WorkspaceSource,
};

type Answers = dyn FnMut(&FetchRequest) -> Result<Fetched, SourceError> + Send;

/// A source that says what it is told to.
struct Script {
    entries: Vec<ScanEntry>,
    answers: Mutex<Box<Answers>>,
}

impl Script {
    fn new(
        entries: Vec<ScanEntry>,
        answers: impl FnMut(&FetchRequest) -> Result<Fetched, SourceError> + Send + 'static,
    ) -> Self {
        Self { entries, answers: Mutex::new(Box::new(answers)) }
    }
}

#[async_trait]
impl WorkspaceSource for Script {
    async fn scan(&self, sink: Sender<Vec<ScanEntry>>) -> Result<(), SourceError> {
        // One that sends for as long as someone listens.
        for batch in self.entries.chunks(3).cycle() {
            if sink.send(batch.to_vec()).await.is_err() {
                return Ok(());
            }
            if self.entries.len() < 100 && batch.len() < 3 {
                return Ok(());
            }
        }
        Ok(())
    }

    async fn fetch(&self, request: FetchRequest) -> Result<Fetched, SourceError> {
        (self.answers.lock().unwrap())(&request)
    }
}

fn entry(path: &[u8], kind: EntryKind) -> ScanEntry {
    let time = TimeNs { secs: 5, nanos: 5 };
    let inode = path.len() as u64;
    ScanEntry { root: 0, path: path.to_vec(), kind, mode: 0o755, mtime: time, ctime: time, inode, device: 1, nlink: 1 }
}

fn file_of(size: u64) -> Vec<ScanEntry> {
    vec![entry(b"", EntryKind::Dir), entry(b"f", EntryKind::File { size })]
}

/// An honest answer about a file of these bytes.
fn honest(request: &FetchRequest, data: &[u8]) -> Fetched {
    let time = TimeNs { secs: 5, nanos: 5 };
    let inode = request.path.len() as u64;
    let size = data.len() as u64;
    Fetched { data: data.to_vec(), next_offset: size, end: true, size, mtime: time, ctime: time, inode, xattrs: vec![] }
}

async fn outcome(
    entries: Vec<ScanEntry>,
    answers: impl FnMut(&FetchRequest) -> Result<Fetched, SourceError> + Send + 'static,
) -> Result<(), SnapshotError> {
    let mut slot = Slot::new().await;
    slot.engine = slot.engine.with_max_workspace_bytes(10_000_000);
    let before = slot.engine.head(&slot.key).await.unwrap();
    let source = Script::new(entries, answers);
    let result = slot.engine.snapshot(&mut slot.writer, &mut slot.index, &source, &roots(), "image").await;
    if result.is_err() {
        assert_eq!(slot.engine.head(&slot.key).await.unwrap(), before);
    }
    result.map(|_| ())
}

fn on_file(
    mut answer: impl FnMut(&FetchRequest) -> Fetched + Send + 'static,
) -> impl FnMut(&FetchRequest) -> Result<Fetched, SourceError> + Send + 'static {
    move |request| Ok(if request.path.is_empty() { honest(request, b"") } else { answer(request) })
}

#[tokio::test(flavor = "multi_thread")]
async fn an_honest_script_is_taken() {
    outcome(file_of(4), on_file(|request| honest(request, b"text"))).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_that_cannot_be_are_refused() {
    type Answer = fn(&FetchRequest) -> Fetched;
    let lies: [(&str, Answer); 9] = [
        ("more than was asked for", |r| honest(r, &vec![1; r.max_len as usize + 1])),
        ("backwards", |r| Fetched { next_offset: 0, end: false, ..honest(r, b"text") }),
        ("nowhere", |r| Fetched { data: vec![], next_offset: r.offset, end: false, ..honest(r, b"") }),
        ("past every file", |r| Fetched { next_offset: u64::MAX, ..honest(r, b"text") }),
        ("an impossible time", |r| Fetched { mtime: TimeNs { secs: 0, nanos: u32::MAX }, ..honest(r, b"text") }),
        ("a foreign attribute", |r| Fetched { xattrs: vec![(b"security.x".to_vec(), vec![])], ..honest(r, b"text") }),
        ("a nameless attribute", |r| Fetched { xattrs: vec![(b"user.".to_vec(), vec![])], ..honest(r, b"text") }),
        ("an attribute twice", |r| Fetched {
            xattrs: vec![(b"user.a".to_vec(), vec![1]), (b"user.a".to_vec(), vec![2])],
            ..honest(r, b"text")
        }),
        ("an attribute with NUL", |r| Fetched { xattrs: vec![(b"user.\0".to_vec(), vec![])], ..honest(r, b"text") }),
    ];
    for (why, lie) in lies {
        let error = outcome(file_of(4), on_file(lie)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Malformed, "{why}: {error:?}");
        assert!(error.to_string().contains("/workspace/f"), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_shrinks_between_two_parts_is_read_again() {
    let mut slot = Slot::new().await;
    let content = vec![7; 3 << 20];
    let mut parts = 0;
    let source = Script::new(
        file_of(3 << 20),
        on_file(move |r| {
            parts += 1;
            if parts == 2 {
                return Fetched { next_offset: 0, ..honest(r, b"") };
            }
            let start = usize::try_from(r.offset).unwrap();
            let end = content.len().min(start + r.max_len as usize);
            let next_offset = end as u64;
            let all = honest(r, &content);
            Fetched { data: content[start..end].to_vec(), next_offset, end: end == content.len(), ..all }
        }),
    );
    let receipt = slot.try_save(&source).await.unwrap();
    assert_eq!((receipt.files_unstable, receipt.bytes), (0, 3 << 20));
    let restored = slot.restore(receipt.snapshot.unwrap()).await;
    assert!(std::fs::read(restored.path().join("f")).unwrap() == vec![7; 3 << 20]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_directory_in_a_files_place_is_not_saved_as_a_file() {
    let mut slot = Slot::new().await;
    let directory = |r: &FetchRequest| Fetched { next_offset: 4096, size: 4096, inode: 99, ..honest(r, b"") };
    let receipt = slot.try_save(&Script::new(file_of(4), on_file(directory))).await.unwrap();
    assert_eq!(receipt.files, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn attributes_are_bounded() {
    let with = |len: usize| {
        on_file(move |r| Fetched { xattrs: vec![(b"user.a".to_vec(), vec![0; len - 6])], ..honest(r, b"text") })
    };
    outcome(file_of(4), with(MAX_XATTR_BYTES - 1)).await.unwrap();
    outcome(file_of(4), with(MAX_XATTR_BYTES)).await.unwrap();
    assert_eq!(outcome(file_of(4), with(MAX_XATTR_BYTES + 1)).await.unwrap_err().kind(), ErrorKind::TooLarge);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_workspace_is_bounded_by_what_it_claims_and_by_what_it_sends() {
    let hole = |size| on_file(move |r| Fetched { next_offset: size, size, ..honest(r, b"") });
    outcome(file_of(9_999_999), hole(9_999_999)).await.unwrap();
    outcome(file_of(10_000_000), hole(10_000_000)).await.unwrap();
    let error = outcome(file_of(10_000_001), hole(10_000_001)).await.unwrap_err();
    assert!(matches!(error, SnapshotError::TooLarge { max: 10_000_000 }), "{error:?}");
    // Claims to be small and never ends.
    let endless = on_file(|r| {
        let data = vec![7; r.max_len as usize];
        let next_offset = r.offset + data.len() as u64;
        Fetched { end: false, next_offset, ..honest(r, &data) }
    });
    let error = outcome(file_of(4), endless).await.unwrap_err();
    assert!(matches!(error, SnapshotError::TooLarge { .. }), "{error:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_that_never_ends_is_cut_off() {
    let entries: Vec<ScanEntry> = (0..200).map(|_| entry(b"", EntryKind::Special)).collect();
    let error = outcome(entries, |_| Err(SourceError::Vanished)).await.unwrap_err();
    assert!(matches!(error, SnapshotError::Scan(SourceError::Malformed { .. })), "{error:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_source_that_fails_fails_the_snapshot_with_its_error() {
    let unavailable = |_: &FetchRequest| Err(SourceError::Unavailable { detail: "the container died".to_owned() });
    let error = outcome(file_of(4), unavailable).await.unwrap_err();
    assert_eq!((error.kind(), error.retry()), (ErrorKind::Unavailable, toolcell_snapshot::Retry::Later));
    // A root cannot disappear.
    let error = outcome(file_of(4), |_| Err(SourceError::Vanished)).await.unwrap_err();
    assert!(matches!(error, SnapshotError::Read { .. }), "{error:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn modes_that_lend_an_identity_are_dropped() {
    let mut slot = Slot::new().await;
    let mut entries = file_of(4);
    entries[1].mode = 0o6755;
    let source = Script::new(entries, on_file(|request| honest(request, b"text")));
    let snapshot = slot.try_save(&source).await.unwrap().snapshot.unwrap();
    let restored = slot.restore(snapshot).await;
    let mode = std::os::unix::fs::MetadataExt::mode(&std::fs::metadata(restored.path().join("f")).unwrap());
    assert_eq!(mode & 0o7777, 0o755);
}

#[tokio::test(flavor = "multi_thread")]
async fn roots_must_be_roots() {
    let mut slot = Slot::new().await;
    for bad in [
        vec![],
        vec!["workspace"],
        vec!["/"],
        vec!["/a/"],
        vec!["/a//b"],
        vec!["/a/../b"],
        vec!["/a/."],
        vec!["/a", "/a"],
        vec!["/a", "/a/b"],
        vec!["/a/b", "/a"],
    ] {
        let roots: Vec<String> = bad.iter().map(|root| (*root).to_owned()).collect();
        let source = slot.source();
        let error = slot.engine.snapshot(&mut slot.writer, &mut slot.index, &source, &roots, "").await.unwrap_err();
        assert!(matches!(error, SnapshotError::Roots { .. }), "{bad:?}: {error:?}");
    }
    assert!(!matches!(slot.save().await.generation, toolcell_model::Generation(1)));
    slot.engine.tombstone(&mut slot.writer).await.unwrap();
    let source = slot.source();
    let error = slot.try_save(&source).await.unwrap_err();
    assert!(matches!(error, SnapshotError::Commit(CommitError::Deleted)));
}
