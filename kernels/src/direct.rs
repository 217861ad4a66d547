//! Direct: a thread computes a few vectors of neighbouring outputs in registers, for layers with few channels in a
//! group.
//!
//! Where a weight meets few inputs, as in a depthwise layer, the time goes into moving what is read and written, and
//! whatever an output element costs beside its products has to be shared by several of them. A thread has [`PIECES`]
//! pieces of `V` neighbouring columns: of rows of a phase, one below the other, or, where there are few rows, of one
//! row. All pieces have the same taps, and a weight that was loaded serves all of them.
//!
//! What a thread has loaded of the input serves whatever it computes from it. Neighbouring columns share inputs: with
//! dilation 1, a position reaches them through neighbouring kernel elements. So do pieces below each other: what one of
//! them reads for a row of the kernel, the piece below reads for the next row. So each piece has a *window* of inputs
//! in registers, which moves on to the piece below from one row of the kernel to the next, and only the first piece
//! loads. Windows begin where vectors of the input do, if rows of it are aligned, and are loaded by vectors then.
//! Neighbouring threads have neighbouring pieces. A piece of four is stored by one instruction wherever it is aligned;
//! where rows of the output are not, lanes pass columns on to each other, and then store four that are.
//!
//! Bitwise repeatable, needs no workspace and takes any geometry; pieces of four columns only with dilation 1 on the
//! last axis. A position beyond the input is read as zero, so a weight that is infinite or NaN may make NaN of elements
//! close to the border, and a kernel far larger than the input costs all of its taps.

use bytemuck::{Pod, Zeroable};

use cuda_std::{
    kernel, math, mem, thread,
    warp::{self, FULL_MASK, WARP_SIZE},
};

use crate::{
    index::{Divisor, Index},
    problem::{Axis, Phase, Problem, Taps},
    unrolled::unrolled,
};

/// Pieces of a thread.
pub const PIECES: usize = 4;

/// Inputs of a piece of one column that are in registers at a time.
const WINDOW: usize = 4;
/// The same of pieces of four.
pub const WINDOW_OF_QUADS: usize = 12;
/// Windows of a row that have code of their own.
const CONSTANT_WINDOWS: usize = 2;
/// The most entries that are loaded by vectors.
pub const MOST_IN_VECTORS: usize = CONSTANT_WINDOWS * WINDOW_OF_QUADS;

/// How the threads share the output.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct Pieces {
    /// First pieces in a row, as a divisor.
    pub columns_divisor: Divisor,
    /// Rows of a slice that have first pieces, as a divisor.
    pub rows_divisor: Divisor,
    /// Neighbouring rows that have first pieces: `row_step`, or all where pieces are beside each other. As a divisor.
    pub neighbours_divisor: Divisor,
    /// Output rows from a piece of a thread to its next: a multiple of the stride, unless no thread has a second piece
    /// within the output.
    pub row_step: u64,
    /// The same along a row. One of the two is zero.
    pub column_step: u64,
    /// Input rows from a piece to the next: what taps of successive kernel rows are apart.
    pub input_row_step: u64,
    /// The same along a row.
    pub input_column_step: u64,
    /// Words of a vector of the input: 1, 2 or 4. With more than one, rows of the input consist of whole vectors, and
    /// there are at most [`MOST_IN_VECTORS`] entries.
    pub vector: u64,
    /// So many positions behind the last one that reaches a piece does its window begin: where a vector ends.
    pub lead: u64,
    /// Positions from there on that reach a piece.
    pub entries: u64,
    /// Number of threads.
    pub threads: u64,
}

/// Computes the output column by column, for fewer than 2^31 elements.
///
/// # Safety
/// As [`direct_wide`]; in addition, every tensor has fewer than 2^31 elements, and every coordinate of the problem and
/// of the pieces fits in 31 bits.
#[kernel(launch_bounds(256, 2))]
pub unsafe fn direct(
    problem: Problem,
    pieces: Pieces,
    phases: *const Phase,
    input: *const f32,
    weight: *const f32,
    bias: *const f32,
    output: *mut f32,
) {
    let index = thread::block_idx_x() * thread::block_dim_x() + thread::thread_idx_x();
    let operands = Operands { phases, input, weight, bias, output };
    // SAFETY: the caller's promise.
    unsafe { compute::<u32, 1, WINDOW>(index, &problem, &pieces, &operands) }
}

