//! Converting: threads that load the input, make `f16` numbers of it, and bring these to shared memory, some stages
//! ahead of the teams. One of them has the packed weights copied there.
//!
//! A thread has eight input channels of some neighbouring positions, and the next ones are on their way while it waits
//! for room to write these.

use cuda_std::{
    async_copy::copy_bulk,
    half, hint,
    math::larger_magnitude,
    mem::{self, Transfer},
    shared::{SharedPtr, dynamic_shared_mem},
    thread, warp,
};

use super::{
    CHANNELS, CONVERTERS, EIGHT_BYTES, Job, Operands, Patch, SMALL_PARTS, stage, thread_positions,
    verdict::{self, Judge},
    weight_slot,
};
use crate::{
    index::Index,
    jobs::Jobs,
    tile::{Exponent, Ring, WEIGHT_HEADER, finite, power_of_two, split},
    unrolled::unrolled,
};

/// Arrivals that make a stage full: one of each warp, and that of the thread that copies weights.
pub(super) const ARRIVALS: u32 = CONVERTERS / 32 + 1;

/// The values of a thread: eight channels of some positions.
type Values<const POSITIONS: usize> = [[f32; POSITIONS]; CHANNELS as usize];

/// What becomes of them: of each position four words, with two channels each.
type Words<const POSITIONS: usize> = [[u32; 4]; POSITIONS];

/// Converts the input of all jobs of the block.
///
/// # Safety
/// As the kernels; all threads that convert come here together, once everything is set up.
#[cfg_attr(gpu, inline(always))]
pub(super) unsafe fn produce<const SPLIT: bool>(t: &Patch, operands: &Operands) {
    const WHOLE: usize = thread_positions(false) as usize;
    const PARTS: usize = thread_positions(true) as usize;
    // SAFETY: the caller's promise.
    unsafe {
        match (SPLIT, t.has_all != 0 && is_aligned(operands, thread_positions(SPLIT))) {
            (true, true) => produce_by::<PARTS, true, true>(t, operands),
            (true, false) => produce_by::<PARTS, true, false>(t, operands),
            (false, true) => produce_by::<WHOLE, false, true>(t, operands),
            (false, false) => produce_by::<WHOLE, false, false>(t, operands),
        }
    }
}

/// Whether vectors of so many positions are aligned in the input: planes are multiples of four.
#[cfg_attr(gpu, inline(always))]
fn is_aligned(operands: &Operands, positions: u32) -> bool {
    operands.input.addr().is_multiple_of(4 * positions as usize)
}

/// The same, where tiles and chunks are `WHOLE` and the input is aligned, or for any layer.
///
/// # Safety
/// As [`produce`].
#[cfg_attr(gpu, inline(always))]
unsafe fn produce_by<const POSITIONS: usize, const SPLIT: bool, const WHOLE: bool>(t: &Patch, operands: &Operands)
where
    [f32; POSITIONS]: Transfer,
{
    let mut ring = Ring::new(t.ring);
    let mut judge = Judge::<SPLIT>::new();
    let mut jobs = Jobs::all();
    let Some(mut job) = Job::next(t, &mut jobs) else { return };
    let mut upcoming = Job::next(t, &mut jobs);
    let mut source = Source::<POSITIONS>::new(t, operands, &job);
    let mut lines = Lines::new(t, operands, &job, upcoming.as_ref());
    let is_first_thread = hint::opaque(u32::from(thread::thread_idx_x().is_multiple_of(CONVERTERS))) != 0;
    let mut chunk = 0;
    // Chunks of weights that have been copied, as far as they stay.
    let mut kept = 0;
    // SAFETY: the caller's promise. A stage is filled when the teams have left it.
    unsafe {
        let mut values = source.load::<WHOLE>(t, operands);
        (1..=Lines::AHEAD).for_each(|ahead| lines.prefetch(t, 0, ahead));
        loop {
            judge.look_at(largest(&values));
            let [words, small] = convert::<POSITIONS, SPLIT>(&values, judge.exponent());
            let (weight_tile, this_chunk) = (job.weight_tile, chunk);
            let mut verdict = None;
            let mut is_over = false;
            chunk += 1;
            let is_last = chunk == t.chunks;
            if is_last {
                chunk = 0;
                verdict = judge.judge();
                match (verdict, upcoming) {
                    (None, _) => source = Source::new(t, operands, &job),
                    (_, Some(next)) => {
                        job = next;
                        upcoming = Job::next(t, &mut jobs);
                        source = Source::new(t, operands, &job);
                        lines = Lines::new(t, operands, &job, upcoming.as_ref());
                    }
                    _ => is_over = true,
                }
            }
            if !is_over {
                // On their way while these are stored.
                values = source.load::<WHOLE>(t, operands);
                lines.prefetch(t, chunk, Lines::AHEAD);
            }
            ring.await_empty();
            if is_first_thread {
                if is_last {
                    verdict::leave(&ring, verdict);
                }
                if t.keeps_weights == 0 || kept < t.chunks {
                    kept += 1;
                    copy_weights(t, operands, &ring, weight_tile, this_chunk);
                } else {
                    ring.fill();
                }
            }
            store(t, stage(&ring), words);
            if SPLIT {
                store(t, stage(&ring).add(SMALL_PARTS), small);
            }
            warp::sync_warp(u32::MAX);
            if warp::lane_id() == 0 {
                ring.fill();
            }
            ring.advance();
            if is_over {
                break;
            }
        }
    }
}

