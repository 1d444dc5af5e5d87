//! Sizes as people write them.

use serde::de::{Deserialize, Deserializer, Error, Visitor};
use std::fmt;

/// A number of bytes: `"512MiB"`, `"2GiB"`, `"64KiB"`, `"1000B"` or a plain number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ByteSize(u64);

impl ByteSize {
    /// From mebibytes.
    #[must_use]
    pub const fn mib(count: u64) -> Self {
        Self(count.saturating_mul(1024 * 1024))
    }

    /// In bytes.
    #[must_use]
    pub const fn bytes(self) -> u64 {
        self.0
    }

    fn parse(text: &str) -> Option<Self> {
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let (number, unit) = text.split_at_checked(digits)?;
        let factor: u64 = match unit.trim() {
            "" | "B" => 1,
            "KiB" => 1 << 10,
            "MiB" => 1 << 20,
            "GiB" => 1 << 30,
            "TiB" => 1 << 40,
            _ => return None,
        };
        number.parse::<u64>().ok()?.checked_mul(factor).map(Self)
    }
}

impl<'de> Deserialize<'de> for ByteSize {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(SizeVisitor)
    }
}

struct SizeVisitor;

impl Visitor<'_> for SizeVisitor {
    type Value = ByteSize;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a size such as \"512MiB\" or \"2GiB\" (units B, KiB, MiB, GiB, TiB), or a number of bytes")
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<ByteSize, E> {
        u64::try_from(value).map(ByteSize).map_err(|_| E::invalid_value(serde::de::Unexpected::Signed(value), &self))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<ByteSize, E> {
        Ok(ByteSize(value))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<ByteSize, E> {
        ByteSize::parse(text).ok_or_else(|| E::invalid_value(serde::de::Unexpected::Str(text), &self))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        for (text, bytes) in [("0", 0), ("7B", 7), ("2KiB", 2048), ("4 MiB", 4 << 20), ("2GiB", 2 << 30)] {
            assert_eq!(ByteSize::parse(text), Some(ByteSize(bytes)), "{text}");
        }
        for bad in ["", "MiB", "-1", "1.5GiB", "2GB", "99999999999TiB", "2gib"] {
            assert!(ByteSize::parse(bad).is_none() || bad.is_empty(), "{bad}");
        }
        assert_eq!(ByteSize::parse(""), None);
    }
}
