//! The matrix product of a warp group: what tile kernels need of tensor cores, with one file per generation of them,
//! and of ordinary cores. Flat and patch kernels use it as well, with both factors in shared memory.
//!
//! Each warp holds 16 rows of the product for each slot (positions of tiles, output channels elsewhere), in the layout
//! that `mma.sync.m16n8k8` and `wgmma` share: lane `4 * g + t` has columns `2 * t` and `2 * t + 1` of rows `g` and
//! `g + 8`. Both read the weight from the same layout in shared memory too, so the algorithm is the same;
//! `Accumulators` and `Weights` are what differs. Ordinary cores have the accumulators of `mma` and an order of their
//! own in which they multiply.

#[cfg(not(cuda_arch = "sm_90a"))]
pub(super) mod ffma;
#[cfg(not(cuda_arch = "sm_90a"))]
mod mma;
#[cfg(cuda_arch = "sm_90a")]
mod wgmma;

#[cfg(not(gpu))]
pub(crate) use mma::Positions;
#[cfg(not(cuda_arch = "sm_90a"))]
pub(crate) use mma::{Accumulators, Weights};
#[cfg(not(cuda_arch = "sm_90a"))]
pub(super) use mma::{WEIGHT_ARRIVALS, stage_weights};
#[cfg(cuda_arch = "sm_90a")]
pub(crate) use wgmma::{Accumulators, Positions, Weights};
#[cfg(cuda_arch = "sm_90a")]
pub(super) use wgmma::{WEIGHT_ARRIVALS, stage_weights};

use cuda_std::math;

use crate::unrolled::unrolled;

/// Gives this thread the registers that the producers give up: two times what teams have and once what those have is
/// three times 168, with which the block was launched. To ask for more would be to wait for ever.
///
/// # Safety
/// All threads of the warp group come here together, once.
#[cfg_attr(gpu, inline(always))]
pub(crate) unsafe fn take_registers() {
    #[cfg(cuda_arch = "sm_90a")]
    // SAFETY: the caller's promise.
    unsafe {
        cuda_std::thread::set_registers_more::<232>()
    };
}

/// Gives up registers that producers do not need.
///
/// # Safety
/// As [`take_registers`].
#[cfg_attr(gpu, inline(always))]
pub(crate) unsafe fn give_registers() {
    #[cfg(cuda_arch = "sm_90a")]
    // SAFETY: the caller's promise.
    unsafe {
        cuda_std::thread::set_registers_fewer::<40>()
    };
}

/// A matrix product that is complete.
pub(crate) trait Product<const BLOCKS: usize, const SLOTS: usize> {
    /// The values of rows `g` (first two) and `g + 8` in columns `2 * t` and `2 * t + 1` of a block of eight.
    ///
    /// # Safety
    /// There have been products of the slot, and all have been waited for.
    unsafe fn values<const SLOT: usize, const BLOCK: usize>(&self) -> [f32; 4];
}

/// Finished sums: `SLOTS` matrices of 16 rows by `8 * BLOCKS` columns per warp.
pub(crate) struct Sums<const BLOCKS: usize, const SLOTS: usize>([[[f32; 4]; BLOCKS]; SLOTS]);

impl<const BLOCKS: usize, const SLOTS: usize> Sums<BLOCKS, SLOTS> {
    pub(crate) const ZERO: Self = Self([[[0.0; 4]; BLOCKS]; SLOTS]);

    /// Adds what the accumulators hold, times a factor if there is one, and empties those.
    ///
    /// # Safety
    /// All products have been waited for.
    #[cfg_attr(gpu, inline(always))]
    pub(crate) unsafe fn take_over(&mut self, accumulators: &mut Accumulators<BLOCKS, SLOTS>, factor: Option<f32>) {
        let add = |sum: &mut f32, value: f32| match factor {
            Some(factor) => *sum = math::fma(value, factor, *sum),
            None => *sum += value,
        };
        unrolled!(SLOT in 0..SLOTS, at most 8 => {
            unrolled!(BLOCK in 0..BLOCKS, at most 32 => {
                // SAFETY: the caller's promise.
                let [a, b, c, d] = unsafe { accumulators.values::<SLOT, BLOCK>() };
                let sums = &mut self.0[SLOT][BLOCK];
                add(&mut sums[0], a);
                add(&mut sums[1], b);
                add(&mut sums[2], c);
                add(&mut sums[3], d);
            });
        });
        accumulators.empty();
    }
}

impl<const BLOCKS: usize, const SLOTS: usize> Sums<BLOCKS, SLOTS> {
    /// Multiplies the sums of either row of a thread by a factor.
    #[cfg_attr(gpu, inline(always))]
    pub(super) fn scale(&mut self, [first, second]: [f32; 2]) {
        unrolled!(SLOT in 0..SLOTS, at most 8 => {
            unrolled!(BLOCK in 0..BLOCKS, at most 16 => {
                let sums = &mut self.0[SLOT][BLOCK];
                sums[0] *= first;
                sums[1] *= first;
                sums[2] *= second;
                sums[3] *= second;
            });
        });
    }

    /// Sets all sums, by slot and block of eight columns.
    #[cfg_attr(gpu, inline(always))]
    pub(super) fn set(&mut self, sum: impl Fn(usize, usize) -> [f32; 4]) {
        unrolled!(SLOT in 0..SLOTS, at most 8 => {
            unrolled!(BLOCK in 0..BLOCKS, at most 16 => {
                self.0[SLOT][BLOCK] = sum(SLOT, BLOCK);
            });
        });
    }
}

impl<const BLOCKS: usize, const SLOTS: usize> Product<BLOCKS, SLOTS> for Sums<BLOCKS, SLOTS> {
    #[cfg_attr(gpu, inline(always))]
    unsafe fn values<const SLOT: usize, const BLOCK: usize>(&self) -> [f32; 4] {
        self.0[SLOT][BLOCK]
    }
}
