//! What the head protocol must do over any store.

use super::dir_sink::DirSink;
use super::dir_source::DirSource;
use super::fault::{Fault, FaultStore, Operation};
use super::store_suite::Harness;
use super::{FixedClock, many_files};
use bytes::Bytes;
use std::path::Path;
use std::sync::Arc;
use tempfile::TempDir;
use toolcell_model::{Acquisition, Clock, FencingToken, Generation, Retry, ScopeKey, SnapshotId, TenantId};
use toolcell_snapshot::{
    CommitError, ErrorKind, HeadWriter, MAX_OBJECT_BYTES, ObjectName, ObjectPrefix, OpenError, RestoreError, SlotIndex,
    SnapshotEngine, SnapshotError, SnapshotReceipt, SnapshotStore, StampError,
};

const SECRET: [u8; 32] = [5; 32];

/// One slot with a workspace, over a store that can be made to fail.
struct World {
    store: Arc<FaultStore>,
    engine: SnapshotEngine,
    tenant: TenantId,
    slot: ScopeKey,
    dir: TempDir,
}

impl World {
    async fn new(harness: &Harness) -> Self {
        let store = FaultStore::new(harness.store().await);
        let clock: Arc<dyn Clock> = Arc::new(FixedClock::far_ahead());
        let engine = SnapshotEngine::open(Arc::clone(&store) as Arc<dyn SnapshotStore>, SECRET, clock).await.unwrap();
        let dir = tempfile::tempdir().unwrap();
        let world =
            Self { store, engine, tenant: TenantId::default_tenant(), slot: ScopeKey::ephemeral().unwrap(), dir };
        world.write("file", "first");
        world
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.dir.path().join(name), text).unwrap();
    }

    async fn try_stamp(&self, token: u64, floor: Option<u64>) -> Result<HeadWriter, StampError> {
        let acquisition = Acquisition::generate().unwrap();
        let floor = floor.map(Generation);
        self.engine.stamp(&self.tenant, &self.slot, FencingToken(token), acquisition, floor).await
    }

    async fn stamp(&self, token: u64) -> HeadWriter {
        self.try_stamp(token, None).await.unwrap()
    }

    async fn save(&self, writer: &mut HeadWriter, index: &mut SlotIndex) -> Result<SnapshotReceipt, SnapshotError> {
        let source = DirSource::new([self.dir.path().to_path_buf()]);
        self.engine.snapshot(writer, index, &source, &roots(), "sha256:image").await
    }

    async fn save_new(&self, writer: &mut HeadWriter) -> Result<SnapshotReceipt, SnapshotError> {
        self.save(writer, &mut SlotIndex::empty()).await
    }

    /// The text of the file in a snapshot.
    async fn text(&self, snapshot: SnapshotId) -> String {
        let target = tempfile::tempdir().unwrap();
        self.restore(snapshot, target.path()).await.unwrap();
        std::fs::read_to_string(target.path().join("file")).unwrap()
    }

    async fn restore(&self, snapshot: SnapshotId, target: &Path) -> Result<(), RestoreError> {
        let sink = DirSink::new([target.to_path_buf()]);
        let restored = self.engine.restore(&self.slot, snapshot, &roots(), &sink).await;
        assert_eq!(sink.finished(), restored.is_ok(), "a sink is finished if and only if everything was there");
        restored.map(|_| ())
    }

    async fn head_text(&self) -> String {
        let head = self.engine.head(&self.slot).await.unwrap().unwrap();
        self.text(head.snapshot.unwrap()).await
    }
}

fn roots() -> Vec<String> {
    vec!["/workspace".to_owned()]
}

fn is_fenced_by(result: Result<SnapshotReceipt, SnapshotError>, token: u64) -> bool {
    matches!(result, Err(SnapshotError::Commit(CommitError::Fenced { recorded })) if recorded == FencingToken(token))
}

