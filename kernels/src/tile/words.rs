//! Words: which weights the words of a packed weight hold, and how threads get them.
//!
//! Neighbours in a weight are the kernel elements of an output channel, which are in slabs far apart. Of a small weight
//! each thread loads what its word holds, wherever it is. Of a large one, that is most of what packing takes: a warp
//! loads from up to 32 lines of the cache, and each line comes again for other slabs. There a block copies a portion of
//! the weight to shared memory as it lies, some output channels with all their kernel elements in one piece, and writes
//! all words that have their weights in it.

use core::array;

#[cfg(not(cuda_arch = "sm_70"))]
use cuda_std::{
    async_copy::{commit_group, copy_4, copy_16, wait_group},
    shared::{SharedPtr, dynamic_shared_mem},
    warp,
};
use cuda_std::{mem, thread};

#[cfg(not(cuda_arch = "sm_70"))]
use super::parameters::Portions;
use super::parameters::{Packing, Slab};
#[cfg(not(cuda_arch = "sm_70"))]
use crate::index::Divisor;
use crate::index::Index;

/// Threads of a block that packs a portion.
pub const PORTION_THREADS: u32 = 512;

/// Words of eight input channels, or pairs of them, by eight columns.
const BLOCK_WORDS: u32 = 64;

/// Columns of those.
const BLOCK_COLUMNS: u32 = 8;

/// Input channels of half a slab, if it has 16.
const HALF: u32 = 8;

/// The word of this thread, as the slab and the place within it; none beyond the last one.
#[cfg_attr(gpu, inline(always))]
pub(super) fn word_of_thread(packing: &Packing) -> Option<(u32, u32)> {
    let index = thread::block_idx_x() * thread::block_dim_x() + thread::thread_idx_x();
    if index < packing.words { Some(index.divide(packing.slab_words)) } else { None }
}

/// Gets the weights of the words that are this thread's, of `CHANNELS` input channels each: one word, or those of a
/// portion. Once weights are there or under way, `prepare` is called, and with what it returns `store`, with the slab of
/// a word, its place within that, and its weights.
///
/// # Safety
/// As [`weights_of`]; with portions, the grid has a block of [`PORTION_THREADS`] threads for each of them, with shared
/// memory for the stage's table of slabs and, behind it, `row_words` for each input channel. Otherwise it has a thread
/// for each word, in whole warps.
#[cfg(not(cuda_arch = "sm_70"))]
#[cfg_attr(gpu, inline(always))]
pub(super) unsafe fn for_each_word<const CHANNELS: usize, Prepared: Copy>(
    packing: &Packing,
    portions: &Portions,
    slabs: *const Slab,
    weight: *const f32,
    prepare: impl FnOnce() -> Prepared,
    store: impl Fn(Prepared, u32, u32, [f32; CHANNELS]),
) {
    // SAFETY: the caller's promise.
    unsafe {
        if portions.out_channels > 0 {
            let portion = Portion::of_block(packing, portions);
            portion.copy(packing, portions, slabs, weight);
            portion.for_each_word(packing, portions, prepare(), store);
        } else if let Some((slab, within)) = word_of_thread(packing) {
            // There are whole slabs, so that lanes of a warp have a word each, or none has.
            let weights = weights_of(slab, within, packing, slabs, weight);
            store(prepare(), slab, within, weights);
        }
    }
}

/// The weights in word `within` of a slab, of `CHANNELS` input channels; zero where there are none.
///
/// # Safety
/// The pointers are device pointers: `slabs` to the stage's table of slabs, `weight` to the weight. There is such a word.
#[cfg_attr(gpu, inline(always))]
pub(super) unsafe fn weights_of<const CHANNELS: usize>(
    slab: u32,
    within: u32,
    packing: &Packing,
    slabs: *const Slab,
    weight: *const f32,
) -> [f32; CHANNELS] {
    let (stages, slab) = slab.divide(packing.stage_slabs);
    let (tiles, stage) = stages.divide(packing.stages);
    let (share, tile) = tiles.divide(packing.channel_tiles);
    let (block, word) = (within / BLOCK_WORDS, within % BLOCK_WORDS);
    let (phase, tile_channel) = if packing.close_channels > 0 {
        let column = block * BLOCK_COLUMNS + column(word);
        // A power of two.
        (column >> packing.close_channels.trailing_zeros(), column & (packing.close_channels - 1))
    } else {
        let (channel_block, phase) = block.divide(packing.column_phases);
        (phase, channel_block * BLOCK_COLUMNS + column(word))
    };
    if phase >= packing.column_phases.value() as u32 {
        return [0.0; CHANNELS];
    }
    // SAFETY: there is such a slab, and such a phase.
    let entry = unsafe { entry(slab, phase, packing, slabs) };
    let out_channel = tile * packing.tile_channels + tile_channel;
    let exists = tile_channel < packing.tile_channels && out_channel < packing.out_per_group;
    array::from_fn(|channel| {
        let (tap, in_channel) = source(&entry, word, channel as u32, packing.pair_distance);
        let in_channel = stage * packing.stage_channels + in_channel;
        if !exists || tap == Slab::NO_TAP || in_channel >= channels_of_share(packing, share) {
            return 0.0;
        }
        let row = first_of_share(packing, share) + in_channel as u64;
        let element = (row * packing.out_per_group as u64 + out_channel as u64) * packing.taps as u64 + tap as u64;
        // SAFETY: both channels are within the group, the tap within the kernel.
        unsafe { mem::load_readonly(weight.add(element as usize)) }
    })
}

