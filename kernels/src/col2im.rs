//! Col2im: one thread per output element, which sums up those of the columns whose taps reach it.
//!
//! The columns are the products of each input position with all taps, `[sample][output channel][tap][input position]`:
//! a matrix product, which another kernel has made. What is left to do are additions, in the order of the taps. Threads
//! take the columns of a row phase by phase, as those of [`gather`](fn@crate::gather) do: neighbours read neighbouring
//! columns.
//!
//! Bitwise repeatable. Each column is read once, so the speed is that of the memory that holds them: the L2 cache, if
//! they fit.

use cuda_std::{kernel, mem, thread};

use crate::{
    index::Index,
    problem::{Phase, Problem},
};

/// Columns that a thread loads before it adds them.
const AT_ONCE: u32 = 8;

/// Computes every output element, if the columns and all tensors have fewer than 2^31.
///
/// # Safety
/// As [`col2im_wide`]; in addition, the columns and every tensor have fewer than 2^31 elements, and every coordinate of
/// the problem fits in 31 bits.
#[kernel(launch_bounds(256, 4))]
pub unsafe fn col2im(problem: Problem, phases: *const Phase, columns: *const f32, bias: *const f32, output: *mut f32) {
    let index = thread::block_idx_x() * thread::block_dim_x() + thread::thread_idx_x();
    // SAFETY: the caller's promise.
    unsafe { sum_up::<u32>(index, &problem, phases, columns, bias, output) }
}

/// Computes every output element with 64-bit indices.
///
/// # Safety
/// The pointers are device pointers to the problem's table of phases, its columns, and its output; `bias` is null or
/// has an element per output channel; nothing else accesses the output meanwhile. The grid is one-dimensional and has
/// at least `problem.gather_threads` threads.
#[kernel(launch_bounds(256, 1))]
pub unsafe fn col2im_wide(
    problem: Problem,
    phases: *const Phase,
    columns: *const f32,
    bias: *const f32,
    output: *mut f32,
) {
    let block = thread::block_idx_x() as u64 * thread::block_dim_x() as u64;
    // SAFETY: the caller's promise.
    unsafe { sum_up::<u64>(block + thread::thread_idx_x() as u64, &problem, phases, columns, bias, output) }
}

/// Computes the output element of thread `index`, if it has one.
///
/// # Safety
/// As the kernels.
#[cfg_attr(gpu, inline(always))]
unsafe fn sum_up<I: Index>(
    index: I,
    p: &Problem,
    phases: *const Phase,
    columns: *const f32,
    bias: *const f32,
    output: *mut f32,
) {
    let [az, ay, ax] = &p.axes;
    // Phases are padded to equal length, so the last threads of some have no output.
    let (row, column) = index.divide(p.row_threads_divisor);
    let (r, q) = column.divide(ax.positions_divisor);
    let x = q.times(I::new(ax.stride)).plus(r);
    if index >= I::new(p.gather_threads) || x >= I::new(ax.output) {
        return;
    }
    let (slice, y) = row.divide(ay.output_divisor);
    let (plane, z) = slice.divide(az.output_divisor);
    let (_, channel) = plane.divide(p.out_channels_divisor);
    // SAFETY: coordinates are within the output, and the table is the problem's.
    let (taps_z, taps_y, taps_x) = unsafe { (az.taps(phases, z), ay.taps(phases, y), ax.taps_of_phase(phases, r, q)) };
    // From one tap along x to the next, perhaps backwards.
    let step = I::new(ax.tap_step).times(I::new(p.input_plane)).minus(I::new(ax.input_step));

    let mut sum = 0.0;
    if !bias.is_null() {
        // SAFETY: a bias has an element per output channel.
        sum = unsafe { mem::load_readonly(bias.add(channel.offset())) };
    }
    let first_tap = plane.times(I::new(p.taps));
    taps_z.for_each(|kz, iz| {
        taps_y.for_each(|ky, iy| {
            let kernel_row = kz.times(I::new(ay.kernel)).plus(ky).times(I::new(ax.kernel));
            let input_row = iz.times(I::new(ay.input)).plus(iy).times(I::new(ax.input));
            let tap = first_tap.plus(kernel_row).plus(taps_x.tap);
            let mut place = tap.times(I::new(p.input_plane)).plus(input_row).plus(taps_x.input);
            let mut left = taps_x.count.offset() as u32;
            while left > 0 {
                // All of them are under way together.
                let values = [0, 1, 2, 3, 4, 5, 6, 7].map(|next| {
                    // SAFETY: so many taps are left; they are within the kernel, and read positions within the input.
                    let value = unsafe { mem::load_readonly_if(next < left, columns.wrapping_add(place.offset())) };
                    place = place.plus(step);
                    value
                });
                sum = values.into_iter().fold(sum, |sum, value| sum + value);
                left = left.saturating_sub(AT_ONCE);
            }
        });
    });
    let position = row.times(I::new(ax.output)).plus(x);
    // SAFETY: the row and the column are within the output, and no other thread has both.
    unsafe { mem::store(output.add(position.offset()), sum) };
}
