//! The flat kernels on a GPU, in each way that the model takes into account.
#![cfg(feature = "cuda")]

mod flat_layers;
mod gpu;
mod gpu_ways;
mod long_factors;
mod random_tensors;
mod relative_error;
mod scaled_samples;

use conv_transpose::{
    ConvTranspose, Precision, Shape,
    cuda::{Algorithm, Options, Plan},
    oracle,
};
use cust::stream::{Stream, StreamFlags};
use gpu::{computed, device_of_capability_9 as device};
use gpu_ways::{Factors, check_all};
use random_tensors::random_tensors;
use relative_error::relative_error;

const PRECISIONS: [Precision; 2] = [Precision::F32, Precision::Tf32];

fn options(precision: Precision) -> Options {
    Options::default().algorithm(Algorithm::Flat).precision(precision)
}

#[test]
fn signals() {
    let Some(device) = device("signals") else { return };
    for precision in PRECISIONS {
        check_all(&device, options(precision), flat_layers::signals(), Factors::Small);
    }
}

#[test]
fn pictures() {
    let Some(device) = device("pictures") else { return };
    for precision in PRECISIONS {
        check_all(&device, options(precision), flat_layers::pictures(), Factors::Small);
        check_all(&device, options(precision), flat_layers::with_many_taps(), Factors::Small);
    }
}

/// In single precision factors are sums of two numbers. With such that have more bits than one of them, and few enough
/// in all for exact sums, the results are exact.
#[test]
fn both_parts_count() {
    let Some(device) = device("both_parts_count") else { return };
    check_all(&device, options(Precision::F32), flat_layers::with_many_taps(), Factors::Long);
}

/// Tensor cores cut off what a sum has below its last bit, some 2.2e-8 of it with each product of 16 channels. Of the
/// 2400 here that would be more than is allowed, if sums did not move on.
#[test]
fn sums_of_many_products_are_as_exact_as_promised() {
    let Some(device) = device("sums_of_many_products_are_as_exact_as_promised") else { return };
    let stream = Stream::new(StreamFlags::NON_BLOCKING, None).unwrap();
    let layer = ConvTranspose::<2>::builder(512, 24, [5, 5]).build().unwrap();
    let input = Shape::batched(1, 512, [20, 30]);
    let mut random = random_tensors(5);
    let (x, w) = (random(input), random(layer.weight_shape()));
    let exact = oracle::forward(&layer.problem(input).unwrap(), x.as_slice(), w.as_slice(), None);
    let [x, w] = [device.upload(&x).unwrap(), device.upload(&w).unwrap()];
    let no_bias = device.upload_slice(&vec![0.0f32; layer.out_channels()]).unwrap();
    for (precision, most) in PRECISIONS.into_iter().zip([2e-6, 5e-4]) {
        for plan in Plan::ways(&device, &layer, input, options(precision)).unwrap() {
            let output = computed(&device, &stream, &plan, &x, &w, &no_bias);
            let error = relative_error(output.as_slice(), &exact);
            assert!(error <= most, "{error:e}, {}", plan.describe());
        }
    }
}

#[test]
fn blocks_have_several_tiles() {
    let Some(device) = device("blocks_have_several_tiles") else { return };
    for precision in PRECISIONS {
        check_all(&device, options(precision), vec![flat_layers::many_samples()], Factors::Scaled);
    }
}

/// More jobs than multiprocessors, so that teams store in turn; planes that are no multiple of a sector, too.
#[test]
fn large_pictures() {
    let Some(device) = device("large_pictures") else { return };
    let large = |channels: usize, extent: [usize; 2]| {
        let layer = ConvTranspose::<2>::builder(channels, 70, [3, 5]).padding([1, 1]).build().unwrap();
        (layer, Shape::batched(3, channels, extent))
    };
    for precision in PRECISIONS {
        check_all(&device, options(precision), vec![large(24, [211, 197]), large(40, [256, 256])], Factors::Small);
    }
}

#[test]
fn volumes() {
    let Some(device) = device("volumes") else { return };
    for precision in PRECISIONS {
        check_all(&device, options(precision), flat_layers::volumes(), Factors::Small);
    }
}

#[test]
fn each_sample_has_a_scale_of_its_own() {
    let Some(device) = device("each_sample_has_a_scale_of_its_own") else { return };
    for precision in PRECISIONS {
        check_all(&device, options(precision), flat_layers::volumes(), Factors::Scaled);
    }
}
