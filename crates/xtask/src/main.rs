//! Chores of this repository, run as `cargo xtask`.
//!
//! It does not depend on the library, whose build stops when the prebuilt PTX is out of date: this is what renews it.

mod ptx;

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
}

fn main() -> anyhow::Result<()> {
    match Arguments::parse().chore {
        Chore::Ptx { check: false } => ptx::regenerate(),
        Chore::Ptx { check: true } => ptx::check(),
    }
}
