//! Products by `mma.sync`, from compute capability 8.0 on: each warp by itself, weights through registers.

#[cfg(not(gpu))]
use cuda_std::thread;
use cuda_std::{async_copy, mbarrier::Mbarrier, shared::SharedPtr, tensor_core, warp};

use super::Product;
#[cfg(not(gpu))]
use crate::tile::TEAM_THREADS;

/// Words of eight input channels by eight output channels, the unit of a packed weight.
pub(super) const BLOCK_WORDS: u32 = 64;

/// Arrivals that make staged weights complete: those of the lanes that copy them.
pub(crate) const WEIGHT_ARRIVALS: u32 = 32;

/// Starts to copy weights to shared memory, 16 bytes at a time, and arrives at the barrier when they are there.
///
/// # Safety
/// As [`async_copy::copy_16`] for each 16 bytes; all lanes of a warp come here together.
#[cfg_attr(gpu, inline(always))]
pub(crate) unsafe fn stage_weights(target: SharedPtr<u8>, source: *const f32, bytes: u32, full: Mbarrier) {
    let mut byte = warp::lane_id() * 16;
    // SAFETY: the caller's promise.
    unsafe {
        while byte < bytes {
            async_copy::copy_16(target.add(byte).cast(), source.wrapping_byte_add(byte as usize).cast(), true);
            byte += 32 * 16;
        }
        full.arrive_after_copies();
    }
}

/// The product so far: that of `ffma`, too.
pub(crate) struct Accumulators<const BLOCKS: usize, const SLOTS: usize>(pub(super) [[[f32; 4]; BLOCKS]; SLOTS]);

/// A slab in shared memory: the lane's first word of it.
#[derive(Clone, Copy)]
pub(crate) struct Weights(SharedPtr<f32>);

impl Weights {
    /// The slab that begins at an address.
    #[cfg_attr(gpu, inline(always))]
    pub(crate) fn at(address: SharedPtr<u8>) -> Self {
        Self(address.cast::<f32>().add(warp::lane_id()))
    }

    /// The slab that many times 16 bytes further on.
    ///
    /// # Safety
    /// None here.
    #[cfg_attr(gpu, inline(always))]
    pub(crate) unsafe fn slab(self, units: u32) -> Self {
        self.add(units)
    }

    /// The slab that many times 16 bytes further on.
    #[cfg_attr(gpu, inline(always))]
    pub(crate) fn add(self, units: u32) -> Self {
        Self(self.0.add(units * 4))
    }
}

/// Positions in shared memory, 16 channels of each as `f16`, of which eight take so many bytes. The flat and the patch
/// kernels, which multiply by them, are for `wgmma` on a GPU.
#[cfg(not(gpu))]
#[derive(Clone, Copy)]
pub(crate) struct Positions<const EIGHT_BYTES: u32> {
    first: SharedPtr<u32>,
    /// From the first eight channels to the others, in words.
    half: u32,
}

#[cfg(not(gpu))]
impl<const EIGHT_BYTES: u32> Positions<EIGHT_BYTES> {
    /// The positions that begin at an address: eight channels of one are 16 bytes, the next one follows, unless there is
    /// something between each eight, and the other eight channels are so many bytes further on.
    pub(crate) fn at(address: SharedPtr<u8>, half_bytes: u32) -> Self {
        Self { first: address.cast(), half: half_bytes / 4 }
    }

    /// Those that many times 16 bytes further on.
    ///
    /// # Safety
    /// None here.
    pub(crate) unsafe fn from(self, units: u32) -> Self {
        self.add(units)
    }

    /// Those that many times 16 bytes further on.
    pub(crate) fn add(self, units: u32) -> Self {
        Self { first: self.first.add(units * 4), ..self }
    }
}

impl<const BLOCKS: usize, const SLOTS: usize> Accumulators<BLOCKS, SLOTS> {
    /// # Safety
    /// None here.
    #[cfg_attr(gpu, inline(always))]
    pub(crate) unsafe fn new() -> Self {
        Self([[[0.0; 4]; BLOCKS]; SLOTS])
    }

    /// Nothing: products are complete when they are made.
    ///
    /// # Safety
    /// None here.
    #[cfg_attr(gpu, inline(always))]
    pub(crate) unsafe fn begin_batch(&mut self) {}

