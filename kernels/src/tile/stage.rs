//! Staging, by the producers: asynchronous copies of input and packed weight into rings of shared memory.
//!
//! A tile's input is a box with its halo: the same box for every channel, so where each element lies is looked up once per job, in a
//! table in shared memory. Elements outside of the input become zero, which is the padding.

use cuda_std::{
    async_copy, hint, mem,
    shared::{SharedPtr, dynamic_shared_mem},
    thread,
};

use super::{
    EMPTY, FULL, PRODUCERS, TEAM_THREADS, TEAMS, multiply,
    parameters::{Chunk, Tiling, rows},
    place::{PassHead, Place, jobs},
};
use crate::index::Index;

/// Weight chunks that are staged at a time.
pub(super) const RING: u32 = 3;

/// Chunks that are on their way at a time.
const LAG: u32 = 1;

/// In the table of offsets: the element does not exist.
const OUTSIDE: u32 = u32::MAX;

/// The tensors that are staged.
#[derive(Clone, Copy)]
pub(super) struct Operands {
    pub(super) tables: *const [u32; 4],
    pub(super) input: *const f32,
    pub(super) weight: *const f32,
}

/// A position in the sequence of chunks: all chunks of the first stage, then those of the next.
#[derive(Clone, Copy)]
pub(super) struct Cursor {
    stage: u32,
    pub(super) chunk: u32,
    /// The slot of the input ring.
    pub(super) input_slot: u32,
    /// The slot of the weight ring.
    pub(super) weight_slot: u32,
}

impl Cursor {
    pub(super) const START: Self = Self { stage: 0, chunk: 0, input_slot: 0, weight_slot: 0 };

    /// To the next chunk, or the first one of the next job, in the next slots.
    #[inline(always)]
    pub(super) fn advance(&mut self, t: &Tiling, chunks: u32) {
        self.weight_slot = (self.weight_slot + 1) % RING;
        self.chunk += 1;
        if self.chunk == chunks {
            self.chunk = 0;
            self.input_slot = if self.input_slot + 1 == t.input_ring { 0 } else { self.input_slot + 1 };
            self.stage = if self.stage + 1 == t.stages { 0 } else { self.stage + 1 };
        }
    }
}

/// What the producers do: fetch what the teams are going to need, of one job after the other, as far ahead as the rings are long.
///
/// # Safety
/// As the kernels; all producers of the block come here together.
#[inline(always)]
pub(super) unsafe fn produce(t: &Tiling, operands: &Operands, slab_bytes: u32) {
    let mut cursor = Cursor::START;
    let mut fetched = 0;
    // SAFETY: the caller's promise. A slot of a ring is filled when the teams have said that it is empty, and they are told when
    // its copies are complete.
    unsafe {
        for job in jobs(t) {
            let place = Place::new(t, job);
            let pass = PassHead::load(operands.tables, place.pass);
            if pass.chunks == 0 {
                continue;
            }
            let source = Source::open(t, operands, &place, &pass, slab_bytes);
            for _ in 0..t.stages * pass.chunks {
                if fetched >= RING {
                    await_empty(fetched);
                }
                let chunk = chunk(t, operands.tables, pass.first_chunk + cursor.chunk);
                if cursor.chunk == 0 {
                    fetch_input(t, &source, cursor);
                }
                fetch_weight(t, &source, &chunk, cursor, slab_bytes);
                async_copy::commit_group();
                if fetched >= LAG {
                    async_copy::wait_group::<LAG>();
                    announce(fetched - LAG);
                }
                fetched += 1;
                cursor.advance(t, pass.chunks);
            }
        }
        async_copy::wait_group::<0>();
        for number in fetched.saturating_sub(LAG)..fetched {
            announce(number);
        }
        // Nobody leaves while a team is still to come to a barrier.
        for number in fetched.saturating_sub(RING)..fetched {
            await_empty(number);
        }
    }
}

/// Tells the teams that a chunk is complete.
#[inline(always)]
unsafe fn announce(number: u32) {
    multiply::publish();
    for team in 0..TEAMS {
        // SAFETY: all producers come here, and the team waits for it.
        unsafe { thread::arrive_named(FULL + team * RING + number % RING, TEAM_THREADS + PRODUCERS) };
    }
}

/// Waits until no team needs the slot of a chunk any more.
#[inline(always)]
unsafe fn await_empty(number: u32) {
    for team in 0..TEAMS {
        // SAFETY: all producers come here, and the team comes too.
        unsafe { thread::sync_named(EMPTY + team * RING + number % RING, TEAM_THREADS + PRODUCERS) };
    }
}

/// The thread's number among the producers, who are the last threads of a block.
#[inline(always)]
fn producer() -> u32 {
    thread::thread_idx_x() + PRODUCERS - thread::block_dim_x()
}

/// Where a job's input and weight come from.
struct Source {
    /// Element 0 of the first channel of the job's group in its first sample.
    input: *const f32,
    /// The first word of the first slab that the job uses.
    weight: *const f32,
    /// Words between the slabs of successive stages.
    stage_words: usize,
}

