//! Patch: layers whose kernel is as large as their stride, as the upsampling steps of U-Nets, or smaller. Each input
//! position makes a patch of the output of its own, so that a layer is one product of matrices, whose elements only have
//! to be stored where they belong. Elements that no tap reaches have weights of zero.
//!
//! The rows of the product are output channels times the elements of a patch, the columns positions of all samples, and
//! the tensor cores read both from shared memory, as `f16`. A block
//!
//! 1. loads some input channels of a tile's positions as they lie in the tensor, makes `f16` numbers of them, and brings
//!    these to shared memory, the channels of a position side by side (`convert`);
//! 2. multiplies them by the packed weights (`compute`), which stay in shared memory from tile to tile if there is room
//!    for all input channels;
//! 3. stores its sums straight from the product (`store`): of each position a lane has two neighbours along x, or four.
//!
//! What is converted is multiplied by a power of two before, which the largest value of a tile decides. That is known
//! when all of it has been loaded. So each tile is begun with the power of the one before; in the rare case that this was
//! wrong, it is computed again (`verdict`).
//!
//! In single precision (`SPLIT`) a factor is the sum of two `f16` numbers, its large part and its small part, and three of
//! the four products are summed. Tensor cores cut sums off, a little more with each product; so after some chunks what
//! they have moves on to other registers, if there are any: kernels of two slots have none, and are for few channels.
//!
//! Limits: no padding, and outputs that are the input times the stride; strides that are powers of two; rows of an even
//! number of positions, planes of a multiple of four; fewer than 2^31 elements in each tensor. Bitwise repeatable: the
//! order of all additions is fixed, and which tiles a block computes.

mod compute;
mod convert;
mod parameters;
mod store;
mod verdict;

pub use parameters::Patch;

use cuda_std::{
    hint, kernel,
    shared::{SharedPtr, dynamic_shared_mem},
    thread,
};

use crate::{
    index::Index,
    jobs::Jobs,
    tile::{CONTROL_BYTES, Ring, TEAM_THREADS, TEAMS},
};

/// Threads that convert.
const CONVERTERS: u32 = 256;

/// Threads of a block: two teams, and those that convert.
pub const THREADS: u32 = TEAMS * TEAM_THREADS + CONVERTERS;

/// Input channels that lie side by side.
pub const CHANNELS: u32 = 8;

/// Positions of a slot of a team: columns of a product.
pub const SLOT_POSITIONS: u32 = 128;

/// Rows of a slot.
pub const SLOT_ROWS: u32 = 64;

/// Bytes from eight positions of eight channels to the next eight: 16 more than they have, so that those that lanes write
/// together lie on different banks.
pub const EIGHT_BYTES: u32 = 128 + 16;

/// Neighbouring positions that a thread converts, of eight channels: four, or two whose values are `split`.
#[must_use]
pub const fn thread_positions(split: bool) -> u32 {
    if split { 2 } else { 4 }
}

/// Input channels times positions that are staged together, and may be `split`.
#[must_use]
pub const fn staged(split: bool) -> u32 {
    CONVERTERS * CHANNELS * thread_positions(split)
}

/// Where the verdicts begin in shared memory: see `verdict`.
const VERDICT_START: u32 = CONTROL_BYTES.next_multiple_of(16);

/// Where the teams keep tables of their outputs.
const PLACES_START: u32 = VERDICT_START + verdict::BYTES;

/// Words of such a table: one for two positions.
const PLACES: u32 = SLOT_POSITIONS / 2;

/// Where the stages begin.
pub const STAGES_START: u32 = (PLACES_START + TEAMS * PLACES * 4).next_multiple_of(128);

/// Bytes of a stage: half as many values if these are split, and two parts of each.
pub const STAGE_BYTES: u32 = staged(false) / CHANNELS / 8 * EIGHT_BYTES;

/// Where the small parts are in a stage, behind the large ones.
const SMALL_PARTS: u32 = STAGE_BYTES / 2;

/// Input channels after which sums move on, a power of two.
pub const PROMOTE_AFTER: u32 = 256;

/// Whether there are registers for sums besides those of the tensor cores.
#[must_use]
pub const fn moves_on(slots: u32, split: bool) -> bool {
    split && slots == 1
}

/// The tensors of a layer.
struct Operands {
    input: *const f32,
    weight: *const f32,
    bias: *const f32,
    output: *mut f32,
}

/// The kernel: teams and those that convert part.
///
/// # Safety
/// As the kernels that `patch_kernels` makes.
#[cfg_attr(gpu, inline(always))]
unsafe fn patch<const SLOTS: usize, const SPLIT: bool>(t: &Patch, operands: &Operands) {
    // SAFETY: the caller's promise; the roles differ between warp groups.
    unsafe {
        set_up(t);
        // The weight is being packed until then.
        #[cfg(cuda_arch = "sm_90a")]
        cuda_std::grid::await_prerequisites();
        if thread::thread_idx_x() < TEAMS * TEAM_THREADS {
            // Two times what teams have and two times what the others have is four times 128, with which a block is
            // launched.
            #[cfg(cuda_arch = "sm_90a")]
            thread::set_registers_more::<168>();
            compute::consume::<SLOTS, SPLIT>(t, operands);
        } else {
            #[cfg(cuda_arch = "sm_90a")]
            thread::set_registers_fewer::<88>();
            convert::produce::<SPLIT>(t, operands);
        }
    }
}

