//! Who may call: keys, roles, and where a request may come from.
//!
//! [`TABLE`] says for every route which role it needs; a test holds it against the router. `Host` and `Origin` are
//! checked on every request of the TCP listener, whatever the mode: a page in a browser must not reach a server on
//! loopback by a name that its author has pointed there.

use crate::problem::Problem;
use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use std::io::Write;
use std::net::IpAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use toolcell_model::TenantId;

/// What a caller may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Anyone, without a key.
    Open,
    /// Make calls, see and cancel its own.
    Caller,
    /// Slots and their snapshots, whoever's they are within the tenant.
    Admin,
    /// The person who owns the data directory, over its socket.
    Operator,
}

/// Every route with the role it needs.
pub const TABLE: [(&str, &str, Role); 26] = [
    ("GET", "/healthz", Role::Open),
    ("GET", "/readyz", Role::Open),
    ("POST", "/v1/calls", Role::Caller),
    ("GET", "/v1/calls", Role::Caller),
    ("GET", "/v1/calls/{call}", Role::Caller),
    ("GET", "/v1/calls/{call}/output/{stream}", Role::Caller),
    ("POST", "/v1/calls/{call}/cancel", Role::Caller),
    ("GET", "/v1/batches/{batch}", Role::Caller),
    ("GET", "/v1/sessions/{session}/permissions", Role::Caller),
    ("PUT", "/v1/sessions/{session}/permissions", Role::Caller),
    ("POST", "/v1/permissions/explain", Role::Caller),
    ("GET", "/v1/activity", Role::Admin),
    ("GET", "/v1/slots", Role::Admin),
    ("POST", "/v1/slots", Role::Admin),
    ("GET", "/v1/slots/{key}", Role::Admin),
    ("DELETE", "/v1/slots/{key}", Role::Admin),
    ("POST", "/v1/slots/{key}/snapshot", Role::Admin),
    ("POST", "/v1/slots/{key}/stop", Role::Admin),
    ("POST", "/v1/slots/{key}/gc", Role::Admin),
    ("POST", "/v1/slots/{key}/verify", Role::Admin),
    ("POST", "/v1/slots/{key}/restore", Role::Admin),
    ("POST", "/v1/slots/{key}/fork", Role::Admin),
    ("GET", "/v1/slots/{key}/snapshots", Role::Admin),
    ("GET", "/v1/slots/{key}/archive", Role::Admin),
    ("PUT", "/v1/slots/{key}/archive", Role::Admin),
    ("POST", "/operator/run", Role::Operator),
];

/// The role that a route needs; `None` for a route that the table does not know, which nobody may use.
fn needed(method: &Method, route: &str) -> Option<Role> {
    TABLE.iter().find(|(verb, path, _)| *verb == method.as_str() && *path == route).map(|(_, _, role)| *role)
}

/// Who a request is from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Principal {
    /// Whose calls it makes and sees.
    pub tenant: TenantId,
    /// It came over the data directory's socket.
    pub operator: bool,
    /// It may loosen what a caller can only tighten: the operator, the admin key, and everyone where no key is asked for.
    pub admin: bool,
}

/// How one listener tells who calls.
#[derive(Debug, Clone)]
pub enum Gate {
    /// By a bearer key.
    Keys {
        /// Hash of the admin key.
        admin: blake3::Hash,
        /// Names that clients may call the server by.
        hosts: Arc<[String]>,
    },
    /// Everyone.
    Everyone {
        /// Names that clients may call the server by.
        hosts: Arc<[String]>,
    },
    /// The socket's own permissions have told already.
    Socket,
}

/// Why there is no admin key.
#[derive(Debug, thiserror::Error)]
#[error("cannot {action} the admin key {path}")]
pub struct AdminKeyError {
    action: &'static str,
    path: PathBuf,
    #[source]
    source: std::io::Error,
}

/// Where the admin key is.
#[must_use]
pub fn admin_key_path(data_dir: &Path) -> PathBuf {
    data_dir.join("admin.key")
}

