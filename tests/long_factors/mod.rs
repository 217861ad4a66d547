//! Factors with more bits than an `f16` number has, for kernels that split each into two of these.

use conv_transpose::{ConvTranspose, Tensor};

/// Makes the inputs of even channels longer, and the weights of odd ones: of each product one factor, so that sums stay
/// exact. The layer has one group.
pub fn lengthen<const D: usize>(layer: &ConvTranspose<D>, x: &mut Tensor<f32, D>, w: &mut Tensor<f32, D>) {
    let channels = layer.in_channels();
    for (parity, tensor) in [x, w].into_iter().enumerate() {
        let batch = if parity == 0 { tensor.shape().batch.unwrap_or(1) } else { 1 };
        let plane = tensor.as_slice().len() / (batch * channels);
        for (index, value) in tensor.as_mut_slice().iter_mut().enumerate() {
            if index / plane % channels % 2 == parity {
                *value += (index % 7 * 1001) as f32;
            }
        }
    }
}
