//! The shell that runs shell text.

/// Which kind of shell an image has. What a text means depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Shell {
    /// GNU bash.
    Bash,
    /// A POSIX shell: dash, busybox's, or bash by the name of `sh`.
    Sh,
}

impl Shell {
    /// From the path that the guest runs.
    ///
    /// # Errors
    /// A reason, for a name that is neither: what decides about shell text must not guess.
    pub(crate) fn of(path: Option<&str>) -> Result<Option<Self>, String> {
        let Some(path) = path else { return Ok(None) };
        match path.rsplit('/').next() {
            Some("bash") => Ok(Some(Self::Bash)),
            Some("sh") => Ok(Some(Self::Sh)),
            Some(_) | None => {
                let shown: String = path.chars().take(80).collect();
                Err(format!("the guest runs shell text by {shown:?}, which is neither bash nor sh"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_is_known_by_its_name_and_no_other_is_guessed() {
        for (path, expected) in [
            (None, Ok(None)),
            (Some("/bin/bash"), Ok(Some(Shell::Bash))),
            (Some("/usr/bin/bash"), Ok(Some(Shell::Bash))),
            (Some("/bin/sh"), Ok(Some(Shell::Sh))),
        ] {
            assert_eq!(Shell::of(path), expected, "{path:?}");
        }
        for other in ["/bin/zsh", "", "/bin/bash/", "/bin/rbash"] {
            assert!(Shell::of(Some(other)).is_err(), "{other}");
        }
    }
}
