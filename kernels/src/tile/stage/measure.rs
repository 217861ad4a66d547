//! Measuring: the threads that stage the input look for its largest values, before teams make `f16` numbers of it. That
//! spares layers with a large input the time that packing it takes.
//!
//! The scale is a power of two, which the largest values of a stage decide, kept as long as values fit. Teams multiply
//! what they load by the power that they find beside a stage, and adjust their sums when it is another one than before.
//! Of values that are less than `2^-15` of the largest ones in a tile, `f16` may have fewer bits: they are rounded to a
//! multiple of less than `2^-24` of these. Infinities and not-a-numbers stay what they are, and decide nothing.
//!
//! Of values that are split, those from `2^-13` of the largest one in a stage on have all bits, others are rounded to a
//! multiple of less than `2^-34` of it: a stage whose values are too small for the scale of the one before has its own.
//! Sums move on when the scale changes, and not otherwise before they are of as many products as they may be of.

use cuda_std::{
    hint,
    math::larger_magnitude,
    shared::{SharedPtr, dynamic_shared_mem},
    thread, warp,
};

use super::{INPUT_PRODUCERS, Inputs, Operands, await_first_weights, comes_in_boxes, producer};
use crate::{
    tile::{
        largest::finite,
        parameters::Tiling,
        ring::{Ring, weight_exponent},
        scale::{self, Exponent},
    },
    unrolled::unrolled,
};

/// Warps that measure: all that stage the input.
const WARPS: u32 = INPUT_PRODUCERS / 32;

/// Fours of words that a thread has under way together.
const UNDER_WAY: usize = 6;

/// Their named barrier.
const MEASURED: u32 = 4;

/// Stages the input of all jobs, and measures it, stage by stage.
///
/// # Safety
/// As [`produce`](super::produce); all threads that stage the input come here.
#[cfg_attr(gpu, inline(always))]
pub(super) unsafe fn produce_inputs<const SPLIT: bool>(t: &Tiling, operands: &Operands) {
    let mut inputs = Inputs::new(t, operands);
    let mut measuring = Ring::inputs(t);
    let mut exponent = Exponent::NONE;
    // A half of the ring is for stages that come, the other half for those that have been measured.
    let ahead = (t.input_ring - 1) / 2;
    let (mut under_way, mut stage) = (0, 0);
    // SAFETY: the caller's promise. A slot is filled when the teams have left it, and measured when it is complete.
    unsafe {
        if !SPLIT {
            leave_weight_exponent(operands);
        }
        if !comes_in_boxes(t, operands) {
            clear_padding(t);
            sync();
        }
        loop {
            let is_last = !inputs.seek();
            if !is_last {
                let fetching = measuring.ahead(under_way);
                await_first_weights(t, operands, fetching.is_second());
                fetching.await_empty();
                inputs.fetch::<false, 8>(slot(t, &fetching), fetching.fetched());
                under_way += 1;
            } else if under_way == 0 {
                break;
            }
            if is_last || under_way > ahead {
                // What a job makes of its input does not depend on the jobs before.
                if stage == 0 {
                    exponent = Exponent::of_ones(SPLIT);
                }
                stage = if stage + 1 < t.stages { stage + 1 } else { 0 };
                measuring.await_fetched();
                let largest = largest(t, &measuring);
                if SPLIT {
                    exponent = exponent.unless_wrong_for_split(largest);
                } else {
                    exponent.adjust(largest, false);
                }
                if producer() == 0 {
                    measuring.exponent().store(exponent.bits());
                }
                measuring.fill();
                measuring.advance();
                under_way -= 1;
            }
        }
    }
}

/// Leaves the exponent of the weight for the teams, who would wait for it at the end of each job. One warp does, and
/// not that which starts to copy boxes.
///
/// # Safety
/// The weight is packed; all lanes of a warp come here together.
#[cfg_attr(gpu, inline(always))]
unsafe fn leave_weight_exponent(operands: &Operands) {
    if producer() / 32 == WARPS - 1 {
        // SAFETY: the caller's promise; the word is this lane's until a stage is full.
        unsafe {
            let exponent = scale::of_weight(operands.weight, false);
            if warp::lane_id() == 0 {
                weight_exponent().store(exponent.bits());
            }
        }
    }
}

