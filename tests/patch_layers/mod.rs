//! Layers whose kernel reaches no further than their stride, for the patch kernels: sizes around the edges of tiles,
//! channels that fill nothing, several samples in a tile, and groups.

use conv_transpose::{ConvTranspose, Shape};

/// Signals around the edges of tiles of 128 and 256 positions.
pub fn signals() -> Vec<(ConvTranspose<1>, Shape<1>)> {
    let signal = |channels: [usize; 2], stride: usize, batch: usize, length: usize| {
        let layer = ConvTranspose::<1>::builder(channels[0], channels[1], [stride]).stride([stride]).build().unwrap();
        (layer, Shape::batched(batch, channels[0], [length]))
    };
    let edges = [4, 124, 128, 132, 252, 256, 260].map(|length| signal([3, 5], 2, 1, length));
    let others = [signal([70, 130], 2, 3, 84), signal([65, 300], 1, 2, 92), signal([200, 20], 2, 2, 300)];
    edges.into_iter().chain(others).collect()
}

/// Pictures.
pub fn pictures() -> Vec<(ConvTranspose<2>, Shape<2>)> {
    let picture = |channels: [usize; 2], stride: [usize; 2], groups: usize, batch: usize, extent: [usize; 2]| {
        let layer = ConvTranspose::<2>::builder(channels[0], channels[1], stride).stride(stride).groups(groups);
        (layer.build().unwrap(), Shape::batched(batch, channels[0], extent))
    };
    vec![
        picture([33, 40], [2, 2], 1, 5, [6, 10]),
        picture([16, 17], [2, 2], 1, 2, [14, 14]),
        picture([48, 72], [2, 2], 3, 1, [9, 28]),
        picture([8, 9], [4, 2], 1, 2, [5, 12]),
        picture([20, 9], [4, 4], 1, 2, [5, 12]),
        picture([12, 18], [1, 8], 2, 3, [7, 8]),
        picture([130, 24], [2, 1], 1, 3, [7, 8]),
        picture([12, 66], [1, 2], 2, 3, [2, 6]),
    ]
}

/// Pictures with elements that no tap reaches: behind those that one reaches, or between them.
pub fn pictures_with_gaps() -> Vec<(ConvTranspose<2>, Shape<2>)> {
    let picture = |channels: [usize; 2], kernel: [usize; 2], stride: [usize; 2], dilation: [usize; 2]| {
        let output_padding = [0, 1].map(|axis| stride[axis] - (kernel[axis] - 1) * dilation[axis] - 1);
        let layer = ConvTranspose::<2>::builder(channels[0], channels[1], kernel).stride(stride).dilation(dilation);
        let layer = layer.output_padding(output_padding).build().unwrap();
        (layer, Shape::batched(3, channels[0], [6, 10]))
    };
    vec![
        picture([33, 40], [1, 1], [2, 2], [1, 1]),
        picture([16, 17], [2, 1], [2, 4], [1, 1]),
        picture([20, 9], [3, 3], [4, 4], [1, 1]),
        picture([12, 24], [2, 2], [4, 8], [2, 3]),
        picture([70, 12], [1, 2], [1, 2], [5, 1]),
    ]
}

/// Volumes.
pub fn volumes() -> Vec<(ConvTranspose<3>, Shape<3>)> {
    let volume = |channels: [usize; 2], stride: [usize; 3], batch: usize, extent: [usize; 3]| {
        let layer = ConvTranspose::<3>::builder(channels[0], channels[1], stride).stride(stride).build().unwrap();
        (layer, Shape::batched(batch, channels[0], extent))
    };
    vec![
        volume([20, 12], [2, 2, 2], 3, [3, 4, 6]),
        volume([32, 40], [1, 2, 2], 2, [4, 3, 10]),
        volume([9, 16], [4, 1, 2], 1, [2, 5, 8]),
    ]
}

/// Layers whose samples are whole tiles, of which blocks have several.
pub fn tiles_of_samples() -> Vec<(ConvTranspose<2>, Shape<2>)> {
    let layer = |channels| ConvTranspose::<2>::builder(channels, 8, [2, 2]).stride([2, 2]).build().unwrap();
    vec![
        (layer(20), Shape::batched(6, 20, [16, 16])),
        (layer(4), Shape::batched(140, 4, [16, 16])),
        (layer(300), Shape::batched(3, 300, [8, 16])),
    ]
}

/// Layers of few channels, whose sums stay where they are in single precision, and of so many that they move on.
pub fn few_and_many_channels() -> Vec<(ConvTranspose<2>, Shape<2>)> {
    let layer = |channels| {
        let layer = ConvTranspose::<2>::builder(channels, 24, [2, 2]).stride([2, 2]).build().unwrap();
        (layer, Shape::batched(2, channels, [6, 14]))
    };
    [20, 300].map(layer).into()
}
