//! What keeps a store on a server from opening has a name, and no name shows a password.

use super::{Postgres, Redis};
use bytes::Bytes;
use std::error::Error;
use toolcell_model::ScopeKey;
use toolcell_snapshot::{
    ErrorKind, HeadVersion, ObjectName, PostgresError, PostgresStore, RedisConfig, RedisError, RedisStore,
    SnapshotStore, StoreError,
};
use toolcell_testkit::snapshot::{FaultProxy, NetworkFault};

/// A password that must not be seen anywhere.
const PASSWORD: &str = "toolcell-test";

/// Everything that an error shows.
fn shown(error: &(dyn Error + 'static)) -> String {
    let mut text = format!("{error:?}");
    let mut next = Some(error);
    while let Some(error) = next {
        text = format!("{text}\n{error}");
        next = error.source();
    }
    text
}

async fn redis(change: impl FnOnce(&mut RedisConfig)) -> Option<Result<RedisStore, RedisError>> {
    let Redis(mut config) = Redis::new()?;
    change(&mut config);
    assert!(!format!("{config:?}").contains(PASSWORD));
    let opened = RedisStore::open(&config).await;
    match &opened {
        Ok(store) => assert!(!format!("{store:?}").contains(PASSWORD)),
        Err(error) => assert!(!shown(error).contains("secret")),
    }
    Some(opened)
}

/// Settings of the shared server are the other tests' too; so a user that may not do something stands for a server that
/// does not let it.
async fn command(url: &str, words: &[&str]) -> redis::Value {
    let client = redis::Client::open(url).unwrap();
    let mut connection = client.get_multiplexed_async_connection().await.unwrap();
    redis::cmd(words[0]).arg(&words[1..]).query_async(&mut connection).await.unwrap()
}

/// What was sent on a connection that has just ended may have arrived; what finds no connection has not, and says so.
async fn fails_surely(store: &dyn SnapshotStore) {
    let (slot, stale) = (ScopeKey::ephemeral().unwrap(), HeadVersion("never was".to_owned()));
    for _ in 0..1000 {
        match store.head_cas(&slot, Some(&stale), Bytes::from("head")).await.unwrap_err() {
            StoreError::Unavailable { .. } => return,
            error => {
                assert!(matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::PreconditionFailed), "{error:?}")
            }
        }
    }
    panic!("it does not fail");
}

/// Makes a user of the shared server with the password `secret`, and gives the URL for it.
async fn user(url: &str, rights: &[&str]) -> String {
    let name = ScopeKey::ephemeral().unwrap().to_string();
    let mut words = vec!["ACL", "SETUSER", &name, "on", ">secret", "~*", "&*"];
    words.extend(rights);
    command(url, &words).await;
    format!("redis://{name}:secret@{}", url.rsplit_once('@').unwrap().1)
}

#[tokio::test]
async fn a_redis_that_syncs_every_write_is_durable() {
    let Some(opened) = redis(|_| {}).await else { return };
    assert!(opened.unwrap().is_durable());
}

#[tokio::test]
async fn a_wrong_redis_password_is_denied() {
    let wrong = |config: &mut RedisConfig| config.url = config.url.replace(PASSWORD, "wrong-secret");
    let Some(opened) = redis(wrong).await else { return };
    let error = opened.unwrap_err();
    assert!(matches!(error, RedisError::Denied { .. }), "{error:?}");
    assert!(error.to_string().contains("[snapshots.redis] url"));
}

#[tokio::test]
async fn a_redis_that_is_not_there_is_unreachable_and_said_so() {
    let gone = FaultProxy::start("127.0.0.1:1", NetworkFault::None).address();
    let absent = |config: &mut RedisConfig| config.url = format!("redis://:secret@{gone}");
    let Some(opened) = redis(absent).await else { return };
    let error = opened.unwrap_err();
    assert!(matches!(error, RedisError::Unreachable { .. }), "{error:?}");
    assert!(error.to_string().contains(&gone.port().to_string()), "{error}");
}

#[tokio::test]
async fn settings_of_redis_that_make_no_sense_are_refused() {
    for url in ["", "http://:secret@host", "redis://:secret@host:port"] {
        let Some(opened) = redis(|config| config.url = url.to_owned()).await else { return };
        assert!(matches!(opened.unwrap_err(), RedisError::Address), "{url}");
    }
    for prefix in ["", "{", "a b", &"p".repeat(65)] {
        let Some(opened) = redis(|config| config.prefix = prefix.to_owned()).await else { return };
        assert!(matches!(opened.unwrap_err(), RedisError::Prefix), "{prefix}");
    }
    let Some(opened) = redis(|config| config.prefix = "p".repeat(64)).await else { return };
    opened.unwrap();
}

