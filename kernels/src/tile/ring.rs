//! Rings: shared memory that producers fill and teams empty, slot by slot, with a barrier for either.
//!
//! Whoever waits for a slot counts the rounds: a barrier's phases alternate, and the round says which one is meant.
//! Inputs that are measured have barriers that say that a slot has been fetched; full it is when it has been measured.

use cuda_std::{
    hint,
    mbarrier::Mbarrier,
    shared::{SharedPtr, dynamic_shared_mem},
    thread, warp,
};

use super::{TEAM_THREADS, TEAMS, THREADS, multiply::WEIGHT_ARRIVALS, parameters::Tiling};

/// The most slots of a ring.
pub const MOST_RING_SLOTS: u32 = 8;

/// The number of the barrier of the first weights: behind full and empty ones of inputs and weights.
const FIRST_WEIGHTS: u32 = 4 * MOST_RING_SLOTS;

/// The first barrier of inputs that have been fetched.
const FETCHED: u32 = FIRST_WEIGHTS + 1;

/// Where in shared memory the exponents of the inputs are, in bytes: behind the barriers.
const EXPONENTS_START: u32 = (FETCHED + MOST_RING_SLOTS) * 8;

/// Where the exponent of the weight is.
const WEIGHT_EXPONENT: u32 = EXPONENTS_START + MOST_RING_SLOTS * 4;

/// Where the largest values are that the warps found which measure, four words for each slot.
const LARGEST_START: u32 = WEIGHT_EXPONENT + 4;

/// Bytes of shared memory that all of this takes, at its beginning.
pub const CONTROL_BYTES: u32 = LARGEST_START + MOST_RING_SLOTS * 4 * 4;

/// Warps that empty a slot. Each says so once.
const EMPTIERS: u32 = TEAMS * TEAM_THREADS / 32;

/// Warps of a block.
const WARPS: u32 = THREADS / 32;

/// Where somebody is in a ring.
#[derive(Clone, Copy)]
pub(crate) struct Ring {
    /// The first slot's barriers, counted in eight bytes.
    first: u32,
    slots: u32,
    slot: u32,
    /// The parity of the round.
    parity: u32,
}

impl Ring {
    /// A ring of so many slots, at its beginning, for kernels that have one.
    #[cfg_attr(gpu, inline(always))]
    pub(crate) fn new(slots: u32) -> Self {
        Self { first: 0, slots, slot: 0, parity: 0 }
    }

    /// The ring of inputs, at its beginning.
    #[cfg_attr(gpu, inline(always))]
    pub(super) fn inputs(t: &Tiling) -> Self {
        Self::new(t.input_ring)
    }

    /// The ring of weights, at its beginning.
    #[cfg_attr(gpu, inline(always))]
    pub(super) fn weights(t: &Tiling) -> Self {
        Self { first: 2 * MOST_RING_SLOTS, slots: t.weight_ring, slot: 0, parity: 0 }
    }

    /// Sets the barriers up, for the whole block. What is fetched of the input is complete when so many threads have
    /// arrived, what is measured when so many have, if anything is.
    ///
    /// # Safety
    /// All threads of the block come here together, before anything else happens to shared memory.
    #[cfg_attr(gpu, inline(always))]
    pub(super) unsafe fn set_up(t: &Tiling, fetch_arrivals: u32, measure_arrivals: Option<u32>) {
        // One lane of each warp: lanes would take turns, some 80 cycles each.
        let thread = hint::opaque(thread::thread_idx_x());
        if thread.is_multiple_of(32) {
            let mut slot = thread / 32;
            while slot < t.input_ring + t.weight_ring {
                let (ring, slot_of_ring, arrivals) = if slot < t.input_ring {
                    (Self::inputs(t), slot, measure_arrivals.unwrap_or(fetch_arrivals))
                } else {
                    (Self::weights(t), slot - t.input_ring, WEIGHT_ARRIVALS)
                };
                let ring = Self { slot: slot_of_ring, ..ring };
                // SAFETY: each barrier is initialised by one thread; the block's barrier follows.
                unsafe { ring.init(arrivals) };
                slot += WARPS;
            }
            let mut slot = thread / 32;
            while measure_arrivals.is_some() && slot < t.input_ring {
                // SAFETY: as above.
                unsafe { Self { slot, ..Self::inputs(t) }.fetched().init(fetch_arrivals) };
                slot += WARPS;
            }
        }
        #[cfg(cuda_arch = "sm_90a")]
        if thread == THREADS - 32 {
            // SAFETY: as above.
            unsafe { first_weights().init(1) };
        }
        // SAFETY: the caller's promise.
        unsafe { thread::sync_threads() };
    }

    /// Sets the slot's barriers up: it is full when so many have arrived, and empty when all teams have left it.
    ///
    /// # Safety
    /// One thread does so, before anybody uses them.
    #[cfg_attr(gpu, inline(always))]
    pub(crate) unsafe fn init(&self, arrivals: u32) {
        // SAFETY: the caller's promise.
        unsafe {
            self.full().init(arrivals);
            self.empty().init(EMPTIERS);
        }
    }

    /// The number of the slot.
    #[cfg_attr(gpu, inline(always))]
    pub(crate) fn slot(&self) -> u32 {
        self.slot
    }

    /// The barrier that says that the slot is full.
    #[cfg_attr(gpu, inline(always))]
    pub(crate) fn full(&self) -> Mbarrier {
        barrier(self.first + self.slot)
    }

    /// The barrier that says that the slot is empty.
    #[cfg_attr(gpu, inline(always))]
    fn empty(&self) -> Mbarrier {
        barrier(self.first + MOST_RING_SLOTS + self.slot)
    }

