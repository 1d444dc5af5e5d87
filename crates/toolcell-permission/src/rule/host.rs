//! Patterns for hosts: `api.example.com`, `*.example.com`.

/// A pattern for the names of hosts: a name or an address, or `*.` and a name for every name beneath it (not for the
/// name itself), or `*` for every host. Case and a dot at the end do not count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostPattern {
    /// In small letters, without what follows.
    name: String,
    /// It began with `*.`, or was `*`: then the name is empty.
    beneath: bool,
}

impl HostPattern {
    pub(super) fn parse(text: &str) -> Result<Self, &'static str> {
        let (name, beneath) = match text.strip_prefix("*.") {
            Some(name) => (name, true),
            None if text == "*" => ("", true),
            None => (text, false),
        };
        if name.is_empty() && text != "*" {
            return Err("no host is named; write `api.example.com`, `*.example.com` or `*`");
        }
        if name.contains('*') {
            return Err("`*` stands for whole labels at the beginning only, as in `*.example.com`");
        }
        if name.contains("//") || !name.chars().all(|c| c.is_alphanumeric() || matches!(c, '.' | '-' | '_' | ':')) {
            return Err("it is no host's name; write it without scheme, port and path, as in `api.example.com`");
        }
        if name.matches(':').count() == 1 {
            return Err("a port has no place in it; write the host's name alone");
        }
        Ok(Self { name: normal(name), beneath })
    }

    /// Whether it matches a host's name or address.
    #[must_use]
    pub fn matches(&self, host: &str) -> bool {
        let host = normal(host);
        if !self.beneath {
            return host == self.name;
        }
        self.name.is_empty()
            || host.strip_suffix(&self.name).is_some_and(|above| above.len() > 1 && above.ends_with('.'))
    }
}

fn normal(name: &str) -> String {
    name.strip_suffix('.').unwrap_or(name).to_lowercase()
}
