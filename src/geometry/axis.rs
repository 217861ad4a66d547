//! One spatial axis: its extents, and which taps reach which output position.
//!
//! Output position `o` receives tap `k` from input position `i` when `o + pad_begin = i * stride + k * dilation`. With
//! `g = gcd(stride, dilation)` the taps of one position, if it has any, are an arithmetic progression: `k` grows by
//! `stride / g` while `i` falls by `dilation / g`. Where it starts depends on `o mod stride` alone, so an axis splits
//! into `stride` *phases*, each a dense convolution of its own. A phase without taps receives the bias only: there are
//! such phases when `stride > kernel` or `g > 1`.

/// The resolved parameters of one spatial axis. Extents count elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Axis {
    /// Input extent, at least 1.
    pub input: usize,
    /// Output extent, at least 1.
    pub output: usize,
    /// Kernel extent, at least 1.
    pub kernel: usize,
    /// Stride, at least 1.
    pub stride: usize,
    /// Dilation, at least 1.
    pub dilation: usize,
    /// How many positions are cut off before the first output position. Negative where an ONNX `output_shape` asks for
    /// more positions than the input reaches: the first ones then hold the bias only.
    pub pad_begin: isize,
}

/// The taps of the output positions `r, r + stride, r + 2 * stride, ...` of an axis, where `r` is the index of the
/// phase.
///
/// For the `q`-th of these positions, tap number `t < taps` is kernel index `first_tap + t * axis.tap_step()`, applied
/// to the input position `first_input + q - t * axis.input_step()`, if that lies within the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Phase {
    /// Number of output positions in this phase.
    pub positions: usize,
    /// Number of kernel indices that can reach them; 0 if they hold the bias only.
    pub taps: usize,
    /// The smallest of these kernel indices; 0 if there is none.
    pub first_tap: usize,
    /// The input position that `first_tap` reads for output position `r`; it may lie outside of the input. 0 if there
    /// is no tap.
    pub first_input: isize,
}

impl Axis {
    /// An axis of extent 1 that leaves the others as they are; see [`Problem::to_3d`](super::Problem::to_3d).
    pub(crate) const UNIT: Self = Self { input: 1, output: 1, kernel: 1, stride: 1, dilation: 1, pad_begin: 0 };

    /// Distance between the kernel indices of one phase: `stride / gcd(stride, dilation)`.
    pub fn tap_step(&self) -> usize {
        self.stride / gcd(self.stride, self.dilation)
    }

    /// The most taps of an output position: those of the longest phase.
    pub fn most_taps(&self) -> usize {
        self.kernel.div_ceil(self.tap_step())
    }

    /// Distance between the input positions that successive taps of one phase read: `dilation / gcd(stride, dilation)`.
    pub fn input_step(&self) -> usize {
        self.dilation / gcd(self.stride, self.dilation)
    }

    /// The phases of this axis, `min(stride, output)` of them: a phase beyond the output has no positions.
    ///
    /// # Panics
    /// If there is no memory for so many. Plans ask for them only where they are few.
    pub fn phases(&self) -> Vec<Phase> {
        let mut phases: Vec<Phase> = (0..self.stride.min(self.output))
            .map(|r| Phase {
                positions: (self.output - r).div_ceil(self.stride),
                taps: 0,
                first_tap: 0,
                first_input: 0,
            })
            .collect();
        let (stride, tap_step) = (self.stride as i128, self.tap_step());
        for first_tap in 0..tap_step.min(self.kernel) {
            // Relative to output position 0; the phase is where this tap lands modulo the stride.
            let landing = first_tap as i128 * self.dilation as i128 - self.pad_begin as i128;
            let r = landing.rem_euclid(stride);
            if let Some(phase) = phases.get_mut(r as usize) {
                phase.taps = (self.kernel - first_tap).div_ceil(tap_step);
                phase.first_tap = first_tap;
                phase.first_input = ((r - landing) / stride) as isize;
            }
        }
        phases
    }
}

/// The greatest common divisor of two positive numbers.
pub(crate) fn gcd(mut a: usize, mut b: usize) -> usize {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Every `(kernel index, input position)` that reaches output position `o`, by trying all of them.
    fn taps_by_search(axis: &Axis, o: usize) -> Vec<(usize, isize)> {
        let reaches =
            |k: usize, i: isize| o as isize + axis.pad_begin == i * axis.stride as isize + (k * axis.dilation) as isize;
        let inputs = 0..axis.input as isize;
        (0..axis.kernel).flat_map(|k| inputs.clone().filter(move |&i| reaches(k, i)).map(move |i| (k, i))).collect()
    }

    fn taps_by_phase(axis: &Axis, o: usize) -> Vec<(usize, isize)> {
        let phase = axis.phases()[o % axis.stride];
        let q = (o / axis.stride) as isize;
        (0..phase.taps)
            .map(|t| {
                let input = phase.first_input + q - (t * axis.input_step()) as isize;
                (phase.first_tap + t * axis.tap_step(), input)
            })
            .filter(|&(_, i)| (0..axis.input as isize).contains(&i))
            .collect()
    }

    proptest! {
        #[test]
        fn phases_hold_exactly_the_taps_of_every_position(
            input in 1usize..9, output in 1usize..40, kernel in 1usize..8, stride in 1usize..8, dilation in 1usize..8,
            pad_begin in -9isize..20,
        ) {
            let axis = Axis { input, output, kernel, stride, dilation, pad_begin };
            for o in 0..output {
                prop_assert_eq!(taps_by_phase(&axis, o), taps_by_search(&axis, o), "output position {}", o);
            }
            let positions: usize = axis.phases().iter().map(|phase| phase.positions).sum();
            prop_assert_eq!(positions, output);
        }
    }

    #[test]
    fn positions_off_the_common_divisor_have_no_taps() {
        let axis = Axis { input: 3, output: 9, kernel: 3, stride: 2, dilation: 2, pad_begin: 0 };
        let taps: Vec<usize> = axis.phases().iter().map(|phase| phase.taps).collect();
        assert_eq!(taps, [3, 0]);
    }

    #[test]
    fn a_stride_beyond_the_output_makes_one_phase_per_position() {
        let axis = Axis { input: 1, output: 3, kernel: 3, stride: usize::MAX, dilation: 1, pad_begin: 0 };
        assert_eq!(axis.phases().len(), 3);
        assert!(axis.phases().iter().all(|phase| phase.taps == 1 && phase.positions == 1 && phase.first_input == 0));
    }
}
