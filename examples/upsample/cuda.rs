//! The layer on a GPU.

use anyhow::{Result, bail};
use conv_transpose::{ConvTranspose2d, Tensor};

use crate::{arguments::Algorithm, backend::Run};

/// Runs the layer once.
pub fn run(
    _layer: &ConvTranspose2d,
    _input: &Tensor<f32, 2>,
    _weight: &Tensor<f32, 2>,
    _algorithm: Algorithm,
) -> Result<Run> {
    bail!("no CUDA device")
}
