//! A few connections that are made when they are needed, and made anew when they have failed.

use super::failure::{Effect, failure};
use crate::error::StoreError;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, Cmd, ErrorKind, FromRedisValue, Pipeline, RedisError, ServerErrorKind};
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::Mutex;

/// So many: requests on one connection wait for each other's bytes.
const LANES: usize = 4;
/// A server that takes longer to accept a connection cannot be reached.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// A request, of at most one part, that takes longer has failed: a read is unavailable, a write in doubt.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

#[derive(Default)]
struct Lane(Mutex<(u64, Option<MultiplexedConnection>)>);

/// Connections to one server.
pub(super) struct Connections {
    client: Client,
    place: String,
    config: AsyncConnectionConfig,
    lanes: [Lane; LANES],
    next: AtomicUsize,
}

/// Without the client, which holds the password.
impl fmt::Debug for Connections {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connections").field("place", &self.place).finish_non_exhaustive()
    }
}

impl Connections {
    /// Connects to nothing yet.
    pub(super) fn new(url: &str) -> Result<Self, RedisError> {
        let client = Client::open(url)?;
        let place = format!("Redis at {}", client.get_connection_info().addr());
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(CONNECT_TIMEOUT))
            .set_response_timeout(Some(REQUEST_TIMEOUT));
        Ok(Self { client, place, config, lanes: Default::default(), next: AtomicUsize::new(0) })
    }

    /// Which server, for messages.
    pub(super) fn place(&self) -> &str {
        &self.place
    }

    /// Sends one command.
    pub(super) async fn command<T: FromRedisValue>(
        &self,
        object: &str,
        effect: Effect,
        command: &Cmd,
    ) -> Result<T, StoreError> {
        self.try_command(object, command).await?.map_err(|error| failure(object, effect, error))
    }

    /// Sends commands that only read.
    pub(super) async fn read_all<T: FromRedisValue>(&self, object: &str, commands: &Pipeline) -> Result<T, StoreError> {
        let (lane, epoch, mut connection) = self.connection(object).await?;
        let result = commands.query_async(&mut connection).await;
        lane.settle(epoch, result).await.map_err(|error| failure(object, Effect::Hidden, error))
    }

    /// Runs a script, which the server may not know yet.
    pub(super) async fn script<T: FromRedisValue>(
        &self,
        object: &str,
        effect: Effect,
        script: &redis::Script,
        text: &str,
        arguments: impl Fn(&mut Cmd),
    ) -> Result<T, StoreError> {
        let mut known = redis::cmd("EVALSHA");
        known.arg(script.get_hash());
        arguments(&mut known);
        match self.try_command(object, &known).await? {
            Err(error) if error.kind() == ErrorKind::Server(ServerErrorKind::NoScript) => {
                let mut unknown = redis::cmd("EVAL");
                unknown.arg(text);
                arguments(&mut unknown);
                self.command(object, effect, &unknown).await
            }
            result => result.map_err(|error| failure(object, effect, error)),
        }
    }

    /// The outer error means that nothing was sent.
    async fn try_command<T: FromRedisValue>(
        &self,
        object: &str,
        command: &Cmd,
    ) -> Result<Result<T, RedisError>, StoreError> {
        let (lane, epoch, mut connection) = self.connection(object).await?;
        let result = command.query_async(&mut connection).await;
        Ok(lane.settle(epoch, result).await)
    }

    async fn connection(&self, object: &str) -> Result<(&Lane, u64, MultiplexedConnection), StoreError> {
        let at = self.next.fetch_add(1, Ordering::Relaxed) % LANES;
        let lane = self.lanes.get(at).ok_or_else(|| StoreError::internal(object, "no such lane"))?;
        let mut held = lane.0.lock().await;
        if let (epoch, Some(connection)) = &*held {
            return Ok((lane, *epoch, connection.clone()));
        }
        let made = self.client.get_multiplexed_async_connection_with_config(&self.config).await;
        // Nothing of the request is sent before there is a connection.
        let connection = made.map_err(|error| failure(object, Effect::Hidden, error))?;
        held.0 = held.0.wrapping_add(1);
        held.1 = Some(connection.clone());
        Ok((lane, held.0, connection))
    }
}

impl Lane {
    /// A connection that has failed, or whose answers are late, is not used again.
    async fn settle<T>(&self, epoch: u64, result: Result<T, RedisError>) -> Result<T, RedisError> {
        if result.as_ref().is_err_and(|error| error.is_io_error() || error.is_unrecoverable_error()) {
            let mut held = self.0.lock().await;
            if held.0 == epoch {
                held.1 = None;
            }
        }
        result
    }
}
