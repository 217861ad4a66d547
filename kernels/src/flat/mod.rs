//! Flat: layers of stride 1 as products of matrices that the tensor cores read from shared memory, all of both.
//!
//! An output position reads the input at some distance, the same for all positions:
//! `output + padding - tap * dilation`. Let the positions of a sample be numbered row by row, slice by slice, with as
//! many beyond each row and slice as taps reach, where the input is zero. Then a tap's distance is one number, along
//! this *flat* axis, whatever the dimensions; and a tile is a stretch of positions, which need not end where rows do. A
//! block
//!
//! 1. stages 16 input channels of a tile's positions, and of those that taps reach from there, which have been packed
//!    before (`pack`): as `f16`, the channels of a position side by side, so that a matrix of neighbouring positions
//!    begins wherever a tap says (`stage`);
//! 2. multiplies it by the weights of each tap, which come in the order in which they are needed (`compute`);
//! 3. stores its sums, by way of shared memory, in whole lines (`store`).
//!
//! In single precision (`_f32`, `SPLIT` here) every factor is the sum of two `f16` numbers, which lie in planes of their
//! own, and three of the four products are made.
//!
//! The lanes that multiply load nothing. Output channels are the rows of a product. Few of them do not fill these: then
//! neighbours, *residues*, are joined and share them, with a weight of zero where one has no such tap: two along x,
//! some along another axis, or both. And the positions of the second team may be those of further residues, which have
//! most of what is staged in common.
//!
//! Limits: strides of 1, fewer than 2^31 elements in each tensor. Bitwise repeatable: the order of all additions is
//! fixed.

mod compute;
mod pack;
mod parameters;
mod stage;
mod store;

#[cfg(any(cuda_arch = "sm_90a", feature = "emulator"))]
pub use pack::*;
pub use parameters::{Flat, FlatPacking, Part, Run, Stretch, rows};

use cuda_std::{
    kernel, mem,
    shared::{SharedPtr, dynamic_shared_mem},
    thread,
};

use crate::{
    index::Index,
    jobs::Jobs,
    tile::{CONTROL_BYTES, Ring, TEAM_THREADS, TEAMS, give_registers, take_registers},
};

/// Threads of a block: two teams, and one more warp group, of which a warp stages. Teams have the registers of the
/// others.
pub const THREADS: u32 = TEAMS * TEAM_THREADS + 128;

/// The most rows of the table, which lies in shared memory.
pub const MOST_ROWS: u32 = 1024;

/// Input channels of a stage.
pub const CHANNELS: u32 = 16;

/// Output channels that a team has, or residues of fewer: rows of a product.
pub const TEAM_CHANNELS: u32 = 64;

/// The most taps, of [`CHANNELS`] channels each, that tensor cores add up in single precision before sums move on: they
/// cut off what a sum has below its last bit, with each product. A run has no more.
pub const MOST_TAPS_OF_SUMS: u32 = 16;

/// Words of a line, at most: of a channel that a warp stages.
const LINE: u32 = 128;

/// Words from one staged channel to the next: those of four lie on different banks.
const STAGED_CHANNEL: u32 = LINE + 8;

/// Bytes that a warp stages: eight channels.
const WARP_OUTPUT_BYTES: u32 = 8 * STAGED_CHANNEL * 4;

/// Where warps stage what they store, in bytes.
const OUTPUT_START: u32 = CONTROL_BYTES.next_multiple_of(16);

/// Where the teams keep tables of their outputs.
const PLACES_START: u32 = OUTPUT_START + TEAMS * TEAM_THREADS / 32 * WARP_OUTPUT_BYTES;

/// Positions of a team, at most.
const MOST_TEAM_POSITIONS: u32 = 256;

/// Bytes of such a table: for each position and residue along x two words.
const PLACES_BYTES: u32 = MOST_TEAM_POSITIONS * 2 * 8;

/// Where the table is.
const TABLE_START: u32 = PLACES_START + TEAMS * PLACES_BYTES;
const _: () = assert!(TABLE_START.is_multiple_of(16));

