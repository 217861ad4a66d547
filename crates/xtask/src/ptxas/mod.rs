//! The prebuilt PTX, assembled for the GPUs that will run it.
//!
//! A driver does the same when a program starts. Here it needs no GPU, and leaves a table of what each kernel takes.

mod assembler;
mod output;
mod table;
mod targets;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

use crate::ptx::kernels;
use assembler::Assembler;
use output::Report;
use table::Section;

/// Writes `ptx/REGISTERS.md`; what is wrong with a kernel is said, but does not keep it from being written.
pub(crate) fn regenerate(program: PathBuf) -> anyhow::Result<()> {
    let (text, faults) = assemble(&Assembler::new(program)?)?;
    let path = table_path();
    fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    println!("{}", path.display());
    faults.iter().for_each(|fault| eprintln!("{fault}"));
    Ok(())
}

/// Fails if a kernel spills or uses a stack, if ptxas warns, or if `ptx/REGISTERS.md` is not what would be written.
pub(crate) fn check(program: PathBuf) -> anyhow::Result<()> {
    let (text, mut faults) = assemble(&Assembler::new(program)?)?;
    let path = table_path();
    let committed = fs::read_to_string(&path).unwrap_or_default().replace("\r\n", "\n");
    if let Some(difference) = table::difference(&committed, &text) {
        faults.push(format!("{} is out of date, run `cargo xtask ptxas`:\n{difference}", path.display()));
    }
    if !faults.is_empty() {
        bail!("{}", faults.join("\n"));
    }
    println!("every kernel assembles without a stack and without a warning, and the table of registers is up to date");
    Ok(())
}

/// The table, and everything that is wrong with the kernels.
fn assemble(assembler: &Assembler) -> anyhow::Result<(String, Vec<String>)> {
    let kernels = kernels();
    let modules = kernels.prebuilt().load(&kernels.hash()?).context("run `cargo xtask ptx` first")?;
    let archs: Vec<&str> = modules.iter().map(|module| module.arch.as_str()).collect();
    let (mut sections, mut faults) = (Vec::new(), Vec::new());
    for module in &modules {
        let mut rows = Vec::new();
        for target in targets::of(&module.arch, &archs)? {
            let report = assembler.assemble(&module.path, &target)?;
            faults.extend(faults_of(&report, &module.path, &target));
            rows.extend(report.kernels.into_iter().map(|kernel| (target.clone(), kernel)));
        }
        sections.push(Section { ptx: module.arch.clone(), rows });
    }
    Ok((table::render(assembler.version(), &mut sections), faults))
}

fn faults_of(report: &Report, ptx: &Path, target: &str) -> Vec<String> {
    let place = format!("{} on {target}", ptx.display());
    let in_memory = report.kernels.iter().filter(|kernel| kernel.uses_local_memory()).map(|kernel| {
        format!("`{}` keeps {} bytes on a stack and spills {}", kernel.name, kernel.stack, kernel.spill_stores)
    });
    let complaints = in_memory.chain(report.warnings.iter().cloned());
    complaints.map(|complaint| format!("{place}: {complaint}")).collect()
}

fn table_path() -> PathBuf {
    kernels().prebuilt().dir().join("REGISTERS.md")
}
