//! The layer on the CPU.

use std::time::Instant;

use anyhow::{Result, bail};
use conv_transpose::{ConvTranspose2d, Tensor, cpu};

use crate::{arguments::Algorithm, backend::Run};

/// Runs the layer once.
pub fn run(
    layer: &ConvTranspose2d,
    input: &Tensor<f32, 2>,
    weight: &Tensor<f32, 2>,
    algorithm: Algorithm,
) -> Result<Run> {
    if algorithm == Algorithm::Scatter {
        bail!("the CPU backend has no scatter algorithm");
    }
    let plan = cpu::Plan::new(layer, input.shape())?;
    let mut output = Tensor::filled(plan.output_shape(), 0.0)?;
    let start = Instant::now();
    plan.forward(input, weight, None, &mut output)?;
    let compute = start.elapsed();
    let device = format!("CPU, {} threads", rayon::current_num_threads());
    Ok(Run { output, device, algorithm: plan.algorithm().into(), copy: None, compute })
}
