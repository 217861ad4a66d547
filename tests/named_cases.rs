//! Small cases with the expected numbers written out: faults found in other implementations, and the examples of
//! PyTorch's documentation. ONNX' own test cases are a table, see `conformance.rs`.
//!
//! Weights like 1, 10, 100 keep the taps apart in the digits of the result.

#[macro_use]
mod engines;
mod geometries;

#[cfg(feature = "emulator")]
use conv_transpose::cuda::{Algorithm, EmulatedPlan, Options};
use conv_transpose::{
    AutoPad, ConvTranspose, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d, Shape, Tensor, oracle,
};
use engines::Engine;
use geometries::{Failure, Stop, Tally};

on_every_engine! {
    once:
    a_tap_needs_divisibility,
    minus_one_half_is_not_zero,
    output_padding_adds_at_the_end_only,
    output_padding_uncovers_what_padding_cut_off,
    output_padding_of_a_stride_or_more,
    the_weight_holds_one_group_of_output_channels,
    a_group_reads_its_own_input_channels,
    a_stride_beyond_the_reach_of_the_kernel,
    a_kernel_of_one_under_a_stride,
    negative_total_padding_of_output_shape,
    output_shape_splits_an_odd_padding,
    stride_and_dilation_share_a_divisor,
    the_divisor_is_smaller_than_both,
    dilation_and_stride_are_coprime,
    a_kernel_larger_than_the_input,
    padding_cuts_whole_input_elements_off,
    padding_differs_by_end_and_axis,
    extent_one_in_every_axis,
    planes_smaller_than_a_vector,
    axes_in_their_order,
    an_empty_batch_has_an_empty_output,
    unbatched_is_a_batch_of_one,
    the_kernel_is_not_flipped,
    auto_pad_same_lower,
}

/// Runs one layer on an engine, compares the shape and every element with what is expected, and the oracle's too.
fn gives<const D: usize>(
    engine: &Engine,
    layer: ConvTranspose<D>,
    (input_shape, input): (Shape<D>, &[f32]),
    weight: &[f32],
    bias: Option<&[f32]>,
    (output_shape, expected): (Shape<D>, &[f32]),
) -> Result<Tally, Failure> {
    let problem = layer.problem(input_shape).unwrap();
    assert_eq!(problem.output_shape(), output_shape);
    let by_oracle: Vec<f64> = expected.iter().map(|&y| f64::from(y)).collect();
    assert_eq!(oracle::forward(&problem, input, weight, bias), by_oracle, "the oracle");

    let input = Tensor::from_vec(input_shape, input.to_vec()).unwrap();
    let weight = Tensor::from_vec(layer.weight_shape(), weight.to_vec()).unwrap();
    match engine.forward(&layer, &input, &weight, bias) {
        Ok(actual) => assert_eq!(actual, expected),
        Err(Stop::Failed(reason)) => panic!("{reason}"),
        Err(Stop::Unsupported(_)) => return Ok(Tally { ran: 0, unsupported: 1 }),
    }
    Ok(Tally { ran: 1, unsupported: 0 })
}

/// [`gives`] for one channel, unbatched, in one dimension and without bias.
fn line(
    engine: &Engine,
    layer: ConvTranspose1d,
    input: &[f32],
    weight: &[f32],
    expected: &[f32],
) -> Result<Tally, Failure> {
    let shape = |values: &[f32]| Shape::unbatched(1, [values.len()]);
    gives(engine, layer, (shape(input), input), weight, None, (shape(expected), expected))
}

/// The numbers 0, 1, 2, ...
fn counting<const N: usize>() -> [f32; N] {
    std::array::from_fn(|index| index as f32)
}

/// Several cases in one test: all of them ran, or some are not supported.
fn all<const N: usize>(cases: [Result<Tally, Failure>; N]) -> Result<Tally, Failure> {
    cases.into_iter().try_fold(Tally::default(), |sum, case| {
        let Tally { ran, unsupported } = case?;
        Ok(Tally { ran: sum.ran + ran, unsupported: sum.unsupported + unsupported })
    })
}

/// `(o + p - k * d) / s` without the check that it divides adds taps that are not there, at any stride above 1.
fn a_tap_needs_divisibility(engine: &Engine) -> Result<Tally, Failure> {
    let layer = ConvTranspose::builder(1, 1, [3]).stride([2]).build().unwrap();
    line(engine, layer, &[1., 2., 3.], &[1., 10., 100.], &[1., 10., 102., 20., 203., 30., 300.])
}