/// A paused holder finds the slot taken when it comes back: nothing of its work becomes visible.
pub async fn a_stale_holder_cannot_commit(harness: Harness) {
    let world = World::new(&harness).await;
    let mut old = world.stamp(1).await;
    world.save_new(&mut old).await.unwrap();
    let mut new = world.stamp(2).await;
    let stamped = world.engine.head(&world.slot).await.unwrap();

    world.write("file", "of the old holder");
    assert!(is_fenced_by(world.save_new(&mut old).await, 2));
    assert_eq!(world.engine.head(&world.slot).await.unwrap(), stamped);
    assert_eq!(world.head_text().await, "first");
    assert!(matches!(world.engine.tombstone(&mut old).await, Err(CommitError::Fenced { .. })));

    world.write("file", "of the new holder");
    let receipt = world.save_new(&mut new).await.unwrap();
    assert_eq!(world.text(receipt.snapshot.unwrap()).await, "of the new holder");
    assert!(is_fenced_by(world.save_new(&mut old).await, 2));
}

/// Equal is not higher.
pub async fn a_stamp_needs_a_higher_token(harness: Harness) {
    let world = World::new(&harness).await;
    let writer = world.stamp(5).await;
    assert_eq!((writer.token(), writer.generation(), writer.snapshot()), (FencingToken(5), Generation(1), None));
    for token in [0, 4, 5] {
        let error = world.try_stamp(token, None).await.unwrap_err();
        assert!(matches!(error, StampError::Fenced { recorded: FencingToken(5) }), "{token}: {error}");
        assert_eq!(error.kind(), ErrorKind::Fenced);
    }
    assert_eq!(world.stamp(6).await.generation(), Generation(2));
}

/// A head that is absent or older than what was acknowledged is an error, not an empty slot.
pub async fn a_lost_head_is_never_seeded_over(harness: Harness) {
    let world = World::new(&harness).await;
    let error = world.try_stamp(1, Some(1)).await.unwrap_err();
    assert!(matches!(error, StampError::HeadMissing { expected: Generation(1), found: None }), "{error}");
    assert!(world.engine.head(&world.slot).await.unwrap().is_none());

    let mut writer = world.stamp(1).await;
    world.save_new(&mut writer).await.unwrap();
    let error = world.try_stamp(2, Some(3)).await.unwrap_err();
    assert!(matches!(error, StampError::HeadMissing { found: Some(Generation(2)), .. }), "{error}");
    assert_eq!(world.engine.head(&world.slot).await.unwrap().unwrap().token, FencingToken(1));
    world.try_stamp(2, Some(2)).await.unwrap();
}

/// The same instance goes on after a restart, unless someone has stamped since.
pub async fn the_same_acquisition_resumes(harness: Harness) {
    let world = World::new(&harness).await;
    let mut writer = world.stamp(1).await;
    let receipt = world.save_new(&mut writer).await.unwrap();
    let acquisition = writer.acquisition();
    drop(writer);
    let resume = async |token, acquisition| {
        world.engine.resume(&world.tenant, &world.slot, FencingToken(token), acquisition).await
    };
    let mut resumed = resume(1, acquisition).await.unwrap();
    assert_eq!((resumed.generation(), resumed.snapshot()), (receipt.generation, receipt.snapshot));
    world.write("file", "after the restart");
    world.save_new(&mut resumed).await.unwrap();
    assert_eq!(world.head_text().await, "after the restart");

    for (token, other) in [(2, acquisition), (1, Acquisition::from_bytes([9; 16]))] {
        assert!(matches!(resume(token, other).await, Err(StampError::Fenced { recorded: FencingToken(1) })));
    }
    world.stamp(2).await;
    assert!(matches!(resume(1, acquisition).await, Err(StampError::Fenced { recorded: FencingToken(2) })));
    let nobody = ScopeKey::ephemeral().unwrap();
    let none = world.engine.resume(&world.tenant, &nobody, FencingToken(1), acquisition).await;
    assert!(matches!(none, Err(StampError::HeadMissing { .. })));
}

/// The stamp counts although nobody said so, or it is said that it is not known.
pub async fn a_lost_response_of_a_stamp_is_found_out(harness: Harness) {
    let world = World::new(&harness).await;
    world.store.fail_at(Operation::HeadCas, 0, Fault::ResponseLost);
    let mut writer = world.stamp(1).await;
    world.save_new(&mut writer).await.unwrap();

    world.store.fail_at(Operation::HeadCas, 0, Fault::Repeated);
    world.stamp(2).await;

    world.store.fail_at(Operation::HeadCas, 0, Fault::Late);
    let error = world.try_stamp(3, None).await.unwrap_err();
    assert_eq!((error.kind(), error.retry()), (ErrorKind::DurabilityUnknown, Retry::Indeterminate));
    world.store.deliver().await.unwrap();
    // It arrived: whoever comes next needs a higher token.
    assert!(matches!(world.try_stamp(3, None).await, Err(StampError::Fenced { .. })));
    world.stamp(4).await;
}

