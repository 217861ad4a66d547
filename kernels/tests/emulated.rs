//! The kernels as they are written, under the emulator.

mod case;
mod packed_input;
mod packed_weight;
mod weighed;

use std::fs;

use case::{Axis, Case, Device};
use conv_transpose_kernels::{KERNELS, flat, patch, tile};
use cuda_std::emulator::{Access, FaultKind};
use cuda_std::entry;

/// Stride 2, kernel 3, padding 1 and output padding 1: the layer that doubles an extent.
const DOUBLE: Axis = Axis { input: 2, kernel: 3, stride: 2, dilation: 1, pad_begin: 1, output: 4 };

/// One channel, doubled in two dimensions.
fn doubling() -> Case {
    let mut case = Case::new([Axis::ONE, DOUBLE, DOUBLE], 1, 1, 1, 1);
    case.input = vec![1.0, 2.0, 3.0, 4.0];
    case.weight = vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0];
    case.bias = vec![100.0];
    case
}

/// Geometries of all sorts.
fn cases() -> Vec<Case> {
    let apart = Axis { input: 3, kernel: 2, stride: 3, dilation: 2, pad_begin: 0, output: 10 };
    let common = Axis { input: 4, kernel: 3, stride: 2, dilation: 2, pad_begin: 1, output: 9 };
    let cropped = Axis { input: 3, kernel: 5, stride: 1, dilation: 1, pad_begin: 2, output: 3 };
    vec![
        Case::new([Axis::ONE, Axis::ONE, apart], 2, 1, 3, 2),
        Case::new([Axis::ONE, common, DOUBLE], 1, 2, 2, 3),
        Case::new([cropped, DOUBLE, common], 2, 1, 1, 2),
        Case::new([DOUBLE, cropped, cropped], 1, 3, 1, 1),
    ]
}

#[test]
fn gather_computes_by_hand() {
    let case = doubling();
    let mut device = Device::new(&case);
    device.gather("gather", |launch| launch).unwrap();
    // Row 0, for example: 1*5; 1*6 + 2*4; 2*5; 2*6.
    let products = [
        [5.0, 14.0, 10.0, 12.0],
        [14.0, 1.0 * 9.0 + 2.0 * 7.0 + 3.0 * 3.0 + 4.0 * 1.0, 24.0, 2.0 * 9.0 + 4.0 * 3.0],
        [15.0, 34.0, 20.0, 24.0],
        [24.0, 55.0, 32.0, 36.0],
    ];
    let expected: Vec<f32> = products.as_flattened().iter().map(|product| product + 100.0).collect();
    assert_eq!(device.output().unwrap(), expected);
    assert_eq!(case.expected(), expected);
}

#[test]
fn gather_agrees_with_the_definition() {
    for (case, name) in cases().iter().flat_map(|case| ["gather", "gather_wide"].map(|name| (case, name))) {
        let mut device = Device::new(case);
        device.gather(name, |launch| launch).unwrap();
        assert_eq!(device.output().unwrap(), case.expected(), "{name}, {case:?}");
    }
}

#[test]
fn scatter_agrees_with_the_definition_in_any_order() {
    for (case, suffix) in cases().iter().flat_map(|case| ["", "_wide"].map(|suffix| (case, suffix))) {
        let mut device = Device::new(case);
        device.scatter(suffix, |launch| launch).unwrap();
        assert_eq!(device.output().unwrap(), case.expected(), "scatter{suffix}, {case:?}");
        device.scatter(suffix, |launch| launch.seed(1)).unwrap();
        assert_eq!(device.output().unwrap(), case.expected(), "scatter{suffix}, {case:?}");
    }
}

#[test]
fn a_weight_that_is_too_short_is_caught() {
    let mut case = doubling();
    case.weight.pop();
    let fault = Device::new(&case).gather("gather", |launch| launch).unwrap_err();
    assert_eq!(fault.kernel, "gather");
    // The last weight first matters to the output at row 1, column 1, which is the row's third: even columns come
    // first.
    let thread = fault.thread.unwrap();
    assert_eq!((thread.block.x, thread.thread.x), (0, 6));
    let FaultKind::OutOfBounds { access: Access::ReadOnlyLoad, bytes: 4, near: Some((place, 32)), .. } = &fault.kind
    else {
        panic!("{fault}");
    };
    assert_eq!((place.buffer.as_str(), place.offset), ("weight", 32));
    assert!(fault.location.unwrap().file().ends_with("few_products.rs"));
}

#[test]
fn a_thread_too_many_is_caught() {
    let mut device = Device::new(&doubling());
    device.problem.gather_threads += 1;
    let fault = device.gather("gather", |launch| launch).unwrap_err();
    assert_eq!(fault.thread.unwrap().thread.x, 16);
    assert!(matches!(fault.kind, FaultKind::OutOfBounds { near: Some((place, _)), .. } if place.buffer == "input"));
}

/// The tile, the flat and the patch kernels are made by macros, from the lists of their variants.
#[test]
fn the_table_holds_every_kernel() {
    let folders = ["/src", "/src/tile", "/src/flat", "/src/patch"]
        .map(|folder| format!("{}{folder}", env!("CARGO_MANIFEST_DIR")));
    let paths = folders.into_iter().flat_map(|folder| fs::read_dir(folder).unwrap()).map(|entry| entry.unwrap().path());
    let texts = paths.filter(|path| path.is_file()).map(|path| fs::read_to_string(path).unwrap());
    let kernels: usize = texts.map(|text| text.lines().filter(|line| line.starts_with("#[kernel")).count()).sum();
    let tiles = tile::VARIANTS.iter().map(|variant| variant.kernel);
    let (flats, patches) = (flat::VARIANTS.iter(), patch::VARIANTS.iter());
    let others = flats.map(|variant| variant.kernel).chain(patches.map(|variant| variant.kernel));
    let made: Vec<&str> = tiles.chain(others).collect();
    assert_eq!(KERNELS.len(), kernels + made.len());
    assert!(made.iter().all(|kernel| entry::find(KERNELS, kernel).is_some()));
}
