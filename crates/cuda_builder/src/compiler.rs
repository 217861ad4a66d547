//! The compiler for GPU code: a rustc whose sysroot has the standard library's source.
//!
//! No toolchain ships a compiled `core` for the GPU that fits our flags, so `core` is compiled along with the kernels.

use std::env;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Names the compiler to use, instead of looking for one.
pub(crate) const OVERRIDE: &str = "CUDA_BUILDER_RUSTC";

/// Debian installs one compiler, here, whatever comes first in `PATH`.
const SYSTEM_RUSTC: &str = "/usr/bin/rustc";

/// The oldest release that is known to compile kernels correctly.
const OLDEST: (u32, u32) = (1, 95);

/// A compiler that can compile for the GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceCompiler {
    rustc: PathBuf,
    version: String,
}

/// No compiler for GPU code was found. The message says what was looked at and what to install.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct NoCompiler {
    rejected: Vec<Rejected>,
}

/// A compiler that was looked at, and why it will not do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejected {
    /// The program, as it was called.
    pub rustc: PathBuf,
    /// Why it will not do.
    pub reason: String,
}

impl DeviceCompiler {
    /// Looks at the compiler that `CUDA_BUILDER_RUSTC` names; if that is not set, at the one that compiles the host
    /// code (`RUSTC`, else `rustc`), then at Debian's.
    ///
    /// # Errors
    ///
    /// [`NoCompiler`] with a reason for each.
    pub fn find() -> Result<Self, NoCompiler> {
        Self::first_of(&candidates())
    }

    /// The compiler that is this program.
    ///
    /// # Errors
    ///
    /// [`NoCompiler`] when it cannot compile for the GPU.
    pub fn at(rustc: impl Into<PathBuf>) -> Result<Self, NoCompiler> {
        Self::first_of(&[rustc.into()])
    }

    fn first_of(candidates: &[PathBuf]) -> Result<Self, NoCompiler> {
        let mut rejected = Vec::new();
        for rustc in candidates {
            match Self::examine(rustc) {
                Ok(compiler) => return Ok(compiler),
                Err(reason) => rejected.push(Rejected { rustc: rustc.clone(), reason }),
            }
        }
        Err(NoCompiler { rejected })
    }

    fn examine(rustc: &Path) -> Result<Self, String> {
        let description = ask(rustc, &["-vV"])?;
        let version = description.lines().next().unwrap_or_default().to_owned();
        let release = parse_release(&description)
            .ok_or_else(|| format!("it does not say which release it is, but {version:?}"))?;
        if release < OLDEST {
            let (major, minor) = OLDEST;
            return Err(format!("{version} is older than {major}.{minor}"));
        }
        let sysroot = PathBuf::from(ask(rustc, &["--print", "sysroot"])?.trim());
        let library = sysroot.join("lib/rustlib/src/rust/library/core");
        if !library.is_dir() {
            let library = library.display();
            return Err(format!("{version} has no library source in {library}"));
        }
        // Rustup's `rustc` picks a toolchain by the directory it is called in; this is the one that was examined.
        let own = sysroot.join("bin/rustc");
        let rustc = if own.is_file() { own } else { rustc.to_owned() };
        Ok(Self { rustc, version })
    }

    /// The program.
    #[must_use]
    pub fn rustc(&self) -> &Path {
        &self.rustc
    }

    /// What it calls itself, such as `rustc 1.96.0 (ac68faa20 2026-05-25)`.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Has cargo run the build script again when another compiler is asked for, or this one is replaced.
    pub fn print_rerun_if_changed(&self) {
        println!("cargo::rerun-if-changed={}", self.rustc.display());
        Self::print_rerun_if_env_changed();
    }

    /// Has cargo run the build script again when another compiler is asked for.
    pub fn print_rerun_if_env_changed() {
        println!("cargo::rerun-if-env-changed={OVERRIDE}");
    }
}

impl NoCompiler {
    /// The compilers that were looked at, in order.
    #[must_use]
    pub fn rejected(&self) -> &[Rejected] {
        &self.rejected
    }
}

