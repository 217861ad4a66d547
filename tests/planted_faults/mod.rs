//! The properties themselves under test: engines with known faults, each of which a property must catch and shrink to a
//! small case.

use std::sync::atomic::{AtomicBool, Ordering};

use conv_transpose::{Axis, ConvTranspose, Error, Tensor};

use crate::{
    engines::{Computes, Engine},
    geometries::{Draw, Failure, Stop, Tally},
};

/// What an engine does wrong. The first ones were found in published implementations.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    /// `(o + p - k * d) / s` is taken for an input position whether or not it divides.
    NoDivisibilityCheck,
    /// A negative quotient is rounded to zero: `-1 / 2 == 0`.
    NegativeQuotientIsZero,
    /// Positions that output padding added at the end shift all others.
    OutputPaddingShifts,
    /// The weight is read as if it had all output channels, not those of one group.
    DenseWeightOfGroups,
    /// No tap is found where `dilation * (kernel - 1) + 1 < stride`.
    WideStrideHasNoTaps,
    /// Half of an odd negative total padding is rounded towards zero.
    NegativePaddingRoundsToZero,
    KernelIsFlipped,
    DilationIsIgnored,
    BiasNeedsATap,
    BatchReadsTheFirstSample,
    KernelAxesAreSwapped,
    LastElementIsForgotten,
    InputIsRoundedToTf32,
    OrderOfAdditionsVaries,
}

use Fault::*;

struct Planted {
    fault: Fault,
    backwards: AtomicBool,
}

impl Planted {
    /// The taps of an output position, as the definition has them but for the fault.
    fn taps(&self, axis: &Axis, o: usize) -> Vec<(usize, usize)> {
        let fault = |fault| self.fault == fault;
        let (stride, kernel, mut p) = (axis.stride as isize, axis.kernel, axis.pad_begin);
        let dilation = if fault(DilationIsIgnored) { 1 } else { axis.dilation as isize };
        let reach = dilation * (kernel as isize - 1) + 1;
        let full = (axis.input as isize - 1) * stride + reach;
        if fault(OutputPaddingShifts) {
            p -= (axis.output as isize + p - full).max(0);
        }
        if fault(NegativePaddingRoundsToZero) && p < 0 && p % 2 != 0 {
            p += 1;
        }
        if fault(WideStrideHasNoTaps) && reach < stride {
            return Vec::new();
        }
        (0..kernel)
            .filter_map(|k| {
                let scaled = o as isize + p - k as isize * dilation;
                let divides = scaled % stride == 0
                    || fault(NoDivisibilityCheck) && scaled > 0
                    || fault(NegativeQuotientIsZero) && scaled < 0;
                let input = usize::try_from(scaled / stride).ok()?;
                let k = if fault(KernelIsFlipped) { kernel - 1 - k } else { k };
                (divides && input < axis.input).then_some((k, input))
            })
            .collect()
    }
}

impl Computes for Planted {
    const NAME: &'static str = "engine with a planted fault";

    /// Always the same, so that what is caught today is caught tomorrow.
    fn draw(_: u32) -> Draw {
        Draw { cases: 512, seed: 1 }
    }

    fn start() -> Result<Self, String> {
        Err("it is made by the tests of the properties".into())
    }

    fn forward<const D: usize>(
        &self,
        layer: &ConvTranspose<D>,
        input: &Tensor<f32, D>,
        weight: &Tensor<f32, D>,
        bias: Option<&[f32]>,
    ) -> Result<Vec<f32>, Stop> {
        let problem = layer.problem(input.shape()).map_err(Error::from)?.to_3d();
        let [az, ay, ax] = *problem.axes();
        let fault = |fault| self.fault == fault;
        let (in_group, out_group) = (problem.in_channels_per_group(), problem.out_channels_per_group());
        let backwards = fault(OrderOfAdditionsVaries) && self.backwards.fetch_not(Ordering::Relaxed);
        let read_input = |index: usize| {
            let x = input.as_slice()[index];
            if fault(InputIsRoundedToTf32) { f32::from_bits((x.to_bits() + 0x1000) & !0x1fff) } else { x }
        };

        let mut output = Vec::new();
        for n in 0..problem.batch() {
            for co in 0..problem.out_channels() {
                for o in crate::positions([az.output, ay.output, ax.output]) {
                    let mut products = Vec::new();
                    let n = if fault(BatchReadsTheFirstSample) { 0 } else { n };
                    for ci in co / out_group * in_group..(co / out_group + 1) * in_group {
                        for (kz, iz) in self.taps(&az, o[0]) {
                            for (ky, iy) in self.taps(&ay, o[1]) {
                                for (kx, ix) in self.taps(&ax, o[2]) {
                                    let x = (n * problem.in_channels() + ci) * az.input + iz;
                                    let x = (x * ay.input + iy) * ax.input + ix;
                                    let w = if fault(DenseWeightOfGroups) {
                                        ci * problem.out_channels() + co
                                    } else {
                                        ci * out_group + co % out_group
                                    };
                                    let w = if fault(KernelAxesAreSwapped) {
                                        ((w * az.kernel + kz) * ax.kernel + kx) * ay.kernel + ky
                                    } else {
                                        ((w * az.kernel + kz) * ay.kernel + ky) * ax.kernel + kx
                                    };
                                    products.push(read_input(x) * weight.as_slice()[w % weight.as_slice().len()]);
                                }
                            }
                        }
                    }
                    if backwards {
                        products.reverse();
                    }
                    let no_bias = bias.is_none() || fault(BiasNeedsATap) && products.is_empty();
                    let sum: f32 = products.iter().sum();
                    output.push(if no_bias { sum } else { sum + bias.unwrap()[co] });
                }
            }
        }
        if fault(LastElementIsForgotten)
            && let Some(last) = output.last_mut()
        {
            *last = f32::NAN;
        }
        Ok(output)
    }
}

