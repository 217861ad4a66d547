//! The launch that is running on this host thread: where it is, and what its threads wait for.

use core::any::Any;
use core::cell::RefCell;
use core::iter;
use core::mem;
use core::panic::Location;
use std::borrow::ToOwned;
use std::boxed::Box;
use std::collections::VecDeque;
use std::string::String;
use std::vec::Vec;

use corosensei::Yielder;

use super::barriers::{Barriers, Gathering, Stuck};
use super::block::{Block, Status, Visit};
use super::copies::Pending;
use super::dim3::Dim3;
use super::fault::{ClusterProblem, Fault, FaultKind, Instead, MbarrierProblem, Thread, WarpProblem};
use super::known::Lesson;
use super::lanes::{Answer, Call, Meeting, Operation};
use super::launch::Launch;
use super::mbarriers::{self, Mbarriers, Waiter};
use super::memory::{Memory, Violation};
use super::order::{Actor, Cluster, LANES, lanes};
use super::random::Random;
use super::shadow::{Access, Other, Reason};
use super::shared::Shared;

std::thread_local! {
    static CURRENT: RefCell<Option<Box<State>>> = const { RefCell::new(None) };
}

/// Does something with the launch that is running on this host thread, if there is one. Never suspend in there.
#[inline]
pub(super) fn with<R>(action: impl FnOnce(&mut State) -> R) -> Option<R> {
    CURRENT.with_borrow_mut(|current| current.as_deref_mut().map(action))
}

pub(super) fn is_running() -> bool {
    CURRENT.with_borrow(Option::is_some)
}

pub(super) fn install(state: State) {
    CURRENT.set(Some(Box::new(state)));
}

pub(super) fn remove() -> Option<Box<State>> {
    CURRENT.take()
}

/// The launch is over, because of the fault that the state holds. Threads unwind with it.
pub(super) struct Stop;

/// How a running thread gives way to the others.
pub(super) type GiveWay = Yielder<(), ()>;

/// One in so many primitives gives way to other threads, where the order is random.
const PREEMPTION: usize = 8;

/// Whether the running thread goes on.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Onward {
    Goes,
    Waits,
}

pub(super) struct State {
    kernel: String,
    launch: Launch,
    pub(super) memory: Memory,
    /// The running block.
    block: Block,
    /// The other blocks of its cluster.
    parked: Vec<Block>,
    cluster: Cluster,
    /// The ranks of the blocks that have still to run before the cluster's barrier can open.
    turns: VecDeque<u32>,
    /// Barriers that blocks have passed so far.
    epoch: u32,
    /// The running thread's number in its block.
    current: u32,
    /// Where the threads of a block are, by number.
    positions: Vec<Dim3>,
    /// Whether the launch has used a named or a memory barrier: until then nobody keeps books for them.
    uses_barriers: bool,
    random: Option<Random>,
    pub(super) fault: Option<Box<Fault>>,
}

impl State {
    /// A launch with that many threads in each block.
    pub(super) fn new(kernel: &str, launch: &Launch, threads: u32, memory: Memory) -> Self {
        Self {
            kernel: kernel.to_owned(),
            launch: launch.clone(),
            memory,
            block: Block::new(launch, 0, threads),
            parked: (1..launch.cluster).map(|rank| Block::new(launch, rank, threads)).collect(),
            cluster: Cluster { blocks: launch.cluster, since: 0 },
            turns: VecDeque::new(),
            epoch: 0,
            current: 0,
            positions: (0..threads).map(|thread| launch.block.position(thread)).collect(),
            uses_barriers: false,
            random: launch.seed.map(Random::new),
            fault: None,
        }
    }

    /// The order in which so many clusters run, or blocks of one.
    pub(super) fn order(&mut self, count: u32) -> Vec<u32> {
        match &mut self.random {
            Some(random) => random.permutation(count),
            None => (0..count).collect(),
        }
    }

    /// The blocks of the cluster, in no order.
    fn blocks(&mut self) -> impl Iterator<Item = &mut Block> {
        iter::once(&mut self.block).chain(&mut self.parked)
    }

