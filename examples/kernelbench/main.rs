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
    let bar = progress_bar(problems.len() * arguments.variants().len())?;
    let mut planner = Planner::new(arguments, &bar)?;
    let device = Device::new(0)?;
    let mut bench = Bench::new(&device, arguments)?;
    let mut report = Report::new(device.name(), bench.ceiling, arguments);
    println!("{report}\n");
    let measured = measure_all(&mut bench, &problems, arguments, &mut planner, &bar, &mut report.rows);
    keep(measured, &planner, &report, arguments)?;
    println!("\n{}", report.means(arguments));
    Ok(())
}

/// Writes what was found and measured, before a failure as well: it is worth keeping. The first failure is returned.
fn keep(measured: Result<()>, planner: &Planner, report: &Report, arguments: &Arguments) -> Result<()> {
    let saved = planner.save(arguments);
    // Where a failure leaves nothing to report, an earlier report stays in its place.
    let is_empty = measured.is_err() && report.rows.is_empty();
    let written = if is_empty { Ok(()) } else { report.write(arguments) };
    measured.and(saved).and(written)
}

/// Measures every problem with every algorithm in every precision, and prints a line for each.
fn measure_all(
    bench: &mut Bench,
    problems: &[BenchProblem],
    arguments: &Arguments,
    planner: &mut Planner,
    bar: &ProgressBar,
    rows: &mut Vec<Measurement>,
) -> Result<()> {
    let table = Table::new(problems);
    println!("{}", table.header());
    let variants = arguments.variants();
    bar.reset_elapsed();
    for problem in problems {
        bar.set_message(problem.label());
        let measured = bench.measure(problem, &variants, planner, |variant, outcome| {
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
    Ok(())
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

#[cfg(test)]
mod tests {
    use std::{fs, path::PathBuf};

    use anyhow::anyhow;
    use clap::Parser;
    use tempfile::TempDir;

    use super::*;
    use floor::Ceiling;

    /// A directory with a report of an earlier run, the name of another file in it, and arguments that name both.
    fn earlier_run() -> (TempDir, [PathBuf; 2], Arguments) {
        let directory = tempfile::tempdir().unwrap();
        let paths = ["ours.json", "tuned.json"].map(|name| directory.path().join(name));
        fs::write(&paths[0], "an earlier report").unwrap();
        let [report, tuned] = paths.each_ref().map(|path| path.to_str().unwrap());
        let options = ["kernelbench", "--json", report, "--autotune", "1", "--autotune-file", tuned];
        let arguments = Arguments::parse_from(options);
        (directory, paths, arguments)
    }

    #[test]
    fn a_damaged_file_of_an_autotune_is_told_before_anything_is_measured() {
        let (_directory, [report, tuned], arguments) = earlier_run();
        fs::write(&tuned, "{").unwrap();
        let message = describe(&run(&arguments).unwrap_err());
        assert!(message.contains("tuned.json is no file of an autotune, or is damaged"), "{message}");
        assert_eq!(fs::read_to_string(report).unwrap(), "an earlier report");
    }

    #[test]
    fn a_failure_loses_neither_plans_nor_an_earlier_report() {
        let (_directory, [json, tuned], arguments) = earlier_run();
        let planner = Planner::new(&arguments, &ProgressBar::hidden()).unwrap();
        let report = Report::new("a test", Ceiling { copy_gb_per_s: 1.0, tf32_tflop_per_s: 1.0 }, &arguments);
        let failed = keep(Err(anyhow!("out of memory")), &planner, &report, &arguments);
        assert_eq!(failed.unwrap_err().to_string(), "out of memory");
        assert!(tuned.is_file());
        assert_eq!(fs::read_to_string(&json).unwrap(), "an earlier report");
        keep(Ok(()), &planner, &report, &arguments).unwrap();
        assert!(fs::read_to_string(&json).unwrap().contains("\"device\": \"a test\""));
    }
}