/// Computes the output column by column, with 64-bit indices.
///
/// # Safety
/// The pointers are device pointers to tensors of the problem's shapes, and to its table of phases; `bias` is null or
/// has an element per output channel; nothing else accesses the output meanwhile. The pieces are of one column and
/// cover the output, each position once. The grid is one-dimensional and has at least `pieces.threads` threads, in
/// blocks of whole warps.
#[kernel(launch_bounds(256, 1))]
pub unsafe fn direct_wide(
    problem: Problem,
    pieces: Pieces,
    phases: *const Phase,
    input: *const f32,
    weight: *const f32,
    bias: *const f32,
    output: *mut f32,
) {
    let block = thread::block_idx_x() as u64 * thread::block_dim_x() as u64;
    let operands = Operands { phases, input, weight, bias, output };
    // SAFETY: the caller's promise.
    unsafe { compute::<u64, 1, WINDOW>(block + thread::thread_idx_x() as u64, &problem, &pieces, &operands) }
}

/// Computes the output by four columns, for fewer than 2^31 elements.
///
/// # Safety
/// As [`direct_quads_wide`]; in addition, every tensor has fewer than 2^31 elements, and every coordinate of the
/// problem and of the pieces fits in 31 bits.
#[kernel(launch_bounds(256, 1))]
pub unsafe fn direct_quads(
    problem: Problem,
    pieces: Pieces,
    phases: *const Phase,
    input: *const f32,
    weight: *const f32,
    bias: *const f32,
    output: *mut f32,
) {
    let index = thread::block_idx_x() * thread::block_dim_x() + thread::thread_idx_x();
    let operands = Operands { phases, input, weight, bias, output };
    // SAFETY: the caller's promise.
    unsafe { compute::<u32, 4, WINDOW_OF_QUADS>(index, &problem, &pieces, &operands) }
}

/// Computes the output by four columns, with 64-bit indices.
///
/// # Safety
/// As [`direct_wide`], but the pieces are of four columns, or less at the end of a row. The dilation of the last axis
/// is 1.
#[kernel(launch_bounds(256, 1))]
pub unsafe fn direct_quads_wide(
    problem: Problem,
    pieces: Pieces,
    phases: *const Phase,
    input: *const f32,
    weight: *const f32,
    bias: *const f32,
    output: *mut f32,
) {
    let block = thread::block_idx_x() as u64 * thread::block_dim_x() as u64;
    let operands = Operands { phases, input, weight, bias, output };
    // SAFETY: the caller's promise.
    unsafe { compute::<u64, 4, WINDOW_OF_QUADS>(block + thread::thread_idx_x() as u64, &problem, &pieces, &operands) }
}

/// What a kernel is given beside the geometry.
struct Operands {
    phases: *const Phase,
    input: *const f32,
    weight: *const f32,
    bias: *const f32,
    output: *mut f32,
}

/// Where the first piece of a thread is.
struct Place<I> {
    sample: I,
    channel: I,
    /// The slice of all samples and channels that `z` is.
    slice: I,
    z: I,
    y: I,
    x: I,
}

/// What a thread reads of a row.
struct Reach<I> {
    /// Where the window of the first piece begins.
    input: I,
    /// The kernel element that leads from there to the piece's last column. If it does not exist, nor do those that
    /// lead to other columns, the position does not reach the piece.
    tap: I,
}

/// A slice of an input channel and what it is multiplied by, for the pieces of a thread.
struct Slice<'a, I> {
    /// The axes within the slice.
    axes: [&'a Axis; 2],
    pieces: &'a Pieces,
    operands: &'a Operands,
    reach: Reach<I>,
    taps_y: Taps<I>,
    /// Where the slice begins.
    input: I,
    /// Where the slice of the kernel begins.
    weight: I,
}

