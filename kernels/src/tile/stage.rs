//! Staging: asynchronous copies of input and packed weight into rings of shared memory.
//!
//! A tile's input is a box with its halo: the same box for every channel, so where each element lies is looked up once per tile, in a
//! table in shared memory. Elements outside of the input become zero, which is the padding.

use cuda_std::{
    async_copy, hint, mem,
    shared::{SharedPtr, dynamic_shared_mem},
    thread, warp,
};

use super::{
    THREADS,
    parameters::{Chunk, Tiling, rows},
    place::{PassHead, Place},
};
use crate::index::Index;

/// Weight chunks that are staged at a time: one is computed with while two are on their way.
pub(super) const RING: u32 = 3;

/// In the table of offsets: the element does not exist.
const OUTSIDE: u32 = u32::MAX;

/// The tensors that are staged.
#[derive(Clone, Copy)]
pub(super) struct Operands {
    pub(super) tables: *const [u32; 4],
    pub(super) input: *const f32,
    pub(super) weight: *const f32,
}

/// Runs ahead of the computation and fetches what it is going to need, of one job after the other.
pub(super) struct Prefetch {
    job: u32,
    place: Place,
    pass: PassHead,
    source: Source,
    cursor: Cursor,
}

impl Prefetch {
    /// Begins with the block's first job. The block must synchronise before the first [`step`](Self::step).
    ///
    /// # Safety
    /// As the kernels.
    #[inline(always)]
    pub(super) unsafe fn new(t: &Tiling, operands: &Operands, slab_bytes: u32) -> Self {
        let job = thread::block_idx_x();
        let place = Place::new(t, job);
        // SAFETY: the caller's promise; a block has a first job.
        let pass = unsafe { PassHead::load(operands.tables, place.pass) };
        let offsets = SharedPtr::from_address(u32::MAX);
        let source = Source { input: operands.input, weight: operands.weight, stage_words: 0, offsets };
        let mut prefetch = Self { job, place, pass, source, cursor: Cursor::START };
        // SAFETY: the caller's promise.
        unsafe { prefetch.open(t, operands, slab_bytes) };
        prefetch
    }

    /// Fetches the next chunk, if there is one. The block must synchronise between two steps.
    ///
    /// # Safety
    /// Whatever was fetched `RING` chunks before is not in use any more.
    #[inline(always)]
    pub(super) unsafe fn step(&mut self, t: &Tiling, operands: &Operands, slab_bytes: u32) {
        if self.job < t.jobs {
            // SAFETY: the caller's promise; the job has such a chunk.
            unsafe {
                let chunk = chunk(t, operands.tables, self.pass.first_chunk + self.cursor.chunk);
                fetch(t, &self.source, &chunk, self.cursor, slab_bytes);
                if self.cursor.advance(t, self.pass.chunks) {
                    self.job += t.workers;
                    self.open(t, operands, slab_bytes);
                }
            }
        }
        async_copy::commit_group();
    }

    /// Looks up where the job's elements lie. Jobs without taps need nothing and are skipped.
    #[inline(always)]
    unsafe fn open(&mut self, t: &Tiling, operands: &Operands, slab_bytes: u32) {
        while self.job < t.jobs {
            self.place = Place::new(t, hint::opaque(self.job));
            // SAFETY: the job's pass is in the table.
            self.pass = unsafe { PassHead::load(operands.tables, self.place.pass) };
            if self.pass.chunks > 0 {
                let origin = [0, 1, 2].map(|axis| self.place.origin[axis].wrapping_add(self.pass.origin[axis]));
                let first = dynamic_shared_mem::<u32>();
                let same = self.source.offsets.address() == first.address();
                let offsets = if same { first.add(t.copies) } else { first };
                // SAFETY: there is room for two tables.
                unsafe { locate(t, offsets, self.place.sample, origin) };
                self.source = Source::new(t, operands, &self.place, &self.pass, offsets, slab_bytes);
                return;
            }
            self.job += t.workers;
        }
    }
}

/// Where the staged elements of one channel come from.
pub(super) struct Source {
    /// Element 0 of the first channel of the block's group in its first sample.
    pub(super) input: *const f32,
    /// The first word of the first slab that the block uses.
    pub(super) weight: *const f32,
    /// Words between the slabs of successive stages.
    pub(super) stage_words: usize,
    /// The table of offsets, one for each copy of a channel. Two of them take turns: some warps may still fetch for one job when
    /// others look up where the elements of the next one lie.
    offsets: SharedPtr<u32>,
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

