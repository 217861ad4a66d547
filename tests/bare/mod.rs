//! Layers with output rows that no tap reaches, in long stretches, which producers write.

use conv_transpose::{ConvTranspose, Shape};

/// Rows with taps next to each other and apart, of whole sectors and of others, in one line and in several, in groups.
pub fn of_images() -> Vec<(ConvTranspose<2>, Shape<2>)> {
    let layer = |kernel, stride| ConvTranspose::<2>::builder(16, 12, kernel).stride(stride);
    let three_of_five = layer([3, 3], [5, 3]).dilation([2, 2]).padding([1, 1]);
    let whole_sectors = layer([1, 3], [2, 2]).padding([0, 1]).output_padding([1, 1]);
    let in_groups = layer([2, 3], [4, 1]).groups(2).padding([1, 0]).output_padding([3, 0]);
    let layers = [
        (three_of_five, [4, 104]),
        (whole_sectors, [5, 100]),
        (in_groups, [3, 200]),
        (layer([1, 1], [3, 2]), [3, 300]),
        (layer([1, 5], [2, 3]), [3, 600]),
    ];
    layers.map(|(layer, input)| (layer.build().unwrap(), Shape::batched(2, 16, input))).to_vec()
}

/// Slices without taps, longer than what is copied at once, and such rows in the others, or none.
pub fn of_volumes() -> Vec<(ConvTranspose<3>, Shape<3>)> {
    let layer = |kernel, stride| ConvTranspose::<3>::builder(8, 10, kernel).stride(stride);
    let slices_alone = layer([1, 3, 3], [3, 1, 1]).padding([0, 1, 1]);
    let both = layer([3; 3], [2; 3]).dilation([2; 3]).padding([1; 3]);
    let layers = [(slices_alone, [2, 37, 32]), (both, [3, 16, 32])];
    layers.map(|(layer, input)| (layer.build().unwrap(), Shape::batched(2, 8, input))).to_vec()
}
