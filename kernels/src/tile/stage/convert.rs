//! Converting: the threads that stage the input fetch it as it is, in parts of some channels, and make `f16` numbers of it, two channels in a word.
//!
//! Tensor cores multiply twice as many channels of `f16` at a time as of TF32, and `f16` has as many bits of fraction. What it lacks are
//! exponents: so the input is multiplied by a power of two before, which its largest values decide, and the sums by the inverse of that in the end.
//! As long as values fit, the power stays what it is. Where they do not, the part is converted once more, what the stage has of earlier parts is adjusted, and
//! teams adjust their sums when they find another power beside a stage.
//!
//! Of values that are less than `2^-15` of the largest ones in a tile, `f16` may have fewer bits: they are rounded to a multiple of less than `2^-24` of these. Infinities and
//! not-a-numbers stay what they are, and decide nothing.

use cuda_std::{
    half,
    math::larger_magnitude,
    shared::{SharedPtr, dynamic_shared_mem},
};

use super::{
    INPUT_PRODUCERS, Inputs, Operands, await_first_weights,
    measure::{largest_of_all, sync},
    producer,
};
use crate::{
    index::Index,
    tile::{
        parameters::Tiling,
        ring::{Ring, weight_exponent},
        scale::{self, Exponent, power_of_two},
        unrolled::unrolled,
    },
};

/// Fours of words that a thread has under way together, of two channels each.
const UNDER_WAY: usize = 2;

/// Stages the input of all jobs, converted, stage by stage.
///
/// # Safety
/// As [`produce`](super::produce); all threads that stage the input come here.
#[inline(always)]
pub(super) unsafe fn produce_inputs(t: &Tiling, operands: &Operands) {
    let mut inputs = Inputs::new(t, operands);
    let mut converter = Converter { t, raw: Ring::raw(t), exponent: Exponent::START };
    let mut ring = Ring::inputs(t);
    // Parts that have been asked for, and not been converted.
    let mut parts = 0;
    // SAFETY: the caller's promise. Parts are fetched to where others have been converted, or nothing has been yet; a slot is filled when the teams have left it.
    unsafe {
        let mut fetching = Ring::raw(t);
        while parts < t.raw_ring && inputs.seek() {
            await_first_weights(t, operands, parts == t.stage_parts);
            inputs.fetch::<false, 2>(raw_slot(t, &fetching), fetching.full());
            fetching.advance();
            parts += 1;
        }
        let of_weight = scale::of_weight(operands.weight);
        if producer() == 0 {
            weight_exponent().store(of_weight.bits());
        }
        let mut stage = 0;
        while parts > 0 {
            if stage == 0 {
                converter.exponent.begin();
            }
            stage = if stage + 1 < t.stages { stage + 1 } else { 0 };
            ring.await_empty();
            let slot = dynamic_shared_mem::<u8>().add(t.input_start + ring.slot() * t.input_bytes);
            for part in 0..t.stage_parts {
                converter.convert_next(slot, part * t.part_channels);
                if inputs.seek() {
                    inputs.fetch::<false, 2>(raw_slot(t, &converter.raw), converter.raw.full());
                } else {
                    parts -= 1;
                }
                converter.raw.advance();
            }
            if producer() == 0 {
                ring.exponent().store(converter.exponent.bits());
            }
            ring.fill();
            ring.advance();
        }
    }
}

/// The place of a part that has to be converted.
#[inline(always)]
fn raw_slot(t: &Tiling, ring: &Ring) -> SharedPtr<u8> {
    dynamic_shared_mem().add(t.raw_start + ring.slot() * t.raw_bytes)
}

/// What the converting threads know.
struct Converter<'a> {
    t: &'a Tiling,
    /// Where the next part is.
    raw: Ring,
    exponent: Exponent,
}

