//! Times the public KernelBench problems on a GPU, algorithm by algorithm.
//!
//! ```text
//! cargo run --release --example kernelbench -- --problem 70,72,73 --algorithm gather,scatter
//! ```
//! With `--json FILE` the results are written for `benches/torch_gpu.py`, which puts PyTorch's times beside them.

mod measure;
mod problems;

use std::{path::PathBuf, process::ExitCode};

use anyhow::{Context, Result};
use clap::Parser;
use conv_transpose::cuda::{Algorithm, Device};

use measure::{Measurement, measure};
use problems::problems;

/// Times the public KernelBench problems on a GPU.
#[derive(Parser)]
struct Arguments {
    /// The problems to run, by their KernelBench number; all of them by default
    #[arg(long, value_delimiter = ',')]
    problem: Vec<u32>,
    /// The algorithms to run
    #[arg(long, value_delimiter = ',', default_value = "auto")]
    algorithm: Vec<AlgorithmName>,
    /// Timed launches of each
    #[arg(long, default_value_t = 12)]
    repeats: usize,
    /// Where to write the results as JSON
    #[arg(long)]
    json: Option<PathBuf>,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum AlgorithmName {
    Auto,
    Direct,
    Gather,
    Scatter,
}

impl From<AlgorithmName> for Algorithm {
    fn from(name: AlgorithmName) -> Self {
        match name {
            AlgorithmName::Auto => Self::Auto,
            AlgorithmName::Direct => Self::Direct,
            AlgorithmName::Gather => Self::Gather,
            AlgorithmName::Scatter => Self::Scatter,
        }
    }
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("kernelbench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<()> {
    let device = Device::new(0)?;
    println!("{}", device.name());
    println!("{}", Measurement::HEADER);
    let mut measurements = Vec::new();
    for problem in problems()? {
        if !arguments.problem.is_empty() && !arguments.problem.contains(&problem.id) {
            continue;
        }
        for &algorithm in &arguments.algorithm {
            let measurement = measure(&device, &problem, algorithm.into(), arguments.repeats)
                .with_context(|| format!("problem {}", problem.id))?;
            println!("{measurement}");
            measurements.push(measurement);
        }
    }
    if let Some(path) = &arguments.json {
        std::fs::write(path, serde_json::to_string_pretty(&measurements)?)
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}
