//! Measures how close transposed convolutions come to what a GPU can do: `cargo run --release --example kernelbench`.
//!
//! The problems are the public ones of KernelBench, a list of your own, or any geometry on the command line; `--help`
//! says how. With `--autotune SECONDS` plans are found by measurement; with `--first-use` the time until a program's
//! first result is measured. With `--json FILE` the results are written for `benches/torch_gpu.py`, which puts the
//! times of PyTorch and JAX beside them.

mod arguments;
mod copy;
mod first_use;
mod floor;
mod labels;
mod measure;
mod planner;
mod problems;
mod random;
mod report;
mod roofline;
mod samples;
mod subject;
mod syntax;
mod timing;

use std::process::ExitCode;

use anyhow::{Context, Result};
use conv_transpose::{
    Error,
    cuda::{CudaError, Device},
};
use indicatif::{ProgressBar, ProgressStyle};

use arguments::Arguments;
use measure::{Bench, Measurement};
use planner::Planner;
use problems::BenchProblem;
use report::{Report, Table};

fn main() -> ExitCode {
    let arguments = match arguments::parse() {
        Ok(arguments) => arguments,
        Err(exit_code) => return exit_code,
    };
    let done = if arguments.first_use { first_use::run(&arguments) } else { run(&arguments) };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => arguments::fail(&describe(&error)),
    }
}

/// The error and its causes, without those that it quotes.
fn describe(error: &anyhow::Error) -> String {
    let mut parts: Vec<String> = Vec::new();
    for cause in error.chain().map(ToString::to_string) {
        if !parts.iter().any(|part| part.contains(&cause)) {
            parts.push(cause);
        }
    }
    parts.join(": ")
}

fn run(arguments: &Arguments) -> Result<()> {
    let problems = arguments.problems()?;
    let device = Device::new(0)?;
    let mut bench = Bench::new(&device, arguments)?;
    let mut report = Report::new(&device, &bench, arguments);
    println!("{report}\n");
    let measured = measure_all(&mut bench, &problems, arguments, &mut report.rows);
    // What was measured before a failure is worth keeping.
    report.write(arguments)?;
    measured?;
    println!("\n{}", report.means(arguments));
    Ok(())
}

/// Measures every problem with every algorithm in every precision, and prints a line for each.
fn measure_all(
    bench: &mut Bench,
    problems: &[BenchProblem],
    arguments: &Arguments,
    rows: &mut Vec<Measurement>,
) -> Result<()> {
    let table = Table::new(problems);
    println!("{}", table.header());
    let variants = arguments.variants();
    let bar = progress_bar(problems.len() * variants.len())?;
    let mut planner = Planner::new(arguments, &bar)?;
    for problem in problems {
        bar.set_message(problem.label());
        let measured = bench.measure(problem, &variants, &mut planner, |variant, outcome| {
            let line = match outcome {
                Ok(row) => {
                    let line = table.line(&row);
                    rows.push(row);
                    line
                }
                Err(error) => table.refusal(problem, variant, refusal(error)?),
            };
            bar.suspend(|| println!("{line}"));
            bar.set_prefix("");
            bar.inc(1);
            Ok(())
        });
        measured.with_context(|| format!("problem {}", problem.label()))?;
    }
    bar.finish_and_clear();
    planner.save(arguments)
}

/// That an algorithm does not support a problem is a result; any other error ends the program.
fn refusal(error: Error) -> Result<CudaError> {
    match error {
        Error::Cuda(refusal @ CudaError::Unsupported { .. }) => Ok(refusal),
        error => Err(error.into()),
    }
}

/// A bar on stderr, if that is a terminal.
fn progress_bar(len: usize) -> Result<ProgressBar> {
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len}, {elapsed}, {prefix}problem {msg}")?;
    Ok(ProgressBar::new(len as u64).with_style(style))
}
