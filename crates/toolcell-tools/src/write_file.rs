//! `write_file`: a file's whole content.

use crate::catalogue::ToolInfo;
use crate::fields::{Fields, invalid};
use crate::output::succeeded;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use toolcell_model::{CallFault, CallOutcome};
use toolcell_permission::ContainerPath;

/// The tool's name.
pub const NAME: &str = "write_file";

/// Most bytes of content, decoded. Beyond: invalid input.
pub const MAX_CONTENT_BYTES: usize = 16 * 1024 * 1024;

/// A valid input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WriteFileInput {
    /// Which file.
    pub path: ContainerPath,
    /// Its content, decoded.
    pub content: Vec<u8>,
    /// Permission bits, at most `0o777`; the file's own, or the usual ones for a new file, without.
    pub mode: Option<u32>,
    /// Replace a file that is there.
    pub overwrite: bool,
    /// Make missing parents.
    pub create_dirs: bool,
}

pub(crate) fn info() -> ToolInfo {
    ToolInfo {
        name: NAME.into(),
        description: "Write a file: the whole content, replacing what is there unless `overwrite` is false. The file \
            is written completely or not at all."
            .into(),
        input_schema: json!({
            "type": "object",
            "properties": {
                "path": {
                    "type": "string",
                    "minLength": 1,
                    "description": "The file, absolute or relative to /workspace."
                },
                "content": {
                    "type": "string",
                    "description": "The whole content, in the given encoding."
                },
                "encoding": {
                    "type": "string",
                    "enum": ["utf-8", "base64"],
                    "description": "\"utf-8\" (default): `content` is the text itself. \"base64\": `content` is the file's bytes in base64."
                },
                "mode": {
                    "type": "string",
                    "pattern": "^0?[0-7]{3}$",
                    "description": "Permission bits in octal, for example \"755\" for a program. Default: an existing file keeps its own."
                },
                "overwrite": {
                    "type": "boolean",
                    "description": "Replace an existing file. Default: true. With false the call fails if the file exists."
                },
                "create_dirs": {
                    "type": "boolean",
                    "description": "Make missing parent directories. Default: true."
                }
            },
            "required": ["path", "content"],
            "additionalProperties": false
        }),
        read_only: false,
        concurrency_safe: false,
    }
}

impl WriteFileInput {
    pub(crate) fn parse(input: &Value) -> Result<Self, CallFault> {
        let known = ["path", "content", "encoding", "mode", "overwrite", "create_dirs"];
        let fields = Fields::of(NAME, input, &known)?;
        Ok(Self {
            path: fields.required_path("path")?,
            content: content(&fields)?,
            mode: mode(&fields)?,
            overwrite: fields.boolean("overwrite")?.unwrap_or(true),
            create_dirs: fields.boolean("create_dirs")?.unwrap_or(true),
        })
    }
}

fn content(fields: &Fields<'_>) -> Result<Vec<u8>, CallFault> {
    let text = fields.required_text("content")?;
    let as_base64 = fields.one_of("encoding", &[("utf-8", false), ("base64", true)])?.unwrap_or(false);
    let bytes = if as_base64 {
        STANDARD.decode(text).map_err(|_| invalid("content", "is not base64, which `encoding` says it is"))?
    } else {
        text.as_bytes().to_vec()
    };
    if bytes.len() > MAX_CONTENT_BYTES {
        let problem = format_args!("has {} bytes; at most {MAX_CONTENT_BYTES} are allowed", bytes.len());
        return Err(invalid("content", problem));
    }
    Ok(bytes)
}

fn mode(fields: &Fields<'_>) -> Result<Option<u32>, CallFault> {
    let Some(text) = fields.text("mode")? else { return Ok(None) };
    let digits = if text.len() == 4 { text.strip_prefix('0') } else { Some(text) };
    let digits =
        digits.filter(|digits| digits.len() == 3 && digits.bytes().all(|digit| (b'0'..=b'7').contains(&digit)));
    match digits.and_then(|digits| u32::from_str_radix(digits, 8).ok()) {
        Some(mode) => Ok(Some(mode)),
        None => Err(invalid("mode", "expected three octal digits such as \"644\" or \"755\"")),
    }
}

/// What the guest wrote.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WrittenFile {
    /// Bytes written.
    pub size: u64,
    /// SHA-256 of what was written.
    pub sha256: [u8; 32],
    /// Nothing was there before.
    pub created: bool,
}

/// The outcome of a call whose file was written: `{path, size, sha256, created}`, with `path` absolute and `sha256`
/// in lower-case hex.
#[must_use]
pub fn output(input: &WriteFileInput, written: &WrittenFile) -> CallOutcome {
    succeeded(json!({
        "path": input.path.as_str(),
        "size": written.size,
        "sha256": data_encoding::HEXLOWER.encode(&written.sha256),
        "created": written.created,
    }))
}
