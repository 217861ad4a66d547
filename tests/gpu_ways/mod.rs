//! Each way to compute some layers, on a GPU. Small whole numbers are exact in TF32, so the results have to be, too.

use conv_transpose::{
    ConvTranspose, Shape,
    cuda::{Device, Options, Plan},
};
use cust::stream::{Stream, StreamFlags};

use crate::{
    gpu::{computed, expected, whole_numbers},
    long_factors::lengthen,
    scaled_samples::scale_samples,
};

/// What inputs and weights are: results are exact in any case.
#[derive(Clone, Copy)]
pub enum Factors {
    /// Small whole numbers.
    Small,
    /// Such, times a power of two for each sample.
    Scaled,
    /// Whole numbers of which some have more bits than an `f16` number, for single precision.
    Long,
}

/// Checks each way to compute some layers, twice: the second time, the workspace holds what the first one has left.
pub fn check_all<const D: usize>(
    device: &Device,
    options: Options,
    layers: Vec<(ConvTranspose<D>, Shape<D>)>,
    factors: Factors,
) {
    let stream = Stream::new(StreamFlags::NON_BLOCKING, None).unwrap();
    for (layer, input) in layers {
        let (mut x, mut w) = (whole_numbers(input, 1), whole_numbers(layer.weight_shape(), 2));
        match factors {
            Factors::Small => {}
            Factors::Scaled => scale_samples(&mut x),
            Factors::Long => lengthen(&layer, &mut x, &mut w),
        }
        // Biases that vanish beside large values would not be exact.
        let has_bias = !matches!(factors, Factors::Scaled);
        let bias: Vec<f32> =
            (0..layer.out_channels()).map(|channel| if has_bias { channel } else { 0 } as f32).collect();
        let exact = expected(&layer, &x, &w, Some(&bias));
        let [x, w] = [device.upload(&x).unwrap(), device.upload(&w).unwrap()];
        let bias = device.upload_slice(&bias).unwrap();
        for plan in Plan::ways(device, &layer, input, options).unwrap() {
            for _ in 0..2 {
                let output = computed(device, &stream, &plan, &x, &w, &bias);
                assert!(output.as_slice() == exact, "{}, {layer:?}, {input}", plan.describe());
            }
        }
    }
}