/// The place of a stage.
#[cfg_attr(gpu, inline(always))]
fn slot(t: &Tiling, ring: &Ring) -> SharedPtr<u8> {
    dynamic_shared_mem().add(t.input_start + ring.slot() * t.input_bytes)
}

/// The bits of the largest finite magnitude in a slot.
///
/// # Safety
/// All threads that stage the input come here together; the slot is complete.
#[cfg_attr(gpu, inline(always))]
unsafe fn largest(t: &Tiling, ring: &Ring) -> u32 {
    // SAFETY: the caller's promise.
    unsafe {
        let largest = largest_of_all(ring, largest_of_thread(t, ring, |value| value));
        if largest < f32::INFINITY.to_bits() {
            return largest;
        }
        sync();
        largest_of_all(ring, largest_of_thread(t, ring, finite))
    }
}

/// The largest magnitude among what the function makes of this thread's words of a slot. Not-a-numbers have none.
///
/// # Safety
/// The slot is complete, and what pads its channels is zero.
#[cfg_attr(gpu, inline(always))]
unsafe fn largest_of_thread(t: &Tiling, ring: &Ring, of: impl Fn(f32) -> f32) -> f32 {
    let four = |number: u32| slot(t, ring).cast::<[f32; 4]>().add(number);
    // Found again for each stage, not kept in a register meanwhile.
    let count = hint::opaque(t.stage_channels) * (t.channel_words / 4);
    let mut largest = 0.0f32;
    let mut add = |words: [f32; 4]| {
        let [a, b, c, d] = words.map(&of);
        largest = larger_magnitude(larger_magnitude(a, b), larger_magnitude(largest, larger_magnitude(c, d)));
    };
    let mut number = producer();
    while number < count {
        let mut fours = [[0.0; 4]; UNDER_WAY];
        unrolled!(NEXT in 0..UNDER_WAY, at most 6 => {
            let number = number + NEXT as u32 * INPUT_PRODUCERS;
            // SAFETY: the caller's promise: the slot has so many fours.
            fours[NEXT] = unsafe { four(number).load_below(number as i32, count as i32) };
        });
        unrolled!(NEXT in 0..UNDER_WAY, at most 6 => {
            add(fours[NEXT]);
        });
        number += UNDER_WAY as u32 * INPUT_PRODUCERS;
    }
    largest
}

/// Sets what pads the channels of all slots to zero, where threads copy them. Boxes are as large as channels with all
/// that pads them.
///
/// # Safety
/// All threads that stage the input come here, before anything is copied.
#[cfg_attr(gpu, inline(always))]
unsafe fn clear_padding(t: &Tiling) {
    let words = t.copies * t.copy_words;
    for number in 0..t.input_ring {
        let slot = dynamic_shared_mem::<u8>().add(t.input_start + number * t.input_bytes).cast::<f32>();
        let mut channel = producer() / 32;
        while channel < t.stage_channels {
            let mut word = words + warp::lane_id();
            while word < t.channel_words {
                // SAFETY: the caller's promise; the word is part of the slot, and this thread's.
                unsafe { slot.add(channel * t.channel_words + word).store(0.0) };
                word += 32;
            }
            channel += WARPS;
        }
    }
}

/// The bits of the largest of all threads' values, which are not negative. When it returns, all threads have come here.
///
/// # Safety
/// All threads that stage the input come here together, and did so at least once since they were here for this slot.
#[cfg_attr(gpu, inline(always))]
unsafe fn largest_of_all(ring: &Ring, largest: f32) -> u32 {
    // Each slot's own: it is written again when all threads have come together once more.
    let places = ring.largest_values();
    // SAFETY: the caller's promise.
    unsafe {
        let of_warp = warp::warp_reduce_max(u32::MAX, largest.to_bits());
        if warp::lane_id() == 0 {
            places.add(producer() / 32).store(of_warp);
        }
        sync();
        (0..WARPS).map(|warp| places.add(warp).load()).fold(0, u32::max)
    }
}

/// Waits for all threads that stage the input.
///
/// # Safety
/// They all come here.
#[cfg_attr(gpu, inline(always))]
unsafe fn sync() {
    // SAFETY: the caller's promise.
    unsafe { thread::sync_named(MEASURED, INPUT_PRODUCERS) };
}
