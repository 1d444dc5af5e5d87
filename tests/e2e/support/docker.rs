//! The container engine, asked directly: what the program says of its containers is not evidence.

use super::http::{Answer, Target, send};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// The engine that the program uses by default.
#[derive(Debug, Clone)]
pub(crate) struct Docker {
    socket: PathBuf,
}

impl Docker {
    /// The engine, if it answers.
    pub(crate) fn connect() -> Option<Self> {
        let host = std::env::var("DOCKER_HOST").ok().filter(|host| !host.is_empty());
        let host = host.unwrap_or_else(|| "unix:///var/run/docker.sock".to_owned());
        let docker = Self { socket: PathBuf::from(host.strip_prefix("unix://")?) };
        let answer = send(&Target::Unix(docker.socket.clone()), "GET", "/_ping", &[], b"").ok()?;
        (answer.status == 200).then_some(docker)
    }

    pub(crate) fn socket(&self) -> &Path {
        &self.socket
    }

    fn send(&self, method: &str, path: &str, body: &str) -> Answer {
        send(&Target::Unix(self.socket.clone()), method, path, &[], body.as_bytes()).expect("the engine answers")
    }

    /// All containers of the engine, running or not.
    pub(crate) fn containers(&self) -> Vec<Value> {
        let answer = self.send("GET", "/containers/json?all=1", "");
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.json().as_array().expect("a list").clone()
    }

    /// Names of the containers that have something beneath this directory mounted: every container that a program
    /// with this data directory makes does, whatever its labels say.
    pub(crate) fn containers_with(&self, directory: &Path) -> Vec<String> {
        let beneath = |container: &Value| {
            let mounts = container["Mounts"].as_array().into_iter().flatten();
            mounts.filter_map(|mount| mount["Source"].as_str()).any(|source| Path::new(source).starts_with(directory))
        };
        let name = |container: &Value| container["Names"][0].as_str().unwrap_or("?").trim_start_matches('/').to_owned();
        self.containers().iter().filter(|container| beneath(container)).map(name).collect()
    }

    pub(crate) fn inspect(&self, name: &str) -> Value {
        let answer = self.send("GET", &format!("/containers/{name}/json"), "");
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.json()
    }

    pub(crate) fn exists(&self, name: &str) -> bool {
        self.send("GET", &format!("/containers/{name}/json"), "").status == 200
    }

    /// Makes a container that is never started.
    pub(crate) fn create(&self, name: &str, labels: &Value) {
        let body = serde_json::json!({ "Image": "toolcell-test/busybox", "Cmd": ["true"], "Labels": labels });
        let answer = self.send("POST", &format!("/containers/create?name={name}"), &body.to_string());
        assert_eq!(answer.status, 201, "{}", answer.text());
    }

    /// `docker rm -f`; one that is gone already is fine.
    pub(crate) fn remove(&self, name: &str) {
        let answer = self.send("DELETE", &format!("/containers/{name}?force=1&v=1"), "");
        assert!([204, 404, 409].contains(&answer.status), "{}", answer.text());
    }
}
