//! Staging through registers, before compute capability 8.0, which has no asynchronous copies.
//!
//! A thread loads some words, then stores all of them: the loads wait for memory together. It arrives when it has
//! stored, not before.

use cuda_std::{hint, mbarrier::Mbarrier, mem, shared::SharedPtr, warp};

use super::{
    INPUT_PRODUCERS, Operands, Tiling,
    inputs::{OUTSIDE, offsets},
    producer,
};
use crate::unrolled::unrolled;

/// Loads that are under way together. They need four registers each.
const UNDER_WAY: u32 = 8;

/// Copies weights to shared memory, and arrives at the barrier when they are there.
///
/// # Safety
/// `bytes` bytes of global memory, a multiple of 16, and as many of shared memory, which nobody else accesses until the
/// barrier says so. All lanes of a warp come here together.
#[cfg_attr(gpu, inline(always))]
pub(super) unsafe fn stage_weights(target: SharedPtr<u8>, source: *const f32, bytes: u32, full: Mbarrier) {
    const STEP: u32 = 32;
    let (source, target) = (source.cast::<[f32; 4]>(), target.cast::<[f32; 4]>());
    let count = bytes / 16;
    let mut unit = warp::lane_id();
    // SAFETY: the caller's promise; what is beyond the end is not accessed.
    unsafe {
        while unit + (UNDER_WAY - 1) * STEP < count {
            let mut units = [[0.0; 4]; UNDER_WAY as usize];
            unrolled!(NUMBER in 0..{ UNDER_WAY as usize }, at most 8 => {
                units[NUMBER] = mem::load_readonly(source.wrapping_add((unit + NUMBER as u32 * STEP) as usize));
            });
            unrolled!(NUMBER in 0..{ UNDER_WAY as usize }, at most 8 => {
                target.add(unit + NUMBER as u32 * STEP).store(units[NUMBER]);
            });
            unit += UNDER_WAY * STEP;
        }
        while unit < count {
            target.add(unit).store(mem::load_readonly(source.wrapping_add(unit as usize)));
            unit += STEP;
        }
        full.arrive();
    }
}

/// Copies the input of a stage. A thread copies the same elements of all channels, of which so many exist, so that it
/// looks each up once. `input` is the first element of the tile in the first of them.
///
/// # Safety
/// The slot is empty, and the table of offsets is that of the job.
#[cfg_attr(gpu, inline(always))]
pub(super) unsafe fn fetch_input(
    t: &Tiling,
    operands: &Operands,
    input: *const f32,
    channels: u32,
    slot: SharedPtr<u8>,
) {
    let from = Source { tensor: operands.input, first: input, channels };
    // SAFETY: the caller's promise. The host knows the alignment of the rows to each other, not that of the first one.
    unsafe {
        if t.copy_words == 1 {
            fetch_words(t, &from, slot);
        } else if from.first.addr().is_multiple_of(16) {
            fetch_fours(t, &from, slot, |place, is_there| from.load(place, is_there));
        } else {
            fetch_fours(t, &from, slot, |place, is_there| from.load_words(place, is_there));
        }
    }
}

/// Where the input of a stage comes from.
struct Source {
    /// The tensor's first elements, which are read where there are none.
    tensor: *const f32,
    /// The first element of the tile in the first channel of the stage.
    first: *const f32,
    /// Channels that exist from there on.
    channels: u32,
}

impl Source {
    /// Four aligned words from a place on, or zeros.
    ///
    /// # Safety
    /// The words exist if they are there. The tensor is aligned, and not empty.
    #[cfg_attr(gpu, inline(always))]
    unsafe fn load(&self, place: *const f32, is_there: bool) -> [f32; 4] {
        let place = if is_there { place } else { self.tensor };
        // SAFETY: the caller's promise.
        let words = unsafe { mem::load_readonly(place.cast::<[f32; 4]>()) };
        words.map(|word| if is_there { word } else { 0.0 })
    }