    /// The cluster of that number begins, and all its blocks do.
    pub(super) fn begin_cluster(&mut self, cluster: u32) {
        let (blocks, grid, uses_barriers) = (self.cluster.blocks, self.launch.grid, self.uses_barriers);
        for block in self.blocks() {
            let number = cluster * blocks + block.rank;
            block.begin(number, grid.position(number), uses_barriers);
        }
        self.cluster.since = 0;
        self.turns = self.order(blocks).into();
    }

    /// Chooses the block of the cluster that runs next, by its rank: none when all have ended.
    pub(super) fn next_block(&mut self) -> Option<u32> {
        if self.turns.is_empty() && self.open_cluster() {
            self.turns = self.order(self.cluster.blocks).into();
        }
        let rank = self.turns.pop_front()?;
        if let Some(next) = self.parked.iter_mut().find(|block| block.rank == rank) {
            mem::swap(&mut self.block, next);
        }
        Some(rank)
    }

    /// When each block of the cluster has ended or waits for the others: those that wait go on. Yields whether there
    /// were any.
    fn open_cluster(&mut self) -> bool {
        let mut opened = false;
        for block in self.blocks().filter(|block| !block.has_ended()) {
            opened |= block.release(|status| matches!(status, Status::AtCluster(_)));
            block.visit = None;
        }
        if opened {
            self.epoch += 1;
            self.cluster.since = self.epoch;
            if self.uses_barriers {
                self.blocks().for_each(Block::forget_known);
            }
        }
        opened
    }

    /// Chooses the thread that runs next.
    pub(super) fn next(&mut self) -> Option<u32> {
        let ready = &mut self.block.ready;
        let next = match &mut self.random {
            Some(random) if !ready.is_empty() => ready.swap_remove_back(random.below(ready.len())),
            _ => ready.pop_front(),
        };
        self.current = next?;
        next
    }

    /// The running thread has started.
    pub(super) fn started(&mut self, give_way: &GiveWay) {
        self.block.members[self.current as usize].give_way = give_way;
    }

    /// The running thread has returned.
    pub(super) fn returned(&mut self) {
        self.block.members[self.current as usize].status = Status::Returned;
        self.block.unfinished -= 1;
    }

    /// The running thread has panicked, or stopped because of a fault that is known already.
    pub(super) fn panicked(&mut self, payload: &(dyn Any + Send)) {
        if payload.is::<Stop>() {
            return;
        }
        let text = payload.downcast_ref::<&str>().copied();
        let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
        let message = text.unwrap_or("with a value that is no text").to_owned();
        self.record(self.current, None, FaultKind::Panic { message });
    }

    pub(super) fn thread_idx(&self) -> Dim3 {
        self.positions[self.current as usize]
    }

    pub(super) fn block_idx(&self) -> Dim3 {
        self.block.idx
    }

    pub(super) fn block_dim(&self) -> Dim3 {
        self.launch.block
    }

    pub(super) fn grid_dim(&self) -> Dim3 {
        self.launch.grid
    }

    pub(super) fn lane(&self) -> u32 {
        self.current % LANES as u32
    }

    /// The way for the running thread to give way.
    pub(super) fn give_way(&self) -> *const GiveWay {
        self.block.members[self.current as usize].give_way
    }

    /// The running thread does something that may be a mistake.
    #[inline]
    pub(super) fn perform<R>(
        &mut self,
        location: &'static Location<'static>,
        action: impl FnOnce(&mut Self) -> Result<R, Violation>,
    ) -> Result<R, Stop> {
        self.count_step().and_then(|()| action(self)).map_err(|violation| {
            let kind = self.explain(violation);
            self.record(self.current, Some(location), kind)
        })
    }

    fn count_step(&mut self) -> Result<(), Violation> {
        let steps = &mut self.block.members[self.current as usize].steps;
        *steps += 1;
        let limit = self.launch.step_limit;
        if *steps > limit { Err(FaultKind::StepLimit { steps: limit }.into()) } else { Ok(()) }
    }

