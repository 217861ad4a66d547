//! Samples of different magnitudes, for kernels whose factors are `f16` numbers.

use conv_transpose::Tensor;

/// Multiplies each sample by a power of two: of values around one, far smaller ones, far larger ones, and so on.
/// Nothing becomes less exact.
pub fn scale_samples<const D: usize>(tensor: &mut Tensor<f32, D>) {
    let sample = tensor.as_slice().len() / tensor.shape().batch.unwrap_or(1);
    for (number, values) in tensor.as_mut_slice().chunks_mut(sample).enumerate() {
        // Five, which does not divide 132 or 66, so that tiles that follow each other in a block differ.
        let power = [0, -30, 40, 0, 40].map(|exponent| f32::powi(2.0, exponent))[number % 5];
        values.iter_mut().for_each(|value| *value *= power);
    }
}
