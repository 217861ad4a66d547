//! Layers some of whose ways have lines that are short, of which lanes take words side by side.

use conv_transpose::{ConvTranspose, Shape};

/// One or two phases of each position, and some of eight in a pass, with others between them.
pub fn of_signals() -> Vec<(ConvTranspose<1>, Shape<1>)> {
    let layers = [(12, 4, 2, 1, 9), (64, 8, 8, 0, 11), (5, 3, 1, 1, 13)];
    let layer = |(channels, kernel, stride, padding, extent)| {
        let layer = ConvTranspose::<1>::builder(8, channels, [kernel]).stride([stride]).padding([padding]);
        (layer.build().unwrap(), Shape::batched(5, 8, [extent]))
    };
    layers.map(layer).to_vec()
}

/// Rows of an odd number of positions, with an odd number of channels; outputs of which some positions have one phase;
/// rows without taps between others; positions that begin before the output; words that are fours; phases that lie
/// close together; and groups.
pub fn of_images() -> Vec<(ConvTranspose<2>, Shape<2>)> {
    let builder = ConvTranspose::<2>::builder;
    let layers = [
        (builder(8, 21, [2, 2]).stride([2, 2]), [7, 7]),
        (builder(8, 16, [3, 3]).stride([2, 2]).padding([1, 1]), [5, 9]),
        (builder(8, 20, [2, 3]).stride([3, 2]), [5, 7]),
        (builder(8, 32, [4, 4]).stride([2, 2]).padding([1, 1]), [7, 5]),
        (builder(8, 12, [4, 4]).stride([4, 4]), [5, 6]),
        (builder(8, 12, [2, 4]).stride([4, 4]), [5, 6]),
        (builder(8, 3, [3, 3]).padding([1, 1]), [6, 7]),
        (builder(8, 18, [3, 2]).stride([1, 2]).groups(2), [6, 5]),
    ];
    layers.map(|(layer, input)| (layer.build().unwrap(), Shape::batched(3, 8, input))).to_vec()
}

/// Phases along all axes, and one.
pub fn of_volumes() -> Vec<(ConvTranspose<3>, Shape<3>)> {
    let patches = ConvTranspose::<3>::builder(8, 20, [2; 3]).stride([2; 3]);
    let neighbours = ConvTranspose::<3>::builder(8, 24, [3; 3]).padding([1; 3]);
    let layers = [(patches, [3, 5, 5]), (neighbours, [4, 5, 3])];
    layers.map(|(layer, input)| (layer.build().unwrap(), Shape::batched(2, 8, input))).to_vec()
}