    /// Whether the running thread, which could go on, is to let another one run first.
    pub(super) fn preempt(&mut self) -> bool {
        let preempted = self.random.as_mut().is_some_and(|random| random.below(PREEMPTION) == 0);
        if preempted {
            self.block.ready.push_back(self.current);
        }
        preempted
    }

    /// The running thread comes to the barrier of its block.
    pub(super) fn wait_at_barrier(&mut self, location: &'static Location<'static>) {
        self.block.members[self.current as usize].status = Status::AtBarrier(location);
    }

    /// The running thread comes to the barrier of its cluster.
    pub(super) fn wait_at_cluster(&mut self, location: &'static Location<'static>) {
        self.block.members[self.current as usize].status = Status::AtCluster(location);
    }

    /// The running thread comes to an operation of its warp. Yields the outcome if it is the last to come.
    pub(super) fn wait_at_warp<const WORDS: usize>(
        &mut self,
        call: Call,
        offer: [u32; WORDS],
    ) -> Result<Option<Answer>, FaultKind> {
        let (warp, lane) = (self.current as usize / LANES, self.lane());
        let Some(meeting) = self.block.warps[warp].arrive(lane, call, offer)? else {
            self.block.members[self.current as usize].status = Status::AtWarp(call.location);
            return Ok(None);
        };
        let answers = meeting.answers();
        self.release_lanes(warp, meeting.call.mask, &answers);
        self.block.warps[warp].end(meeting);
        Ok(Some(answers[lane as usize]))
    }

    /// The running thread comes to a named barrier: with the last lane, its warp does.
    pub(super) fn come_to_named(
        &mut self,
        operation: Operation,
        location: &'static Location<'static>,
    ) -> Result<Onward, FaultKind> {
        let (barrier, threads, waits) = match operation {
            Operation::SyncNamed { barrier, threads } => (barrier, threads, Some(location)),
            Operation::ArriveNamed { barrier, threads } => (barrier, threads, None),
            _ => return Ok(Onward::Goes),
        };
        let fault = |problem| FaultKind::NamedBarrier { barrier, problem };
        Barriers::check(barrier, threads).map_err(fault)?;
        self.uses_barriers = true;
        let (warp, lane) = (self.current as usize / LANES, self.lane());
        let call = Call { operation, mask: self.block.warps[warp].lanes, location };
        let Some(meeting) = self.block.warps[warp].arrive(lane, call, [])? else {
            self.block.members[self.current as usize].status = Status::AtWarp(location);
            return Ok(Onward::Waits);
        };
        let clock = &self.block.warps[warp].clock;
        let opened = self.block.barriers.come(barrier, threads, warp, clock, waits).map_err(fault)?;
        let stays = waits.is_some() && opened.is_none();
        if stays {
            for lane in lanes(call.mask) {
                self.block.members[warp * LANES + lane].status = Status::AtNamedBarrier(location);
            }
        } else {
            self.release_lanes(warp, call.mask, &meeting.answers());
        }
        self.block.warps[warp].end(meeting);
        if let Some(gathering) = opened {
            self.open_named(&gathering);
        }
        Ok(if stays { Onward::Waits } else { Onward::Goes })
    }

    /// Those that wait at a named barrier go on.
    fn open_named(&mut self, gathering: &Gathering) {
        let mut lesson = Lesson::new(gathering.known.clone());
        for warp in lanes(gathering.waiting) {
            self.block.warps[warp].clock.learn(&mut lesson);
            for lane in lanes(self.block.warps[warp].lanes) {
                let thread = warp * LANES + lane;
                let member = &mut self.block.members[thread];
                if matches!(member.status, Status::AtNamedBarrier(_)) {
                    member.status = Status::Ready;
                    self.block.ready.push_back(thread as u32);
                }
            }
        }
    }

    /// The lanes of a warp that have met go on, each with its answer.
    fn release_lanes(&mut self, warp: usize, mask: u32, answers: &[Answer; LANES]) {
        for lane in lanes(mask) {
            let thread = warp * LANES + lane;
            if thread as u32 != self.current {
                let member = &mut self.block.members[thread];
                member.status = Status::Ready;
                member.answer = answers[lane];
                self.block.ready.push_back(thread as u32);
            }
        }
    }