/// Computes the pieces of thread `index`, if it has any.
///
/// # Safety
/// As the kernels, and all lanes of the warp are here.
#[cfg_attr(gpu, inline(always))]
unsafe fn compute<I: Index, const V: usize, const W: usize>(
    index: I,
    p: &Problem,
    pieces: &Pieces,
    operands: &Operands,
) {
    let [_, _, row] = &p.axes;
    // With other strides, registers are worth more than whole vectors.
    let are_shifted = V == 4 && row.output % 4 > 0 && has_same_taps::<V>(row);
    let is_mine = index < I::new(pieces.threads);
    // Lanes that pass columns on to each other stay together: those beyond the last piece compute the first one, and
    // store nothing.
    if !is_mine && !are_shifted {
        return;
    }
    let place = Place::of::<V>(if is_mine { index } else { I::new(0) }, p, pieces);
    let mut value = 0.0;
    if !operands.bias.is_null() {
        // SAFETY: a bias has an element per output channel.
        value = unsafe { mem::load_readonly(operands.bias.add(place.channel.offset())) };
    }
    let mut sums = [[value; V]; PIECES];
    let is_aligned = |words: usize| pieces.vector == words as u64 && operands.input.addr().is_multiple_of(4 * words);
    // SAFETY: the operands are the problem's, the place is within the output, and no other thread has its pieces,
    // unless it only passes columns on; no lane has left then.
    unsafe {
        if V == 4 && is_aligned(4) {
            sum::<I, V, W, 4>(&mut sums, &place, p, pieces, operands);
        } else if V == 4 && is_aligned(2) {
            sum::<I, V, W, 2>(&mut sums, &place, p, pieces, operands);
        } else {
            sum::<I, V, W, 1>(&mut sums, &place, p, pieces, operands);
        }
        store::<I, V>(&sums, &place, is_mine, are_shifted, p, pieces, operands.output);
    }
}

impl<I: Index> Place<I> {
    /// The place of a thread whose pieces have `V` columns.
    #[cfg_attr(gpu, inline(always))]
    fn of<const V: usize>(index: I, p: &Problem, pieces: &Pieces) -> Self {
        let (row, column) = index.divide(pieces.columns_divisor);
        let (slice, row) = row.divide(pieces.rows_divisor);
        let (block, neighbour) = row.divide(pieces.neighbours_divisor);
        let y = block.times(I::new(PIECES as u64)).times(I::new(pieces.row_step)).plus(neighbour);
        let (plane, z) = slice.divide(p.axes[0].output_divisor);
        let (sample, channel) = plane.divide(p.out_channels_divisor);
        Self { sample, channel, slice, z, y, x: column.times(I::new(V as u64)) }
    }
}

/// Adds all products to the pieces, with inputs loaded by vectors of `L`.
///
/// # Safety
/// The operands are the problem's, and the place is within the output. With `L` above 1, the input is aligned to
/// vectors, and `pieces.vector` is `L`.
#[cfg_attr(gpu, inline(always))]
unsafe fn sum<I: Index, const V: usize, const W: usize, const L: usize>(
    sums: &mut [[f32; V]; PIECES],
    place: &Place<I>,
    p: &Problem,
    pieces: &Pieces,
    operands: &Operands,
) where
    [f32; L]: mem::Transfer,
{
    let [az, ay, ax] = &p.axes;
    let (group, local_channel) = place.channel.divide(p.out_per_group_divisor);
    let in_per_group = I::new(p.in_per_group);
    let first_channel = place.sample.times(I::new(p.groups)).plus(group).times(in_per_group);
    let first_input = first_channel.times(I::new(p.input_plane));
    let first_weight = group.times(in_per_group).times(I::new(p.out_per_group)).plus(local_channel);
    let first_weight = first_weight.times(I::new(p.taps));
    let weight_step = I::new(p.weight_step());
    // SAFETY: the place is within the output, and the table is the problem's.
    let (mut taps_z, taps_y, reach) = unsafe {
        let reach = Reach::of::<V>(ax, pieces, operands.phases, place.x);
        (az.all_taps(operands.phases, place.z), ay.all_taps(operands.phases, place.y), reach)
    };
    let mut slice = Slice { axes: [ay, ax], pieces, operands, reach, taps_y, input: first_input, weight: first_weight };
    while let Some((kz, iz)) = taps_z.take() {
        if iz >= I::new(az.input) {
            continue;
        }
        slice.input = first_input.plus(iz.times(I::new(ay.input)).times(I::new(ax.input)));
        slice.weight = first_weight.plus(kz.times(I::new(ay.kernel)).times(I::new(ax.kernel)));
        for _ in 0..p.in_per_group as u32 {
            // Where entries are constants, so are their taps in a kernel that is compiled for its layer.
            unrolled!(NUMBER in 0..CONSTANT_WINDOWS, at most 2 => {
                let first = I::new((NUMBER * W) as u64);
                if first < I::new(pieces.entries) {
                    // SAFETY: a slice of this sample and of the kernel, both of this group.
                    unsafe { slice.add::<V, W, L>(sums, first) };
                }
            });
            let mut first = I::new((CONSTANT_WINDOWS * W) as u64);
            while L == 1 && first < I::new(pieces.entries) {
                // SAFETY: as above.
                unsafe { slice.add::<V, W, 1>(sums, first) };
                first = first.plus(I::new(W as u64));
            }
            slice.input = slice.input.plus(I::new(p.input_plane));
            slice.weight = slice.weight.plus(weight_step);
        }
    }
}

