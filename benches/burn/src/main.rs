//! Times burn, on its CUDA backend, on the problems that the example `kernelbench` has measured.
//!
//!     cargo run --release --example kernelbench -- --json ours.json
//!     cargo run --release --manifest-path benches/burn/Cargo.toml -- ours.json --json burn.json
//!     python3 benches/torch_gpu.py ours.json --burn burn.json
//!
//! burn's default is timed: with fusion and with autotune, which chooses in the first call, before the timed ones. In
//! 1D and 2D it has a direct kernel and a matrix product followed by `col2im` to choose from; in 3D there is a direct
//! kernel alone. The direct kernels compute in `f32`, without tensor cores. The kernel of the matrix product is chosen
//! by measurement as well, and some candidates round `f32` to TF32 for the tensor cores. There is no option to ask for
//! either precision, so a problem is measured once, its time stands in the rows of both, and the relative error tells
//! which one it was: around 1e-7, or around 3e-4.
//!
//! The time is by the clock over all calls, with one wait at the end, so that of small problems includes the host's
//! work, as JAX's does in `torch_gpu.py`.
//!
//! A problem that burn refuses, or computes wrongly, or for which the memory is too small, has no time; stderr says
//! why.
//!
//! Building takes a while and downloads LLVM, with which burn compiles its kernels; it needs no CUDA toolkit. Running
//! needs the driver and nothing else.

mod problem;
mod reference;
mod report;
mod timing;

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    path::PathBuf,
    process::ExitCode,
};

use anyhow::{Context, Result, anyhow};
use burn::tensor::{Device, Tensor};
use clap::Parser;

use crate::{problem::Ours, report::Report};

/// Times burn's transposed convolution on the problems that kernelbench has measured
#[derive(Debug, Parser)]
#[command(name = "burn-peer")]
struct Arguments {
    /// What `kernelbench --json` wrote
    ours: PathBuf,

    /// Where to write the times for benches/torch_gpu.py
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    /// The number of a problem to run, in place of all; may be repeated
    #[arg(long, value_name = "ID", value_delimiter = ',')]
    only: Vec<u32>,
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("burn-peer: {}", one_line(&error));
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<()> {
    let ours = Ours::read(&arguments.ours)?;
    let rows = ours.select(&arguments.only)?;
    let device = Device::cuda(0);
    caught(|| first_use(&device)).context("burn cannot use the GPU")?;

    let mut report = Report::new();
    println!("{}; mean of {} calls", report.versions(), ours.repeats);
    let width = rows.iter().map(|row| row.label().chars().count()).max().unwrap_or(0);
    for row in rows {
        let known = report.timing(row);
        let timing = known.unwrap_or_else(|| {
            let timing = caught(|| timing::measure(row, ours.repeats, &device));
            timing.inspect_err(|error| eprintln!("{}: {}", row.label(), one_line(error))).ok()
        });
        println!("{:<width$}  {:<9} {}", row.label(), row.precision, report::cells(timing));
        report.push(row, timing);
        // Each time: a crash would take the times before it along.
        if let Some(path) = &arguments.json {
            report.write(path)?;
        }
        if known.is_none() {
            caught(|| clear(&device)).context("the GPU is of no more use; run what is left with --only")?;
        }
    }
    Ok(())
}

/// Frees what a problem held. An error if the device is lost, as after an illegal access: every problem would fail from
/// then on.
fn clear(device: &Device) -> Result<()> {
    // What has failed has been told.
    let _ = device.sync();
    device.memory_cleanup();
    first_use(device)
}

/// Opens the device, has a kernel compiled, and runs it.
fn first_use(device: &Device) -> Result<()> {
    let two = Tensor::<1>::ones([1], device) + 1.0;
    let values = two.try_into_data()?.iter::<f32>().collect::<Vec<_>>();
    if values == [2.0] { Ok(()) } else { Err(anyhow!("1 + 1 is {values:?} there")) }
}

/// What `work` returns, with a panic as an error: burn panics on what it does not support, and on much that fails.
fn caught<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    // What it may leave half done is burn's state on the device; burn has its own ways to find that out.
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref().copied());
        Err(anyhow!("panic: {}", text.unwrap_or("without a message")))
    })
}

/// An error with its causes. burn's have lines of their own, backtraces among them.
fn one_line(error: &anyhow::Error) -> String {
    format!("{error:#}").split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_definition_of_the_command_line_is_sound() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn a_panic_becomes_an_error_with_its_message() {
        assert_eq!(caught(|| Ok(1)).unwrap(), 1);
        let formatted: Result<()> = caught(|| panic!("no kernel for {} axes", 4));
        assert_eq!(formatted.unwrap_err().to_string(), "panic: no kernel for 4 axes");
        let literal: Result<()> = caught(|| panic!("no kernel"));
        assert_eq!(literal.unwrap_err().to_string(), "panic: no kernel");
    }
}
