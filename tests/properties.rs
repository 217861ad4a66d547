//! What must hold of every engine on every geometry: the same properties, stamped on each engine in 1, 2 and 3
//! dimensions.
//!
//! `PROPTEST_CASES` sets how many cases each gets: 256 unless told. The properties themselves are tried on
//! engines with known faults in [`planted_faults`].

mod convolution;
#[macro_use]
mod engines;
mod geometries;
mod planted_faults;
mod rounding;

use std::{cell::Cell, iter};

use conv_transpose::{AutoPad, ConvTranspose, Shape, Tensor, oracle};
use convolution::{flat, lands, positions};
use engines::Engine;
use geometries::{AxisCase, Case, Data, Failure, Geometry, MAGNITUDE, Request, Stop, Stream, Tally, cases, for_all};
use proptest::strategy::Strategy;
use rounding::Rounding;

on_every_engine! {
    in_1d_2d_3d:
    integers_equal_the_oracle,
    reals_stay_within_the_rounding_bound,
    it_is_the_adjoint_of_convolution,
    it_is_linear_in_input_and_weight,
    groups_are_slices,
    samples_are_slices,
    output_size_is_output_padding,
    onnx_padding_is_explicit_padding,
    padding_crops_and_output_padding_extends,
    a_zero_weight_leaves_the_bias,
    no_bias_is_a_zero_bias,
    the_same_call_gives_the_same_bits,
    an_impulse_shows_the_weight,
}

/// How many cases a property usually gets; see [`geometries::Draw`].
const CASES: u32 = 256;

/// Tries a property of one case on random cases.
fn property<const D: usize>(
    engine: &Engine,
    values: impl Strategy<Value = Case<D>> + 'static,
    test: impl Fn(&Engine, &Case<D>) -> Result<(), Stop>,
) -> Result<Tally, Failure> {
    for_all(engine.draw(CASES), values, |case| test(engine, case))
}

/// The output of the layer on the data.
fn output<const D: usize>(engine: &Engine, layer: &ConvTranspose<D>, data: &Data<D>) -> Result<Vec<f32>, Stop> {
    engine.forward(layer, &data.input, &data.weight, data.bias.as_deref())
}

/// Fails at the first element that differs, with its place in the tensor.
fn equal<const D: usize>(what: &str, shape: Shape<D>, actual: &[f32], expected: &[f64]) -> Result<(), Stop> {
    if actual.len() != expected.len() {
        return Err(Stop::Failed(format!("{} elements, but {what} has {}", actual.len(), expected.len())));
    }
    let differ = |&index: &usize| f64::from(actual[index]) != expected[index];
    let wrong = (0..actual.len()).filter(differ).count();
    let Some(first) = (0..actual.len()).find(differ) else { return Ok(()) };
    let (volume, channels) = (shape.extent.iter().product::<usize>(), shape.channels);
    let (sample, channel) = (first / volume / channels, first / volume % channels);
    let position = positions(shape.extent).nth(first % volume).unwrap();
    Err(Stop::Failed(format!(
        "{wrong} of {} elements differ from {what}, first at sample {sample}, channel {channel}, position {position:?}: \
         {} instead of {}",
        actual.len(),
        actual[first],
        expected[first]
    )))
}

fn widened(values: &[f32]) -> Vec<f64> {
    values.iter().map(|&value| f64::from(value)).collect()
}

/// On integers every sum is exact (see [`MAGNITUDE`]), so the output equals the oracle's to the last bit.
fn integers_equal_the_oracle<const D: usize>(engine: &Engine) -> Result<Tally, Failure> {
    let nonzero = Cell::new(0);
    let tally = property(engine, cases::<D>(), |engine, case| {
        let (problem, data) = (case.geometry.problem(), case.integers());
        let expected = oracle::forward(&problem, data.input.as_slice(), data.weight.as_slice(), data.bias.as_deref());
        nonzero.set(nonzero.get() + expected.iter().filter(|&&y| y != 0.0).count());
        let actual = output(engine, &case.geometry.layer(), &data)?;
        equal("the oracle", problem.output_shape(), &actual, &expected)
    });
    assert!(tally.is_err() || nonzero.get() > 0, "not one expected element differs from 0");
    tally
}