/// The table of offsets, one for each copy of a channel. Each thread writes and reads entries of its own.
#[inline(always)]
fn offsets() -> SharedPtr<u32> {
    dynamic_shared_mem()
}

impl Source {
    /// Looks up where the elements of a job lie.
    ///
    /// # Safety
    /// As [`produce`].
    #[inline(always)]
    unsafe fn open(t: &Tiling, operands: &Operands, place: &Place, pass: &PassHead, slab_bytes: u32) -> Self {
        let origin = [0, 1, 2].map(|axis| place.origin[axis].wrapping_add(pass.origin[axis]));
        // SAFETY: there is room for the table.
        unsafe { locate(t, place.sample, origin) };
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
        }
    }
}

/// Fills the table of offsets for the tile whose first staged element has the given coordinates.
///
/// # Safety
/// The table has room for `copies` words.
#[inline(always)]
unsafe fn locate(t: &Tiling, sample: u32, origin: [u32; 3]) {
    let [depth, height, width] = t.input;
    let mut copy = producer();
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
        unsafe { offsets().add(copy).store(if inside { offset } else { OUTSIDE }) };
        copy += PRODUCERS;
    }
}

/// Starts copying the weights of a chunk.
///
/// # Safety
/// The cursor's slot is empty.
#[inline(always)]
unsafe fn fetch_weight(t: &Tiling, source: &Source, chunk: &Chunk, cursor: Cursor, slab_bytes: u32) {
    let weight = source.weight.wrapping_add(cursor.stage as usize * source.stage_words);
    let weight = weight.wrapping_add(chunk.first_slab as usize * (slab_bytes / 4) as usize);
    let slot = dynamic_shared_mem::<u8>().add(t.weight_start + cursor.weight_slot * t.weight_bytes);
    let end = (chunk.slabs & !Chunk::PROMOTE) * slab_bytes;
    let mut byte = producer() * 16;
    while byte < end {
        // SAFETY: the slot has room for a chunk, and the packed weight has its slabs.
        unsafe { async_copy::copy_16(slot.add(byte).cast(), weight.wrapping_add(byte as usize / 4).cast(), true) };
        byte += PRODUCERS * 16;
    }
}

/// Starts copying the input of a stage. A thread copies the same elements of all channels, so that it looks each up once.
///
/// # Safety
/// The cursor's slot is empty, and the table of offsets is that of the job.
#[inline(always)]
unsafe fn fetch_input(t: &Tiling, source: &Source, cursor: Cursor) {
    let first = cursor.stage * t.stage_channels;
    let channels = t.in_per_group - first;
    let input = source.input.wrapping_add(first as usize * t.input_plane as usize);
    let slot = dynamic_shared_mem::<u8>().add(t.input_start + cursor.input_slot * t.input_bytes);
    // The host knows the alignment of the rows to each other, not that of the first one.
    let wide = t.copy_words == 4 && input.addr().is_multiple_of(16);
    // Distances in registers once, not a register for each multiple of them.
    let plane = hint::opaque(t.input_plane as u32) as usize;
    let channel_bytes = hint::opaque(4 * t.channel_words);
    let mut copy = producer();
    while copy < t.copies {
        // SAFETY: this thread wrote the entry.
        let offset = unsafe { offsets().add(copy).load() };
        let inside = offset != OUTSIDE;
        let mut from = input.wrapping_add(if inside { offset as usize } else { 0 });
        let mut to = slot.add(copy * 4 * t.copy_words).address();
        for channel in (0..t.stage_channels).step_by(8) {
            for part in 0..8 {
                let exists = inside && channel + part < channels;
                // SAFETY: the slot has room for the stage's channels; an element that exists lies within the input.
                unsafe { copy_words(t, SharedPtr::from_address(to), from, exists, wide) };
                from = hint::opaque_pointer(from.wrapping_add(plane));
                to = hint::opaque(to + channel_bytes);
            }
        }
        copy += PRODUCERS;
    }
}

/// Starts copying what one entry of the table stands for.
///
/// # Safety
/// As [`async_copy::copy_16`] if `wide`, else as [`async_copy::copy_4`] for each word.
#[inline(always)]
unsafe fn copy_words(t: &Tiling, to: SharedPtr<u8>, from: *const f32, exists: bool, wide: bool) {
    // SAFETY: the caller's promise.
    unsafe {
        if wide {
            return async_copy::copy_16(to.cast(), from.cast(), exists);
        }
        for word in 0..t.copy_words {
            async_copy::copy_4(to.add(4 * word).cast(), from.wrapping_add(word as usize).cast(), exists);
        }
    }
}

/// The table entry of a chunk.
///
/// # Safety
/// The table has such a chunk.
#[inline(always)]
pub(super) unsafe fn chunk(t: &Tiling, tables: *const [u32; 4], number: u32) -> Chunk {
    let row = tables.wrapping_add((t.first_chunk_row + number * rows::<Chunk>()) as usize);
    // SAFETY: the caller's promise.
    bytemuck::cast(unsafe { mem::load_readonly(row) })
}
