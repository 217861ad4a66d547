//! Calls of NVIDIA's assembler.

use std::fs;
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
        // Found from any directory. A mere name is looked for where programs are.
        let program =
            if program.components().count() > 1 { fs::canonicalize(&program).unwrap_or(program) } else { program };
        let text = run(Command::new(&program).arg("--version"))?;
        let version = release(&text).with_context(|| format!("{} is no ptxas; it says: {text}", program.display()))?;
        Ok(Self { version: version.to_owned(), program })
    }

    /// Such as `13.0.88`.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Assembles a file for one target: the report, and the machine code.
    pub fn assemble(&self, ptx: &Path, target: &str) -> anyhow::Result<(Report, Vec<u8>)> {
        // Machine code has the command's arguments in it: they must not tell where it was made.
        const PTX: &str = "kernels.ptx";
        const CODE: &str = "kernels.cubin";
        let scratch = tempfile::tempdir()?;
        fs::copy(ptx, scratch.path().join(PTX)).with_context(|| format!("cannot copy {}", ptx.display()))?;
        let arch = format!("-arch={target}");
        let output = run(Command::new(&self.program).current_dir(&scratch).args(["-v", &arch, PTX, "-o", CODE]))?;
        let report = Report::parse(&output);
        let report = report.with_context(|| format!("ptxas' report on {} for {target}", ptx.display()))?;
        Ok((report, fs::read(scratch.path().join(CODE))?))
    }
}

/// What a successful call prints. Reports go to standard error in some releases and to standard output in others.
fn run(command: &mut Command) -> anyhow::Result<String> {
    let Output { status, stdout, stderr } =
        command.output().with_context(|| format!("cannot run {}; see --ptxas", command.get_program().display()))?;
    let text = [stdout, stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    ensure!(status.success(), "{command:?} fails:\n{text}");
    Ok(text)
}
