//! Tile: implicit matrix products on tensor cores, or on ordinary ones where those do not take TF32.
//!
//! For the output positions of one phase, a transposed convolution is a matrix product: rows are positions, columns
//! output channels, and the sum runs over input channels times taps. Nothing is laid out for it in memory. A block
//!
//! 1. takes a *tile*: a box of positions, the output channels of a tile, and the phases of a *pass*;
//! 2. stages eight (or a multiple of eight) input channels of the box and its halo in shared memory, as they lie in the
//!    tensor, and the weights of those channels (`stage`, `ring`);
//! 3. in each *run* loads what neighbouring taps need of an input row into registers once (`fragment`), and multiplies
//!    it by the weights of every *slot* that the row contributes to (`compute`, `multiply`);
//! 4. stores the slots, straight from registers or through shared memory, whichever writes whole stretches of output
//!    rows (`store`).
//!
//! A slot is a matrix of accumulators; slots are neighbouring output rows, which share the input rows between them. Few
//! channels do not fill the columns of a matrix; then phases share the columns, and where one has no tap, its weights
//! are zero. Phases take eight columns at a time, or, of up to four output channels, as few as these need. Two
//! neighbouring rows of few channels may be *joined*: they share the columns as phases do, and a slot has both. Or
//! slots come in pairs, with a half of the phases along x each, and each multiplies the taps of its half only. Which
//! rows are multiplied by which weights is a table that the host makes: strides, dilation, padding, kernels of any
//! extent and phases without taps are nothing to what multiplies but other tables. What stores knows the stride, the
//! lead, and how many phases share the columns.
//!
//! Blocks stay, and do one job after the other; or, where jobs are few, several are `partners` in one. Two teams
//! multiply and store, each at its own pace; other warps fetch ahead of them.
//!
//! In single precision on tensor cores, every factor is the sum of two TF32 numbers, and three of the four products are
//! summed. Tensor cores cut off where they should round when they add, an error that grows with the number of terms; so
//! partial sums move on to ordinary registers every now and then. Where TF32 is precise enough, factors are rounded to
//! it. In either precision they may be `f16` numbers instead, which have as many bits of fraction and are multiplied
//! twice as fast: then weight and input are packed before, two channels in a word (`pack`, `pack_input`), and scaled to
//! what these hold (`scale`); or teams convert the input when they load it, and others `measure` it for that.
//!
//! Limits: a channel has fewer than 2^31 elements, the packed weight too. Groups of few channels leave most of the
//! matrix empty. Bitwise repeatable: the order of all additions is fixed.

mod bare;
mod compute;
mod fragment;
pub(crate) mod in_turn;
mod largest;
mod multiply;
mod pack;
#[cfg(any(cuda_arch = "sm_90a", not(gpu)))]
mod pack_input;
#[cfg(any(cuda_arch = "sm_90a", not(gpu)))]
mod packing_grids;
mod parameters;
mod partners;
mod place;
mod ring;
mod rounding;
mod scale;
mod stage;
mod store;
mod words;

pub use bare::{BARE_BYTES, BARE_WRITERS};
pub use cuda_std::async_copy::{TensorMap, TensorMaps};
use cuda_std::{hint, kernel, mem, shared::dynamic_shared_mem, thread};

use compute::{PackedRun, Staged, loads_first, may_have_halves, may_join_rows, multiply_run};
use fragment::Fragment;
#[cfg(not(cuda_arch = "sm_90a"))]
use multiply::ffma;
pub(crate) use multiply::{Accumulators, Sums, Weights, give_registers, take_registers};
pub use pack::*;
#[cfg(any(cuda_arch = "sm_90a", not(gpu)))]
pub use pack_input::*;
#[cfg(any(cuda_arch = "sm_90a", not(gpu)))]
pub use packing_grids::INPUT_PACKING_THREADS;
pub use parameters::{
    Chunk, HALVES, JOINED_ROW_TAPS, JOINED_ROWS, MOST_NEIGHBOURS, OutputPlace, Packing, Pass, Portions, ROW_TAPS, Run,
    Slab, Stretch, Tiling,
};
pub use partners::{MOST_PARTNERS, product_bytes};
use place::{Place, Upcoming, job_of_last_round, next_job};
pub(crate) use ring::Ring;
pub use ring::{CONTROL_BYTES, MOST_RING_SLOTS};
use rounding::Again;
use scale::Scale;
pub(crate) use scale::{Exponent, power_of_two};
use stage::Operands;
// What the flat and the patch kernels need besides.
pub use store::{LINE_BYTES, SECTOR_WORDS};
use store::{NOTHING, Target};
pub use words::PORTION_THREADS;
#[cfg(any(cuda_arch = "sm_90a", not(gpu)))]
pub(crate) use {
    largest::{finite, largest_of_pairs},
    multiply::{Positions, Product},
    packing_grids::Share,
    rounding::split,
    scale::of_weight,
    store::sync_team,
};