impl Converter<'_> {
    /// Converts the next part, whose first channel in its stage is given, to its place in the slot. In the end all threads have read the part.
    ///
    /// # Safety
    /// All converting threads come here together; the part has been asked for, and the slot is empty.
    #[inline(always)]
    unsafe fn convert_next(&mut self, slot: SharedPtr<u8>, first_channel: u32) {
        let (source, target) = (raw_slot(self.t, &self.raw), self.target(slot, first_channel));
        // SAFETY: the caller's promise.
        unsafe {
            self.raw.await_full();
            let largest = self.convert(source, target);
            let mut largest = largest_of_all(&self.raw, largest);
            if largest == f32::INFINITY.to_bits() {
                sync();
                largest = largest_of_all(&self.raw, self.largest_finite(source));
            }
            let before = self.exponent;
            if self.exponent.adjust(largest) {
                self.convert(source, target);
                self.adjust(slot, target, power_of_two(self.exponent.minus(before)));
                sync();
            }
        }
    }

    /// Where a part of a stage lies when it is converted.
    #[inline(always)]
    fn target(&self, slot: SharedPtr<u8>, first_channel: u32) -> SharedPtr<u8> {
        slot.add(first_channel / 2 * 4 * self.t.channel_words)
    }

    /// Converts a part: this thread's share of the words. Returns the largest magnitude among them.
    ///
    /// # Safety
    /// The part is complete; nobody else accesses its place in the slot.
    #[inline(always)]
    unsafe fn convert(&self, source: SharedPtr<u8>, target: SharedPtr<u8>) -> f32 {
        let scale = power_of_two(self.exponent);
        let mut largest = 0.0f32;
        let count = self.t.part_channels / 2 * self.t.fours.value() as u32;
        let mut number = producer();
        // SAFETY: the caller's promise; all four are one thread's.
        unsafe {
            while number + (UNDER_WAY as u32 - 1) * INPUT_PRODUCERS < count {
                let mut words = [[[0.0; 4]; 2]; UNDER_WAY];
                unrolled!(NEXT in 0..UNDER_WAY, at most 2 => {
                    words[NEXT] = self.load(source, number + NEXT as u32 * INPUT_PRODUCERS);
                });
                unrolled!(NEXT in 0..UNDER_WAY, at most 2 => {
                    largest = largest.max(largest_of(words[NEXT]));
                    self.store(target, number + NEXT as u32 * INPUT_PRODUCERS, words[NEXT], scale);
                });
                number += UNDER_WAY as u32 * INPUT_PRODUCERS;
            }
            while number < count {
                let words = self.load(source, number);
                largest = largest.max(largest_of(words));
                self.store(target, number, words, scale);
                number += INPUT_PRODUCERS;
            }
        }
        largest
    }

    /// Loads four words of two channels.
    ///
    /// # Safety
    /// The part has such words, and is complete.
    #[inline(always)]
    unsafe fn load(&self, source: SharedPtr<u8>, number: u32) -> [[f32; 4]; 2] {
        let (channels, four) = number.divide(self.t.fours);
        let first = source.cast::<f32>().add(2 * channels * self.t.channel_words + 4 * four);
        // SAFETY: the caller's promise.
        unsafe { [first.cast().load(), first.add(self.t.channel_words).cast().load()] }
    }

    /// Stores them as words of two channels each, scaled.
    ///
    /// # Safety
    /// The slot has room for the part, and nobody else accesses these words.
    #[inline(always)]
    unsafe fn store(&self, target: SharedPtr<u8>, number: u32, [low, high]: [[f32; 4]; 2], scale: f32) {
        let words = [0, 1, 2, 3].map(|word| half::pack([low[word] * scale, high[word] * scale]));
        // SAFETY: the caller's promise.
        unsafe { self.converted(target, number).store(words) };
    }

    /// The place of four words in the slot, from some channel on.
    #[inline(always)]
    fn converted(&self, target: SharedPtr<u8>, number: u32) -> SharedPtr<[u32; 4]> {
        let (channels, four) = number.divide(self.t.fours);
        target.cast::<u32>().add(channels * self.t.channel_words + 4 * four).cast()
    }

    /// The largest finite magnitude among this thread's words of a part.
    ///
    /// # Safety
    /// The part is complete.
    #[inline(always)]
    unsafe fn largest_finite(&self, source: SharedPtr<u8>) -> f32 {
        let mut largest = 0.0f32;
        let mut number = producer();
        while number < self.t.part_channels / 2 * self.t.fours.value() as u32 {
            // SAFETY: the caller's promise.
            let words = unsafe { self.load(source, number) };
            let finite = |value: f32| if value.abs() < f32::INFINITY { value } else { 0.0 };
            largest = largest.max(largest_of(words.map(|words| words.map(finite))));
            number += INPUT_PRODUCERS;
        }
        largest
    }

    /// Multiplies what the slot has of earlier parts of its stage, up to a place.
    ///
    /// # Safety
    /// These parts are complete, and nobody else accesses them.
    #[inline(always)]
    unsafe fn adjust(&self, slot: SharedPtr<u8>, end: SharedPtr<u8>, factor: f32) {
        let channels = (end.address() - slot.address()) / (4 * self.t.channel_words);
        let mut number = producer();
        while number < channels * self.t.fours.value() as u32 {
            let place = self.converted(slot, number);
            // SAFETY: the caller's promise; all four are one thread's.
            unsafe {
                let words = place.load().map(|word| half::pack(half::unpack(word).map(|value| value * factor)));
                place.store(words);
            }
            number += INPUT_PRODUCERS;
        }
    }
}

/// The largest magnitude of some words. Not-a-numbers have none.
#[inline(always)]
fn largest_of(words: [[f32; 4]; 2]) -> f32 {
    let [low, high] = words.map(|[a, b, c, d]| larger_magnitude(larger_magnitude(a, b), larger_magnitude(c, d)));
    larger_magnitude(low, high)
}
