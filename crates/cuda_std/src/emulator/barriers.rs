//! The named barriers of a block, and the warps that have come to each since it last opened.

use core::panic::Location;

use super::fault::NamedBarrierProblem;
use super::known::Known;
use super::order::{LANES, WarpClock};

/// The numbers of the barriers; number 0 is that of the whole block.
const NUMBERS: core::ops::RangeInclusive<u32> = 1..=15;

/// Those that have come to a barrier.
pub(super) struct Gathering {
    /// How many threads are to come.
    threads: u32,
    /// The warps that have come, one bit each.
    came: u32,
    /// Those of them that wait.
    pub(super) waiting: u32,
    /// What all of them knew and had done.
    pub(super) known: Known,
    /// The call of a warp that waits.
    location: Option<&'static Location<'static>>,
}

impl Gathering {
    const EMPTY: Self = Self { threads: 0, came: 0, waiting: 0, known: Known::NOTHING, location: None };

    /// Warps count as a whole.
    fn threads_that_came(&self) -> u32 {
        self.came.count_ones() * LANES as u32
    }

    /// How many are still to come.
    fn missing(&self) -> u32 {
        self.threads.saturating_sub(self.threads_that_came())
    }
}

/// A barrier that warps wait at in vain.
pub(super) struct Stuck {
    pub(super) barrier: u32,
    pub(super) warp: u32,
    pub(super) location: Option<&'static Location<'static>>,
    pub(super) problem: NamedBarrierProblem,
}

/// The named barriers of a block.
pub(super) struct Barriers {
    gatherings: [Gathering; *NUMBERS.end() as usize + 1],
}

impl Barriers {
    pub(super) const NEW: Self = Self { gatherings: [const { Gathering::EMPTY }; *NUMBERS.end() as usize + 1] };

    /// Whether the call can be right at all.
    pub(super) fn check(barrier: u32, threads: u32) -> Result<(), NamedBarrierProblem> {
        if !NUMBERS.contains(&barrier) {
            Err(NamedBarrierProblem::NoSuchBarrier)
        } else if threads == 0 || !threads.is_multiple_of(LANES as u32) {
            Err(NamedBarrierProblem::NotWholeWarps { threads })
        } else {
            Ok(())
        }
    }

    /// A warp comes to a barrier, and if there is a location, waits. Yields all that came if that opens it.
    pub(super) fn come(
        &mut self,
        barrier: u32,
        threads: u32,
        warp: usize,
        clock: &WarpClock,
        waits: Option<&'static Location<'static>>,
    ) -> Result<Option<Gathering>, NamedBarrierProblem> {
        let gathering = &mut self.gatherings[barrier as usize];
        if gathering.came != 0 && gathering.threads != threads {
            return Err(NamedBarrierProblem::OtherCount { threads, others: gathering.threads });
        }
        if gathering.came >> warp & 1 == 1 {
            return Err(NamedBarrierProblem::CameTwice);
        }
        gathering.threads = threads;
        gathering.came |= 1 << warp;
        gathering.known.learn(&clock.release(warp));
        if waits.is_some() {
            gathering.waiting |= 1 << warp;
            gathering.location = waits;
        }
        let open = gathering.missing() == 0;
        Ok(open.then(|| core::mem::replace(gathering, Gathering::EMPTY)))
    }

    /// With no thread ready, the barrier that somebody still waits at. If there are several, some of them wait for
    /// those that wait at others: it is the one that misses the fewest, and so is the likeliest cause.
    pub(super) fn stuck(&self) -> Option<Stuck> {
        let waited_for = self.gatherings.iter().zip(0..).filter(|(gathering, _)| gathering.waiting != 0);
        let (gathering, barrier) = waited_for.min_by_key(|(gathering, _)| gathering.missing())?;
        let Gathering { threads, waiting, location, .. } = *gathering;
        let problem = NamedBarrierProblem::Stuck { came: gathering.threads_that_came(), threads };
        Some(Stuck { barrier, warp: waiting.trailing_zeros(), location, problem })
    }
}
