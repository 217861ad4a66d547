//! Layers most of whose output rows no tap reaches, so that the output is filled first and the lines of the others are
//! written with the biases beside them.

use conv_transpose::{ConvTranspose, Shape};

/// Rows that begin anywhere in a sector, the first and the last one of the output among them or not; in groups, with
/// more than one row of the box for a team, and along which slots lie side by side.
pub fn of_images() -> Vec<(ConvTranspose<2>, Shape<2>)> {
    let layer = |kernel, stride| ConvTranspose::<2>::builder(8, 12, kernel).stride(stride);
    let from_first_to_last = layer([1, 3], [3, 2]).padding([0, 1]);
    let within = layer([3, 3], [4, 2]).dilation([4, 2]).padding([1, 1]).output_padding([2, 0]);
    let short = layer([1, 3], [3, 2]).groups(2).padding([0, 1]);
    let layers = [(from_first_to_last, [5, 32]), (within, [4, 64]), (short, [7, 8])];
    layers.map(|(layer, input)| (layer.build().unwrap(), Shape::batched(2, 8, input))).to_vec()
}

/// Slices with such rows and others without, one behind the other.
pub fn of_volumes() -> Vec<(ConvTranspose<3>, Shape<3>)> {
    let layer = ConvTranspose::<3>::builder(8, 10, [3; 3]).stride([2; 3]).dilation([2; 3]).padding([1; 3]);
    let touching = ConvTranspose::<3>::builder(8, 10, [2, 1, 3]).stride([1, 3, 2]).padding([0, 0, 1]);
    let layers = [(layer, [3, 5, 16]), (touching, [3, 3, 16])];
    layers.map(|(layer, input)| (layer.build().unwrap(), Shape::batched(2, 8, input))).to_vec()
}

/// Rows of which two follow each other, so that what is beside a line belongs to another one.
pub fn of_neighbours() -> (ConvTranspose<2>, Shape<2>) {
    let layer = ConvTranspose::<2>::builder(8, 12, [2, 3]).stride([6, 2]).padding([0, 1]);
    (layer.build().unwrap(), Shape::batched(2, 8, [4, 32]))
}
