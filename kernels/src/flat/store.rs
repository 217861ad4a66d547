//! Storing: each warp brings the sums of eight of its channels to shared memory, and stores them in lines. With two
//! residues along x, these are both halves of its rows, and lie side by side.
//!
//! Where the positions of the tile lie in the output is found once, and kept in a table. Lanes begin where sectors of
//! the memory do, so that most of what a warp stores at a time are whole ones.

use cuda_std::{
    math, mem,
    shared::{SharedPtr, dynamic_shared_mem},
    thread, warp,
};

use super::{Flat, Job, LINE, Operands, STAGED_CHANNEL, Team, WARP_OUTPUT_BYTES, team_positions};
use crate::{
    index::Index,
    tile::{Product, SECTOR_WORDS, TEAM_THREADS, sync_team},
    unrolled::unrolled,
};

/// Words of a line that a lane has: one more where lines do not begin with sectors.
const LANE_WORDS: usize = LINE as usize / 32 + 1;

/// Where a team stores its sums.
pub(super) struct Target<'a> {
    pub(super) t: &'a Flat,
    pub(super) operands: &'a Operands,
    pub(super) job: Job,
}

/// What becomes of a lane's products: they are multiplied by two numbers, and the bias of either channel is added.
#[derive(Clone, Copy)]
pub(super) struct Sum {
    pub(super) scales: [f32; 2],
    pub(super) biases: [f32; 2],
}

/// Eight channels of a warp.
#[derive(Clone, Copy)]
struct Channels {
    /// The first of them within its group, and how many there are.
    first: u32,
    count: u32,
    /// Which of the residues along an outer axis that are joined.
    residue: u32,
}

