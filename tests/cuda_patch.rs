//! The patch kernels on a GPU, with each layout that there is.
#![cfg(feature = "cuda")]

mod gpu;
mod gpu_ways;
mod long_factors;
mod patch_layers;
mod scaled_samples;

use conv_transpose::{
    ConvTranspose, Precision, Shape,
    cuda::{Algorithm, Options},
};
use gpu::device_of_capability_9 as device;
use gpu_ways::{Factors, check_all};

const PRECISIONS: [Precision; 2] = [Precision::F32, Precision::Tf32];

fn options(precision: Precision) -> Options {
    Options::default().algorithm(Algorithm::Patch).precision(precision)
}

#[test]
fn signals() {
    let Some(device) = device("signals") else { return };
    for precision in PRECISIONS {
        check_all(&device, options(precision), patch_layers::signals(), Factors::Small);
    }
}

#[test]
fn pictures() {
    let Some(device) = device("pictures") else { return };
    for precision in PRECISIONS {
        check_all(&device, options(precision), patch_layers::pictures(), Factors::Small);
        check_all(&device, options(precision), patch_layers::pictures_with_gaps(), Factors::Small);
        check_all(&device, options(precision), patch_layers::few_and_many_channels(), Factors::Small);
    }
}

/// In single precision factors are sums of two numbers. With such that have more bits than one of them, and few enough
/// in all for exact sums, the results are exact.
#[test]
fn both_parts_count() {
    let Some(device) = device("both_parts_count") else { return };
    check_all(&device, options(Precision::F32), patch_layers::few_and_many_channels(), Factors::Long);
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
        check_all(&device, options(precision), layers, Factors::Small);
    }
}

#[test]
fn volumes() {
    let Some(device) = device("volumes") else { return };
    for precision in PRECISIONS {
        check_all(&device, options(precision), patch_layers::volumes(), Factors::Small);
    }
}

#[test]
fn tiles_have_a_scale_of_their_own() {
    let Some(device) = device("tiles_have_a_scale_of_their_own") else { return };
    for precision in PRECISIONS {
        check_all(&device, options(precision), patch_layers::tiles_of_samples(), Factors::Scaled);
    }
}

/// In single precision a tile has one sample, however small.
#[test]
fn samples_have_tiles_of_their_own() {
    let Some(device) = device("samples_have_tiles_of_their_own") else { return };
    check_all(&device, options(Precision::F32), vec![patch_layers::pictures().swap_remove(0)], Factors::Scaled);
}
