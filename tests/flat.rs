//! The flat kernels on the emulator, in every second way that the model takes into account; on a GPU in each
//! (`cuda_flat.rs`).
#![cfg(feature = "emulator")]

mod flat_layers;
mod long_factors;
mod scaled_samples;
mod ways;

use conv_transpose::{
    ConvTranspose, Error, Precision, Shape,
    cuda::{Algorithm, CudaError, EmulatedPlan, Options, Unsupported},
};
use ways::{check, check_all, check_ways, integers};

const PRECISIONS: [Precision; 2] = [Precision::F32, Precision::Tf32];

fn options(precision: Precision) -> Options {
    Options::default().algorithm(Algorithm::Flat).precision(precision)
}

#[test]
fn signals() {
    for (precision, largest) in PRECISIONS.into_iter().zip(["flat_160_f32", "flat_256"]) {
        let descriptions = check_all(options(precision), flat_layers::signals());
        for words in [largest, "channels divided", "2 joined along x"] {
            assert!(descriptions.contains(words), "{words}");
        }
    }
}

/// How positions and channels are divided is the same in both precisions, so that one is enough; of groups it is not.
#[test]
fn pictures() {
    check_all(options(Precision::F32), vec![flat_layers::pictures().swap_remove(2)]);
    let descriptions = check_all(options(Precision::Tf32), flat_layers::pictures());
    for words in [
        " rows and 1 joined",
        "1 rows and 2 joined",
        "1 rows and 4 joined",
        "1 rows and 8 joined",
        "2 joined along x",
        "channels divided",
    ] {
        assert!(descriptions.contains(words), "{words}");
    }
}

/// In single precision one of them, which is enough to have residues along either axis.
#[test]
fn volumes() {
    for (precision, count) in PRECISIONS.into_iter().zip([1, 3]) {
        let descriptions = check_all(options(precision), flat_layers::volumes().drain(..count).collect());
        assert!(descriptions.contains("along axis 0") && descriptions.contains("along axis 1"));
    }
}

/// In single precision factors are sums of two numbers. With such that have more bits than one of them, and few enough
/// in all for exact sums, the results are exact.
#[test]
fn both_parts_count() {
    for (layer, input) in flat_layers::with_many_taps() {
        let (mut x, mut w) = (integers(input, 1), integers(layer.weight_shape(), 2));
        long_factors::lengthen(&layer, &mut x, &mut w);
        check_ways(&layer, options(Precision::F32), &x, &w, true);
    }
}

#[test]
fn blocks_have_several_tiles() {
    for precision in PRECISIONS {
        let (layer, input) = flat_layers::many_samples();
        let (x, w) = (integers(input, 1), integers(layer.weight_shape(), 2));
        check(&EmulatedPlan::new(&layer, input, options(precision)).unwrap(), &x, &w, true);
    }
}

#[test]
fn threads_may_come_in_any_order() {
    let (layer, input) = flat_layers::pictures().swap_remove(1);
    let (x, w) = (integers(input, 1), integers(layer.weight_shape(), 2));
    for seed in 0..3 {
        for precision in PRECISIONS {
            check(&EmulatedPlan::new(&layer, input, options(precision)).unwrap().seed(seed), &x, &w, true);
        }
    }
}

/// `f16` holds no values of 2^40, and those of 2^-30 without their bits.
#[test]
fn each_sample_has_a_scale_of_its_own() {
    let (layer, input) = flat_layers::volumes().swap_remove(2);
    let (mut x, w) = (integers(input, 1), integers(layer.weight_shape(), 2));
    scaled_samples::scale_samples(&mut x);
    for precision in PRECISIONS {
        check(&EmulatedPlan::new(&layer, input, options(precision)).unwrap(), &x, &w, false);
    }
}