/// The admin key of a data directory, made at first use.
///
/// # Errors
/// [`AdminKeyError`].
pub fn admin_key(data_dir: &Path) -> Result<String, AdminKeyError> {
    let path = admin_key_path(data_dir);
    let failed = |action| {
        let path = path.clone();
        move |source| AdminKeyError { action, path, source }
    };
    match std::fs::read_to_string(&path) {
        Ok(text) if text.trim().len() >= 32 => return Ok(text.trim().to_owned()),
        Ok(_) => {
            let source = std::io::Error::new(std::io::ErrorKind::InvalidData, "it is too short; remove the file");
            return Err(failed("use")(source));
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => return Err(failed("read")(error)),
    }
    let mut random = [0; 32];
    getrandom::fill(&mut random).map_err(|error| failed("make")(std::io::Error::other(error.to_string())))?;
    let key = format!("tck_{}", data_encoding::BASE64URL_NOPAD.encode(&random));
    let mut file =
        std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path).map_err(failed("write"))?;
    file.write_all(key.as_bytes()).and_then(|()| file.sync_all()).map_err(failed("write"))?;
    Ok(key)
}

/// Lets a request pass with its [`Principal`], or answers it.
pub(crate) async fn check(State(gate): State<Gate>, mut request: Request, next: Next) -> Response {
    match admit(&gate, &request) {
        Ok(principal) => {
            request.extensions_mut().insert(principal);
            next.run(request).await
        }
        Err(problem) => problem.into_response(),
    }
}

fn admit(gate: &Gate, request: &Request) -> Result<Principal, Problem> {
    let route = request.extensions().get::<MatchedPath>().map_or("", MatchedPath::as_str);
    admit_route(gate, route, request)
}

fn admit_route(gate: &Gate, route: &str, request: &Request) -> Result<Principal, Problem> {
    // HEAD is answered by the GET route.
    let method = if request.method() == Method::HEAD { &Method::GET } else { request.method() };
    let Some(needed) = needed(method, route) else {
        return Err(Problem::not_found("there is no such endpoint"));
    };
    let headers = request.headers();
    let caller = Principal { tenant: TenantId::default_tenant(), operator: false, admin: false };
    let admin = Principal { admin: true, ..caller.clone() };
    match gate {
        Gate::Socket => Ok(Principal { operator: true, ..admin }),
        Gate::Everyone { hosts } | Gate::Keys { hosts, .. } => {
            check_origin(headers, hosts)?;
            match (needed, gate) {
                (Role::Operator, _) => Err(forbidden("this is for the data directory's own socket")),
                (Role::Open, _) => Ok(caller),
                (Role::Caller | Role::Admin, Gate::Everyone { .. } | Gate::Socket) => Ok(admin),
                // The one key that there is is the admin's.
                (Role::Caller | Role::Admin, Gate::Keys { admin: key, .. }) => check_key(headers, key).map(|()| admin),
            }
        }
    }
}

fn check_key(headers: &HeaderMap, admin: &blake3::Hash) -> Result<(), Problem> {
    let unauthorized = |detail: &str| Problem::new(StatusCode::UNAUTHORIZED, "unauthorized", detail);
    let Some(value) = headers.get(header::AUTHORIZATION) else {
        return Err(unauthorized("send `Authorization: Bearer KEY`; the admin key is in data_dir/admin.key"));
    };
    let key = value.to_str().ok().and_then(|text| text.strip_prefix("Bearer "));
    // Hashes compare in constant time.
    match key.map(|key| blake3::hash(key.trim().as_bytes())) {
        Some(hash) if hash == *admin => Ok(()),
        Some(_) => Err(unauthorized("this key is not known")),
        None => Err(unauthorized("the Authorization header must be `Bearer KEY`")),
    }
}

fn forbidden(detail: &str) -> Problem {
    Problem::new(StatusCode::FORBIDDEN, "forbidden", detail)
}

/// A name that resolves to this machine is somebody's choice; an IP address is not.
fn check_origin(headers: &HeaderMap, hosts: &[String]) -> Result<(), Problem> {
    let host = headers.get(header::HOST).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let name = host_name(host);
    let known = name == "localhost" || name.parse::<IpAddr>().is_ok() || hosts.iter().any(|known| known == &name);
    if !known {
        return Err(forbidden("the Host header names no host of this server; server.hosts lists the names it has"));
    }
    match headers.get(header::ORIGIN).map(|value| value.to_str()) {
        None => Ok(()),
        Some(Ok(origin)) if origin.split_once("://").is_some_and(|(_, from)| from.eq_ignore_ascii_case(host)) => Ok(()),
        Some(_) => Err(forbidden("the Origin header names another site")),
    }
}

