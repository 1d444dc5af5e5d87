//! The command line of the guest.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use toolcell_protocol::SECRET_BYTES;

/// What the host passes to the container's entry point.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Args {
    /// The host's socket.
    pub(crate) socket: PathBuf,
    /// The tool user.
    pub(crate) uid: u32,
    /// The tool user's group.
    pub(crate) gid: u32,
    /// Without a host for this long the guest ends everything and exits.
    pub(crate) orphan_ttl_ms: u64,
    /// Without a host for this long, work that was received but not begun is dropped.
    pub(crate) fence_ttl_ms: u64,
}

/// Why the command line is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ArgsError {
    /// An option that does not exist.
    #[error("unknown option {0}")]
    Unknown(String),
    /// An option without its value.
    #[error("{0} needs a value")]
    NoValue(&'static str),
    /// An option that must be there.
    #[error("{0} is missing")]
    Missing(&'static str),
    /// A value that is no number, or too large.
    #[error("{option} must be a number, not {value}")]
    NotANumber {
        /// The option.
        option: &'static str,
        /// What was given.
        value: String,
    },
    /// Tools never run as root.
    #[error("{0} must not be 0: tools never run as root")]
    Root(&'static str),
}

const OPTIONS: [&str; 5] = ["--socket", "--uid", "--gid", "--orphan-ttl-ms", "--fence-ttl-ms"];

impl Args {
    /// Reads the words after the program's name.
    pub(crate) fn parse(words: impl IntoIterator<Item = OsString>) -> Result<Self, ArgsError> {
        let [mut socket, mut uid, mut gid, mut orphan, mut fence] = [const { None }; 5];
        let mut words = words.into_iter();
        while let Some(word) = words.next() {
            let Some(option) = OPTIONS.into_iter().find(|option| word.as_bytes() == option.as_bytes()) else {
                return Err(ArgsError::Unknown(word.to_string_lossy().into_owned()));
            };
            let value = words.next().ok_or(ArgsError::NoValue(option))?;
            match option {
                "--socket" => socket = Some(value),
                "--uid" => uid = Some(value),
                "--gid" => gid = Some(value),
                "--orphan-ttl-ms" => orphan = Some(value),
                _ => fence = Some(value),
            }
        }
        Ok(Self {
            socket: PathBuf::from(socket.ok_or(ArgsError::Missing("--socket"))?),
            uid: id("--uid", uid)?,
            gid: id("--gid", gid)?,
            orphan_ttl_ms: number("--orphan-ttl-ms", orphan)?,
            fence_ttl_ms: number("--fence-ttl-ms", fence)?,
        })
    }
}

fn number(option: &'static str, value: Option<OsString>) -> Result<u64, ArgsError> {
    let value = value.ok_or(ArgsError::Missing(option))?;
    let text = String::from_utf8_lossy(value.as_bytes());
    text.parse().map_err(|_| ArgsError::NotANumber { option, value: text.into_owned() })
}

/// A user or group: not root, and not the number that means "unchanged".
fn id(option: &'static str, value: Option<OsString>) -> Result<u32, ArgsError> {
    let wide = number(option, value)?;
    match u32::try_from(wide) {
        Ok(0) => Err(ArgsError::Root(option)),
        Ok(id) if id != u32::MAX => Ok(id),
        _ => Err(ArgsError::NotANumber { option, value: wide.to_string() }),
    }
}

/// A container's secret from its 64 hexadecimal digits.
pub(crate) fn secret(text: &[u8]) -> Option<[u8; SECRET_BYTES]> {
    let mut secret = [0; SECRET_BYTES];
    let (pairs, rest) = text.as_chunks::<2>();
    if pairs.len() != SECRET_BYTES || !rest.is_empty() {
        return None;
    }
    for (byte, [high, low]) in secret.iter_mut().zip(pairs) {
        let digit = |character: u8| char::from(character).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
        *byte = digit(*high)?.checked_shl(4)? | digit(*low)?;
    }
    Some(secret)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Args, ArgsError> {
        Args::parse(line.split_whitespace().map(OsString::from))
    }

    const WHOLE: &str = "--socket /s --uid 1000 --gid 1001 --orphan-ttl-ms 900000 --fence-ttl-ms 15000";

    #[test]
    fn reads_the_whole_line_in_any_order() {
        let args = parse(WHOLE).unwrap();
        assert_eq!((args.uid, args.gid, args.orphan_ttl_ms, args.fence_ttl_ms), (1000, 1001, 900_000, 15_000));
        assert_eq!(args.socket, PathBuf::from("/s"));
        let turned = "--fence-ttl-ms 15000 --gid 1001 --orphan-ttl-ms 900000 --uid 1000 --socket /s";
        assert_eq!(parse(turned).unwrap(), args);
    }

    #[test]
    fn root_is_refused() {
        assert_eq!(parse(&WHOLE.replace("1000 ", "0 ")), Err(ArgsError::Root("--uid")));
        assert_eq!(parse(&WHOLE.replace("1001", "0")), Err(ArgsError::Root("--gid")));
    }

    #[test]
    fn ids_that_mean_something_else_are_refused() {
        for id in ["4294967295", "4294967296", "-1", "agent", ""] {
            assert!(parse(&WHOLE.replace("--uid 1000", &format!("--uid {id}"))).is_err(), "uid {id:?}");
        }
        assert_eq!(parse(&WHOLE.replace("--uid 1000", "--uid 4294967294")).unwrap().uid, u32::MAX - 1);
    }

    #[test]
    fn missing_unknown_and_incomplete_are_named() {
        assert_eq!(parse(&WHOLE.replace("--socket /s", "")), Err(ArgsError::Missing("--socket")));
        assert_eq!(parse("--verbose"), Err(ArgsError::Unknown("--verbose".to_owned())));
        assert_eq!(parse("--uid"), Err(ArgsError::NoValue("--uid")));
    }

    #[test]
    fn secrets_are_exactly_64_digits() {
        let digits = "00ff".repeat(16);
        assert_eq!(secret(digits.as_bytes()).unwrap().get(..4).unwrap(), [0, 255, 0, 255]);
        assert_eq!(secret(digits.get(1..).unwrap().as_bytes()), None);
        assert_eq!(secret(format!("{digits}0").as_bytes()), None);
        assert_eq!(secret(digits.replace('f', "g").as_bytes()), None);
    }
}
