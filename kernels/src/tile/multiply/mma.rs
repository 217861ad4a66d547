//! Products by `mma.sync`, from compute capability 8.0 on: each warp by itself, weights through registers.

use cuda_std::{shared::SharedPtr, tensor_core, warp};

use super::Product;

/// Words of eight input channels by eight output channels, the unit of a packed weight.
const BLOCK_WORDS: u32 = 64;

/// The product so far.
pub(crate) struct Accumulators<const BLOCKS: usize, const SLOTS: usize>([[[f32; 4]; BLOCKS]; SLOTS]);

/// A slab in shared memory: the lane's first word of it.
#[derive(Clone, Copy)]
pub(crate) struct Weights(SharedPtr<f32>);

impl Weights {
    /// The slab that begins at an address.
    #[inline(always)]
    pub(crate) fn at(address: SharedPtr<u8>) -> Self {
        Self(address.cast::<f32>().add(warp::lane_id()))
    }

    /// The slab that many times 16 bytes further on.
    #[inline(always)]
    pub(crate) fn add(self, units: u32) -> Self {
        Self(self.0.add(units * 4))
    }
}

impl<const BLOCKS: usize, const SLOTS: usize> Accumulators<BLOCKS, SLOTS> {
    /// # Safety
    /// None here.
    #[inline(always)]
    pub(crate) unsafe fn new() -> Self {
        Self([[[0.0; 4]; BLOCKS]; SLOTS])
    }

    /// Nothing: products are complete when they are made.
    ///
    /// # Safety
    /// None here.
    #[inline(always)]
    pub(crate) unsafe fn begin(&mut self) {}

    /// Adds the product of 16 rows by eight channels and a slab.
    ///
    /// # Safety
    /// All lanes of the warp come here together. Nobody is writing to the slab.
    #[inline(always)]
    pub(crate) unsafe fn add_product<const SLOT: usize>(&mut self, rows: [f32; 4], slab: Weights, _filled: bool) {
        for block in 0..BLOCKS {
            let part = slab.0.add(block as u32 * BLOCK_WORDS);
            // SAFETY: the caller's promise.
            unsafe {
                let columns = [part.load(), part.add(BLOCK_WORDS / 2).load()];
                tensor_core::mma_m16n8k8_tf32(&mut self.0[SLOT][block], rows, columns);
            }
        }
    }

    /// Nothing: products are complete when they are made.
    ///
    /// # Safety
    /// None here.
    #[inline(always)]
    pub(crate) unsafe fn finish<const PENDING: u32>(&mut self) {}

    /// Nothing: products are complete when they are made.
    ///
    /// # Safety
    /// None here.
    #[inline(always)]
    pub(crate) unsafe fn wait(&mut self) {}

    /// Begins anew.
    #[inline(always)]
    pub(crate) fn empty(&mut self) {
        self.0 = [[[0.0; 4]; BLOCKS]; SLOTS];
    }
}

impl<const BLOCKS: usize, const SLOTS: usize> Product<BLOCKS, SLOTS> for Accumulators<BLOCKS, SLOTS> {
    #[inline(always)]
    unsafe fn values<const SLOT: usize, const BLOCK: usize>(&self) -> [f32; 4] {
        self.0[SLOT][BLOCK]
    }
}
