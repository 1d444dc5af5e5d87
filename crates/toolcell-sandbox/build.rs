//! Builds the guest as a static binary and hands its path to the crate, which embeds it: one file to install.
//!
//! The guest has its own target directory, so the nested cargo never waits for the outer one.

#![allow(clippy::disallowed_methods, reason = "cargo speaks to build scripts through the environment")]

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let manifest_dir = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?);
    let crates = manifest_dir.parent().ok_or("this crate stands beside the others")?;
    for package in ["toolcell-guest", "toolcell-protocol"] {
        println!("cargo::rerun-if-changed={}", crates.join(package).join("src").display());
        println!("cargo::rerun-if-changed={}", crates.join(package).join("Cargo.toml").display());
    }
    let target = match env::var("CARGO_CFG_TARGET_ARCH")?.as_str() {
        "x86_64" => "x86_64-unknown-linux-gnu",
        "aarch64" => "aarch64-unknown-linux-gnu",
        other => return Err(format!("no guest for the processor {other}: x86_64 and aarch64 are known").into()),
    };
    let out_dir = PathBuf::from(env::var("OUT_DIR")?);
    let target_dir = shared_target_dir(&out_dir).join("guest");
    let mut cargo = Command::new(env::var("CARGO")?);
    cargo
        .args(["build", "--release", "--package", "toolcell-guest", "--bin", "toolcell-guest"])
        .args(["--target", target])
        .arg("--target-dir")
        .arg(&target_dir)
        .current_dir(crates);
    // The outer build's flags and wrappers are for the host's binaries.
    for (name, _) in env::vars() {
        if name == "RUSTFLAGS" || name == "RUSTC_WORKSPACE_WRAPPER" || name.starts_with("CARGO_ENCODED") {
            cargo.env_remove(name);
        }
    }
    cargo.env("RUSTFLAGS", "-C target-feature=+crt-static");
    if !cargo.status()?.success() {
        return Err("the guest did not build; the messages above say why".into());
    }
    let built = target_dir.join(target).join("release").join("toolcell-guest");
    // A copy of its own: a build of another profile may replace the shared one at any time.
    let embedded = out_dir.join("toolcell-guest");
    std::fs::copy(&built, &embedded)?;
    println!("cargo::rustc-env=TOOLCELL_GUEST_BINARY={}", embedded.display());
    Ok(())
}

/// `target/` of the outer build: debug and release share one guest.
fn shared_target_dir(out_dir: &Path) -> &Path {
    // target/<profile>/build/<package>-<hash>/out
    out_dir.ancestors().nth(4).unwrap_or(out_dir)
}
