//! The CPU backend through its public interface: against the definition, and bitwise equal on any number of threads.

use conv_transpose::{
    ConvTranspose, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d, Error, Shape, Tensor, cpu, oracle,
};
use proptest::prelude::*;

/// Small integers, so that every sum is exact in any order.
fn integers<const D: usize>(shape: Shape<D>, seed: usize) -> Tensor<f32, D> {
    tensor(shape, |i| ((i * 7919 + seed * 104_729) % 1009 % 9) as f32 - 4.0)
}

/// Numbers in `-1..1` whose sums round.
fn fractions<const D: usize>(shape: Shape<D>, seed: u32) -> Tensor<f32, D> {
    tensor(shape, |i| {
        let mixed = (i as u32).wrapping_add(seed).wrapping_mul(0x9E37_79B9);
        (mixed ^ (mixed >> 15)).wrapping_mul(0x85EB_CA6B) as f32 / u32::MAX as f32 * 2.0 - 1.0
    })
}

fn tensor<const D: usize>(shape: Shape<D>, element: impl Fn(usize) -> f32) -> Tensor<f32, D> {
    let len = shape.dims().iter().product();
    Tensor::from_vec(shape, (0..len).map(element).collect()).unwrap()
}

/// The output of a layer, from an output that held NaN.
fn forward<const D: usize>(
    plan: &cpu::Plan<D>,
    input: &Tensor<f32, D>,
    weight: &Tensor<f32, D>,
    bias: Option<&[f32]>,
) -> Vec<f32> {
    let mut output = Tensor::filled(plan.output_shape(), f32::NAN).unwrap();
    plan.forward(input, weight, bias, &mut output).unwrap();
    output.into_vec()
}

fn assert_exact<const D: usize>(layer: &ConvTranspose<D>, shape: Shape<D>) {
    let plan = cpu::Plan::new(layer, shape).unwrap();
    let (input, weight) = (integers(shape, 1), integers(layer.weight_shape(), 2));
    let bias: Vec<f32> = (0..layer.out_channels()).map(|co| co as f32 - 3.0).collect();
    for bias in [None, Some(bias.as_slice())] {
        let actual = forward(&plan, &input, &weight, bias);
        let expected = oracle::forward(plan.problem(), input.as_slice(), weight.as_slice(), bias);
        assert_eq!(actual.len(), expected.len());
        assert!(actual.iter().zip(&expected).all(|(&a, &b)| f64::from(a) == b), "{:?}", plan.problem());
    }
}

/// Sums that round: within `eps * (number of products + 2)` of the sum of magnitudes.
fn assert_rounding<const D: usize>(layer: &ConvTranspose<D>, shape: Shape<D>) {
    let plan = cpu::Plan::new(layer, shape).unwrap();
    let (input, weight) = (fractions(shape, 1), fractions(layer.weight_shape(), 2));
    let actual = forward(&plan, &input, &weight, None);
    let magnitude = |tensor: &Tensor<f32, D>| tensor.as_slice().iter().map(|x| x.abs()).collect::<Vec<_>>();
    let expected = oracle::forward(plan.problem(), input.as_slice(), weight.as_slice(), None);
    let magnitudes = oracle::forward(plan.problem(), &magnitude(&input), &magnitude(&weight), None);
    let kernel: usize = plan.problem().axes().iter().map(|axis| axis.kernel).product();
    let products = (plan.problem().in_channels_per_group() * kernel) as f64;
    for ((&actual, expected), magnitude) in actual.iter().zip(expected).zip(magnitudes) {
        let limit = f64::from(f32::EPSILON) * (products + 2.0) * magnitude;
        assert!((f64::from(actual) - expected).abs() <= limit, "{actual} instead of {expected}, {:?}", plan.problem());
    }
}