    /// To the next chunk. Yields whether that was the last one of the job; then the next job begins, in the next slots.
    #[inline(always)]
    pub(super) fn advance(&mut self, t: &Tiling, chunks: u32) -> bool {
        self.weight_slot = if self.weight_slot + 1 == RING { 0 } else { self.weight_slot + 1 };
        self.chunk += 1;
        if self.chunk < chunks {
            return false;
        }
        self.chunk = 0;
        self.input_slot = if self.input_slot + 1 == t.input_ring { 0 } else { self.input_slot + 1 };
        self.stage += 1;
        if self.stage < t.stages {
            return false;
        }
        self.stage = 0;
        true
    }
}

impl Source {
    #[inline(always)]
    fn new(
        t: &Tiling,
        operands: &Operands,
        place: &Place,
        pass: &PassHead,
        offsets: SharedPtr<u32>,
        slab_bytes: u32,
    ) -> Self {
        let slab_words = slab_bytes as usize / 4;
        let stage_words = t.stage_slabs as usize * slab_words;
        let tile = place.group * t.channel_tiles.value() as u32 + place.channel_tile;
        let first_slab = pass.first_slab as usize * slab_words;
        let first_channel = place.group as usize * t.in_per_group as usize;
        let first_input = place.sample as usize * t.input_sample as usize + first_channel * t.input_plane as usize;
        Self {
            input: operands.input.wrapping_add(first_input),
            weight: operands.weight.wrapping_add(tile as usize * t.stages as usize * stage_words + first_slab),
            stage_words,
            offsets,
        }
    }
}

/// Fills the table of offsets for the tile whose first staged element has the given coordinates.
///
/// # Safety
/// The table has room for `copies` words.
#[inline(always)]
unsafe fn locate(t: &Tiling, offsets: SharedPtr<u32>, sample: u32, origin: [u32; 3]) {
    let [depth, height, width] = t.input;
    let mut copy = thread::thread_idx_x();
    while copy < t.copies {
        let (row, x) = copy.divide(t.halo_x);
        let (slice, y) = row.divide(t.halo_y);
        let (n, z) = slice.divide(t.halo_z);
        // Positions before the first one become larger than any extent.
        let z = origin[0].wrapping_add(z);
        let y = origin[1].wrapping_add(y);
        let x = origin[2].wrapping_add(x * t.copy_words);
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
/// The slots of the cursor must not be in use, and the source be the job's, opened last.
#[inline(always)]
unsafe fn fetch(t: &Tiling, source: &Source, chunk: &Chunk, cursor: Cursor, slab_bytes: u32) {
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

/// Starts copying the input of a stage: each warp copies every eighth channel.
#[inline(always)]
unsafe fn fetch_input(t: &Tiling, source: &Source, cursor: Cursor) {
    let (warp, lane) = (thread::thread_idx_x() / 32, warp::lane_id());
    let first = cursor.stage * t.stage_channels;
    let slot = dynamic_shared_mem::<u8>().add(t.input_start + cursor.input_slot * t.input_bytes);
    // The host knows the alignment of the rows to each other, not that of the first one.
    let wide = t.copy_words == 4 && source.input.addr().is_multiple_of(16);
    let mut channel = warp;
    while channel < t.stage_channels {
        let exists = first + channel < t.in_per_group;
        let input = source.input.wrapping_add((first + channel) as usize * t.input_plane as usize);
        let channel_start = slot.add(channel * 4 * t.channel_words);
        let mut copy = lane;
        while copy < t.copies {
            let to = channel_start.add(copy * 4 * t.copy_words);
            // SAFETY: a barrier lies between writing the table and this; the slot has room for the stage's channels; an element that
            // exists lies within the input.
            unsafe {
                let offset = source.offsets.add(copy).load();
                let exists = exists && offset != OUTSIDE;
                let from = input.wrapping_add(if exists { offset as usize } else { 0 });
                if wide {
                    async_copy::copy_16(to.cast(), from.cast(), exists);
                } else {
                    for word in 0..t.copy_words {
                        async_copy::copy_4(to.add(4 * word).cast(), from.wrapping_add(word as usize).cast(), exists);
                    }
                }
            }
            copy += 32;
        }
        channel += THREADS / 32;
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