/// Has the packed weights of a chunk copied to where they belong with a stage, which is full when they are there.
///
/// # Safety
/// As [`produce`]; one thread does so, for a stage that is empty.
#[cfg_attr(gpu, inline(always))]
unsafe fn copy_weights(t: &Patch, operands: &Operands, ring: &Ring, tile: u32, chunk: u32) {
    let source = operands.weight.wrapping_add(WEIGHT_HEADER as usize).cast::<u8>();
    let source = source.wrapping_add((tile * t.chunks + chunk) as usize * t.chunk_bytes as usize);
    let target = dynamic_shared_mem::<u8>().add(t.weights_start + weight_slot(t, ring, chunk) * t.chunk_bytes);
    // SAFETY: the caller's promise.
    unsafe {
        ring.full().arrive_expect(t.chunk_bytes);
        copy_bulk(target, source, t.chunk_bytes, ring.full());
    }
}

/// The first channel of a chunk and the first position of a tile that this thread has: eight channels, and so many
/// positions.
#[cfg_attr(gpu, inline(always))]
fn part<const POSITIONS: usize>(t: &Patch) -> [u32; 2] {
    let positions = POSITIONS as u32;
    let warp = thread::thread_idx_x() % CONVERTERS / 32;
    // A power of two.
    let blocks = t.chunk_blocks;
    let block = warp & (blocks - 1);
    [block * CHANNELS, ((warp >> blocks.trailing_zeros()) * 32 + warp::lane_id()) * positions]
}

/// Where a channel and a position of a job are in the input, and whether there is such a position.
#[cfg_attr(gpu, inline(always))]
fn place(t: &Patch, operands: &Operands, job: &Job, [channel, position]: [u32; 2]) -> (*const f32, bool) {
    let position = job.first + position;
    let (sample, within) = position.divide(t.sample);
    // Behind the last position anything may come of it.
    let plane = sample.wrapping_mul(t.in_channels).wrapping_add(job.group * t.in_per_group + channel);
    let plane = (plane as usize).wrapping_mul(t.sample.value() as usize);
    (operands.input.wrapping_add(plane.wrapping_add(within as usize)), position < job.end)
}

/// What a thread loads of a job, chunk by chunk.
struct Source<const POSITIONS: usize> {
    /// The first of its channels in the next chunk.
    next: *const f32,
    /// Channels of the group from that one on; none, if its positions do not exist.
    channels: u32,
}

impl<const POSITIONS: usize> Source<POSITIONS>
where
    [f32; POSITIONS]: Transfer,
{
    #[cfg_attr(gpu, inline(always))]
    fn new(t: &Patch, operands: &Operands, job: &Job) -> Self {
        let part = part::<POSITIONS>(t);
        let (next, exists) = place(t, operands, job, part);
        let [channel, _] = part;
        Self { next, channels: if exists { t.in_per_group.saturating_sub(channel) } else { 0 } }
    }

    /// The values of the next chunk; zero in channels and positions that there are not. Where tiles and chunks are
    /// `WHOLE` there are all, and the input is aligned.
    ///
    /// # Safety
    /// As [`produce`].
    #[cfg_attr(gpu, inline(always))]
    unsafe fn load<const WHOLE: bool>(&mut self, t: &Patch, operands: &Operands) -> Values<POSITIONS> {
        // SAFETY: the caller's promise: where there are channels, the positions are within the input.
        unsafe {
            if WHOLE {
                self.load_by(t, |_, place| mem::load_readonly(place.cast()))
            } else if is_aligned(operands, POSITIONS as u32) {
                self.load_by(t, |exists, place| mem::load_readonly_if(exists, place.cast()))
            } else {
                self.load_by(t, |exists, place| {
                    let mut words = [0.0; POSITIONS];
                    unrolled!(WORD in 0..POSITIONS, at most 4 => {
                        words[WORD] = mem::load_readonly_if(exists, place.wrapping_add(WORD));
                    });
                    words
                })
            }
        }
    }

    /// The same, with a function that loads the values of a channel if they exist.
    #[cfg_attr(gpu, inline(always))]
    fn load_by(&mut self, t: &Patch, load: impl Fn(bool, *const f32) -> [f32; POSITIONS]) -> Values<POSITIONS> {
        let mut values = [[0.0; POSITIONS]; CHANNELS as usize];
        let mut place = self.next;
        unrolled!(CHANNEL in 0..{ CHANNELS as usize }, at most 8 => {
            values[CHANNEL] = load((CHANNEL as u32) < self.channels, place);
            place = next_channel(t, place);
        });
        let others = t.chunk_channels() - CHANNELS;
        self.next = place.wrapping_add(others as usize * t.sample.value() as usize);
        self.channels = self.channels.saturating_sub(t.chunk_channels());
        values
    }
}