/// Threads of a team: a warp group, whose four warps multiply together on compute capability 9.0.
pub const TEAM_THREADS: u32 = 128;

/// Rows of the matrix product of a warp, per slot.
pub const WARP_ROWS: u32 = 16;

/// Rows of the matrix product of a team, per slot.
pub const TEAM_ROWS: u32 = TEAM_THREADS / 32 * WARP_ROWS;

/// Teams that multiply and store, each at its own pace: while one stores, the other one keeps the tensor cores busy.
pub const TEAMS: u32 = 2;

/// Threads that fetch: one more warp group.
const PRODUCERS: u32 = 128;

/// Threads of a block.
pub const THREADS: u32 = TEAMS * TEAM_THREADS + PRODUCERS;

/// Rows of the matrix product of a block, per slot.
pub const ROWS: u32 = TEAMS * TEAM_ROWS;

/// The first of the named barriers of the teams while they store.
const STORE: u32 = 1;

/// Rows of a table that a line of the cache has.
const ROWS_OF_LINE: u32 = 128 / 16;

/// Bytes of a staged slab: eight words for each column, or twice as many.
pub const fn slab_bytes(tile_columns: u32, split: bool) -> u32 {
    tile_columns * 8 * 4 * if split { 2 } else { 1 }
}

/// The kernel: teams and producers part. Tiles have `8 * BLOCKS` columns and `SLOTS` slots. `ORDINARY` cores multiply
/// factors as they are; others take them as `F16`, `SPLIT` them, or round them.
///
/// # Safety
/// As the kernels that `tile_kernel` makes.
#[cfg_attr(gpu, inline(always))]
unsafe fn tile<
    const BLOCKS: usize,
    const SLOTS: usize,
    const SPLIT: bool,
    const F16: bool,
    const CONVERT: bool,
    const ORDINARY: bool,
>(
    t: &Tiling,
    operands: &Operands,
    bias: *const f32,
    output: *mut f32,
) {
    // SAFETY: the caller's promise; the roles differ between warp groups.
    unsafe {
        prefetch_tables(t, operands.tables);
        Ring::set_up(t, stage::fetch_arrivals(t, operands), if CONVERT { Some(stage::INPUT_PRODUCERS) } else { None });
        #[cfg(cuda_arch = "sm_90a")]
        {
            if t.awaits != 0 {
                cuda_std::grid::await_prerequisites();
            }
            // What follows in the stream and need not wait writes elsewhere, and may read what has been waited for
            // here.
            cuda_std::grid::launch_dependents();
        }
        if thread::thread_idx_x() < TEAMS * TEAM_THREADS {
            take_registers();
            consume::<BLOCKS, SLOTS, SPLIT, F16, CONVERT, ORDINARY>(t, operands, bias, output);
        } else {
            give_registers();
            let stages_input =
                stage::produce::<SPLIT, F16, CONVERT, ORDINARY>(t, operands, slab_bytes(8 * BLOCKS as u32, SPLIT));
            if stages_input {
                bare::write_bare_rows(t, operands.tables, bias, output);
            }
        }
    }
}

/// Brings the beginning of the tables closer, which is all of them for most layers: everything that a block does first
/// waits for some entry.
///
/// # Safety
/// The tables are those that the tiling describes.
#[cfg_attr(gpu, inline(always))]
unsafe fn prefetch_tables(t: &Tiling, tables: *const [u32; 4]) {
    let thread = hint::opaque(thread::thread_idx_x());
    let row = thread * ROWS_OF_LINE;
    if thread < 32 && row < t.table_rows {
        // SAFETY: the caller's promise: there is such a row.
        unsafe { mem::prefetch(tables.add(row as usize)) };
    }
}

/// A zero that the compiler does not know to be one: what is beside the first chunk.
///
/// # Safety
/// The tables are those that the tiling describes.
#[cfg_attr(gpu, inline(always))]
unsafe fn zero_of_tables(t: &Tiling, tables: *const [u32; 4]) -> u32 {
    // SAFETY: the caller's promise.
    let chunk: Chunk = bytemuck::cast(unsafe { mem::load_readonly(tables.add(t.first_chunk_row as usize)) });
    chunk.padding[0]
}

