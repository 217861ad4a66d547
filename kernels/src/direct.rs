//! Direct: a thread computes a few vectors of neighbouring outputs in registers, for layers with few channels in a group.
//!
//! Where a weight meets few inputs, as in a depthwise layer, the time goes into moving the output, and whatever an output element
//! costs beside its products has to be shared by several of them. A thread has [`PIECES`] pieces of `V` neighbouring columns, each
//! piece [`Pieces::row_step`] rows or [`Pieces::column_step`] columns from the last. The steps are multiples of the stride, so all
//! pieces have the same taps, and a weight that was loaded serves all of them. The columns of a piece share their inputs: with
//! dilation 1, an input position reaches neighbouring outputs through neighbouring kernel elements. Neighbouring threads have
//! neighbouring pieces, and a piece of four is stored by one instruction wherever it is aligned.
//!
//! Bitwise repeatable, needs no workspace and takes any geometry; pieces of four columns only with dilation 1 on the last axis. A
//! position beyond the input is read as zero, so a weight that is infinite or NaN may make NaN of elements close to the border, and
//! a kernel far larger than the input costs all of its taps.

use bytemuck::{Pod, Zeroable};

use cuda_std::{kernel, math, mem, thread};

use crate::{
    index::{Divisor, Index},
    problem::{Axis, Phase, Problem},
};

/// Pieces of a thread.
pub const PIECES: usize = 4;

/// How the threads share the output.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct Pieces {
    /// First pieces in a row, as a divisor.
    pub columns_divisor: Divisor,
    /// Rows of a slice that have first pieces, as a divisor.
    pub rows_divisor: Divisor,
    /// Output rows from a piece of a thread to its next: a multiple of the stride, unless no thread has a second piece within the
    /// output.
    pub row_step: u64,
    /// The same along a row. One of the two is zero.
    pub column_step: u64,
    /// Input rows from a piece to the next.
    pub input_row_step: u64,
    /// The same along a row.
    pub input_column_step: u64,
    /// Where the padding of the last axis begins, in strides, rounded down.
    pub first_input: i64,
    /// What remains of it: the kernel element that leads from there to output column 0, with dilation 1.
    pub first_tap: u64,
    /// Number of threads.
    pub threads: u64,
}

/// Computes the output column by column, for fewer than 2^31 elements.
///
/// # Safety
/// As [`direct_wide`]; in addition, every tensor has fewer than 2^31 elements, and every coordinate of the problem and of the pieces
/// fits in 31 bits.
#[kernel(launch_bounds(256, 4))]
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
    unsafe { compute::<u32, 1>(index, &problem, &pieces, &operands) }
}

/// Computes the output column by column, with 64-bit indices.
///
/// # Safety
/// The pointers are device pointers to tensors of the problem's shapes, and to its table of phases; `bias` is null or has an
/// element per output channel; nothing else accesses the output meanwhile. The pieces are of one column and cover the output, each
/// position once. The grid is one-dimensional and has at least `pieces.threads` threads.
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
    unsafe { compute::<u64, 1>(block + thread::thread_idx_x() as u64, &problem, &pieces, &operands) }
}

/// Computes the output by four columns, for fewer than 2^31 elements.
///
/// # Safety
/// As [`direct_quads_wide`]; in addition, every tensor has fewer than 2^31 elements, and every coordinate of the problem and of the
/// pieces fits in 31 bits.
#[kernel(launch_bounds(256, 3))]
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
    unsafe { compute::<u32, 4>(index, &problem, &pieces, &operands) }
}

/// Computes the output by four columns, with 64-bit indices.
///
/// # Safety
/// As [`direct_wide`], but the pieces are of four columns, or less at the end of a row. The dilation of the last axis is 1.
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
    unsafe { compute::<u64, 4>(block + thread::thread_idx_x() as u64, &problem, &pieces, &operands) }
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

/// The input rows of the pieces for one row of the kernel.
struct Rows<I> {
    input: *const f32,
    /// Where input position `ix` of the first piece's row lies.
    from: I,
    /// The last input position that reaches the first piece.
    ix: I,
    /// The extent of each piece's row; 0 for a row beyond the input.
    ends: [I; PIECES],
}

/// The elements of one row of the kernel.
struct KernelRow<I> {
    row: *const f32,
    /// The one that leads from the last input position to the last column of a piece.
    last: I,
}