/// Whether all pieces of `V` columns have the same taps, because strides are parts of pieces: these begin at multiples
/// of `V`.
#[cfg_attr(gpu, inline(always))]
fn has_same_taps<const V: usize>(axis: &Axis) -> bool {
    let stride = axis.stride as u32;
    stride <= V as u32 && stride.is_power_of_two()
}

impl<I: Index> Reach<I> {
    /// What a piece of `V` columns at column `x` reads.
    ///
    /// # Safety
    /// `phases` must be the problem's table, readable by the device, and `x` be within the output.
    #[cfg_attr(gpu, inline(always))]
    unsafe fn of<const V: usize>(axis: &Axis, pieces: &Pieces, phases: *const Phase, x: I) -> Self {
        if V == 1 {
            let (q, r) = x.divide(axis.stride_divisor);
            // SAFETY: the caller's promise.
            let phase = unsafe { axis.phase::<I>(phases, r) };
            let tap = if phase.taps > 0 { I::new(phase.first_tap.into()) } else { I::new(axis.kernel) };
            return Self { input: I::from_signed(phase.first_input).plus(q), tap };
        }
        let last = V as u32 - 1 + axis.pad_remainder as u32;
        let stride = axis.stride as u32;
        let (input, tap) = if has_same_taps::<V>(axis) {
            // A constant in a kernel that is compiled for its layer.
            let (strides, tap) = (last >> stride.trailing_zeros(), last & (stride - 1));
            (x.divide(axis.stride_divisor).0.plus(I::new(strides.into())), I::new(tap.into()))
        } else {
            x.plus(I::new(last.into())).divide(axis.stride_divisor)
        };
        let lead = I::new(pieces.lead);
        Self {
            input: input.plus(I::from_signed(axis.pad_strides)).plus(lead),
            tap: tap.minus(lead.times(I::new(axis.stride))),
        }
    }
}