/// On real numbers the error of each element is within what its roundings allow; the oracle's own error has the same
/// form, with the round-off of `f64`.
fn reals_stay_within_the_rounding_bound<const D: usize>(engine: &Engine) -> Result<Tally, Failure> {
    property(engine, cases::<D>(), |engine, case| {
        let (problem, data) = (case.geometry.problem(), case.reals());
        let (x, w, b) = (data.input.as_slice(), data.weight.as_slice(), data.bias.as_deref());
        let expected = oracle::forward(&problem, x, w, b);
        let actual = output(engine, &case.geometry.layer(), &data)?;
        if actual.len() != expected.len() {
            return Err(Stop::Failed(format!("{} elements instead of {}", actual.len(), expected.len())));
        }
        let (rounding, roundoffs) = (Rounding::of(&problem, x, w, b), [engine.roundoff, f64::EPSILON / 2.0]);
        iter::zip(widened(&actual), expected)
            .enumerate()
            .try_for_each(|(index, (actual, expected))| rounding.check(index, actual, expected, roundoffs))
            .map_err(Stop::Failed)
    })
}

/// `<conv_transpose(x), y> = <x, conv(y)>` for all `x` and `y`, exactly, as both sides are sums of integers.
fn it_is_the_adjoint_of_convolution<const D: usize>(engine: &Engine) -> Result<Tally, Failure> {
    property(engine, cases::<D>().prop_map(|case| Case { bias: false, ..case }), |engine, case| {
        let data = case.integers();
        let forward = output(engine, &case.geometry.layer(), &data)?;
        let y: Vec<f32> = (0..forward.len()).map(|index| case.integer(Stream::Output, index)).collect();
        let backward = convolution::forward(&case.geometry, &y, data.weight.as_slice());
        let left: f64 = iter::zip(widened(&forward), widened(&y)).map(|(a, b)| a * b).sum();
        let right: f64 = iter::zip(widened(data.input.as_slice()), backward).map(|(a, b)| a * b).sum();
        if left == right {
            Ok(())
        } else {
            Err(Stop::Failed(format!("<conv_transpose(x), y> = {left}, but <x, conv(y)> = {right}")))
        }
    })
}

/// `f(a x + b x') = a f(x) + b f(x')` for the input, and so for the weight, exactly on integers.
fn it_is_linear_in_input_and_weight<const D: usize>(engine: &Engine) -> Result<Tally, Failure> {
    const A: f32 = 2.0;
    const B: f32 = -3.0;
    property(engine, cases::<D>().prop_map(|case| Case { bias: false, ..case }), |engine, case| {
        let (layer, data) = (case.geometry.layer(), case.integers());
        let other = |tensor: &Tensor<f32, D>| {
            let elements = (0..tensor.as_slice().len()).map(|index| case.integer(Stream::OtherInput, index));
            Tensor::from_vec(tensor.shape(), elements.collect()).unwrap()
        };
        let combined = |x: &Tensor<f32, D>, y: &Tensor<f32, D>| {
            let elements = iter::zip(x.as_slice(), y.as_slice()).map(|(x, y)| A * x + B * y);
            Tensor::from_vec(x.shape(), elements.collect()).unwrap()
        };
        let first = widened(&output(engine, &layer, &data)?);
        let expected = |second: &[f32]| -> Vec<f64> {
            iter::zip(&first, second).map(|(x, &y)| f64::from(A) * x + f64::from(B) * f64::from(y)).collect()
        };

        let other_input = other(&data.input);
        let second = engine.forward(&layer, &other_input, &data.weight, None)?;
        let both = engine.forward(&layer, &combined(&data.input, &other_input), &data.weight, None)?;
        equal("a f(x) + b f(x')", case.geometry.output_shape(), &both, &expected(&second))?;

        let other_weight = other(&data.weight);
        let second = engine.forward(&layer, &data.input, &other_weight, None)?;
        let both = engine.forward(&layer, &data.input, &combined(&data.weight, &other_weight), None)?;
        equal("a f(w) + b f(w')", case.geometry.output_shape(), &both, &expected(&second))
    })
}

