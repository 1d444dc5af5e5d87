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

/// Connections of one listener at once; more wait to be accepted. The command line raises the limit of open files
/// well above twice this.
const MAX_CONNECTIONS: usize = 512;
/// How long a client may take from connecting, or from its last answer, to the end of its next request's headers.
const HEADER_TIMEOUT: Duration = Duration::from_secs(30);

/// Serves connections until `stop`; then lets open requests end.
pub(crate) async fn accept<L: Listener>(mut listener: L, router: Router, stop: &CancellationToken) {
    let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
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
