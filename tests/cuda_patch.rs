//! The patch kernels on a GPU, with each layout that there is.
#![cfg(feature = "cuda")]

mod gpu;
mod gpu_ways;
mod long_factors;
mod patch_layers;
mod scaled_samples;

use conv_transpose::{
    ConvTranspose, Precision, Shape,
    cuda::{Algorithm, Options, Plan},
};
use cust::stream::{Stream, StreamFlags};
use gpu::{computed, device_of_capability_9 as device, expected, whole_numbers};
use gpu_ways::check_all;

const PRECISIONS: [Precision; 2] = [Precision::F32, Precision::Tf32];

fn options(precision: Precision) -> Options {
    Options::default().algorithm(Algorithm::Patch).precision(precision)
}

#[test]
fn signals() {
    let Some(device) = device("signals") else { return };
    for precision in PRECISIONS {
        check_all(&device, options(precision), patch_layers::signals(), false);
    }
}

#[test]
fn pictures() {
    let Some(device) = device("pictures") else { return };
    for precision in PRECISIONS {
        check_all(&device, options(precision), patch_layers::pictures(), false);
        check_all(&device, options(precision), patch_layers::pictures_with_gaps(), false);
        check_all(&device, options(precision), patch_layers::few_and_many_channels(), false);
    }
}

/// In single precision factors are sums of two numbers. With such that have more bits than one of them, and few enough
/// in all for exact sums, the results are exact.
#[test]
fn both_parts_count() {
    let Some(device) = device("both_parts_count") else { return };
    let stream = Stream::new(StreamFlags::NON_BLOCKING, None).unwrap();
    for (layer, input) in patch_layers::few_and_many_channels() {
        let (mut x, mut w) = (whole_numbers(input, 1), whole_numbers(layer.weight_shape(), 2));
        long_factors::lengthen(&layer, &mut x, &mut w);
        let bias = vec![1.0; layer.out_channels()];
        let exact = expected(&layer, &x, &w, Some(&bias));
        let [x, w] = [device.upload(&x).unwrap(), device.upload(&w).unwrap()];
        let bias = device.upload_slice(&bias).unwrap();
        for plan in Plan::ways(&device, &layer, input, options(Precision::F32)).unwrap() {
            let output = computed(&device, &stream, &plan, &x, &w, &bias);
            assert!(output.as_slice() == exact, "{}, {input}", plan.describe());
        }
    }
}

/// More jobs than multiprocessors, so that teams store in turn, blocks keep their weights, and what is next is brought
/// closer; with whole tiles, and not.
#[test]
fn large_pictures() {
    let Some(device) = device("large_pictures") else { return };
    let large = |channels: usize, outputs: usize, extent: [usize; 2]| {
        let layer = ConvTranspose::<2>::builder(channels, outputs, [2, 2]).stride([2, 2]).build().unwrap();
        (layer, Shape::batched(3, channels, extent))
    };
    for precision in PRECISIONS {
        let layers = vec![large(128, 64, [96, 128]), large(72, 70, [102, 98]), large(600, 40, [64, 64])];
        check_all(&device, options(precision), layers, false);
    }
}

#[test]
fn volumes() {
    let Some(device) = device("volumes") else { return };
    for precision in PRECISIONS {
        check_all(&device, options(precision), patch_layers::volumes(), false);
    }
}

#[test]
fn tiles_have_a_scale_of_their_own() {
    let Some(device) = device("tiles_have_a_scale_of_their_own") else { return };
    for precision in PRECISIONS {
        check_all(&device, options(precision), patch_layers::tiles_of_samples(), true);
    }
}

/// In single precision a tile has one sample, however small.
#[test]
fn samples_have_tiles_of_their_own() {
    let Some(device) = device("samples_have_tiles_of_their_own") else { return };
    check_all(&device, options(Precision::F32), vec![patch_layers::pictures().swap_remove(0)], true);
}
