//! The command line: what can be measured, and how a refusal is told (one line, exit code 1).

use std::{fmt::Display, ops::RangeInclusive, path::PathBuf, process::ExitCode};

use anyhow::Result;
use clap::{
    Parser,
    builder::{PossibleValuesParser, TypedValueParser},
    error::ErrorKind,
};
use conv_transpose::{Precision, cuda::Algorithm};

use crate::{
    problems::{self, BenchProblem, Wanted},
    roofline,
};

/// The algorithms that can be asked for, by the names that the library gives them.
const ALGORITHMS: &[Algorithm] = &[
    Algorithm::Auto,
    Algorithm::Col2im,
    Algorithm::Direct,
    Algorithm::Flat,
    Algorithm::Tile,
    Algorithm::Gather,
    Algorithm::Patch,
    Algorithm::Scatter,
];
const PRECISIONS: &[Precision] = &[Precision::F32, Precision::Tf32];
/// Time for a search: up to a day.
const SECONDS: RangeInclusive<f64> = 1e-3..=86_400.0;
/// Rates far beyond those of any GPU, which a chart still has room for.
pub const TFLOPS: RangeInclusive<f64> = 1e-3..=1e6;

/// Measures how close transposed convolutions come to what a GPU can do.
///
/// One line per problem and precision: the median time of a launch with a packed weight, on rotating inputs that are
/// not in the L2 cache; rates; the floor, which is the larger of the time to copy as many bytes, at the rate measured
/// in the same run, and the time for the arithmetic; the share of the time that the floor makes up; and the relative L2
/// error of sampled outputs against the definition in f64.
#[derive(Debug, Parser)]
#[command(name = "kernelbench", after_long_help = EXAMPLES)]
pub struct Arguments {
    /// Numbers of problems, or a geometry; may be repeated [default: the whole list]
    ///
    /// Numbers are those of the list, which is KernelBench's or that of --shapes: "70,72".
    ///
    /// A geometry is a list of key=value: "input=8x64x28x28,out=32,kernel=4x4,stride=2,padding=1". The input is batch x
    /// channels x one to three extents; `input`, `out` (channels) and `kernel` are required; `stride`, `padding`,
    /// `output_padding`, `dilation` and `groups` have PyTorch's defaults. One number applies to all axes.
    #[arg(short, long, value_name = "NUMBERS|GEOMETRY")]
    problem: Vec<Wanted>,

    /// A list of problems in the format of benches/problems.json, in place of KernelBench's
    #[arg(short, long, value_name = "FILE")]
    shapes: Option<PathBuf>,

    /// Algorithms to run
    #[arg(short, long, value_delimiter = ',', default_value = "auto", value_parser = named(ALGORITHMS))]
    pub algorithm: Vec<Algorithm>,

    /// Precisions to run
    #[arg(long, value_delimiter = ',', default_value = "f32,tf32", value_parser = named(PRECISIONS))]
    pub precision: Vec<Precision>,

    /// Time calls with a plain weight, which pack it every time
    #[arg(long)]
    pub repack: bool,

    /// Add a bias, as most layers of networks do
    #[arg(long)]
    pub bias: bool,

    /// Measure for up to so many seconds what is the fastest plan for each, instead of relying on the library's model
    #[arg(long, value_name = "SECONDS", value_parser = within(SECONDS), allow_negative_numbers = true)]
    pub autotune: Option<f64>,

    /// Where the fastest plans are remembered; read if it is there, and written at the end
    #[arg(long, value_name = "FILE", requires = "autotune")]
    pub autotune_file: Option<PathBuf>,

    /// Time what a program waits for at its start, instead of launches: of one problem, algorithm and precision
    ///
    /// From opening the device to the first result, step by step. With CUDA_CACHE_DISABLE=1 in the environment, the
    /// driver compiles the kernels as it does on a machine that has never run them.
    #[arg(long, conflicts_with_all = ["autotune", "repack", "bias", "json", "plot"])]
    pub first_use: bool,

    /// With --first-use: load all kernels for the algorithm and precision before, which is timed too
    #[arg(long, requires = "first_use")]
    pub warm_up: bool,

    /// Timed launches of each, 1 to 1000
    #[arg(short, long, default_value_t = 12, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub repeats: u16,

    /// The rate of TF32 matrix products, in TFLOP/s, that the floor of the arithmetic assumes
    ///
    /// The default is what cuBLAS reaches on an H200. For f32, which takes three products for one, the floor assumes a
    /// third.
    #[arg(long, default_value_t = 400.0, value_parser = within(TFLOPS), allow_negative_numbers = true)]
    pub tflops: f64,

    /// Where to write the results for benches/torch_gpu.py
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,

    /// Where to draw the roofline, a PNG
    #[arg(long, value_name = "FILE.png", value_parser = roofline::path)]
    pub plot: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  kernelbench --problem 70,72 --precision tf32
  kernelbench --problem input=1x512x1000,out=256,kernel=16,stride=8,padding=4 --algorithm auto,gather
  kernelbench --autotune 2 --autotune-file autotune.json
  CUDA_CACHE_DISABLE=1 kernelbench --first-use --problem 72 --precision tf32
  kernelbench --shapes benches/decoders.json --json ours.json --plot roofline.png";

/// What to do with a problem.
#[derive(Clone, Copy, Debug)]
pub struct Variant {
    pub algorithm: Algorithm,
    pub precision: Precision,
}

impl Arguments {
    /// The problems that were asked for.
    pub fn problems(&self) -> Result<Vec<BenchProblem>> {
        problems::select(self.shapes.as_deref(), &self.problem)
    }