/// A case that is easy to look through; geometries are drawn with up to 20,000 output elements.
const SMALL: usize = 400;

/// Asserts that a property catches a fault and names a small case.
fn caught(fault: Fault, property: fn(&Engine) -> Result<Tally, Failure>) {
    match property(&Engine::new(Planted { fault, backwards: AtomicBool::new(false) })) {
        Ok(tally) => panic!("{fault:?} goes unnoticed in {tally:?}"),
        Err(failure) => {
            println!("{fault:?}: {failure}");
            assert!(failure.outputs <= SMALL, "{} outputs are not a small case:\n{failure}", failure.outputs);
        }
    }
}

/// One test for each fault: the properties that must catch it in 1, 2 and 3 dimensions.
macro_rules! each_fault_is_caught {
    ($($test:ident: $fault:ident by $($property:ident),+;)+) => {$(
        #[test]
        fn $test() {
            $(
                caught($fault, crate::$property::<1>);
                caught($fault, crate::$property::<2>);
                caught($fault, crate::$property::<3>);
            )+
        }
    )+};
}

each_fault_is_caught! {
    no_divisibility_check: NoDivisibilityCheck
        by integers_equal_the_oracle, it_is_the_adjoint_of_convolution, an_impulse_shows_the_weight,
           reals_stay_within_the_rounding_bound;
    negative_quotient_is_zero: NegativeQuotientIsZero
        by integers_equal_the_oracle, it_is_the_adjoint_of_convolution, an_impulse_shows_the_weight,
           padding_crops_and_output_padding_extends;
    output_padding_shifts: OutputPaddingShifts
        by integers_equal_the_oracle, it_is_the_adjoint_of_convolution, an_impulse_shows_the_weight,
           padding_crops_and_output_padding_extends;
    dense_weight_of_groups: DenseWeightOfGroups
        by integers_equal_the_oracle, groups_are_slices, an_impulse_shows_the_weight;
    wide_stride_has_no_taps: WideStrideHasNoTaps
        by integers_equal_the_oracle, it_is_the_adjoint_of_convolution, an_impulse_shows_the_weight;
    negative_padding_rounds_to_zero: NegativePaddingRoundsToZero
        by integers_equal_the_oracle, it_is_the_adjoint_of_convolution, an_impulse_shows_the_weight,
           padding_crops_and_output_padding_extends;
    kernel_is_flipped: KernelIsFlipped
        by integers_equal_the_oracle, it_is_the_adjoint_of_convolution, an_impulse_shows_the_weight;
    dilation_is_ignored: DilationIsIgnored
        by integers_equal_the_oracle, it_is_the_adjoint_of_convolution, an_impulse_shows_the_weight;
    bias_needs_a_tap: BiasNeedsATap
        by integers_equal_the_oracle, a_zero_weight_leaves_the_bias, an_impulse_shows_the_weight,
           reals_stay_within_the_rounding_bound;
    batch_reads_the_first_sample: BatchReadsTheFirstSample
        by integers_equal_the_oracle, samples_are_slices, it_is_the_adjoint_of_convolution, an_impulse_shows_the_weight;
    last_element_is_forgotten: LastElementIsForgotten
        by integers_equal_the_oracle, reals_stay_within_the_rounding_bound, it_is_the_adjoint_of_convolution,
           a_zero_weight_leaves_the_bias, no_bias_is_a_zero_bias, it_is_linear_in_input_and_weight, groups_are_slices,
           samples_are_slices, output_size_is_output_padding, onnx_padding_is_explicit_padding;
    input_is_rounded_to_tf32: InputIsRoundedToTf32
        by reals_stay_within_the_rounding_bound;
    order_of_additions_varies: OrderOfAdditionsVaries
        by the_same_call_gives_the_same_bits;
}

/// There is nothing to swap in one dimension.
#[test]
fn kernel_axes_are_swapped() {
    caught(KernelAxesAreSwapped, crate::integers_equal_the_oracle::<2>);
    caught(KernelAxesAreSwapped, crate::integers_equal_the_oracle::<3>);
    caught(KernelAxesAreSwapped, crate::an_impulse_shows_the_weight::<2>);
    caught(KernelAxesAreSwapped, crate::it_is_the_adjoint_of_convolution::<3>);
}
