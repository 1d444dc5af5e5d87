//! Paths that a person is asked about whatever the mode: credentials, and files that other programs run.
//!
//! Names are compared without regard to ASCII case, because some of the file systems that a workspace may live on
//! have none.

use crate::path::ContainerPath;

/// Names of files, matched as the last components of a path.
const FILES: &[&[&str]] = &[
    &[".bashrc"],
    &[".bash_profile"],
    &[".zshrc"],
    &[".zprofile"],
    &[".profile"],
    &[".gitconfig"],
    &[".gitmodules"],
    &[".netrc"],
    &[".npmrc"],
    &[".pypirc"],
    &[".env"],
    &[".envrc"],
    &["id_rsa"],
    &["id_ed25519"],
    &["id_ecdsa"],
    &["id_dsa"],
    &[".ssh", "config"],
    &[".ssh", "authorized_keys"],
    &[".aws", "credentials"],
    &[".kube", "config"],
    &[".docker", "config.json"],
];

/// Names of directories, matched anywhere in a path, its end included.
const DIRECTORIES: &[&str] = &[".git", ".ssh", ".aws", ".kube", ".gnupg", ".vscode", ".idea"];

/// Files whose name begins so are dangerous, the templates aside.
const ENV_PREFIX: &str = ".env.";

/// Published on purpose; they hold no secrets.
const ENV_TEMPLATES: &[&str] = &[".env.example", ".env.sample", ".env.template"];

/// Whether a person must be asked before the path is read or written.
#[must_use]
pub fn is_dangerous(path: &ContainerPath) -> bool {
    let in_directory = path.components().any(|part| DIRECTORIES.iter().any(|name| same(part, name)));
    in_directory
        || FILES.iter().any(|suffix| ends_with(path, suffix))
        || path.components().next_back().is_some_and(is_env)
}

fn same(component: &[u8], name: &str) -> bool {
    component.eq_ignore_ascii_case(name.as_bytes())
}

fn ends_with(path: &ContainerPath, suffix: &[&str]) -> bool {
    let mut components = path.components().rev();
    suffix.iter().rev().all(|name| components.next().is_some_and(|part| same(part, name)))
}

fn is_env(name: &[u8]) -> bool {
    name.get(..ENV_PREFIX.len()).is_some_and(|start| same(start, ENV_PREFIX))
        && !ENV_TEMPLATES.iter().any(|template| same(name, template))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap is the test's failure")]
    use super::*;

    fn dangerous(path: &str) -> bool {
        is_dangerous(&ContainerPath::parse(path).unwrap())
    }

    #[test]
    fn every_listed_name_in_any_case_and_place() {
        for suffix in FILES {
            let name = suffix.join("/");
            for path in [format!("/{name}"), format!("/workspace/a/{name}"), format!("/w/{}", name.to_uppercase())] {
                assert!(dangerous(&path), "{path}");
            }
        }
        for name in DIRECTORIES {
            for path in [format!("/{name}"), format!("/w/{name}/x/y"), format!("/w/{}/x", name.to_uppercase())] {
                assert!(dangerous(&path), "{path}");
            }
        }
    }

    #[test]
    fn env_files_but_not_their_templates() {
        for path in ["/w/.env", "/w/.env.local", "/w/.ENV.Production", "/w/.env.example.local", "/w/.env."] {
            assert!(dangerous(path), "{path}");
        }
        for path in ["/w/.env.example", "/w/.env.SAMPLE", "/w/.env.template", "/w/env", "/w/.environment"] {
            assert!(!dangerous(path), "{path}");
        }
        assert!(dangerous("/w/.git/.env.example"));
    }

    #[test]
    fn names_that_only_look_like_it() {
        for path in [
            "/",
            "/w/git",
            "/w/.github/x",
            "/w/.gitignore",
            "/w/config",
            "/w/id_rsa.pub",
            "/w/my.env",
            "/w/.env/x",
            "/w/.ssh2/config",
            "/w/.docker/x",
            "/w/credentials",
        ] {
            assert!(!dangerous(path), "{path}");
        }
    }
}
