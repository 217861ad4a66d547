//! Measuring: the threads that stage the input look for its largest values, before teams make `f16` numbers of it. With as many accumulators as some kernels have, no registers are
//! left for threads that convert; and what is staged as it is takes twice the shared memory, but need not be written again.
//!
//! The scale is as in `convert`: a power of two, which the largest values of a stage decide, kept as long as values fit. Teams multiply what they load by the power that they find beside
//! a stage, and adjust their sums when it is another one than before.

use cuda_std::{
    hint,
    shared::{SharedPtr, dynamic_shared_mem},
    thread, warp,
};

use super::{INPUT_PRODUCERS, Operands, comes_in_boxes, producer};
use crate::tile::{
    parameters::Tiling,
    place::{PassHead, Place, jobs},
    ring::{Ring, weight_exponent},
    scale::{self, Exponent},
    unrolled::unrolled,
};

/// Fours of words that a thread has under way together.
const UNDER_WAY: usize = 4;

/// The named barrier of threads that measure, or convert.
const MEASURED: u32 = 4;

/// Threads that fetch the input, while the others measure what has come: one warp for boxes, which need but one thread; otherwise two, as to copy takes twice as long
/// as to measure, or longer.
#[inline(always)]
pub(super) fn fetchers(t: &Tiling, operands: &Operands) -> u32 {
    if comes_in_boxes(t, operands) { 32 } else { 64 }
}

/// Threads that measure: the last ones of those that stage the input.
#[inline(always)]
pub(super) fn measurers(t: &Tiling, operands: &Operands) -> u32 {
    INPUT_PRODUCERS - fetchers(t, operands)
}

/// Stages the input of all jobs, and measures it, stage by stage.
///
/// # Safety
/// As [`produce`](super::produce); all threads that stage the input come here.
#[inline(always)]
pub(super) unsafe fn produce_inputs(t: &Tiling, operands: &Operands) {
    let fetchers = fetchers(t, operands);
    // SAFETY: the caller's promise; the roles differ between warps.
    unsafe {
        if producer() < fetchers {
            super::produce_inputs::<false>(t, operands, fetchers, Ring::fetched);
        } else {
            Measurer { t, threads: INPUT_PRODUCERS - fetchers }.measure_inputs(operands);
        }
    }
}

/// A thread that measures.
struct Measurer<'a> {
    t: &'a Tiling,
    /// How many do so.
    threads: u32,
}