/// Each group is a layer of its own on its slice of channels.
fn groups_are_slices<const D: usize>(engine: &Engine) -> Result<Tally, Failure> {
    property(engine, cases::<D>(), |engine, case| {
        let (geometry, data) = (case.geometry, case.integers());
        let Geometry { groups, in_per_group, out_per_group, .. } = geometry;
        let alone = Geometry { groups: 1, ..geometry };
        let input_volume: usize = geometry.axes.iter().map(|axis| axis.input).product();
        let output_volume: usize = geometry.output().iter().product();

        let mut parts = Vec::new();
        for group in 0..groups {
            let samples = data.input.as_slice().chunks(geometry.in_channels() * input_volume);
            let slice = group * in_per_group * input_volume..(group + 1) * in_per_group * input_volume;
            let input = samples.flat_map(|sample| sample[slice.clone()].to_vec()).collect();
            let weights = in_per_group * out_per_group * geometry.kernel_volume();
            let weight = data.weight.as_slice()[group * weights..(group + 1) * weights].to_vec();
            let bias = data.bias.as_ref().map(|bias| bias[group * out_per_group..(group + 1) * out_per_group].to_vec());
            let input = Tensor::from_vec(alone.input_shape(), input).unwrap();
            let weight = Tensor::from_vec(alone.weight_shape(), weight).unwrap();
            parts.push(output(engine, &geometry.layer_of_one_group(), &Data { input, weight, bias })?);
        }
        let slice = out_per_group * output_volume;
        let expected: Vec<f64> = (0..geometry.batch.unwrap_or(1))
            .flat_map(|n| parts.iter().flat_map(move |part| widened(&part[n * slice..(n + 1) * slice])))
            .collect();
        let actual = output(engine, &geometry.layer(), &data)?;
        equal("the groups one by one", geometry.output_shape(), &actual, &expected)
    })
}

/// Each sample of a batch gives what it gives alone and unbatched.
fn samples_are_slices<const D: usize>(engine: &Engine) -> Result<Tally, Failure> {
    property(engine, cases::<D>(), |engine, case| {
        let (geometry, data) = (case.geometry, case.integers());
        let alone = Geometry { batch: None, ..geometry };
        let mut expected = Vec::new();
        for sample in data.input.as_slice().chunks(alone.input_shape().checked_len().unwrap()) {
            let input = Tensor::from_vec(alone.input_shape(), sample.to_vec()).unwrap();
            let sample = engine.forward(&alone.layer(), &input, &data.weight, data.bias.as_deref())?;
            expected.extend(widened(&sample));
        }
        let actual = output(engine, &geometry.layer(), &data)?;
        equal("the samples one by one", geometry.output_shape(), &actual, &expected)
    })
}

/// Asks for the geometry in two ways that must give the same output.
fn two_requests_agree<const D: usize>(
    engine: &Engine,
    case: &Case<D>,
    what: &str,
    first: &ConvTranspose<D>,
    second: &ConvTranspose<D>,
) -> Result<(), Stop> {
    let data = case.integers();
    let expected = widened(&output(engine, second, &data)?);
    equal(what, case.geometry.output_shape(), &output(engine, first, &data)?, &expected)
}

