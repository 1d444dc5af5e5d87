//! Bytes of unknown encoding as JSON text.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

pub(crate) fn base64(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// The bytes without a character that their end cuts in two.
pub(crate) fn without_cut_end(bytes: &[u8]) -> &[u8] {
    match std::str::from_utf8(bytes) {
        Err(error) if error.error_len().is_none() => bytes.get(..error.valid_up_to()).unwrap_or(bytes),
        Ok(_) | Err(_) => bytes,
    }
}

/// The bytes without a character that their start cuts in two.
pub(crate) fn without_cut_start(bytes: &[u8]) -> &[u8] {
    // A character has at most three bytes after its first; a fourth such byte is no cut but no UTF-8.
    let cut = bytes.iter().take(3).take_while(|byte| **byte & 0xC0 == 0x80).count();
    bytes.get(cut..).unwrap_or(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_characters() {
        let text = "aé€😀";
        for end in 0..=text.len() {
            let head = without_cut_end(&text.as_bytes()[..end]);
            assert!(text.starts_with(std::str::from_utf8(head).unwrap_or("no")), "{end}");
            assert!(end - head.len() < 4);
        }
        for start in 0..=text.len() {
            let tail = without_cut_start(&text.as_bytes()[start..]);
            assert!(text.ends_with(std::str::from_utf8(tail).unwrap_or("no")), "{start}");
            assert!(text.len() - start - tail.len() < 4);
        }
        assert_eq!(without_cut_end(b"a\xffb"), b"a\xffb");
        assert_eq!(without_cut_start(b"\x80\x80\x80\x80"), b"\x80");
    }
}
