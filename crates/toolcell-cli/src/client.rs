//! A small HTTP client: one request over the data directory's socket or to a server's address.

use crate::failure::Failure;
use http_body_util::BodyExt;
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::header::HeaderName;
use hyper::{Method, Request, Response, StatusCode, Uri, header};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use std::path::{Path, PathBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio::task::JoinSet;
use toolcell_server::{Body, InProcess};

/// Where a server is.
#[derive(Debug, Clone)]
pub(crate) enum Server {
    /// The one that holds the data directory.
    Socket(PathBuf),
    /// One with an address.
    Address { uri: Uri, key: Option<String> },
    /// This process itself.
    Here(InProcess),
}

/// An answer whose body is still to be read.
#[derive(Debug)]
pub(crate) struct Answer {
    response: Response<Body>,
    /// Moves the connection's bytes; ends with this answer.
    _connection: JoinSet<()>,
}

impl Server {
    /// The server of this data directory, if one listens.
    pub(crate) async fn of_data_dir(data_dir: &Path) -> Option<Self> {
        let path = toolcell_server::serve::socket_path(data_dir);
        UnixStream::connect(&path).await.ok().map(|_| Self::Socket(path))
    }

    pub(crate) fn at(url: &str, key: Option<String>) -> Result<Self, Failure> {
        let what = "the server's address cannot be used";
        let uri: Uri = url.parse().map_err(|error| Failure::of(what, &error))?;
        if uri.scheme_str() != Some("http") || uri.host().is_none() {
            return Err(Failure::new(what, format!("{url:?} is not of the form http://HOST:PORT")));
        }
        Ok(Self::Address { uri, key })
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Result<Answer, Failure> {
        self.send(Method::POST, path, &[(header::CONTENT_TYPE, "application/json")], Body::from(body.to_string())).await
    }

    pub(crate) async fn get(&self, path: &str) -> Result<Answer, Failure> {
        self.send(Method::GET, path, &[], Body::empty()).await
    }

    /// One request on a connection of its own. A body that fails while it is sent breaks the request off.
    pub(crate) async fn send(
        &self,
        method: Method,
        path: &str,
        headers: &[(HeaderName, &str)],
        body: Body,
    ) -> Result<Answer, Failure> {
        let failed = |error: &dyn std::error::Error| Failure::of("the server cannot be reached", error);
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(name, *value);
        }
        let request = match self {
            Self::Socket(_) | Self::Here(_) => request.header(header::HOST, "localhost"),
            Self::Address { uri, key } => {
                let request = request.header(header::HOST, uri.authority().map_or("", |host| host.as_str()));
                match key {
                    Some(key) => request.header(header::AUTHORIZATION, format!("Bearer {key}")),
                    None => request,
                }
            }
        };
        let request = request.body(body).map_err(|error| failed(&error))?;
        let mut tasks = JoinSet::new();
        let sent = match self {
            Self::Here(server) => {
                return Ok(Answer { response: server.request(request).await, _connection: tasks });
            }
            Self::Socket(path) => {
                let stream = UnixStream::connect(path).await.map_err(|error| failed(&error))?;
                let (mut sender, connection) =
                    http1::handshake(TokioIo::new(stream)).await.map_err(|error| failed(&error))?;
                tasks.spawn(async move { drop(connection.await) });
                sender.send_request(request).await
            }
            Self::Address { uri, .. } => {
                let (host, port) = (uri.host().unwrap_or_default(), uri.port_u16().unwrap_or(80));
                let host = host.trim_start_matches('[').trim_end_matches(']');
                let stream = TcpStream::connect((host, port)).await.map_err(|error| failed(&error))?;
                let (mut sender, connection) =
                    http1::handshake(TokioIo::new(stream)).await.map_err(|error| failed(&error))?;
                tasks.spawn(async move { drop(connection.await) });
                sender.send_request(request).await
            }
        };
        let response = sent.map_err(|error| failed(&error))?;
        Ok(Answer { response: response.map(Body::new), _connection: tasks })
    }
}

impl Answer {
    /// The whole body as JSON; a problem document is a failure.
    pub(crate) async fn json(self) -> Result<Value, Failure> {
        let status = self.response.status();
        let broken = |error: &dyn std::error::Error| Failure::of("the server's answer broke off", error);
        let body = self.response.into_body().collect().await.map_err(|error| broken(&error))?.to_bytes();
        let json: Value = serde_json::from_slice(&body).map_err(|error| broken(&error))?;
        if status.is_success() { Ok(json) } else { Err(refusal(status, &json)) }
    }

    /// The next piece of a body that comes bit by bit; `None` at its end.
    pub(crate) async fn piece(&mut self) -> Result<Option<Bytes>, Failure> {
        loop {
            match self.response.body_mut().frame().await {
                None => return Ok(None),
                Some(Err(error)) => return Err(Failure::of("the server's answer broke off", &error)),
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        return Ok(Some(data));
                    }
                }
            }
        }
    }

    pub(crate) fn is_success(&self) -> bool {
        self.response.status().is_success()
    }
}

fn refusal(status: StatusCode, problem: &Value) -> Failure {
    let text = |name: &str| problem.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let failure =
        Failure::new(format!("the server answered {status}"), format!("{}: {}", text("code"), text("detail")));
    if let Some(hint) = problem.get("hint").and_then(Value::as_str) {
        return failure.hint(hint);
    }
    match status {
        StatusCode::UNAUTHORIZED => failure.hint("--key KEY, or the variable TOOLCELL_KEY"),
        _ => failure,
    }
}