impl Measurer<'_> {
    /// The number of this thread among those that measure.
    #[inline(always)]
    fn number(&self) -> u32 {
        producer() - (INPUT_PRODUCERS - self.threads)
    }

    /// Measures the input of all jobs, stage by stage, as it comes.
    ///
    /// # Safety
    /// As [`produce_inputs`], by all threads that measure.
    #[inline(always)]
    unsafe fn measure_inputs(&self, operands: &Operands) {
        let t = self.t;
        let mut ring = Ring::inputs(t);
        let mut exponent = Exponent::START;
        // SAFETY: the caller's promise. A slot is measured when it is complete.
        unsafe {
            if !comes_in_boxes(t, operands) {
                self.clear_padding();
                sync(self.threads);
            }
            let of_weight = scale::of_weight(operands.weight);
            if self.number() == 0 {
                weight_exponent().store(of_weight.bits());
            }
            for job in jobs(t) {
                let pass = PassHead::load(t, operands.tables, Place::new(t, job).pass);
                exponent.begin();
                for _ in 0..if pass.chunks > 0 { t.stages } else { 0 } {
                    ring.await_fetched();
                    exponent.adjust(self.largest(&ring));
                    if self.number() == 0 {
                        ring.exponent().store(exponent.bits());
                    }
                    ring.fill();
                    ring.advance();
                }
            }
        }
    }

    /// The bits of the largest finite magnitude in a slot.
    ///
    /// # Safety
    /// All threads that measure come here together; the slot is complete.
    #[inline(always)]
    unsafe fn largest(&self, ring: &Ring) -> u32 {
        // SAFETY: the caller's promise.
        unsafe {
            let largest = largest_of_all(ring, self.threads, self.largest_of_thread(ring, f32::abs));
            if largest < f32::INFINITY.to_bits() {
                return largest;
            }
            sync(self.threads);
            let finite = |value: f32| if value.abs() < f32::INFINITY { value.abs() } else { 0.0 };
            largest_of_all(ring, self.threads, self.largest_of_thread(ring, finite))
        }
    }

    /// The largest magnitude, as the function has it, among this thread's words of a slot. Not-a-numbers have none.
    ///
    /// # Safety
    /// The slot is complete, and what pads its channels is zero.
    #[inline(always)]
    unsafe fn largest_of_thread(&self, ring: &Ring, magnitude: impl Fn(f32) -> f32) -> f32 {
        let four = |number: u32| self.slot(ring.slot()).cast::<[f32; 4]>().add(number);
        // Found again for each stage, not kept in a register meanwhile.
        let count = hint::opaque(self.t.stage_channels) * (self.t.channel_words / 4);
        let mut largest = 0.0f32;
        let mut add = |words: [f32; 4]| {
            let [a, b, c, d] = words.map(&magnitude);
            largest = largest.max(a.max(b)).max(c.max(d));
        };
        let mut number = self.number();
        // SAFETY: the caller's promise: the slot has these words.
        unsafe {
            while number + (UNDER_WAY as u32 - 1) * self.threads < count {
                let mut fours = [[0.0; 4]; UNDER_WAY];
                unrolled!(NEXT in 0..UNDER_WAY, at most 4 => {
                    fours[NEXT] = four(number + NEXT as u32 * self.threads).load();
                });
                unrolled!(NEXT in 0..UNDER_WAY, at most 4 => {
                    add(fours[NEXT]);
                });
                number += UNDER_WAY as u32 * self.threads;
            }
            while number < count {
                add(four(number).load());
                number += self.threads;
            }
        }
        largest
    }

    /// Sets what pads the channels of all slots to zero, where threads copy them. Boxes are as large as channels with all that pads them.
    ///
    /// # Safety
    /// All threads that measure come here. Nothing else is written to these words.
    #[inline(always)]
    unsafe fn clear_padding(&self) {
        let t = self.t;
        let words = t.copies * t.copy_words;
        for number in 0..t.input_ring {
            let slot = self.slot(number).cast::<f32>();
            let mut channel = self.number() / 32;
            while channel < t.stage_channels {
                let mut word = words + warp::lane_id();
                while word < t.channel_words {
                    // SAFETY: the caller's promise; the word is part of the slot, and this thread's.
                    unsafe { slot.add(channel * t.channel_words + word).store(0.0) };
                    word += 32;
                }
                channel += self.threads / 32;
            }
        }
    }

    /// The place of a slot.
    #[inline(always)]
    fn slot(&self, number: u32) -> SharedPtr<u8> {
        dynamic_shared_mem().add(self.t.input_start + number * self.t.input_bytes)
    }
}

/// The bits of the largest of all threads' values, which are not negative. When it returns, all threads have come here.
///
/// # Safety
/// The last ones of those that stage the input come here together, so many `threads`, and did so at least once since they were here for this slot.
#[inline(always)]
pub(super) unsafe fn largest_of_all(ring: &Ring, threads: u32, largest: f32) -> u32 {
    // Each slot's own: it is written again when all threads have come together once more.
    let places = ring.largest_values();
    // SAFETY: the caller's promise.
    unsafe {
        let of_warp = warp::warp_reduce_max(u32::MAX, largest.to_bits());
        if warp::lane_id() == 0 {
            places.add((INPUT_PRODUCERS - 1 - producer()) / 32).store(of_warp);
        }
        sync(threads);
        let warps = (0..INPUT_PRODUCERS / 32).filter(|warp| warp * 32 < threads);
        warps.map(|warp| places.add(warp).load()).fold(0, u32::max)
    }
}

/// Waits for so many `threads` of those that stage the input.
///
/// # Safety
/// They all come here.
#[inline(always)]
pub(super) unsafe fn sync(threads: u32) {
    // SAFETY: the caller's promise.
    unsafe { thread::sync_named(MEASURED, threads) };
}