/// At output position 0 the tap 1 would read input position -1 / 2, which is not 0.
fn minus_one_half_is_not_zero(engine: &Engine) -> Result<Tally, Failure> {
    let two = ConvTranspose::builder(1, 1, [2]).stride([2]).build().unwrap();
    let four = ConvTranspose::builder(1, 1, [4]).stride([5]).build().unwrap();
    all([
        line(engine, two, &[1., 2.], &[1., 10.], &[1., 10., 2., 20.]),
        line(engine, four, &[2.], &[1., 2., 3., 4.], &[2., 4., 6., 8.]),
    ])
}

fn output_padding_adds_at_the_end_only(engine: &Engine) -> Result<Tally, Failure> {
    let layer = ConvTranspose::builder(1, 1, [3]).stride([3]).output_padding([2]).build().unwrap();
    let output = [6., 15., 105., 7., 25., 205., 5., 5.];
    gives(
        engine,
        layer,
        (Shape::unbatched(1, [2]), &[1., 2.]),
        &[1., 10., 100.],
        Some(&[5.]),
        (Shape::unbatched(1, [8]), &output),
    )
}

/// The added position is the one that the padding had cut off: it holds what the input reaches, not the bias alone.
fn output_padding_uncovers_what_padding_cut_off(engine: &Engine) -> Result<Tally, Failure> {
    let cut = || ConvTranspose::builder(1, 1, [3]).stride([2]).padding([1]);
    let uncovered = cut().output_padding([1]).build().unwrap();
    let by_size = cut().output_size([4]).build().unwrap();
    let (input, weight) = ([1., 2.], [1., 10., 100.]);
    all([
        line(engine, cut().build().unwrap(), &input, &weight, &[10., 102., 20.]),
        line(engine, uncovered, &input, &weight, &[10., 102., 20., 200.]),
        line(engine, by_size, &input, &weight, &[10., 102., 20., 200.]),
    ])
}

/// Where the dilation is larger than the stride, so may the output padding be.
fn output_padding_of_a_stride_or_more(engine: &Engine) -> Result<Tally, Failure> {
    let layer = ConvTranspose::builder(1, 1, [2]).dilation([3]).output_padding([2]).build().unwrap();
    line(engine, layer, &[1., 2.], &[1., 10.], &[1., 2., 0., 10., 20., 0., 0.])
}

/// Weight `[2, 2, 1]` for 4 output channels: read as `[2, 4, 1]` it runs past the end.
fn the_weight_holds_one_group_of_output_channels(engine: &Engine) -> Result<Tally, Failure> {
    let layer = ConvTranspose::builder(2, 4, [1]).groups(2).build().unwrap();
    gives(
        engine,
        layer,
        (Shape::unbatched(2, [1]), &[10., 100.]),
        &[1., 2., 3., 4.],
        None,
        (Shape::unbatched(4, [1]), &[10., 20., 300., 400.]),
    )
}

fn a_group_reads_its_own_input_channels(engine: &Engine) -> Result<Tally, Failure> {
    let layer = ConvTranspose::builder(4, 2, [1]).groups(2).build().unwrap();
    gives(
        engine,
        layer,
        (Shape::unbatched(4, [1]), &[1., 10., 100., 1000.]),
        &[1., 2., 3., 4.],
        Some(&[0., 0.5]),
        (Shape::unbatched(2, [1]), &[21., 4300.5]),
    )
}

/// Where `dilation * (kernel - 1) + 1 < stride` some positions hold the bias alone, and the others still their taps.
fn a_stride_beyond_the_reach_of_the_kernel(engine: &Engine) -> Result<Tally, Failure> {
    let layer = ConvTranspose::builder(1, 1, [2]).stride([4]).build().unwrap();
    gives(
        engine,
        layer,
        (Shape::unbatched(1, [2]), &[1., 2.]),
        &[3., 5.],
        Some(&[1.]),
        (Shape::unbatched(1, [6]), &[4., 6., 1., 1., 7., 11.]),
    )
}