/// Where all else begins, if the table has so many rows.
pub const fn fixed_bytes(table_rows: u32) -> u32 {
    (TABLE_START + table_rows * 16).next_multiple_of(128)
}

/// Numbers of which a factor is the sum.
pub const fn parts_of_factor(split: bool) -> u32 {
    if split { 2 } else { 1 }
}

/// Positions of a team: so many times eight.
const fn team_positions(blocks: usize) -> u32 {
    let positions = blocks as u32 * 8;
    assert!(positions <= MOST_TEAM_POSITIONS);
    positions
}

/// The tensors of a layer, and the table.
struct Operands {
    tables: *const [u32; 4],
    /// The packed input.
    input: *const u32,
    weight: *const f32,
    bias: *const f32,
    output: *mut f32,
}

/// The kernel: teams and the warp that stages part.
///
/// # Safety
/// As the kernels that `flat_kernel` makes.
#[cfg_attr(gpu, inline(always))]
unsafe fn flat<const BLOCKS: usize, const SPLIT: bool>(t: &Flat, operands: &Operands) {
    // SAFETY: the caller's promise; the roles differ between warps.
    unsafe {
        set_up(t, operands);
        // Input and weight are being packed until then.
        #[cfg(cuda_arch = "sm_90a")]
        cuda_std::grid::await_prerequisites();
        if thread::thread_idx_x() < TEAMS * TEAM_THREADS {
            take_registers();
            compute::consume::<BLOCKS, SPLIT>(t, operands);
        } else {
            give_registers();
            if thread::thread_idx_x() < TEAMS * TEAM_THREADS + 32 {
                stage::produce::<SPLIT>(t, operands);
            }
        }
    }
}

/// Sets up what all threads need: barriers and the table.
///
/// # Safety
/// As the kernels; all threads of the block come here together, before anything else happens to shared memory.
#[cfg_attr(gpu, inline(always))]
unsafe fn set_up(t: &Flat, operands: &Operands) {
    let thread = thread::thread_idx_x();
    // SAFETY: the caller's promise. Each barrier and each row is one thread's; the block's barrier follows.
    unsafe {
        if thread.is_multiple_of(32) && thread / 32 < t.ring {
            Ring::new(t.ring).ahead(thread / 32).init(1);
        }
        let mut row = thread;
        while row < t.table_rows {
            table().add(row).store(mem::load_readonly(operands.tables.wrapping_add(row as usize)));
            row += THREADS;
        }
        thread::sync_threads();
    }
}

/// The table.
#[cfg_attr(gpu, inline(always))]
fn table() -> SharedPtr<[u32; 4]> {
    dynamic_shared_mem::<u8>().add(TABLE_START).cast()
}

/// The part of that number.
///
/// # Safety
/// There is such a part, and everything is set up.
#[cfg_attr(gpu, inline(always))]
unsafe fn part(number: u32) -> Part {
    let row = table().add(number * rows::<Part>());
    // SAFETY: the caller's promise.
    bytemuck::cast(unsafe { [row.load(), row.add(1).load()] })
}

/// A tile of a sample.
#[derive(Clone, Copy)]
struct Job {
    sample: u32,
    group: u32,
    channel_tile: u32,
    /// Its first position.
    first: u32,
}

impl Job {
    /// The next one of the block's.
    #[cfg_attr(gpu, inline(always))]
    fn next(t: &Flat, jobs: &mut Jobs) -> Option<Self> {
        jobs.next(t.jobs, t.blocks).map(|number| Self::new(t, number))
    }

    /// The job of that number. Tiles of channels come first: they read the same input.
    #[cfg_attr(gpu, inline(always))]
    fn new(t: &Flat, number: u32) -> Self {
        let (tiles, channel_tile) = number.divide(t.channel_tiles);
        let (planes, tile) = tiles.divide(t.tiles);
        let (sample, group) = planes.divide(t.groups);
        Self { sample, group, channel_tile, first: tile * t.tile_positions }
    }
}

