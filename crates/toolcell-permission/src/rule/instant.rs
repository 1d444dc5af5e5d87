//! Instants as RFC 3339 writes them.

use serde::de::{Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use std::fmt;
use toolcell_model::UnixMillis;

/// The one key of the map that a TOML date is read as.
const TOML_KEY: &str = "$__toml_private_datetime";

/// An instant as configuration writes it: a text, or a date of TOML.
#[derive(Debug, Clone, Copy)]
pub(super) struct Instant(pub(super) UnixMillis);

impl<'de> Deserialize<'de> for Instant {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct InstantVisitor;

        impl<'de> Visitor<'de> for InstantVisitor {
            type Value = Instant;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an instant for `expires`, such as 2031-01-31T12:00:00Z")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Instant, E> {
                parse(text).map(Instant).ok_or_else(|| {
                    E::custom(format_args!(
                        "`expires`: {text:?} is no instant; expected one with its offset, such as 2031-01-31T12:00:00Z"
                    ))
                })
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Instant, A::Error> {
                match map.next_key::<String>()? {
                    Some(key) if key == TOML_KEY => self.visit_str(&map.next_value::<String>()?),
                    _ => {
                        Err(A::Error::custom("`expires` is a table; expected an instant such as 2031-01-31T12:00:00Z"))
                    }
                }
            }
        }

        from.deserialize_any(InstantVisitor)
    }
}

/// `2031-01-31T12:00:00.5+01:00`. The offset must be given. What is finer than a millisecond is cut off, what is before
/// 1970 counts as 1970.
pub(super) fn parse(text: &str) -> Option<UnixMillis> {
    let (date, rest) = text.split_at_checked(10)?;
    let rest = rest.strip_prefix(['T', 't', ' '])?;
    let (time, rest) = rest.split_at_checked(8)?;
    let [year, month, day] = numbers(date, '-', [4, 2, 2])?;
    let [hour, minute, second] = numbers(time, ':', [2, 2, 2])?;
    let (fraction, zone) = match rest.strip_prefix('.') {
        Some(rest) => rest.split_at_checked(rest.find(|c: char| !c.is_ascii_digit())?)?,
        None => ("0", rest),
    };
    let millis = fraction.bytes().map(|digit| i64::from(digit).saturating_sub(48)).chain([0, 0]).take(3);
    let millis = millis.fold(0_i64, |sum, digit| sum.saturating_mul(10).saturating_add(digit));
    let offset_minutes = match zone.split_at_checked(1)? {
        ("Z" | "z", "") => 0,
        (sign @ ("+" | "-"), offset) => {
            let [hours, minutes] = numbers(offset, ':', [2, 2])?;
            let minutes = in_range(hours, 0, 23)?.checked_mul(60)?.checked_add(in_range(minutes, 0, 59)?)?;
            if sign == "-" { minutes.checked_neg()? } else { minutes }
        }
        _ => return None,
    };
    let days = days_since_1970(year, in_range(month, 1, 12)?, in_range(day, 1, days_of(year, month))?)?;
    let minutes = days
        .checked_mul(24)?
        .checked_add(in_range(hour, 0, 23)?)?
        .checked_mul(60)?
        .checked_add(in_range(minute, 0, 59)?)?
        .checked_sub(offset_minutes)?;
    // A leap second counts as the one after it.
    let seconds = minutes.checked_mul(60)?.checked_add(in_range(second, 0, 60)?)?;
    let millis = seconds.checked_mul(1000)?.checked_add(if fraction.is_empty() { return None } else { millis })?;
    Some(UnixMillis(u64::try_from(millis).unwrap_or_default()))
}

/// The numbers of a text, each with exactly so many digits.
fn numbers<const N: usize>(text: &str, divider: char, widths: [usize; N]) -> Option<[i64; N]> {
    let mut parts = text.split(divider);
    let mut found = [0; N];
    for (number, width) in found.iter_mut().zip(widths) {
        let part = parts.next().filter(|part| part.len() == width && part.bytes().all(|b| b.is_ascii_digit()))?;
        *number = part.parse().ok()?;
    }
    parts.next().is_none().then_some(found)
}

fn in_range(number: i64, first: i64, last: i64) -> Option<i64> {
    (first..=last).contains(&number).then_some(number)
}

fn days_of(year: i64, month: i64) -> i64 {
    let leap = year.rem_euclid(4) == 0 && (year.rem_euclid(100) != 0 || year.rem_euclid(400) == 0);
    match month {
        2 if leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Counts whole years and months of the Gregorian calendar.
fn days_since_1970(year: i64, month: i64, day: i64) -> Option<i64> {
    let before = year.checked_sub(1)?;
    let leap_days = before.div_euclid(4).checked_sub(before.div_euclid(100))?.checked_add(before.div_euclid(400))?;
    let months = (1..month).map(|month| days_of(year, month)).sum::<i64>();
    // 719162 days lie between the beginnings of the years 1 and 1970.
    before.checked_mul(365)?.checked_add(leap_days)?.checked_add(months)?.checked_add(day)?.checked_sub(719_163)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants() {
        for (text, expected) in [
            ("1970-01-01T00:00:00Z", Some(0)),
            ("1969-12-31T23:59:59Z", Some(0)),
            ("1970-01-01T00:00:01.5Z", Some(1500)),
            ("1970-01-01 00:00:00.0019z", Some(1)),
            ("1970-01-01T01:00:00+01:00", Some(0)),
            ("1969-12-31T23:00:00-01:30", Some(1_800_000)),
            ("2000-03-01T00:00:00Z", Some(951_868_800_000)),
            ("2024-02-29T12:30:45.678Z", Some(1_709_209_845_678)),
            ("2031-01-31T12:00:00Z", Some(1_927_627_200_000)),
            ("1972-06-30T23:59:60Z", Some(78_796_800_000)),
            ("9999-12-31T23:59:59Z", Some(253_402_300_799_000)),
            ("2023-02-29T00:00:00Z", None),
            ("2023-13-01T00:00:00Z", None),
            ("2023-00-01T00:00:00Z", None),
            ("2023-01-01T24:00:00Z", None),
            ("2023-01-01T00:60:00Z", None),
            ("2023-01-01T00:00:61Z", None),
            ("2023-01-01T00:00:00", None),
            ("2023-01-01T00:00:00.Z", None),
            ("2023-01-01T00:00:00.5", None),
            ("2023-01-01T00:00:00+0100", None),
            ("2023-01-01T00:00:00+24:00", None),
            ("2023-01-01T00:00:00Zx", None),
            ("2023-01-01", None),
            ("+023-01-01T00:00:00Z", None),
            ("2023-1-001T00:00:00Z", None),
            ("tomorrow", None),
            ("", None),
        ] {
            assert_eq!(parse(text), expected.map(UnixMillis), "{text}");
        }
    }
}