/// Sets up the barriers.
///
/// # Safety
/// As the kernels; all threads of the block come here together, before anything else happens to shared memory.
#[cfg_attr(gpu, inline(always))]
unsafe fn set_up(t: &Patch) {
    let thread = thread::thread_idx_x();
    // SAFETY: the caller's promise. Each barrier is one thread's; the block's barrier follows.
    unsafe {
        if thread.is_multiple_of(32) && thread / 32 < t.ring {
            Ring::new(t.ring).ahead(thread / 32).init(convert::ARRIVALS);
        }
        thread::sync_threads();
    }
}

/// Where a stage is.
#[cfg_attr(gpu, inline(always))]
fn stage(ring: &Ring) -> SharedPtr<u8> {
    dynamic_shared_mem::<u8>().add(STAGES_START + ring.slot() * STAGE_BYTES)
}

/// Where the weights of a chunk are, counted in chunks: they belong to a stage if they do not stay.
#[cfg_attr(gpu, inline(always))]
fn weight_slot(t: &Patch, ring: &Ring, chunk: u32) -> u32 {
    if t.keeps_weights != 0 { chunk } else { ring.slot() }
}

/// A tile.
#[derive(Clone, Copy)]
struct Job {
    /// Its tile of the packed weight.
    weight_tile: u32,
    group: u32,
    channel_tile: u32,
    /// Its first position.
    first: u32,
    /// Where positions end that it may have: those of its samples.
    end: u32,
}

impl Job {
    /// The next one of the block's.
    #[cfg_attr(gpu, inline(always))]
    fn next(t: &Patch, jobs: &mut Jobs) -> Option<Self> {
        jobs.next(t.jobs, t.blocks).map(|number| Self::new(t, number))
    }

    /// The job of that number. Those with the same positions come one after the other.
    #[cfg_attr(gpu, inline(always))]
    fn new(t: &Patch, number: u32) -> Self {
        let (tile, weight_tile) = number.divide(t.weight_tiles);
        let (group, channel_tile) = weight_tile.divide(t.channel_tiles);
        let (stretch, tile) = tile.divide(t.stretch_tiles);
        let begin = stretch * t.stretch;
        let first = begin + tile * t.tile_positions;
        Self { weight_tile, group, channel_tile, first, end: begin + t.stretch }
    }
}

/// A team, and what it has of a tile: half of its positions, or half of its rows.
#[derive(Clone, Copy)]
struct Team {
    number: u32,
    divides_positions: bool,
}

impl Team {
    /// That of this thread.
    #[cfg_attr(gpu, inline(always))]
    fn this(t: &Patch) -> Self {
        let number = hint::opaque(thread::thread_idx_x()) / TEAM_THREADS;
        Self { number, divides_positions: t.tile_positions > SLOT_POSITIONS }
    }

    /// Its first position in the tile.
    #[cfg_attr(gpu, inline(always))]
    fn first_position(&self) -> u32 {
        if self.divides_positions { self.number * SLOT_POSITIONS } else { 0 }
    }

    /// Its first row.
    #[cfg_attr(gpu, inline(always))]
    fn first_row<const SLOTS: usize>(&self) -> u32 {
        if self.divides_positions { 0 } else { self.number * SLOTS as u32 * SLOT_ROWS }
    }

    /// Its table of outputs.
    #[cfg_attr(gpu, inline(always))]
    fn places(&self) -> SharedPtr<u32> {
        dynamic_shared_mem::<u8>().add(PLACES_START + self.number * PLACES * 4).cast()
    }
}

/// Makes the kernels, and the list of them.
macro_rules! patch_kernels {
    ($($name:ident: $slots:literal, $split:literal;)+) => {
        #[cfg(any(cuda_arch = "sm_90a", feature = "emulator"))]
        mod kernels {
            use super::*;

            $(
                /// Computes a transposed convolution whose kernel reaches no further than its stride.
                ///
                /// # Safety
                /// The pointers are device pointers: `input` to the input, `weight` to the packed weight, `output` to a
                /// tensor of the layer's shape; `bias` is null or has an element per output channel. Nothing else
                /// accesses the output meanwhile. The grid has as many blocks as `patch` says, of [`THREADS`] threads,
                /// and the shared memory that the host has divided up.
                #[kernel(launch_bounds(512, 1))]
                pub unsafe fn $name(
                    patch: Patch,
                    input: *const f32,
                    weight: *const f32,
                    bias: *const f32,
                    output: *mut f32,
                ) {
                    let operands = Operands { input, weight, bias, output };
                    // SAFETY: the caller's promise.
                    unsafe { super::patch::<$slots, $split>(&patch, &operands) }
                }
            )+
        }

        #[cfg(any(cuda_arch = "sm_90a", feature = "emulator"))]
        pub use kernels::*;

        /// The patch kernels, for the host to choose from.
        pub const VARIANTS: &[Variant] = &[
            $(Variant { kernel: stringify!($name), slots: $slots, split: $split },)+
        ];
    };
}

/// What a patch kernel is made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Variant {
    /// Its name.
    pub kernel: &'static str,
    /// Slots of a team.
    pub slots: u32,
    /// Whether factors are split.
    pub split: bool,
}

patch_kernels! {
    patch_64: 1, false;
    patch_128: 2, false;
    patch_64_f32: 1, true;
    patch_128_f32: 2, true;
}