fn assert_same_on_any_number_of_threads<const D: usize>(layer: &ConvTranspose<D>, shape: Shape<D>) {
    let plan = cpu::Plan::new(layer, shape).unwrap();
    let (input, weight) = (fractions(shape, 3), fractions(layer.weight_shape(), 4));
    let on = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let output = pool.install(|| forward(&plan, &input, &weight, None));
        output.into_iter().map(f32::to_bits).collect::<Vec<_>>()
    };
    let one = on(1);
    for threads in [1, 2, 3, 8] {
        assert!(on(threads) == one, "{threads} threads, {:?}", plan.problem());
    }
}

fn layers_2d() -> Vec<(ConvTranspose2d, Shape<2>)> {
    let build = |ci: usize, co: usize, kernel: [usize; 2]| ConvTranspose2d::builder(ci, co, kernel);
    vec![
        (build(3, 3, [4, 4]).stride([2, 2]).padding([1, 1]).groups(3).build().unwrap(), Shape::batched(2, 3, [61, 67])),
        (build(40, 24, [2, 2]).stride([2, 2]).build().unwrap(), Shape::batched(3, 40, [16, 16])),
        (build(150, 70, [4, 4]).stride([2, 2]).padding([1, 1]).build().unwrap(), Shape::batched(2, 150, [8, 8])),
        (build(100, 64, [4, 4]).build().unwrap(), Shape::batched(5, 100, [1, 1])),
        (
            build(6, 9, [3, 5]).stride([3, 1]).dilation([2, 2]).groups(3).build().unwrap(),
            Shape::batched(1, 6, [13, 17]),
        ),
    ]
}

fn layers_1d() -> Vec<(ConvTranspose1d, Shape<1>)> {
    let build = |ci: usize, co: usize, kernel: usize| ConvTranspose1d::builder(ci, co, [kernel]);
    vec![
        (build(130, 35, 16).stride([8]).padding([4]).build().unwrap(), Shape::batched(2, 130, [101])),
        (build(1, 1, 3).stride([2]).build().unwrap(), Shape::batched(1, 1, [30_000])),
        (build(5, 7, 3).stride([1]).dilation([400]).build().unwrap(), Shape::batched(1, 5, [9])),
    ]
}

#[test]
fn rounds_within_the_bound_of_recursive_summation() {
    layers_2d().iter().for_each(|(layer, shape)| assert_rounding(layer, *shape));
    layers_1d().iter().for_each(|(layer, shape)| assert_rounding(layer, *shape));
}

#[test]
fn is_bitwise_the_same_on_any_number_of_threads() {
    layers_2d().iter().for_each(|(layer, shape)| assert_same_on_any_number_of_threads(layer, *shape));
    layers_1d().iter().for_each(|(layer, shape)| assert_same_on_any_number_of_threads(layer, *shape));
}

#[test]
fn an_empty_batch_is_an_empty_output() {
    for (layer, shape) in layers_2d() {
        assert_exact(&layer, Shape { batch: Some(0), ..shape });
    }
}

/// Its extents need not fit in memory, nor their product in a `usize`.
#[test]
fn an_empty_batch_of_any_extent_is_an_empty_output() {
    let layer = ConvTranspose3d::builder(1, 1, [3; 3]).stride([2, 3, 1 << 40]).build().unwrap();
    assert_exact(&layer, Shape::batched(0, 1, [1 << 60, 1 << 60, 1 << 20]));
}

/// The weight's elements can be counted, but not in a table.
#[test]
fn a_plan_for_an_enormous_weight_is_small() {
    let layer = ConvTranspose2d::builder(1, 1 << 58, [1, 1]).build().unwrap();
    assert!(cpu::Plan::new(&layer, Shape::batched(1, 1, [1, 1])).is_ok());
    let layer = ConvTranspose1d::builder(1, 1, [1 << 35]).stride([4096]).build().unwrap();
    assert!(cpu::Plan::new(&layer, Shape::batched(1, 1, [1])).is_ok());
}

/// One thread works on several tiles of a row in the same memory; the last one reads beyond the input.
#[test]
fn a_tile_does_not_see_what_the_tile_before_it_read() {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    let layer = ConvTranspose1d::builder(1, 1, [3]).stride([2]).build().unwrap();
    pool.install(|| assert_exact(&layer, Shape::batched(1, 1, [100_000])));
}

