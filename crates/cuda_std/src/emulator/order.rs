//! Which accesses are ordered: happens-before between the threads of a grid.
//!
//! Threads of different blocks are never ordered within a launch, but by the barrier of their [`Cluster`]. Within a
//! block, a barrier, the cluster's included, orders everything before it before everything after it, so accesses from
//! different *epochs* (the number of barriers passed) are ordered. Blocks of a cluster take turns only at its barrier,
//! so what they did before it is from earlier epochs, whichever block counted them. Within an epoch, lanes of a warp
//! are ordered by `sync_warp`, but not by shuffles and votes, to which CUDA gives no effect on memory. Each warp counts
//! its `sync_warp`s, and each lane knows up to which of them it has heard of each other lane: a vector clock of 32
//! entries.
//!
//! Threads of different warps are ordered, within an epoch, by named barriers and memory barriers alone. What a thread
//! knows of those of other warps is a second vector clock ([`Known`]), with an entry for each thread of the block. To a
//! named barrier a warp comes as a whole, which its count of synchronisations includes. Those that wait at one get to
//! know what all that came there knew and had done; those that merely arrive get to know nothing, not even their own
//! lanes of each other. To a memory barrier each thread comes by itself: those that wait there get to know what those
//! that came knew and had done. So that this can be told from what such a thread does afterwards, it goes on at a time
//! of its own, ahead of its warp's until the warp next synchronises.
//!
//! An asynchronous copy that its thread waits for is not an [`Actor`] of its own. It can be completed by nobody else,
//! so it is two deeds of that thread: at the start it reserves its target, which must be ordered after everything that
//! others did there, and when the thread waits, it writes. In between nobody may access the target, ordered or not.
//!
//! A copy that a memory barrier completes starts in the same way, but its write is the deed of another actor, whom
//! nobody knows of but through that barrier: a lane, one for each barrier, of a warp beyond those of threads. It writes
//! when the first thread sees the phase complete, so that an epoch in which nobody looked does not count.

use super::known::{Known, Lesson, Times};

pub(super) const LANES: usize = 32;

/// The blocks that run at the same time: neighbours by number.
pub(super) struct Cluster {
    /// How many they are.
    pub(super) blocks: u32,
    /// The epoch in which their barrier last opened, so that all of them had begun; zero before it has. What they did
    /// in earlier epochs happened before.
    pub(super) since: u32,
}

impl Cluster {
    /// Whether all of its blocks are known to have begun.
    pub(super) fn has_begun(&self) -> bool {
        self.since != 0
    }

    /// Whether blocks are of the same cluster, by their numbers from 1.
    fn joins(&self, one: u32, other: u32) -> bool {
        (one - 1) / self.blocks == (other - 1) / self.blocks
    }
}

/// Who makes an access, and what has happened before it.
pub(super) struct Actor<'a> {
    /// The block's number, counted from 1: 0 stands for nobody.
    pub(super) block: u32,
    pub(super) cluster: &'a Cluster,
    /// Counts the barriers that blocks have passed.
    pub(super) epoch: u32,
    /// The warps of a block, and the one whose lanes are copies.
    pub(super) warps: usize,
    pub(super) warp: u8,
    pub(super) lane: u8,
    /// Counts the synchronisations that warps in this place have passed, and the thread's own arrivals.
    pub(super) time: u32,
    /// For each lane of the warp, the number of the last synchronisation that this lane has heard of it by.
    pub(super) heard: &'a [u32; LANES],
    /// What the thread knows of other warps in this epoch; none where no named or memory barrier has been used in the
    /// launch.
    pub(super) known: Option<&'a Known>,
}

impl Actor<'_> {
    /// The thread's number in its block.
    pub(super) fn thread(&self) -> u32 {
        u32::from(self.warp) * LANES as u32 + u32::from(self.lane)
    }

    /// Whether another block, by its number from 1, is of the actor's cluster.
    pub(super) fn is_beside(&self, block: u32) -> bool {
        self.cluster.joins(self.block, block)
    }

    /// Whether everything that the blocks of the actor's cluster did in an epoch happened before.
    pub(super) fn has_met_since(&self, epoch: u32) -> bool {
        epoch < self.cluster.since
    }

    /// Whether everything that `lane` of the same warp did at `time` happened before.
    pub(super) fn has_heard(&self, lane: u32, time: u32) -> bool {
        self.heard[lane as usize] > time
    }

    /// Whether everything that any lane of a warp of the block did at `time`, in this epoch, happened before; if not,
    /// it may still have for [some](Self::knows).
    pub(super) fn knows_all(&self, warp: usize, time: u32) -> bool {
        let times =
            if warp == self.warp.into() { Some(self.heard) } else { self.known.map(|known| known.of_warp(warp)) };
        // All lanes are looked at, which takes less than to stop at one.
        times.is_some_and(|times| times.iter().fold(true, |all, &known| all & (known > time)))
    }

    /// Whether everything that a lane of any warp of the block did at `time`, in this epoch, happened before.
    pub(super) fn knows(&self, warp: usize, lane: usize, time: u32) -> bool {
        if warp == self.warp.into() {
            lane == self.lane.into() || self.has_heard(lane as u32, time)
        } else {
            self.known.is_some_and(|known| known.of_warp(warp)[lane] > time)
        }
    }
}