impl fmt::Display for NoCompiler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "no compiler for GPU code was found:")?;
        for Rejected { rustc, reason } in &self.rejected {
            writeln!(f, "  {}: {reason}", rustc.display())?;
        }
        let (major, minor) = OLDEST;
        writeln!(f, "install one of")?;
        writeln!(f, "  with rustup ({major}.{minor} or newer): rustup component add rust-src")?;
        writeln!(f, "  on Debian:      apt-get install rustc-web rust-web-src")?;
        write!(f, "or set {OVERRIDE} to a rustc that has its library source")
    }
}

fn candidates() -> Vec<PathBuf> {
    if let Some(chosen) = env::var_os(OVERRIDE) {
        return vec![chosen.into()];
    }
    let of_host = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    vec![of_host.into(), SYSTEM_RUSTC.into()]
}

/// Runs a compiler for the text that it prints.
fn ask(rustc: &Path, arguments: &[&str]) -> Result<String, String> {
    let output = Command::new(rustc).args(arguments).output();
    let output = output.map_err(|error| format!("does not run: {error}"))?;
    if !output.status.success() {
        let complaint = String::from_utf8_lossy(&output.stderr);
        return Err(format!("does not work: {}", complaint.trim()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The major and minor number in the output of `rustc -vV`.
fn parse_release(description: &str) -> Option<(u32, u32)> {
    let release = description.lines().find_map(|line| line.strip_prefix("release: "))?;
    let mut numbers = release.split('.').map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_read_from_any_channel() {
        assert_eq!(parse_release("rustc 1\nrelease: 1.96.0\n"), Some((1, 96)));
        assert_eq!(parse_release("release: 1.97.0-nightly\n"), Some((1, 97)));
        assert_eq!(parse_release("something else"), None);
    }

    #[test]
    fn without_a_compiler_the_error_says_what_to_install() {
        let absent = [PathBuf::from("/no/such/rustc"), PathBuf::from("/nor/this")];
        let error = DeviceCompiler::first_of(&absent).unwrap_err();
        assert_eq!(error.rejected().len(), 2);
        let message = error.to_string();
        for part in [
            "/no/such/rustc: does not run",
            "/nor/this: does not run",
            "rustup component add rust-src",
            "apt-get install rustc-web rust-web-src",
            "CUDA_BUILDER_RUSTC",
        ] {
            assert!(message.contains(part), "{part:?} is not in:\n{message}");
        }
    }

    #[test]
    #[cfg(unix)]
    fn compilers_without_source_or_too_old_are_skipped() {
        let dir = tempfile::tempdir().unwrap();
        let old = fake_rustc(dir.path(), "old", "1.63.0");
        let bare = fake_rustc(dir.path(), "bare", "1.99.0");
        let error = DeviceCompiler::first_of(&[old, bare]).unwrap_err();
        let reasons: Vec<_> = error.rejected().iter().map(|r| r.reason.as_str()).collect();
        assert!(reasons[0].contains("is older than 1.95"), "{reasons:?}");
        assert!(reasons[1].contains("has no library source"), "{reasons:?}");
    }

    #[test]
    #[cfg(unix)]
    fn a_compiler_with_source_is_taken() {
        let dir = tempfile::tempdir().unwrap();
        let rustc = fake_rustc(dir.path(), "rustc", "1.99.0");
        let library = dir.path().join("lib/rustlib/src/rust/library/core");
        std::fs::create_dir_all(library).unwrap();
        let compiler = DeviceCompiler::first_of(&["/no/such/rustc".into(), rustc.clone()]).unwrap();
        assert_eq!(compiler.rustc(), rustc);
        assert_eq!(compiler.version(), "rustc 1.99.0 (fake)");
    }

    /// A script that answers the questions above; `dir` is its sysroot.
    #[cfg(unix)]
    fn fake_rustc(dir: &Path, name: &str, release: &str) -> PathBuf {
        use std::os::unix::fs::PermissionsExt;
        let path = dir.join(name);
        let script = format!(
            "#!/bin/sh\ncase $1 in\n--print) echo '{}';;\n*) printf 'rustc {release} (fake)\\nrelease: {release}\\n';;\nesac\n",
            dir.display()
        );
        std::fs::write(&path, script).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        // What another test has just started has the script open for writing, as this program had, until it runs.
        let is_busy = |error: std::io::Error| error.kind() == std::io::ErrorKind::ExecutableFileBusy;
        while Command::new(&path).output().is_err_and(is_busy) {}
        path
    }
}
