//! Largest: the largest finite magnitude among values, which decides the power of two that they are multiplied by
//! (`scale`).
//!
//! Infinities and not-a-numbers decide nothing. Magnitudes compare as their bits do, so that warps reduce them as
//! integers.

#[cfg(not(cuda_arch = "sm_70"))]
use cuda_std::{math::larger_magnitude, shared::SharedPtr, thread, warp};

/// A value, or zero if it is not finite.
#[cfg_attr(gpu, inline(always))]
pub(crate) fn finite(value: f32) -> f32 {
    if value.abs() < f32::INFINITY { value } else { 0.0 }
}

/// The largest finite magnitude of four values.
#[cfg(not(cuda_arch = "sm_70"))]
#[cfg_attr(gpu, inline(always))]
pub(super) fn largest_of_four(values: [f32; 4]) -> f32 {
    largest_magnitude(values.map(finite))
}

/// The largest finite magnitude of two times four values, which are looked at one by one only if the largest of all is
/// not finite.
#[cfg(any(cuda_arch = "sm_90a", not(gpu)))]
#[cfg_attr(gpu, inline(always))]
pub(crate) fn largest_of_pairs([low, high]: [[f32; 4]; 2]) -> f32 {
    let largest = larger_magnitude(largest_magnitude(low), largest_magnitude(high));
    if largest < f32::INFINITY { largest } else { larger_magnitude(largest_of_four(low), largest_of_four(high)) }
}

/// The largest magnitude of four values, of which not-a-numbers do not count.
#[cfg(not(cuda_arch = "sm_70"))]
#[cfg_attr(gpu, inline(always))]
fn largest_magnitude([a, b, c, d]: [f32; 4]) -> f32 {
    larger_magnitude(larger_magnitude(a, b), larger_magnitude(c, d))
}

/// The largest value of all threads of the block, none of which is negative. All of them get it.
///
/// # Safety
/// All threads of the block, which has so many whole warps, come here together, and are done with `of_warps`, a word
/// for each warp.
#[cfg(not(cuda_arch = "sm_70"))]
#[cfg_attr(gpu, inline(always))]
pub(super) unsafe fn largest_of_block(largest: f32, of_warps: SharedPtr<u32>, warps: u32) -> f32 {
    // SAFETY: the caller's promise.
    unsafe {
        let of_warp = warp::warp_reduce_max(u32::MAX, largest.to_bits());
        if warp::lane_id() == 0 {
            of_warps.add(thread::thread_idx_x() / 32).store(of_warp);
        }
        thread::sync_threads();
        f32::from_bits((0..warps).map(|warp| of_warps.add(warp).load()).fold(0, u32::max))
    }
}
