//! The matrix product of a warp: what the tile kernels need of tensor cores, one file for all architectures.
//!
//! A warp holds 16 rows (positions) of the product for each slot, in the layout that `mma.sync.m16n8k8` and `wgmma` share: lane
//! `4 * g + t` has columns `2 * t` and `2 * t + 1` of rows `g` and `g + 8`. Four successive warps are the four parts of a warp group.

use cuda_std::{shared::SharedPtr, tensor_core};

/// Words of eight input channels by eight output channels, the unit of a packed weight.
const BLOCK_WORDS: u32 = 64;

/// The product so far: `SLOTS` matrices of 16 rows by `8 * BLOCKS` columns per warp.
pub(super) struct Accumulators<const BLOCKS: usize, const SLOTS: usize> {
    values: [[[f32; 4]; BLOCKS]; SLOTS],
}

impl<const BLOCKS: usize, const SLOTS: usize> Accumulators<BLOCKS, SLOTS> {
    #[inline(always)]
    pub(super) fn zero() -> Self {
        Self { values: [[[0.0; 4]; BLOCKS]; SLOTS] }
    }

    /// Adds the product of 16 rows by eight channels and a slab.
    ///
    /// # Safety
    /// All lanes of the warp come here together. `slab` is the lane's first word of a slab in shared memory, which nobody is writing.
    #[inline(always)]
    pub(super) unsafe fn add_product(&mut self, slot: usize, rows: [f32; 4], slab: SharedPtr<f32>) {
        for block in 0..BLOCKS {
            let part = slab.add(block as u32 * BLOCK_WORDS);
            // SAFETY: the caller's promise.
            unsafe {
                let columns = [part.load(), part.add(BLOCK_WORDS / 2).load()];
                tensor_core::mma_m16n8k8_tf32(&mut self.values[slot][block], rows, columns);
            }
        }
    }

    /// Adds the values of `other`, and sets those to zero.
    #[inline(always)]
    pub(super) fn take_over(&mut self, other: &mut Self) {
        for slot in 0..SLOTS {
            for block in 0..BLOCKS {
                for part in 0..4 {
                    self.values[slot][block][part] += other.values[slot][block][part];
                    other.values[slot][block][part] = 0.0;
                }
            }
        }
    }

    /// The values of rows `g` (first two) and `g + 8` in columns `2 * t` and `2 * t + 1` of a block of eight.
    #[inline(always)]
    pub(super) fn values(&self, slot: usize, block: usize) -> [f32; 4] {
        self.values[slot][block]
    }
}
