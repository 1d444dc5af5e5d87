//! Tables for people, and the words of their cells.

use serde_json::Value;

/// A table with a head, each column as wide as its widest cell. Control characters are shown, not obeyed.
pub(crate) fn table(head: &[&str], rows: &[Vec<String>]) -> String {
    let rows: Vec<Vec<String>> =
        rows.iter().map(|row| row.iter().map(|cell| toolcell_server::wire::escaped(cell)).collect()).collect();
    let width = |column: usize, name: &str| {
        let cells = rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count());
        cells.chain([name.len()]).max().unwrap_or_default()
    };
    let widths: Vec<usize> = head.iter().enumerate().map(|(column, name)| width(column, name)).collect();
    let line = |cells: Vec<&str>| {
        let padded = cells.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect::<Vec<_>>();
        padded.join("  ").trim_end().to_owned() + "\n"
    };
    let mut text = line(head.to_vec());
    text.extend(rows.iter().map(|row| line(row.iter().map(String::as_str).collect())));
    text
}

/// A number of bytes as people say it.
pub(crate) fn bytes(count: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut scale = 1_u64;
    for (place, unit) in UNITS.iter().enumerate() {
        let last = place + 1 == UNITS.len();
        if last || count < scale.saturating_mul(1024) {
            let tenths = count.saturating_mul(10) / scale;
            return if place == 0 { format!("{count} B") } else { format!("{}.{} {unit}", tenths / 10, tenths % 10) };
        }
        scale = scale.saturating_mul(1024);
    }
    format!("{count} B")
}

/// Milliseconds since 1970 as a UTC time, to the second.
pub(crate) fn time(millis: u64) -> String {
    let seconds = millis / 1000;
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    // Days since 0000-03-01 in eras of 400 years, so that the day of a leap year comes last (Howard Hinnant's
    // "chrono-Compatible Low-Level Date Algorithms").
    let shifted = days + 719_468;
    let (era, day) = (shifted / 146_097, shifted % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day_of_year = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day_of_month = day_of_year - (153 * month + 2) / 5 + 1;
    let (month, carry) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    let year = era * 400 + year + carry;
    format!("{year:04}-{month:02}-{day_of_month:02} {:02}:{:02}:{:02}Z", rest / 3600, rest % 3600 / 60, rest % 60)
}

/// A field as text; `-` where there is none.
pub(crate) fn cell(value: &Value, pointer: &str) -> String {
    match value.pointer(pointer) {
        None | Some(Value::Null) => "-".to_owned(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    }
}

/// A field that is a number, shown in another way.
pub(crate) fn number(value: &Value, pointer: &str, shown: impl Fn(u64) -> String) -> String {
    value.pointer(pointer).and_then(Value::as_u64).map_or_else(|| "-".to_owned(), shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_rounded_down_to_a_tenth() {
        for (count, shown) in [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (1_572_864, "1.5 MiB")] {
            assert_eq!(bytes(count), shown);
        }
        assert_eq!(bytes(u64::MAX).split(' ').nth(1), Some("TiB"));
    }

    #[test]
    fn times_are_utc() {
        for (millis, shown) in [
            (0, "1970-01-01 00:00:00Z"),
            (951_782_400_000, "2000-02-29 00:00:00Z"),
            (1_735_689_599_999, "2024-12-31 23:59:59Z"),
        ] {
            assert_eq!(time(millis), shown);
        }
    }

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows = [vec!["a".to_owned(), "b\u{1b}".to_owned()], vec!["long".to_owned(), "c".to_owned()]];
        assert_eq!(table(&["X", "Y"], &rows), "X     Y\na     b\\u{1b}\nlong  c\n");
    }
}
