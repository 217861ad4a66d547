//! The cargo run that compiles the kernels, from within another cargo run.
//!
//! The outer run leaves its mark on the environment: flags, wrappers such as clippy's, profile settings, coverage. None
//! of that is meant for the GPU. And it holds the lock on its own target directory, so the inner run gets another one.

use std::env;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::compiler::DeviceCompiler;
use crate::error::Error;
use crate::recipe;

/// Cargo's variables that say how to reach the network and how many jobs to run; all others are the outer run's.
const KEPT: &[&str] = &[
    "CARGO_HOME",
    "CARGO_HTTP_",
    "CARGO_MAKEFLAGS",
    "CARGO_NET_",
    "CARGO_REGISTRIES_",
    "CARGO_REGISTRY_",
    "CARGO_SOURCE_",
];

/// Further variables, or beginnings of them, that would change what is compiled.
const DROPPED: &[&str] = &["CARGO_", "RUSTC", "RUSTDOC", "RUSTFLAGS", "LLVM_PROFILE_FILE"];

/// Compiles the crate for one architecture; its assembly is then in `assembly`.
///
/// Each architecture has its own target directory below the given one, which cargo locks while it builds. What cargo
/// has compiled before, to the same file, it does not compile again.
pub(crate) fn compile(
    compiler: &DeviceCompiler,
    crate_dir: &Path,
    target_dir: &Path,
    arch: &str,
    assembly: &Path,
) -> Result<(), Error> {
    let mut command = clean_command(compiler);
    command.env("CARGO_ENCODED_RUSTFLAGS", recipe::rustflags(arch).join("\x1f"));
    command.current_dir(crate_dir);
    // A static library takes no linker: the target's own is a component that few have, and there is nothing to link.
    command.args(["rustc", "--lib", "--release", "--crate-type=staticlib"]);
    command.args(["-Zbuild-std=core", "--target=nvptx64-nvidia-cuda"]);
    command.arg("--target-dir").arg(target_dir.join(arch));
    for setting in recipe::PROFILE {
        command.args(["--config", setting]);
    }
    if crate_dir.ancestors().any(|dir| dir.join("Cargo.lock").is_file()) {
        command.arg("--locked");
    }
    let mut emit = std::ffi::OsString::from("--emit=asm=");
    emit.push(assembly);
    command.arg("--").arg(emit);
    run(command, crate_dir, arch)
}

fn run(mut command: Command, crate_dir: &Path, arch: &str) -> Result<(), Error> {
    let program = PathBuf::from(command.get_program());
    let output = command.output().map_err(Error::at(&program))?;
    let messages = String::from_utf8_lossy(&output.stderr);
    if output.status.success() {
        // Shown by `cargo build -vv`; warnings about kernels also come up when the host compiles them.
        eprint!("{messages}");
        return Ok(());
    }
    Err(Error::Compile { crate_dir: crate_dir.to_owned(), arch: arch.to_owned(), output: messages.into_owned() })
}

/// Cargo with the device compiler, and without what the outer run left behind.
fn clean_command(compiler: &DeviceCompiler) -> Command {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    for (name, _) in env::vars_os().filter(|(name, _)| is_dropped(name)) {
        command.env_remove(name);
    }
    command.env("RUSTC", compiler.rustc());
    // Lets a stable compiler and a stable cargo use the unstable target.
    command.env("RUSTC_BOOTSTRAP", "1");
    // Set to nothing, they also override wrappers from configuration files.
    command.env("RUSTC_WRAPPER", "");
    command.env("RUSTC_WORKSPACE_WRAPPER", "");
    command
}

fn is_dropped(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    let begins = |start: &&&str| name.starts_with(**start);
    DROPPED.iter().any(|start| begins(&start)) && !KEPT.iter().any(|start| begins(&start))
}

/// The cargo target directory that `path` lies in: the nearest directory that cargo has marked as one.
#[must_use]
pub fn enclosing_target_dir(path: &Path) -> Option<PathBuf> {
    let mut dirs = path.ancestors();
    dirs.find(|dir| dir.join("CACHEDIR.TAG").is_file()).map(Path::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_outer_cargo_set_is_dropped() {
        for name in [
            "CARGO_ENCODED_RUSTFLAGS",
            "CARGO_TARGET_DIR",
            "CARGO_BUILD_TARGET",
            "CARGO_PROFILE_RELEASE_LTO",
            "CARGO_INCREMENTAL",
            "RUSTFLAGS",
            "RUSTC_WORKSPACE_WRAPPER",
            "RUSTC_WRAPPER",
            "RUSTDOCFLAGS",
        ] {
            assert!(is_dropped(OsStr::new(name)), "{name}");
        }
    }

    #[test]
    fn what_the_user_set_for_all_of_cargo_is_kept() {
        for name in ["CARGO", "CARGO_HOME", "CARGO_NET_OFFLINE", "CARGO_MAKEFLAGS", "PATH", "RUSTUP_HOME"] {
            assert!(!is_dropped(OsStr::new(name)), "{name}");
        }
    }

    #[test]
    fn the_target_directory_is_the_nearest_marked_one() {
        let cache = tempfile::tempdir().unwrap();
        let target = cache.path().join("checkout/target");
        let out_dir = target.join("debug/build/package-0123/out");
        std::fs::create_dir_all(&out_dir).unwrap();
        std::fs::write(cache.path().join("CACHEDIR.TAG"), "").unwrap();
        std::fs::write(target.join("CACHEDIR.TAG"), "").unwrap();
        assert_eq!(enclosing_target_dir(&out_dir), Some(target));
    }
}
