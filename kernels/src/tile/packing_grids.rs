//! Packing grids: two small grids that pack an input as `f16`, and agree on a power of two for each sample.
//!
//! Which power is right depends on the largest value of a sample, which is known when all of it has been read. So the
//! first grid takes that for values around one, and finds the largest value of each sample. The second one looks whether
//! that was right, as it is for most, notes the exponent, and packs those samples again that need another one. What
//! packing is the kernels say, those for tiles (`pack_input`) as those for flat kernels.
//!
//! The packed input begins with a header: the exponents of the samples, then the largest values that blocks have found.

use cuda_std::{math::larger_magnitude, mem, shared::dynamic_shared_mem, thread};

use super::{largest::largest_of_block, scale::Exponent};
use crate::index::{Divisor, Index};

/// Threads of a block.
pub const INPUT_PACKING_THREADS: u32 = 256;

/// What a block packs of a sample, in both grids.
pub(crate) struct Share {
    batch: u32,
    blocks: u32,
    pub(crate) sample: u32,
    pub(crate) block: u32,
}

impl Share {
    /// That of this block, of so many samples and blocks for each.
    #[cfg_attr(gpu, inline(always))]
    pub(crate) fn of_block(batch: u32, blocks: Divisor) -> Self {
        let (sample, block) = thread::block_idx_x().divide(blocks);
        // What follows looks at what is found here, when this grid has ended.
        #[cfg(cuda_arch = "sm_90a")]
        cuda_std::grid::launch_dependents();
        Self { batch, blocks: blocks.value() as u32, sample, block }
    }

    /// The first grid: packs as if the largest value were around one, and notes which one it is. `pack` returns the
    /// largest of the values of a thread. The numbers that values become are `split`, or not.
    ///
    /// # Safety
    /// `packed` is the packed input, which nothing else accesses meanwhile. All threads of the block come here together.
    #[cfg_attr(gpu, inline(always))]
    pub(crate) unsafe fn pack_first(&self, split: bool, packed: *mut u32, pack: impl FnOnce(Exponent) -> f32) {
        let largest = pack(Exponent::of_ones(split));
        // SAFETY: the caller's promise.
        unsafe {
            let largest = largest_of_block(largest, dynamic_shared_mem(), INPUT_PACKING_THREADS / 32);
            if thread::thread_idx_x() == 0 {
                mem::store(self.largest_value(self.block, packed), largest);
            }
        }
        // It may run beside those that pack the weight, for which whoever waits for this grid waits, too.
        #[cfg(cuda_arch = "sm_90a")]
        cuda_std::grid::await_prerequisites();
    }

    /// The second grid: packs again if another exponent is right.
    ///
    /// # Safety
    /// As [`pack_first`](Self::pack_first), behind the first grid, or before it ends, if this one need not wait for it.
    #[cfg_attr(gpu, inline(always))]
    pub(crate) unsafe fn pack_again(&self, split: bool, packed: *mut u32, pack: impl FnOnce(Exponent) -> f32) {
        // SAFETY: the caller's promise.
        if let Some(exponent) = unsafe { self.other_exponent(split, packed) } {
            let _ = pack(exponent);
        }
    }

    /// Notes the exponent of the sample, and returns it if it is not that with which the sample has been packed.
    ///
    /// # Safety
    /// As [`pack_again`](Self::pack_again).
    #[cfg_attr(gpu, inline(always))]
    unsafe fn other_exponent(&self, split: bool, packed: *mut u32) -> Option<Exponent> {
        #[cfg(cuda_arch = "sm_90a")]
        cuda_std::grid::await_prerequisites();
        // SAFETY: the caller's promise.
        unsafe {
            let mut largest = 0.0;
            let mut other = thread::thread_idx_x();
            while other < self.blocks {
                largest = larger_magnitude(largest, mem::load(self.largest_value(other, packed).cast_const()));
                other += INPUT_PACKING_THREADS;
            }
            let largest = largest_of_block(largest, dynamic_shared_mem(), INPUT_PACKING_THREADS / 32);
            let exponent = Exponent::of_sample(largest.to_bits(), split);
            if thread::thread_idx_x() == 0 && self.block == 0 {
                mem::store(packed.add(self.sample as usize), exponent.bits());
            }
            if exponent == Exponent::of_ones(split) { None } else { Some(exponent) }
        }
    }

    /// Where a block leaves the largest value that it has found.
    #[cfg_attr(gpu, inline(always))]
    fn largest_value(&self, block: u32, packed: *mut u32) -> *mut f32 {
        let behind_exponents = self.sample as usize * self.blocks as usize + block as usize;
        packed.wrapping_add(self.batch as usize + behind_exponents).cast()
    }
}