    /// The same, not aligned.
    ///
    /// # Safety
    /// The words exist if they are there.
    #[cfg_attr(gpu, inline(always))]
    unsafe fn load_words(&self, place: *const f32, is_there: bool) -> [f32; 4] {
        // SAFETY: the caller's promise.
        [0, 1, 2, 3].map(|word| unsafe { mem::load_readonly_if(is_there, place.wrapping_add(word)) })
    }
}

/// Copies four words at a time, of eight channels together.
///
/// # Safety
/// As [`fetch_input`], where four words are copied together.
#[cfg_attr(gpu, inline(always))]
unsafe fn fetch_fours(t: &Tiling, source: &Source, slot: SharedPtr<u8>, load: impl Fn(*const f32, bool) -> [f32; 4]) {
    let plane = hint::opaque(t.input_plane as u32) as usize;
    let mut copy = producer();
    while copy < t.copies {
        // SAFETY: this thread wrote the entry.
        let offset = unsafe { offsets(t).add(copy).load() };
        let mut from = source.first.wrapping_add(offset as usize);
        let mut to = slot.cast::<[f32; 4]>().add(copy);
        for channel in (0..t.stage_channels).step_by(8) {
            let mut words = [[0.0; 4]; 8];
            unrolled!(PART in 0..8, at most 8 => {
                words[PART] = load(from, offset != OUTSIDE && channel + (PART as u32) < source.channels);
                from = hint::opaque_pointer(from.wrapping_add(plane));
            });
            unrolled!(PART in 0..8, at most 8 => {
                // SAFETY: the slot has room for the stage's channels.
                unsafe { to.store(words[PART]) };
                to = to.add(t.channel_words / 4);
            });
        }
        copy += INPUT_PRODUCERS;
    }
}

/// Copies word by word, of four entries of the table and eight channels together.
///
/// # Safety
/// As [`fetch_input`], where words are copied one by one.
#[cfg_attr(gpu, inline(always))]
unsafe fn fetch_words(t: &Tiling, source: &Source, slot: SharedPtr<u8>) {
    let plane = hint::opaque(t.input_plane as u32) as usize;
    let mut copy = producer();
    while copy < t.copies {
        let entry = |number: u32| copy + number * INPUT_PRODUCERS;
        let mut offsets_of = [OUTSIDE; 4];
        unrolled!(NUMBER in 0..4, at most 4 => {
            if entry(NUMBER as u32) < t.copies {
                // SAFETY: this thread wrote the entry.
                offsets_of[NUMBER] = unsafe { offsets(t).add(entry(NUMBER as u32)).load() };
            }
        });
        let mut from = source.first;
        let mut to = slot.cast::<f32>();
        for channel in (0..t.stage_channels).step_by(8) {
            let mut words = [[0.0; 4]; 8];
            unrolled!(PART in 0..8, at most 8 => {
                let exists = channel + (PART as u32) < source.channels;
                unrolled!(NUMBER in 0..4, at most 4 => {
                    let (offset, place) = (offsets_of[NUMBER], from.wrapping_add(offsets_of[NUMBER] as usize));
                    // SAFETY: an element that exists lies within the input.
                    words[PART][NUMBER] = unsafe { mem::load_readonly_if(exists && offset != OUTSIDE, place) };
                });
                from = hint::opaque_pointer(from.wrapping_add(plane));
            });
            unrolled!(PART in 0..8, at most 8 => {
                unrolled!(NUMBER in 0..4, at most 4 => {
                    if entry(NUMBER as u32) < t.copies {
                        // SAFETY: the slot has room for the stage's channels.
                        unsafe { to.add(entry(NUMBER as u32)).store(words[PART][NUMBER]) };
                    }
                });
                to = to.add(t.channel_words);
            });
        }
        copy += 4 * INPUT_PRODUCERS;
    }
}
