//! A service with bad manners is refused at the start, by name; a good one is not.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed unwrap is the test's failure")]

use bytes::Bytes;
use toolcell_model::ScopeKey;
use toolcell_snapshot::{
    ErrorKind, ObjectName, ProbeError, Retry, S3Config, S3Credentials, S3Store, SnapshotStore, StoreError,
};
use toolcell_testkit::snapshot::{BadS3, FaultProxy, Manners, NetworkFault, noise};

fn at(endpoint: String) -> S3Config {
    S3Config {
        endpoint: Some(endpoint),
        bucket: "bucket".to_owned(),
        path_style: true,
        credentials: Some(S3Credentials { access_key: "key".to_owned(), secret_key: "secret".to_owned() }),
        ..S3Config::default()
    }
}

async fn opened(manners: Manners) -> Result<(), ProbeError> {
    let service = BadS3::start(manners).await;
    let opened = S3Store::open(&at(service.endpoint())).await.map(drop);
    assert_eq!(service.objects(), 0, "the probe leaves nothing behind");
    opened
}

#[tokio::test]
async fn a_service_that_keeps_its_word_opens() {
    opened(Manners::Good).await.unwrap();
}

#[tokio::test]
async fn a_service_that_does_not_keep_holders_apart_is_refused() {
    for (manners, wanted) in [
        (Manners::IgnoresConditions, "created an object twice"),
        (Manners::IgnoresIfMatch, "replaced an object that had changed"),
        (Manners::SameEtag, "the same ETag"),
        (Manners::Races, "that raced to"),
    ] {
        let error = opened(manners).await.unwrap_err();
        assert!(matches!(error, ProbeError::NotConditional { .. }), "{manners:?}: {error:?}");
        assert!(error.to_string().contains(wanted), "{manners:?}: {error}");
    }
}

#[tokio::test]
async fn other_troubles_have_names_of_their_own() {
    let error = opened(Manners::NoBucket).await.unwrap_err();
    assert!(matches!(&error, ProbeError::NoBucket { bucket } if bucket == "bucket"), "{error:?}");
    assert!(matches!(opened(Manners::Denied).await.unwrap_err(), ProbeError::Denied(_)));
    assert!(matches!(opened(Manners::SlowDown).await.unwrap_err(), ProbeError::Unreachable(_)));
    assert!(matches!(opened(Manners::Full).await.unwrap_err(), ProbeError::Failed(_)));
    // Nobody listens at a port that was just given back.
    let gone = BadS3::start(Manners::Good).await.endpoint();
    assert!(matches!(S3Store::open(&at(gone)).await.unwrap_err(), ProbeError::Unreachable(_)));
}

#[tokio::test]
async fn a_write_without_an_answer_is_in_doubt_and_is_not_sent_again() {
    let service = BadS3::start(Manners::Good).await;
    let endpoint = service.endpoint();
    let proxy = FaultProxy::start(endpoint.strip_prefix("http://").unwrap(), NetworkFault::None);
    let open = async || S3Store::open(&at(format!("http://{}", proxy.address()))).await.unwrap();
    let slot = ScopeKey::ephemeral().unwrap();
    let name = ObjectName::parse(format!("{slot}/packs/a")).unwrap();
    let store = open().await;
    let before = service.writes();

    proxy.set(NetworkFault::LosesAnswerAfter(vec![0]));
    let lost = store.put_if_absent(&name, Bytes::from("x")).await.unwrap_err();
    assert!(matches!(lost, StoreError::InDoubt { .. }) && lost.retry() == Retry::Indeterminate, "{lost:?}");
    proxy.set(NetworkFault::LosesAnswerAfter(vec![0]));
    let lost = store.head_cas(&slot, None, Bytes::from("head")).await.unwrap_err();
    assert!(matches!(lost, StoreError::InDoubt { .. }), "{lost:?}");
    assert_eq!(service.writes() - before, 2, "each was sent once");
    assert_eq!(store.get(&name, 10).await.unwrap(), "x", "and was done");
    assert_eq!(store.head_get(&slot).await.unwrap().unwrap().data, "head");

    // Nobody to send it to: certainly not done.
    proxy.set(NetworkFault::Refuses);
    let other = ObjectName::parse(format!("{slot}/packs/b")).unwrap();
    let refused = store.put_if_absent(&other, Bytes::from("x")).await.unwrap_err();
    assert_ne!(refused.kind(), ErrorKind::AlreadyExists);
    assert_eq!(service.writes() - before, 2);
}

#[tokio::test]
async fn an_answer_that_is_cut_is_no_object() {
    let service = BadS3::start(Manners::Good).await;
    let endpoint = service.endpoint();
    let proxy = FaultProxy::start(endpoint.strip_prefix("http://").unwrap(), NetworkFault::None);
    let store = S3Store::open(&at(format!("http://{}", proxy.address()))).await.unwrap();
    let name = ObjectName::parse(format!("{}/packs/a", ScopeKey::ephemeral().unwrap())).unwrap();
    let data = Bytes::from(noise(1, 3_000_000));
    store.put_if_absent(&name, data.clone()).await.unwrap();
    proxy.set(NetworkFault::CutsAfter(vec![1_000_000]));
    let cut = store.get(&name, 4_000_000).await.unwrap_err();
    assert!(matches!(cut, StoreError::Unavailable { .. }), "{cut:?}");
    assert!(store.get(&name, 4_000_000).await.unwrap() == data);
}
