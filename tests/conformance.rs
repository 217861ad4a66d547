//! The library against the test cases of ONNX and PyTorch, as they publish them: see `data/conformance/README.md`.
//!
//! Every engine computes every row that has an output; no such row is refused. The rows that PyTorch refuses are
//! refused here, each as [`error_inputs_of_pytorch_are_refused`] says.
//!
//! Faults known from other implementations are rows of no table: each is a named case in `named_cases.rs`, with its
//! numbers written out.
//!
//! | fault | case |
//! | --- | --- |
//! | a tap is taken without checking that the stride divides | `a_tap_needs_divisibility` |
//! | -1 / 2 is taken for input position 0 | `minus_one_half_is_not_zero` |
//! | output padding goes into the index | `output_padding_adds_at_the_end_only`, `output_padding_uncovers_what_padding_cut_off` |
//! | groups read a weight of all channels | `the_weight_holds_one_group_of_output_channels`, `a_group_reads_its_own_input_channels` |
//! | no tap is found under a stride beyond the kernel's reach | `a_stride_beyond_the_reach_of_the_kernel` |
//! | half of an odd negative total padding is rounded to zero | `negative_total_padding_of_output_shape` |
//! | offsets overflow beyond 2^31 | `past_2_to_the_31` |

#[macro_use]
mod engines;
mod geometries;
mod rounding;
mod tables;

use std::time::Instant;

use conv_transpose::{Argument, GeometryError};
use engines::{Engine, report::say};
use geometries::{Failure, Stop, Tally};
use tables::{
    Row, Table,
    onnx::{self, Case},
    opinfo::{self, Refusal},
};

const NODE_TESTS: [&str; 11] = [
    "test_convtranspose",
    "test_convtranspose_1d",
    "test_convtranspose_3d",
    "test_convtranspose_output_shape",
    "test_convtranspose_pad",
    "test_convtranspose_kernel_shape",
    "test_convtranspose_pads",
    "test_convtranspose_dilations",
    "test_convtranspose_autopad_same",
    "test_convtranspose_group_2",
    "test_convtranspose_group_2_image_3",
];

const CONVERTED_MODELS: [&str; 3] =
    ["test_ConvTranspose2d", "test_ConvTranspose2d_no_bias", "test_operator_convtranspose"];

/// How many samples PyTorch has in 1, 2 and 3 dimensions.
const SAMPLES: [usize; 3] = [10, 12, 10];

on_every_engine! {
    once:
    node_tests_of_onnx,
    converted_models_of_onnx,
    samples_of_pytorch,
}

fn node_tests_of_onnx(engine: &Engine) -> Result<Tally, Failure> {
    Ok(run(engine, &onnx::table(onnx::manifest().node)))
}

fn converted_models_of_onnx(engine: &Engine) -> Result<Tally, Failure> {
    Ok(run(engine, &onnx::table(onnx::manifest().converted)))
}

fn samples_of_pytorch(engine: &Engine) -> Result<Tally, Failure> {
    Ok(run(engine, &opinfo::table()))
}

/// Runs all rows of a table.
fn run(engine: &Engine, table: &Table) -> Tally {
    let mut tally = Tally::default();
    table.0.iter().for_each(|row| run_row(engine, row, &mut tally));
    table.1.iter().for_each(|row| run_row(engine, row, &mut tally));
    table.2.iter().for_each(|row| run_row(engine, row, &mut tally));
    tally
}

fn run_row<const D: usize>(engine: &Engine, row: &Row<D>, tally: &mut Tally) {
    let output = match engine.forward(&row.layer, &row.input, &row.weight, row.bias.as_deref()) {
        Ok(output) => output,
        Err(Stop::Failed(reason)) => panic!("{}: {reason}", row.name),
        Err(Stop::Unsupported(_)) => return tally.unsupported += 1,
    };
    let output: Vec<f64> = output.into_iter().map(f64::from).collect();
    row.check(&output, engine.roundoff).unwrap_or_else(|reason| panic!("{}: {reason}", row.name));
    tally.ran += 1;
}

/// The oracle in `f64`, where the tables themselves have only the round-off of `f64` or none; and the shape of every
/// output.
#[test]
fn the_oracle_computes_every_row() {
    let start = Instant::now();
    let onnx::Manifest { node, converted } = onnx::manifest();
    let tables = [onnx::table(node), onnx::table(converted), opinfo::table()];
    let rows: usize =
        tables.iter().map(|Table(in_1d, in_2d, in_3d)| oracle(in_1d) + oracle(in_2d) + oracle(in_3d)).sum();
    assert_eq!(rows, NODE_TESTS.len() + CONVERTED_MODELS.len() + SAMPLES.iter().sum::<usize>());
    say(&format!("oracle conformance tables: {rows} cases in {} ms", start.elapsed().as_millis()));
}

fn oracle<const D: usize>(rows: &[Row<D>]) -> usize {
    for row in rows {
        assert_eq!(row.problem().output_shape(), row.output, "{}", row.name);
        row.check(&row.oracle(), f64::EPSILON / 2.0).unwrap_or_else(|reason| panic!("{}: {reason}", row.name));
    }
    rows.len()
}

/// The comparison notices one wrong element in any row, also one that the table leaves out.
#[test]
fn a_wrong_element_is_noticed() {
    let onnx::Manifest { node, converted } = onnx::manifest();
    for Table(in_1d, in_2d, in_3d) in [onnx::table(node), onnx::table(converted), opinfo::table()] {
        in_1d.iter().for_each(notices);
        in_2d.iter().for_each(notices);
        in_3d.iter().for_each(notices);
    }
}

