//! The command line: what can be asked for, and how a refusal is told (one line, exit code 1).

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::{Parser, ValueEnum, error::ErrorKind};

use crate::filter::Filter;

/// Enlarges a picture by a transposed convolution.
///
/// Reads PNG and JPEG. Writes a PNG, or a JPEG if the output is named so. A PNG has the channels of the input, 16 bits
/// each if the input has 16, else 8; a palette and CMYK become RGB, and a transparent colour becomes an alpha channel.
/// An orientation noted in the file is applied, and an ICC profile of up to 8 MiB is kept; other metadata is dropped.
#[derive(Debug, Parser)]
#[command(name = "upsample")]
pub struct Arguments {
    /// Picture to enlarge [default: a bundled photograph]
    pub input: Option<PathBuf>,

    /// Where to write: a .png, .jpg or .jpeg [default: <name>-<scale>x.png in the current directory]
    #[arg(short, long)]
    pub output: Option<PathBuf>,

    /// Factor by which width and height grow, 2 to 8
    #[arg(short, long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(2..=8))]
    pub scale: u32,

    /// Interpolation kernel
    #[arg(short, long, value_enum, default_value_t = Filter::Bicubic)]
    pub filter: Filter,

    /// Where to compute: auto is a GPU if there is one
    #[arg(short, long, value_enum, default_value_t = Backend::Auto)]
    pub backend: Backend,

    /// How to compute on a GPU; the CPU chooses for itself, and has no scatter
    #[arg(short, long, value_enum, default_value_t = Algorithm::Auto)]
    pub algorithm: Algorithm,

    /// Compare the result with the definition of the operation before writing it
    #[arg(long)]
    pub verify: bool,
}

/// Where to compute.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Backend {
    /// A GPU if there is one, else the CPU.
    Auto,
    /// A GPU.
    Cuda,
    /// The CPU.
    Cpu,
}

/// How to compute.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Algorithm {
    /// Whichever the backend takes for the better one.
    Auto,
    /// Each output element collects what reaches it.
    Gather,
    /// Each input element adds to the output elements that it reaches.
    Scatter,
}

impl Arguments {
    /// The picture to enlarge, or `None` for the bundled one.
    pub fn source(&self) -> Option<&Path> {
        self.input.as_deref()
    }
}

/// Reads the command line.
pub fn parse() -> Result<Arguments, Refusal> {
    Arguments::try_parse().map_err(Refusal)
}

/// A command line that leads to no work: a mistake, or a call for help.
pub struct Refusal(clap::Error);

impl Refusal {
    /// Prints it and gives the exit code.
    pub fn exit(self) -> ExitCode {
        if matches!(self.0.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
            let _ = self.0.print();
            return ExitCode::SUCCESS;
        }
        // The message proper; hints and usage follow after an empty line.
        let text = self.0.render().to_string();
        let message = text.split("\n\n").next().unwrap_or_default();
        fail(message.trim_start_matches("error: "))
    }
}

/// Prints the message as one line on stderr and gives the exit code.
pub fn fail(message: &str) -> ExitCode {
    let line = message.split_whitespace().collect::<Vec<_>>().join(" ");
    eprintln!("error: {line}");
    ExitCode::FAILURE
}
