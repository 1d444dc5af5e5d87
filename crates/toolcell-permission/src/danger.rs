//! Paths that a person is asked about whatever the mode: credentials, and files that other programs run.
//!
//! Names are compared without regard to ASCII case, because some of the file systems that a workspace may live on
//! have none.

mod pattern;

use crate::path::ContainerPath;
use crate::shell::facts::Target;
pub(crate) use pattern::Pattern;

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

/// A name that must be known this far before the rest of it is guessed, unless it begins with a dot: any word may
/// begin with an `i`.
const GUESSED_FROM: usize = 3;

/// What is dangerous besides what always is: a tool's own names.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Dangers {
    files: Vec<Vec<String>>,
    directories: Vec<Vec<String>>,
}

/// What is dangerous where no tool adds to it.
static ALWAYS: Dangers = Dangers { files: Vec::new(), directories: Vec::new() };

impl Dangers {
    /// With these names of files and directories as well. A name of several segments (`.config/gh`) matches them in
    /// sequence; files are the last segments of a path, directories stand anywhere in it. A name without any segment
    /// matches nothing.
    #[must_use]
    pub fn with(files: &[impl AsRef<str>], directories: &[impl AsRef<str>]) -> Self {
        fn segments(names: &[impl AsRef<str>]) -> Vec<Vec<String>> {
            let split = |name: &str| name.split('/').filter(|part| !part.is_empty()).map(str::to_owned).collect();
            names.iter().map(|name| split(name.as_ref())).filter(|parts: &Vec<String>| !parts.is_empty()).collect()
        }
        Self { files: segments(files), directories: segments(directories) }
    }

    /// Whether a person must be asked before the path is read or written.
    #[must_use]
    pub fn is_dangerous(&self, path: &ContainerPath) -> bool {
        let own = !self.files.is_empty() || !self.directories.is_empty();
        in_listed(path) || (own && self.finds_own(&path.components().collect::<Vec<_>>(), same))
    }

    /// Whether a name that the pattern matches could be dangerous. The pattern is absolute, in the shell's syntax: a
    /// name that begins with a dot is matched only by a part that does as well, and a lone `*` stands for ordinary
    /// names.
    #[must_use]
    pub fn could_be_dangerous(&self, pattern: &str) -> bool {
        let parts: Vec<Pattern> = pattern.split('/').filter(|part| !part.is_empty()).map(Pattern::read).collect();
        let could = |part: &Pattern, name: &str| part.could_match(name);
        DIRECTORIES.iter().any(|name| parts.iter().any(|part| part.could_match(name)))
            || FILES.iter().any(|names| ends(&parts, names, could))
            || parts.last().is_some_and(could_be_env)
            || self.finds_own(&parts, could)
    }

    /// Whether a path that begins so could be dangerous, as far as its beginning tells: a dangerous directory in it,
    /// or a last name that is the beginning of a dangerous one.
    #[must_use]
    pub fn prefix_is_dangerous(&self, prefix: &str) -> bool {
        let (directory, name) = prefix.rsplit_once('/').unwrap_or(("", prefix));
        if name.starts_with('.') || name.len() >= GUESSED_FROM {
            let mut pattern = String::with_capacity(prefix.len().saturating_add(1));
            for c in prefix.chars() {
                if matches!(c, '*' | '?' | '[' | '\\') {
                    pattern.push('\\');
                }
                pattern.push(c);
            }
            // The unknown rest may go on with a slash, so the name may be whole.
            self.could_be_dangerous(&format!("{pattern}*")) || self.could_be_dangerous(&pattern)
        } else {
            ContainerPath::parse(&format!("/{directory}")).is_ok_and(|path| self.is_dangerous(&path))
        }
    }

    /// Whether a file that the target names could be dangerous.
    #[must_use]
    pub fn target_is_dangerous(&self, target: &Target) -> bool {
        match target {
            Target::Known(paths) => paths.iter().any(|path| self.is_dangerous(path)),
            Target::Glob(patterns) => patterns.iter().any(|pattern| self.could_be_dangerous(pattern)),
            Target::Unknown(prefix) => self.prefix_is_dangerous(prefix),
        }
    }

    fn finds_own<T>(&self, parts: &[T], same: impl Fn(&T, &str) -> bool + Copy) -> bool {
        self.files.iter().any(|names| ends(parts, names, same))
            || self.directories.iter().any(|names| {
                parts.windows(names.len()).any(|window| window.iter().zip(names).all(|(part, name)| same(part, name)))
            })
    }
}

/// Whether a person must be asked before the path is read or written.
#[must_use]
pub fn is_dangerous(path: &ContainerPath) -> bool {
    in_listed(path)
}

/// [`Dangers::could_be_dangerous`] where no tool adds names.
#[must_use]
pub fn could_be_dangerous(pattern: &str) -> bool {
    ALWAYS.could_be_dangerous(pattern)
}

/// [`Dangers::prefix_is_dangerous`] where no tool adds names.
#[must_use]
pub fn prefix_is_dangerous(prefix: &str) -> bool {
    ALWAYS.prefix_is_dangerous(prefix)
}