/// The first input channel of a share, of those of all groups.
#[cfg_attr(gpu, inline(always))]
fn first_of_share(packing: &Packing, share: u32) -> u64 {
    share as u64 * packing.in_per_share as u64
}

/// Input channels of a share that there are.
#[cfg_attr(gpu, inline(always))]
fn channels_of_share(packing: &Packing, share: u32) -> u32 {
    let left = packing.in_channels.saturating_sub(first_of_share(packing, share));
    left.min(packing.in_per_share as u64) as u32
}

/// The entry of a slab of a stage, for one of the phases.
///
/// # Safety
/// There are such ones.
#[cfg_attr(gpu, inline(always))]
unsafe fn entry(slab: u32, phase: u32, packing: &Packing, slabs: *const Slab) -> Slab {
    let entry = slabs.wrapping_add(number_of_entry(slab, phase, packing) as usize);
    // SAFETY: the table has an entry for each slab of a stage and each phase.
    bytemuck::cast(unsafe { mem::load_readonly(entry.cast::<[u32; 4]>()) })
}

/// Its number in the table.
#[cfg_attr(gpu, inline(always))]
fn number_of_entry(slab: u32, phase: u32, packing: &Packing) -> u32 {
    slab * packing.column_phases.value() as u32 + phase
}

/// The column of a word among those of its block.
#[cfg_attr(gpu, inline(always))]
fn column(word: u32) -> u32 {
    word % 32 / 4
}

/// Of one of the channels of a word in a block: the kernel element, and the input channel within the stage.
#[cfg_attr(gpu, inline(always))]
fn source(entry: &Slab, word: u32, channel: u32, distance: u32) -> (u32, u32) {
    let pair = word / 32 * 4 + word % 4;
    let first = (pair & (distance - 1)) + (pair >> distance.trailing_zeros()) * 2 * distance;
    let number = first + distance * channel;
    let half = if number < HALF { 0 } else { 1 };
    (entry.taps[half], entry.channels[half] + number % HALF)
}

/// The portion of a block.
#[cfg(not(cuda_arch = "sm_70"))]
#[derive(Clone, Copy)]
struct Portion {
    /// The stage, counted through all tiles and shares.
    stage: u32,
    /// Its first column block within a slab.
    first_column_block: u32,
    /// Its first input channel, of those of all groups, and how many there are.
    first_in_channel: u64,
    in_channels: u32,
    first_out_channel: u32,
    out_channels: u32,
}

#[cfg(not(cuda_arch = "sm_70"))]
impl Portion {
    #[cfg_attr(gpu, inline(always))]
    fn of_block(packing: &Packing, portions: &Portions) -> Self {
        let (stage, number) = thread::block_idx_x().divide(portions.of_stage);
        let (tiles, stage_of_tile) = stage.divide(packing.stages);
        let (share, tile) = tiles.divide(packing.channel_tiles);
        let first_of_stage = stage_of_tile * packing.stage_channels;
        let first_of_tile = number * portions.out_channels;
        let first_out_channel = tile * packing.tile_channels + first_of_tile;
        let of_tile = packing.tile_channels.saturating_sub(first_of_tile);
        let of_group = packing.out_per_group.saturating_sub(first_out_channel);
        Self {
            stage,
            first_column_block: number * portions.column_blocks.value() as u32,
            first_in_channel: first_of_share(packing, share) + first_of_stage as u64,
            in_channels: packing.stage_channels.min(channels_of_share(packing, share).saturating_sub(first_of_stage)),
            first_out_channel,
            out_channels: portions.out_channels.min(of_tile).min(of_group),
        }
    }

