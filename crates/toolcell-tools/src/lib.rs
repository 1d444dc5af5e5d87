//! Toolcell's tools: those that are built in, and those that an operator declares.
//!
//! **Owns** the catalogue: each tool's schema as served to models, its typed input, what it tells the permission
//! engine of a call, and the JSON of its output. **Never knows** HTTP, Docker, async, or how anything is run. **Read
//! first**: [`catalogue`], then [`execute`], [`custom`] and [`describe`].
//!
//! An input is parsed once, by [`Catalogue::parse`]; a [`ParsedCall`] is within every bound and its paths are
//! absolute and normalised. Outputs are pinned by the files in `tests/contract/`, to which fields are only added.

pub mod call;
pub mod catalogue;
pub mod custom;
pub mod describe;
pub mod execute;
pub mod fault;
mod fields;
pub mod list_files;
pub mod output;
pub mod read_file;
mod stream;
pub mod write_file;

pub use call::{ParsedCall, ToolInput};
pub use catalogue::{Catalogue, ToolInfo};
pub use custom::{CustomInput, CustomTool, CustomToolError, CustomToolSpec};
pub use describe::{Described, describe};
pub use execute::{ExecuteInput, Program};
pub use fault::FaultCode;
pub use list_files::ListFilesInput;
pub use read_file::{ReadFileInput, ReadFilePart};
pub use write_file::WriteFileInput;