/// PyTorch's `output_size` gives what the `output_padding` that reaches it gives.
fn output_size_is_output_padding<const D: usize>(engine: &Engine) -> Result<Tally, Failure> {
    let asked_by_size = cases::<D>().prop_map(|mut case| {
        // Where the output padding is below the stride, `output_size` reaches the same extent. Only explicit padding
        // goes with it.
        for axis in &mut case.geometry.axes {
            let most = axis.full() - 1;
            axis.begin = axis.begin.clamp(0, most);
            axis.end = axis.end.clamp(0, most - axis.begin);
            axis.output_padding = axis.output_padding.min(axis.stride - 1);
        }
        case.geometry.request = Request::OutputSize;
        case
    });
    property(engine, asked_by_size, |engine, case| {
        let by_padding = case.geometry.layer_by_padding().unwrap();
        two_requests_agree(engine, case, "output_padding", &case.geometry.layer(), &by_padding)
    })
}

/// ONNX' `auto_pad` and `output_shape` give what the padding that they stand for gives.
fn onnx_padding_is_explicit_padding<const D: usize>(engine: &Engine) -> Result<Tally, Failure> {
    let asked_by_shape = cases::<D>().prop_map(|mut case| {
        // Padding of which the end is the larger half, or the begin, is what some `output_shape` stands for.
        let upper = case.seed % 2 == 0;
        for axis in &mut case.geometry.axes {
            let total = (axis.begin + axis.end).max(0);
            let (smaller, larger) = (total / 2, total - total / 2);
            (axis.begin, axis.end) = if upper { (smaller, larger) } else { (larger, smaller) };
            axis.output_padding = axis.output_padding.min(axis.stride.max(axis.dilation) - 1);
        }
        let auto_pad = if upper { AutoPad::SameUpper } else { AutoPad::SameLower };
        let same = |axis: &AxisCase| axis.output() == axis.input * axis.stride;
        let all_same = case.geometry.axes.iter().all(same);
        case.geometry.request = if all_same { Request::AutoPad(auto_pad) } else { Request::OutputShape(auto_pad) };
        case
    });
    property(engine, asked_by_shape, |engine, case| {
        let by_padding = case.geometry.layer_by_padding().unwrap();
        two_requests_agree(engine, case, "explicit padding", &case.geometry.layer(), &by_padding)
    })
}

/// Padding only cuts positions off, and output padding only adds some at the end: position `o` is position `o + begin`
/// of the layer without either, and holds the bias alone where that one has no such position.
fn padding_crops_and_output_padding_extends<const D: usize>(engine: &Engine) -> Result<Tally, Failure> {
    property(engine, cases::<D>(), |engine, case| {
        let (geometry, data) = (case.geometry, case.integers());
        let whole = output(engine, &geometry.layer_without_padding(), &data)?;
        let extent = geometry.axes.map(|axis| axis.full() as usize);
        let volume: usize = extent.iter().product();

        let mut expected = Vec::new();
        for channel in 0..geometry.batch.unwrap_or(1) * geometry.out_channels() {
            let bias = data.bias.as_ref().map_or(0.0, |bias| bias[channel % geometry.out_channels()]);
            for o in positions(geometry.output()) {
                let mut uncropped = Some([0; D]);
                for axis in 0..D {
                    let position = usize::try_from(o[axis] as i64 + geometry.axes[axis].begin).ok();
                    match (position.filter(|&position| position < extent[axis]), &mut uncropped) {
                        (Some(position), Some(uncropped)) => uncropped[axis] = position,
                        _ => uncropped = None,
                    }
                }
                let element = uncropped.map_or(bias, |position| whole[channel * volume + flat(extent, position)]);
                expected.push(f64::from(element));
            }
        }
        let actual = output(engine, &geometry.layer(), &data)?;
        equal("the layer without padding, cropped", geometry.output_shape(), &actual, &expected)
    })
}

/// With a zero weight every output element is the bias of its channel.
fn a_zero_weight_leaves_the_bias<const D: usize>(engine: &Engine) -> Result<Tally, Failure> {
    property(engine, cases::<D>().prop_map(|case| Case { bias: true, ..case }), |engine, case| {
        let mut data = case.reals();
        data.weight.as_mut_slice().fill(0.0);
        let bias = data.bias.as_ref().unwrap();
        let volume: usize = case.geometry.output().iter().product();
        let channels = case.geometry.batch.unwrap_or(1) * bias.len();
        let expected: Vec<f64> =
            (0..channels * volume).map(|index| f64::from(bias[index / volume % bias.len()])).collect();
        let actual = output(engine, &case.geometry.layer(), &data)?;
        equal("the bias", case.geometry.output_shape(), &actual, &expected)
    })
}