    /// What the operation of the warp yielded that the running thread waited for.
    pub(super) fn answer(&self) -> Answer {
        self.block.members[self.current as usize].answer
    }

    /// The address of a static array, which exists from now on.
    pub(super) fn shared_array(&mut self, name: &'static str, bytes: usize, align: usize) -> Result<u32, FaultKind> {
        if let Some(address) = self.block.shared.known_array(name) {
            return Ok(address);
        }
        // It has the same address in all blocks.
        self.parked.iter_mut().try_for_each(|block| block.shared.place_array(name, bytes, align).map(drop))?;
        self.block.shared.place_array(name, bytes, align)
    }

    /// The memories, and the running thread as the one who accesses them.
    #[inline]
    pub(super) fn memories(&mut self) -> (&mut Memory, &mut Shared, Actor<'_>) {
        let (memory, shared, _, actor) = self.all_memories();
        (memory, shared, actor)
    }

    /// [`memories`](Self::memories), with the other blocks of the cluster.
    #[inline]
    fn all_memories(&mut self) -> (&mut Memory, &mut Shared, &mut [Block], Actor<'_>) {
        let (warp, lane) = (self.current as usize / LANES, self.current as usize % LANES);
        let clock = &self.block.warps[warp].clock;
        let actor = Actor {
            block: self.block.number + 1,
            cluster: &self.cluster,
            epoch: self.epoch,
            warps: self.block.warps.len() + 1,
            warp: warp as u8,
            lane: lane as u8,
            time: clock.times[lane],
            heard: &clock.heard[lane],
            known: self.uses_barriers.then_some(&clock.known[lane]),
        };
        (&mut self.memory, &mut self.block.shared, &mut self.parked, actor)
    }

    /// Checks an access to the shared memory of the cluster's block of that rank, and yields the bytes to make it with.
    pub(super) fn access_in_cluster(
        &mut self,
        access: Access,
        address: u32,
        bytes: usize,
        rank: u32,
        location: &'static Location<'static>,
    ) -> Result<&mut [u8], Violation> {
        if rank == self.block.rank {
            let (_, shared, actor) = self.memories();
            return shared.access(access, &actor, address, bytes);
        }
        let visit = Visit { visitor: self.thread(self.current), location };
        let (_, _, parked, actor) = self.all_memories();
        let fault = |problem| FaultKind::Cluster { rank, problem };
        let absent = || fault(ClusterProblem::NoSuchBlock { blocks: actor.cluster.blocks });
        let there = parked.iter_mut().find(|block| block.rank == rank).ok_or_else(absent)?;
        if !actor.cluster.has_begun() {
            return Err(fault(ClusterProblem::NotBegun).into());
        }
        if there.has_ended() {
            return Err(fault(ClusterProblem::Ended).into());
        }
        there.visit = Some(visit);
        there.shared.access(access, &actor, address, bytes)
    }

    /// The running thread starts a copy of these words to shared memory.
    pub(super) fn start_copy(&mut self, target: u32, words: &[u32]) -> Result<(), Violation> {
        let (_, shared, actor) = self.memories();
        let target = shared.reserve(&actor, target, size_of_val(words))?;
        self.block.copies[self.current as usize].start(target, words);
        Ok(())
    }

    /// The running thread closes a group of copies.
    pub(super) fn commit_copies(&mut self) {
        self.block.copies[self.current as usize].commit();
    }

    /// The running thread's groups of copies are complete, all but the `pending` newest ones.
    pub(super) fn complete_copies(&mut self, pending: u32) {
        let current = self.current as usize;
        let mut copies = mem::take(&mut self.block.copies[current]);
        let (_, shared, actor) = self.memories();
        copies.complete(pending, |target, words| shared.fill(&actor, target, bytemuck::cast_slice(words)));
        self.block.copies[current] = copies;
    }

