//! Chores of this repository, run as `cargo xtask`.
//!
//! It does not depend on the library, whose build stops when the prebuilt PTX is out of date: this is what renews it.

mod mutants;
mod ptx;
mod ptxas;

use std::path::PathBuf;

use clap::{Parser, Subcommand};

/// Chores of this repository.
#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Compiles the kernels into ptx/, for users who have no compiler for GPU code.
    Ptx {
        /// Changes nothing, but fails if ptx/ is not what compiling would put there.
        #[arg(long)]
        check: bool,
    },
    /// Assembles ptx/ for the GPUs that run it, and writes what each kernel takes to ptx/REGISTERS.md, and machine code
    /// beside it.
    Ptxas {
        /// Changes nothing, but fails if a kernel spills or uses a stack, if ptxas warns, or if the table or the
        /// machine code is out of date.
        #[arg(long)]
        check: bool,
        /// NVIDIA's assembler.
        #[arg(long, value_name = "PATH", default_value = "ptxas")]
        ptxas: PathBuf,
    },
    /// Plants known faults, one at a time, in a copy of the sources: the tests have to catch each.
    Mutants {
        /// Plants nothing, but fails if a fault no longer finds its place in the sources.
        #[arg(long)]
        check: bool,
        /// Only faults whose file or description contains this.
        #[arg(long, value_name = "TEXT", default_value = "")]
        only: String,
    },
}

fn main() -> anyhow::Result<()> {
    match Arguments::parse().chore {
        Chore::Ptx { check: false } => ptx::regenerate(),
        Chore::Ptx { check: true } => ptx::check(),
        Chore::Mutants { check: true, .. } => mutants::check(),
        Chore::Mutants { check: false, only } => mutants::run(&only),
        Chore::Ptxas { check: false, ptxas } => ptxas::regenerate(ptxas),
        Chore::Ptxas { check: true, ptxas } => ptxas::check(ptxas),
    }
}
