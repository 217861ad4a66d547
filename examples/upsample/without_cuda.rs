//! Stands in for `cuda` where the library was built without that feature.

use conv_transpose::{ConvTranspose2d, Tensor};

use crate::{
    arguments::Algorithm,
    backend::{Failure, Run},
};

/// Says that there is no GPU to run on.
pub fn run(
    _layer: &ConvTranspose2d,
    _input: &Tensor<f32, 2>,
    _weight: &Tensor<f32, 2>,
    _algorithm: Algorithm,
) -> Result<Run, Failure> {
    Err(Failure::NoGpu("no CUDA device: built without the feature `cuda`".into()))
}