/// A team, and what it has of a tile: half of its positions, of its residues, or of its channels.
#[derive(Clone, Copy)]
struct Team {
    number: u32,
    divides_channels: bool,
}

impl Team {
    /// That of this thread.
    #[cfg_attr(gpu, inline(always))]
    fn this(t: &Flat) -> Self {
        Self { number: thread::thread_idx_x() / TEAM_THREADS, divides_channels: t.divides_channels != 0 }
    }

    /// Of its positions, so many times eight, the residue, counted in joined ones, and where in the tile they begin.
    #[cfg_attr(gpu, inline(always))]
    fn positions<const BLOCKS: usize>(&self, t: &Flat) -> (u32, u32) {
        let number = if self.divides_channels { 0 } else { self.number };
        if t.divides_residues != 0 { (number, 0) } else { (0, number * team_positions(BLOCKS)) }
    }

    /// The first column of the packed weight that is the team's.
    #[cfg_attr(gpu, inline(always))]
    fn first_channels(&self) -> u32 {
        if self.divides_channels { self.number * TEAM_CHANNELS } else { 0 }
    }

    /// Where the team's weights begin in a slab, in bytes.
    #[cfg_attr(gpu, inline(always))]
    fn weights_start(&self) -> u32 {
        self.first_channels() * CHANNELS * 2
    }

    /// Its table of outputs.
    #[cfg_attr(gpu, inline(always))]
    fn places(&self) -> SharedPtr<[u32; 2]> {
        dynamic_shared_mem::<u8>().add(PLACES_START + self.number * PLACES_BYTES).cast()
    }
}

/// Makes the kernel of a number of positions, whose factors may be split.
macro_rules! flat_kernel {
    ($name:ident, $positions:literal, $split:literal) => {
        /// Computes a transposed convolution of stride 1 along a flat axis.
        ///
        /// # Safety
        /// The pointers are device pointers: `tables` to the tables that `flat` describes, `input` and `weight` to the
        /// packed input and weight, `output` to a tensor of the layer's shape; `bias` is null or has an element per
        /// output channel. Nothing else accesses the output meanwhile. The grid has as many blocks as `flat` says, of
        /// [`THREADS`] threads, and the shared memory that the host has divided up.
        #[kernel(launch_bounds(384, 1))]
        pub unsafe fn $name(
            flat: Flat,
            tables: *const [u32; 4],
            input: *const u32,
            weight: *const f32,
            bias: *const f32,
            output: *mut f32,
        ) {
            let operands = Operands { tables, input, weight, bias, output };
            // SAFETY: the caller's promise.
            unsafe { super::flat::<{ $positions / 8 }, $split>(&flat, &operands) }
        }
    };
}

/// Makes the kernels, and the list of them.
macro_rules! flat_kernels {
    ($($name:ident: $positions:literal, split $split:literal;)+) => {
        #[cfg(any(cuda_arch = "sm_90a", feature = "emulator"))]
        mod kernels {
            use super::*;

            $(flat_kernel!($name, $positions, $split);)+
        }

        #[cfg(any(cuda_arch = "sm_90a", feature = "emulator"))]
        pub use kernels::*;

        /// The flat kernels, for the host to choose from.
        pub const VARIANTS: &[Variant] = &[
            $(Variant { kernel: stringify!($name), positions: $positions, split: $split },)+
        ];
    };
}

/// What a flat kernel is made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Variant {
    /// Its name.
    pub kernel: &'static str,
    /// Positions of a team.
    pub positions: u32,
    /// Whether factors are split: single precision.
    pub split: bool,
}

flat_kernels! {
    flat_160: 160, split false;
    flat_192: 192, split false;
    flat_224: 224, split false;
    flat_240: 240, split false;
    flat_256: 256, split false;
    flat_128_f32: 128, split true;
    flat_144_f32: 144, split true;
    flat_160_f32: 160, split true;
}