/// As on managed servers: what it does not say counts as not kept, unless the operator knows better.
#[tokio::test]
async fn a_redis_that_hides_its_settings_is_durable_only_if_told_so() {
    let Some(Redis(config)) = Redis::new() else { return };
    let url = user(&config.url, &["+@all", "-config"]).await;
    for assume_durable in [false, true] {
        let config = RedisConfig { url: url.clone(), assume_durable, ..config.clone() };
        assert_eq!(RedisStore::open(&config).await.unwrap().is_durable(), assume_durable);
    }
}

#[tokio::test]
async fn a_redis_user_that_may_only_read_is_denied() {
    let Some(Redis(config)) = Redis::new() else { return };
    let url = user(&config.url, &["+@read", "+info", "+config|get", "+client", "+hello", "+@connection"]).await;
    let error = RedisStore::open(&RedisConfig { url, ..config }).await.unwrap_err();
    assert!(matches!(error, RedisError::Denied { .. }), "{error:?}");
}

/// The server goes away and comes back under a store that is open.
#[tokio::test]
async fn a_redis_that_comes_back_works_again() {
    let Some(Redis(config)) = Redis::new() else { return };
    let server = config.url.rsplit_once('@').unwrap().1.to_owned();
    let proxy = FaultProxy::start(&server, NetworkFault::None);
    let url = config.url.replace(&server, &proxy.address().to_string());
    let store = RedisStore::open(&RedisConfig { url, ..config }).await.unwrap();
    let (slot, name) = (ScopeKey::ephemeral().unwrap(), ObjectName::parse("store/meta/a").unwrap());
    proxy.set(NetworkFault::Refuses);
    fails_surely(&store).await;
    proxy.set(NetworkFault::None);
    store.put_if_absent(&name, Bytes::from("x")).await.unwrap();
    assert!(store.head_get(&slot).await.unwrap().is_none());
}

async fn postgres(change: impl FnOnce(String) -> String) -> Option<Result<PostgresStore, PostgresError>> {
    let Postgres(url) = Postgres::create().await?;
    let opened = PostgresStore::open(&change(url)).await;
    if let Err(error) = &opened {
        assert!(!shown(error).contains("secret") && !shown(error).contains(PASSWORD));
    }
    Some(opened)
}

#[tokio::test]
async fn a_wrong_postgres_password_is_denied() {
    let Some(opened) = postgres(|url| url.replace(PASSWORD, "wrong-secret")).await else { return };
    assert!(matches!(opened.unwrap_err(), PostgresError::Denied(_)));
}

#[tokio::test]
async fn a_postgres_address_that_is_none_is_refused() {
    let Some(opened) = postgres(|_| "postgres://user:secret@host:port/database".to_owned()).await else { return };
    assert!(matches!(opened.unwrap_err(), PostgresError::Address));
}

#[tokio::test]
async fn a_postgres_that_does_not_wait_for_its_disk_is_not_durable() {
    for (setting, durable) in [("off", false), ("on", true), ("local", true)] {
        let changed = |url: String| format!("{url}?options=-c%20synchronous_commit%3D{setting}");
        let Some(opened) = postgres(changed).await else { return };
        assert_eq!(opened.unwrap().is_durable(), durable, "{setting}");
    }
}

/// Several replicas start at once over an empty database.
#[tokio::test]
async fn the_tables_of_postgres_are_made_once() {
    let Some(Postgres(url)) = Postgres::create().await else { return };
    let opened = futures_util::future::join_all((0..8).map(|_| PostgresStore::open(&url))).await;
    assert!(opened.iter().all(Result::is_ok), "{opened:?}");
}

#[tokio::test]
async fn a_postgres_that_is_gone_leaves_nothing_in_doubt() {
    let Some(Postgres(url)) = Postgres::create().await else { return };
    let server = url.rsplit_once('@').unwrap().1.split('/').next().unwrap().to_owned();
    let proxy = FaultProxy::start(&server, NetworkFault::None);
    let store = PostgresStore::open(&url.replace(&server, &proxy.address().to_string())).await.unwrap();
    proxy.set(NetworkFault::Refuses);
    let name = ObjectName::parse("store/meta/a").unwrap();
    fails_surely(&store).await;
    proxy.set(NetworkFault::None);
    store.put_if_absent(&name, Bytes::from("x")).await.unwrap();
}