    /// The barrier that says that a slot of inputs has been fetched, before it is measured.
    #[cfg_attr(gpu, inline(always))]
    pub(super) fn fetched(&self) -> Mbarrier {
        barrier(FETCHED + self.slot)
    }

    /// Waits until the slot has been fetched.
    ///
    /// # Safety
    /// The barriers are set up, and this is the ring of inputs that are measured.
    #[cfg_attr(gpu, inline(always))]
    pub(super) unsafe fn await_fetched(&self) {
        // SAFETY: the caller's promise.
        unsafe { self.fetched().wait(self.parity) };
    }

    /// Waits until the slot is full.
    ///
    /// # Safety
    /// The barriers are set up.
    #[cfg_attr(gpu, inline(always))]
    pub(crate) unsafe fn await_full(&self) {
        // SAFETY: the caller's promise.
        unsafe { self.full().wait(self.parity) };
    }

    /// Waits until the slot is empty, which it is in the first round.
    ///
    /// # Safety
    /// As [`await_full`](Self::await_full).
    #[cfg_attr(gpu, inline(always))]
    pub(crate) unsafe fn await_empty(&self) {
        // SAFETY: the caller's promise.
        unsafe { self.empty().wait(self.parity ^ 1) };
    }

    /// Says that this thread has filled the slot, as far as it does so.
    ///
    /// # Safety
    /// As [`await_full`](Self::await_full).
    #[cfg_attr(gpu, inline(always))]
    pub(crate) unsafe fn fill(&self) {
        // SAFETY: the caller's promise.
        unsafe { self.full().arrive() };
    }

    /// Says that this warp does not need the slot any more.
    ///
    /// # Safety
    /// As [`await_full`](Self::await_full); all lanes of the warp come here together.
    #[cfg_attr(gpu, inline(always))]
    pub(crate) unsafe fn leave(&self) {
        // SAFETY: the caller's promise.
        unsafe { arrive_as_warp(self.empty()) };
    }

    /// The exponent of the power of two by which the input in the slot is to be multiplied, if teams make `f16` of it.
    #[cfg_attr(gpu, inline(always))]
    pub(crate) fn exponent(&self) -> SharedPtr<u32> {
        dynamic_shared_mem::<u32>().add(EXPONENTS_START / 4 + self.slot)
    }

    /// That exponent, for all lanes of a warp. The lane that leaves the slot for all of them is the one that reads it,
    /// so that nobody reads it after that; all lanes being together would do, but racecheck does not follow that.
    ///
    /// # Safety
    /// The slot is full, and all lanes of the warp come here together.
    #[cfg_attr(gpu, inline(always))]
    pub(crate) unsafe fn exponent_for_warp(&self) -> u32 {
        // SAFETY: the caller's promise.
        unsafe { warp::warp_shuffle_idx(u32::MAX, self.exponent().load_if(warp::lane_id() == 0, 0), 0) }
    }

    /// Where each warp that measures leaves the largest value that it found in the slot.
    #[cfg_attr(gpu, inline(always))]
    pub(super) fn largest_values(&self) -> SharedPtr<u32> {
        dynamic_shared_mem::<u32>().add(LARGEST_START / 4 + self.slot * 4)
    }

    /// Somebody who is so many slots ahead, of fewer than the ring has.
    #[cfg_attr(gpu, inline(always))]
    pub(crate) fn ahead(&self, slots: u32) -> Self {
        let slot = self.slot + slots;
        if slot < self.slots {
            Self { slot, ..*self }
        } else {
            Self { slot: slot - self.slots, parity: self.parity ^ 1, ..*self }
        }
    }

    /// The slot before this one; which round it is of is not known.
    #[cfg_attr(gpu, inline(always))]
    pub(crate) fn before(&self) -> Self {
        Self { slot: if self.slot == 0 { self.slots } else { self.slot } - 1, ..*self }
    }

    /// Whether this is the second slot, in the first round or another even one.
    #[cfg_attr(gpu, inline(always))]
    pub(super) fn is_second(&self) -> bool {
        self.slot == 1 && self.parity == 0
    }

    /// Goes on to the next slot.
    #[cfg_attr(gpu, inline(always))]
    pub(crate) fn advance(&mut self) {
        self.slot += 1;
        if self.slot == self.slots {
            self.slot = 0;
            self.parity ^= 1;
        }
    }
}

/// The barrier whose first phase is complete when the first weights of the block are on their way, as many as there is
/// room for or as a stage has.
#[cfg(cuda_arch = "sm_90a")]
#[cfg_attr(gpu, inline(always))]
pub(super) fn first_weights() -> Mbarrier {
    barrier(FIRST_WEIGHTS)
}

/// Arrives once for all lanes of a warp.
///
/// # Safety
/// The barrier is set up; all lanes come here together.
#[cfg_attr(gpu, inline(always))]
unsafe fn arrive_as_warp(barrier: Mbarrier) {
    // SAFETY: the caller's promise; what the other lanes did is ordered before.
    unsafe {
        warp::sync_warp(u32::MAX);
        if warp::lane_id() == 0 {
            barrier.arrive();
        }
    }
}

/// A barrier by its number.
#[cfg_attr(gpu, inline(always))]
fn barrier(number: u32) -> Mbarrier {
    Mbarrier::at(dynamic_shared_mem::<u64>().add(number))
}

/// Where the exponent of the weight is, which those leave there who measure, before any stage is full.
#[cfg_attr(gpu, inline(always))]
pub(super) fn weight_exponent() -> SharedPtr<u32> {
    dynamic_shared_mem::<u32>().add(WEIGHT_EXPONENT / 4)
}