    /// Every algorithm in every precision.
    pub fn variants(&self) -> Vec<Variant> {
        let of_algorithm = |&algorithm| self.precision.iter().map(move |&precision| Variant { algorithm, precision });
        self.algorithm.iter().flat_map(of_algorithm).collect()
    }
}

/// A parser that takes the names of some values.
fn named<T: Copy + Display + Send + Sync>(values: &'static [T]) -> impl TypedValueParser<Value = T> {
    let find = |name: String| values.iter().copied().find(|value| value.to_string() == name);
    PossibleValuesParser::new(values.iter().map(ToString::to_string))
        .map(move |name| find(name).expect("no other name is possible"))
}

/// A parser that takes the numbers of a range.
fn within(range: RangeInclusive<f64>) -> impl TypedValueParser<Value = f64> {
    move |text: &str| {
        let number = text.parse().ok().filter(|number: &f64| range.contains(number));
        number.ok_or_else(|| format!("must be a number from {} to {}", range.start(), range.end()))
    }
}

/// Reads the command line. What leads to no work, a mistake or a call for help, is printed and becomes an exit code.
pub fn parse() -> Result<Arguments, ExitCode> {
    Arguments::try_parse().map_err(|refusal| {
        if refusal.kind() == ErrorKind::DisplayHelp {
            let _ = refusal.print();
            return ExitCode::SUCCESS;
        }
        // The message proper; hints and usage follow after an empty line.
        let text = refusal.render().to_string();
        fail(text.split("\n\n").next().unwrap_or_default().trim_start_matches("error: "))
    })
}

/// Prints the message as one line on stderr and gives the exit code.
pub fn fail(message: &str) -> ExitCode {
    let line = message.split_whitespace().collect::<Vec<_>>().join(" ");
    eprintln!("kernelbench: {line}");
    ExitCode::FAILURE
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
    fn by_default_everything_runs_in_both_precisions() {
        let arguments = Arguments::parse_from(["kernelbench"]);
        assert_eq!(arguments.problems().unwrap().len(), 17);
        let variants: Vec<_> = arguments.variants().iter().map(|v| (v.algorithm, v.precision)).collect();
        assert_eq!(variants, [(Algorithm::Auto, Precision::F32), (Algorithm::Auto, Precision::Tf32)]);
    }

    #[test]
    fn numbers_and_geometries_add_up() {
        let geometry = "input=1x3x8,out=5,kernel=2";
        let arguments = Arguments::parse_from(["kernelbench", "--problem", "72,57", "--problem", geometry]);
        let labels: Vec<_> = arguments.problems().unwrap().iter().map(BenchProblem::label).collect();
        assert_eq!(labels, ["72", "57", geometry]);
    }

    #[test]
    fn a_number_that_is_not_in_the_list_is_refused() {
        let arguments = Arguments::parse_from(["kernelbench", "--problem", "58,59"]);
        assert!(
            arguments.problems().unwrap_err().to_string().starts_with("there is no problem 59; there are 57, 58, 61")
        );
    }

    #[test]
    fn options_that_make_no_sense_without_another_are_refused() {
        let accepted = |arguments: &[&str]| Arguments::try_parse_from([&["kernelbench"], arguments].concat()).is_ok();
        assert!(accepted(&["--autotune", "0.5", "--autotune-file", "tuned.json"]));
        assert!(!accepted(&["--autotune-file", "tuned.json"]));
        assert!(!accepted(&["--autotune", "0"]));
        assert!(accepted(&["--first-use", "--warm-up"]));
        assert!(!accepted(&["--warm-up"]));
        assert!(!accepted(&["--first-use", "--autotune", "1"]));
        assert!(accepted(&["--bias", "--repack"]));
        assert!(!accepted(&["--first-use", "--bias"]));
    }

    #[test]
    fn numbers_beyond_all_reason_are_refused_by_the_name_of_their_option() {
        let parse = |option: &str, number: &str| Arguments::try_parse_from(["kernelbench", option, number]);
        for (option, numbers) in [("--tflops", ["0.001", "1e6"]), ("--autotune", ["0.001", "86400"])] {
            assert!(numbers.iter().all(|number| parse(option, number).is_ok()), "{option}");
            for number in ["1e308", "1e20", "1000001", "5e-324", "0", "-1", "inf", "NaN", "many"] {
                let message = parse(option, number).unwrap_err().to_string();
                assert!(message.contains(option) && message.contains(number), "{message}");
                assert!(message.contains("must be a number from 0.001 to "), "{message}");
            }
        }
    }

    #[test]
    fn every_algorithm_goes_by_its_name() {
        for algorithm in ALGORITHMS {
            let arguments = Arguments::parse_from(["kernelbench", "--algorithm", &algorithm.to_string()]);
            assert_eq!(arguments.algorithm, [*algorithm]);
        }
        assert!(Arguments::try_parse_from(["kernelbench", "--algorithm", "guess"]).is_err());
    }
}
