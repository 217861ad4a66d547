//! Verdict: whether a tile was computed with a power of two that suits it, and with which one.
//!
//! All who convert find the largest value of a tile together, when its last chunk is loaded, and one of them leaves the
//! verdict beside the stage of that chunk. The teams read it there before they leave the stage.

use cuda_std::{
    math::larger_magnitude,
    shared::{SharedPtr, dynamic_shared_mem},
    thread, warp,
};

use super::{CONVERTERS, VERDICT_START};
use crate::tile::{Exponent, Ring};

/// Warps that convert.
const WARPS: u32 = CONVERTERS / 32;

/// Bytes of shared memory: a word for each of these warps, twice.
pub(super) const BYTES: u32 = 2 * WARPS * 4;

/// Their named barrier.
const CONVERTED: u32 = 4;

/// The verdict that a tile has to be computed again: no exponent.
const AGAIN: u32 = 1 << 31;

/// What those who convert know of the values of a tile.
pub(super) struct Judge<const SPLIT: bool> {
    /// The exponent that is in use.
    exponent: Exponent,
    /// The largest magnitude of this thread's values of the tile.
    largest: f32,
    /// Which of the two sets of words is next: nobody writes to one that others may still read.
    is_second: bool,
}

impl<const SPLIT: bool> Judge<SPLIT> {
    #[cfg_attr(gpu, inline(always))]
    pub(super) fn new() -> Self {
        Self { exponent: Exponent::of_ones(SPLIT), largest: 0.0, is_second: false }
    }

    /// Takes values into account of which the largest finite magnitude is given.
    #[cfg_attr(gpu, inline(always))]
    pub(super) fn look_at(&mut self, largest: f32) {
        self.largest = larger_magnitude(self.largest, largest);
    }

    /// The exponent for the values that are next.
    #[cfg_attr(gpu, inline(always))]
    pub(super) fn exponent(&self) -> Exponent {
        self.exponent
    }

    /// The verdict on a tile, all of whose values have been looked at; the next one begins. `None`, if its values have
    /// to be converted again.
    ///
    /// # Safety
    /// All threads that convert come here together.
    #[cfg_attr(gpu, inline(always))]
    pub(super) unsafe fn judge(&mut self) -> Option<Exponent> {
        let places = dynamic_shared_mem::<u32>().add(VERDICT_START / 4 + if self.is_second { WARPS } else { 0 });
        self.is_second = !self.is_second;
        // SAFETY: the caller's promise.
        let largest = unsafe {
            let of_warp = warp::warp_reduce_max(u32::MAX, self.largest.to_bits());
            if warp::lane_id() == 0 {
                places.add(thread::thread_idx_x() / 32 % WARPS).store(of_warp);
            }
            thread::sync_named(CONVERTED, CONVERTERS);
            (0..WARPS).map(|warp| places.add(warp).load()).fold(0, u32::max)
        };
        self.largest = 0.0;
        let used = self.exponent;
        self.exponent.begin();
        self.exponent.adjust(largest, SPLIT);
        (self.exponent == used).then_some(used)
    }
}

/// Leaves a verdict beside a stage.
///
/// # Safety
/// One thread does so before the stage is full.
#[cfg_attr(gpu, inline(always))]
pub(super) unsafe fn leave(ring: &Ring, verdict: Option<Exponent>) {
    let place: SharedPtr<u32> = ring.exponent();
    // SAFETY: the caller's promise.
    unsafe { place.store(verdict.map_or(AGAIN, Exponent::bits)) };
}

/// The verdict beside a stage.
///
/// # Safety
/// The stage is the last one of a tile, full, and all lanes of the warp come here together.
#[cfg_attr(gpu, inline(always))]
pub(super) unsafe fn read(ring: &Ring) -> Option<Exponent> {
    // SAFETY: the caller's promise.
    let verdict = unsafe { ring.exponent_for_warp() };
    if verdict == AGAIN { None } else { Some(Exponent::from_bits(verdict)) }
}
