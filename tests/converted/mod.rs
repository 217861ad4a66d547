//! Layers whose input may become `f16` numbers, before tiles are computed or in the teams that do so, and inputs of
//! which these hold only some at a time.

use conv_transpose::{ConvTranspose, Precision, Shape, Tensor};

use crate::relative_error::relative_error;

/// A way to make `f16` numbers of the input.
pub struct Way {
    pub precision: Precision,
    /// Part of its description.
    pub words: &'static str,
    /// The relative L2 error that it may have.
    pub error: f64,
}

impl Way {
    /// Whether all layers can be computed so: but for teams that split factors, of which tiles have one sample.
    pub fn is_for_all(&self) -> bool {
        self.words != SPLIT_BY_TEAMS
    }

    /// Whether samples do not depend on each other.
    pub fn scales_samples(&self) -> bool {
        self.precision == Precision::F32 || self.words == "pack_input"
    }
}

const SPLIT_BY_TEAMS: &str = "_f32_f16_raw";

/// Packed before, or converted by the teams; and both in single precision, where each number is the sum of two.
pub const WAYS: [Way; 4] = [
    Way { precision: Precision::Tf32, words: "pack_input", error: 5e-4 },
    Way { precision: Precision::Tf32, words: "_f16_raw", error: 5e-4 },
    Way { precision: Precision::F32, words: "pack_input_split", error: 2e-6 },
    Way { precision: Precision::F32, words: SPLIT_BY_TEAMS, error: 2e-6 },
];

/// Pictures: whole tiles and others, in boxes and not, with one block of channels, several, and a last one that is not
/// full; of several groups.
pub fn pictures() -> Vec<(ConvTranspose<2>, Shape<2>)> {
    let picture = |channels: [usize; 2], kernel: [usize; 2], groups: usize, extent: [usize; 2]| {
        let layer = ConvTranspose::<2>::builder(channels[0], channels[1], kernel).groups(groups).padding([1, 2]);
        (layer.build().unwrap(), Shape::batched(2, channels[0], extent))
    };
    vec![
        picture([32, 40], [3, 5], 1, [14, 32]),
        picture([40, 40], [5, 7], 1, [9, 36]),
        picture([20, 70], [3, 7], 1, [13, 31]),
        picture([5, 29], [4, 5], 1, [6, 9]),
        picture([48, 72], [3, 5], 2, [10, 20]),
        picture([16, 40], [6, 5], 2, [8, 33]),
    ]
}

/// A volume with rows of taps along z.
pub fn volume() -> (ConvTranspose<3>, Shape<3>) {
    let layer = ConvTranspose::<3>::builder(24, 20, [3, 3, 5]).padding([0, 1, 0]).build().unwrap();
    (layer, Shape::batched(1, 24, [5, 9, 12]))
}

/// Multiplies each channel by a power of two. No number becomes less exact.
pub fn scale_channels<const D: usize>(tensor: &mut Tensor<f32, D>, exponent: impl Fn(usize) -> i32) {
    let Shape { batch, channels, .. } = tensor.shape();
    let plane = tensor.as_slice().len() / batch.unwrap_or(1) / channels;
    for (number, channel) in tensor.as_mut_slice().chunks_mut(plane).enumerate() {
        channel.iter_mut().for_each(|value| *value *= 2f32.powi(exponent(number % channels)));
    }
}

/// Few positions, so that tiles have several samples; an odd number of channels.
pub fn samples() -> (ConvTranspose<2>, Shape<2>) {
    let layer = ConvTranspose::<2>::builder(37, 60, [3, 3]).stride([1, 2]).build().unwrap();
    (layer, Shape::batched(5, 37, [4, 6]))
}

/// Multiplies each sample by a power of two of its own.
pub fn scale_samples<const D: usize>(tensor: &mut Tensor<f32, D>) {
    let len = tensor.as_slice().len() / tensor.shape().batch.unwrap_or(1);
    for (number, sample) in tensor.as_mut_slice().chunks_mut(len).enumerate() {
        let exponent = [0, -90, 70, -3, 18][number % 5];
        sample.iter_mut().for_each(|value| *value *= 2f32.powi(exponent));
    }
}

/// The largest of the samples' relative L2 errors.
pub fn error_of_samples(actual: &[f32], expected: &[f64], batch: usize) -> f64 {
    let len = expected.len() / batch;
    let errors =
        actual.chunks(len).zip(expected.chunks(len)).map(|(actual, expected)| relative_error(actual, expected));
    errors.fold(0.0, f64::max)
}

/// Exponents that rise and fall from channel to channel: within what is converted together, from part to part, and from
/// stage to stage.
pub const EXPONENTS: [fn(usize) -> i32; 5] = [
    |channel| 3 * channel as i32 - 60,
    |channel| 60 - 3 * channel as i32,
    |channel| if channel % 8 < 5 { -100 } else { channel as i32 },
    |_| -110,
    |_| 100,
];
