//! Layers whose passes take different times, and have a few jobs for each multiprocessor of a GPU: those of the longest
//! pass come first.

use conv_transpose::{ConvTranspose, Shape};

/// What describes such ways.
pub const WORDS: &str = "long jobs first";

/// Rows that are stored as they are, and odd ones.
pub fn of_volumes() -> Vec<(ConvTranspose<3>, Shape<3>)> {
    let layer = |channels: usize, kernel: [usize; 3], extents: [usize; 3]| {
        let layer = ConvTranspose::<3>::builder(channels, 64, kernel).stride([2; 3]).padding([1; 3]).build().unwrap();
        (layer, Shape::batched(1, channels, extents))
    };
    vec![layer(16, [3, 3, 4], [6, 10, 16]), layer(32, [3, 3, 3], [5, 12, 16])]
}
