//! Layers whose tiles take whole rows of the input, or whole slices: these are one stretch of words for a box, wherever
//! it begins and ends. With the words that describe some of the ways to compute each.

use conv_transpose::{ConvTranspose, Shape};

pub fn of_rows() -> Vec<(ConvTranspose<2>, Shape<2>, &'static str)> {
    let layer = |channels: usize, kernel, stride| ConvTranspose::<2>::builder(channels, 20, kernel).stride(stride);
    let rows = |channels: usize, kernel, stride, padding, extent| {
        let layer = layer(channels, kernel, stride).padding(padding).build().unwrap();
        (layer, Shape::batched(2, channels, extent), "whole rows")
    };
    let beyond = layer(16, [2, 2], [2, 2]).output_padding([1, 1]).build().unwrap();
    vec![
        rows(16, [2, 2], [2, 2], [0, 0], [9, 12]),
        rows(24, [2, 2], [2, 2], [0, 0], [28, 28]),
        // Rows of 56 bytes: two of them are a multiple of 16.
        rows(16, [2, 2], [2, 2], [0, 0], [14, 14]),
        // With rows of zeros above and below.
        rows(16, [3, 2], [1, 2], [1, 0], [11, 20]),
        rows(16, [5, 1], [1, 1], [0, 0], [6, 12]),
        // A second tile of each row, beyond the input.
        (beyond, Shape::batched(2, 16, [6, 28]), "tile"),
    ]
}

pub fn of_slices() -> Vec<(ConvTranspose<3>, Shape<3>, &'static str)> {
    let slices = |kernel, stride, padding, extent, words| {
        let layer = ConvTranspose::<3>::builder(16, 20, kernel).stride(stride).padding(padding).groups(2);
        (layer.build().unwrap(), Shape::batched(2, 16, extent), words)
    };
    vec![
        slices([2, 2, 2], [2, 2, 2], [0, 0, 0], [8, 8, 8], "whole slices"),
        slices([2, 2, 2], [2, 2, 2], [0, 0, 0], [3, 6, 4], "whole slices"),
        // With slices of zeros before and behind.
        slices([3, 2, 2], [1, 2, 2], [1, 0, 0], [5, 4, 4], "whole slices"),
        slices([1, 2, 2], [1, 2, 2], [0, 0, 0], [3, 14, 16], "whole rows"),
    ]
}