/// Without the port and an IPv6 address's brackets.
fn host_name(host: &str) -> String {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.rsplit_once(':').map_or(host, |(name, _)| name),
    };
    name.to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(header::HeaderName, &str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (name.clone(), value.parse().unwrap())).collect()
    }

    #[test]
    fn names_that_anyone_can_point_here_are_refused() {
        let hosts = ["tools.example".to_owned()];
        for good in ["localhost:7070", "127.0.0.1:7070", "[::1]:7070", "10.0.0.7", "Tools.Example:443"] {
            assert!(check_origin(&headers(&[(header::HOST, good)]), &hosts).is_ok(), "{good}");
        }
        for bad in ["evil.example", "localhost.evil.example:7070", "", "127.0.0.1.evil.example"] {
            assert!(check_origin(&headers(&[(header::HOST, bad)]), &hosts).is_err(), "{bad}");
        }
    }

    #[test]
    fn another_sites_page_is_refused() {
        let from = |origin| check_origin(&headers(&[(header::HOST, "localhost:7070"), (header::ORIGIN, origin)]), &[]);
        assert!(from("http://localhost:7070").is_ok());
        for bad in ["https://evil.example", "http://localhost:8080", "null"] {
            assert!(from(bad).is_err(), "{bad}");
        }
    }

    fn admitted(
        gate: &Gate,
        method: &str,
        route: &str,
        headers: &[(header::HeaderName, &str)],
    ) -> Result<Principal, u16> {
        // Which route matched is known to a request only behind a router.
        let mut request = Request::builder().method(method).uri("/").body(axum::body::Body::empty()).unwrap();
        *request.headers_mut() = self::headers(headers);
        admit_route(gate, route, &request).map_err(|problem| problem.status)
    }

    #[test]
    fn who_may_loosen_a_session() {
        let route = "/v1/sessions/{session}/permissions";
        let local = (header::HOST, "localhost");
        let keys = Gate::Keys { admin: blake3::hash(b"tck_secret"), hosts: Arc::new([]) };
        let everyone = Gate::Everyone { hosts: Arc::new([]) };
        for method in ["GET", "PUT"] {
            let with_key = [local.clone(), (header::AUTHORIZATION, "Bearer tck_secret")];
            let admin = admitted(&keys, method, route, &with_key).unwrap();
            assert_eq!((admin.admin, admin.operator), (true, false));
            assert_eq!(admitted(&keys, method, route, std::slice::from_ref(&local)), Err(401));
            assert!(admitted(&everyone, method, route, std::slice::from_ref(&local)).unwrap().admin);
            let operator = admitted(&Gate::Socket, method, route, &[]).unwrap();
            assert_eq!((operator.admin, operator.operator), (true, true));
        }
        assert_eq!(admitted(&everyone, "DELETE", route, std::slice::from_ref(&local)), Err(404));
        assert!(!admitted(&everyone, "GET", "/healthz", std::slice::from_ref(&local)).unwrap().admin);
    }

    #[test]
    fn only_the_key_itself_is_accepted() {
        let admin = blake3::hash(b"tck_secret");
        let with = |value: &str| check_key(&headers(&[(header::AUTHORIZATION, value)]), &admin).map_err(|p| p.code);
        assert_eq!(with("Bearer tck_secret"), Ok(()));
        for bad in ["tck_secret", "Bearer tck_secre", "Bearer ", "Basic tck_secret"] {
            assert_eq!(with(bad), Err("unauthorized".to_owned()), "{bad}");
        }
        assert!(check_key(&HeaderMap::new(), &admin).is_err());
    }

    #[test]
    fn the_admin_key_is_made_once_and_private() {
        use std::os::unix::fs::PermissionsExt;
        let directory = std::env::temp_dir().join(format!("toolcell-key-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let key = admin_key(&directory).unwrap();
        assert_eq!(admin_key(&directory).unwrap(), key);
        let mode = std::fs::metadata(admin_key_path(&directory)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        std::fs::write(admin_key_path(&directory), "short").unwrap();
        assert!(admin_key(&directory).unwrap_err().source.to_string().contains("too short"));
        std::fs::remove_dir_all(&directory).unwrap();
    }
}