/// Computes the pieces of thread `index`, if it has any.
///
/// # Safety
/// As the kernels.
#[cfg_attr(gpu, inline(always))]
unsafe fn compute<I: Index, const V: usize>(index: I, p: &Problem, pieces: &Pieces, operands: &Operands) {
    if index >= I::new(pieces.threads) {
        return;
    }
    let place = Place::of::<V>(index, p, pieces);
    let mut value = 0.0;
    if !operands.bias.is_null() {
        // SAFETY: a bias has an element per output channel.
        value = unsafe { mem::load_readonly(operands.bias.add(place.channel.offset())) };
    }
    let mut sums = [[value; V]; PIECES];
    // SAFETY: the operands are the problem's, the place is within the output, and no other thread has its pieces.
    unsafe {
        sum::<I, V>(&mut sums, &place, p, pieces, operands);
        store::<I, V>(&sums, &place, p, pieces, operands.output);
    }
}

impl<I: Index> Place<I> {
    /// The place of a thread whose pieces have `V` columns.
    #[cfg_attr(gpu, inline(always))]
    fn of<const V: usize>(index: I, p: &Problem, pieces: &Pieces) -> Self {
        let (row, column) = index.divide(pieces.columns_divisor);
        let (slice, y) = row.divide(pieces.rows_divisor);
        let (plane, z) = slice.divide(p.axes[0].output_divisor);
        let (sample, channel) = plane.divide(p.out_channels_divisor);
        Self { sample, channel, slice, z, y, x: column.times(I::new(V as u64)) }
    }
}

/// Adds all products to the pieces. The channels are outside of the rows, so that there is one row at a time to know the ends of.
///
/// # Safety
/// The operands are the problem's, and the place is within the output.
#[cfg_attr(gpu, inline(always))]
unsafe fn sum<I: Index, const V: usize>(
    sums: &mut [[f32; V]; PIECES],
    place: &Place<I>,
    p: &Problem,
    pieces: &Pieces,
    operands: &Operands,
) {
    let [az, ay, ax] = &p.axes;
    let (group, local_channel) = place.channel.divide(p.out_per_group_divisor);
    let in_per_group = I::new(p.in_per_group);
    let first_channel = place.sample.times(I::new(p.groups)).plus(group).times(in_per_group);
    let first_input = first_channel.times(I::new(p.input_plane));
    let first_weight = group.times(in_per_group).times(I::new(p.out_per_group)).plus(local_channel);
    let first_weight = first_weight.times(I::new(p.taps));
    let weight_step = I::new(p.out_per_group).times(I::new(p.taps));
    // SAFETY: the place is within the output, and the table is the problem's.
    let (taps_z, taps_y, (ix, last)) = unsafe {
        let last_tap = last_tap::<I, V>(ax, pieces, operands.phases, place.x);
        (az.all_taps(operands.phases, place.z), ay.all_taps(operands.phases, place.y), last_tap)
    };
    taps_z.for_each(|kz, iz| {
        if iz >= I::new(az.input) {
            return;
        }
        let mut from_slice = first_input.plus(iz.times(I::new(ay.input)).times(I::new(ax.input))).plus(ix);
        let mut kernel_slice = first_weight.plus(kz.times(I::new(ay.kernel)).times(I::new(ax.kernel)));
        for _ in 0..p.in_per_group as u32 {
            taps_y.for_each(|ky, iy| {
                let ends = core::array::from_fn(|piece| {
                    let iy = iy.plus(I::new(pieces.input_row_step).times(I::new(piece as u64)));
                    if iy < I::new(ay.input) { I::new(ax.input) } else { I::new(0) }
                });
                let from = from_slice.plus(iy.times(I::new(ax.input)));
                let rows = Rows { input: operands.input, from, ix, ends };
                let row = operands.weight.wrapping_add(kernel_slice.plus(ky.times(I::new(ax.kernel))).offset());
                // SAFETY: rows of this sample and of the kernel, both of this group.
                unsafe { add_row::<I, V>(sums, ax, pieces, &rows, &KernelRow { row, last }) };
            });
            from_slice = from_slice.plus(I::new(p.input_plane));
            kernel_slice = kernel_slice.plus(weight_step);
        }
    });
}