/// Leaving the bias out is the same as a bias of zeros.
fn no_bias_is_a_zero_bias<const D: usize>(engine: &Engine) -> Result<Tally, Failure> {
    property(engine, cases::<D>().prop_map(|case| Case { bias: false, ..case }), |engine, case| {
        let (layer, mut data) = (case.geometry.layer(), case.integers());
        let expected = widened(&output(engine, &layer, &data)?);
        data.bias = Some(vec![0.0; case.geometry.out_channels()]);
        equal("no bias", case.geometry.output_shape(), &output(engine, &layer, &data)?, &expected)
    })
}

/// The same call twice gives the same bits: on real numbers, where another order of additions would show, unless the
/// engine does not promise that; then on integers, where it does not matter.
fn the_same_call_gives_the_same_bits<const D: usize>(engine: &Engine) -> Result<Tally, Failure> {
    property(engine, cases::<D>(), |engine, case| {
        let layer = case.geometry.layer();
        let data = if engine.repeatable { case.reals() } else { case.integers() };
        let bits = || -> Result<Vec<u32>, Stop> {
            Ok(output(engine, &layer, &data)?.iter().map(|value| value.to_bits()).collect())
        };
        if bits()? == bits()? { Ok(()) } else { Err(Stop::Failed("two calls differ".into())) }
    })
}

/// An input of a single 1 leaves the weight of its channel in the output, each tap at
/// `i * stride + k * dilation - begin`, and nothing anywhere else. The weights are 1, 2, 3, ... so that no two could be
/// mistaken for each other.
fn an_impulse_shows_the_weight<const D: usize>(engine: &Engine) -> Result<Tally, Failure> {
    property(engine, cases::<D>(), |engine, case| {
        let (geometry, mut data) = (case.geometry, case.integers());
        let (input, kernel) = (geometry.axes.map(|axis| axis.input), geometry.axes.map(|axis| axis.kernel));
        for (index, weight) in data.weight.as_mut_slice().iter_mut().enumerate() {
            *weight = (index + 1) as f32;
        }
        data.input.as_mut_slice().fill(0.0);
        let volume: usize = geometry.output().iter().product();
        let channels = geometry.batch.unwrap_or(1) * geometry.out_channels();
        let mut expected: Vec<f64> = (0..channels * volume)
            .map(|index| data.bias.as_ref().map_or(0.0, |bias| f64::from(bias[index / volume % bias.len()])))
            .collect();
        let elements = data.input.as_slice().len();
        if let Some(impulse) = (case.seed as usize).checked_rem(elements) {
            data.input.as_mut_slice()[impulse] = 1.0;
            let input_volume: usize = input.iter().product();
            let i = positions(input).nth(impulse % input_volume).unwrap();
            let (n, ci) =
                (impulse / input_volume / geometry.in_channels(), impulse / input_volume % geometry.in_channels());
            for c in 0..geometry.out_per_group {
                let co = ci / geometry.in_per_group * geometry.out_per_group + c;
                for k in positions(kernel) {
                    let Some(o) = lands(&geometry, i, k) else { continue };
                    let weight = (ci * geometry.out_per_group + c) * geometry.kernel_volume() + flat(kernel, k);
                    expected[(n * geometry.out_channels() + co) * volume + flat(geometry.output(), o)] +=
                        (weight + 1) as f64;
                }
            }
        }
        let actual = output(engine, &geometry.layer(), &data)?;
        equal("the weight in its places", geometry.output_shape(), &actual, &expected)
    })
}

/// The coefficients of the linearity property still leave every sum exact.
const _: () = assert!(5 * MAGNITUDE * MAGNITUDE * 5 * 16 * 16 * 16 < 1 << 24, "combined integers are exact in f32");
