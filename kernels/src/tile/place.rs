//! Jobs: what a block computes at a time, and where that is.

use core::iter;

use cuda_std::{hint, mem, thread};

use super::{
    is_specialised,
    parameters::{OutputPlace, Pass, Tiling, rows},
    partners::partner,
};
use crate::index::Index;

/// The jobs of this block: one of each round. In a round, all blocks have neighbouring jobs, which share inputs and
/// output rows while these are in the L2 cache. Blocks change places from round to round, so that all get as much to do
/// if passes take different times.
#[cfg_attr(gpu, inline(always))]
pub(super) fn jobs(t: &Tiling) -> impl Iterator<Item = u32> {
    let mut round = 0;
    iter::from_fn(move || next_job(t, &mut round))
}

/// The next one of these, for who keeps count of the rounds himself.
#[cfg_attr(gpu, inline(always))]
pub(super) fn next_job(t: &Tiling, round: &mut u32) -> Option<u32> {
    while *round < t.rounds {
        let job = job(t, *round);
        *round += 1;
        if job < t.jobs {
            return Some(in_order(t, job));
        }
    }
    None
}

/// The job of the round before this one.
#[cfg_attr(gpu, inline(always))]
pub(super) fn job_of_last_round(t: &Tiling, round: u32) -> u32 {
    in_order(t, job(t, round - 1))
}

/// The job with that place in the order in which jobs are done: those of the pass that takes the longest come first,
/// if passes are apart. Then nobody begins with a long one when others are done.
#[cfg_attr(gpu, inline(always))]
fn in_order(t: &Tiling, place: u32) -> u32 {
    if !is_specialised() || t.pass_jobs.value() == 1 {
        return place;
    }
    let (pass, rest) = place.divide(t.pass_jobs);
    let (tile, channel_tile) = rest.divide(t.channel_tiles);
    (tile * t.passes.value() as u32 + pass) * t.channel_tiles.value() as u32 + channel_tile
}

/// The number of the job of this block, and its partners, in a round; there may be none of that number.
#[cfg_attr(gpu, inline(always))]
fn job(t: &Tiling, round: u32) -> u32 {
    let workers = t.workers.value() as u32;
    round * workers + (hint::opaque(thread::block_idx_y()) + round * t.turn).divide(t.workers).1
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
    /// This block's share of the input channels, counted through all groups: the group, if there are no partners.
    pub(super) share: u32,
    pub(super) sample: u32,
    /// The first position of the tile, outermost axis first.
    pub(super) origin: [u32; 3],
}

impl Place {
    /// Takes the number of a job apart. Jobs that share their input are neighbours, so that they find it in the L2
    /// cache.
    #[cfg_attr(gpu, inline(always))]
    pub(super) fn new(t: &Tiling, job: u32) -> Self {
        let (rest, channel_tile) = job.divide(t.channel_tiles);
        let (rest, pass) = rest.divide(t.passes);
        let (rest, group) = rest.divide(t.groups);
        let (rest, x) = rest.divide(t.tiles_x);
        let (rest, y) = rest.divide(t.tiles_y);
        let (n, z) = rest.divide(t.tiles_z);
        let [tile_n, tile_z, tile_y, tile_x] = t.tile;
        let [first_z, first_y, first_x] = t.first;
        Self {
            channel_tile,
            first_channel: channel_tile * t.tile_channels,
            pass,
            group,
            share: group * t.partners + partner(t),
            sample: n * tile_n,
            origin: [first_z + z * tile_z, first_y + y * tile_y, first_x + x * tile_x],
        }
    }
}

/// What a team has to know of a job to begin with it, looked up while it is busy with the one before.
#[derive(Clone, Copy)]
pub(super) struct Upcoming {
    /// The first run of its pass. There is an entry of that number even if there is no job, or nothing to multiply.
    pub(super) first_run: u32,
    /// Chunks of its pass. Not compared before it has to be: that waits for it.
    chunks: u32,
}

impl Upcoming {
    /// The block's job of this round, or of a later one.
    ///
    /// # Safety
    /// The tables are those that the tiling describes.
    #[cfg_attr(gpu, inline(always))]
    pub(super) unsafe fn find(t: &Tiling, tables: *const [u32; 4], mut round: u32) -> Self {
        let Some(job) = next_job(t, &mut round) else { return Self { first_run: 0, chunks: 0 } };
        // SAFETY: the caller's promise.
        let PassHead { first_run, chunks, .. } = unsafe { PassHead::load(t, tables, Place::new(t, job).pass) };
        Self { first_run, chunks }
    }

    /// Whether there is something to multiply.
    #[cfg_attr(gpu, inline(always))]
    pub(super) fn has_product(&self) -> bool {
        hint::opaque(self.chunks) > 0
    }
}

/// A pass without its places.
#[derive(Clone, Copy)]
pub(super) struct PassHead {
    /// The input position of the first staged element of a tile at the origin; negative ones wrap around.
    pub(super) origin: [u32; 3],
    pub(super) chunks: u32,
    pub(super) first_chunk: u32,
    pub(super) first_run: u32,
    pub(super) first_slab: u32,
    pub(super) first_slabs: u32,
}

impl PassHead {
    /// # Safety
    /// The table has such a pass.
    #[cfg_attr(gpu, inline(always))]
    pub(super) unsafe fn load(t: &Tiling, tables: *const [u32; 4], number: u32) -> Self {
        let row = tables.wrapping_add((number * t.pass_rows) as usize);
        // SAFETY: the caller's promise.
        let ([z, y, x, chunks], [first_chunk, first_run, first_slab, first_slabs]) =
            unsafe { (mem::load_readonly(row), mem::load_readonly(row.add(1))) };
        Self { origin: [z, y, x], chunks, first_chunk, first_run, first_slab, first_slabs }
    }

    /// What a pass writes: its place with the given number.
    ///
    /// # Safety
    /// The table has such a pass, and passes have such a place.
    #[cfg_attr(gpu, inline(always))]
    pub(super) unsafe fn output(t: &Tiling, tables: *const [u32; 4], pass: u32, number: u32) -> OutputPlace {
        let row = tables.wrapping_add((pass * t.pass_rows + rows::<Pass>() + number) as usize);
        // SAFETY: the caller's promise.
        bytemuck::cast(unsafe { mem::load_readonly(row) })
    }
}
