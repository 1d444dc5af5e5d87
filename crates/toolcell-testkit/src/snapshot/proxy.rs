//! A TCP proxy that is as bad as a network can be.

use std::net::{SocketAddr, TcpListener as StdListener};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// Bytes that are moved at a time.
const PIECE_BYTES: usize = 16 * 1024;

/// What is wrong with the network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NetworkFault {
    /// Nothing.
    None,
    /// Connections are refused.
    Refuses,
    /// Bytes go in and none come out.
    Swallows,
    /// One connection after the other ends when it has moved so many bytes, requests and answers together: the first
    /// number is for the first connection from now on. When the numbers are used up, nothing is wrong any more.
    CutsAfter(Vec<usize>),
    /// As many connections as are said end when an answer would come back; what was asked has been done. The number is
    /// of answers that still come through before, per connection.
    LosesAnswerAfter(Vec<usize>),
    /// So many bytes per second and connection, each way.
    Throttles(usize),
}

/// A proxy in front of a server. It ends when it is dropped.
#[derive(Debug)]
pub struct FaultProxy {
    address: SocketAddr,
    fault: Arc<Mutex<NetworkFault>>,
    ends: CancellationToken,
    connections: Arc<Mutex<CancellationToken>>,
}

impl FaultProxy {
    /// Listens on a free port of the loopback interface, for a server at `host:port`.
    #[must_use]
    pub fn start(server: &str, fault: NetworkFault) -> Self {
        let listener = StdListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let proxy = Self {
            address: listener.local_addr().unwrap(),
            fault: Arc::new(Mutex::new(fault)),
            ends: CancellationToken::new(),
            connections: Arc::default(),
        };
        let (server, fault) = (server.to_owned(), Arc::clone(&proxy.fault));
        let (ends, connections) = (proxy.ends.clone(), Arc::clone(&proxy.connections));
        // A thread and a runtime of its own: each test has its own runtime, and the proxy is made before it.
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let listener = TcpListener::from_std(listener).unwrap();
                let serve = serve(&listener, &server, &fault, &connections);
                ends.run_until_cancelled(serve).await;
            });
        });
        proxy
    }

    /// Where it listens.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Another fault from now on; open connections end, so that all that follow have it.
    pub fn set(&self, fault: NetworkFault) {
        *self.fault.lock().unwrap() = fault;
        std::mem::take(&mut *self.connections.lock().unwrap()).cancel();
    }
}

impl Drop for FaultProxy {
    fn drop(&mut self) {
        self.ends.cancel();
    }
}

/// What one connection may do before it ends.
#[derive(Debug, Clone, Copy)]
struct Budget {
    bytes: Option<usize>,
    answers: Option<usize>,
    per_second: Option<usize>,
}

async fn serve(
    listener: &TcpListener,
    server: &str,
    fault: &Mutex<NetworkFault>,
    connections: &Mutex<CancellationToken>,
) {
    let mut open = JoinSet::new();
    loop {
        let Ok((client, _)) = listener.accept().await else { continue };
        while open.try_join_next().is_some() {}
        let mut budget = Budget { bytes: None, answers: None, per_second: None };
        match &mut *fault.lock().unwrap() {
            NetworkFault::None => {}
            NetworkFault::Refuses => continue,
            NetworkFault::Swallows => {
                let ends = connections.lock().unwrap().clone();
                open.spawn(async move {
                    ends.cancelled().await;
                    drop(client);
                });
                continue;
            }
            NetworkFault::CutsAfter(cuts) => {
                budget.bytes = (!cuts.is_empty()).then(|| cuts.remove(0));
            }
            NetworkFault::LosesAnswerAfter(answers) => {
                budget.answers = (!answers.is_empty()).then(|| answers.remove(0));
            }
            NetworkFault::Throttles(per_second) => budget.per_second = Some(*per_second),
        }
        let (server, ends) = (server.to_owned(), connections.lock().unwrap().clone());
        open.spawn(async move {
            if let Ok(server) = TcpStream::connect(&server).await {
                ends.run_until_cancelled(connection(client, server, budget)).await;
            }
        });
    }
}

/// Moves bytes both ways until one side ends or the budget does; both sides are closed then.
async fn connection(client: TcpStream, server: TcpStream, budget: Budget) {
    drop((client.set_nodelay(true), server.set_nodelay(true)));
    let ((client_in, client_out), (server_in, server_out)) = (client.into_split(), server.into_split());
    let left = Mutex::new(budget);
    tokio::select! {
        () = pump(client_in, server_out, &left, false) => {}
        () = pump(server_in, client_out, &left, true) => {}
    }
}

async fn pump(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, left: &Mutex<Budget>, answers: bool) {
    let mut piece = vec![0; PIECE_BYTES];
    loop {
        let Ok(len @ 1..) = from.read(&mut piece).await else { return };
        let (len, last) = {
            let mut left = left.lock().unwrap();
            if answers && let Some(answers) = &mut left.answers {
                if *answers == 0 {
                    return;
                }
                *answers -= 1;
            }
            match &mut left.bytes {
                Some(bytes) => {
                    let len = len.min(*bytes);
                    *bytes -= len;
                    (len, *bytes == 0)
                }
                None => (len, false),
            }
        };
        let per_second = left.lock().unwrap().per_second;
        if let Some(per_second) = per_second {
            tokio::time::sleep(Duration::from_secs_f64(len as f64 / per_second as f64)).await;
        }
        if to.write_all(&piece[..len]).await.is_err() || last {
            return;
        }
    }
}