impl Target<'_> {
    /// The biases of the lane's channels: of the first eight of the warp one, and one of the second eight.
    ///
    /// # Safety
    /// As the kernels.
    #[cfg_attr(gpu, inline(always))]
    pub(super) unsafe fn biases(&self) -> [f32; 2] {
        [0, 1].map(|half| {
            let channels = self.channels(half);
            let channel = channels.first + warp::lane_id() / 4;
            let exists = !self.operands.bias.is_null() && warp::lane_id() / 4 < channels.count;
            let bias = self.operands.bias.wrapping_add((self.job.group * self.t.out_per_group + channel) as usize);
            // SAFETY: the caller's promise: there is such a channel.
            unsafe { mem::load_readonly_if(exists, bias) }
        })
    }

    /// Stores what becomes of a product.
    ///
    /// # Safety
    /// As the kernels; all threads of the team come here together, and the product is complete.
    #[cfg_attr(gpu, inline(always))]
    pub(super) unsafe fn store<const BLOCKS: usize>(&self, product: &impl Product<BLOCKS, 1>, sum: Sum) {
        // SAFETY: the caller's promise; barriers lie between writing and reading.
        unsafe {
            sync_team();
            self.find_places::<BLOCKS>();
            sync_team();
            if self.t.residues[2] > 1 {
                self.store_rows::<BLOCKS, 2, 0>(product, sum);
            } else {
                unrolled!(HALF in 0..2, at most 2 => {
                    self.store_rows::<BLOCKS, 1, HALF>(product, sum);
                });
            }
        }
    }

    /// Stores one half of the warp's rows, or both, which are so many residues along x.
    ///
    /// # Safety
    /// As [`store`](Self::store), when places have been found.
    #[cfg_attr(gpu, inline(always))]
    unsafe fn store_rows<const BLOCKS: usize, const RESIDUES: usize, const HALF: usize>(
        &self,
        product: &impl Product<BLOCKS, 1>,
        sum: Sum,
    ) {
        let channels = self.channels(HALF as u32);
        if channels.count == 0 {
            return;
        }
        unrolled!(PART in 0..{ lines(BLOCKS, RESIDUES) }, at most 4 => {
            // SAFETY: the caller's promise; barriers lie between writing and reading.
            unsafe {
                stage::<BLOCKS, RESIDUES, PART, HALF>(product, sum);
                warp::sync_warp(u32::MAX);
                self.store_lines::<BLOCKS, RESIDUES>(&channels, PART as u32);
                warp::sync_warp(u32::MAX);
            }
        });
    }

    /// Finds where the outputs of the team's positions lie in a channel, for the first residue along an outer axis, and how
    /// many of those there are. Residues along x lie side by side.
    ///
    /// # Safety
    /// As [`store`](Self::store).
    #[cfg_attr(gpu, inline(always))]
    unsafe fn find_places<const BLOCKS: usize>(&self) {
        let t = self.t;
        let team = Team::this(t);
        let (_, first) = team.positions::<BLOCKS>(t);
        let residues = t.residues[2];
        let mut number = thread::thread_idx_x() % TEAM_THREADS;
        while number < team_positions(BLOCKS) * residues {
            let (position, residue) = if residues > 1 { (number / 2, number % 2) } else { (number, 0) };
            let (rows, x) = (self.job.first + first + position).divide(t.row);
            let (slice, row) = rows.divide(t.slice);
            let (z, y, x) = (slice * t.residues[0], row * t.residues[1], x * residues + residue);
            let is_output = x < t.output[2] && y < t.output[1] && z < t.output[0];
            let left = if t.residues[0] > 1 { t.output[0].wrapping_sub(z) } else { t.output[1].wrapping_sub(y) };
            // Behind the last output anything may come of it.
            let place = z.wrapping_mul(t.output[1]).wrapping_add(y).wrapping_mul(t.output[2]).wrapping_add(x);
            // SAFETY: the caller's promise: the entry is this thread's.
            unsafe { team.places().add(number).store([place, if is_output { left } else { 0 }]) };
            number += TEAM_THREADS;
        }
    }

    /// The first eight channels of the warp, or the second ones.
    #[cfg_attr(gpu, inline(always))]
    fn channels(&self, half: u32) -> Channels {
        let t = self.t;
        let block = Team::this(t).first_channels() / 8 + thread::thread_idx_x() % TEAM_THREADS / 32 * 2 + half;
        let in_tile = (block >> t.joined) * 8;
        let first = self.job.channel_tile * t.tile_channels + in_tile;
        let exist = in_tile < t.tile_channels && first < t.out_per_group;
        let count = if exist { (t.out_per_group - first).min(8) } else { 0 };
        // Residues along x, one or two, are both halves of the warp's rows.
        let residue = (block & ((1 << t.joined) - 1)) >> (t.residues[2] - 1);
        Channels { first, count, residue }
    }

    /// Stores what is staged: a line of each channel.
    ///
    /// # Safety
    /// As [`store`](Self::store), when it is staged.
    #[cfg_attr(gpu, inline(always))]
    unsafe fn store_lines<const BLOCKS: usize, const RESIDUES: usize>(&self, channels: &Channels, part: u32) {
        let t = self.t;
        let team = Team::this(t);
        let (row, _) = team.positions::<BLOCKS>(t);
        let residue = (row << t.joined) / RESIDUES as u32 + channels.residue;
        let words = team_words(BLOCKS, RESIDUES);
        let places = team.places().add(part * LINE);
        let first_channel = self.job.group * t.out_per_group + channels.first;
        let plane = self.job.sample * t.groups.value() as u32 * t.out_per_group + first_channel;
        let output = self.operands.output.wrapping_add(plane as usize * t.output_plane as usize);
        let output = output.wrapping_add((residue * t.residue_step) as usize);
        let words = (words - part * LINE).min(LINE);
        // SAFETY: the caller's promise: there are such channels.
        unsafe {
            let [first, _] = places.load();
            let words_of_lane = |output: *mut f32| {
                let behind_sector = (output.wrapping_add(first as usize).addr() / 4) as u32 % SECTOR_WORDS;
                Words::find(places, words, behind_sector)
            };
            let output_of = |channel: u32| output.wrapping_add(channel as usize * t.output_plane as usize);
            let staged_of = |channel: u32| staged().add(channel * STAGED_CHANNEL);
            let are_alike = t.output_plane.is_multiple_of(SECTOR_WORDS);
            if are_alike && channels.count == 8 {
                // All of them one behind the other, so that a channel's words are loaded while those before are stored.
                let words = words_of_lane(output);
                unrolled!(CHANNEL in 0..8, at most 8 => {
                    words.store(output_of(CHANNEL as u32), staged_of(CHANNEL as u32), residue);
                });
            } else {
                for channel in 0..channels.count {
                    let output = output_of(channel);
                    words_of_lane(output).store(output, staged_of(channel), residue);
                }
            }
        }
    }
}

