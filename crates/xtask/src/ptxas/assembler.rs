//! Calls of NVIDIA's assembler.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use anyhow::{Context, ensure};

use super::output::{Report, release};

/// A ptxas that runs.
pub(super) struct Assembler {
    program: PathBuf,
    version: String,
}

impl Assembler {
    pub fn new(program: PathBuf) -> anyhow::Result<Self> {
        let text = run(&program, [OsStr::new("--version")])?;
        let version = release(&text).with_context(|| format!("{} is no ptxas; it says: {text}", program.display()))?;
        Ok(Self { version: version.to_owned(), program })
    }

    /// Such as `13.0.88`.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Assembles a file for one target, and throws the result away.
    pub fn assemble(&self, ptx: &Path, target: &str) -> anyhow::Result<Report> {
        let arch = format!("-arch={target}");
        let discard = if cfg!(windows) { "NUL" } else { "/dev/null" };
        let arguments = [OsStr::new("-v"), OsStr::new(&arch), ptx.as_os_str(), OsStr::new("-o"), OsStr::new(discard)];
        let output = run(&self.program, arguments)?;
        Report::parse(&output).with_context(|| format!("ptxas' report on {} for {target}", ptx.display()))
    }
}

/// What a successful call prints. Reports go to standard error in some releases and to standard output in others.
fn run<'a>(program: &Path, arguments: impl IntoIterator<Item = &'a OsStr>) -> anyhow::Result<String> {
    let mut command = Command::new(program);
    let Output { status, stdout, stderr } =
        command.args(arguments).output().with_context(|| format!("cannot run {}; see --ptxas", program.display()))?;
    let text = [stdout, stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    ensure!(status.success(), "{command:?} fails:\n{text}");
    Ok(text)
}
