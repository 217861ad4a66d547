//! The lanes of a warp, and where they meet: operations that several lanes carry out together.
//!
//! Each lane brings words along, as many as the operation takes, and gets up to four back.

use core::array;
use core::panic::Location;
use core::ptr;
use std::vec::Vec;

use super::fault::{FaultKind, WarpProblem};
use super::matrices::{self, Elements};
use super::order::{LANES, WarpClock, lanes};

/// What lanes do together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    /// Wait for each other, and see each other's writes.
    Synchronise,
    /// Each offers a bit, and gets all of them.
    Vote,
    /// Each offers a word, and gets that of the lane whose number it offers too.
    Exchange,
    /// Each offers a word, and gets the largest one.
    Maximum,
    /// Each offers its part of three matrices, and gets its part of the result.
    Multiply(Elements),
    /// Wait at a barrier of the block.
    SyncNamed { barrier: u32, threads: u32 },
    /// Come to a barrier of the block without waiting.
    ArriveNamed { barrier: u32, threads: u32 },
}

/// What an operation yields to a lane; words that it does not need are zero.
pub(super) type Answer = [u32; 4];

/// The call that brings a lane to an operation: the same for every lane that takes part.
#[derive(Clone, Copy, Debug)]
pub(super) struct Call {
    pub(super) operation: Operation,
    pub(super) mask: u32,
    pub(super) location: &'static Location<'static>,
}

impl PartialEq for Call {
    fn eq(&self, other: &Self) -> bool {
        // Names of files are compared only where the same line may have been compiled twice.
        let same_line = ptr::eq(self.location, other.location) || self.location == other.location;
        self.operation == other.operation && self.mask == other.mask && same_line
    }
}

/// An operation that some of its lanes have come to.
pub(super) struct Meeting {
    pub(super) call: Call,
    arrived: u32,
    /// What the lanes brought along, lane by lane.
    offers: Vec<u32>,
}

impl Meeting {
    /// For so many words from each lane; the memory is that of a meeting that is over, or empty.
    fn new(call: Call, words: usize, mut offers: Vec<u32>) -> Self {
        offers.resize(words * LANES, 0);
        Self { call, arrived: 0, offers }
    }

    fn arrive<const WORDS: usize>(&mut self, lane: u32, offer: [u32; WORDS]) {
        self.arrived |= 1 << lane;
        let start = lane as usize * WORDS;
        self.offers[start..start + WORDS].copy_from_slice(&offer);
    }

    pub(super) fn missing(&self) -> u32 {
        self.call.mask & !self.arrived
    }

    /// The first lane that waits here.
    pub(super) fn first_arrived(&self) -> u32 {
        self.arrived.trailing_zeros()
    }

    /// What the operation yields to each lane, once all are there.
    pub(super) fn answers(&self) -> [Answer; LANES] {
        let all = |word| [[word, 0, 0, 0]; LANES];
        match self.call.operation {
            Operation::Synchronise | Operation::SyncNamed { .. } | Operation::ArriveNamed { .. } => all(0),
            Operation::Vote => all(lanes(self.call.mask).map(|lane| self.offers[lane] << lane).sum()),
            Operation::Exchange => {
                let (exchanged, _) = self.offers.as_chunks();
                array::from_fn(|lane| {
                    let [_, source] = exchanged[lane];
                    // Lanes that take no part have left words of another meeting.
                    let [bits, _] = exchanged[source as usize % LANES];
                    [bits, 0, 0, 0]
                })
            }
            Operation::Maximum => all(lanes(self.call.mask).map(|lane| self.offers[lane]).max().unwrap_or(0)),
            Operation::Multiply(elements) => matrices::multiply_add(elements, self.offers.as_chunks().0),
        }
    }
}

/// One warp of the running block. The next block's takes its place: by then nobody waits, and its clock goes on.
pub(super) struct Warp {
    /// The lanes that exist.
    pub(super) lanes: u32,
    pub(super) clock: WarpClock,
    meetings: Vec<Meeting>,
    /// The memory of a meeting that is over.
    spare: Vec<u32>,
}

impl Warp {
    /// A warp with that many lanes.
    pub(super) fn new(lanes: u32) -> Self {
        let lanes = u32::MAX >> (u32::BITS - lanes.min(u32::BITS));
        Self { lanes, clock: WarpClock::START, meetings: Vec::new(), spare: Vec::new() }
    }

    /// A lane comes to an operation. Yields the meeting if that makes it complete.
    pub(super) fn arrive<const WORDS: usize>(
        &mut self,
        lane: u32,
        call: Call,
        offer: [u32; WORDS],
    ) -> Result<Option<Meeting>, FaultKind> {
        self.check(lane, call, &offer).map_err(|problem| FaultKind::Warp { mask: call.mask, problem })?;
        let open = self.meetings.iter().position(|meeting| meeting.call == call);
        let index = open.unwrap_or_else(|| {
            self.meetings.push(Meeting::new(call, WORDS, core::mem::take(&mut self.spare)));
            self.meetings.len() - 1
        });
        let meeting = &mut self.meetings[index];
        meeting.arrive(lane, offer);
        if meeting.missing() != 0 {
            return Ok(None);
        }
        match call.operation {
            Operation::Synchronise | Operation::SyncNamed { .. } => self.clock.synchronise(call.mask),
            Operation::ArriveNamed { .. } => self.clock.advance(),
            Operation::Vote | Operation::Exchange | Operation::Maximum | Operation::Multiply(_) => {}
        }
        Ok(Some(self.meetings.swap_remove(index)))
    }

    /// All lanes have got their answers.
    pub(super) fn end(&mut self, meeting: Meeting) {
        self.spare = meeting.offers;
    }

    fn check(&self, lane: u32, call: Call, offer: &[u32]) -> Result<(), WarpProblem> {
        let absent = call.mask & !self.lanes;
        let source = match (call.operation, offer) {
            (Operation::Exchange, &[_, source]) => source,
            _ => lane,
        };
        if call.mask >> lane & 1 == 0 {
            Err(WarpProblem::CallerNotInMask)
        } else if absent != 0 {
            Err(WarpProblem::NoSuchLanes { lanes: absent })
        } else if call.mask >> source & 1 == 0 {
            Err(WarpProblem::SourceNotInMask { lane: source })
        } else {
            Ok(())
        }
    }

    /// The operations that wait for lanes.
    pub(super) fn waiting(&self) -> &[Meeting] {
        &self.meetings
    }
}
