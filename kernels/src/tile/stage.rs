//! Staging: asynchronous copies of input and packed weight into rings of shared memory.
//!
//! A tile's input is a box with its halo: the same box for every channel, so where each element lies is looked up once per tile, in a
//! table in shared memory. Elements outside of the input become zero, which is the padding.

use cuda_std::{
    async_copy, mem,
    shared::{SharedPtr, dynamic_shared_mem},
    thread,
};

use super::{
    THREADS,
    parameters::{Chunk, Pass, Tiling, rows},
};
use crate::index::Index;

/// Weight chunks that are staged at a time: one is computed with while two are on their way.
pub(super) const RING: u32 = 3;

/// In the table of offsets: the element does not exist.
const OUTSIDE: u32 = u32::MAX;

/// Where the staged elements of one channel come from.
pub(super) struct Source {
    /// Element 0 of the first channel of the block's group in its first sample.
    pub(super) input: *const f32,
    /// The first word of the first slab that the block uses.
    pub(super) weight: *const f32,
    /// Words between the slabs of successive stages.
    pub(super) stage_words: usize,
    /// The table of offsets, one for each copy of a channel.
    pub(super) offsets: SharedPtr<u32>,
}

/// A position in the sequence of chunks: all chunks of the first stage, then those of the next.
#[derive(Clone, Copy)]
pub(super) struct Cursor {
    pub(super) stage: u32,
    pub(super) chunk: u32,
    /// The slot of the input ring.
    pub(super) input_slot: u32,
    /// The slot of the weight ring.
    pub(super) weight_slot: u32,
}

impl Cursor {
    pub(super) const START: Self = Self { stage: 0, chunk: 0, input_slot: 0, weight_slot: 0 };

    #[inline(always)]
    pub(super) fn advance(&mut self, chunks: u32, input_ring: u32) {
        self.weight_slot = if self.weight_slot + 1 == RING { 0 } else { self.weight_slot + 1 };
        self.chunk += 1;
        if self.chunk == chunks {
            self.chunk = 0;
            self.stage += 1;
            self.input_slot = if self.input_slot + 1 == input_ring { 0 } else { self.input_slot + 1 };
        }
    }
}

/// Fills the table of offsets for the tile whose first staged element has the given coordinates.
///
/// # Safety
/// The table has room for `copies` words; threads of the block must synchronise before they use it.
#[inline(always)]
pub(super) unsafe fn locate(t: &Tiling, offsets: SharedPtr<u32>, sample: u32, origin: [i32; 3]) {
    let [depth, height, width] = t.input;
    let mut copy = thread::thread_idx_x();
    while copy < t.copies {
        let (row, x) = copy.divide(t.halo_x);
        let (slice, y) = row.divide(t.halo_y);
        let (n, z) = slice.divide(t.halo_z);
        // Positions before the first one become larger than any extent.
        let z = (origin[0] as u32).wrapping_add(z);
        let y = (origin[1] as u32).wrapping_add(y);
        let x = (origin[2] as u32).wrapping_add(x * t.copy_words);
        let inside = sample + n < t.batch && z < depth && y < height && x < width;
        let row = z.wrapping_mul(height).wrapping_add(y);
        let offset = n.wrapping_mul(t.input_sample as u32).wrapping_add(row.wrapping_mul(width)).wrapping_add(x);
        // SAFETY: the caller's promise.
        unsafe { offsets.add(copy).store(if inside { offset } else { OUTSIDE }) };
        copy += THREADS;
    }
}

/// Starts copying what the chunk at `cursor` needs: its weights, and the input if it is the first one of its stage.
///
/// # Safety
/// The slots of the cursor must not be in use, and the table of offsets complete.
#[inline(always)]
pub(super) unsafe fn fetch(t: &Tiling, source: &Source, chunk: &Chunk, cursor: Cursor, slab_bytes: u32) {
    // SAFETY: the caller's promise.
    unsafe {
        if cursor.chunk == 0 {
            fetch_input(t, source, cursor);
        }
        let weight = source.weight.wrapping_add(cursor.stage as usize * source.stage_words);
        let weight = weight.wrapping_add(chunk.first_slab as usize * (slab_bytes / 4) as usize);
        let slot = dynamic_shared_mem::<u8>().add(t.weight_start + cursor.weight_slot * t.weight_bytes);
        let end = (chunk.slabs & !Chunk::PROMOTE) * slab_bytes;
        let mut byte = thread::thread_idx_x() * 16;
        while byte < end {
            async_copy::copy_16(slot.add(byte).cast(), weight.wrapping_add(byte as usize / 4).cast(), true);
            byte += THREADS * 16;
        }
    }
}

/// Starts copying the input of a stage.
#[inline(always)]
unsafe fn fetch_input(t: &Tiling, source: &Source, cursor: Cursor) {
    let first = cursor.stage * t.stage_channels;
    let channels = t.in_per_group - first;
    let plane = t.input_plane as usize;
    let input = source.input.wrapping_add(first as usize * plane);
    let slot = dynamic_shared_mem::<f32>().cast::<u8>().add(t.input_start + cursor.input_slot * t.input_bytes);
    // The host knows the alignment of the rows to each other, not that of the first one.
    let wide = t.copy_words == 4 && input.addr().is_multiple_of(16);
    let mut copy = thread::thread_idx_x();
    while copy < t.copies {
        // SAFETY: the table has that many words, and nobody writes to it any more.
        let offset = unsafe { source.offsets.add(copy).load() };
        let inside = offset != OUTSIDE;
        let mut from = input.wrapping_add(if inside { offset as usize } else { 0 });
        let mut to = slot.add(copy * t.copy_words * 4);
        let mut channel = 0;
        while channel < t.stage_channels {
            for part in 0..8 {
                let exists = inside && channel + part < channels;
                // SAFETY: the slot has room for the stage's channels; an element that exists lies within the input.
                unsafe {
                    if wide {
                        async_copy::copy_16(to.cast(), from.cast(), exists);
                    } else {
                        for word in 0..t.copy_words {
                            async_copy::copy_4(
                                to.add(4 * word).cast(),
                                from.wrapping_add(word as usize).cast(),
                                exists,
                            );
                        }
                    }
                }
                from = from.wrapping_add(plane);
                to = to.add(t.channel_words * 4);
            }
            channel += 8;
        }
        copy += THREADS;
    }
}

/// The table entry of a chunk.
///
/// # Safety
/// The table has such a chunk.
#[inline(always)]
pub(super) unsafe fn chunk(t: &Tiling, tables: *const [u32; 4], number: u32) -> Chunk {
    // SAFETY: the caller's promise.
    bytemuck::cast(unsafe { mem::load_readonly(tables.add((t.first_chunk_row + number * rows::<Chunk>()) as usize)) })
}

/// The first two rows of a pass: all but its slots.
///
/// # Safety
/// The table has such a pass.
#[inline(always)]
pub(super) unsafe fn pass_head(tables: *const [u32; 4], number: u32) -> [[u32; 4]; 2] {
    let row = tables.wrapping_add((number * rows::<Pass>()) as usize);
    // SAFETY: the caller's promise.
    unsafe { [mem::load_readonly(row), mem::load_readonly(row.add(1))] }
}