#[test]
fn of_no_samples_nothing_is_computed() {
    let layer = ConvTranspose::<2>::builder(16, 16, [3, 3]).build().unwrap();
    let input = Shape::batched(0, 16, [8, 8]);
    for precision in PRECISIONS {
        let plan = EmulatedPlan::new(&layer, input, options(precision)).unwrap();
        let output = plan.forward(&integers(input, 1), &integers(layer.weight_shape(), 2), None).unwrap();
        assert_eq!(output.shape(), Shape::batched(0, 16, [10, 10]));
    }
}

/// Whether there is no tile of a layer.
fn has_no_tile<const D: usize>(layer: &ConvTranspose<D>, input: Shape<D>, precision: Precision) -> bool {
    let refused = CudaError::Unsupported { algorithm: Algorithm::Flat, reason: Unsupported::NoTile };
    matches!(EmulatedPlan::new(layer, input, options(precision)), Err(Error::Cuda(error)) if error == refused)
}

/// A stage has the weights of a row of taps: in single precision twice as much for each.
#[test]
fn rows_of_many_taps_do_not_fit() {
    for (taps, fits) in [(9, [true; 2]), (20, [false, true]), (60, [false; 2])] {
        let layer = ConvTranspose::<1>::builder(16, 64, [taps]).build().unwrap();
        let input = Shape::batched(1, 16, [200]);
        assert_eq!(PRECISIONS.map(|precision| !has_no_tile(&layer, input, precision)), fits, "{taps}");
    }
}

/// No stage has room for what taps reach that are so far apart, and no number counts it: 134217215 is the dilation whose
/// stages were thought to have no bytes.
#[test]
fn taps_that_are_far_apart_do_not_fit() {
    for dilation in [1 << 16, 134_217_213, 134_217_214, 134_217_215, 1 << 29] {
        let layer =
            ConvTranspose::<1>::builder(1, 1, [2]).dilation([dilation]).padding([dilation / 2]).build().unwrap();
        for precision in PRECISIONS {
            assert!(has_no_tile(&layer, Shape::batched(1, 1, [40]), precision), "{dilation}");
        }
    }
}

/// Rows of taps that are far apart are two stretches of positions. Rows of slots would read all coordinates between
/// them, of which a list took all memory.
#[test]
fn rows_that_are_far_apart_are_not_listed() {
    for dilation in [1 << 10, 1 << 24, 1 << 27] {
        let layer = ConvTranspose::<2>::builder(3, 4, [2, 2]).dilation([dilation, 1]).padding([dilation / 2, 0]);
        let (layer, input) = (layer.build().unwrap(), Shape::batched(1, 3, [64, 2]));
        // Larger ones are planned only: most of what is packed are zeros, gigabytes of them.
        for precision in PRECISIONS {
            let ways = EmulatedPlan::ways(&layer, input, options(precision));
            assert!(ways.is_ok_and(|ways| !ways.is_empty()), "{dilation}");
            if dilation == 1 << 10 {
                check_all(options(precision), vec![(layer, input)]);
            }
        }
    }
}

#[test]
fn what_it_is_not_for_is_refused() {
    let refusal = |stride: usize, precision: Precision, architecture: &str| {
        let layer = ConvTranspose::<2>::builder(16, 16, [3, 3]).stride([1, stride]).build().unwrap();
        match EmulatedPlan::with_architecture(&layer, Shape::batched(1, 16, [8, 8]), options(precision), architecture) {
            Err(Error::Cuda(CudaError::Unsupported { algorithm: Algorithm::Flat, reason })) => Some(reason),
            other => other.err().map(|error| panic!("{error}")),
        }
    };
    let too_large = Unsupported::TooLarge { what: "a stride, or the taps of a single input", value: 2, limit: 1 };
    for precision in PRECISIONS {
        assert_eq!(refusal(1, precision, "sm_90a"), None);
        assert_eq!(refusal(2, precision, "sm_90a"), Some(too_large.clone()));
        assert_eq!(refusal(1, precision, "sm_80"), Some(Unsupported::Hopper));
    }
}