    /// The running thread makes a memory barrier.
    pub(super) fn init_mbarrier(&mut self, address: u32, arrivals: u32) -> Result<(), Violation> {
        self.uses_barriers = true;
        let (_, shared, actor) = self.memories();
        shared.make_barrier(&actor, address)?;
        self.block.mbarriers.make(address, arrivals).map_err(|problem| self.mbarrier_fault(address, problem))
    }

    /// The running thread comes to a memory barrier, and announces so many bytes.
    pub(super) fn arrive_mbarrier(&mut self, address: u32, bytes: u32) -> Result<(), Violation> {
        let number = self.mbarrier(address)?;
        let (warp, lane) = (self.current as usize / LANES, self.current as usize % LANES);
        let barrier = self.block.mbarriers.get(number);
        self.block.warps[warp].clock.release_lane(warp, lane, &mut barrier.arrived);
        barrier.arrive(bytes).map_err(|problem| self.mbarrier_fault(address, problem))?;
        self.turn(number);
        Ok(())
    }

    /// The running thread's copies come to a memory barrier. What else the thread did does not.
    pub(super) fn arrive_mbarrier_after_copies(&mut self, address: u32) -> Result<(), Violation> {
        let number = self.mbarrier(address)?;
        let barrier = self.block.mbarriers.get(number);
        barrier.take(self.current, self.block.copies[self.current as usize].hand_over());
        barrier.arrive(0).map_err(|problem| self.mbarrier_fault(address, problem))?;
        self.turn(number);
        Ok(())
    }

    /// The running thread starts one of the copies that a bulk copy consists of, for the memory barrier of that number.
    pub(super) fn start_bulk_copy(&mut self, number: usize, target: u32, words: &[u32]) -> Result<(), Violation> {
        let (_, shared, actor) = self.memories();
        let target = shared.reserve(&actor, target, size_of_val(words))?;
        self.block.mbarriers.get(number).take(self.current, [Pending::new(target, words)]);
        Ok(())
    }

    /// A bulk copy of the running thread has brought so many bytes, for what a memory barrier counts: nobody may touch
    /// them before somebody has seen the phase complete.
    pub(super) fn finish_bulk_copy(&mut self, number: usize, bytes: u32) -> Result<(), Violation> {
        let barrier = self.block.mbarriers.get(number);
        let address = barrier.address;
        barrier.count_bytes(-i64::from(bytes)).map_err(|problem| self.mbarrier_fault(address, problem))?;
        self.turn(number);
        Ok(())
    }

    /// The running thread waits at a memory barrier for the phase of that parity.
    pub(super) fn wait_at_mbarrier(
        &mut self,
        address: u32,
        parity: u32,
        location: &'static Location<'static>,
    ) -> Result<Onward, Violation> {
        let number = self.mbarrier(address)?;
        if parity > 1 {
            return Err(self.mbarrier_fault(address, MbarrierProblem::NoSuchParity { parity }));
        }
        let thread = self.current;
        let barrier = self.block.mbarriers.get(number);
        if !barrier.is_complete(parity) {
            barrier.wait(Waiter { thread, location });
            self.block.members[thread as usize].status = Status::AtMbarrier(location);
            return Ok(Onward::Waits);
        }
        self.see_complete(number, thread);
        Ok(Onward::Goes)
    }

    /// The number of the memory barrier at an address, which the running thread is about to use.
    pub(super) fn mbarrier(&mut self, address: u32) -> Result<usize, Violation> {
        let number = self.block.mbarriers.number(address).map_err(|problem| self.mbarrier_fault(address, problem))?;
        let (_, shared, actor) = self.memories();
        shared.use_barrier(&actor, address)?;
        Ok(number)
    }

    /// What is wrong with a memory barrier, or with the place where it is to be.
    #[cold]
    fn mbarrier_fault(&self, address: u32, problem: MbarrierProblem) -> Violation {
        match self.block.shared.barrier_place(address) {
            Ok(place) => FaultKind::Mbarrier { place, problem }.into(),
            Err(violation) => violation,
        }
    }