/// The same position in the next channel. An addition, which the compiler would make a product of with the channel's
/// number.
#[cfg_attr(gpu, inline(always))]
fn next_channel(t: &Patch, place: *const f32) -> *const f32 {
    hint::opaque_pointer(place.wrapping_add(t.sample.value() as usize))
}

/// The lines of the cache that are brought closer, one by each thread in each chunk, some chunks before it is loaded.
struct Lines {
    /// Those of this job and of the next one.
    jobs: [Line; 2],
}

/// The line of a thread in the first chunk of a job.
struct Line {
    first: *const f32,
    /// Channels of the group from its channel on; none, if there is no such line.
    channels: u32,
}

impl Lines {
    /// How many chunks before.
    const AHEAD: u32 = 3;

    /// Those of a job and of the next one, if there is one.
    #[cfg_attr(gpu, inline(always))]
    fn new(t: &Patch, operands: &Operands, job: &Job, next: Option<&Job>) -> Self {
        let none = Line { first: operands.input, channels: 0 };
        Self { jobs: [Line::new(t, operands, job), next.map_or(none, |next| Line::new(t, operands, next))] }
    }

    /// Brings the line of a chunk closer that is so many further on.
    ///
    /// # Safety
    /// As [`produce`].
    #[cfg_attr(gpu, inline(always))]
    unsafe fn prefetch(&self, t: &Patch, chunk: u32, ahead: u32) {
        let chunk = chunk + ahead.min(t.chunks);
        let (line, chunk) = if chunk < t.chunks { (&self.jobs[0], chunk) } else { (&self.jobs[1], chunk - t.chunks) };
        let channel = chunk * t.chunk_channels();
        if channel < line.channels {
            // SAFETY: the caller's promise: the channel has such a position.
            unsafe { mem::prefetch(line.first.wrapping_add(channel as usize * t.sample.value() as usize)) };
        }
    }
}

impl Line {
    /// Positions of a line.
    const POSITIONS: u32 = 32;

    #[cfg_attr(gpu, inline(always))]
    fn new(t: &Patch, operands: &Operands, job: &Job) -> Self {
        let thread = thread::thread_idx_x() % CONVERTERS;
        // A power of two.
        let lines = t.tile_positions / Self::POSITIONS;
        let channel = thread >> lines.trailing_zeros();
        let (first, exists) = place(t, operands, job, [channel, (thread & (lines - 1)) * Self::POSITIONS]);
        let exists = exists && channel < t.chunk_channels();
        Self { first, channels: if exists { t.in_per_group.saturating_sub(channel) } else { 0 } }
    }
}

/// The largest finite magnitude of some values, which are looked at one by one only if the largest one is not finite.
#[cfg_attr(gpu, inline(always))]
fn largest<const POSITIONS: usize>(values: &Values<POSITIONS>) -> f32 {
    let largest_of = |of: fn(f32) -> f32| {
        let mut largest = 0.0;
        unrolled!(CHANNEL in 0..{ CHANNELS as usize }, at most 8 => {
            unrolled!(POSITION in 0..POSITIONS, at most 4 => {
                largest = larger_magnitude(largest, of(values[CHANNEL][POSITION]));
            });
        });
        largest
    };
    let largest = largest_of(|value| value);
    if largest < f32::INFINITY { largest } else { largest_of(finite) }
}

/// The values times a power of two as `f16`: the words, or those of their large parts and those of their small ones.
#[cfg_attr(gpu, inline(always))]
fn convert<const POSITIONS: usize, const SPLIT: bool>(
    values: &Values<POSITIONS>,
    exponent: Exponent,
) -> [Words<POSITIONS>; 2] {
    let scale = power_of_two(exponent);
    let mut words = [[[0; 4]; POSITIONS]; 2];
    unrolled!(POSITION in 0..POSITIONS, at most 4 => {
        unrolled!(PAIR in 0..4, at most 4 => {
            let pair = [2 * PAIR, 2 * PAIR + 1].map(|channel| values[channel][POSITION] * scale);
            if SPLIT {
                let parts = pair.map(split::<0>);
                words[0][POSITION][PAIR] = half::pack(parts.map(|(large, _)| large));
                words[1][POSITION][PAIR] = half::pack(parts.map(|(_, small)| small));
            } else {
                words[0][POSITION][PAIR] = half::pack(pair);
            }
        });
    });
    words
}

/// Brings words of this thread to a stage, or to the small parts of one.
///
/// # Safety
/// The stage is empty.
#[cfg_attr(gpu, inline(always))]
unsafe fn store<const POSITIONS: usize>(t: &Patch, stage: SharedPtr<u8>, words: Words<POSITIONS>) {
    let [channel, position] = part::<POSITIONS>(t);
    let place = stage.add(channel / CHANNELS * t.block_bytes + position / 8 * EIGHT_BYTES + position % 8 * 16).cast();
    unrolled!(POSITION in 0..POSITIONS, at most 4 => {
        // SAFETY: the caller's promise; these places are this thread's.
        unsafe { place.add(POSITION as u32).store(words[POSITION]) };
    });
}