/// The commit counts although nobody said so, and the writer goes on from it.
pub async fn a_lost_response_of_a_commit_is_found_out(harness: Harness) {
    let world = World::new(&harness).await;
    let (mut writer, mut index) = (world.stamp(1).await, SlotIndex::empty());
    world.store.fail_at(Operation::HeadCas, 0, Fault::ResponseLost);
    let receipt = world.save(&mut writer, &mut index).await.unwrap();
    assert_eq!(writer.snapshot(), receipt.snapshot);
    assert_eq!(index.snapshot(), receipt.snapshot);
    assert_eq!(writer.generation(), Generation(2));
    assert!(world.save(&mut writer, &mut index).await.unwrap().unchanged);
    world.write("file", "second");
    world.save(&mut writer, &mut index).await.unwrap();
    assert_eq!(world.head_text().await, "second");
}

/// A request that a proxy or client library sends twice is refused the second time; it counts all the same, once.
pub async fn a_commit_that_is_repeated_on_the_way_counts_once(harness: Harness) {
    let world = World::new(&harness).await;
    let mut writer = world.stamp(1).await;
    world.store.fail_at(Operation::HeadCas, 0, Fault::Repeated);
    let receipt = world.save_new(&mut writer).await.unwrap();
    let head = world.engine.head(&world.slot).await.unwrap().unwrap();
    assert_eq!((head.snapshot, head.generation), (receipt.snapshot, Generation(2)));
    assert_eq!(writer.generation(), Generation(2));
}

/// The response is lost and another holder has stamped, or even saved, upon the commit: it counts.
pub async fn a_commit_in_doubt_counts_if_someone_built_on_it(harness: Harness) {
    for saves in [0, 2] {
        let world = World::new(&harness).await;
        let mut writer = world.stamp(1).await;
        // The commit arrives, its response does not, and reading the head does not work either.
        world.store.fail_at(Operation::HeadCas, 0, Fault::ResponseLost);
        world.store.fail_at(Operation::HeadGet, 0, Fault::Fails);
        let error = world.save_new(&mut writer).await.unwrap_err();
        assert_eq!((error.kind(), error.retry()), (ErrorKind::DurabilityUnknown, Retry::Indeterminate));
        let counted = world.engine.head(&world.slot).await.unwrap().unwrap();
        assert!(counted.snapshot.is_some());

        let mut other = world.stamp(2).await;
        assert_eq!(other.snapshot(), counted.snapshot);
        for save in 0..saves {
            world.write("file", &format!("other {save}"));
            world.save_new(&mut other).await.unwrap();
        }
        // The first writer is fenced from now on, whatever counted.
        world.write("file", "too late");
        assert!(is_fenced_by(world.save_new(&mut writer).await, 2));
        assert_ne!(world.head_text().await, "too late");
    }
}

/// A commit stays on its way while its writer gives up and tries again: whichever arrives, the writer knows.
pub async fn a_commit_that_arrives_late_is_adopted(harness: Harness) {
    let world = World::new(&harness).await;
    let (mut writer, mut index) = (world.stamp(1).await, SlotIndex::empty());
    world.store.fail_at(Operation::HeadCas, 0, Fault::Late);
    let error = world.save(&mut writer, &mut index).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DurabilityUnknown);
    assert_eq!(writer.snapshot(), None);
    world.store.deliver().await.unwrap();
    let receipt = world.save(&mut writer, &mut index).await.unwrap();
    assert!(receipt.unchanged, "the late commit had everything");
    assert_eq!((writer.generation(), index.snapshot()), (Generation(2), receipt.snapshot));

    world.write("file", "second");
    world.store.fail_at(Operation::HeadCas, 0, Fault::Late);
    world.save(&mut writer, &mut index).await.unwrap_err();
    world.write("file", "third");
    let receipt = world.save(&mut writer, &mut index).await.unwrap();
    assert_eq!(world.store.deliver().await.unwrap_err().kind(), ErrorKind::PreconditionFailed);
    assert_eq!(world.text(receipt.snapshot.unwrap()).await, "third");
    assert_eq!(world.head_text().await, "third");
}

