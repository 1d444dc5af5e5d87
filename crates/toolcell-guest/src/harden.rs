//! What PID 1 gives up before it talks to anybody.

use crate::sys::identity::{KEPT_CAPABILITIES, narrow_bounding_set};
use crate::sys::{seccomp, signals};
use rustix::io::Errno;
use rustix::process::{DumpableBehavior, Resource, Rlimit, set_dumpable_behavior, setrlimit};
use rustix::thread::{CapabilitySet, CapabilitySets};

/// A step that failed. None of them is optional.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("cannot {step}")]
pub(crate) struct HardenError {
    step: &'static str,
    #[source]
    errno: Errno,
}

/// Drops what is not needed, in this process and everything that comes from it. Before any thread is started.
pub(crate) fn harden() -> Result<(), HardenError> {
    let step = |step| move |errno| HardenError { step, errno };
    signals::reset_dispositions();
    signals::block_all().map_err(step("block signals"))?;
    set_dumpable_behavior(DumpableBehavior::NotDumpable).map_err(step("become non-dumpable"))?;
    setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) }).map_err(step("forbid core dumps"))?;
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
    rustix::thread::set_thread_groups(&[]).map_err(step("leave supplementary groups"))?;
    narrow_bounding_set().map_err(step("narrow the bounding set"))?;
    rustix::thread::clear_ambient_capability_set().map_err(step("clear the ambient set"))?;
    let kept = CapabilitySet::from_bits_retain(KEPT_CAPABILITIES);
    let sets = CapabilitySets { effective: kept, permitted: kept, inheritable: CapabilitySet::empty() };
    rustix::thread::set_capabilities(None, sets).map_err(step("drop capabilities"))?;
    rustix::thread::set_no_new_privs(true).map_err(step("set no_new_privs"))?;
    seccomp::install().map_err(step("install the system call filter"))
}
