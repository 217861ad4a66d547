//! Fill: every output element becomes the bias of its channel, or zero. Kernels that add into the output start from this.

use cuda_std::{kernel, mem, thread};

use crate::{index::Index, problem::Problem};

/// Fills the output, for fewer than 2^31 elements.
///
/// # Safety
/// As [`fill_bias_wide`]; in addition, the output has fewer than 2^31 elements.
#[kernel]
pub unsafe fn fill_bias(problem: Problem, bias: *const f32, output: *mut f32) {
    let index = thread::block_idx_x() * thread::block_dim_x() + thread::thread_idx_x();
    // SAFETY: the caller's promise.
    unsafe { fill_one::<u32>(index, &problem, bias, output) }
}

/// Fills the output with 64-bit indices.
///
/// # Safety
/// `output` is a device pointer to a tensor of the problem's shape that nothing else accesses meanwhile; `bias` is null or has an
/// element per output channel. The grid is one-dimensional and has at least `problem.outputs` threads.
#[kernel]
pub unsafe fn fill_bias_wide(problem: Problem, bias: *const f32, output: *mut f32) {
    let block = thread::block_idx_x() as u64 * thread::block_dim_x() as u64;
    // SAFETY: the caller's promise.
    unsafe { fill_one::<u64>(block + thread::thread_idx_x() as u64, &problem, bias, output) }
}

/// Fills the element at row-major position `index`, if there is one.
#[inline(always)]
unsafe fn fill_one<I: Index>(index: I, p: &Problem, bias: *const f32, output: *mut f32) {
    if index >= I::new(p.outputs) {
        return;
    }
    let mut value = 0.0;
    if !bias.is_null() {
        let [az, ay, ax] = &p.axes;
        let (row, _) = index.divide(ax.output_divisor);
        let (slice, _) = row.divide(ay.output_divisor);
        let (plane, _) = slice.divide(az.output_divisor);
        let (_, channel) = plane.divide(p.out_channels_divisor);
        // SAFETY: a bias has an element per output channel.
        value = unsafe { mem::load_readonly(bias.add(channel.offset())) };
    }
    // SAFETY: `index` is within the output, and no other thread has it.
    unsafe { mem::store(output.add(index.offset()), value) };
}