/// Whether the kernel is compiled for its layer. In one for any layer there are not enough registers for some things;
/// who compiles it for one knows the lines by their comments. Only on compute capability 9.0, and on the host.
#[cfg_attr(gpu, inline(always))]
fn is_specialised() -> bool {
    #[cfg(cuda_arch = "sm_90a")]
    {
        let is: u32;
        // SAFETY: writes a register.
        unsafe {
            core::arch::asm!(
                "mov.b32 {is}, 0; //! unless specialised",
                "//! if specialised: mov.b32 {is}, 1;",
                is = out(reg32) is,
                options(pure, nomem, nostack, preserves_flags)
            );
        }
        is != 0
    }
    #[cfg(not(cuda_arch = "sm_90a"))]
    {
        cfg!(not(gpu))
    }
}

/// Whether teams store in turn. In a kernel for any layer there are no registers for it.
#[cfg_attr(gpu, inline(always))]
fn stores_in_turn(t: &Tiling) -> bool {
    is_specialised() && t.in_turn != 0
}

/// What a team does: compute and store what the producers have fetched.
///
/// # Safety
/// As the kernels; all threads of the team come here together, once the rings are set up.
#[cfg_attr(gpu, inline(always))]
unsafe fn consume<
    const BLOCKS: usize,
    const SLOTS: usize,
    const SPLIT: bool,
    const F16: bool,
    const CONVERT: bool,
    const ORDINARY: bool,
