//! Mutants: known faults, planted one at a time into a copy of the repository. A test has to fail for each.
//!
//! The faults are in `tests/mutants/faults.toml`. One that no test notices shows that a test is missing.

mod copy;
mod fault;
mod suite;

use std::io::Write as _;
use std::time::Instant;

use anyhow::{Context, bail, ensure};
use cuda_builder::enclosing_target_dir;
use kernel_ptx::Kernels;

use crate::ptx::root;
use copy::Copy;
use fault::Fault;
use suite::{Outcome, Suite};

/// Fails unless every fault still finds its place in the sources.
pub(crate) fn check() -> anyhow::Result<()> {
    let faults = fault::load(&root())?;
    println!("each of the {} faults finds its place", faults.len());
    Ok(())
}

/// Plants the faults whose file or description contains `only`, and prints what catches them; fails if nothing catches
/// one.
pub(crate) fn run(only: &str) -> anyhow::Result<()> {
    let mut chosen = fault::load(&root())?;
    chosen.retain(|fault| fault.file.contains(only) || fault.what.contains(only));
    ensure!(!chosen.is_empty(), "no fault is chosen");
    let target_dir =
        enclosing_target_dir(&std::env::current_exe()?).context("this program is in no target directory")?;
    let own_dir = target_dir.join("mutants");
    let copy = Copy::make(&root(), own_dir.join("tree"))?;
    let suite = Suite::new(copy.dir(), &own_dir);
    prove_sound(&copy, &suite)?;
    let survivors = plant_all(&chosen, &copy, &suite)?;
    println!("\n{} of {} faults are caught", chosen.len() - survivors, chosen.len());
    ensure!(survivors == 0, "{survivors} faults survive: tests are missing");
    Ok(())
}

/// Without a fault all tests pass; otherwise each fault would seem to be caught.
fn prove_sound(copy: &Copy, suite: &Suite) -> anyhow::Result<()> {
    renew_hash(copy)?;
    match suite.run()? {
        Outcome::Survived => Ok(()),
        Outcome::Caught(by) => bail!("without any fault, this fails: {by}"),
    }
}

/// Prints a line for each fault; the number of those that nothing catches.
fn plant_all(faults: &[Fault], copy: &Copy, suite: &Suite) -> anyhow::Result<usize> {
    println!("| file | fault | caught by | time |\n| --- | --- | --- | --- |");
    let mut survivors = 0;
    for fault in faults {
        let start = Instant::now();
        let outcome = plant(fault, copy, suite)?;
        let verdict = match &outcome {
            Outcome::Caught(by) => by,
            Outcome::Survived => "**nothing**",
        };
        survivors += usize::from(matches!(outcome, Outcome::Survived));
        println!("| {} | {} | {verdict} | {} s |", fault.file, fault.what, start.elapsed().as_secs());
        std::io::stdout().flush()?;
    }
    Ok(survivors)
}

/// Plants a fault, runs the tests and takes it out again.
fn plant(fault: &Fault, copy: &Copy, suite: &Suite) -> anyhow::Result<Outcome> {
    let sound = copy.read(&fault.file)?;
    copy.write(&fault.file, &fault.planted_in(&sound)?)?;
    renew_hash(copy)?;
    let outcome = suite.run().with_context(|| format!("{}: {}", fault.file, fault.what));
    copy.write(&fault.file, &sound)?;
    outcome
}

/// Declares the prebuilt PTX of the copy to be up to date. No test runs it, and compiling it would take most of the
/// time.
fn renew_hash(copy: &Copy) -> anyhow::Result<()> {
    let kernels = Kernels::new(copy.dir());
    kernels.prebuilt().record(&kernels.hash()?, "a copy with a planted fault")?;
    Ok(())
}
