//! Gather: one thread per output element, which sums the taps that reach it.
//!
//! The residue of an output coordinate modulo the stride selects a phase, and with it the first tap and its input
//! position; the others follow in constant steps, so there is no division per tap, and positions that no tap reaches
//! cost nothing. The threads of a row take its columns phase by phase: neighbours then read neighbouring inputs and the
//! same weight, whatever the stride. The channels are the inner loop, so that the bookkeeping of a tap is shared by all
//! of them.
//!
//! Bitwise repeatable, needs no workspace and takes any geometry. Every product loads both of its factors, so the speed
//! is that of the L1 cache: it is the plain kernel that the fast ones are compared with. Of what takes a few
//! microseconds it is the fastest itself, since no thread has much to wait for: where an element has few products, all
//! that it loads is under way at once (`few_products`).

mod few_products;

use cuda_std::{kernel, math, mem, thread};

use crate::{
    index::Index,
    problem::{Phase, Problem, Taps},
};
pub use few_products::FEW_PRODUCTS;
use few_products::sum_of_few;

/// Where an output element's factors lie, or begin.
#[derive(Clone, Copy)]
struct Factors {
    input: *const f32,
    weight: *const f32,
}

/// Computes every output element, for fewer than 2^31 of them.
///
/// # Safety
/// As [`gather_wide`]; in addition, every tensor has fewer than 2^31 elements, and every coordinate of the problem fits
/// in 31 bits.
#[kernel(launch_bounds(256, 2))]
pub unsafe fn gather(
    problem: Problem,
    phases: *const Phase,
    input: *const f32,
    weight: *const f32,
    bias: *const f32,
    output: *mut f32,
) {
    let index = thread::block_idx_x() * thread::block_dim_x() + thread::thread_idx_x();
    // SAFETY: the caller's promise.
    unsafe { gather_one::<u32>(index, &problem, phases, input, weight, bias, output) }
}

/// Computes every output element with 64-bit indices.
///
/// # Safety
/// The pointers are device pointers to tensors of the problem's shapes, and to its table of phases; `bias` is null or
/// has an element per output channel; nothing else accesses the output meanwhile. The grid is one-dimensional and has
/// at least `problem.gather_threads` threads.
#[kernel(launch_bounds(256, 1))]
pub unsafe fn gather_wide(
    problem: Problem,
    phases: *const Phase,
    input: *const f32,
    weight: *const f32,
    bias: *const f32,
    output: *mut f32,
) {
    let block = thread::block_idx_x() as u64 * thread::block_dim_x() as u64;
    // SAFETY: the caller's promise.
    unsafe {
        gather_one::<u64>(block + thread::thread_idx_x() as u64, &problem, phases, input, weight, bias, output);
    }
}

/// Computes the output element of thread `index`, if it has one.
///
/// # Safety
/// As the kernels.
#[cfg_attr(gpu, inline(always))]
unsafe fn gather_one<I: Index>(
    index: I,
    p: &Problem,
    phases: *const Phase,
    input: *const f32,
    weight: *const f32,
    bias: *const f32,
    output: *mut f32,
) {
    let [az, ay, ax] = &p.axes;
    // Phases are padded to equal length, so the last threads of some have no column.
    let (row, column) = index.divide(p.row_threads_divisor);
    let (r, q) = column.divide(ax.positions_divisor);
    let x = q.times(I::new(ax.stride)).plus(r);
    if index >= I::new(p.gather_threads) || x >= I::new(ax.output) {
        return;
    }
    let (slice, y) = row.divide(ay.output_divisor);
    let (plane, z) = slice.divide(az.output_divisor);
    let (sample, channel) = plane.divide(p.out_channels_divisor);
    let (group, local_channel) = channel.divide(p.out_per_group_divisor);
    let in_per_group = I::new(p.in_per_group);

    let first_channel = sample.times(I::new(p.groups)).plus(group).times(in_per_group);
    let input_plane = I::new(p.input_plane);
    let first_input = first_channel.times(input_plane);
    let first_weight = group.times(in_per_group).times(I::new(p.out_per_group)).plus(local_channel);
    let first_weight = first_weight.times(I::new(p.taps));

    let mut sum = 0.0;
    if !bias.is_null() {
        // SAFETY: a bias has an element per output channel.
        sum = unsafe { mem::load_readonly(bias.add(channel.offset())) };
    }
    let factors =
        Factors { input: input.wrapping_add(first_input.offset()), weight: weight.wrapping_add(first_weight.offset()) };
    // SAFETY: coordinates are within the output, and the table is the problem's; the factors are those of this sample's
    // group, and of this output channel.
    unsafe {
        if p.few_products > 0 {
            let taps = [az.all_taps(phases, z), ay.all_taps(phases, y), ax.all_taps_of_phase(phases, r, q)];
            sum = sum_of_few(p, &taps, factors, sum);
        } else {
            let taps = [az.taps(phases, z), ay.taps(phases, y), ax.taps_of_phase(phases, r, q)];
            sum = sum_of_many(p, taps, factors, sum);
        }
    }
    let position = row.times(I::new(ax.output)).plus(x);
    // SAFETY: the row and the column are within the output, and no other thread has both.
    unsafe { mem::store(output.add(position.offset()), sum) };
}

/// Adds the products of taps within the input, one after the other.
///
/// # Safety
/// The factors are those of the first channel, and the taps read within the input.
#[cfg_attr(gpu, inline(always))]
unsafe fn sum_of_many<I: Index>(p: &Problem, [z, y, x]: [Taps<I>; 3], factors: Factors, mut sum: f32) -> f32 {
    let [_, ay, ax] = &p.axes;
    let [input_step, weight_step] = [p.input_plane, p.weight_step()].map(|step| step as usize);
    z.for_each(|kz, iz| {
        y.for_each(|ky, iy| {
            let kernel_row = kz.times(I::new(ay.kernel)).plus(ky).times(I::new(ax.kernel));
            let input_row = iz.times(I::new(ay.input)).plus(iy).times(I::new(ax.input));
            x.for_each(|kx, ix| {
                let mut input = factors.input.wrapping_add(input_row.plus(ix).offset());
                let mut weight = factors.weight.wrapping_add(kernel_row.plus(kx).offset());
                for _ in 0..p.in_per_group as u32 {
                    // SAFETY: `for_each` yields positions within the kernel and within the input, and the steps stay
                    // within this sample's group.
                    sum = unsafe { math::fma(mem::load_readonly(input), mem::load_readonly(weight), sum) };
                    input = input.wrapping_add(input_step);
                    weight = weight.wrapping_add(weight_step);
                }
            });
        });
    });
    sum
}