>(
    t: &Tiling,
    operands: &Operands,
    bias: *const f32,
    output: *mut f32,
) {
    let fragment = Fragment::new(t);
    let (mut inputs, mut weights) = (Ring::inputs(t), Ring::weights(t));
    // SAFETY: the caller's promise. A slot of a ring is read when it is full, and left when it is not needed any more.
    unsafe {
        // Where teams split, sums lose their scale when they move on.
        let keeps_scale = F16 && !(SPLIT && CONVERT);
        let scale = Scale::one(Again::with(if F16 { zero_of_tables(t, operands.tables) } else { 0 }));
        // Needed whenever they do.
        let of_weight = if SPLIT && CONVERT { scale::of_weight(operands.weight, true) } else { Exponent::NONE };
        let mut accumulators = Accumulators::<BLOCKS, SLOTS>::new();
        let mut upcoming = Upcoming::find(t, operands.tables, 0);
        let mut round = 0;
        let mut located = NOTHING;
        // The run that is on its way while the one before is computed, or while a job is stored.
        let mut next = PackedRun::load(t, operands.tables, upcoming.first_run);
        while let Some(job) = next_job(t, &mut round) {
            let (first_run, has_product) = (upcoming.first_run, upcoming.has_product());
            // In a kernel for any layer there are not enough registers to keep it. Where there is one pass, all jobs
            // are alike.
            if is_specialised() && t.passes.value() as u32 > 1 {
                upcoming = Upcoming::find(t, operands.tables, round);
            }
            let target = |job| Target {
                t,
                tables: operands.tables,
                bias,
                output,
                #[cfg(cuda_arch = "sm_90a")]
                output_map: operands.maps.wrapping_add(1),
                place: Place::new(t, job),
            };
            target(job).locate(&mut located, round == 1);
            let mut sums = Sums::ZERO;
            let mut number = first_run;
            let mut has_used_weights = false;
            let (mut exponent, mut scale) = (Exponent::NONE, scale);
            for stages_left in (0..if has_product { t.stages } else { 0 }).rev() {
                inputs.await_full();
                if CONVERT {
                    let now = Exponent::from_bits(inputs.exponent_for_warp());
                    if now != exponent && !accumulators.are_empty() {
                        accumulators.wait::<0>();
                        if SPLIT {
                            promote(&mut sums, &mut accumulators, Some(exponent.inverse_with(of_weight)));
                        } else {
                            accumulators.scale([power_of_two(now.minus(exponent)); 2]);
                        }
                    }
                    (exponent, scale) = (now, scale.with(now));
                }
                let input = fragment.shifted(inputs.slot() * t.input_bytes);
                let mut begins_chunk = true;
                loop {
                    let run = next.unpacked::<F16>(t);
                    number = match run.flags & Run::ENDS_STAGE {
                        0 => number + 1,
                        _ if stages_left > 0 => first_run,
                        _ => upcoming.first_run,
                    };
                    let mut look_ahead = || {
                        next = PackedRun::load(t, operands.tables, number);
                        if begins_chunk {
                            weights.await_full();
                        }
                    };
                    if !loads_first::<CONVERT>(t, &run) {
                        look_ahead();
                    }
                    // As long as products of a chunk are under way, it is not left.
                    let leave_chunk_before = || {
                        if begins_chunk && has_used_weights {
                            weights.before().leave();
                        }
                    };
                    let weight = dynamic_shared_mem::<u8>().add(t.weight_start + weights.slot() * t.weight_bytes);
                    if ORDINARY {
                        #[cfg(not(cuda_arch = "sm_90a"))]
                        ffma::multiply_run::<BLOCKS, SLOTS>(t, &mut accumulators, input, weight, &run);
                    } else {
                        let staged = Staged { input, scale, weight: Weights::at(weight) };
                        multiply_run::<BLOCKS, SLOTS, SPLIT, F16, CONVERT>(
                            t,
                            &mut accumulators,
                            &staged,
                            &run,
                            look_ahead,
                            leave_chunk_before,
                        );
                    }
                    if ORDINARY || !is_specialised() {
                        leave_chunk_before();
                    }
                    has_used_weights = true;
                    begins_chunk = run.flags & Run::ENDS_CHUNK != 0;
                    if begins_chunk {
                        weights.advance();
                    }
                    let may_promote = run.flags & Run::ENDS_STAGE == 0 || stages_left & (t.promotion_stages - 1) == 0;
                    if SPLIT && run.flags & Run::PROMOTES != 0 && may_promote {
                        accumulators.wait::<0>();
                        let inverse = if CONVERT { Some(exponent.inverse_with(of_weight)) } else { None };
                        promote(&mut sums, &mut accumulators, inverse);
                    }
                    if run.flags & Run::ENDS_STAGE != 0 {
                        break;
                    }
                }
                inputs.leave();
                inputs.advance();
            }
            // Found again, not kept in registers meanwhile.
            let target = target(job_of_last_round(t, hint::opaque(round)));
            let is_scaled = keeps_scale && has_product;
            let inverses = match is_scaled {
                true if CONVERT => [exponent.inverse_with(scale::of_staged_weight()); 2],
                true => scale::inverses::<SPLIT>(t, operands, target.place.sample),
                false => [[1.0; 2]; 2],
            };
            accumulators.wait::<0>();
            if has_used_weights {
                weights.before().leave();
            }
            in_turn::await_turn(stores_in_turn(t), round == 1);
            let [[a, b], [c, d]] = inverses;
            let [most, rest] = [[a, c], [b, d]];
            if SPLIT {
                if is_scaled {
                    sums.scale(most);
                    if rest != [1.0; 2] {
                        sums.scale(rest);
                    }
                }
                partners::store_sums(&target, &mut sums, has_product);
            } else {
                if is_scaled {
                    accumulators.scale(most);
                    if rest != [1.0; 2] {
                        accumulators.scale(rest);
                    }
                }
                partners::store(&target, &accumulators, has_product);
                accumulators.empty();
            }
            in_turn::pass_on(stores_in_turn(t));
            if !is_specialised() {
                upcoming = Upcoming::find(t, operands.tables, round);
            }
            if !(is_specialised() && has_product) {
                next = PackedRun::load(t, operands.tables, upcoming.first_run);
            }
        }
        in_turn::end(stores_in_turn(t));
        Target::finish();
    }
}

/// Moves sums on, times both numbers if they lose their scale.
///
/// # Safety
/// All products have been waited for.
#[cfg_attr(gpu, inline(always))]
unsafe fn promote<const BLOCKS: usize, const SLOTS: usize>(
    sums: &mut Sums<BLOCKS, SLOTS>,
    accumulators: &mut Accumulators<BLOCKS, SLOTS>,
    inverse: Option<[f32; 2]>,
) {
    // SAFETY: the caller's promise.
    unsafe {
        if let Some([_, rest]) = inverse
            && rest != 1.0
        {
            accumulators.scale([rest; 2]);
        }
        sums.take_over(accumulators, inverse.map(|[most, _]| most));
    }
}

