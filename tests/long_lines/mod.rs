//! Layers some of whose ways have slots side by side along x, so that a line of the output goes through all of them.

use conv_transpose::{ConvTranspose, Shape};

/// Rows of the box of 64, 32 and 16 positions, which are one, two and four for each team; with paddings, and with one
/// to three phases in the columns, in halves of them, or in passes of their own.
pub fn of_signals() -> Vec<(ConvTranspose<1>, Shape<1>)> {
    let layers = [(5, 3, 2, 128), (4, 2, 1, 127), (3, 1, 0, 127), (2, 1, 0, 30)];
    let layer = |(kernel, stride, padding, extent)| {
        let layer = ConvTranspose::<1>::builder(8, 12, [kernel]).stride([stride]).padding([padding]);
        (layer.output_padding([stride / 2]).build().unwrap(), Shape::batched(4, 8, [extent]))
    };
    layers.map(layer).to_vec()
}

/// With rows without taps between others, in groups; and with few channels, whose phases lie close together. In the
/// last layer rows without taps are as many as the slots that a line goes through: such passes used to be taken for
/// some whose lanes store what they hold.
pub fn of_images() -> Vec<(ConvTranspose<2>, Shape<2>)> {
    let rows = ConvTranspose::<2>::builder(8, 20, [3, 5]).stride([2, 3]).dilation([2, 1]).padding([0, 2]).groups(2);
    let close = ConvTranspose::<2>::builder(8, 2, [4, 3]).stride([2, 2]).padding([1, 1]);
    let as_many = ConvTranspose::<2>::builder(8, 16, [3, 4]).stride([5, 2]).padding([1, 1]);
    let layers = [(rows, [5, 64]), (close, [4, 64]), (as_many, [4, 64])];
    layers.map(|(layer, input)| (layer.build().unwrap(), Shape::batched(2, 8, input))).to_vec()
}

/// Phases along all axes.
pub fn of_volumes() -> Vec<(ConvTranspose<3>, Shape<3>)> {
    let layer = ConvTranspose::<3>::builder(8, 8, [3; 3]).stride([2; 3]).padding([1; 3]).build().unwrap();
    vec![(layer, Shape::batched(1, 8, [3, 4, 48]))]
}

/// Rows that are even, but no whole sectors: warps pass words on, from slot to slot. With two and with four slots.
pub fn of_even_rows() -> Vec<(ConvTranspose<1>, Shape<1>)> {
    [(12, 128), (70, 260)]
        .map(|(channels, extent)| {
            let layer = ConvTranspose::<1>::builder(8, channels, [3]).build().unwrap();
            (layer, Shape::batched(3, 8, [extent]))
        })
        .to_vec()
}