/// The clocks of one warp.
#[derive(Clone)]
pub(super) struct WarpClock {
    /// The time of each lane: one for all, but for those that have come to a memory barrier since.
    pub(super) times: Times,
    pub(super) heard: [Times; LANES],
    /// What each lane knows of other warps.
    pub(super) known: [Known; LANES],
}

impl WarpClock {
    pub(super) const START: Self =
        Self { times: [0; LANES], heard: [[0; LANES]; LANES], known: [const { Known::NOTHING }; LANES] };

    /// What the warp does from now on can be told from what it has done.
    pub(super) fn advance(&mut self) {
        let latest = self.times.into_iter().fold(0, u32::max);
        self.times = [latest + 1; LANES];
    }

    /// The lanes of `mask` synchronise: each now knows what any of them knew.
    pub(super) fn synchronise(&mut self, mask: u32) {
        self.advance();
        let mut joined = [0; LANES];
        for lane in lanes(mask) {
            join(&mut joined, &self.heard[lane]);
        }
        for lane in lanes(mask) {
            joined[lane] = self.times[lane];
        }
        for lane in lanes(mask) {
            self.heard[lane] = joined;
        }
        self.share(mask);
    }

    /// What any lane of `mask` knows of other warps, all of them know from now on.
    fn share(&mut self, mask: u32) {
        let all = self.known_to(mask);
        for lane in lanes(mask) {
            if !self.known[lane].is(&all) {
                self.known[lane] = all.clone();
            }
        }
    }

    /// What the lanes of `mask` know together.
    fn known_to(&self, mask: u32) -> Known {
        let mut all = Known::NOTHING;
        let mut last = &Known::NOTHING;
        for lane in lanes(mask) {
            if !self.known[lane].is(last) {
                last = &self.known[lane];
                all.learn(last);
            }
        }
        all
    }

    /// What is known after the warp, whose number that is, has come to a named barrier as a whole.
    pub(super) fn release(&self, warp: usize) -> Known {
        let mut all = self.known_to(u32::MAX);
        all.learn_of_warp(warp, &self.times);
        all
    }

    /// A lane comes to a memory barrier: adds what it knows and has done to what is known there.
    pub(super) fn release_lane(&mut self, warp: usize, lane: usize, known: &mut Known) {
        let mut own = self.heard[lane];
        self.times[lane] += 1;
        own[lane] = self.times[lane];
        known.learn(&self.known[lane]);
        known.learn_of_warp(warp, &own);
    }

    /// A lane has waited at a memory barrier.
    pub(super) fn learn_lane(&mut self, warp: usize, lane: usize, lesson: &mut Lesson) {
        lesson.teach(&mut self.known[lane]);
        join(&mut self.heard[lane], lesson.content().of_warp(warp));
    }

    /// All lanes, which have waited at a named barrier, get to know this.
    pub(super) fn learn(&mut self, lesson: &mut Lesson) {
        self.known.iter_mut().for_each(|known| lesson.teach(known));
    }

    /// In a new epoch, nothing needs to be known about other warps.
    pub(super) fn forget_known(&mut self) {
        self.known = [const { Known::NOTHING }; LANES];
    }
}

/// Adds to a vector clock what another one knows.
pub(super) fn join(known: &mut Times, others: &Times) {
    for (all, &one) in known.iter_mut().zip(others) {
        *all = one.max(*all);
    }
}

/// The numbers of the lanes of a mask.
pub(super) fn lanes(mut mask: u32) -> impl Iterator<Item = usize> {
    core::iter::from_fn(move || {
        let lane = mask.trailing_zeros();
        mask &= mask.checked_sub(1)?;
        Some(lane as usize)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn has_heard(clock: &WarpClock, reader: usize, lane: u32, time: u32) -> bool {
        let (heard, cluster) = (&clock.heard[reader], &Cluster { blocks: 1, since: 0 });
        let actor =
            Actor { block: 1, cluster, epoch: 0, warps: 2, warp: 0, lane: 0, time: clock.times[0], heard, known: None };
        actor.has_heard(lane, time)
    }

    #[test]
    fn only_the_lanes_of_the_mask_are_ordered() {
        let mut clock = WarpClock::START;
        clock.synchronise(0b011);
        assert!(has_heard(&clock, 1, 0, 0));
        assert!(!has_heard(&clock, 2, 0, 0));
        // What lane 0 does afterwards, nobody has heard of.
        assert!(!has_heard(&clock, 1, 0, clock.times[0]));
    }

    #[test]
    fn order_is_passed_on() {
        let mut clock = WarpClock::START;
        clock.synchronise(0b011);
        let later = clock.times[0];
        clock.synchronise(0b110);
        assert!(has_heard(&clock, 2, 0, 0));
        assert!(!has_heard(&clock, 2, 0, later));
    }

    #[test]
    fn a_lane_that_arrives_tells_what_it_has_heard_and_done() {
        let mut clock = WarpClock::START;
        clock.synchronise(0b011);
        let mut known = Known::NOTHING;
        clock.release_lane(3, 0, &mut known);
        let told = known.of_warp(3);
        // All that lane 0 did, what lane 1 did before it synchronised, and nothing of lane 2.
        assert_eq!((told[0], told[1], told[2]), (2, 1, 0));
        assert_eq!((clock.times[0], clock.times[1]), (2, 1));
    }
}
