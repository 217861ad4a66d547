//! Which backend runs the layer.

use std::time::Duration;

use anyhow::{Result, bail};
use conv_transpose::{ConvTranspose2d, Tensor};

use crate::{
    arguments::{Arguments, Backend},
    cpu, cuda,
};

/// What a backend hands back.
pub struct Run {
    /// The output of the layer.
    pub output: Tensor<f32, 2>,
    /// What computed it.
    pub device: String,
    /// How it was computed.
    pub algorithm: String,
    /// Time for copies to and from the device; none on the CPU.
    pub copy: Option<Duration>,
    /// Time for the layer itself, one run.
    pub compute: Duration,
}

/// Why a GPU did not run the layer.
pub enum Failure {
    /// There is none that can be used.
    NoGpu(String),
    /// Anything else.
    Other(anyhow::Error),
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        Self::Other(error)
    }
}

/// Runs the layer where the arguments say. With `auto` and no usable GPU, the text says why the CPU was taken.
pub fn run(
    arguments: &Arguments,
    layer: &ConvTranspose2d,
    input: &Tensor<f32, 2>,
    weight: &Tensor<f32, 2>,
) -> Result<(Run, Option<String>)> {
    let algorithm = arguments.algorithm;
    if arguments.backend == Backend::Cpu {
        return Ok((cpu::run(layer, input, weight, algorithm)?, None));
    }
    match cuda::run(layer, input, weight, algorithm) {
        Ok(run) => Ok((run, None)),
        Err(Failure::NoGpu(reason)) if arguments.backend == Backend::Auto => {
            let run = cpu::run(layer, input, weight, algorithm)?;
            Ok((run, Some(format!("{reason}, so the CPU computes"))))
        }
        Err(Failure::NoGpu(reason)) => bail!(reason),
        Err(Failure::Other(error)) => Err(error),
    }
}
