//! Axes in the form that is the least to compute. Tensors stay as they are.
//!
//! A kernel of one element has no dilation. An input of one position is read once, at whatever stride: with one that no
//! tap reaches across, each output position is a phase of its own, which has the taps that reach it, and none that lies
//! beyond the input. Axes of extent 1 go outermost, and neighbours along which nothing happens are one axis: rows in
//! memory are then as long as they can be.

use super::axis::Axis;

/// The most output positions of an axis, and so on, that are a phase each: more are not worth it.
const MOST_PHASES: usize = 64;

/// The largest extent of axes that are made one: counts in kernels have 31 bits.
const MOST_MERGED: usize = (1 << 31) - 1;

/// The same axes, outermost first, in the form that is the least to compute.
pub(super) fn simplified(axes: [Axis; 3]) -> [Axis; 3] {
    let mut kept: Vec<Axis> = Vec::new();
    for axis in axes.map(without_idle_dilation).map(without_taps_beyond_the_input) {
        let merged = kept.last().and_then(|outer| merged(outer, &axis));
        if merged.is_some() {
            kept.pop();
        }
        kept.push(merged.unwrap_or(axis));
    }
    let mut simplified = [Axis::UNIT; 3];
    simplified[3 - kept.len()..].copy_from_slice(&kept);
    simplified
}

/// The axis without a dilation, if its kernel has no two elements that it could keep apart.
fn without_idle_dilation(axis: Axis) -> Axis {
    if axis.kernel == 1 { Axis { dilation: 1, ..axis } } else { axis }
}

/// The axis with a stride that no tap reaches across, if its input has one position.
fn without_taps_beyond_the_input(axis: Axis) -> Axis {
    let cut_off = axis.pad_begin.unsigned_abs();
    let is_short = [axis.output, axis.kernel, axis.dilation, cut_off].iter().all(|&count| count <= MOST_PHASES);
    if axis.input > 1 || axis.kernel == 1 || !is_short {
        return axis;
    }
    Axis { stride: axis.kernel * axis.dilation + axis.output + cut_off, ..axis }
}

/// Two neighbouring axes as one, if nothing happens along either, or one of them has extent 1 and stays so.
fn merged(outer: &Axis, inner: &Axis) -> Option<Axis> {
    match [outer, inner].map(is_pointwise) {
        [true, _] if outer.input == 1 => Some(*inner),
        [_, true] if inner.input == 1 => Some(*outer),
        [true, true] => {
            let extent = outer.input.checked_mul(inner.input).filter(|&extent| extent <= MOST_MERGED)?;
            Some(Axis { input: extent, output: extent, ..Axis::UNIT })
        }
        _ => None,
    }
}

/// Whether each output position is the input position of the same number, times a weight. The first one is, at whatever
/// stride.
fn is_pointwise(axis: &Axis) -> bool {
    let reads_in_step = axis.stride == 1 || axis.input == 1;
    reads_in_step && axis.kernel == 1 && axis.pad_begin == 0 && axis.input == axis.output
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Every `(output position, kernel index)` pair that the one input position reaches.
    fn reached(axis: &Axis) -> Vec<(usize, usize)> {
        let lands = |tap: usize| (tap * axis.dilation) as isize - axis.pad_begin;
        let exists = |&(position, _): &(isize, usize)| (0..axis.output as isize).contains(&position);
        (0..axis.kernel).map(|tap| (lands(tap), tap)).filter(exists).map(|(o, tap)| (o as usize, tap)).collect()
    }

    proptest! {
        #[test]
        fn an_input_of_one_position_has_one_tap_at_most_for_each_output(
            output in 1usize..40, kernel in 2usize..8, stride in 1usize..8, dilation in 1usize..8, pad_begin in -9isize..20,
        ) {
            let axis = Axis { input: 1, output, kernel, stride, dilation, pad_begin };
            let phases = without_taps_beyond_the_input(axis).phases();
            prop_assert_eq!(phases.len(), output);
            prop_assert!(phases.iter().all(|phase| phase.taps <= 1 && phase.positions == 1 && phase.first_input == 0));
            let taps = phases.iter().enumerate().filter(|(_, phase)| phase.taps == 1);
            let mut taps: Vec<_> = taps.map(|(position, phase)| (position, phase.first_tap)).collect();
            taps.sort_by_key(|&(_, tap)| tap);
            prop_assert_eq!(taps, reached(&axis));
        }
    }

    const OTHER: Axis = Axis { input: 2, output: 5, kernel: 4, stride: 1, dilation: 1, pad_begin: 0 };

    const fn pointwise(extent: usize) -> Axis {
        Axis { input: extent, output: extent, ..Axis::UNIT }
    }

    #[test]
    fn longer_inputs_are_as_simple_as_they_can_be() {
        assert_eq!(simplified([OTHER; 3]), [OTHER; 3]);
    }

    #[test]
    fn axes_of_extent_one_go_outermost() {
        let still_one = Axis { stride: 2, dilation: 3, ..Axis::UNIT };
        assert_eq!(simplified([OTHER, still_one, OTHER]), [Axis::UNIT, OTHER, OTHER]);
        assert_eq!(simplified([OTHER, still_one, Axis::UNIT]), [Axis::UNIT, Axis::UNIT, OTHER]);
        assert_eq!(simplified([Axis::UNIT; 3]), [Axis::UNIT; 3]);
    }

    #[test]
    fn a_single_kernel_element_has_no_dilation() {
        let single = Axis { kernel: 1, output: 2, ..OTHER };
        assert_eq!(simplified([OTHER, OTHER, Axis { dilation: 1 << 30, ..single }])[2], single);
        let dilated = Axis { dilation: 3, ..OTHER };
        assert_eq!(simplified([OTHER, OTHER, dilated])[2], dilated);
    }

    #[test]
    fn neighbours_along_which_nothing_happens_are_one() {
        assert_eq!(simplified([pointwise(3), pointwise(5), OTHER]), [Axis::UNIT, pointwise(15), OTHER]);
        assert_eq!(simplified([2, 3, 5].map(pointwise)), [Axis::UNIT, Axis::UNIT, pointwise(30)]);
        assert_eq!(simplified([pointwise(3), OTHER, pointwise(5)]), [pointwise(3), OTHER, pointwise(5)]);
        assert_eq!(merged(&pointwise(1 << 16), &pointwise(1 << 15)), None);
        let strided = Axis { stride: 2, output: 5, ..pointwise(3) };
        let padded = Axis { pad_begin: 1, output: 3, ..pointwise(5) };
        for moved in [strided, padded] {
            assert_eq!(merged(&moved, &pointwise(2)), None, "{moved:?}");
        }
    }
}