#[test]
fn unbatched_inputs_and_kernelbench_72_in_small() {
    let layer = ConvTranspose3d::builder(8, 8, [3, 5, 7]).stride([2; 3]).padding([1, 2, 3]).output_padding([1; 3]);
    assert_exact(&layer.groups(4).build().unwrap(), Shape::unbatched(8, [5, 6, 11]));
}

#[test]
fn positions_before_and_behind_the_input_hold_the_bias() {
    // ONNX' output_shape beyond what the input reaches: the padding is negative at both ends.
    let layer = ConvTranspose1d::builder(2, 3, [3]).stride([2]).output_shape([41]).build().unwrap();
    assert_exact(&layer, Shape::batched(2, 2, [4]));
    let layer = ConvTranspose2d::builder(2, 3, [3, 2]).stride([1, 2]).output_shape([30, 41]).build().unwrap();
    assert_exact(&layer, Shape::batched(2, 2, [4, 5]));
}

#[test]
fn a_kernel_that_reaches_far_beyond_any_memory_is_no_obstacle() {
    let far = 1usize << 40;
    let layer = ConvTranspose1d::builder(2, 3, [2]).dilation([far]).padding([far / 2]).build().unwrap();
    assert_exact(&layer, Shape::batched(1, 2, [1]));
    let layer = ConvTranspose1d::builder(2, 3, [1]).stride([far]).padding([far]).build().unwrap();
    assert_exact(&layer, Shape::batched(1, 2, [3]));
}

#[test]
fn an_output_position_that_no_tap_reaches_is_not_touched_by_infinite_weights() {
    let layer = ConvTranspose1d::builder(1, 1, [1]).stride([2]).build().unwrap();
    let plan = cpu::Plan::new(&layer, Shape::unbatched(1, [2])).unwrap();
    let (input, weight) = (integers(Shape::unbatched(1, [2]), 1), tensor(layer.weight_shape(), |_| f32::INFINITY));
    assert_eq!(forward(&plan, &input, &weight, Some(&[5.0]))[1], 5.0);
}

#[test]
fn refuses_tensors_of_other_shapes_and_leaves_the_output_alone() {
    let (layer, shape) = &layers_2d()[1];
    let plan = cpu::Plan::new(layer, *shape).unwrap();
    let mut output = Tensor::filled(plan.output_shape(), 7.0f32).unwrap();
    let (input, weight) = (integers(*shape, 1), integers(layer.weight_shape(), 2));
    let refused = plan.forward(&input, &weight, Some(&[0.0; 3]), &mut output);
    assert!(matches!(refused, Err(Error::Geometry(_))));
    assert!(output.as_slice().iter().all(|&element| element == 7.0));
}

#[test]
fn the_workspace_is_the_packed_weight_and_a_bounded_part_per_thread() {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(3).build().unwrap();
    for (layer, shape) in layers_2d() {
        let plan = cpu::Plan::new(&layer, shape).unwrap();
        let weight: usize = layer.weight_shape().dims().iter().product();
        assert!(pool.install(|| plan.workspace_bytes()) <= 4 * weight + 3 * (1 << 20));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn random_2d_layers_are_exact(
        batch in 0usize..3, groups in 1usize..4, channels in prop::array::uniform2(1usize..9),
        input in prop::array::uniform2(1usize..12), kernel in prop::array::uniform2(1usize..6),
        stride in prop::array::uniform2(1usize..6), dilation in prop::array::uniform2(1usize..4),
        padding in prop::array::uniform2(0usize..5), extra in prop::array::uniform2(0usize..4),
    ) {
        let output_padding = [0, 1].map(|a| extra[a] % stride[a].max(dilation[a]));
        let layer = ConvTranspose2d::builder(groups * channels[0], groups * channels[1], kernel)
            .groups(groups).stride(stride).dilation(dilation).padding(padding).output_padding(output_padding)
            .build().unwrap();
        let shape = Shape::batched(batch, groups * channels[0], input);
        if layer.problem(shape).is_ok() {
            assert_exact(&layer, shape);
        }
    }
}
