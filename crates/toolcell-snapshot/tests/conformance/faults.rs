//! The suite once more, over stores and networks with troubles, through the store that retries.

use super::{Local, Postgres, Redis, Sqlite};
use async_trait::async_trait;
use std::sync::Arc;
use std::time::Duration;
use toolcell_snapshot::{PostgresStore, RedisConfig, RedisStore, RetryStore, SnapshotStore};
use toolcell_testkit::snapshot::{FaultProxy, NetworkFault, StoreHarness, Trouble, TroubledStore};

/// Any store with a trouble of its own.
struct Troubled<H>(H, Trouble);

impl<H: StoreHarness> Troubled<H> {
    fn some(harness: Option<H>, trouble: Trouble) -> Option<Self> {
        Some(Self(harness?, trouble))
    }
}

#[async_trait]
impl<H: StoreHarness> StoreHarness for Troubled<H> {
    async fn store(&self) -> Arc<dyn SnapshotStore> {
        let troubled = TroubledStore::new(self.0.store().await, self.1);
        Arc::new(RetryStore::new(Arc::new(troubled)))
    }

    fn loses_answers(&self) -> bool {
        matches!(self.1, Trouble::LosesFirst(_))
    }
}

/// A server behind a bad network.
struct Behind<H> {
    server: H,
    proxy: FaultProxy,
    loses_answers: bool,
}

/// Opens a store at another address.
#[async_trait]
trait Server: Send + Sync {
    /// `host:port`
    fn address(&self) -> String;

    async fn open(&self, address: &str) -> Result<Arc<dyn SnapshotStore>, String>;
}

impl<H: Server> Behind<H> {
    fn some(server: Option<H>, fault: NetworkFault) -> Option<Self> {
        let server = server?;
        let loses_answers = !matches!(fault, NetworkFault::Throttles(_));
        let proxy = FaultProxy::start(&server.address(), fault);
        Some(Self { server, proxy, loses_answers })
    }
}

#[async_trait]
impl<H: Server> StoreHarness for Behind<H> {
    async fn store(&self) -> Arc<dyn SnapshotStore> {
        let address = self.proxy.address().to_string();
        // Opening is not retried by the store: who starts a server sees why it does not start.
        let mut opened = self.server.open(&address).await;
        while let (Err(error), true) = (&opened, self.loses_answers) {
            eprintln!("opened again: {error}");
            opened = self.server.open(&address).await;
        }
        Arc::new(RetryStore::new(opened.unwrap()))
    }

    fn loses_answers(&self) -> bool {
        self.loses_answers
    }
}

/// The `host:port` in a URL, and the URL with another one.
fn host(url: &str) -> &str {
    url.rsplit_once('@').unwrap().1.split('/').next().unwrap()
}

#[async_trait]
impl Server for Redis {
    fn address(&self) -> String {
        host(&self.0.url).to_owned()
    }

    async fn open(&self, address: &str) -> Result<Arc<dyn SnapshotStore>, String> {
        let config = RedisConfig { url: self.0.url.replace(host(&self.0.url), address), ..self.0.clone() };
        let store = RedisStore::open(&config).await.map_err(|error| format!("{error:?}"))?;
        Ok(Arc::new(store))
    }
}

#[async_trait]
impl Server for Postgres {
    fn address(&self) -> String {
        host(&self.0).to_owned()
    }

    async fn open(&self, address: &str) -> Result<Arc<dyn SnapshotStore>, String> {
        let store = PostgresStore::open(&self.0.replace(host(&self.0), address)).await;
        Ok(Arc::new(store.map_err(|error| format!("{error:?}"))?))
    }
}

/// Three connections in all end within a test; each operation is tried four times.
fn cuts() -> NetworkFault {
    NetworkFault::CutsAfter(vec![5_000, 9_000, 200_000])
}

/// What was asked is done, and the connection ends instead of the answer: early and late.
fn losses() -> NetworkFault {
    NetworkFault::LosesAnswerAfter(vec![12, 3, 25])
}

/// The largest object of the suite takes about two seconds.
const SLOW_NETWORK: NetworkFault = NetworkFault::Throttles(64 * 1024 * 1024);

macro_rules! with_troubles {
    ($name:ident, $make:expr) => {
        mod $name {
            use super::*;
            toolcell_testkit::snapshot_store_conformance!(fails_first, Troubled::some($make, Trouble::FailsFirst(2)));
            toolcell_testkit::snapshot_store_conformance!(loses_answers, Troubled::some($make, Trouble::LosesFirst(1)));
            toolcell_testkit::snapshot_store_conformance!(
                slow,
                Troubled::some($make, Trouble::Slow(Duration::from_millis(3)))
            );
        }
    };
}

with_troubles!(local, Some(Local(tempfile::tempdir().unwrap())));
with_troubles!(sqlite, Some(Sqlite(tempfile::tempdir().unwrap())));
with_troubles!(redis, Redis::new());
with_troubles!(postgres, Postgres::new());

macro_rules! behind_a_network {
    ($name:ident, $make:expr) => {
        mod $name {
            use super::*;
            toolcell_testkit::snapshot_store_conformance!(cut, Behind::some($make, cuts()));
            toolcell_testkit::snapshot_store_conformance!(lost_answers, Behind::some($make, losses()));
            toolcell_testkit::snapshot_store_conformance!(throttled, Behind::some($make, SLOW_NETWORK));
        }
    };
}

behind_a_network!(redis_behind, Redis::new());
behind_a_network!(postgres_behind, Postgres::new());
