//! Many small snapshots do not end as many small packs.

use super::Slot;
use toolcell_testkit::snapshot::{describe, many_files, noise};

#[tokio::test(flavor = "multi_thread")]
async fn packs_stay_few_and_every_snapshot_stays_whole() {
    let mut slot = Slot::new().await;
    many_files(slot.path(), 120, 500);
    let mut taken = Vec::new();
    for round in 0..80u64 {
        std::fs::write(slot.path().join(format!("dir-00{}/file-{round}", round % 2)), noise(round, 700)).unwrap();
        let receipt = slot.save().await;
        assert!(receipt.packs <= 26, "round {round}: {} packs", receipt.packs);
        if round % 30 == 0 {
            taken.push((receipt.snapshot.unwrap(), describe(slot.path())));
        }
    }
    for (snapshot, tree) in taken {
        assert_eq!(describe(slot.restore(snapshot).await.path()), tree);
    }
    let last = slot.restore(slot.writer.snapshot().unwrap()).await;
    assert_eq!(describe(last.path()), describe(slot.path()));
}
