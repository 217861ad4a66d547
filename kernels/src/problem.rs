//! The geometry of one transposed convolution as the kernels see it: three spatial axes, counts and strides in
//! elements.
//!
//! A problem with fewer axes has leading axes of extent 1. Quantities are stored in 64 bits; a kernel with 32-bit
//! indices reads the low halves. Arrays are indexed by constants only: a by-value parameter that is indexed at run time
//! would be copied to local memory.

use bytemuck::{Pod, Zeroable};

use cuda_std::mem;

use crate::index::{Divisor, Index};

/// The output positions `r, r + stride, ...` of an axis (`r` being the index of the phase in its table), and the taps
/// that reach them: number `t < taps` is kernel index `first_tap + t * tap_step`, read at input position
/// `first_input + q - t * input_step` for the `q`-th position of the phase.
///
/// The device loads an entry as four words at once, hence the alignment.
#[repr(C, align(16))]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct Phase {
    /// Number of taps; 0 where only the bias arrives.
    pub taps: u32,
    /// The first tap's kernel index.
    pub first_tap: u32,
    /// The input position that it reads for `q = 0`; may lie outside of the input.
    pub first_input: i64,
}

/// One spatial axis.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct Axis {
    /// Input extent, as a divisor.
    pub input_divisor: Divisor,
    /// Output extent, as a divisor.
    pub output_divisor: Divisor,
    /// Stride, as a divisor.
    pub stride_divisor: Divisor,
    /// `input_step`, as a divisor.
    pub input_step_divisor: Divisor,
    /// Output positions of the longest phase, as a divisor.
    pub positions_divisor: Divisor,
    /// Input extent.
    pub input: u64,
    /// Output extent.
    pub output: u64,
    /// Kernel extent.
    pub kernel: u64,
    /// Stride.
    pub stride: u64,
    /// Dilation.
    pub dilation: u64,
    /// Positions cut off before the first output position.
    pub pad_begin: i64,
    /// The same in strides, rounded down.
    pub pad_strides: i64,
    /// What remains of it.
    pub pad_remainder: u64,
    /// Taps that each phase has at least, if they are a stride apart.
    pub least_taps: u64,
    /// So many first kernel elements begin a phase with one more.
    pub longer_phases: u64,
    /// 1 if phases are only found in the table; 0 if those four numbers say what they are.
    pub tabulated: u64,
    /// Distance between the kernel indices of a phase.
    pub tap_step: u64,
    /// Distance between the input positions of successive taps of a phase.
    pub input_step: u64,
    /// Where the phases of this axis begin in the problem's table of phases.
    pub first_phase: u64,
    /// Taps of the longest phase.
    pub most_taps: u64,
}

/// One transposed convolution.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct Problem {
    /// Spatial axes, outermost first.
    pub axes: [Axis; 3],
    /// Output channels, as a divisor.
    pub out_channels_divisor: Divisor,
    /// Output channels per group, as a divisor.
    pub out_per_group_divisor: Divisor,
    /// Number of groups.
    pub groups: u64,
    /// Output channels of a group.
    pub out_per_group: u64,
    /// Input channels of a group.
    pub in_per_group: u64,
    /// Elements of one input channel of one sample.
    pub input_plane: u64,
    /// Elements of one output channel of one sample.
    pub output_plane: u64,
    /// Kernel indices of all axes together.
    pub taps: u64,
    /// Number of output elements.
    pub outputs: u64,
    /// Threads that `gather` needs for one output row, as a divisor: number of phases times positions of the longest
    /// one.
    pub row_threads_divisor: Divisor,
    /// Threads that `gather` needs.
    pub gather_threads: u64,
    /// Products of an output element, at most, with those of taps beyond the input, if these are so few that `gather`
    /// has all of them under way at once; otherwise 0.
    pub few_products: u64,
}

/// The taps that reach one output position of one axis.
#[derive(Clone, Copy)]
pub(crate) struct Taps<I> {
    pub(crate) count: I,
    /// The first one's kernel index.
    pub(crate) tap: I,
    tap_step: I,
    /// The input position that it reads.
    pub(crate) input: I,
    input_step: I,
}

impl Axis {
    /// The taps of output position `o` from positions within the input.
    ///
    /// # Safety
    /// `phases` must be the table that this axis was made with, readable by the device, and `o` be within the output.
    #[cfg_attr(gpu, inline(always))]
    pub(crate) unsafe fn taps<I: Index>(&self, phases: *const Phase, o: I) -> Taps<I> {
        let (q, r) = o.divide(self.stride_divisor);
        // SAFETY: the caller's promise.
        unsafe { self.taps_of_phase(phases, r, q) }
    }

    /// The taps of the `q`-th output position of phase `r` from positions within the input.
    ///
    /// # Safety
    /// As [`taps`](Self::taps), of that output position.
    #[cfg_attr(gpu, inline(always))]
    pub(crate) unsafe fn taps_of_phase<I: Index>(&self, phases: *const Phase, r: I, q: I) -> Taps<I> {
        // SAFETY: the caller's promise.
        let phase = unsafe { self.phase(phases, r) };
        self.within_input(
            I::new(phase.taps.into()),
            I::new(phase.first_tap.into()),
            I::from_signed(phase.first_input).plus(q),
        )
    }