/// Makes the kernel of a number of columns and slots, in one precision, for tensor cores or `ordinary` ones.
macro_rules! tile_kernel {
    ($name:ident, $columns:literal, $slots:literal, $split:literal, $f16:literal, $convert:literal, $ordinary:literal) => {
        /// Computes a transposed convolution, tile by tile.
        ///
        /// # Safety
        /// The pointers are device pointers: `tables` to the tables that `tiling` describes, `input` and `output` to
        /// tensors of the problem's shapes, or `input` to the packed input, `weight` to the packed weight; `bias` is
        /// null or has an element per output channel. Nothing else accesses the output meanwhile. If the tiling has
        /// boxes and the input is aligned to 16 bytes, the first of the `maps` describes it, and boxes of a stage, in
        /// the order x, y, z, samples, channels, the merged axes as one with x. If it has boxed words and the output is
        /// aligned so, the second one describes that, and boxes of so many words in all channels of a tile: x, rows,
        /// channels of a group, groups, samples. Blocks have [`THREADS`] threads and the shared memory that the tiling
        /// asks for; of partners there are as many as `tiling` says along x, which are a cluster, and as many workers
        /// along y.
        #[kernel(launch_bounds(384, 1))]
        pub unsafe fn $name(
            tiling: Tiling,
            tables: *const [u32; 4],
            input: *const f32,
            maps: TensorMaps<2>,
            weight: *const f32,
            bias: *const f32,
            output: *mut f32,
        ) {
            // Elsewhere there are no copies of boxes.
            #[cfg(not(cuda_arch = "sm_90a"))]
            let _ = maps;
            // SAFETY: the caller's promise.
            unsafe {
                let operands = Operands {
                    tables,
                    header: input,
                    input: input.wrapping_add(tiling.input_header as usize),
                    #[cfg(cuda_arch = "sm_90a")]
                    maps: cuda_std::tensor_map_parameter!($name, 3, maps),
                    weight,
                };
                tile::<{ $columns / 8 }, $slots, $split, $f16, $convert, $ordinary>(&tiling, &operands, bias, output);
            }
        }
    };
}

