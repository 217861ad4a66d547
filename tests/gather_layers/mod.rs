//! Layers for `gather`, around the number of products up to which all of an element's are under way at once, 128.

use conv_transpose::{ConvTranspose, Shape};

pub fn signals() -> Vec<(ConvTranspose<1>, Shape<1>)> {
    let layer = |inputs: usize, kernel: usize, stride: usize, padding: usize, extent: usize| {
        let builder = ConvTranspose::builder(inputs, 3, [kernel]).stride([stride]).padding([padding]);
        (builder.build().unwrap(), Shape::batched(2, inputs, [extent]))
    };
    vec![
        layer(1, 1, 1, 0, 5),
        layer(1, 16, 1, 0, 21),
        layer(1, 17, 1, 5, 21),
        layer(1, 127, 1, 0, 40),
        layer(1, 128, 1, 63, 40),
        layer(1, 129, 1, 0, 3),
        layer(43, 3, 1, 1, 9),
        layer(64, 2, 1, 0, 9),
        layer(65, 2, 1, 1, 9),
        // Phases of one tap and of two; of which some have none.
        layer(37, 4, 3, 1, 13),
        layer(9, 2, 3, 0, 13),
        // More products than that.
        layer(7, 31, 1, 3, 11),
        layer(8, 31, 2, 0, 11),
        layer(9, 61, 3, 7, 11),
        layer(17, 31, 1, 30, 40),
    ]
}

pub fn pictures() -> Vec<(ConvTranspose<2>, Shape<2>)> {
    let dilated = ConvTranspose::builder(6, 4, [3, 3]).stride([2, 3]).padding([1, 2]).dilation([2, 3]).groups(2);
    let of_one_position = ConvTranspose::builder(5, 2, [5, 4]).padding([2, 0]);
    let many = ConvTranspose::builder(6, 3, [7, 5]).stride([2, 1]).padding([3, 1]).output_padding([1, 0]).groups(3);
    let larger_than_the_input = ConvTranspose::builder(11, 2, [9, 8]).padding([4, 3]);
    vec![
        (dilated.build().unwrap(), Shape::batched(2, 6, [6, 7])),
        (of_one_position.build().unwrap(), Shape::batched(3, 5, [1, 1])),
        (many.build().unwrap(), Shape::batched(2, 6, [5, 9])),
        (larger_than_the_input.build().unwrap(), Shape::batched(1, 11, [3, 2])),
    ]
}

pub fn volumes() -> Vec<(ConvTranspose<3>, Shape<3>)> {
    let few = ConvTranspose::builder(4, 6, [2, 3, 4]).stride([1, 2, 3]).padding([0, 1, 1]).groups(2);
    let many = ConvTranspose::builder(10, 2, [3, 2, 3]).stride([1, 2, 1]).padding([1, 0, 2]).dilation([1, 1, 2]);
    vec![
        (few.build().unwrap(), Shape::batched(2, 4, [3, 4, 5])),
        (many.build().unwrap(), Shape::batched(2, 10, [4, 3, 5])),
    ]
}
