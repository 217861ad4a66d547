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
mod rounding;
mod stage;
mod store;
mod unrolled;

use cuda_std::{
    async_copy, kernel, mem,
    shared::{SharedPtr, dynamic_shared_mem},
    thread, warp,
};

use crate::index::Index;
use multiply::{Accumulators, Sums, Weights};
pub use pack::*;
use parameters::rows;
pub use parameters::{Chunk, MOST_SLOTS, Packing, Pass, Slab, Step, Tiling};
use rounding::{round_to_tf32, split};
use stage::{Cursor, RING, Source};
use store::Target;
use unrolled::unrolled;

/// Threads of a block: two warp groups.
pub const THREADS: u32 = 256;

/// Rows of the matrix product of a block, per slot: 16 for each warp.
pub const ROWS: u32 = 128;

/// Weight chunks that are staged at a time.
pub const WEIGHT_RING: u32 = RING;

/// Words of shared memory that staging the output takes.
pub const fn output_words(tile_channels: u32, slots: u32) -> u32 {
    tile_channels * store::channel_words(slots)
}

/// Bytes of a staged slab.
pub const fn slab_bytes(tile_channels: u32, split: bool) -> u32 {
    tile_channels * 8 * 4 * if split { 2 } else { 1 }
}

/// The block's place in the problem.
struct Place {
    channel_tile: u32,
    pass: u32,
    group: u32,
    sample: u32,
    origin: [u32; 3],
}

/// Computes a tile of `8 * BLOCKS` output channels, `SLOTS` slots, with split factors if `SPLIT`.
#[inline(always)]
unsafe fn tile<const BLOCKS: usize, const SLOTS: usize, const SPLIT: bool>(
    t: &Tiling,
    tables: *const [u32; 4],
    input: *const f32,
    weight: *const f32,
    bias: *const f32,
    output: *mut f32,
) {
    let tile_channels = 8 * BLOCKS as u32;
    let place = place(t);
    let bias_words = dynamic_shared_mem::<f32>();
    let offsets = bias_words.add(tile_channels).cast::<u32>();
    let first_channel = place.channel_tile * tile_channels;
    let channels = (t.out_per_group - first_channel).min(tile_channels);
    let out_channel = place.group as usize * t.out_per_group as usize + first_channel as usize;
    // SAFETY: the caller's promise; the tables are as `Tiling` describes them, and whoever reads shared memory comes after a barrier.
    unsafe {
        let [[origin_z, origin_y, origin_x, chunks], [first_chunk, first_slab, _, _]] =
            stage::pass_head(tables, place.pass);
        load_bias(bias, out_channel, channels, bias_words);
        let first_input = [
            place.origin[0].wrapping_add(origin_z) as i32,
            place.origin[1].wrapping_add(origin_y) as i32,
            place.origin[2].wrapping_add(origin_x) as i32,
        ];
        stage::locate(t, offsets, place.sample, first_input);
        let slab_words = slab_bytes(tile_channels, SPLIT) as usize / 4;
        let stage_words = t.stage_slabs as usize * slab_words;
        let tile_number = place.group as usize * t.channel_tiles.value() as usize + place.channel_tile as usize;
        let source = Source {
            input: input.wrapping_add(
                place.sample as usize * t.input_sample as usize
                    + place.group as usize * t.in_per_group as usize * t.input_plane as usize,
            ),
            weight: weight
                .wrapping_add(tile_number * t.stages as usize * stage_words + first_slab as usize * slab_words),
            stage_words,
            offsets,
        };
        thread::sync_threads();
        let sums = product::<BLOCKS, SLOTS, SPLIT>(t, tables, &source, first_chunk, chunks);
        // The staged output takes the place of the staged input, which may still be read.
        thread::sync_threads();
        store::stage(t, &sums);
        thread::sync_threads();
        let target = Target {
            output: output
                .wrapping_add(place.sample as usize * t.output_sample as usize + out_channel * t.output_plane as usize),
            pass: store::pass_rows(tables, place.pass),
            channels,
            sample: place.sample,
            origin: place.origin,
            bias: bias_words,
        };
        store::store::<BLOCKS, SLOTS>(t, &target);
    }
}