/// [`Dangers::target_is_dangerous`] where no tool adds names.
#[must_use]
pub fn target_is_dangerous(target: &Target) -> bool {
    ALWAYS.target_is_dangerous(target)
}

/// Every dangerous name that is one segment, and `.env.local` for its family.
pub(crate) fn single_names() -> impl Iterator<Item = &'static str> {
    let files = FILES.iter().filter_map(|names| match names {
        [name] => Some(*name),
        _ => None,
    });
    files.chain(DIRECTORIES.iter().copied()).chain([".env.local"])
}

fn in_listed(path: &ContainerPath) -> bool {
    let in_directory = path.components().any(|part| DIRECTORIES.iter().any(|name| same(&part, name)));
    in_directory
        || FILES.iter().any(|suffix| ends_with(path, suffix))
        || path.components().next_back().is_some_and(is_env)
}

fn same(component: &&[u8], name: &str) -> bool {
    component.eq_ignore_ascii_case(name.as_bytes())
}

fn ends_with(path: &ContainerPath, suffix: &[&str]) -> bool {
    let mut components = path.components().rev();
    suffix.iter().rev().all(|name| components.next().is_some_and(|part| same(&part, name)))
}

fn ends<T, N: AsRef<str>>(parts: &[T], names: &[N], same: impl Fn(&T, &str) -> bool) -> bool {
    let mut parts = parts.iter().rev();
    names.iter().rev().all(|name| parts.next().is_some_and(|part| same(part, name.as_ref())))
}

fn is_env(name: &[u8]) -> bool {
    name.get(..ENV_PREFIX.len()).is_some_and(|start| same(&start, ENV_PREFIX))
        && !ENV_TEMPLATES.iter().any(|template| same(&name, template))
}

fn could_be_env(part: &Pattern) -> bool {
    match part.literal() {
        Some(name) => is_env(name.as_bytes()),
        None => part.could_begin(ENV_PREFIX),
    }
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
    fn what_a_pattern_could_match() {
        for pattern in [
            "/w/.e*",
            "/w/.en?",
            "/w/.[e]nv",
            "/w/.[!x]nv",
            "/w/*/.env",
            "/w/.ssh/*",
            "/w/.*",
            "/w/.EN?",
            "/w/.env.*",
            "/w/.env.[lp]*",
            "/w/id_*",
            "/w/*_rsa",
            "/w/i[a-e]_rsa",
            "/w/.s*/x",
            "/w/.aws/c*",
            "/w/.docker/*.json",
            "/w/.env.loca?",
            "/w/.e\\nv",
            "/w/.???",
            "/w/.[[:alpha:]]nv",
            "/w/.git*",
            "/w/.[.a-z]*",
            "/home/*/.netrc",
            "/w/.[e-]nv",
            "/w/**/.env",
            "/w/.env*",
        ] {
            assert!(could_be_dangerous(pattern), "{pattern}");
        }
        for pattern in [
            "/w/*",
            "/w/*.py",
            "/w/src/*.rs",
            "/w/?env",
            "/w/[.]env",
            "/w/*env",
            "/w/*.env",
            "/w/.gith*",
            "/w/.x*",
            "/w/.[!eE]nv",
            "/w/.e\\*",
            "/w/**",
            "/w/*/*",
            "/w/id_*.pub",
            "/w/.env.example",
            "/",
            "/w/.envi*",
            "/w/c*",
            "/w/.ssh?/x",
            "/w/.[a-d]nv",
        ] {
            assert!(!could_be_dangerous(pattern), "{pattern}");
        }
    }

    #[test]
    fn what_a_beginning_could_become() {
        for prefix in ["/home/a/.ssh/", "/w/.git/x", "/w/.e", ".env", "/w/.env.", "/w/id_", "/w/.", ".ssh/", "/w/.g"] {
            assert!(prefix_is_dangerous(prefix), "{prefix}");
        }
        for prefix in ["", "/", "/w/", "/w/i", "src/", "/w/index_", "/w/.github/", "/w/.x", "/w/*"] {
            assert!(!prefix_is_dangerous(prefix), "{prefix}");
        }
    }

    #[test]
    fn a_tool_adds_names() {
        let own = Dangers::with(&["secret.txt", "conf/key.pem", "//"], &["vault", ".config/gh"]);
        let is = |path: &str| own.is_dangerous(&ContainerPath::parse(path).unwrap());
        for path in ["/w/Secret.TXT", "/w/conf/key.pem", "/w/vault/x", "/vault", "/w/.config/gh/hosts", "/w/.env"] {
            assert!(is(path), "{path}");
            assert!(own.could_be_dangerous(path), "{path}");
        }
        for path in ["/w/key.pem", "/w/conf/key.pem/x", "/w/.config/x", "/w/gh", "/"] {
            assert!(!is(path), "{path}");
        }
        for pattern in ["/w/s*t.txt", "/w/va*/x", "/w/.config/g?"] {
            assert!(own.could_be_dangerous(pattern) && !could_be_dangerous(pattern), "{pattern}");
        }
        assert!(own.prefix_is_dangerous("/w/vault/") && !own.prefix_is_dangerous("/w/"));
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
