//! Layers of stride 1, for the flat kernels: sizes around the edges of tiles, rows and slices, channels that fill
//! nothing, and geometries whose input begins before, at and behind the output.

use conv_transpose::{ConvTranspose, Shape};

/// Signals around the edges of tiles of 128 positions.
pub fn signals() -> Vec<(ConvTranspose<1>, Shape<1>)> {
    let short = ConvTranspose::<1>::builder(3, 5, [3]).build().unwrap();
    let dilated = ConvTranspose::<1>::builder(20, 70, [5]).dilation([3]).padding([2]).build().unwrap();
    let edges = [2, 125, 126, 127, 254, 510, 511].map(|length| (short, Shape::batched(2, 3, [length])));
    edges.into_iter().chain([(dilated, Shape::batched(1, 20, [301]))]).collect()
}

/// Pictures.
pub fn pictures() -> Vec<(ConvTranspose<2>, Shape<2>)> {
    let picture = |channels: [usize; 2], kernel: [usize; 2], padding: [usize; 2], groups: usize, extent: [usize; 2]| {
        let layer = ConvTranspose::<2>::builder(channels[0], channels[1], kernel).padding(padding).groups(groups);
        (layer.build().unwrap(), Shape::batched(2, channels[0], extent))
    };
    let with_output_padding = ConvTranspose::<2>::builder(16, 16, [3, 3]).dilation([2, 2]).padding([1, 0]);
    let with_output_padding = with_output_padding.output_padding([1, 1]).build().unwrap();
    let with_negative_padding = ConvTranspose::<2>::builder(9, 12, [3, 3]).output_shape([13, 18]).build().unwrap();
    vec![
        picture([17, 9], [3, 3], [1, 0], 1, [7, 21]),
        picture([33, 72], [2, 5], [0, 3], 1, [9, 30]),
        picture([32, 24], [3, 3], [0, 0], 2, [11, 13]),
        picture([8, 130], [3, 1], [0, 0], 1, [5, 40]),
        picture([6, 20], [2, 2], [2, 2], 1, [14, 16]),
        picture([2, 3], [9, 9], [4, 4], 1, [12, 12]),
        (with_output_padding, Shape::batched(2, 16, [6, 15])),
        (with_negative_padding, Shape::batched(2, 9, [6, 9])),
    ]
}

/// Volumes.
pub fn volumes() -> Vec<(ConvTranspose<3>, Shape<3>)> {
    let volume = |channels: [usize; 2], kernel: [usize; 3], padding: [usize; 3], batch: usize, extent: [usize; 3]| {
        let layer = ConvTranspose::<3>::builder(channels[0], channels[1], kernel).padding(padding).build().unwrap();
        (layer, Shape::batched(batch, channels[0], extent))
    };
    vec![
        volume([5, 24], [3, 2, 3], [1, 0, 1], 1, [5, 6, 7]),
        volume([18, 16], [3, 2, 5], [1, 1, 1], 2, [4, 6, 9]),
        volume([16, 40], [2, 3, 3], [0, 0, 0], 3, [3, 4, 5]),
    ]
}

/// More samples than a GPU has multiprocessors, so that blocks have several tiles.
pub fn many_samples() -> (ConvTranspose<1>, Shape<1>) {
    (ConvTranspose::<1>::builder(20, 12, [3]).build().unwrap(), Shape::batched(140, 20, [30]))
}

/// Layers whose sums move on several times: between the rows of taps of a part, between parts, and between blocks of
/// channels.
pub fn with_many_taps() -> Vec<(ConvTranspose<2>, Shape<2>)> {
    let picture = |channels: [usize; 2], kernel: [usize; 2], extent: [usize; 2]| {
        let layer = ConvTranspose::<2>::builder(channels[0], channels[1], kernel).build().unwrap();
        (layer, Shape::batched(2, channels[0], extent))
    };
    vec![picture([17, 24], [5, 5], [3, 8]), picture([6, 70], [3, 9], [3, 5]), picture([70, 12], [2, 3], [4, 5])]
}