fn a_kernel_of_one_under_a_stride(engine: &Engine) -> Result<Tally, Failure> {
    let layer = ConvTranspose::builder(1, 1, [1]).stride([4]).build().unwrap();
    line(engine, layer, &[1., 2.], &[3.], &[3., 0., 0., 0., 6.])
}

/// A total of -3 is -2 and -1, the larger half (-1) at the begin unless the end is to have it.
fn negative_total_padding_of_output_shape(engine: &Engine) -> Result<Tally, Failure> {
    let of = |auto_pad| ConvTranspose::builder(1, 1, [1]).output_shape([4]).auto_pad(auto_pad).build().unwrap();
    let case = |auto_pad, output: [f32; 4]| {
        let (input, output) = ((Shape::unbatched(1, [1]), &[5.][..]), (Shape::unbatched(1, [4]), &output[..]));
        gives(engine, of(auto_pad), input, &[1.], Some(&[1.]), output)
    };
    all([
        case(AutoPad::NotSet, [1., 6., 1., 1.]),
        case(AutoPad::Valid, [1., 6., 1., 1.]),
        case(AutoPad::SameLower, [1., 6., 1., 1.]),
        case(AutoPad::SameUpper, [1., 1., 6., 1.]),
    ])
}

/// A total of 3 of the 5 positions: 2 and 1, or 1 and 2.
fn output_shape_splits_an_odd_padding(engine: &Engine) -> Result<Tally, Failure> {
    let of = |auto_pad| ConvTranspose::builder(1, 1, [5]).output_shape([2]).auto_pad(auto_pad).build().unwrap();
    let weight = [1., 2., 3., 4., 5.];
    all([
        line(engine, of(AutoPad::NotSet), &[1.], &weight, &[3., 4.]),
        line(engine, of(AutoPad::SameLower), &[1.], &weight, &[3., 4.]),
        line(engine, of(AutoPad::SameUpper), &[1.], &weight, &[2., 3.]),
    ])
}

/// Every second position has no tap at all.
fn stride_and_dilation_share_a_divisor(engine: &Engine) -> Result<Tally, Failure> {
    let layer = ConvTranspose::builder(1, 1, [2]).stride([2]).dilation([2]).build().unwrap();
    line(engine, layer, &[1., 2., 3.], &[1., 10.], &[1., 0., 12., 0., 23., 0., 30.])
}

fn the_divisor_is_smaller_than_both(engine: &Engine) -> Result<Tally, Failure> {
    let layer = ConvTranspose::builder(1, 1, [3]).stride([6]).dilation([4]).build().unwrap();
    line(
        engine,
        layer,
        &[1., 2.],
        &[1., 10., 100.],
        &[1., 0., 0., 0., 10., 0., 2., 0., 100., 0., 20., 0., 0., 0., 200.],
    )
}

fn dilation_and_stride_are_coprime(engine: &Engine) -> Result<Tally, Failure> {
    let layer = ConvTranspose::builder(1, 1, [3]).stride([2]).dilation([3]).build().unwrap();
    line(engine, layer, &[1., 2., 3.], &[1., 10., 100.], &[1., 0., 2., 10., 3., 20., 100., 30., 200., 0., 300.])
}

fn a_kernel_larger_than_the_input(engine: &Engine) -> Result<Tally, Failure> {
    let builder = || ConvTranspose::builder(1, 1, [5]).stride([3]);
    let cut = builder().padding_begin_end([[2, 1]]).build().unwrap();
    let weight = [1., 2., 3., 4., 5.];
    all([
        line(engine, builder().build().unwrap(), &[2.], &weight, &[2., 4., 6., 8., 10.]),
        line(engine, cut, &[2.], &weight, &[6., 8.]),
    ])
}

/// The first input element lands at -3 to -1 alone.
fn padding_cuts_whole_input_elements_off(engine: &Engine) -> Result<Tally, Failure> {
    let layer = ConvTranspose::builder(1, 1, [3]).stride([5]).padding_begin_end([[3, 0]]).build().unwrap();
    line(engine, layer, &[1., 2.], &[1., 10., 100.], &[0., 0., 2., 20., 200.])
}