    /// Copies the table and its weights to shared memory: a warp those of an input channel, which lie in one piece.
    ///
    /// # Safety
    /// As [`for_each_word`]; all threads of the block come here together.
    #[cfg_attr(gpu, inline(always))]
    unsafe fn copy(&self, packing: &Packing, portions: &Portions, slabs: *const Slab, weight: *const f32) {
        let mut entry = thread::thread_idx_x();
        while entry < entries(packing) {
            // SAFETY: there is such an entry, and the place is this copy's.
            unsafe { copy_16(table().add(entry), slabs.wrapping_add(entry as usize).cast(), true) };
            entry += PORTION_THREADS;
        }
        let elements = self.out_channels * packing.taps;
        let mut row = thread::thread_idx_x() / 32;
        while row < self.in_channels {
            let in_channel = self.first_in_channel + row as u64;
            let channel = in_channel * packing.out_per_group as u64 + self.first_out_channel as u64;
            let source = weight.wrapping_add((channel * packing.taps as u64) as usize);
            // SAFETY: these channels are within the group, and the places are this warp's.
            unsafe { copy_row(row_of_portion(packing, portions, row), source, elements, portions.taps) };
            row += PORTION_THREADS / 32;
        }
        commit_group();
        wait_group::<0>();
        // SAFETY: all threads of the block come here together.
        unsafe { thread::sync_threads() };
    }

    /// Stores the words that have their weights in it.
    ///
    /// # Safety
    /// As [`for_each_word`], behind [`copy`](Self::copy).
    #[cfg_attr(gpu, inline(always))]
    unsafe fn for_each_word<const CHANNELS: usize, Prepared: Copy>(
        &self,
        packing: &Packing,
        portions: &Portions,
        prepared: Prepared,
        store: impl Fn(Prepared, u32, u32, [f32; CHANNELS]),
    ) {
        let word = thread::thread_idx_x() % BLOCK_WORDS;
        let channel_words = packing.taps + Portions::padding(packing.taps);
        let stage_slabs = packing.stage_slabs.value() as u32;
        let mut block = thread::thread_idx_x() / BLOCK_WORDS;
        while block < stage_slabs * portions.column_blocks.value() as u32 {
            let (slab, column_block) = block.divide(portions.column_blocks);
            let (channel_block, phase) = column_block.divide(packing.column_phases);
            let channel = channel_block * BLOCK_COLUMNS + column(word);
            // SAFETY: there is such a slab, and such a phase.
            let entry = bytemuck::cast(unsafe { table().add(number_of_entry(slab, phase, packing)).load() });
            let weights = array::from_fn(|number| {
                let (tap, row) = source(&entry, word, number as u32, packing.pair_distance);
                let exists = tap != Slab::NO_TAP && channel < self.out_channels && row < self.in_channels;
                if exists {
                    // SAFETY: it has been copied.
                    unsafe { row_of_portion(packing, portions, row).add(channel * channel_words + tap).load() }
                } else {
                    0.0
                }
            });
            let within = (self.first_column_block + column_block) * BLOCK_WORDS + word;
            store(prepared, self.stage * stage_slabs + slab, within, weights);
            block += PORTION_THREADS / BLOCK_WORDS;
        }
    }
}

/// Entries of the table of slabs.
#[cfg(not(cuda_arch = "sm_70"))]
#[cfg_attr(gpu, inline(always))]
fn entries(packing: &Packing) -> u32 {
    packing.stage_slabs.value() as u32 * packing.column_phases.value() as u32
}

/// The table in shared memory.
#[cfg(not(cuda_arch = "sm_70"))]
#[cfg_attr(gpu, inline(always))]
fn table() -> SharedPtr<[u32; 4]> {
    dynamic_shared_mem()
}

/// Where a portion has the weights of an input channel in shared memory, aligned as fours are.
#[cfg(not(cuda_arch = "sm_70"))]
#[cfg_attr(gpu, inline(always))]
fn row_of_portion(packing: &Packing, portions: &Portions, row: u32) -> SharedPtr<f32> {
    table().add(entries(packing)).cast().add(row * portions.row_words)
}

/// Starts to copy some elements, as a warp: by fours, where these are aligned. Behind the `taps` of each output channel
/// there is what pads it.
///
/// # Safety
/// As [`copy_4`], for all of them; the target is aligned as fours are. All lanes of the warp come here together.
#[cfg(not(cuda_arch = "sm_70"))]
#[cfg_attr(gpu, inline(always))]
unsafe fn copy_row(target: SharedPtr<f32>, source: *const f32, elements: u32, taps: Divisor) {
    let padding = Portions::padding(taps.value() as u32);
    // What is padded has whole fours.
    let target_of = |element: u32| target.add(element + element.divide(taps).0 * padding);
    let fours = if source.addr().is_multiple_of(16) { elements / 4 } else { 0 };
    let mut element = 4 * warp::lane_id();
    while element < 4 * fours {
        // SAFETY: the caller's promise.
        unsafe { copy_16(target_of(element).cast(), source.wrapping_add(element as usize).cast(), true) };
        element += 4 * 32;
    }
    let mut element = 4 * fours + warp::lane_id();
    while element < elements {
        // SAFETY: the caller's promise.
        unsafe { copy_4(target_of(element).cast(), source.wrapping_add(element as usize).cast(), true) };
        element += 32;
    }
}
