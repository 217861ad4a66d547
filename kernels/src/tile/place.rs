//! Jobs: what a block computes at a time, and where that is.

use core::ops::Range;

use cuda_std::{mem, thread};

use super::parameters::{Pass, Tiling, rows};
use crate::index::Index;

/// The jobs of this block: neighbours, which share inputs and output rows.
#[inline(always)]
pub(super) fn jobs(t: &Tiling) -> Range<u32> {
    let first = |worker: u32| (worker as u64 * t.jobs as u64).divide(t.workers).0 as u32;
    let worker = thread::block_idx_x();
    first(worker)..first(worker + 1)
}

/// The place of a job in the problem.
#[derive(Clone, Copy)]
pub(super) struct Place {
    /// The tile of output channels.
    pub(super) channel_tile: u32,
    /// Its first output channel within the group.
    pub(super) first_channel: u32,
    pub(super) pass: u32,
    pub(super) group: u32,
    pub(super) sample: u32,
    /// The first position of the tile, outermost axis first.
    pub(super) origin: [u32; 3],
}

impl Place {
    /// Takes the number of a job apart. Jobs that share their input are neighbours, so that they find it in the L2 cache.
    #[inline(always)]
    pub(super) fn new(t: &Tiling, job: u32) -> Self {
        let (rest, channel_tile) = job.divide(t.channel_tiles);
        let (rest, pass) = rest.divide(t.passes);
        let (rest, group) = rest.divide(t.groups);
        let (rest, x) = rest.divide(t.tiles_x);
        let (rest, y) = rest.divide(t.tiles_y);
        let (n, z) = rest.divide(t.tiles_z);
        let [tile_n, tile_z, tile_y, tile_x] = t.tile;
        Self {
            channel_tile,
            first_channel: channel_tile * t.tile_channels,
            pass,
            group,
            sample: n * tile_n,
            origin: [z * tile_z, y * tile_y, x * tile_x],
        }
    }
}

/// A pass without its slots.
#[derive(Clone, Copy)]
pub(super) struct PassHead {
    /// The input position of the first staged element of a tile at the origin; negative ones wrap around.
    pub(super) origin: [u32; 3],
    pub(super) chunks: u32,
    pub(super) first_chunk: u32,
    pub(super) first_slab: u32,
}

impl PassHead {
    /// # Safety
    /// The table has such a pass.
    #[inline(always)]
    pub(super) unsafe fn load(tables: *const [u32; 4], number: u32) -> Self {
        let row = tables.wrapping_add((number * rows::<Pass>()) as usize);
        // SAFETY: the caller's promise.
        let ([z, y, x, chunks], [first_chunk, first_slab, ..]) =
            unsafe { (mem::load_readonly(row), mem::load_readonly(row.add(1))) };
        Self { origin: [z, y, x], chunks, first_chunk, first_slab }
    }

    /// Slot number `slot` of a pass: the output position of position 0, and whether it is used.
    ///
    /// # Safety
    /// The table has such a pass, and passes have such a slot.
    #[inline(always)]
    pub(super) unsafe fn slot(tables: *const [u32; 4], number: u32, slot: u32) -> [u32; 4] {
        // SAFETY: the caller's promise; the slots lie behind two other rows.
        unsafe { mem::load_readonly(tables.wrapping_add((number * rows::<Pass>() + 2 + slot) as usize)) }
    }
}