/// One row off the top, two columns off the right of a 3x4 kernel.
fn padding_differs_by_end_and_axis(engine: &Engine) -> Result<Tally, Failure> {
    let layer = ConvTranspose::builder(1, 1, [3, 4]).padding_begin_end([[1, 0], [0, 2]]).build().unwrap();
    gives(
        engine,
        layer,
        (Shape::unbatched(1, [1, 1]), &[1.]),
        &counting::<12>(),
        None,
        (Shape::unbatched(1, [2, 2]), &[4., 5., 8., 9.]),
    )
}

fn extent_one_in_every_axis(engine: &Engine) -> Result<Tally, Failure> {
    let layer = ConvTranspose::builder(1, 1, [2, 2, 2]).stride([2, 3, 4]).build().unwrap();
    gives(
        engine,
        layer,
        (Shape::batched(1, 1, [1, 1, 1]), &[3.]),
        &counting::<8>(),
        None,
        (Shape::batched(1, 1, [2, 2, 2]), &[0., 3., 6., 9., 12., 15., 18., 21.]),
    )
}

/// A thread that fills four elements at once meets as many channels, and the last one fewer elements.
fn planes_smaller_than_a_vector(engine: &Engine) -> Result<Tally, Failure> {
    let layer = ConvTranspose::builder(1, 5, [1]).build().unwrap();
    let single = gives(
        engine,
        layer,
        (Shape::batched(1, 1, [1]), &[10.]),
        &[1., 2., 3., 4., 5.],
        Some(&[1., 2., 3., 4., 5.]),
        (Shape::batched(1, 5, [1]), &[11., 22., 33., 44., 55.]),
    );
    let layer = ConvTranspose::builder(1, 2, [1]).build().unwrap();
    let triple = gives(
        engine,
        layer,
        (Shape::batched(1, 1, [3]), &[10., 20., 30.]),
        &[1., 2.],
        Some(&[1., 2.]),
        (Shape::batched(1, 2, [3]), &[11., 21., 31., 22., 42., 62.]),
    );
    all([single, triple])
}

/// Every axis has its own extent, kernel and stride.
fn axes_in_their_order(engine: &Engine) -> Result<Tally, Failure> {
    let layer = ConvTranspose::builder(1, 1, [1, 2, 1]).stride([2, 1, 3]).build().unwrap();
    #[rustfmt::skip]
    let output = [
        1., 0., 0., 2.,
        10., 0., 0., 20.,

        0., 0., 0., 0.,
        0., 0., 0., 0.,

        3., 0., 0., 4.,
        30., 0., 0., 40.,
    ];
    gives(
        engine,
        layer,
        (Shape::unbatched(1, [2, 1, 2]), &[1., 2., 3., 4.]),
        &[1., 10.],
        None,
        (Shape::unbatched(1, [3, 2, 4]), &output),
    )
}

fn an_empty_batch_has_an_empty_output(engine: &Engine) -> Result<Tally, Failure> {
    let layer = ConvTranspose::builder(1, 2, [3, 3]).stride([2, 2]).build().unwrap();
    let (input, output) = (Shape::batched(0, 1, [4, 5]), Shape::batched(0, 2, [9, 11]));
    gives(engine, layer, (input, &[]), &[1.; 18], Some(&[1., 2.]), (output, &[]))
}

fn unbatched_is_a_batch_of_one(engine: &Engine) -> Result<Tally, Failure> {
    let layer = ConvTranspose::builder(1, 2, [2]).build().unwrap();
    let (input, weight, output) = ([1., 2.], [1., 10., 3., 5.], [1., 12., 20., 3., 11., 10.]);
    all([
        gives(engine, layer, (Shape::unbatched(1, [2]), &input), &weight, None, (Shape::unbatched(2, [3]), &output)),
        gives(engine, layer, (Shape::batched(1, 1, [2]), &input), &weight, None, (Shape::batched(1, 2, [3]), &output)),
    ])
}

/// An impulse leaves the kernel as it is, not mirrored.
fn the_kernel_is_not_flipped(engine: &Engine) -> Result<Tally, Failure> {
    let layer = ConvTranspose::builder(1, 1, [3]).padding([1]).build().unwrap();
    line(engine, layer, &[0., 1., 0.], &[1., 2., 3.], &[1., 2., 3.])
}