    /// Adds the product of 16 rows by the channels of a slab, `F16` or TF32.
    ///
    /// # Safety
    /// All lanes of the warp come here together. Nobody is writing to the slab.
    #[cfg_attr(gpu, inline(always))]
    pub(crate) unsafe fn add_product<const SLOT: usize, const F16: bool>(
        &mut self,
        rows: [f32; 4],
        slab: Weights,
        _filled: bool,
    ) {
        for block in 0..BLOCKS {
            let part = slab.0.add(block as u32 * BLOCK_WORDS);
            let sums = &mut self.0[SLOT][block];
            // SAFETY: the caller's promise.
            unsafe {
                let columns = [part.load(), part.add(BLOCK_WORDS / 2).load()];
                if F16 {
                    tensor_core::mma_m16n8k16_f16(sums, rows.map(f32::to_bits), columns.map(f32::to_bits));
                } else {
                    tensor_core::mma_m16n8k8_tf32(sums, rows, columns);
                }
            }
        }
    }

    /// Adds the product of 64 columns of a slab of 16 channels as `f16`, which are the rows here, of which each warp has
    /// 16, by positions, which are the columns. The slots take turns: each has eight rows, then the next one has.
    ///
    /// # Safety
    /// All lanes of the warp come here together. Nobody is writing to the slab or the positions.
    #[cfg(not(gpu))]
    pub(crate) unsafe fn add_product_of_weights<const SLOT: usize, const EIGHT_BYTES: u32>(
        &mut self,
        slab: Weights,
        positions: Positions<EIGHT_BYTES>,
        _filled: bool,
    ) {
        const HALF: u32 = BLOCK_WORDS / 2;
        let eight_rows = SLOTS as u32 * BLOCK_WORDS;
        let first = slab.0.add(thread::thread_idx_x() % TEAM_THREADS / 32 * 2 * eight_rows);
        let second = first.add(eight_rows);
        // SAFETY: the caller's promise.
        unsafe {
            let rows = [first, second, first.add(HALF), second.add(HALF)].map(|word| word.load().to_bits());
            for (block, sums) in self.0[SLOT].iter_mut().enumerate() {
                let words = positions.first.add(block as u32 * (EIGHT_BYTES / 4) + warp::lane_id());
                tensor_core::mma_m16n8k16_f16(sums, rows, [words.load(), words.add(positions.half).load()]);
            }
        }
    }

    /// Multiplies all sums by a factor.
    ///
    /// # Safety
    /// None here.
    #[cfg_attr(gpu, inline(always))]
    pub(crate) unsafe fn scale(&mut self, [first, second]: [f32; 2]) {
        for [a, b, c, d] in self.0.as_flattened_mut() {
            (*a, *b) = (*a * first, *b * first);
            (*c, *d) = (*c * second, *d * second);
        }
    }

    /// Nothing: products are complete when they are made.
    ///
    /// # Safety
    /// None here.
    #[cfg_attr(gpu, inline(always))]
    pub(crate) unsafe fn end_batch(&mut self) {}

    /// Nothing: products are complete when they are made.
    ///
    /// # Safety
    /// None here.
    #[cfg_attr(gpu, inline(always))]
    pub(crate) unsafe fn wait<const PENDING: u32>(&mut self) {}

    /// Nothing: products are complete when they are made.
    ///
    /// # Safety
    /// None here.
    #[cfg_attr(gpu, inline(always))]
    pub(crate) unsafe fn wait_unless_specialised(&mut self) {}

    /// Nothing: products are complete when they are made.
    ///
    /// # Safety
    /// None here.
    #[cfg_attr(gpu, inline(always))]
    pub(crate) unsafe fn wait_if_specialised<const PENDING: u32>(&mut self) {}

    /// Begins anew.
    #[cfg_attr(gpu, inline(always))]
    pub(crate) fn empty(&mut self) {
        self.0 = [[[0.0; 4]; BLOCKS]; SLOTS];
    }

    /// Of no importance here: what is empty is zero.
    #[cfg_attr(gpu, inline(always))]
    pub(crate) fn are_empty(&self) -> bool {
        false
    }

    /// Nothing: what is empty is zero.
    #[cfg_attr(gpu, inline(always))]
    pub(crate) fn fill(&mut self) {}
}

impl<const BLOCKS: usize, const SLOTS: usize> Product<BLOCKS, SLOTS> for Accumulators<BLOCKS, SLOTS> {
    #[cfg_attr(gpu, inline(always))]
    unsafe fn values<const SLOT: usize, const BLOCK: usize>(&self) -> [f32; 4] {
        self.0[SLOT][BLOCK]
    }
}
