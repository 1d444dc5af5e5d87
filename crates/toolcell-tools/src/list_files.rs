//! `list_files`: what a directory holds.

use crate::catalogue::ToolInfo;
use crate::fields::Fields;
use crate::output::{INLINE_BYTES, succeeded};
use crate::stream::base64;
use serde_json::{Map, Value, json};
use toolcell_model::{CallFault, CallOutcome};
use toolcell_permission::ContainerPath;
use toolcell_permission::danger::is_dangerous;

/// The tool's name.
pub const NAME: &str = "list_files";

/// Deepest listing. Beyond: invalid input.
pub const MAX_DEPTH: u32 = 64;

/// Most entries to ask the guest for; of more, the listing says that it is truncated.
pub const MAX_ENTRIES: u32 = 10_000;

/// What an entry costs of [`INLINE_BYTES`] besides its path.
const ENTRY_BYTES: usize = 80;

/// A valid input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListFilesInput {
    /// Which directory.
    pub path: ContainerPath,
    /// Levels below it; 1 lists its own entries.
    pub depth: u32,
    /// Also names that begin with a dot.
    pub hidden: bool,
}

pub(crate) fn info() -> ToolInfo {
    ToolInfo {
        name: NAME.into(),
        description:
            "List a directory: type, size, mode and modification time of each entry, sorted by path. Paths are \
            relative to the listed directory. Sensitive entries such as .git or .env are left out and counted in \
            `skipped`."
                .into(),
        input_schema: json!({
            "type": "object",
            "properties": {
                "path": {
                    "type": "string",
                    "minLength": 1,
                    "description": "The directory, absolute or relative to /workspace. \".\" is /workspace."
                },
                "depth": {
                    "type": "integer",
                    "minimum": 1,
                    "maximum": MAX_DEPTH,
                    "description": "How many levels to list; 1 (default) lists the directory's own entries."
                },
                "hidden": {
                    "type": "boolean",
                    "description": "Also list names that begin with a dot. Default: false."
                }
            },
            "required": ["path"],
            "additionalProperties": false
        }),
        read_only: true,
        concurrency_safe: true,
    }
}

impl ListFilesInput {
    pub(crate) fn parse(input: &Value) -> Result<Self, CallFault> {
        let fields = Fields::of(NAME, input, &["path", "depth", "hidden"])?;
        let depth = fields.integer("depth", 1..=u64::from(MAX_DEPTH))?.unwrap_or(1);
        Ok(Self {
            path: fields.required_path("path")?,
            depth: u32::try_from(depth).unwrap_or(MAX_DEPTH),
            hidden: fields.boolean("hidden")?.unwrap_or(false),
        })
    }
}

/// What an entry is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ListedKind {
    /// A regular file.
    File {
        /// Its size in bytes.
        size: u64,
    },
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// A FIFO, socket or device.
    Special,
}

/// One entry, as the guest reports it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedEntry {
    /// Relative to the listed directory.
    pub path: Vec<u8>,
    /// What it is.
    pub kind: ListedKind,
    /// Permission bits.
    pub mode: u32,
    /// Modification time in milliseconds since 1970.
    pub mtime_ms: i64,
}

/// The outcome of a call whose directory was listed.
///
/// The output is `{path, entries, skipped, truncated}`: the directory's absolute path, entries `{path or path_b64,
/// type, size, mode, mtime_ms}` sorted by path and relative to it, how many dangerous ones were left out, and whether
/// more were there than are listed. `type` is `file`, `directory`, `symlink` or `special`; `size` is null for all
/// but files; `mode` is octal. A directory that is dangerous itself was listed because a person said so: nothing of
/// it is left out.
#[must_use]
pub fn output(input: &ListFilesInput, mut entries: Vec<ListedEntry>, more: bool) -> CallOutcome {
    entries.sort_by(|a, b| a.path.cmp(&b.path));
    let show_all = is_dangerous(&input.path);
    let mut shown = Vec::new();
    let mut skipped = 0_u64;
    let mut truncated = more;
    let mut bytes = 0;
    for entry in entries {
        if !show_all && leads_to_danger(&input.path, &entry.path) {
            skipped += 1;
            continue;
        }
        bytes += entry.path.len() + ENTRY_BYTES;
        if bytes > INLINE_BYTES {
            truncated = true;
            break;
        }
        shown.push(entry_json(&entry));
    }
    succeeded(json!({
        "path": input.path.as_str(),
        "entries": shown,
        "skipped": skipped,
        "truncated": truncated,
    }))
}

/// A path that cannot be judged counts as dangerous.
fn leads_to_danger(directory: &ContainerPath, relative: &[u8]) -> bool {
    let joined = [directory.as_bytes(), b"/", relative].concat();
    ContainerPath::from_bytes(&joined).map_or(true, |path| is_dangerous(&path))
}

fn entry_json(entry: &ListedEntry) -> Value {
    let mut json = Map::new();
    match std::str::from_utf8(&entry.path) {
        Ok(path) => json.insert("path".into(), path.into()),
        Err(_) => json.insert("path_b64".into(), base64(&entry.path).into()),
    };
    let (kind, size) = match entry.kind {
        ListedKind::File { size } => ("file", Some(size)),
        ListedKind::Directory => ("directory", None),
        ListedKind::Symlink => ("symlink", None),
        ListedKind::Special => ("special", None),
    };
    json.insert("type".into(), kind.into());
    json.insert("size".into(), size.into());
    json.insert("mode".into(), format!("{:04o}", entry.mode & 0o7777).into());
    json.insert("mtime_ms".into(), entry.mtime_ms.into());
    Value::Object(json)
}