/// ONNX tests `SAME_UPPER` alone. A total padding of 1 in each axis, here at the begin.
fn auto_pad_same_lower(engine: &Engine) -> Result<Tally, Failure> {
    let layer = ConvTranspose::builder(1, 1, [3, 3]).stride([2, 2]).auto_pad(AutoPad::SameLower).build().unwrap();
    #[rustfmt::skip]
    let output = [
        0., 1., 1., 3., 2., 2.,
        3., 8., 5., 12., 7., 7.,
        3., 7., 4., 9., 5., 5.,
        9., 20., 11., 24., 13., 13.,
        6., 13., 7., 15., 8., 8.,
        6., 13., 7., 15., 8., 8.,
    ];
    let (input, output) =
        ((Shape::unbatched(1, [3, 3]), &counting::<9>()[..]), (Shape::unbatched(1, [6, 6]), &output[..]));
    gives(engine, layer, input, &[1.; 9], None, output)
}

fn output_of<const D: usize>(layer: ConvTranspose<D>, input: Shape<D>) -> Shape<D> {
    layer.problem(input).unwrap().output_shape()
}

/// The examples of PyTorch's documentation.
#[test]
fn shapes_of_the_pytorch_documentation() {
    let square = ConvTranspose2d::builder(16, 33, [3, 3]).stride([2, 2]).build().unwrap();
    assert_eq!(output_of(square, Shape::batched(20, 16, [50, 100])), Shape::batched(20, 33, [101, 201]));

    let padded = ConvTranspose2d::builder(16, 33, [3, 5]).stride([2, 1]).padding([4, 2]).build().unwrap();
    assert_eq!(output_of(padded, Shape::batched(20, 16, [50, 100])), Shape::batched(20, 33, [93, 100]));

    // What a convolution of stride 2 made 6 positions of was 12 or 11 positions: only output_size can tell.
    let upsample = || ConvTranspose2d::builder(16, 16, [3, 3]).stride([2, 2]).padding([1, 1]);
    let halved = Shape::batched(1, 16, [6, 6]);
    assert_eq!(output_of(upsample().build().unwrap(), halved).extent, [11, 11]);
    assert_eq!(output_of(upsample().output_size([12, 12]).build().unwrap(), halved).extent, [12, 12]);
    assert_eq!(output_of(upsample().output_size([11, 12]).build().unwrap(), halved).extent, [11, 12]);

    let volume = ConvTranspose3d::builder(16, 33, [3, 5, 2]).stride([2, 1, 1]).padding([0, 4, 2]).build().unwrap();
    assert_eq!(output_of(volume, Shape::batched(20, 16, [10, 50, 100])), Shape::batched(20, 33, [21, 46, 97]));
}

/// The oracle finds its way beyond 2^32 without a tensor of that size.
#[test]
fn the_oracle_reads_single_elements_of_a_huge_output() {
    let layer = ConvTranspose1d::builder(1, 1, [2]).stride([1 << 40]).build().unwrap();
    let problem = layer.problem(Shape::unbatched(1, [2])).unwrap();
    assert_eq!(problem.output_shape().extent, [(1 << 40) + 2]);
    let at = |index| oracle::output_at(&problem, &[3.0f32, 5.0], &[1.0, 10.0], Some(&[0.5]), index);
    let wanted = [(0, 3.5), (1, 30.5), (2, 0.5), ((1 << 40) - 1, 0.5), (1 << 40, 5.5), ((1 << 40) + 1, 50.5)];
    for (index, element) in wanted {
        assert_eq!(at(index), element, "element {index}");
    }
}

/// Offsets past 2^31.
mod past_2_to_the_31 {
    on_every_engine! {
        large:
        an_output_of_more_than_2_to_the_31_elements,
        an_input_of_more_than_2_to_the_31_elements,
    }
}

