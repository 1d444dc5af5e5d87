//! The process's initial environment, which `/proc/1/environ` shows for as long as it is in memory.

use std::ffi::CStr;

unsafe extern "C" {
    static mut environ: *mut *mut libc::c_char;
}

/// Takes the value of `name` out of the initial environment and then overwrites the whole environment with zeros.
///
/// To be called once, before any other thread or process exists and before anything keeps a reference into the
/// environment.
pub(crate) fn take_and_erase(name: &str) -> Option<Vec<u8>> {
    let mut found = None;
    // SAFETY: `environ` is the null-terminated array of null-terminated strings that the kernel laid out. Only this
    // thread exists (the caller's promise), so nobody reads or changes it at the same time, and the strings lie in
    // the writable stack area of the process.
    unsafe {
        let mut entry = environ;
        while !entry.is_null() && !(*entry).is_null() {
            let text = CStr::from_ptr(*entry).to_bytes();
            let length = text.len();
            let value = text.strip_prefix(name.as_bytes()).and_then(|rest| rest.strip_prefix(b"="));
            if let Some(value) = value {
                found = Some(value.to_vec());
            }
            for at in 0..length {
                // Volatile, so that no optimiser drops writes that nobody in this program reads.
                (*entry).add(at).write_volatile(0);
            }
            entry = entry.add(1);
        }
    }
    found
}