/// Neither acknowledged nor refused: said so, and cleared up by the next snapshot.
pub async fn a_commit_whose_doubt_cannot_be_resolved_says_so(harness: Harness) {
    let world = World::new(&harness).await;
    let mut writer = world.stamp(1).await;
    world.store.fail_at(Operation::HeadCas, 0, Fault::ResponseLost);
    world.store.fail_at(Operation::HeadGet, 0, Fault::Fails);
    let error = world.save_new(&mut writer).await.unwrap_err();
    assert!(matches!(&error, SnapshotError::Commit(CommitError::DurabilityUnknown(Some(_)))), "{error:?}");
    let receipt = world.save_new(&mut writer).await.unwrap();
    assert!(receipt.unchanged);
    assert_eq!(receipt.generation, Generation(2));
}

/// The tombstone keeps token and generation; whoever comes next starts empty.
pub async fn a_deleted_slot_fences_and_starts_empty(harness: Harness) {
    let world = World::new(&harness).await;
    let mut writer = world.stamp(3).await;
    world.save_new(&mut writer).await.unwrap();
    world.store.fail_at(Operation::HeadCas, 0, Fault::ResponseLost);
    world.engine.tombstone(&mut writer).await.unwrap();
    world.engine.tombstone(&mut writer).await.unwrap();
    let head = world.engine.head(&world.slot).await.unwrap().unwrap();
    assert_eq!(
        (head.deleted, head.snapshot, head.token, head.generation),
        (true, None, FencingToken(3), Generation(3))
    );
    let error = world.save_new(&mut writer).await.unwrap_err();
    assert!(matches!(error, SnapshotError::Commit(CommitError::Deleted)), "{error:?}");

    assert!(matches!(world.try_stamp(3, None).await, Err(StampError::Fenced { .. })));
    let mut writer = world.try_stamp(4, Some(3)).await.unwrap();
    assert_eq!((writer.snapshot(), writer.generation()), (None, Generation(4)));
    assert!(!world.engine.head(&world.slot).await.unwrap().unwrap().deleted);
    world.write("file", "new life");
    world.save_new(&mut writer).await.unwrap();
    assert_eq!(world.head_text().await, "new life");
}

/// Whatever operation the process dies at, the old head is whole, what is new carries the dead writer's token, and
/// another try succeeds.
pub async fn a_crash_before_the_head_leaves_only_garbage(harness: Harness) {
    let world = World::new(&harness).await;
    let (mut writer, mut index) = (world.stamp(1).await, SlotIndex::empty());
    world.save(&mut writer, &mut index).await.unwrap();
    let mut steps = 0;
    loop {
        world.write("file", &format!("version {steps}"));
        let before = world.engine.head(&world.slot).await.unwrap().unwrap();
        let (old_text, old_objects) = (world.head_text().await, objects(&world).await);
        world.store.take_log();
        world.store.fail(steps, Fault::Dead);
        let result = world.save(&mut writer, &mut index).await;
        world.store.heal();
        if result.is_ok() {
            // What the new head needs is written before it.
            let log = world.store.take_log();
            let writes: Vec<_> =
                log.into_iter().filter(|op| matches!(op, Operation::Put | Operation::HeadCas)).collect();
            assert_eq!(writes, [Operation::Put, Operation::Put, Operation::HeadCas]);
            break;
        }
        assert_eq!(world.engine.head(&world.slot).await.unwrap().unwrap(), before, "died at operation {steps}");
        assert_eq!(world.head_text().await, old_text);
        let token = format!("/packs/{:020}-", 1);
        for object in objects(&world).await.iter().filter(|object| !old_objects.contains(object)) {
            let name = object.as_str();
            assert!(name.contains("/manifests/") || name.contains(&token), "{name}");
        }
        world.write("file", &format!("again {steps}"));
        world.save(&mut writer, &mut index).await.unwrap();
        assert_eq!(world.head_text().await, format!("again {steps}"));
        steps += 1;
    }
    // At least a pack, a manifest and the head.
    assert!(steps >= 3, "only {steps} operations");
}

