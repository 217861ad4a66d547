//! A block while it runs: its threads, its shared memory, and what its threads wait for.

use core::panic::Location;
use core::ptr;
use std::collections::VecDeque;
use std::vec;
use std::vec::Vec;

use super::barriers::Barriers;
use super::copies::Copies;
use super::dim3::Dim3;
use super::fault::Thread;
use super::lanes::{Answer, Warp};
use super::launch::Launch;
use super::mbarriers::Mbarriers;
use super::order::LANES;
use super::shared::Shared;
use super::state::GiveWay;

#[derive(Clone, Copy)]
pub(super) enum Status {
    /// Running or about to.
    Ready,
    AtBarrier(&'static Location<'static>),
    AtNamedBarrier(&'static Location<'static>),
    AtMbarrier(&'static Location<'static>),
    AtWarp(&'static Location<'static>),
    AtCluster(&'static Location<'static>),
    Returned,
}

/// A thread of a block.
#[derive(Clone, Copy)]
pub(super) struct Member {
    pub(super) status: Status,
    pub(super) give_way: *const GiveWay,
    pub(super) steps: u64,
    /// What the last operation of the warp yielded.
    pub(super) answer: Answer,
}

impl Member {
    const NEW: Self = Self { status: Status::Ready, give_way: ptr::null(), steps: 0, answer: [0; 4] };
}

/// An access to the shared memory of a block by a thread of another one.
#[derive(Clone, Copy)]
pub(super) struct Visit {
    pub(super) visitor: Thread,
    pub(super) location: &'static Location<'static>,
}

/// A block. The next one takes its place when it has ended.
pub(super) struct Block {
    /// Its number in its cluster.
    pub(super) rank: u32,
    /// Its number in the grid.
    pub(super) number: u32,
    /// Its position in the grid.
    pub(super) idx: Dim3,
    pub(super) shared: Shared,
    pub(super) members: Vec<Member>,
    /// The asynchronous copies of each thread.
    pub(super) copies: Vec<Copies>,
    /// The threads that are ready to run.
    pub(super) ready: VecDeque<u32>,
    pub(super) unfinished: u32,
    pub(super) warps: Vec<Warp>,
    pub(super) barriers: Barriers,
    pub(super) mbarriers: Mbarriers,
    /// The last access from another block since the cluster's barrier opened: until it opens again, this one may not
    /// end.
    pub(super) visit: Option<Visit>,
}

impl Block {
    /// The place of the blocks of that rank, with that many threads.
    pub(super) fn new(launch: &Launch, rank: u32, threads: u32) -> Self {
        let warps = (0..threads).step_by(LANES).map(|first| Warp::new(threads - first));
        Self {
            rank,
            number: 0,
            idx: Dim3::ORIGIN,
            shared: Shared::new(launch.shared_bytes),
            members: vec![Member::NEW; threads as usize],
            copies: (0..threads).map(|_| Copies::default()).collect(),
            ready: VecDeque::new(),
            unfinished: 0,
            warps: warps.collect(),
            barriers: Barriers::NEW,
            mbarriers: Mbarriers::default(),
            visit: None,
        }
    }

    /// The block of that number and position begins.
    pub(super) fn begin(&mut self, number: u32, idx: Dim3, uses_barriers: bool) {
        self.number = number;
        self.idx = idx;
        self.shared.begin_block();
        self.members.fill(Member::NEW);
        self.copies.iter_mut().for_each(Copies::forget);
        self.unfinished = self.members.len() as u32;
        self.ready.extend(0..self.unfinished);
        if uses_barriers {
            self.barriers = Barriers::NEW;
            self.mbarriers = Mbarriers::default();
            self.forget_known();
        }
    }

    /// Whether all threads have returned.
    pub(super) fn has_ended(&self) -> bool {
        self.unfinished == 0
    }

    /// In a new epoch, nothing needs to be known about other warps.
    pub(super) fn forget_known(&mut self) {
        self.warps.iter_mut().for_each(|warp| warp.clock.forget_known());
    }

    /// The threads that wait so go on. Yields whether there were any.
    pub(super) fn release(&mut self, waits: impl Fn(Status) -> bool) -> bool {
        let ready = self.ready.len();
        for (member, thread) in self.members.iter_mut().zip(0..) {
            if waits(member.status) {
                member.status = Status::Ready;
                self.ready.push_back(thread);
            }
        }
        self.ready.len() > ready
    }
}
