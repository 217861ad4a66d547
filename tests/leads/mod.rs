//! Layers whose phases read the same input positions if these are counted from some elements before the output on,
//! which are not stored: kernels that are longer than the stride, with padding that is no multiple of it.

use conv_transpose::{ConvTranspose, Shape};

pub fn of_signals() -> Vec<(ConvTranspose<1>, Shape<1>)> {
    let layer = |channels: [usize; 2], kernel: usize, stride: usize, padding: usize, more: usize, groups: usize| {
        let layer = ConvTranspose::<1>::builder(channels[0], channels[1], [kernel]).stride([stride]);
        layer.padding([padding]).output_padding([more]).groups(groups).build().unwrap()
    };
    vec![
        (layer([9, 10], 16, 8, 4, 0, 1), Shape::batched(3, 9, [37])),
        // Several tiles, and channels.
        (layer([16, 70], 4, 2, 1, 0, 1), Shape::batched(2, 16, [300])),
        (layer([18, 4], 9, 3, 4, 2, 2), Shape::batched(2, 18, [64])),
        // As much padding as takes away the whole first position, and most of the next one.
        (layer([8, 5], 12, 4, 7, 1, 1), Shape::batched(1, 8, [29])),
    ]
}

pub fn of_images() -> Vec<(ConvTranspose<2>, Shape<2>)> {
    let layer = |channels: [usize; 2], kernel: [usize; 2], stride: [usize; 2], padding: [usize; 2]| {
        let layer = ConvTranspose::<2>::builder(channels[0], channels[1], kernel);
        layer.stride(stride).padding(padding)
    };
    vec![
        // Phases close together, and rows that are joined.
        (layer([16, 3], [4, 4], [2, 2], [1, 1]).build().unwrap(), Shape::batched(2, 16, [19, 36])),
        (layer([9, 20], [4, 4], [2, 2], [1, 1]).build().unwrap(), Shape::batched(2, 9, [9, 33])),
        (layer([18, 26], [6, 9], [4, 3], [1, 4]).groups(2).build().unwrap(), Shape::batched(1, 18, [8, 11])),
        // A lead along one axis only.
        (layer([9, 12], [4, 3], [2, 1], [1, 1]).build().unwrap(), Shape::batched(3, 9, [10, 32])),
    ]
}

pub fn of_volumes() -> Vec<(ConvTranspose<3>, Shape<3>)> {
    let layer = |inputs, outputs| ConvTranspose::<3>::builder(inputs, outputs, [4; 3]).stride([2; 3]).padding([1; 3]);
    vec![
        (layer(9, 1).build().unwrap(), Shape::batched(1, 9, [5, 6, 9])),
        (layer(8, 20).output_padding([0, 1, 0]).build().unwrap(), Shape::batched(2, 8, [3, 5, 7])),
    ]
}