/// The last input position that reaches the piece at column `x`, and the kernel element that leads from there to the piece's
/// last column; if that element does not exist, no input beyond this position reaches the piece.
///
/// # Safety
/// `phases` must be the problem's table, readable by the device, and `x` be within the output.
#[cfg_attr(gpu, inline(always))]
unsafe fn last_tap<I: Index, const V: usize>(axis: &Axis, pieces: &Pieces, phases: *const Phase, x: I) -> (I, I) {
    if V == 1 {
        let (q, r) = x.divide(axis.stride_divisor);
        // SAFETY: the caller's promise.
        let phase = unsafe { axis.phase(phases, r) };
        let tap = if phase.taps > 0 { I::new(phase.first_tap.into()) } else { I::new(axis.kernel) };
        return (I::from_signed(phase.first_input).plus(q), tap);
    }
    let last = V as u32 - 1 + pieces.first_tap as u32;
    let stride = axis.stride as u32;
    let (input, tap) = if stride <= V as u32 && stride.is_power_of_two() {
        // `x` is a multiple of `V`, so the tap is the same for all pieces: a constant in a kernel that is compiled for its layer.
        let (strides, tap) = (last >> stride.trailing_zeros(), last & (stride - 1));
        (x.divide(axis.stride_divisor).0.plus(I::new(strides.into())), I::new(tap.into()))
    } else {
        x.plus(I::new(last.into())).divide(axis.stride_divisor)
    };
    (input.plus(I::from_signed(pieces.first_input)), tap)
}

/// Adds the products of one row of the kernel with the input rows of the pieces.
///
/// # Safety
/// The rows and the kernel's row are readable by the device.
#[cfg_attr(gpu, inline(always))]
unsafe fn add_row<I: Index, const V: usize>(
    sums: &mut [[f32; V]; PIECES],
    axis: &Axis,
    pieces: &Pieces,
    rows: &Rows<I>,
    kernel: &KernelRow<I>,
) {
    let column_step = I::new(pieces.input_column_step);
    let step = I::new(pieces.input_row_step).times(I::new(axis.input)).plus(column_step);
    let sources: [*const f32; PIECES] = core::array::from_fn(|piece| {
        rows.input.wrapping_add(rows.from.plus(step.times(I::new(piece as u64))).offset())
    });
    let last_column = I::new(V as u64 - 1);
    let (mut tap, mut back) = (kernel.last, I::new(0));
    // `tap` leads from the input position `back` before the last to a piece's last column, and those before it to the others.
    while tap < I::new(axis.kernel).plus(last_column) {
        let values: [f32; PIECES] = core::array::from_fn(|piece| {
            let ix = rows.ix.plus(column_step.times(I::new(piece as u64))).minus(back);
            // SAFETY: where it is loaded, the position is within its row.
            unsafe { mem::load_readonly_if(ix < rows.ends[piece], sources[piece].wrapping_sub(back.offset())) }
        });
        for column in 0..V {
            let tap = tap.plus(I::new(column as u64)).minus(last_column);
            if tap < I::new(axis.kernel) {
                // SAFETY: the tap is within the kernel's row.
                let factor = unsafe { mem::load_readonly(kernel.row.add(tap.offset())) };
                for (sums, &value) in sums.iter_mut().zip(&values) {
                    sums[column] = math::fma(value, factor, sums[column]);
                }
            }
        }
        tap = tap.plus(I::new(axis.tap_step));
        back = back.plus(I::new(if V == 1 { axis.input_step } else { 1 }));
    }
}

/// Stores those pieces that are within the output, by one instruction each where they are whole and aligned.
///
/// # Safety
/// The place is within the output, and its pieces are this thread's alone.
#[cfg_attr(gpu, inline(always))]
unsafe fn store<I: Index, const V: usize>(
    sums: &[[f32; V]; PIECES],
    place: &Place<I>,
    p: &Problem,
    pieces: &Pieces,
    output: *mut f32,
) {
    let [_, ay, ax] = &p.axes;
    for (piece, sums) in sums.iter().enumerate() {
        let piece = I::new(piece as u64);
        let y = place.y.plus(I::new(pieces.row_step).times(piece));
        let x = place.x.plus(I::new(pieces.column_step).times(piece));
        if y >= I::new(ay.output) || x >= I::new(ax.output) {
            continue;
        }
        let position = place.slice.times(I::new(ay.output)).plus(y).times(I::new(ax.output)).plus(x);
        let left = I::new(ax.output).minus(x);
        // SAFETY: the first column is within the output.
        let target = unsafe { output.add(position.offset()) };
        if V == 4 && left >= I::new(4) && target.addr() % 16 == 0 {
            let quad: [f32; 4] = core::array::from_fn(|column| sums[column % V]);
            // SAFETY: all four columns are within the output, and aligned.
            unsafe { mem::store(target.cast(), quad) };
            continue;
        }
        for (column, &sum) in sums.iter().enumerate() {
            if I::new(column as u64) < left {
                // SAFETY: the column is within the output.
                unsafe { mem::store(target.add(column), sum) };
            }
        }
    }
}
