//! A service with bad manners is refused at the start, by name; a good one is not.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed unwrap is the test's failure")]

use toolcell_snapshot::{ProbeError, S3Config, S3Credentials, S3Store};
use toolcell_testkit::snapshot::{BadS3, Manners};

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