    /// If the phase of a memory barrier is complete, those that wait for it go on.
    fn turn(&mut self, number: usize) {
        let (copies, lane) = (self.block.warps.len(), Mbarriers::lane(number));
        let Some(waiters) = self.block.mbarriers.get(number).turn(copies, lane) else { return };
        for Waiter { thread, .. } in waiters {
            self.block.members[thread as usize].status = Status::Ready;
            self.block.ready.push_back(thread);
            self.see_complete(number, thread);
        }
    }

    /// A thread sees that the last phase of a memory barrier is complete. If it is the first to see so, the copies are
    /// made: by an actor beyond all threads, whom those know of that have waited.
    fn see_complete(&mut self, number: usize, thread: u32) {
        let (warp, lane) = (thread as usize / LANES, thread as usize % LANES);
        let copies = self.block.warps.len();
        let barrier = self.block.mbarriers.get(number);
        if let Some((time, landed)) = barrier.land() {
            let known = barrier.lesson.content();
            let heard = known.of_warp(copies);
            let lane = Mbarriers::lane(number) as u8;
            let actor = Actor {
                block: self.block.number + 1,
                cluster: &self.cluster,
                epoch: self.epoch,
                warps: copies + 1,
                warp: copies as u8,
                lane,
                time,
                heard,
                known: Some(known),
            };
            for copy in &landed {
                self.block.shared.fill(&actor, copy.target(), bytemuck::cast_slice(copy.words()));
            }
            barrier.reuse(landed);
        }
        self.block.warps[warp].clock.learn_lane(warp, lane, &mut barrier.lesson);
    }

    /// When no thread of the block is ready: opens the barrier that all wait at. Yields whether the block's turn is
    /// over, because it has ended or waits for the others of its cluster.
    pub(super) fn settle(&mut self) -> Result<bool, Stop> {
        if self.block.has_ended() {
            self.check_visit()?;
            return Ok(true);
        }
        self.check_warps()?;
        self.check_mbarriers()?;
        self.check_named_barriers()?;
        self.check_barrier()?;
        let opened = self.block.release(|status| matches!(status, Status::AtBarrier(_)));
        if opened {
            self.epoch += 1;
            if self.uses_barriers {
                self.block.forget_known();
            }
        }
        Ok(!opened)
    }

    /// The block has ended: nothing orders that after an access from another block since the cluster's barrier opened.
    fn check_visit(&mut self) -> Result<(), Stop> {
        let Some(Visit { visitor, location }) = self.block.visit else { return Ok(()) };
        let kind = FaultKind::Cluster { rank: self.block.rank, problem: ClusterProblem::Ended };
        Err(self.record_of(visitor, Some(location), kind))
    }

    /// With no thread ready, an operation of a warp that still waits for lanes waits for ever: if these wait at a
    /// memory barrier, because of that.
    fn check_warps(&mut self) -> Result<(), Stop> {
        let at_mbarrier = |thread: usize| matches!(self.block.members[thread].status, Status::AtMbarrier(_));
        let is_cause =
            |warp: usize, meeting: &Meeting| !lanes(meeting.missing()).any(|lane| at_mbarrier(warp * LANES + lane));
        let mut stuck = self.block.warps.iter().enumerate().flat_map(|(warp, state)| {
            let waiting = state.waiting().iter();
            waiting.map(move |meeting| (warp, meeting))
        });
        let Some((warp, meeting)) = stuck.find(|&(warp, meeting)| is_cause(warp, meeting)) else { return Ok(()) };
        let first = (warp * LANES) as u32;
        let (Call { mask, location, .. }, lanes) = (meeting.call, meeting.missing());
        let waiting = first + meeting.first_arrived();
        let instead = self.instead(first + lanes.trailing_zeros());
        let kind = FaultKind::Warp { mask, problem: WarpProblem::MissingLanes { lanes, instead } };
        Err(self.record(waiting, Some(location), kind))
    }

    /// With no thread ready, the phase of a memory barrier that somebody waits for is never complete.
    fn check_mbarriers(&mut self) -> Result<(), Stop> {
        let Some(mbarriers::Stuck { address, thread, location, problem }) = self.block.mbarriers.stuck() else {
            return Ok(());
        };
        let kind = self.explain(self.mbarrier_fault(address, problem));
        Err(self.record(thread, Some(location), kind))
    }

