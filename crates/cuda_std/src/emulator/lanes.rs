//! The lanes of a warp, and where they meet: operations that several lanes carry out together.

use core::panic::Location;
use std::vec::Vec;

use super::fault::{FaultKind, WarpProblem};
use super::order::{LANES, WarpClock, lanes};

/// What lanes do together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    /// Wait for each other, and see each other's writes.
    Synchronise,
    /// Each offers a bit, and gets all of them.
    Vote,
    /// Each offers a word, and gets that of a lane of its choice.
    Exchange,
}

/// The call that brings a lane to an operation: the same for every lane that takes part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Call {
    pub(super) operation: Operation,
    pub(super) mask: u32,
    pub(super) location: &'static Location<'static>,
}

/// What one lane brings along.
#[derive(Clone, Copy, Default)]
pub(super) struct Offer {
    pub(super) bits: u32,
    /// The lane to read, for an exchange.
    pub(super) source: u32,
}

/// An operation that some of its lanes have come to.
pub(super) struct Meeting {
    pub(super) call: Call,
    arrived: u32,
    offers: [Offer; LANES],
}

impl Meeting {
    fn new(call: Call) -> Self {
        Self { call, arrived: 0, offers: [Offer::default(); LANES] }
    }

    pub(super) fn missing(&self) -> u32 {
        self.call.mask & !self.arrived
    }

    /// The first lane that waits here.
    pub(super) fn first_arrived(&self) -> u32 {
        self.arrived.trailing_zeros()
    }

    /// What the operation yields to a lane, once all are there.
    pub(super) fn answer(&self, lane: usize) -> u32 {
        match self.call.operation {
            Operation::Synchronise => 0,
            Operation::Vote => lanes(self.call.mask).map(|lane| self.offers[lane].bits << lane).sum(),
            Operation::Exchange => self.offers[self.offers[lane].source as usize].bits,
        }
    }
}

/// One warp of the running block. The next block's takes its place: by then nobody waits, and its clock goes on.
pub(super) struct Warp {
    /// The lanes that exist.
    lanes: u32,
    pub(super) clock: WarpClock,
    meetings: Vec<Meeting>,
}

impl Warp {
    /// A warp with that many lanes.
    pub(super) fn new(lanes: u32) -> Self {
        let lanes = u32::MAX >> (u32::BITS - lanes.min(u32::BITS));
        Self { lanes, clock: WarpClock::START, meetings: Vec::new() }
    }

    /// A lane comes to an operation. Yields the meeting if that makes it complete.
    pub(super) fn arrive(&mut self, lane: u32, call: Call, offer: Offer) -> Result<Option<Meeting>, FaultKind> {
        self.check(lane, call, offer).map_err(|problem| FaultKind::Warp { mask: call.mask, problem })?;
        let open = self.meetings.iter().position(|meeting| meeting.call == call);
        let index = open.unwrap_or_else(|| {
            self.meetings.push(Meeting::new(call));
            self.meetings.len() - 1
        });
        let meeting = &mut self.meetings[index];
        meeting.arrived |= 1 << lane;
        meeting.offers[lane as usize] = offer;
        if meeting.missing() != 0 {
            return Ok(None);
        }
        if call.operation == Operation::Synchronise {
            self.clock.synchronise(call.mask);
        }
        Ok(Some(self.meetings.swap_remove(index)))
    }

    fn check(&self, lane: u32, call: Call, offer: Offer) -> Result<(), WarpProblem> {
        let absent = call.mask & !self.lanes;
        if call.mask >> lane & 1 == 0 {
            Err(WarpProblem::CallerNotInMask)
        } else if absent != 0 {
            Err(WarpProblem::NoSuchLanes { lanes: absent })
        } else if call.operation == Operation::Exchange && call.mask >> offer.source & 1 == 0 {
            Err(WarpProblem::SourceNotInMask { lane: offer.source })
        } else {
            Ok(())
        }
    }

    /// The first operation that waits for lanes.
    pub(super) fn waiting(&self) -> Option<&Meeting> {
        self.meetings.first()
    }
}
