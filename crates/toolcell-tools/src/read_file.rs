//! `read_file`: a file's text by lines, or its bytes.

use crate::catalogue::ToolInfo;
use crate::fault::FaultCode;
use crate::fields::{Fields, invalid};
use crate::output::{INLINE_BYTES, failed, succeeded};
use crate::stream::{base64, without_cut_end};
use serde_json::{Value, json};
use toolcell_model::{CallFault, CallOutcome};
use toolcell_permission::ContainerPath;

/// The tool's name.
pub const NAME: &str = "read_file";

/// Largest line number and count of lines: what every JSON reader holds exactly. Beyond: invalid input.
pub const MAX_LINES: u64 = (1 << 53) - 1;

/// A valid input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadFileInput {
    /// Which file.
    pub path: ContainerPath,
    /// What of it.
    pub part: ReadFilePart,
}

/// What to read of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadFilePart {
    /// Text.
    Lines {
        /// First line; 1 is the file's first.
        first: u64,
        /// How many; all the rest without.
        limit: Option<u64>,
    },
    /// Bytes from the start, as base64.
    Base64,
}

impl ReadFilePart {
    /// How many lines to fetch for [`ReadFilePart::Lines`]: one more than is shown, which tells whether more follow.
    #[must_use]
    pub fn lines_to_fetch(limit: Option<u64>) -> u64 {
        limit.map_or(u64::MAX, |limit| limit.saturating_add(1))
    }
}

pub(crate) fn info() -> ToolInfo {
    ToolInfo {
        name: NAME.into(),
        description: "Read a file. Text comes by lines: the whole file, or `limit` lines from line `offset` on. When \
            `truncated` is true, more of the file follows: go on at `offset` = `next_offset`. Read files that are not \
            UTF-8 text with `encoding` \"base64\"."
            .into(),
        input_schema: json!({
            "type": "object",
            "properties": {
                "path": {
                    "type": "string",
                    "minLength": 1,
                    "description": "The file, absolute or relative to /workspace."
                },
                "offset": {
                    "type": "integer",
                    "minimum": 1,
                    "maximum": MAX_LINES,
                    "description": "First line to read; 1 is the first line of the file. Default: 1."
                },
                "limit": {
                    "type": "integer",
                    "minimum": 1,
                    "maximum": MAX_LINES,
                    "description": "How many lines to read. Default: to the end of the file."
                },
                "encoding": {
                    "type": "string",
                    "enum": ["utf-8", "base64"],
                    "description": "\"utf-8\" (default) for text, \"base64\" for the bytes of any file, without offset and limit."
                }
            },
            "required": ["path"],
            "additionalProperties": false
        }),
        read_only: true,
        concurrency_safe: true,
    }
}

impl ReadFileInput {
    pub(crate) fn parse(input: &Value) -> Result<Self, CallFault> {
        let fields = Fields::of(NAME, input, &["path", "offset", "limit", "encoding"])?;
        let path = fields.required_path("path")?;
        let offset = fields.integer("offset", 1..=MAX_LINES)?;
        let limit = fields.integer("limit", 1..=MAX_LINES)?;
        let as_base64 = fields.one_of("encoding", &[("utf-8", false), ("base64", true)])?.unwrap_or(false);
        let part = match (as_base64, offset, limit) {
            (false, offset, limit) => ReadFilePart::Lines { first: offset.unwrap_or(1), limit },
            (true, None, None) => ReadFilePart::Base64,
            (true, Some(_), _) => return Err(invalid("offset", "counts lines; leave it out with encoding \"base64\"")),
            (true, None, Some(_)) => {
                return Err(invalid("limit", "counts lines; leave it out with encoding \"base64\""));
            }
        };
        Ok(Self { path, part })
    }
}

/// What the guest read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileContent<'a> {
    /// The bytes of the wanted part ([`ReadFilePart::lines_to_fetch`] lines), up to some cap.
    pub bytes: &'a [u8],
    /// More of the wanted part was there.
    pub more: bool,
    /// Size of the whole file.
    pub size: u64,
}

/// The outcome of a call whose file was read.
///
/// The output is `{content, encoding, size, truncated}`, with `encoding` `"utf-8"` or `"base64"`, `size` the whole
/// file's bytes, `truncated` whether more of the file follows what is shown; and for text `{offset, lines,
/// next_offset}`: the first line shown, how many, and where to go on, or null: at the end of the file, or when one
/// line alone is longer than [`INLINE_BYTES`] (its start is shown, and lines cannot address the rest). Text ends
/// with a whole line otherwise. Text that is not UTF-8 fails with [`FaultCode::NotUtf8`].
#[must_use]
pub fn output(input: &ReadFileInput, content: &FileContent<'_>) -> CallOutcome {
    match input.part {
        ReadFilePart::Base64 => {
            let shown = content.bytes.get(..INLINE_BYTES).unwrap_or(content.bytes);
            succeeded(json!({
                "content": base64(shown),
                "encoding": "base64",
                "size": content.size,
                "truncated": content.more || shown.len() < content.bytes.len(),
            }))
        }
        ReadFilePart::Lines { first, limit } => lines(input, content, first, limit),
    }
}

fn lines(input: &ReadFileInput, content: &FileContent<'_>, first: u64, limit: Option<u64>) -> CallOutcome {
    let wanted = first_lines(content.bytes, limit);
    let all_wanted = wanted.len() < content.bytes.len() || !content.more;
    let fits = wanted.len() <= INLINE_BYTES;
    let capped = wanted.get(..INLINE_BYTES).unwrap_or(wanted);
    let (shown, whole_lines) = if all_wanted && fits {
        (wanted, true)
    } else {
        match capped.iter().rposition(|byte| *byte == b'\n') {
            Some(end) => (capped.get(..=end).unwrap_or(capped), true),
            None => (without_cut_end(capped), false),
        }
    };
    let Ok(text) = std::str::from_utf8(shown) else {
        let message = format!("`{}` is not UTF-8 text; read it with encoding \"base64\"", input.path);
        return failed(FaultCode::NotUtf8.with(message));
    };
    let truncated = content.more || shown.len() < content.bytes.len();
    let line_count = count_lines(shown);
    succeeded(json!({
        "content": text,
        "encoding": "utf-8",
        "size": content.size,
        "offset": first,
        "lines": line_count,
        "truncated": truncated,
        "next_offset": (truncated && whole_lines).then(|| first.saturating_add(line_count)),
    }))
}

fn first_lines(bytes: &[u8], limit: Option<u64>) -> &[u8] {
    let Some(limit) = limit else { return bytes };
    let ends = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(place, _)| place);
    let skipped = usize::try_from(limit.saturating_sub(1)).unwrap_or(usize::MAX);
    ends.into_iter().nth(skipped).and_then(|end| bytes.get(..=end)).unwrap_or(bytes)
}

fn count_lines(bytes: &[u8]) -> u64 {
    let ended = bytes.iter().filter(|byte| **byte == b'\n').count() as u64;
    ended + u64::from(bytes.last().is_some_and(|last| *last != b'\n'))
}
