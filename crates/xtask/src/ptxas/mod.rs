//! The prebuilt PTX, assembled for the GPUs that will run it.
//!
//! A driver does the same when a program starts. Here it needs no GPU, and leaves a table of what each kernel takes.
//! The machine code of PTX that a single generation of GPUs runs is kept, so that programs need not wait for the driver
//! there.

mod assembler;
mod output;
mod table;
mod targets;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use cuda_builder::Ptx;

use crate::ptx::kernels;
use assembler::Assembler;
use output::Report;
use table::Section;

/// What the assembler makes of the PTX.
struct Assembled {
    /// The table of registers.
    table: String,
    /// Modules with machine code to be kept.
    code: Vec<(Ptx, Vec<u8>)>,
    /// Everything that is wrong with the kernels.
    faults: Vec<String>,
}

/// Writes `ptx/REGISTERS.md` and the machine code; what is wrong with a kernel is said, but does not keep them from
/// being written.
pub(crate) fn regenerate(program: PathBuf) -> anyhow::Result<()> {
    let Assembled { table, code, faults } = assemble(&Assembler::new(program)?)?;
    let path = table_path();
    fs::write(&path, table).with_context(|| format!("cannot write {}", path.display()))?;
    println!("{}", path.display());
    let machine_code = kernels().machine_code();
    for (module, code) in code {
        machine_code.write(&module, &code).with_context(|| format!("cannot write machine code for {}", module.arch))?;
        println!("{}: {} bytes", machine_code.path(&module.arch).display(), code.len());
    }
    faults.iter().for_each(|fault| eprintln!("{fault}"));
    Ok(())
}

/// Fails if a kernel spills or uses a stack, if ptxas warns, or if `ptx/REGISTERS.md` and the machine code are not what
/// would be written.
pub(crate) fn check(program: PathBuf) -> anyhow::Result<()> {
    let Assembled { table: text, code, mut faults } = assemble(&Assembler::new(program)?)?;
    let path = table_path();
    let committed = fs::read_to_string(&path).unwrap_or_default().replace("\r\n", "\n");
    if let Some(difference) = table::difference(&committed, &text) {
        faults.push(format!("{} is out of date, run `cargo xtask ptxas`:\n{difference}", path.display()));
    }
    let machine_code = kernels().machine_code();
    for (module, code) in code {
        let committed = machine_code.of(&module).map(fs::read).transpose()?;
        if committed.as_ref() != Some(&code) {
            let path = machine_code.path(&module.arch);
            faults.push(format!("{} is out of date, run `cargo xtask ptxas`", path.display()));
        }
    }
    if !faults.is_empty() {
        bail!("{}", faults.join("\n"));
    }
    println!(
        "every kernel assembles without a stack and without a warning; the table of registers and the machine code are up to date"
    );
    Ok(())
}

/// Assembles the prebuilt PTX.
fn assemble(assembler: &Assembler) -> anyhow::Result<Assembled> {
    let kernels = kernels();
    let modules = kernels.prebuilt().load(&kernels.hash()?).context("run `cargo xtask ptx` first")?;
    let archs: Vec<String> = modules.iter().map(|module| module.arch.clone()).collect();
    let archs: Vec<&str> = archs.iter().map(String::as_str).collect();
    let (mut sections, mut code, mut faults) = (Vec::new(), Vec::new(), Vec::new());
    for module in modules {
        let mut rows = Vec::new();
        for target in targets::of(&module.arch, &archs)? {
            let (report, machine_code) = assembler.assemble(&module.path, &target)?;
            if targets::is_single(&target) {
                code.push((module.clone(), machine_code));
            }
            faults.extend(faults_of(&report, &module.path, &target));
            rows.extend(report.kernels.into_iter().map(|kernel| (target.clone(), kernel)));
        }
        sections.push(Section { ptx: module.arch, rows });
    }
    Ok(Assembled { table: table::render(assembler.version(), &mut sections), code, faults })
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