/// A lane's words of a line, every 32nd one.
struct Words {
    /// The first one; before the first word of the line it is larger than any number of them.
    first: u32,
    /// Words of the line.
    count: u32,
    /// Where each lies in the output, and how many residues there are.
    places: [[u32; 2]; 6],
}

impl Words {
    /// Those of a line that begins so many words behind the beginning of a sector.
    ///
    /// # Safety
    /// The table has the places of the line.
    #[cfg_attr(gpu, inline(always))]
    unsafe fn find(table: SharedPtr<[u32; 2]>, count: u32, behind_sector: u32) -> Self {
        let first = warp::lane_id().wrapping_sub(behind_sector);
        // As many as the macro unrolls: registers have no addresses.
        let mut places = [[0; 2]; 6];
        unrolled!(NEXT in 0..LANE_WORDS, at most 6 => {
            let word = first.wrapping_add(NEXT as u32 * 32);
            // SAFETY: the caller's promise.
            places[NEXT] = unsafe { table.add(word).load_if(word < count, [0; 2]) };
        });
        Self { first, count, places }
    }

    /// Stores them, where there is such a residue.
    ///
    /// # Safety
    /// The line is staged there, and `output` is what the places are counted from.
    #[cfg_attr(gpu, inline(always))]
    unsafe fn store(&self, output: *mut f32, staged: SharedPtr<f32>, residue: u32) {
        // SAFETY: the caller's promise.
        unsafe {
            let mut values = [0.0; 6];
            unrolled!(NEXT in 0..LANE_WORDS, at most 6 => {
                let word = self.first.wrapping_add(NEXT as u32 * 32);
                values[NEXT] = staged.add(word).load_if(word < self.count, 0.0);
            });
            unrolled!(NEXT in 0..LANE_WORDS, at most 6 => {
                let [place, residues] = self.places[NEXT];
                mem::store_below(residue as i32, residues as i32, output.wrapping_add(place as usize), values[NEXT]);
            });
        }
    }
}

/// Outputs of a channel that a team has, with so many residues along x.
const fn team_words(blocks: usize, residues: usize) -> u32 {
    (blocks * 8 * residues) as u32
}

/// Lines of these.
const fn lines(blocks: usize, residues: usize) -> usize {
    team_words(blocks, residues).div_ceil(LINE) as usize
}

/// Blocks of positions of a line.
const fn line_blocks(residues: usize) -> usize {
    LINE as usize / 8 / residues
}

/// Brings a line of what becomes of eight channels to shared memory: of one half of the warp's rows, or of both, which
/// are residues of the same channels.
///
/// # Safety
/// As [`Target::store`]; nobody reads what was staged before.
#[cfg_attr(gpu, inline(always))]
unsafe fn stage<const BLOCKS: usize, const RESIDUES: usize, const PART: usize, const HALF: usize>(
    product: &impl Product<BLOCKS, 1>,
    sum: Sum,
) {
    let lane = warp::lane_id();
    let first = staged().add(lane / 4 * STAGED_CHANNEL + lane % 4 * 2 * RESIDUES as u32);
    unrolled!(BLOCK in 0..BLOCKS, at most 32 => {
        if const { BLOCK / line_blocks(RESIDUES) == PART } {
            let place = first.add((BLOCK % line_blocks(RESIDUES) * 8 * RESIDUES) as u32);
            // SAFETY: the caller's promise; the words are this thread's.
            unsafe {
                let values = product.values::<0, BLOCK>();
                let [most, rest] = sum.scales;
                let pair = |half: usize| {
                    [values[2 * half], values[2 * half + 1]].map(|value| math::fma(value * most, rest, sum.biases[half]))
                };
                if RESIDUES > 1 {
                    let [[a, b], [c, d]] = [pair(0), pair(1)];
                    place.cast().store([a, c, b, d]);
                } else {
                    place.cast().store(pair(HALF));
                }
            }
        }
    });
}

/// What the warp stages.
#[cfg_attr(gpu, inline(always))]
fn staged() -> SharedPtr<f32> {
    dynamic_shared_mem::<u8>().add(super::OUTPUT_START + thread::thread_idx_x() / 32 * WARP_OUTPUT_BYTES).cast()
}
