//! One file per subcommand.

pub(crate) mod archive;
pub(crate) mod call;
pub(crate) mod config;
pub(crate) mod context;
pub(crate) mod doctor;
pub(crate) mod explain;
pub(crate) mod image;
pub(crate) mod rules;
pub(crate) mod run;
pub(crate) mod serve;
pub(crate) mod slots;
pub(crate) mod snapshots;
pub(crate) mod version;
pub(crate) mod which;
