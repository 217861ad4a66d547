//! The direct and the gather kernels, and those of `col2im`, on a GPU, as they are and compiled for their layer: all of
//! them have to be exact for small whole numbers.
#![cfg(feature = "cuda")]

mod gather_layers;
mod gpu;

use std::time::Duration;

use conv_transpose::{
    ConvTranspose, Precision, Shape,
    cuda::{Algorithm, Device, Options, Plan},
};
use gpu::{Exact, computed};

fn check<const D: usize>(device: &Device, layer: &ConvTranspose<D>, input: Shape<D>) {
    check_algorithms(device, &[Algorithm::Direct, Algorithm::Gather], layer, input);
}

fn check_algorithms<const D: usize>(
    device: &Device,
    algorithms: &[Algorithm],
    layer: &ConvTranspose<D>,
    input: Shape<D>,
) {
    let Exact { stream, input: x, weight: w, bias, output: exact } = Exact::new(device, layer, input);
    for (algorithm, specialised) in algorithms.iter().flat_map(|&algorithm| [(algorithm, false), (algorithm, true)]) {
        let options = Options::default().algorithm(algorithm).precision(Precision::F32);
        let options = options.specialised(specialised).compile_within(Duration::MAX);
        let plan = Plan::new(device, layer, input, options).unwrap();
        assert_eq!(plan.is_specialised(), specialised);
        let output = computed(device, &stream, &plan, &x, &w, &bias);
        assert!(output.as_slice() == exact, "{}, specialised: {specialised}, {layer:?}, {input}", plan.describe());
    }
}

/// Pieces of four columns whose taps are known and others, of one column, below and beside each other; rows that are
/// aligned and rows that are not.
#[test]
fn kernels_compiled_for_their_layer_compute_the_same() {
    let Some(device) = gpu::device("kernels_compiled_for_their_layer_compute_the_same") else { return };
    let mut layers = vec![
        (4, 2, 1, 1),
        (3, 2, 1, 1),
        (2, 2, 0, 1),
        (3, 1, 1, 1),
        (7, 1, 0, 1),
        (8, 4, 2, 1),
        (5, 3, 1, 1),
        (3, 2, 1, 2),
    ];
    // Two windows of a row, and more than have code of their own; phases without a dilation that differ, and one of
    // several taps with it.
    layers.extend([(11, 1, 5, 1), (29, 1, 14, 1), (16, 8, 4, 1), (9, 4, 4, 1), (7, 1, 3, 2)]);
    for (kernel, stride, padding, dilation) in layers {
        for extent in [[56, 56], [1, 513], [37, 11]] {
            let layer = ConvTranspose::<2>::builder(6, 6, [kernel; 2]).stride([stride; 2]).padding([padding; 2]);
            let layer = layer.dilation([dilation; 2]).groups(6).build().unwrap();
            check(&device, &layer, Shape::batched(2, 6, extent));
        }
    }
    let layer = ConvTranspose::<1>::builder(8, 4, [15]).padding([14]).dilation([2]).groups(4).build().unwrap();
    check(&device, &layer, Shape::batched(3, 8, [1000]));
    // Many channels, over which `gather` has a loop.
    let layer = ConvTranspose::<1>::builder(37, 3, [4]).stride([3]).padding([1]).build().unwrap();
    check(&device, &layer, Shape::batched(2, 37, [41]));
    let layer = ConvTranspose::<3>::builder(3, 2, [3, 4, 3]).stride([1, 2, 1]).padding([1, 1, 1]).build().unwrap();
    check(&device, &layer, Shape::batched(2, 3, [9, 10, 21]));
}

/// Several taps along x, more of them than are under way together, and phases that differ.
#[test]
fn columns_are_summed_up_the_same_by_a_kernel_for_their_layer() {
    let Some(device) = gpu::device_of_capability_9("columns_are_summed_up_the_same_by_a_kernel_for_their_layer") else {
        return;
    };
    for (kernel, stride, padding, dilation) in [(9, 1, 4, 1), (4, 2, 1, 1), (5, 3, 0, 2), (19, 2, 9, 1)] {
        for extent in [[16, 24], [7, 33], [1, 5]] {
            let layer = ConvTranspose::<2>::builder(24, 3, [kernel; 2]).stride([stride; 2]).padding([padding; 2]);
            let layer = layer.dilation([dilation; 2]).build().unwrap();
            check_algorithms(&device, &[Algorithm::Col2im], &layer, Shape::batched(2, 24, extent));
        }
    }
}

#[test]
fn few_products_and_many() {
    let Some(device) = gpu::device("few_products_and_many") else { return };
    gather_layers::signals().iter().for_each(|(layer, input)| check(&device, layer, *input));
    gather_layers::pictures().iter().for_each(|(layer, input)| check(&device, layer, *input));
    gather_layers::volumes().iter().for_each(|(layer, input)| check(&device, layer, *input));
}
