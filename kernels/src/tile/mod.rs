//! Tile: implicit matrix products on tensor cores.
//!
//! For the output positions of one phase, a transposed convolution is a matrix product: rows are positions, columns output channels,
//! and the sum runs over input channels times taps. Nothing is laid out for it in memory. A block
//!
//! 1. takes a *tile*: a box of positions, the output channels of a tile, and the phases of a *pass*;
//! 2. stages eight (or a multiple of eight) input channels of the box and its halo in shared memory, as they lie in the tensor, and the
//!    weights of those channels;
//! 3. for each *step*, loads a fragment of the input (a shifted view of the staged box) into registers once, and multiplies it by the
//!    weights of every *slot* that it contributes to;
//! 4. stores the slots through shared memory, so that whole stretches of output rows are written.
//!
//! A slot is a matrix of accumulators. Several slots are neighbouring output rows, which share the input rows between them, or the phases
//! of the last axis, which share the positions and lie next to one another in the output. Which fragment goes into which slot with
//! which weights is a table that the host makes: strides, dilation, padding, kernels of any extent and phases without taps are nothing
//! to these kernels but other tables.
//!
//! In single precision, every factor is the sum of two TF32 numbers, and three of the four products are summed. Tensor cores cut off
//! where they should round when they add, an error that grows with the number of terms; so partial sums move on to ordinary registers
//! every now and then.
//!
//! Limits: a channel has fewer than 2^31 elements, the packed weight too. Groups of few channels leave most of the matrix empty. Bitwise
//! repeatable: the order of all additions is fixed.

mod multiply;
mod pack;
mod parameters;
mod place;
mod rounding;
mod stage;
mod store;
mod unrolled;

use cuda_std::{
    hint, kernel, mem,
    shared::{SharedPtr, dynamic_shared_mem},
    thread, warp,
};

use crate::index::Index;
use multiply::{Accumulators, Sums, Weights};
pub use pack::*;
pub use parameters::{Chunk, MOST_SLOTS, MOST_TAPS, Packing, Pass, Run, Slab, Tiling};
use place::{PassHead, Place, jobs};
use rounding::{round_to_tf32, split};
use stage::{Cursor, Operands, RING};
use store::Target;
pub use store::output_words;
use unrolled::unrolled;

/// Threads of a team: a warp group, whose four warps multiply together on compute capability 9.0.
const TEAM_THREADS: u32 = 128;

/// Rows of the matrix product of a team, per slot: 16 for each warp.
const TEAM_ROWS: u32 = 64;

/// Teams that multiply and store, each at its own pace: while one stores, the other one keeps the tensor cores busy.
const TEAMS: u32 = 2;

/// Threads that fetch: one more warp group.
const PRODUCERS: u32 = 128;

/// Threads of a block.
pub const THREADS: u32 = TEAMS * TEAM_THREADS + PRODUCERS;

/// Rows of the matrix product of a block, per slot.
pub const ROWS: u32 = TEAMS * TEAM_ROWS;

/// The first of the barriers that say which slot of the ring is full, for each team.
const FULL: u32 = 1;

/// The first of the barriers that say which slot of the ring is empty, for each team.
const EMPTY: u32 = FULL + TEAMS * RING;

/// The first of the barriers of the teams while they store. There are no more than fifteen barriers.
const STORE: u32 = EMPTY + TEAMS * RING;

/// Weight chunks that are staged at a time.
pub const WEIGHT_RING: u32 = RING;

/// Bytes of a staged slab.
pub const fn slab_bytes(tile_channels: u32, split: bool) -> u32 {
    tile_channels * 8 * 4 * if split { 2 } else { 1 }
}

/// The kernel: teams and producers part. Tiles have `8 * BLOCKS` output channels and `SLOTS` slots.
#[inline(always)]
unsafe fn tile<const BLOCKS: usize, const SLOTS: usize, const SPLIT: bool>(
    t: &Tiling,
    operands: &Operands,
    bias: *const f32,
    output: *mut f32,
) {
    // SAFETY: the caller's promise; the roles differ between warp groups.
    unsafe {
        if thread::thread_idx_x() < TEAMS * TEAM_THREADS {
            multiply::take_registers();
            consume::<BLOCKS, SLOTS, SPLIT>(t, operands, bias, output);
        } else {
            multiply::give_registers();
            stage::produce(t, operands, slab_bytes(8 * BLOCKS as u32, SPLIT));
        }
    }
}