impl<I: Index> Slice<'_, I> {
    /// Adds the products of `W` entries of the windows, from the `first` one on.
    ///
    /// # Safety
    /// As [`sum`]; the slice is of the input and of the weight.
    #[cfg_attr(gpu, inline(always))]
    unsafe fn add<const V: usize, const W: usize, const L: usize>(&self, sums: &mut [[f32; V]; PIECES], first: I)
    where
        [f32; L]: mem::Transfer,
    {
        let follow_each_other = self.pieces.input_row_step == self.axes[0].input_step;
        let mut windows = [[0.0; W]; PIECES];
        unrolled!(PIECE in 0..PIECES, at most 4 => {
            // SAFETY: the caller's promise.
            windows[PIECE] = unsafe { self.window::<V, W, L>(self.taps_y.input, PIECE, first, true) };
        });
        let mut taps = self.taps_y;
        while let Some((ky, _)) = taps.take() {
            // Or else what is the same for all rows would be kept for each entry, in more registers than there are.
            let first = first.opaque();
            let (next, is_followed) = (taps.input, taps.count > I::new(0));
            // SAFETY: the caller's promise.
            let moving_in = unsafe { self.window::<V, W, L>(next, 0, first, follow_each_other && is_followed) };
            // SAFETY: a row of the kernel.
            unsafe { self.add_row(sums, &windows, ky, first) };
            windows = [moving_in, windows[0], windows[1], windows[2]];
            if !follow_each_other {
                unrolled!(PIECE in 0..PIECES, at most 4 => {
                    // SAFETY: the caller's promise.
                    windows[PIECE] = unsafe { self.window::<V, W, L>(next, PIECE, first, is_followed) };
                });
            }
        }
    }

    /// The window of a piece, if it is needed, where the first piece reads row `iy`.
    ///
    /// # Safety
    /// As [`add`](Self::add).
    #[cfg_attr(gpu, inline(always))]
    unsafe fn window<const V: usize, const W: usize, const L: usize>(
        &self,
        iy: I,
        piece: usize,
        first: I,
        is_needed: bool,
    ) -> [f32; W]
    where
        [f32; L]: mem::Transfer,
    {
        let [ay, ax] = self.axes;
        let input_step = I::new(if V == 1 { ax.input_step } else { 1 });
        let piece = I::new(piece as u64);
        let iy = iy.plus(I::new(self.pieces.input_row_step).times(piece));
        let ix = self.reach.input.plus(I::new(self.pieces.input_column_step).times(piece));
        let end = I::new(if is_needed && iy < I::new(ay.input) { ax.input } else { 0 });
        let last = self.operands.input.wrapping_add(self.input.plus(iy.times(I::new(ax.input))).plus(ix).offset());
        let mut window = [0.0; W];
        unrolled!(VECTOR in 0..{ W / L }, at most 16 => {
            let entry = VECTOR * L;
            let number = first.plus(I::new(entry as u64));
            let back = number.times(input_step);
            let is_within = number < I::new(self.pieces.entries) && ix.minus(back) < end;
            let source = last.wrapping_sub(back.offset()).wrapping_sub(L - 1);
            // SAFETY: where it is loaded, the position is within its row, and so is the vector that ends there.
            let vector: [f32; L] = unsafe { mem::load_readonly_if(is_within, source.cast()) };
            for (lane, &value) in vector.iter().rev().enumerate() {
                window[entry + lane] = value;
            }
        });
        window
    }

    /// Adds the products of row `ky` of the kernel with the windows, whose entries are counted from the `first` one on.
    ///
    /// # Safety
    /// The row is one of the kernel.
    #[cfg_attr(gpu, inline(always))]
    unsafe fn add_row<const V: usize, const W: usize>(
        &self,
        sums: &mut [[f32; V]; PIECES],
        windows: &[[f32; W]; PIECES],
        ky: I,
        first: I,
    ) {
        let [_, ax] = self.axes;
        let row = self.operands.weight.wrapping_add(self.weight.plus(ky.times(I::new(ax.kernel))).offset());
        unrolled!(ENTRY in 0..W, at most 16 => {
            let number = first.plus(I::new(ENTRY as u64));
            let last_tap = self.reach.tap.plus(number.times(I::new(ax.tap_step)));
            unrolled!(COLUMN in 0..V, at most 4 => {
                let tap = last_tap.plus(I::new(COLUMN as u64)).minus(I::new(V as u64 - 1));
                if number < I::new(self.pieces.entries) && tap < I::new(ax.kernel) {
                    // SAFETY: the tap is within the kernel's row.
                    let factor = unsafe { mem::load_readonly(row.add(tap.offset())) };
                    unrolled!(PIECE in 0..PIECES, at most 4 => {
                        sums[PIECE][COLUMN] = math::fma(windows[PIECE][ENTRY], factor, sums[PIECE][COLUMN]);
                    });
                }
            });
        });
    }
}

