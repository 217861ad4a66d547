//! The geometry of one transposed convolution as the kernels see it: three spatial axes, counts and strides in elements.
//!
//! A problem with fewer axes has leading axes of extent 1. Quantities are stored in 64 bits; a kernel with 32-bit indices reads the
//! low halves. Arrays are indexed by constants only: a by-value parameter that is indexed at run time would be copied to local
//! memory.

use bytemuck::{Pod, Zeroable};

use cuda_std::mem;

use crate::index::{Divisor, Index};

/// The output positions `r, r + stride, ...` of an axis (`r` being the index of the phase in its table), and the taps that reach
/// them: number `t < taps` is kernel index `first_tap + t * tap_step`, read at input position
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
    /// Distance between the kernel indices of a phase.
    pub tap_step: u64,
    /// Distance between the input positions of successive taps of a phase.
    pub input_step: u64,
    /// Where the phases of this axis begin in the problem's table of phases.
    pub first_phase: u64,
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
    /// Threads that `gather` needs for one output row, as a divisor: number of phases times positions of the longest one.
    pub row_threads_divisor: Divisor,
    /// Threads that `gather` needs.
    pub gather_threads: u64,
}

/// The taps that reach one output position of one axis.
pub(crate) struct Taps<I> {
    count: u32,
    tap: I,
    tap_step: I,
    input: I,
    input_step: I,
    extent: I,
}

impl Axis {
    /// The taps of output position `o`.
    ///
    /// # Safety
    /// `phases` must be the table that this axis was made with, readable by the device, and `o` be within the output.
    #[inline(always)]
    pub(crate) unsafe fn taps<I: Index>(&self, phases: *const Phase, o: I) -> Taps<I> {
        let (q, r) = o.divide(self.stride_divisor);
        // SAFETY: the caller's promise.
        unsafe { self.taps_of_phase(phases, r, q) }
    }

    /// The taps of the `q`-th output position of phase `r`.
    ///
    /// # Safety
    /// As [`taps`](Self::taps), of that output position.
    #[inline(always)]
    pub(crate) unsafe fn taps_of_phase<I: Index>(&self, phases: *const Phase, r: I, q: I) -> Taps<I> {
        // SAFETY: the table has an entry for each remainder of an output position.
        let entry = unsafe { phases.add(self.first_phase as usize + r.offset()) };
        // SAFETY: as above; an entry is four aligned words.
        let phase: Phase = bytemuck::cast(unsafe { mem::load_readonly(entry.cast::<[u32; 4]>()) });
        Taps {
            count: phase.taps,
            tap: I::new(phase.first_tap.into()),
            tap_step: I::new(self.tap_step),
            input: I::from_signed(phase.first_input).plus(q),
            input_step: I::new(self.input_step),
            extent: I::new(self.input),
        }
    }
}

impl<I: Index> Taps<I> {
    /// Calls `body(kernel index, input position)` for each tap whose input position exists.
    #[inline(always)]
    pub(crate) fn for_each(&self, mut body: impl FnMut(I, I)) {
        let (mut tap, mut input) = (self.tap, self.input);
        for _ in 0..self.count {
            if input < self.extent {
                body(tap, input);
            }
            tap = tap.plus(self.tap_step);
            input = input.minus(self.input_step);
        }
    }
}