async fn objects(world: &World) -> Vec<ObjectName> {
    let listed = world.store.list(&ObjectPrefix::slot(&world.slot), None, 10_000).await.unwrap();
    listed.objects.into_iter().map(|object| object.name).collect()
}

/// Each object damaged in several ways: the restore fails and names it, and the sink is never finished.
pub async fn damaged_objects_are_corrupt_by_name(harness: Harness) {
    let world = World::new(&harness).await;
    many_files(world.dir.path(), 30, 1000);
    let mut writer = world.stamp(1).await;
    let snapshot = world.save_new(&mut writer).await.unwrap().snapshot.unwrap();
    let objects = objects(&world).await;
    assert_eq!(objects.len(), 2, "a pack and a manifest");
    for name in objects {
        let intact = world.store.get(&name, MAX_OBJECT_BYTES).await.unwrap();
        let len = intact.len();
        let flipped = |at: usize| {
            let mut bytes = intact.to_vec();
            bytes[at] ^= 0x10;
            Bytes::from(bytes)
        };
        let longer = Bytes::from([&intact[..], b"x"].concat());
        let damages = [
            flipped(0),
            flipped(len / 3),
            flipped(len - 60),
            flipped(len - 1),
            intact.slice(..len - 1),
            intact.slice(..len / 2),
            Bytes::new(),
            longer,
        ];
        for (at, damaged) in damages.into_iter().enumerate() {
            replace(&world, &name, damaged).await;
            let target = tempfile::tempdir().unwrap();
            let restored = world.restore(snapshot, target.path()).await;
            // Bytes after a pack's end are never read.
            if at == 7 && name.as_str().contains("/packs/") {
                restored.unwrap();
                continue;
            }
            let error = restored.expect_err("damage is noticed");
            assert_eq!(error.kind(), ErrorKind::Corrupt, "{name}, damage {at}");
            let RestoreError::Store { source, .. } = error else { panic!("{error:?}") };
            assert_eq!(source.object(), name.as_str(), "damage {at}");
        }
        world.store.delete(&name).await.unwrap();
        let target = tempfile::tempdir().unwrap();
        let missing = world.restore(snapshot, target.path()).await.expect_err("it is gone");
        assert_eq!(missing.kind(), ErrorKind::NotFound);
        replace(&world, &name, intact).await;
    }
    assert_eq!(world.text(snapshot).await, "first");

    let head = world.store.head_get(&world.slot).await.unwrap().unwrap();
    for damaged in [Bytes::new(), Bytes::from("nonsense"), head.data.slice(1..)] {
        let version = world.store.head_get(&world.slot).await.unwrap().unwrap().version;
        world.store.head_cas(&world.slot, Some(&version), damaged).await.unwrap();
        let error = world.engine.head(&world.slot).await.unwrap_err();
        assert_eq!((error.kind(), error.object()), (ErrorKind::Corrupt, &*format!("{}/head", world.slot)));
        assert_eq!(
            world.try_stamp(2, None).await.unwrap_err().kind(),
            ErrorKind::Corrupt,
            "nothing is written over it"
        );
    }
}

async fn replace(world: &World, name: &ObjectName, data: Bytes) {
    world.store.delete(name).await.unwrap();
    world.store.put_if_absent(name, data).await.unwrap();
}

/// A store belongs to one secret; another one is told so, and changes nothing.
pub async fn another_secret_is_refused(harness: Harness) {
    let open = async |secret| {
        SnapshotEngine::open(harness.store().await, secret, Arc::new(FixedClock::far_ahead())).await.map(|_| ())
    };
    open(SECRET).await.unwrap();
    let error = open([6; 32]).await.unwrap_err();
    assert!(matches!(error, OpenError::WrongSecret) && error.to_string().contains("id_secret"), "{error}");
    open(SECRET).await.unwrap();
    let canary = ObjectName::parse("store/meta/canary").unwrap();
    let store = harness.store().await;
    store.delete(&canary).await.unwrap();
    store.put_if_absent(&canary, Bytes::from("nonsense")).await.unwrap();
    assert_eq!(open(SECRET).await.unwrap_err().kind(), ErrorKind::Corrupt);
}