/// What a team does: compute and store what the producers have fetched.
#[inline(always)]
unsafe fn consume<const BLOCKS: usize, const SLOTS: usize, const SPLIT: bool>(
    t: &Tiling,
    operands: &Operands,
    bias: *const f32,
    output: *mut f32,
) {
    let team = thread::thread_idx_x() / TEAM_THREADS;
    let (full, empty) = (FULL + team * RING, EMPTY + team * RING);
    let sharing = TEAM_THREADS + PRODUCERS;
    let fragment = Fragment::new(t);
    let mut cursor = Cursor::START;
    // SAFETY: the caller's promise. A slot of a ring is read when the producers have said that it is full, and they are told when it is
    // not needed any more.
    unsafe {
        let mut accumulators = Accumulators::<BLOCKS, SLOTS>::new();
        for job in jobs(t) {
            let pass = PassHead::load(operands.tables, Place::new(t, job).pass);
            let mut sums = Sums::ZERO;
            let mut next = Plan::load(t, operands.tables, &pass, 0);
            for _ in 0..t.stages * pass.chunks {
                let Plan { chunk, first_run } = next;
                let staged = Staged::new(t, &fragment, cursor);
                let slot = cursor.weight_slot;
                cursor.advance(t, pass.chunks);
                // On its way while the products are made.
                next = Plan::load(t, operands.tables, &pass, cursor.chunk);
                thread::sync_named(full + slot, sharing);
                compute::<BLOCKS, SLOTS, SPLIT>(t, operands.tables, &mut accumulators, &staged, &chunk, first_run);
                thread::arrive_named(empty + slot, sharing);
                if SPLIT && chunk.slabs & Chunk::PROMOTE != 0 {
                    sums.take_over(&mut accumulators);
                }
            }
            let place = Place::new(t, hint::opaque(job));
            let target = Target { t, tables: operands.tables, bias, output, place };
            if SPLIT {
                sums.take_over(&mut accumulators);
                target.store(&sums);
            } else {
                target.store(&accumulators);
                accumulators.empty();
            }
        }
    }
}

/// The table entries that a chunk begins with.
struct Plan {
    chunk: Chunk,
    first_run: Run,
}

impl Plan {
    /// Those of a pass' chunk; nothing of use for a pass without any.
    ///
    /// # Safety
    /// The table has the pass.
    #[inline(always)]
    unsafe fn load(t: &Tiling, tables: *const [u32; 4], pass: &PassHead, number: u32) -> Self {
        // SAFETY: the caller's promise. There is a chunk and a run of some pass wherever one of this pass would begin, because tables end
        // with one of each that belong to no pass.
        unsafe {
            let chunk = stage::chunk(t, tables, pass.first_chunk + number);
            Self { chunk, first_run: load_run(t, tables, chunk.first_run) }
        }
    }
}

/// Where a lane finds its elements of a fragment: two rows, and the same four channels further on.
#[derive(Clone, Copy)]
struct Fragment {
    places: [SharedPtr<f32>; 4],
}

impl Fragment {
    /// The fragment at the beginning of the staged input.
    #[inline(always)]
    fn new(t: &Tiling) -> Self {
        let lane = warp::lane_id();
        let row = thread::thread_idx_x() / 32 * 16 + lane / 4;
        let first = dynamic_shared_mem::<f32>().add(t.input_start / 4 + lane % 4 * t.channel_words);
        let [upper, lower] = [row, row + 8].map(|row| first.add(row_offset(t, row)));
        let four_channels = 4 * t.channel_words;
        Self { places: [upper, lower, upper.add(four_channels), lower.add(four_channels)] }
    }

    /// The same fragment that many bytes further on.
    #[inline(always)]
    fn shifted(&self, bytes: u32) -> Self {
        Self { places: self.places.map(|place| place.cast::<u8>().add(bytes).cast()) }
    }