fn notices<const D: usize>(row: &Row<D>) {
    let right = row.oracle();
    for index in [0, right.len() / 2, right.len() - 1] {
        for wrong in [right[index] + 0.01, f64::NAN] {
            let mut output = right.clone();
            output[index] = wrong;
            let error = row.check(&output, f64::from(f32::EPSILON) / 2.0).expect_err(&row.name);
            assert!(error.starts_with(&format!("element {index}: ")), "{}: {error}", row.name);
        }
    }
    assert!(row.check(&right[1..], 0.0).is_err(), "{}", row.name);
}

fn names(cases: &[Case]) -> Vec<&str> {
    cases.iter().map(|case| &case.name[..]).collect()
}

#[test]
fn the_table_of_onnx_is_complete() {
    let onnx::Manifest { node, converted } = onnx::manifest();
    assert_eq!(names(&node), NODE_TESTS);
    assert_eq!(names(&converted), CONVERTED_MODELS);
    let mut all = [&NODE_TESTS[..], &CONVERTED_MODELS].concat();
    all.sort_unstable();
    assert_eq!(onnx::rows_with_tensors(), all);

    let Table(in_1d, in_2d, in_3d) = onnx::table(node);
    assert_eq!([in_1d.len(), in_2d.len(), in_3d.len()], [1, 9, 1]);
    assert!(in_1d.iter().all(Row::is_whole) && in_2d.iter().all(Row::is_whole) && in_3d.iter().all(Row::is_whole));
}

#[test]
fn the_table_of_pytorch_is_complete() {
    let names: Vec<String> = opinfo::manifest().samples.into_iter().map(|sample| sample.name).collect();
    let named = |(axes, &samples)| (0..samples).map(move |index| format!("conv_transpose{}d.{index}", axes + 1));
    let mut all: Vec<String> = SAMPLES.iter().enumerate().flat_map(named).collect();
    assert_eq!(names, all);
    all.sort_unstable();
    assert_eq!(opinfo::rows_with_tensors(), all);

    let Table(in_1d, in_2d, in_3d) = opinfo::table();
    assert_eq!([in_1d.len(), in_2d.len(), in_3d.len()], SAMPLES);
}

/// Some models give ONNX' `output_shape` with batch and channels in front; it asks for the same.
#[test]
fn output_shape_may_name_batch_and_channels() {
    let with_output_shape: Vec<Case> =
        onnx::manifest().node.into_iter().filter(|case| case.attributes.output_shape.is_some()).collect();
    assert_eq!(names(&with_output_shape), ["test_convtranspose_output_shape", "test_convtranspose_kernel_shape"]);
    let mut with_all_dimensions = with_output_shape.clone();
    for case in &mut with_all_dimensions {
        case.attributes.output_shape = Some(vec![1, 2, 10, 8]);
    }
    let layers = |cases| onnx::table(cases).1.into_iter().map(|row| row.layer).collect::<Vec<_>>();
    assert_eq!(layers(with_all_dimensions), layers(with_output_shape));
}

/// PyTorch has error inputs for plain convolution only; these are the ones that transposed convolution refuses for
/// their geometry.
#[test]
fn error_inputs_of_pytorch_are_refused() {
    let groups = || Refusal::Geometry(GeometryError::Groups { argument: Argument::InChannels, channels: 2, groups: 3 });
    let no_groups = || Refusal::Geometry(GeometryError::ZeroCount { argument: Argument::Groups });
    let channels = |value, expected| Refusal::Geometry(GeometryError::Channels { value, expected });
    let rank =
        |spatial_axes, rank| Refusal::Geometry(GeometryError::Rank { argument: Argument::Input, spatial_axes, rank });
    let expected = [
        ("conv_transpose1d: stride=(-1,)", Refusal::Negative("stride")),
        ("conv_transpose1d: padding=(-1,)", Refusal::Negative("padding")),
        ("conv_transpose1d: dilation=(-1,)", Refusal::Negative("dilation")),
        ("conv_transpose1d: weight=[1, 2]", Refusal::SpatialAxes(0)),
        ("conv_transpose1d: groups=3", groups()),
        ("conv_transpose1d: groups=-1", Refusal::Negative("groups")),
        ("conv_transpose1d: groups=0", no_groups()),
        ("conv_transpose2d: weight=[3, 2, 3, 3]", channels(2, 3)),
        ("conv_transpose2d: stride=(-1,)", Refusal::Negative("stride")),
        ("conv_transpose2d: padding=(-1,)", Refusal::Negative("padding")),
        ("conv_transpose2d: dilation=(-1,)", Refusal::Negative("dilation")),
        ("conv_transpose2d: weight=[1, 2, 2]", rank(1, 4)),
        ("conv_transpose2d: groups=3", groups()),
        ("conv_transpose2d: groups=-1", Refusal::Negative("groups")),
        ("conv_transpose2d: groups=0", no_groups()),
        ("conv_transpose3d: stride=(-1,)", Refusal::Negative("stride")),
        ("conv_transpose3d: padding=(-1,)", Refusal::Negative("padding")),
        ("conv_transpose3d: dilation=(-1,)", Refusal::Negative("dilation")),
        ("conv_transpose3d: weight=[1, 1, 4, 3]", rank(2, 5)),
        ("conv_transpose3d: groups=3", groups()),
        ("conv_transpose3d: groups=0", no_groups()),
        ("conv_transpose3d: stride=2, groups=3", channels(27, 9)),
    ];
    let refused = opinfo::manifest().refusals;
    let actual: Vec<_> = refused.iter().map(|case| (&case.name[..], case.refusal())).collect();
    assert_eq!(actual, expected);
}
