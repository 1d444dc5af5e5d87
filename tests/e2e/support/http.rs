//! One HTTP/1.1 request over TCP or a Unix socket.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

/// Nothing that a test asks for takes longer.
const TIMEOUT: Duration = Duration::from_secs(120);

/// Where a server is.
#[derive(Debug, Clone)]
pub(crate) enum Target {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

/// A whole answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    head: String,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let fields = self.head.lines().skip(1).filter_map(|line| line.split_once(':'));
        fields.into_iter().find(|(field, _)| field.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
    }

    #[track_caller]
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// It must be a problem document of this status; answers with its code and detail.
    #[track_caller]
    pub(crate) fn problem(&self, status: u16) -> (String, String) {
        assert_eq!(self.status, status, "{}", self.text());
        assert_eq!(self.header("content-type"), Some("application/problem+json"), "{}", self.text());
        let json = self.json();
        assert_eq!(json["status"], status, "{json}");
        assert!(json["type"].is_string() && json["title"].is_string(), "{json}");
        (json["code"].as_str().unwrap().to_owned(), json["detail"].as_str().unwrap().to_owned())
    }
}

/// Sends a request on a connection of its own.
pub(crate) fn send(
    target: &Target,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> io::Result<Answer> {
    match target {
        Target::Tcp(address) => {
            let stream = TcpStream::connect(address)?;
            stream.set_read_timeout(Some(TIMEOUT))?;
            exchange(stream, &request(method, path, headers, &address.to_string(), body))
        }
        Target::Unix(socket) => {
            let stream = UnixStream::connect(socket)?;
            stream.set_read_timeout(Some(TIMEOUT))?;
            exchange(stream, &request(method, path, headers, "localhost", body))
        }
    }
}

/// The request's bytes; a `Host` among the headers takes the place of the usual one.
pub(crate) fn request(method: &str, path: &str, headers: &[(&str, &str)], host: &str, body: &[u8]) -> Vec<u8> {
    let mut text = format!("{method} {path} HTTP/1.1\r\nConnection: close\r\nContent-Length: {}\r\n", body.len());
    if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
        text.push_str(&format!("Host: {host}\r\n"));
    }
    if !body.is_empty() {
        text.push_str("Content-Type: application/json\r\n");
    }
    for (name, value) in headers {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    text.push_str("\r\n");
    [text.as_bytes(), body].concat()
}

fn exchange(mut stream: impl Read + Write, request: &[u8]) -> io::Result<Answer> {
    // A server may refuse a body before it has read all of it: what it answered is what counts.
    let written = stream.write_all(request);
    let mut bytes = Vec::new();
    match (stream.read_to_end(&mut bytes), written) {
        (Ok(_), Ok(())) => {}
        (_, Err(error)) | (Err(error), _) if bytes.is_empty() => return Err(error),
        _ => {}
    }
    parse(&bytes)
}

fn parse(bytes: &[u8]) -> io::Result<Answer> {
    let broken = |why: &str| io::Error::new(io::ErrorKind::InvalidData, why.to_owned());
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n").ok_or_else(|| broken("no end of the headers"))?;
    let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
    let status = head.split(' ').nth(1).and_then(|word| word.parse().ok()).ok_or_else(|| broken("no status"))?;
    let mut answer = Answer { status, head, body: bytes[end + 4..].to_vec() };
    if answer.header("transfer-encoding").is_some_and(|value| value.eq_ignore_ascii_case("chunked")) {
        answer.body = unchunk(&answer.body).ok_or_else(|| broken("chunks that break off"))?;
    } else if let Some(length) = answer.header("content-length").and_then(|length| length.parse::<usize>().ok())
        && answer.body.len() < length
    {
        return Err(broken("the body breaks off"));
    }
    Ok(answer)
}

fn unchunk(mut rest: &[u8]) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let line = rest.windows(2).position(|two| two == b"\r\n")?;
        let size = std::str::from_utf8(&rest[..line]).ok()?.split(';').next()?;
        let size = usize::from_str_radix(size.trim(), 16).ok()?;
        rest = &rest[line + 2..];
        if size == 0 {
            return Some(body);
        }
        body.extend_from_slice(rest.get(..size)?);
        rest = rest.get(size + 2..)?;
    }
}