/// Stores those columns of the pieces that are within the output. Where rows `are_shifted`, lanes pass columns on to
/// each other.
///
/// # Safety
/// The place is within the output, and its pieces are this thread's alone if `is_mine`, as they are unless rows are
/// shifted. Then all lanes of the warp are here.
#[cfg_attr(gpu, inline(always))]
unsafe fn store<I: Index, const V: usize>(
    sums: &[[f32; V]; PIECES],
    place: &Place<I>,
    is_mine: bool,
    are_shifted: bool,
    p: &Problem,
    pieces: &Pieces,
    output: *mut f32,
) {
    let [_, ay, ax] = &p.axes;
    let neighbours = if are_shifted { Some(Neighbours::of::<I, V>(place.x, pieces)) } else { None };
    unrolled!(PIECE in 0..PIECES, at most 4 => {
        let piece = I::new(PIECE as u64);
        let y = place.y.plus(I::new(pieces.row_step).times(piece));
        let x = place.x.plus(I::new(pieces.column_step).times(piece));
        let is_within = is_mine && y < I::new(ay.output) && x < I::new(ax.output);
        let left = if is_within { I::new(ax.output).minus(x) } else { I::new(0) };
        let position = place.slice.times(I::new(ay.output)).plus(y).times(I::new(ax.output)).plus(x);
        // SAFETY: the caller's promise, and so many columns are left.
        unsafe { store_piece(output.wrapping_add(position.offset()), &sums[PIECE], left, neighbours) };
    });
}

/// Which lanes beside this one have the columns before and behind its own.
#[derive(Clone, Copy)]
struct Neighbours {
    has_previous: bool,
    has_next: bool,
}

impl Neighbours {
    #[cfg_attr(gpu, inline(always))]
    fn of<I: Index, const V: usize>(x: I, pieces: &Pieces) -> Self {
        let (lane, columns) = (warp::lane_id(), I::new(V as u64));
        let end = I::new(pieces.columns_divisor.value()).times(columns);
        Self { has_previous: lane > 0 && x > I::new(0), has_next: lane + 1 < WARP_SIZE && x.plus(columns) < end }
    }
}

/// Stores those columns of a piece that are left in its row, by one instruction where four are left that are aligned.
/// With neighbours, the columns before the first four that are aligned go to the lane before, which stores them with
/// its own last ones: a sector of the memory that is written in pieces takes as long as several.
///
/// # Safety
/// As [`store`]. As many columns as are left, from `target` on, are within the output.
#[cfg_attr(gpu, inline(always))]
unsafe fn store_piece<I: Index, const V: usize>(
    target: *mut f32,
    sums: &[f32; V],
    left: I,
    neighbours: Option<Neighbours>,
) {
    let (mut first, mut end) = (I::new(0), left);
    if V == 4 {
        let [mut a, mut b, mut c, mut d]: [f32; 4] = core::array::from_fn(|column| sums[column % V]);
        let (mut ahead, mut are_aligned) = (0, target.addr().is_multiple_of(16));
        if let Some(Neighbours { has_previous, has_next }) = neighbours {
            ahead = (target.addr() / 4).wrapping_neg() % 4;
            are_aligned |= has_next;
            // SAFETY: all lanes are here.
            let [e, f, g] = [a, b, c].map(|word| unsafe { warp::warp_shuffle_down(FULL_MASK, word, 1) });
            [a, b, c, d] = match ahead {
                0 => [a, b, c, d],
                1 => [b, c, d, e],
                2 => [c, d, e, f],
                _ => [d, e, f, g],
            };
            if has_previous && left >= I::new(ahead as u64) {
                first = I::new(ahead as u64);
            }
        }
        if are_aligned && left >= I::new(ahead as u64 + 4) {
            // SAFETY: so many columns are left, and aligned from there on.
            unsafe { mem::store(target.wrapping_add(ahead).cast(), [a, b, c, d]) };
            end = I::new(ahead as u64);
        }
    }
    unrolled!(COLUMN in 0..V, at most 4 => {
        let column = I::new(COLUMN as u64);
        if first <= column && column < end {
            // SAFETY: the column is left, and nobody else stores it.
            unsafe { mem::store(target.wrapping_add(COLUMN), sums[COLUMN]) };
        }
    });
}