/// Takes the block index apart. Blocks that share their input are neighbours, so that they find it in the L2 cache.
#[inline(always)]
fn place(t: &Tiling) -> Place {
    let (rest, channel_tile) = thread::block_idx_x().divide(t.channel_tiles);
    let (rest, pass) = rest.divide(t.passes);
    let (rest, group) = rest.divide(t.groups);
    let (rest, x) = rest.divide(t.tiles_x);
    let (rest, y) = rest.divide(t.tiles_y);
    let (n, z) = rest.divide(t.tiles_z);
    let [tile_n, tile_z, tile_y, tile_x] = t.tile;
    Place { channel_tile, pass, group, sample: n * tile_n, origin: [z * tile_z, y * tile_y, x * tile_x] }
}

/// Brings the bias of the tile's channels to shared memory, zeros if there is none.
#[inline(always)]
unsafe fn load_bias(bias: *const f32, first: usize, channels: u32, target: SharedPtr<f32>) {
    let channel = thread::thread_idx_x();
    if channel < channels {
        // SAFETY: a bias has an element per output channel, and the target has room for those of the tile.
        unsafe {
            target.add(channel).store(if bias.is_null() {
                0.0
            } else {
                mem::load_readonly(bias.add(first + channel as usize))
            });
        }
    }
}