    /// # Safety
    /// The fragment lies within a staged input that is complete.
    #[inline(always)]
    unsafe fn load(&self) -> [f32; 4] {
        // SAFETY: the caller's promise.
        self.places.map(|place| unsafe { place.load() })
    }
}

/// Where a row of the matrix product begins in a staged channel, in words. Rows without a position take that of row 0.
#[inline(always)]
fn row_offset(t: &Tiling, row: u32) -> u32 {
    let row = if row < t.positions { row } else { 0 };
    let (line, x) = row.divide(t.box_x);
    let (slice, y) = line.divide(t.box_y);
    let (n, z) = slice.divide(t.box_z);
    let slice = n * t.halo_z.value() as u32 + z * t.step_z;
    (slice * t.halo_y.value() as u32 + y * t.step_y) * t.pitch + x
}

/// A chunk in shared memory.
struct Staged {
    input: Fragment,
    weight: Weights,
}

impl Staged {
    #[inline(always)]
    fn new(t: &Tiling, fragment: &Fragment, cursor: Cursor) -> Self {
        let weight = dynamic_shared_mem::<u8>().add(t.weight_start + cursor.weight_slot * t.weight_bytes);
        Self { input: fragment.shifted(cursor.input_slot * t.input_bytes), weight: Weights::at(weight) }
    }
}

/// Adds the products of a chunk.
#[inline(always)]
unsafe fn compute<const BLOCKS: usize, const SLOTS: usize, const SPLIT: bool>(
    t: &Tiling,
    tables: *const [u32; 4],
    accumulators: &mut Accumulators<BLOCKS, SLOTS>,
    staged: &Staged,
    chunk: &Chunk,
    first_run: Run,
) {
    let mut next = first_run;
    for number in 1..=chunk.runs {
        // SAFETY: the table has the chunk's runs and one more, whose fragments lie within the staged input, and whose slabs within the
        // staged weights.
        unsafe {
            let run = next;
            next = load_run(t, tables, chunk.first_run + number);
            match run.taps {
                0 => sparse::<BLOCKS, SLOTS, SPLIT>(accumulators, staged, &run),
                1 => dense::<BLOCKS, SLOTS, SPLIT, 1>(accumulators, staged, &run),
                2 => dense::<BLOCKS, SLOTS, SPLIT, 2>(accumulators, staged, &run),
                _ => dense::<BLOCKS, SLOTS, SPLIT, 3>(accumulators, staged, &run),
            }
        }
    }
}

/// Fragments whose products are made together: enough to hide how long the first takes, not too many for the registers.
const BATCH: usize = 2;

/// Adds the products of a dense run.
#[inline(always)]
unsafe fn dense<const BLOCKS: usize, const SLOTS: usize, const SPLIT: bool, const TAPS: usize>(
    accumulators: &mut Accumulators<BLOCKS, SLOTS>,
    staged: &Staged,
    run: &Run,
) {
    let slab_units = slab_bytes(8 * BLOCKS as u32, SPLIT) / 16;
    let load = |first: u32, batch: usize| {
        let offset = |part: usize| first.wrapping_add((batch * BATCH + part) as u32 * run.row_step);
        let exists = |part: usize| batch * BATCH + part < SLOTS + TAPS - 1;
        // SAFETY: the caller's promise.
        [0, 1].map(|part| if exists(part) { unsafe { staged.input.shifted(offset(part)).load() } } else { [0.0; 4] })
    };
    let mut weight = staged.weight.add(run.first_slab);
    let mut first = run.offset;
    let mut left = run.steps;
    // SAFETY: the caller's promise.
    unsafe {
        let mut rows = load(first, 0);
        while left > 0 {
            left -= 1;
            let next = first.wrapping_add(if left > 0 { run.offset_step as u32 } else { 0 });
            unrolled!(NUMBER in 0..(SLOTS + TAPS - 1).div_ceil(BATCH) => {
                let factors = rows.map(Factors::<SPLIT>::new);
                // The next fragments are on their way while these are multiplied.
                let is_last = (NUMBER + 1) * BATCH >= SLOTS + TAPS - 1;
                rows = if is_last { load(next, 0) } else { load(first, NUMBER + 1) };
                accumulators.begin();
                unrolled!(PART in 0..BATCH => {
                    const FRAGMENT: usize = NUMBER * BATCH + PART;
                    unrolled!(SLOT in 0..SLOTS => {
                        if (SLOT..SLOT + TAPS).contains(&FRAGMENT) {
                            let tap = FRAGMENT.wrapping_sub(SLOT);
                            let slab = weight.add(tap as u32 * slab_units);
                            multiply::<BLOCKS, SLOTS, SPLIT, SLOT>(accumulators, &factors[PART % BATCH], slab, tap > 0);
                        }
                    });
                });
                // The factors of a batch are overwritten by those of the next but one; if there is only one, by those of the next.
                if SLOTS + TAPS - 1 > BATCH {
                    accumulators.finish::<1>();
                } else {
                    accumulators.finish::<0>();
                }
            });
            first = next;
            weight = weight.add(run.slab_step as u32);
        }
        accumulators.wait();
    }
}

