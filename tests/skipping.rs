//! An engine that cannot run on this machine says so, and one that should run here but cannot fails.

#[macro_use]
mod engines;
mod geometries;

use conv_transpose::{ConvTranspose, Tensor};
use engines::{Computes, Cpu, Engine, attempt};
use geometries::{Failure, Stop, Tally};

/// An engine that never starts.
struct Missing<const NEEDS_GPU: bool>;

impl<const NEEDS_GPU: bool> Computes for Missing<NEEDS_GPU> {
    const NAME: &'static str = "missing";
    const NEEDS_GPU: bool = NEEDS_GPU;

    fn start() -> Result<Self, String> {
        Err("no driver".into())
    }

    fn forward<const D: usize>(
        &self,
        _: &ConvTranspose<D>,
        _: &Tensor<f32, D>,
        _: &Tensor<f32, D>,
        _: Option<&[f32]>,
    ) -> Result<Vec<f32>, Stop> {
        unreachable!("it never starts")
    }
}

fn never(_: &Engine) -> Result<Tally, Failure> {
    unreachable!("a missing engine runs nothing")
}

#[test]
fn a_gpu_engine_is_skipped_without_a_gpu() {
    let report = attempt::<Missing<true>>("property", false, never);
    assert_eq!(report.unwrap(), "missing property: skipped: no driver");
}

#[test]
fn a_gpu_engine_may_not_be_skipped_with_a_gpu() {
    let report = attempt::<Missing<true>>("property", true, never);
    assert_eq!(report.unwrap_err(), "this machine should run it, but: no driver");
}

#[test]
fn an_engine_without_a_gpu_may_never_be_skipped() {
    assert!(attempt::<Missing<false>>("property", false, never).is_err());
    assert!(attempt::<Missing<false>>("property", true, never).is_err());
}

#[test]
fn a_test_that_ran_on_nothing_fails() {
    let nothing = |_: &Engine| Ok(Tally { ran: 0, unsupported: 3 });
    assert_eq!(attempt::<Cpu>("property", false, nothing).unwrap_err(), "no case ran; 3 are not supported");
}

#[test]
fn a_report_counts_the_cases() {
    let some = |_: &Engine| Ok(Tally { ran: 2, unsupported: 3 });
    let report = attempt::<Cpu>("property", false, some).unwrap();
    assert!(report.starts_with("cpu property: 2 cases in ") && report.ends_with(", 3 more not supported"), "{report}");
}

on_every_engine! {
    once:
    the_output_is_poisoned,
}

/// What an engine is handed to write to holds no number yet.
fn the_output_is_poisoned(_: &Engine) -> Result<Tally, Failure> {
    let output = engines::poisoned(conv_transpose::Shape::batched(1, 2, [3]));
    assert!(output.as_slice().len() == 6 && output.as_slice().iter().all(|y| y.is_nan()));
    Ok(Tally { ran: 1, unsupported: 0 })
}
