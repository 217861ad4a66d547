//! The memory barriers of a block, and who and what has come to each in its phase.

use core::panic::Location;
use std::vec::Vec;

use super::copies::Pending;
use super::fault::MbarrierProblem;
use super::known::{Known, Lesson};
use super::order::LANES;

/// What a barrier counts stays below this number.
const LIMIT: u32 = 1 << 20;

/// A thread that waits.
pub(super) struct Waiter {
    pub(super) thread: u32,
    pub(super) location: &'static Location<'static>,
}

pub(super) struct Mbarrier {
    pub(super) address: u32,
    /// How many arrivals each phase expects.
    expected: u32,
    /// How many of them are still to come.
    missing: u32,
    /// The bytes of bulk copies that are still to come; below zero where copies came before they were announced.
    bytes: i64,
    /// The phases that are complete.
    complete: u32,
    /// What those knew and had done that have come in this phase.
    pub(super) arrived: Known,
    /// What there is to learn from the last complete phase.
    pub(super) lesson: Lesson,
    /// Those that wait for this phase.
    waiting: Vec<Waiter>,
    /// The copies of this phase.
    copies: Vec<Pending>,
    /// The copies of complete phases, which nobody has seen complete yet.
    landed: Vec<Pending>,
    /// The last thread that started one.
    copier: Option<u32>,
}

impl Mbarrier {
    fn new(address: u32, expected: u32) -> Self {
        Self {
            address,
            expected,
            missing: expected,
            bytes: 0,
            complete: 0,
            arrived: Known::NOTHING,
            lesson: Lesson::new(Known::NOTHING),
            waiting: Vec::new(),
            copies: Vec::new(),
            landed: Vec::new(),
            copier: None,
        }
    }

    /// One arrival, which announces some bytes.
    pub(super) fn arrive(&mut self, bytes: u32) -> Result<(), MbarrierProblem> {
        let expected = self.expected;
        self.missing = self.missing.checked_sub(1).ok_or(MbarrierProblem::TooManyArrivals { expected })?;
        self.count_bytes(bytes.into())
    }

    /// So many bytes more are to come, or less.
    pub(super) fn count_bytes(&mut self, bytes: i64) -> Result<(), MbarrierProblem> {
        self.bytes += bytes;
        if self.bytes.unsigned_abs() < LIMIT.into() {
            Ok(())
        } else {
            Err(MbarrierProblem::Bytes { bytes: self.bytes })
        }
    }

    /// This phase completes copies that the thread has started.
    pub(super) fn take(&mut self, thread: u32, copies: impl IntoIterator<Item = Pending>) {
        self.copies.extend(copies);
        self.copier = Some(thread);
    }

    /// Whether the phase of that parity is complete.
    pub(super) fn is_complete(&self, parity: u32) -> bool {
        self.complete % 2 != parity
    }

    pub(super) fn wait(&mut self, waiter: Waiter) {
        self.waiting.push(waiter);
    }

    /// If all is there, begins the next phase, and yields those that have waited for it. The copies of the barrier are
    /// deeds of that lane of that warp.
    pub(super) fn turn(&mut self, warp: usize, lane: usize) -> Option<Vec<Waiter>> {
        if self.missing != 0 || self.bytes != 0 {
            return None;
        }
        self.missing = self.expected;
        self.complete += 1;
        self.landed.append(&mut self.copies);
        let mut known = core::mem::take(&mut self.arrived);
        if self.copier.is_some() {
            let mut times = [0; LANES];
            times[lane] = self.complete;
            known.learn_of_warp(warp, &times);
        }
        self.lesson = Lesson::new(known);
        Some(core::mem::take(&mut self.waiting))
    }

    /// Somebody sees that the last phase is complete: its copies, if nobody has before, and the time that they are made
    /// at.
    pub(super) fn land(&mut self) -> Option<(u32, Vec<Pending>)> {
        let time = self.complete.checked_sub(1)?;
        (!self.landed.is_empty()).then(|| (time, core::mem::take(&mut self.landed)))
    }

    /// Takes back the memory of copies that have been made.
    pub(super) fn reuse(&mut self, mut made: Vec<Pending>) {
        made.clear();
        if self.landed.capacity() == 0 {
            self.landed = made;
        }
    }
}

/// A barrier that a thread waits at in vain.
pub(super) struct Stuck {
    pub(super) address: u32,
    pub(super) thread: u32,
    pub(super) location: &'static Location<'static>,
    pub(super) problem: MbarrierProblem,
}

/// The memory barriers of a block, in the order in which they were made.
#[derive(Default)]
pub(super) struct Mbarriers {
    barriers: Vec<Mbarrier>,
}

impl Mbarriers {
    pub(super) fn make(&mut self, address: u32, arrivals: u32) -> Result<(), MbarrierProblem> {
        if !(1..LIMIT).contains(&arrivals) {
            return Err(MbarrierProblem::Arrivals { arrivals });
        }
        self.barriers.push(Mbarrier::new(address, arrivals));
        Ok(())
    }

    /// The number of the barrier at an address.
    pub(super) fn number(&self, address: u32) -> Result<usize, MbarrierProblem> {
        let number = self.barriers.iter().position(|barrier| barrier.address == address);
        number.ok_or(MbarrierProblem::NotInitialised)
    }

    pub(super) fn get(&mut self, number: usize) -> &mut Mbarrier {
        &mut self.barriers[number]
    }

    /// The lane that stands for a barrier's copies. Of more barriers than there are lanes, some have the same one: what
    /// is known of the copies of one may then pass for those of another, and a race between them is missed.
    pub(super) fn lane(number: usize) -> usize {
        number % LANES
    }

    /// A thread that has started copies which that lane stands for.
    pub(super) fn copier(&self, lane: usize) -> Option<u32> {
        self.barriers.iter().skip(lane).step_by(LANES).find_map(|barrier| barrier.copier)
    }

    /// With no thread ready, the barrier that somebody still waits at: the one that misses the fewest arrivals, if
    /// there are several.
    pub(super) fn stuck(&self) -> Option<Stuck> {
        let waited_for = self.barriers.iter().filter_map(|barrier| Some((barrier, barrier.waiting.first()?)));
        let (barrier, &Waiter { thread, location }) = waited_for.min_by_key(|(barrier, _)| barrier.missing)?;
        let problem = MbarrierProblem::Stuck { arrivals: barrier.missing, bytes: barrier.bytes };
        Some(Stuck { address: barrier.address, thread, location, problem })
    }
}