/// The matrix product: all stages, chunk by chunk.
#[inline(always)]
unsafe fn product<const BLOCKS: usize, const SLOTS: usize, const SPLIT: bool>(
    t: &Tiling,
    tables: *const [u32; 4],
    source: &Source,
    first_chunk: u32,
    chunks: u32,
) -> Sums<BLOCKS, SLOTS> {
    let slab_bytes = slab_bytes(8 * BLOCKS as u32, SPLIT);
    let steps = tables.wrapping_add(t.first_step_row as usize);
    let fragment = Fragment::new(t);
    let total = t.stages * chunks;
    let (mut ahead, mut current) = (Cursor::START, Cursor::START);
    let mut fetched = 0;
    let mut sums = Sums::ZERO;
    // SAFETY: the caller's promise. A slot of a ring is filled again after the barrier behind its last use.
    unsafe {
        let mut accumulators = Accumulators::<BLOCKS, SLOTS, SPLIT>::zero();
        while fetched < RING - 1 {
            if fetched < total {
                let chunk = stage::chunk(t, tables, first_chunk + ahead.chunk);
                stage::fetch(t, source, &chunk, ahead, slab_bytes);
                ahead.advance(chunks, t.input_ring);
            }
            async_copy::commit_group();
            fetched += 1;
        }
        let mut done = 0;
        while done < total {
            async_copy::wait_group::<{ RING - 2 }>();
            multiply::publish();
            thread::sync_threads();
            if done + RING - 1 < total {
                let chunk = stage::chunk(t, tables, first_chunk + ahead.chunk);
                stage::fetch(t, source, &chunk, ahead, slab_bytes);
                ahead.advance(chunks, t.input_ring);
            }
            async_copy::commit_group();
            let chunk = stage::chunk(t, tables, first_chunk + current.chunk);
            let staged = Staged {
                input: fragment.shifted(current.input_slot * t.input_bytes),
                weight: Weights::at(
                    dynamic_shared_mem::<u8>().add(t.weight_start + current.weight_slot * t.weight_bytes),
                ),
            };
            compute::<BLOCKS, SLOTS, SPLIT>(&mut accumulators, &staged, steps, &chunk);
            if SPLIT && chunk.slabs & Chunk::PROMOTE != 0 {
                sums.take_over(&mut accumulators);
            }
            current.advance(chunks, t.input_ring);
            done += 1;
        }
        sums.take_over(&mut accumulators);
    }
    sums
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

/// Adds the products of a chunk.
#[inline(always)]
unsafe fn compute<const BLOCKS: usize, const SLOTS: usize, const SPLIT: bool>(
    accumulators: &mut Accumulators<BLOCKS, SLOTS, SPLIT>,
    staged: &Staged,
    steps: *const [u32; 4],
    chunk: &Chunk,
) {
    let last = chunk.first_step + chunk.steps - 1;
    let mut number = chunk.first_step;
    // SAFETY: the table has the chunk's steps, whose offsets lie within the staged input and the staged weights.
    unsafe {
        let mut next = load_step::<SLOTS>(steps, number);
        let mut next_rows = staged.input.shifted(next.offset).load();
        while number <= last {
            let (step, rows) = (next, next_rows);
            // The next fragment is on its way while this one is multiplied.
            number += 1;
            next = load_step::<SLOTS>(steps, number.min(last));
            next_rows = staged.input.shifted(next.offset).load();
            multiply::<BLOCKS, SLOTS, SPLIT>(accumulators, &step, rows, staged.weight);
        }
    }
}

/// Multiplies a fragment by the weights of each of its slots.
#[inline(always)]
unsafe fn multiply<const BLOCKS: usize, const SLOTS: usize, const SPLIT: bool>(
    accumulators: &mut Accumulators<BLOCKS, SLOTS, SPLIT>,
    step: &Step,
    rows: [f32; 4],
    weight: Weights,
) {
    let small_parts = slab_bytes(8 * BLOCKS as u32, false) / 16;
    let parts = rows.map(split);
    let large = if SPLIT { parts.map(|(large, _)| large) } else { rows.map(round_to_tf32) };
    let small = parts.map(|(_, small)| small);
    // SAFETY: the caller's promise; the conditions are the same for all lanes.
    unsafe {
        accumulators.begin();
        unrolled!(SLOT in 0..SLOTS => {
            if step.slots & 1 << SLOT != 0 {
                let slab = weight.add(u32::from(step.slabs[SLOT % MOST_SLOTS]));
                if SPLIT {
                    accumulators.add_product::<SLOT>(small, slab);
                    accumulators.add_product::<SLOT>(large, slab.add(small_parts));
                }
                accumulators.add_product::<SLOT>(large, slab);
            }
        });
        accumulators.finish();
    }
}

/// The table entry of a step; of its slabs, those of the kernel's slots.
#[inline(always)]
unsafe fn load_step<const SLOTS: usize>(steps: *const [u32; 4], number: u32) -> Step {
    let row = steps.wrapping_add((number * rows::<Step>()) as usize);
    // SAFETY: the caller's promise.
    let [offset, slots, a, b] = unsafe { mem::load_readonly(row) };
    let [c, d] = if SLOTS > 4 {
        // SAFETY: as above.
        let [c, d, ..] = unsafe { mem::load_readonly(row.add(1)) };
        [c, d]
    } else {
        [0; 2]
    };
    let halves = |word: u32| [word as u16, (word >> 16) as u16];
    let [[a, b], [c, d], [e, f], [g, h]] = [a, b, c, d].map(halves);
    Step { offset, slots, slabs: [a, b, c, d, e, f, g, h], padding: [0; 2] }
}

/// Makes the kernel of a number of output channels and slots, in one precision.
macro_rules! tile_kernels {
    ($($name:ident: $channels:literal, $slots:literal, $split:literal;)+) => {
        $(
            /// Computes a transposed convolution, tile by tile.
            ///
            /// # Safety
            /// The pointers are device pointers: `tables` to the tables that `tiling` describes, `input` and `output` to tensors of the
            /// problem's shapes, `weight` to the packed weight; `bias` is null or has an element per output channel. Nothing else
            /// accesses the output meanwhile. Blocks have [`THREADS`] threads and the shared memory that the tiling asks for;
            /// there is one for each tile.
            #[kernel(launch_bounds(256, 2))]
            pub unsafe fn $name(
                tiling: Tiling,
                tables: *const [u32; 4],
                input: *const f32,
                weight: *const f32,
                bias: *const f32,
                output: *mut f32,
            ) {
                // SAFETY: the caller's promise.
                unsafe { tile::<{ $channels / 8 }, $slots, $split>(&tiling, tables, input, weight, bias, output) }
            }
        )+

        /// The tile kernels, for the host to choose from.
        pub const VARIANTS: &[Variant] = &[
            $(Variant { kernel: stringify!($name), channels: $channels, slots: $slots, split: $split }),+
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
}

tile_kernels! {
    tile_8x8_tf32: 8, 8, false;
    tile_16x8_tf32: 16, 8, false;
    tile_24x4_tf32: 24, 4, false;
    tile_32x4_tf32: 32, 4, false;
    tile_48x2_tf32: 48, 2, false;
    tile_64x2_tf32: 64, 2, false;
    tile_64x1_tf32: 64, 1, false;
    tile_128x1_tf32: 128, 1, false;
    tile_8x8_f32: 8, 8, true;
    tile_16x4_f32: 16, 4, true;
    tile_24x2_f32: 24, 2, true;
    tile_32x2_f32: 32, 2, true;
    tile_48x1_f32: 48, 1, true;
    tile_64x1_f32: 64, 1, true;
}