/// Adds the products of a sparse run.
#[inline(always)]
unsafe fn sparse<const BLOCKS: usize, const SLOTS: usize, const SPLIT: bool>(
    accumulators: &mut Accumulators<BLOCKS, SLOTS>,
    staged: &Staged,
    run: &Run,
) {
    let mut weight = staged.weight;
    let mut offset = run.offset;
    let mut left = run.steps;
    // SAFETY: the caller's promise; the conditions are the same for all lanes.
    unsafe {
        let mut rows = staged.input.shifted(offset).load();
        while left > 0 {
            left -= 1;
            let factors = Factors::<SPLIT>::new(rows);
            offset = offset.wrapping_add(if left > 0 { run.offset_step as u32 } else { 0 });
            rows = staged.input.shifted(offset).load();
            accumulators.begin();
            unrolled!(SLOT in 0..SLOTS => {
                let slab = run.slabs[SLOT % MOST_SLOTS];
                if slab != Run::NO_SLAB {
                    multiply::<BLOCKS, SLOTS, SPLIT, SLOT>(accumulators, &factors, weight.add(slab.into()), false);
                }
            });
            accumulators.finish::<0>();
            weight = weight.add(run.slab_step as u32);
        }
    }
}

/// A fragment as tensor cores take it.
struct Factors<const SPLIT: bool> {
    /// Rounded, or the large parts.
    large: [f32; 4],
    small: [f32; 4],
}

impl<const SPLIT: bool> Factors<SPLIT> {
    #[inline(always)]
    fn new(rows: [f32; 4]) -> Self {
        if SPLIT {
            let parts = rows.map(split);
            Self { large: parts.map(|(large, _)| large), small: parts.map(|(_, small)| small) }
        } else {
            Self { large: rows.map(round_to_tf32), small: [0.0; 4] }
        }
    }
}

/// Adds the product of a fragment and a slab to a slot; if it is `later` than another one of the same step, there is a sum already.
#[inline(always)]
unsafe fn multiply<const BLOCKS: usize, const SLOTS: usize, const SPLIT: bool, const SLOT: usize>(
    accumulators: &mut Accumulators<BLOCKS, SLOTS>,
    factors: &Factors<SPLIT>,
    slab: Weights,
    later: bool,
) {
    // SAFETY: the caller's promise.
    unsafe {
        accumulators.add_product::<SLOT>(factors.large, slab, later);
        if SPLIT {
            let small_parts = slab.add(slab_bytes(8 * BLOCKS as u32, false) / 16);
            accumulators.add_product::<SLOT>(factors.large, small_parts, true);
            accumulators.add_product::<SLOT>(factors.small, slab, true);
        }
    }
}

/// The table entry of a run.
#[inline(always)]
unsafe fn load_run(t: &Tiling, tables: *const [u32; 4], number: u32) -> Run {
    let row = tables.wrapping_add((t.first_run_row + number * parameters::rows::<Run>()) as usize);
    // SAFETY: the caller's promise.
    bytemuck::cast(unsafe { [mem::load_readonly(row), mem::load_readonly(row.add(1)), mem::load_readonly(row.add(2))] })
}