/// Makes the kernels, and the list of them. Before compute capability 8.0 there are those for ordinary cores, later
/// those for tensor cores, of which those that are large need more registers than a thread gets where threads cannot
/// pass theirs on to each other, which is everywhere but on compute capability 9.0; there are also those for `f16`.
macro_rules! tile_kernels {
    (
        ordinary { $($ordinary:ident: $ordinary_columns:literal, $ordinary_slots:literal;)+ }
        everywhere { $($name:ident: $columns:literal, $slots:literal, $split:literal;)+ }
        large { $($large:ident: $large_columns:literal, $large_slots:literal, $large_split:literal;)+ }
        f16 { $($f16:ident: $f16_columns:literal, $f16_slots:literal, $f16_split:literal, $convert:literal;)+ }
    ) => {
        $(
            #[cfg(any(cuda_arch = "sm_70", feature = "emulator"))]
            tile_kernel!($ordinary, $ordinary_columns, $ordinary_slots, false, false, false, true);
        )+

        $(
            #[cfg(any(all(gpu, not(cuda_arch = "sm_70")), feature = "emulator"))]
            tile_kernel!($name, $columns, $slots, $split, false, false, false);
        )+

        #[cfg(any(cuda_arch = "sm_90a", feature = "emulator"))]
        mod large {
            use super::*;

            $(tile_kernel!($large, $large_columns, $large_slots, $large_split, false, false, false);)+
            $(tile_kernel!($f16, $f16_columns, $f16_slots, $f16_split, true, $convert, false);)+
        }

        #[cfg(any(cuda_arch = "sm_90a", feature = "emulator"))]
        pub use large::*;

        /// The tile kernels, for the host to choose from.
        pub const VARIANTS: &[Variant] = &[
            $(Variant {
                kernel: stringify!($ordinary),
                columns: $ordinary_columns,
                slots: $ordinary_slots,
                split: false,
                f16: false,
                teams_convert: false,
                ordinary: true,
                large: false,
            },)+
            $(Variant {
                kernel: stringify!($name),
                columns: $columns,
                slots: $slots,
                split: $split,
                f16: false,
                teams_convert: false,
                ordinary: false,
                large: false,
            },)+
            $(Variant {
                kernel: stringify!($large),
                columns: $large_columns,
                slots: $large_slots,
                split: $large_split,
                f16: false,
                teams_convert: false,
                ordinary: false,
                large: true,
            },)+
            $(Variant {
                kernel: stringify!($f16),
                columns: $f16_columns,
                slots: $f16_slots,
                split: $f16_split,
                f16: true,
                teams_convert: $convert,
                ordinary: false,
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
    /// Columns of a tile: output channels, or phases of fewer.
    pub columns: u32,
    /// Slots.
    pub slots: u32,
    /// Whether factors are split in two, for single precision.
    pub split: bool,
    /// Whether they are `f16` numbers. Such a kernel joins no rows.
    pub f16: bool,
    /// Whether the input is made `f16` by the teams when they load it, 16 channels at a time; otherwise it is packed
    /// before. If factors are split, a tile is to have one sample then: its inputs have a scale in common, and no
    /// sample's accuracy is to depend on another one.
    pub teams_convert: bool,
    /// Whether it multiplies on ordinary cores, factors as they are: it exists before compute capability 8.0 only.
    pub ordinary: bool,
    /// Whether it exists for compute capability 9.0 only.
    pub large: bool,
}

impl Variant {
    /// Whether rows may be joined: see [`Run`]. Ordinary cores multiply few columns as fast as many.
    pub const fn joins_rows(&self) -> bool {
        !self.ordinary && may_join_rows(self.blocks(), self.slots as usize, self.f16)
    }

    /// Whether slots may be halves: see [`HALVES`].
    pub const fn has_halves(&self) -> bool {
        may_have_halves(self.blocks(), self.slots as usize)
    }

    /// Blocks of eight columns.
    const fn blocks(&self) -> usize {
        self.columns as usize / 8
    }

    /// Whether it reads the packed input.
    pub const fn reads_packed(&self) -> bool {
        self.f16 && !self.teams_convert
    }

    /// Whether factors are sums of two `f16` numbers.
    pub const fn splits_to_f16(&self) -> bool {
        self.split && self.f16
    }

    /// Whether blocks may be partners, where there are clusters.
    pub const fn has_partners(&self) -> bool {
        partners::may_have_partners(self.blocks(), self.split)
    }
}

tile_kernels! {
    ordinary {
        tile_8x8: 8, 8;
        tile_16x4: 16, 4;
        tile_24x4: 24, 4;
        tile_32x2: 32, 2;
        tile_32x3: 32, 3;
        tile_64x1: 64, 1;
    }
    everywhere {
        tile_8x8_tf32: 8, 8, false;
        tile_16x1_tf32: 16, 1, false;
        tile_16x4_tf32: 16, 4, false;
        tile_32x1_tf32: 32, 1, false;
        tile_32x2_tf32: 32, 2, false;
        tile_64x1_tf32: 64, 1, false;
        tile_16x1_f32: 16, 1, true;
        tile_32x1_f32: 32, 1, true;
        tile_48x1_f32: 48, 1, true;
    }
    large {
        tile_24x8_tf32: 24, 8, false;
        tile_32x4_tf32: 32, 4, false;
        tile_48x4_tf32: 48, 4, false;
        tile_64x2_tf32: 64, 2, false;
        tile_64x4_tf32: 64, 4, false;
        tile_128x1_tf32: 128, 1, false;
        tile_128x2_tf32: 128, 2, false;
        tile_16x2_f32: 16, 2, true;
        tile_16x4_f32: 16, 4, true;
        tile_24x4_f32: 24, 4, true;
        tile_32x2_f32: 32, 2, true;
        tile_32x3_f32: 32, 3, true;
        tile_48x2_f32: 48, 2, true;
        tile_64x2_f32: 64, 2, true;
        tile_128x1_f32: 128, 1, true;
    }
    f16 {
        tile_24x4_f16: 24, 4, false, false;
        tile_32x1_f16: 32, 1, false, false;
        tile_32x4_f16_raw: 32, 4, false, true;
        tile_48x4_f16: 48, 4, false, false;
        tile_64x1_f16: 64, 1, false, false;
        tile_64x2_f16: 64, 2, false, false;
        tile_64x4_f16: 64, 4, false, false;
        tile_64x4_f16_raw: 64, 4, false, true;
        tile_128x1_f16: 128, 1, false, false;
        tile_128x2_f16: 128, 2, false, false;
        tile_128x2_f16_raw: 128, 2, false, true;
        tile_32x3_f32_f16: 32, 3, true, false;
        tile_32x3_f32_f16_raw: 32, 3, true, true;
        tile_48x2_f32_f16: 48, 2, true, false;
        tile_48x2_f32_f16_raw: 48, 2, true, true;
        tile_64x2_f32_f16: 64, 2, true, false;
        tile_64x2_f32_f16_raw: 64, 2, true, true;
        tile_128x1_f32_f16: 128, 1, true, false;
        tile_128x1_f32_f16_raw: 128, 1, true, true;
    }
}