    /// The taps of output position `o`, including those that read beyond the input.
    ///
    /// # Safety
    /// As [`taps`](Self::taps).
    #[cfg_attr(gpu, inline(always))]
    pub(crate) unsafe fn all_taps<I: Index>(&self, phases: *const Phase, o: I) -> Taps<I> {
        let (q, r) = o.divide(self.stride_divisor);
        // SAFETY: the caller's promise.
        unsafe { self.all_taps_of_phase(phases, r, q) }
    }

    /// The taps of the `q`-th output position of phase `r`, including those that read beyond the input.
    ///
    /// # Safety
    /// As [`taps`](Self::taps), of that output position.
    #[cfg_attr(gpu, inline(always))]
    pub(crate) unsafe fn all_taps_of_phase<I: Index>(&self, phases: *const Phase, r: I, q: I) -> Taps<I> {
        // SAFETY: the caller's promise.
        let phase = unsafe { self.phase(phases, r) };
        Taps {
            count: I::new(phase.taps.into()),
            tap: I::new(phase.first_tap.into()),
            tap_step: I::new(self.tap_step),
            input: I::from_signed(phase.first_input).plus(q),
            input_step: I::new(self.input_step),
        }
    }

    /// Phase `r`, computed where that is possible: a load would have to be waited for.
    ///
    /// # Safety
    /// As [`taps`](Self::taps), of some output position of that phase.
    #[cfg_attr(gpu, inline(always))]
    pub(crate) unsafe fn phase<I: Index>(&self, phases: *const Phase, r: I) -> Phase {
        if self.tabulated == 0 {
            return self.computed_phase(r.offset() as u32);
        }
        // SAFETY: the table has an entry for each remainder of an output position.
        let entry = unsafe { phases.add(self.first_phase as usize + r.offset()) };
        // SAFETY: as above; an entry is four aligned words.
        bytemuck::cast(unsafe { mem::load_readonly(entry.cast::<[u32; 4]>()) })
    }

    /// Phase `r` of an axis without a stride or without a dilation: its first kernel element is what remains of
    /// `r + pad_begin`, divided by the stride. Where all phases have equally many taps, a kernel that is compiled for
    /// its layer sees that number.
    #[cfg_attr(gpu, inline(always))]
    fn computed_phase(&self, r: u32) -> Phase {
        if self.stride == 1 {
            return Phase { taps: self.kernel as u32, first_tap: 0, first_input: self.pad_begin };
        }
        let (shifted, stride) = (r + self.pad_remainder as u32, self.stride as u32);
        let is_beyond = shifted >= stride;
        let first_tap = if is_beyond { shifted - stride } else { shifted };
        let mut taps = self.least_taps as u32;
        if self.longer_phases > 0 {
            taps += u32::from(first_tap < self.longer_phases as u32);
        }
        Phase { taps, first_tap, first_input: self.pad_strides + i64::from(is_beyond) }
    }

    /// Of `count` taps, of which the first reads input position `input`, those that read within the input. Positions
    /// fall from tap to tap, so those before and behind it are the first and the last ones: cutting them off saves the
    /// loop a check per tap, and a kernel that is far larger than the input all the taps that reach nothing.
    #[cfg_attr(gpu, inline(always))]
    fn within_input<I: Index>(&self, count: I, tap: I, input: I) -> Taps<I> {
        let (tap_step, input_step) = (I::new(self.tap_step), I::new(self.input_step));
        let (zero, one, extent) = (I::new(0), I::new(1), I::new(self.input));
        let mut skipped = zero;
        if !input.is_negative() && input >= extent {
            skipped = input.minus(extent).divide(self.input_step_divisor).0.plus(one);
        }
        let mut end = zero;
        if !input.is_negative() {
            end = input.divide(self.input_step_divisor).0.plus(one);
        }
        let end = if end < count { end } else { count };
        Taps {
            count: if skipped < end { end.minus(skipped) } else { zero },
            tap: tap.plus(skipped.times(tap_step)),
            tap_step,
            input: input.minus(skipped.times(input_step)),
            input_step,
        }
    }
}

impl Problem {
    /// From an input channel of a weight to the next one, in elements.
    #[cfg_attr(gpu, inline(always))]
    pub(crate) fn weight_step(&self) -> u64 {
        self.out_per_group * self.taps
    }
}

impl<I: Index> Taps<I> {
    /// Whether there is a tap of that number along an axis, counted from the first one, and it reads within the input.
    #[cfg_attr(gpu, inline(always))]
    pub(crate) fn reads_within(&self, number: u32, axis: &Axis) -> bool {
        let number = I::new(number.into());
        // What lies before the input compares as larger than its extent.
        (number < self.count) & (self.input.minus(number.times(self.input_step)) < I::new(axis.input))
    }

    /// Takes the first tap: its kernel index and its input position.
    #[cfg_attr(gpu, inline(always))]
    pub(crate) fn take(&mut self) -> Option<(I, I)> {
        if self.count == I::new(0) {
            return None;
        }
        let first = (self.tap, self.input);
        self.tap = self.tap.plus(self.tap_step);
        self.input = self.input.minus(self.input_step);
        self.count = self.count.minus(I::new(1));
        Some(first)
    }

    /// Calls `body(kernel index, input position)` for each tap.
    #[cfg_attr(gpu, inline(always))]
    pub(crate) fn for_each(mut self, mut body: impl FnMut(I, I)) {
        while let Some((tap, input)) = self.take() {
            body(tap, input);
        }
    }
}
