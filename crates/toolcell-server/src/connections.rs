//! Taking connections, each within bounds: a client that says half of something holds its place for a while, and no
//! number of clients takes the descriptors that calls and saves need.

use axum::Router;
use axum::serve::Listener;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// Connections of one listener at once, where the process may open enough files; more wait to be accepted.
const MAX_CONNECTIONS: usize = 512;
/// How long a client may take from connecting, or from its last answer, to the end of its next request's headers.
const HEADER_TIMEOUT: Duration = Duration::from_secs(30);

/// A quarter of the process's descriptors for each of the two listeners: the other half is for calls and saves.
fn max_connections() -> usize {
    let files = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    files
        .map_or(MAX_CONNECTIONS, |files| usize::try_from(files / 4).unwrap_or(MAX_CONNECTIONS))
        .clamp(1, MAX_CONNECTIONS)
}

/// Serves connections until `stop`; then lets open requests end.
pub(crate) async fn accept<L: Listener>(mut listener: L, router: Router, stop: &CancellationToken) {
    let places = Arc::new(Semaphore::new(max_connections()));
    let graceful = GracefulShutdown::new();
    let mut connections = JoinSet::new();
    loop {
        // Ended ones are let go as new ones come.
        while connections.try_join_next().is_some() {}
        let next = async {
            let place = Arc::clone(&places).acquire_owned().await;
            (place, listener.accept().await.0)
        };
        let (place, stream) = tokio::select! {
            next = next => next,
            () = stop.cancelled() => break,
        };
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEADER_TIMEOUT)
            .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router.clone()));
        let connection = graceful.watch(connection);
        connections.spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection ended early");
            }
            drop(place);
        });
    }
    drop(listener);
    graceful.shutdown().await;
}