/// Makes the kernel of a number of output channels and slots, in one precision.
macro_rules! tile_kernel {
    ($name:ident, $channels:literal, $slots:literal, $split:literal) => {
        /// Computes a transposed convolution, tile by tile.
        ///
        /// # Safety
        /// The pointers are device pointers: `tables` to the tables that `tiling` describes, `input` and `output` to tensors of the
        /// problem's shapes, `weight` to the packed weight; `bias` is null or has an element per output channel. Nothing else
        /// accesses the output meanwhile. Blocks have [`THREADS`] threads and the shared memory that the tiling asks for;
        /// there are as many as `tiling` says.
        #[kernel(launch_bounds(384, 1))]
        pub unsafe fn $name(
            tiling: Tiling,
            tables: *const [u32; 4],
            input: *const f32,
            weight: *const f32,
            bias: *const f32,
            output: *mut f32,
        ) {
            // SAFETY: the caller's promise.
            unsafe {
                let operands = Operands { tables, input, weight };
                tile::<{ $channels / 8 }, $slots, $split>(&tiling, &operands, bias, output);
            }
        }
    };
}

/// Makes the kernels, and the list of them. Those that are large need more registers than a thread gets where threads cannot pass theirs
/// on to each other, which is everywhere but on compute capability 9.0.
macro_rules! tile_kernels {
    (
        everywhere { $($name:ident: $channels:literal, $slots:literal, $split:literal;)+ }
        large { $($large:ident: $large_channels:literal, $large_slots:literal, $large_split:literal;)+ }
    ) => {
        $(tile_kernel!($name, $channels, $slots, $split);)+

        #[cfg(any(cuda_arch = "sm_90a", not(target_arch = "nvptx64")))]
        mod large {
            use super::*;

            $(tile_kernel!($large, $large_channels, $large_slots, $large_split);)+
        }

        #[cfg(any(cuda_arch = "sm_90a", not(target_arch = "nvptx64")))]
        pub use large::*;

        /// The tile kernels, for the host to choose from.
        pub const VARIANTS: &[Variant] = &[
            $(Variant {
                kernel: stringify!($name), channels: $channels, slots: $slots, split: $split, large: false
            },)+
            $(Variant {
                kernel: stringify!($large),
                channels: $large_channels,
                slots: $large_slots,
                split: $large_split,
                large: true,
            },)+
        ];
    };
}

/// What a tile kernel is made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Variant {
    /// Its name.
    pub kernel: &'static str,
    /// Output channels of a tile.
    pub channels: u32,
    /// Slots.
    pub slots: u32,
    /// Whether factors are split in two, for single precision.
    pub split: bool,
    /// Whether it exists for compute capability 9.0 only.
    pub large: bool,
}

tile_kernels! {
    everywhere {
        tile_8x8_tf32: 8, 8, false;
        tile_16x4_tf32: 16, 4, false;
        tile_32x2_tf32: 32, 2, false;
        tile_64x2_tf32: 64, 2, false;
        tile_64x1_tf32: 64, 1, false;
        tile_128x1_tf32: 128, 1, false;
        tile_8x4_f32: 8, 4, true;
        tile_16x2_f32: 16, 2, true;
        tile_32x2_f32: 32, 2, true;
        tile_48x1_f32: 48, 1, true;
    }
    large {
        tile_16x8_tf32: 16, 8, false;
        tile_24x8_tf32: 24, 8, false;
        tile_32x4_tf32: 32, 4, false;
        tile_48x4_tf32: 48, 4, false;
        tile_64x4_tf32: 64, 4, false;
        tile_128x2_tf32: 128, 2, false;
        tile_8x8_f32: 8, 8, true;
        tile_16x4_f32: 16, 4, true;
        tile_24x4_f32: 24, 4, true;
        tile_32x3_f32: 32, 3, true;
        tile_48x2_f32: 48, 2, true;
        tile_64x2_f32: 64, 2, true;
        tile_64x1_f32: 64, 1, true;
        tile_128x1_f32: 128, 1, true;
    }
}
