//! Random tensors in host memory, made by all cores: the largest have gigabytes.

use conv_transpose::{Error, Shape, Tensor};
use rayon::prelude::*;

/// Elements that one generator makes.
const CHUNK: usize = 1 << 16;

/// Uniform values between -1 and 1, the same for the same seed.
pub fn tensor<const D: usize>(shape: Shape<D>, seed: u64) -> Result<Tensor<f32, D>, Error> {
    let mut tensor = Tensor::filled(shape, 0.0f32)?;
    tensor.as_mut_slice().par_chunks_mut(CHUNK).enumerate().for_each(|(index, chunk)| {
        let mut rng = fastrand::Rng::with_seed(seed << 32 | index as u64);
        chunk.fill_with(|| rng.f32() * 2.0 - 1.0);
    });
    Ok(tensor)
}
