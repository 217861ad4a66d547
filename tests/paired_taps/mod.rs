//! Layers of few channels in a group, of which runs may take two taps at a time: along z and y, an even number of them
//! and an odd one, next to each other and apart.

use conv_transpose::{ConvTranspose, Shape};

/// What describes such ways, in single precision.
pub const WORDS: &str = "two taps along";

/// Pictures, of one group and of several.
pub fn pictures() -> Vec<(ConvTranspose<2>, Shape<2>)> {
    let picture = |[channels, out]: [usize; 2], groups: usize, kernel: [usize; 2], [stride, dilation]: [usize; 2]| {
        let layer = ConvTranspose::<2>::builder(channels * groups, out * groups, kernel);
        let layer = layer.groups(groups).stride([stride; 2]).dilation([dilation; 2]).padding([1, 2]).build().unwrap();
        (layer, Shape::batched(2, channels * groups, [7, 20]))
    };
    vec![
        picture([8, 24], 2, [4, 3], [1, 1]),
        picture([5, 40], 1, [3, 5], [1, 2]),
        picture([24, 16], 1, [5, 4], [2, 1]),
        picture([3, 17], 3, [6, 3], [1, 1]),
    ]
}

/// Volumes with strides.
pub fn volumes() -> Vec<(ConvTranspose<3>, Shape<3>)> {
    let volume = |channels: usize, groups: usize, kernel: [usize; 3], extent: [usize; 3]| {
        let layer = ConvTranspose::<3>::builder(channels * groups, 8 * groups, kernel).groups(groups).stride([2; 3]);
        let padding = kernel.map(|extent| extent / 2);
        (layer.padding(padding).build().unwrap(), Shape::batched(2, channels * groups, extent))
    };
    vec![volume(8, 2, [3, 5, 7], [3, 6, 12]), volume(8, 2, [3, 3, 3], [5, 4, 16]), volume(7, 1, [6, 4, 3], [4, 4, 9])]
}
