//! Fill: every output element becomes the bias of its channel, or zero. Kernels that add into the output start from
//! this, and those that write no more than what has taps.
//!
//! A thread fills four elements, in one piece where the output is aligned to that.

use cuda_std::{kernel, mem, thread};

use crate::{index::Index, problem::Problem};

/// Elements that a thread fills.
pub const FILLED: u64 = 4;

/// Fills the output, for fewer than 2^31 elements.
///
/// # Safety
/// As [`fill_bias_wide`]; in addition, the output has fewer than 2^31 elements.
#[kernel]
pub unsafe fn fill_bias(problem: Problem, bias: *const f32, output: *mut f32) {
    let index = thread::block_idx_x() * thread::block_dim_x() + thread::thread_idx_x();
    // SAFETY: the caller's promise.
    unsafe { fill_some::<u32>(index, &problem, bias, output) }
}

/// Fills the output with 64-bit indices.
///
/// # Safety
/// `output` is a device pointer to a tensor of the problem's shape that nothing else accesses meanwhile; `bias` is null
/// or has an element per output channel. The grid is one-dimensional and has at least a thread for each [`FILLED`] of
/// `problem.outputs`.
#[kernel]
pub unsafe fn fill_bias_wide(problem: Problem, bias: *const f32, output: *mut f32) {
    let block = thread::block_idx_x() as u64 * thread::block_dim_x() as u64;
    // SAFETY: the caller's promise.
    unsafe { fill_some::<u64>(block + thread::thread_idx_x() as u64, &problem, bias, output) }
}

/// Fills the elements of thread number `index` at row-major positions, those that there are.
///
/// # Safety
/// As [`fill_bias_wide`].
#[cfg_attr(gpu, inline(always))]
unsafe fn fill_some<I: Index>(index: I, p: &Problem, bias: *const f32, output: *mut f32) {
    let first = index.times(I::new(FILLED));
    if first >= I::new(p.outputs) {
        return;
    }
    let positions = [0, 1, 2, 3].map(|next| first.plus(I::new(next)));
    let place = output.wrapping_add(first.offset());
    // SAFETY: no other thread has these elements; those that are stored are within the output, and `place` is aligned
    // for all of them together if the output is.
    unsafe {
        if positions[3] < I::new(p.outputs) && output.addr().is_multiple_of(16) {
            mem::store(place.cast(), biases(positions, p, bias));
        } else {
            for (number, position) in positions.into_iter().enumerate() {
                if position < I::new(p.outputs) {
                    mem::store(place.wrapping_add(number), bias_at(position, p, bias));
                }
            }
        }
    }
}

/// The biases at four neighbouring positions. Most often they are in one plane.
///
/// # Safety
/// The positions are within the output; a bias has an element per output channel.
#[cfg_attr(gpu, inline(always))]
unsafe fn biases<I: Index>(positions: [I; 4], p: &Problem, bias: *const f32) -> [f32; 4] {
    if bias.is_null() {
        return [0.0; 4];
    }
    let [first, .., last] = positions.map(|position| plane(position, p));
    // SAFETY: the caller's promise.
    unsafe {
        if first == last { [bias_of(first, p, bias); 4] } else { positions.map(|position| bias_at(position, p, bias)) }
    }
}

/// The bias at a row-major position, zero if there is none.
///
/// # Safety
/// As [`biases`].
#[cfg_attr(gpu, inline(always))]
unsafe fn bias_at<I: Index>(position: I, p: &Problem, bias: *const f32) -> f32 {
    // SAFETY: the caller's promise.
    if bias.is_null() { 0.0 } else { unsafe { bias_of(plane(position, p), p, bias) } }
}

/// The plane, of all samples' channels, that a row-major position is in.
#[cfg_attr(gpu, inline(always))]
fn plane<I: Index>(position: I, p: &Problem) -> I {
    let [az, ay, ax] = &p.axes;
    let (row, _) = position.divide(ax.output_divisor);
    let (slice, _) = row.divide(ay.output_divisor);
    slice.divide(az.output_divisor).0
}

/// The bias of a plane's channel.
///
/// # Safety
/// As [`biases`]; the bias is not null.
#[cfg_attr(gpu, inline(always))]
unsafe fn bias_of<I: Index>(plane: I, p: &Problem, bias: *const f32) -> f32 {
    let (_, channel) = plane.divide(p.out_channels_divisor);
    // SAFETY: the caller's promise.
    unsafe { mem::load_readonly(bias.add(channel.offset())) }
}
