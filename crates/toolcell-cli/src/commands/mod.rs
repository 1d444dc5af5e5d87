//! One file per subcommand.

pub(crate) mod call;
pub(crate) mod config;
pub(crate) mod context;
pub(crate) mod image;
pub(crate) mod run;
pub(crate) mod serve;
pub(crate) mod version;
