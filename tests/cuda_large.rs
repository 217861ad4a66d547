//! Tensors of more than 2^31 elements and grids of more than 65535 blocks, on a GPU. A sample of outputs is compared
//! with the oracle.
//!
//! Each large case takes up to 9 GB of host memory and 13 GB of device memory; they run one after the other.
#![cfg(feature = "cuda")]

mod gpu;

use std::sync::{Mutex, PoisonError};

use conv_transpose::{
    ConvTranspose, ConvTranspose1d, ConvTranspose2d, Precision, Shape, Tensor,
    cuda::{Algorithm, Options, Plan},
    oracle,
};
use cust::stream::{Stream, StreamFlags};
use rayon::prelude::*;

/// Held by the case that runs.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Outputs that are compared, the first and the last ones among them. The oracle tries every kernel index, so a huge
/// kernel affords few.
const SAMPLES: usize = 2000;
const SAMPLES_OF_A_HUGE_KERNEL: usize = 32;

/// Small whole numbers without a short period.
fn pattern<const D: usize>(shape: Shape<D>, offset: usize) -> Tensor<f32, D> {
    let mut tensor = Tensor::filled(shape, 0.0f32).expect("there is enough host memory for the large cases");
    tensor
        .as_mut_slice()
        .par_iter_mut()
        .enumerate()
        .for_each(|(index, value)| *value = ((index + offset) % 251 % 7) as f32 - 3.0);
    tensor
}

fn check<const D: usize>(
    test: &str,
    layer: &ConvTranspose<D>,
    input: Shape<D>,
    ways: &[(Algorithm, Precision)],
    samples: usize,
) {
    let Some(device) = gpu::device(test) else { return };
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let problem = layer.problem(input).unwrap();
    let (input, weight) = (pattern(input, 0), pattern(layer.weight_shape(), 1));
    let (device_input, device_weight) = (device.upload(&input).unwrap(), device.upload(&weight).unwrap());
    let stream = Stream::new(StreamFlags::NON_BLOCKING, None).unwrap();
    for &(algorithm, precision) in ways {
        let options = Options::default().algorithm(algorithm).precision(precision);
        let plan = Plan::new(&device, layer, input.shape(), options).unwrap();
        let mut output = device.zeroed(plan.output_shape()).unwrap();
        // NaN, everywhere.
        output.buffer_mut().set_8(0xff).unwrap();
        cust::context::CurrentContext::synchronize().unwrap();
        plan.forward(&stream, &device_input, &device_weight, None, &mut output).unwrap();
        stream.synchronize().unwrap();
        let len = output.buffer().len();
        let mut rng = fastrand::Rng::with_seed(3);
        let ends = (0..samples / 8).chain(len - samples / 8..len);
        let indices: Vec<usize> = ends.chain((0..samples).map(|_| rng.usize(..len))).collect();
        let expected = |&index: &usize| oracle::output_at(&problem, input.as_slice(), weight.as_slice(), None, index);
        let expected: Vec<f64> = indices.par_iter().map(expected).collect();
        for (index, expected) in indices.into_iter().zip(expected) {
            // One element at a time: copying all of them would take most of the test's time.
            let value = output.buffer().index(index..index + 1).as_host_vec().unwrap()[0];
            assert_eq!(f64::from(value), expected, "{algorithm}, {precision:?}, output element {index}");
        }
    }
    gpu::say(&format!("cuda {test}: {} outputs of {} inputs", problem.output_shape(), problem.input_shape()));
}

const WIDE: &[(Algorithm, Precision)] =
    &[(Algorithm::Direct, Precision::F32), (Algorithm::Gather, Precision::F32), (Algorithm::Scatter, Precision::F32)];

/// The tile kernels take channels of fewer than 2^31 elements, and as many of them as there are. Products of such small
/// whole numbers, and their sums, are exact in both precisions.
const TILE: &[(Algorithm, Precision)] = &[(Algorithm::Tile, Precision::F32), (Algorithm::Tile, Precision::Tf32)];

#[test]
fn one_channel_of_more_than_2_31_outputs() {
    let layer = ConvTranspose1d::builder(1, 1, [3]).stride([2]).build().unwrap();
    check("one_channel_of_more_than_2_31_outputs", &layer, Shape::batched(1, 1, [(1 << 30) + 3]), WIDE, SAMPLES);
}

#[test]
fn more_than_2_31_inputs_in_many_samples() {
    let layer = ConvTranspose2d::builder(2, 1, [1, 1]).build().unwrap();
    check("more_than_2_31_inputs_in_many_samples", &layer, Shape::batched((1 << 16) + 1, 2, [128, 128]), WIDE, SAMPLES);
}

/// Of so many columns the output itself is small.
#[test]
fn more_than_2_31_columns() {
    let layer = ConvTranspose2d::builder(8, 1, [9, 9]).padding([4, 4]).build().unwrap();
    let columns = &[(Algorithm::Col2im, Precision::F32), (Algorithm::Col2im, Precision::Tf32)];
    check("more_than_2_31_columns", &layer, Shape::batched(2, 8, [3640, 3650]), columns, SAMPLES);
}

#[test]
fn more_than_2_31_outputs_of_tiles() {
    // Rows that are aligned to 16 bytes, and rows that are not.
    for extents in [[4100, 4100], [4101, 4101]] {
        let layer = ConvTranspose2d::builder(8, 16, [4, 4]).stride([2, 2]).padding([1, 1]).build().unwrap();
        check("more_than_2_31_outputs_of_tiles", &layer, Shape::batched(2, 8, extents), TILE, SAMPLES);
    }
}

/// The output is filled with the biases first.
#[test]
fn more_than_2_31_outputs_of_tiles_most_without_taps() {
    let layer = ConvTranspose2d::builder(8, 16, [2, 3]).stride([5, 2]).dilation([5, 1]).build().unwrap();
    let shape = Shape::batched(2, 8, [1640, 4100]);
    check("more_than_2_31_outputs_of_tiles_most_without_taps", &layer, shape, TILE, SAMPLES);
}

#[test]
fn more_than_2_31_inputs_of_tiles() {
    for extents in [[6700, 6700], [6701, 6701]] {
        let layer = ConvTranspose2d::builder(16, 1, [1, 3]).build().unwrap();
        check("more_than_2_31_inputs_of_tiles", &layer, Shape::batched(3, 16, extents), TILE, SAMPLES);
    }
}

#[test]
fn more_than_2_31_weights() {
    let layer = ConvTranspose1d::builder(3, 1, [(1 << 30) / 3 * 2 + 5]).build().unwrap();
    check(
        "more_than_2_31_weights",
        &layer,
        Shape::batched(1, 3, [2]),
        &[(Algorithm::Gather, Precision::F32)],
        SAMPLES_OF_A_HUGE_KERNEL,
    );
}

#[test]
fn more_than_65535_samples_and_blocks() {
    let layer = ConvTranspose2d::builder(1, 2, [2, 2]).stride([2, 1]).build().unwrap();
    check("more_than_65535_samples_and_blocks", &layer, Shape::batched(70_001, 1, [3, 17]), WIDE, SAMPLES);
}

#[test]
fn an_axis_of_more_than_65535_rows() {
    let layer = ConvTranspose2d::builder(2, 1, [3, 1]).stride([2, 1]).padding([1, 0]).build().unwrap();
    check("an_axis_of_more_than_65535_rows", &layer, Shape::unbatched(2, [70_001, 3]), WIDE, SAMPLES);
}