    /// With no thread ready, a named barrier that somebody waits at stays closed for ever.
    fn check_named_barriers(&mut self) -> Result<(), Stop> {
        let Some(Stuck { barrier, warp, location, problem }) = self.block.barriers.stuck() else { return Ok(()) };
        Err(self.record(warp * LANES as u32, location, FaultKind::NamedBarrier { barrier, problem }))
    }

    /// With no thread ready and none at an operation of its warp or another barrier of the block, all that have not
    /// returned wait at that of the whole block, or all at that of the cluster.
    fn check_barrier(&mut self) -> Result<(), Stop> {
        let statuses = || self.block.members.iter().map(|member| member.status).enumerate();
        let waiting = statuses().find_map(|(thread, status)| match status {
            Status::AtBarrier(location) => Some((thread as u32, location)),
            _ => None,
        });
        let Some((waiting, here)) = waiting else { return Ok(()) };
        let absent = statuses().find(|(_, status)| match status {
            Status::AtBarrier(location) => *location != here,
            Status::Returned => !self.launch.barriers_without_returned,
            Status::AtNamedBarrier(_)
            | Status::AtMbarrier(_)
            | Status::AtWarp(_)
            | Status::AtCluster(_)
            | Status::Ready => true,
        });
        let Some((absent, _)) = absent else { return Ok(()) };
        let kind = FaultKind::Barrier { other: self.positions[absent], instead: self.instead(absent as u32) };
        Err(self.record(waiting, Some(here), kind))
    }

    /// What a thread does that another one waits for in vain.
    fn instead(&self, thread: u32) -> Instead {
        match self.block.members[thread as usize].status {
            Status::AtBarrier(location)
            | Status::AtNamedBarrier(location)
            | Status::AtMbarrier(location)
            | Status::AtWarp(location)
            | Status::AtCluster(location) => Instead::Waits(location),
            Status::Returned | Status::Ready => Instead::Returned,
        }
    }

    fn explain(&self, violation: Violation) -> FaultKind {
        let (access, place, objection) = match violation {
            Violation::Fault(kind) => return kind,
            Violation::Objection { access, place, objection } => (access, place, objection),
        };
        match objection.reason {
            Reason::Uninitialised => FaultKind::Uninitialised { access, place },
            Reason::NotConstant => FaultKind::NotConstant { access, place },
            Reason::Pending { thread } => {
                FaultKind::CopyPending { access, copying_thread: self.positions[thread as usize], place }
            }
            Reason::Barrier => FaultKind::Mbarrier { place, problem: MbarrierProblem::Accessed { access } },
            Reason::Race { earlier, other } => {
                let (other_block, other_thread) = match other {
                    Other::Thread(thread) => (self.block.idx, Some(self.positions[self.cause(thread)])),
                    Other::Block(block) => (self.launch.grid.position(block), None),
                };
                FaultKind::Race { access, earlier, other_thread, other_block, place }
            }
        }
    }

    /// The thread that stands for an actor: for the copies of a memory barrier, one that has started some.
    fn cause(&self, thread: u32) -> usize {
        let lane = (thread as usize).checked_sub(self.block.warps.len() * LANES);
        lane.and_then(|lane| self.block.mbarriers.copier(lane)).unwrap_or(thread) as usize
    }

    /// The thread of that number of the running block.
    fn thread(&self, thread: u32) -> Thread {
        Thread { block: self.block.idx, thread: self.positions[thread as usize] }
    }

    /// Takes down the fault of a thread of the running block, which ends the launch.
    fn record(&mut self, thread: u32, location: Option<&'static Location<'static>>, kind: FaultKind) -> Stop {
        self.record_of(self.thread(thread), location, kind)
    }

    /// Takes down the fault that ends the launch.
    fn record_of(&mut self, thread: Thread, location: Option<&'static Location<'static>>, kind: FaultKind) -> Stop {
        let fault = Fault { kernel: self.kernel.clone(), thread: Some(thread), location, kind };
        self.fault.get_or_insert(Box::new(fault));
        Stop
    }
}
