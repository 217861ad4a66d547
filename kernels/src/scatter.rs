//! Scatter: one thread per input position and output channel, which adds its products into the output.
//!
//! For each tap, a thread sums over the input channels of its group in a register and adds the sum to the output
//! element that the tap reaches, by an atomic addition. The output must hold the bias beforehand (`fill_bias`).
//!
//! **Not bitwise repeatable**: the additions to one element happen in no fixed order. It does no work for output
//! positions that nothing reaches, so it suits an input that is far smaller than its output; everywhere else `gather`
//! is faster. Any geometry.

use cuda_std::{atomic, kernel, math, mem, thread};

use crate::{index::Index, problem::Problem};

/// Adds all products into the output, for tensors of fewer than 2^31 elements.
///
/// # Safety
/// As [`scatter_wide`]; in addition, every tensor has fewer than 2^31 elements, so has the product of input positions
/// and output channels, and every coordinate of the problem fits in 31 bits.
#[kernel(launch_bounds(256, 4))]
pub unsafe fn scatter(problem: Problem, threads: u64, input: *const f32, weight: *const f32, output: *mut f32) {
    let index = thread::block_idx_x() * thread::block_dim_x() + thread::thread_idx_x();
    // SAFETY: the caller's promise.
    unsafe { scatter_one::<u32>(index, threads, &problem, input, weight, output) }
}

/// Adds all products into the output with 64-bit indices.
///
/// # Safety
/// The pointers are device pointers to tensors of the problem's shapes; nothing but this launch accesses the output
/// meanwhile. `threads` is samples times output channels times input positions, and the one-dimensional grid has at
/// least as many threads.
#[kernel(launch_bounds(256, 1))]
pub unsafe fn scatter_wide(problem: Problem, threads: u64, input: *const f32, weight: *const f32, output: *mut f32) {
    let block = thread::block_idx_x() as u64 * thread::block_dim_x() as u64;
    // SAFETY: the caller's promise.
    unsafe {
        scatter_one::<u64>(block + thread::thread_idx_x() as u64, threads, &problem, input, weight, output);
    }
}

/// Adds the products of one input position (of all channels of a group) for one output channel.
///
/// # Safety
/// As the kernels.
#[cfg_attr(gpu, inline(always))]
unsafe fn scatter_one<I: Index>(
    index: I,
    threads: u64,
    p: &Problem,
    input: *const f32,
    weight: *const f32,
    output: *mut f32,
) {
    if index >= I::new(threads) {
        return;
    }
    let [az, ay, ax] = &p.axes;
    let (row, ix) = index.divide(ax.input_divisor);
    let (slice, iy) = row.divide(ay.input_divisor);
    let (plane, iz) = slice.divide(az.input_divisor);
    let (sample, channel) = plane.divide(p.out_channels_divisor);
    let (group, local_channel) = channel.divide(p.out_per_group_divisor);
    let in_per_group = I::new(p.in_per_group);

    let input_plane = I::new(p.input_plane).offset();
    let position = iz.times(I::new(ay.input)).plus(iy).times(I::new(ax.input)).plus(ix);
    let first_channel = sample.times(I::new(p.groups)).plus(group).times(in_per_group);
    // SAFETY: this position in the first channel of the group, of this sample.
    let input = unsafe { input.add(first_channel.offset() * input_plane + position.offset()) };
    let weight_step = I::new(p.weight_step()).offset();
    let first_weight = group.times(in_per_group).times(I::new(p.out_per_group)).plus(local_channel);
    // SAFETY: the weights from the first channel of the group to this output channel.
    let weight = unsafe { weight.add(first_weight.times(I::new(p.taps)).offset()) };
    // SAFETY: this output channel of this sample.
    let output = unsafe { output.add(plane.offset() * I::new(p.output_plane).offset()) };

    let mut tap = 0usize;
    for_each_reached(az, iz, |oz| {
        for_each_reached(ay, iy, |oy| {
            for_each_reached(ax, ix, |ox| {
                let reached = oz.zip(oy).zip(ox);
                if let Some(((oz, oy), ox)) = reached {
                    let mut sum = 0.0;
                    // SAFETY: `tap` counts the kernel's elements in order; the channel steps stay within the group.
                    unsafe {
                        let (mut x, mut w) = (input, weight.add(tap));
                        for _ in 0..p.in_per_group as u32 {
                            sum = math::fma(mem::load_readonly(x), mem::load_readonly(w), sum);
                            x = x.wrapping_add(input_plane);
                            w = w.wrapping_add(weight_step);
                        }
                    }
                    let position = oz.times(I::new(ay.output)).plus(oy).times(I::new(ax.output)).plus(ox);
                    // SAFETY: the three coordinates are within the output.
                    unsafe { atomic::add_f32(output.add(position.offset()), sum) };
                }
                tap += 1;
            });
        });
    });
}

/// Calls `body` for every tap of an axis in order, with the output position that it reaches from input position `i`, if
/// any.
#[cfg_attr(gpu, inline(always))]
fn for_each_reached<I: Index>(axis: &crate::problem::Axis, i: I, mut body: impl FnMut(Option<I>)) {
    let mut o = i.times(I::new(axis.stride)).minus(I::from_signed(axis.pad_begin));
    for _ in 0..axis.kernel as u32 {
        body(if o < I::new(axis.output) { Some(o) } else { None });
        o = o.plus(I::new(axis.dilation));
    }
}