/// 65537 channels of 128 x 256 positions: each a pixel of the input times the weight of its channel and tap.
fn an_output_of_more_than_2_to_the_31_elements(engine: &Engine) -> Result<Tally, Failure> {
    const CHANNELS: usize = (1 << 16) + 1;
    let layer = ConvTranspose::builder(1, CHANNELS, [2, 2]).stride([2, 2]).build().unwrap();
    let (shape, channel) = (Shape::unbatched(1, [64, 128]), 128 * 256);
    let input = Tensor::from_vec(shape, (0..64 * 128).map(|index| (index % 13) as f32).collect()).unwrap();
    let weights = (0..4 * CHANNELS).map(|index| (index % 251) as f32);
    let weight = Tensor::from_vec(layer.weight_shape(), weights.collect()).unwrap();
    let output = match engine.forward(&layer, &input, &weight, None) {
        Ok(output) => output,
        Err(Stop::Unsupported(_)) => return Ok(Tally { ran: 0, unsupported: 1 }),
        Err(Stop::Failed(reason)) => panic!("{reason}"),
    };
    assert_eq!(output.len(), CHANNELS * channel);
    for (index, &actual) in output.iter().enumerate() {
        let (co, row, column) = (index / channel, index % channel / 256, index % 256);
        let pixel = row / 2 * 128 + column / 2;
        let tap = 4 * co + row % 2 * 2 + column % 2;
        assert_eq!(actual, ((pixel % 13) * (tap % 251)) as f32, "channel {co}, row {row}, column {column}");
    }
    Ok(Tally { ran: 1, unsupported: 0 })
}

/// 65537 rows of 32768 elements, of which padding leaves a corner of 8 x 8: the first columns of the last rows.
fn an_input_of_more_than_2_to_the_31_elements(engine: &Engine) -> Result<Tally, Failure> {
    const ROWS: usize = (1 << 16) + 1;
    const COLUMNS: usize = 1 << 15;
    let cut = [[ROWS - 8, 0], [0, COLUMNS - 8]];
    let layer = ConvTranspose::builder(1, 1, [1, 1]).padding_begin_end(cut).build().unwrap();
    let mut input = Tensor::filled(Shape::unbatched(1, [ROWS, COLUMNS]), 0.0).unwrap();
    for (row, elements) in input.as_mut_slice().chunks_mut(COLUMNS).enumerate().skip(ROWS - 8) {
        for (column, element) in elements.iter_mut().enumerate() {
            *element = (100 * (row + 8 - ROWS) + column) as f32;
        }
    }
    let weight = Tensor::filled(layer.weight_shape(), 3.0).unwrap();
    let output = match engine.forward(&layer, &input, &weight, None) {
        Ok(output) => output,
        Err(Stop::Unsupported(_)) => return Ok(Tally { ran: 0, unsupported: 1 }),
        Err(Stop::Failed(reason)) => panic!("{reason}"),
    };
    let expected: Vec<f32> = (0..64).map(|index| (3 * (100 * (index / 8) + index % 8)) as f32).collect();
    assert_eq!(output, expected);
    Ok(Tally { ran: 1, unsupported: 0 })
}

/// Four strides of the first layer, and the product of stride and dilation of the second one, are more than 64 bits
/// count; but their outputs all lie within the first stride.
#[cfg(feature = "emulator")]
#[test]
fn rows_further_apart_than_64_bits_count() {
    const ROWS: usize = 65;
    let row = [1., 2., 3., 4., 5., 6., 7., 8.];
    let weight = Tensor::from_vec(Shape::batched(1, 1, [ROWS, 1]), (0..ROWS).map(|row| row as f32).collect()).unwrap();
    let far = ConvTranspose2d::builder(1, 1, [ROWS, 1]).stride([1 << 63, 1]).build().unwrap();
    let output = weight.as_slice().iter().flat_map(|w| row.map(|x| w * x)).collect();

    let one = Tensor::from_vec(Shape::batched(1, 1, [1, 1]), vec![3.]).unwrap();
    let builder = ConvTranspose2d::builder(1, 1, [1, 1]).stride([usize::MAX, 1]).dilation([usize::MAX - 1, 1]);
    let further = builder.output_padding([1, 0]).build().unwrap();
    let padded = [row.map(|x| 3. * x), [0.; 8]].concat();

    let input = Tensor::from_vec(Shape::batched(1, 1, [1, 8]), row.to_vec()).unwrap();
    let cases: [(_, _, Vec<f32>); 2] = [(far, weight, output), (further, one, padded)];
    for (layer, weight, expected) in cases {
        for algorithm in [Algorithm::Auto, Algorithm::Direct, Algorithm::Gather, Algorithm::Scatter] {
            let plan = EmulatedPlan::new(&layer, input.shape(), Options::default().algorithm(algorithm)).unwrap();
            let actual = plan.forward(&input, &weight, None).unwrap();
            assert_eq!(actual.as_slice(), expected, "{algorithm}: {layer:?}");
        }
    }
}
