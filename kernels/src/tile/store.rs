//! Storing: the accumulators go through shared memory, so that a warp stores neighbouring elements of an output row.

use cuda_std::{
    mem,
    shared::{SharedPtr, dynamic_shared_mem},
    thread, warp,
};

use super::{
    ROWS, THREADS,
    multiply::Sums,
    parameters::{Pass, Tiling, rows},
};
use crate::index::Index;

/// Where a block's outputs go.
pub(super) struct Target {
    /// Element 0 of the tile's first channel in its first sample.
    pub(super) output: *mut f32,
    /// The first row of the pass.
    pub(super) pass: *const [u32; 4],
    /// Channels of the tile that exist.
    pub(super) channels: u32,
    /// The tile's first sample.
    pub(super) sample: u32,
    /// The tile's first position.
    pub(super) origin: [u32; 3],
    /// The bias of the tile's channels, or zeros.
    pub(super) bias: SharedPtr<f32>,
}

/// Words from one slot to the next in the staged output. Interleaved slots are read in turn, by neighbouring lanes, so they are to start
/// on different banks.
const fn slot_words(slots: u32) -> u32 {
    ROWS + 32 / slots % 32
}

/// Words from one channel to the next: 4 or 12 modulo 16, so that the lanes of a warp write to different banks.
pub(super) const fn channel_words(slots: u32) -> u32 {
    slots * slot_words(slots) + 4
}

/// Writes the sums of a warp to shared memory.
///
/// # Safety
/// The staged output has room for `8 * BLOCKS` channels, and nobody uses it; the block synchronises afterwards.
#[inline(always)]
pub(super) unsafe fn stage<const BLOCKS: usize, const SLOTS: usize>(t: &Tiling, sums: &Sums<BLOCKS, SLOTS>) {
    let lane = warp::lane_id();
    let row = thread::thread_idx_x() / 32 * 16 + lane / 4;
    let words = channel_words(SLOTS as u32);
    let first = dynamic_shared_mem::<f32>().add(t.input_start / 4 + lane % 4 * 2 * words + row);
    for slot in 0..SLOTS {
        for block in 0..BLOCKS {
            let [a, b, c, d] = sums.0[slot][block];
            let place = first.add(slot as u32 * slot_words(SLOTS as u32) + block as u32 * 8 * words);
            // SAFETY: the caller's promise.
            unsafe {
                place.store(a);
                place.add(words).store(b);
                place.add(8).store(c);
                place.add(words + 8).store(d);
            }
        }
    }
}

/// Stores the staged output.
///
/// # Safety
/// The staged output and the bias are complete; the target is the block's own.
#[inline(always)]
pub(super) unsafe fn store<const BLOCKS: usize, const SLOTS: usize>(t: &Tiling, target: &Target) {
    let elements = SLOTS as u32 * ROWS;
    // Where a channel has fewer elements than the block threads, threads share the channels.
    let sharers = if elements < THREADS { THREADS / elements } else { 1 };
    let mut element = thread::thread_idx_x() % elements;
    let share = thread::thread_idx_x() / elements;
    while element < elements {
        let (position, interleaved) = element.divide(t.interleaved);
        let slot = position / ROWS * t.interleaved.value() as u32 + interleaved;
        let row = position % ROWS;
        // SAFETY: the caller's promise.
        unsafe {
            if let Some(offset) = locate::<SLOTS>(t, target, slot, row) {
                let words = channel_words(SLOTS as u32);
                let staged = dynamic_shared_mem::<f32>().add(t.input_start / 4 + slot * slot_words(SLOTS as u32) + row);
                let plane = t.output_plane as usize;
                let mut channel = share;
                let mut place = target.output.wrapping_add(offset + share as usize * plane);
                while channel < target.channels {
                    let value = staged.add(channel * words).load() + target.bias.add(channel).load();
                    mem::store(place, value);
                    place = place.wrapping_add(plane * sharers as usize);
                    channel += sharers;
                }
            }
        }
        element += THREADS;
    }
}

/// Where in a channel the element of a slot and row of the product goes, if it exists.
#[inline(always)]
unsafe fn locate<const SLOTS: usize>(t: &Tiling, target: &Target, slot: u32, row: u32) -> Option<usize> {
    if slot >= SLOTS as u32 || row >= t.positions {
        return None;
    }
    // SAFETY: a pass has rows for all slots behind its first two.
    let [slot_z, slot_y, slot_x, used] = unsafe { mem::load_readonly(target.pass.add(2 + slot as usize)) };
    let (line, x) = row.divide(t.box_x);
    let (slice, y) = line.divide(t.box_y);
    let (n, z) = slice.divide(t.box_z);
    let [origin_z, origin_y, origin_x] = target.origin;
    let z = (origin_z + z * t.step_z).wrapping_mul(t.stride[0]).wrapping_add(slot_z);
    let y = (origin_y + y * t.step_y).wrapping_mul(t.stride[1]).wrapping_add(slot_y);
    let x = (origin_x + x).wrapping_mul(t.stride[2]).wrapping_add(slot_x);
    let [depth, height, width] = t.output;
    let exists = used != 0 && target.sample + n < t.batch && z < depth && y < height && x < width;
    let offset = n as usize * t.output_sample as usize
        + z.wrapping_mul(height).wrapping_add(y).wrapping_mul(width).wrapping_add(x) as usize;
    exists.then_some(offset)
}

/// The rows of a pass.
pub(super) fn pass_rows(tables: *const [u32; 4], number: u32) -> *const [u32; 4] {
    tables.wrapping_add((number * rows::<Pass>()) as usize)
}
