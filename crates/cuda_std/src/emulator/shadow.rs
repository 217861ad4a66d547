//! What is known about each word of memory: whether it was written, and by whom it was accessed.
//!
//! Of writes, the latest is enough: all that was before it happened before it, which would have been objected to
//! otherwise, so whoever comes after the latest write comes after all of that. Readers, and atomic writers, have no
//! order among each other. A [`Group`] of them remembers the latest accesses of one warp; those of each other warp of
//! the block, its *crowd*, are kept apart ([`Crowds`]), and of other blocks that there were any.
//!
//! This misses a race only where lanes of one warp access a word after different synchronisations, or different numbers
//! of arrivals at memory barriers, that do not order them, or where accesses are to different bytes of a word; it never
//! reports one that is none.

use std::ops::Range;
use std::vec;
use std::vec::Vec;

use super::order::{Actor, LANES, lanes};

const WORD: usize = 4;

/// What an access does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// A load.
    Read,
    /// A load through the read-only cache.
    ReadOnlyLoad,
    /// A store.
    Write,
    /// An atomic read-modify-write.
    Atomic,
}

impl Access {
    pub(super) fn writes(self) -> bool {
        matches!(self, Self::Write | Self::Atomic)
    }

    fn reads(self) -> bool {
        !matches!(self, Self::Write)
    }
}

/// The other side of a race.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Other {
    /// A thread of the same block, by number.
    Thread(u32),
    /// Some thread of the block of that number.
    Block(u32),
}

/// Why an access is wrong, and at which byte.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Objection {
    pub(super) offset: usize,
    pub(super) reason: Reason,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Reason {
    /// Nobody has written what is read.
    Uninitialised,
    /// Unordered with an earlier access.
    Race { earlier: Access, other: Other },
    /// Both written, and loaded through the read-only cache, in one launch.
    NotConstant,
    /// A copy that this thread of the same block has started is to write it.
    Pending { thread: u32 },
    /// It is part of a memory barrier.
    Barrier,
}

/// The latest write of a word. All zero: there was none.
#[derive(Clone, Copy, Default)]
struct LatestWrite {
    /// The block's number from 1.
    block: u32,
    epoch: u32,
    time: u32,
    warp: u8,
    lane: u8,
    /// The bytes of the word, one bit each.
    bytes: u8,
}

impl LatestWrite {
    fn new(actor: &Actor<'_>, bytes: u8) -> Self {
        let Actor { block, epoch, time, warp, lane, .. } = *actor;
        Self { block, epoch, time, warp, lane, bytes }
    }

    /// Who made it, if it is not ordered before the actor's access to these bytes.
    #[inline]
    fn unordered(&self, actor: &Actor<'_>, bytes: u8) -> Option<Other> {
        if self.block == 0 || self.bytes & bytes == 0 {
            return None;
        }
        if self.block != actor.block {
            let met = actor.is_beside(self.block) && actor.has_met_since(self.epoch);
            return (!met).then_some(Other::Block(self.block - 1));
        }
        let (warp, lane) = (self.warp.into(), self.lane.into());
        let ordered = self.epoch != actor.epoch || actor.knows(warp, lane, self.time);
        (!ordered).then_some(Other::Thread((warp * LANES + lane) as u32))
    }
}

/// Accesses of one kind, which need no order, to one word. All zero: there were none.
#[derive(Clone, Copy, Default)]
struct Group {
    /// The block's number from 1.
    block: u32,
    /// An earlier block that had accesses, its number from 1. In a cluster, it had them since the cluster's barrier
    /// opened.
    earlier_block: u32,
    epoch: u32,
    latest: Latest,
    /// The number of the group's crowd from 1, or 0 if it never had one.
    crowd: u32,
    warp: u8,
    /// The bytes of the word, one bit each.
    bytes: u8,
    /// Whether other warps had accesses in the same epoch. They are in the crowd.
    has_others: bool,
}

/// The latest accesses of one warp: all at the same time of it. No lanes: there were none.
#[derive(Clone, Copy, Default)]
struct Latest {
    time: u32,
    lanes: u32,
}

impl Latest {
    /// A thread of the warp of that number, among those that made these accesses, that nothing orders before the actor.
    #[inline]
    fn unknown(&self, warp: usize, actor: &Actor<'_>) -> Option<u32> {
        // A single lane is asked for sooner than all.
        if !self.lanes.is_power_of_two() && actor.knows_all(warp, self.time) {
            return None;
        }
        let lane = lanes(self.lanes).find(|&lane| !actor.knows(warp, lane, self.time))?;
        Some((warp * LANES + lane) as u32)
    }
}

/// The crowds of a memory: for each its latest accesses by warp, one crowd behind the other.
#[derive(Default)]
struct Crowds {
    /// The warps of a block; 0 before there is the first crowd.
    warps: usize,
    latest: Vec<Latest>,
}

impl Crowds {
    /// The number of a crowd without accesses: a new one for 0.
    fn empty(&mut self, number: u32, warps: usize) -> u32 {
        if number != 0 {
            self.of_mut(number).fill(Latest::default());
            return number;
        }
        self.warps = warps;
        self.latest.resize(self.latest.len() + warps, Latest::default());
        (self.latest.len() / warps) as u32
    }

    fn of(&self, number: u32) -> &[Latest] {
        &self.latest[self.range(number)]
    }

    fn of_mut(&mut self, number: u32) -> &mut [Latest] {
        let range = self.range(number);
        &mut self.latest[range]
    }

    /// Where the accesses of a crowd are.
    fn range(&self, number: u32) -> Range<usize> {
        let end = number as usize * self.warps;
        end - self.warps..end
    }

    /// A thread that had accesses in a crowd, and that nothing orders before the actor.
    fn unknown(&self, number: u32, actor: &Actor<'_>) -> Option<u32> {
        let mut warps = self.of(number).iter().enumerate().filter(|(_, latest)| latest.lanes != 0);
        warps.find_map(|(warp, latest)| latest.unknown(warp, actor))
    }

    fn clear(&mut self) {
        self.latest.clear();
    }
}

impl Group {
    /// An access of the group to these bytes that is not ordered before the actor's.
    #[inline]
    fn unordered(&self, actor: &Actor<'_>, bytes: u8, crowds: &Crowds) -> Option<Other> {
        if self.block == 0 || self.bytes & bytes == 0 {
            None
        } else if self.has_other_blocks(actor)
            && let Some(block) = self.unordered_block(actor, [self.earlier_block, self.block])
        {
            Some(Other::Block(block - 1))
        } else if self.block != actor.block || self.epoch != actor.epoch {
            None
        } else {
            let others = || self.has_others.then(|| crowds.unknown(self.crowd, actor)).flatten();
            self.latest.unknown(self.warp.into(), actor).or_else(others).map(Other::Thread)
        }
    }

    /// Whether some of the accesses, if there are any, were of other blocks than the actor's.
    fn has_other_blocks(&self, actor: &Actor<'_>) -> bool {
        self.block != actor.block || self.earlier_block != 0
    }

    /// The first of these blocks, which are the group's, that nothing orders before the actor. One of another cluster
    /// comes first: it will never be ordered.
    #[cold]
    fn unordered_block(&self, actor: &Actor<'_>, blocks: [u32; 2]) -> Option<u32> {
        let others = || blocks.into_iter().filter(|&block| block != 0 && block != actor.block);
        let first = others().next()?;
        let outside = others().find(|&block| !actor.is_beside(block));
        outside.or_else(|| (!actor.has_met_since(self.epoch)).then_some(first))
    }

    #[inline]
    fn record(&mut self, actor: &Actor<'_>, bytes: u8, crowds: &mut Crowds) {
        let same_epoch = self.block == actor.block && self.epoch == actor.epoch;
        let same_warp = same_epoch && self.warp == actor.warp;
        if same_warp && self.latest.time == actor.time && self.bytes == bytes {
            self.latest.lanes |= 1 << actor.lane;
            return;
        }
        // Others are remembered as long as they accessed the same bytes, since there is one mask for all.
        if self.bytes != bytes {
            self.forget();
        }
        let has_earlier_blocks = self.block != 0 && self.has_other_blocks(actor);
        let earlier = has_earlier_blocks.then(|| self.unordered_block(actor, [self.block, self.earlier_block]));
        self.earlier_block = earlier.flatten().unwrap_or(0);
        if self.block == 0 || !same_epoch {
            self.has_others = false;
        } else if !same_warp {
            self.join_crowd(crowds, actor.warps);
        }
        (self.block, self.epoch, self.warp, self.bytes) = (actor.block, actor.epoch, actor.warp, bytes);
        self.latest = Latest { time: actor.time, lanes: 1 << actor.lane };
    }

    /// Takes down the group's latest accesses in its crowd.
    fn join_crowd(&mut self, crowds: &mut Crowds, warps: usize) {
        if !self.has_others {
            self.crowd = crowds.empty(self.crowd, warps);
        }
        crowds.of_mut(self.crowd)[usize::from(self.warp)] = self.latest;
        self.has_others = true;
    }

    /// There were no accesses; the place of a crowd is kept.
    fn forget(&mut self) {
        *self = Self { crowd: self.crowd, ..Self::default() };
    }
}

/// The word is part of a memory barrier, which nothing but its own operations may access.
const BARRIER: u16 = u16::MAX;

/// One word: its content, and the accesses to it in the running launch. What an access looks at is one line of the
/// cache.
#[derive(Clone, Copy, Default)]
#[repr(align(64))]
struct Cell {
    reads: Group,
    write: LatestWrite,
    /// The life of the memory that all of this is about.
    life: u32,
    /// Whether some load assumed that the word never changes.
    assumed_constant: bool,
    /// Whether there were atomic accesses, which are kept apart.
    has_atomics: bool,
    /// One bit per byte that was written.
    written: u8,
    /// The thread that has started a copy to the word that has not been waited for, its number from 1: until then the
    /// word is the copy's, and nobody may access it. Or [`BARRIER`].
    reserved: u16,
}

const _: () = assert!(size_of::<Cell>() == 64);

impl Cell {
    /// Whether nothing is wrong with an access but what others did.
    #[inline]
    fn allows(&self, access: Access, bytes: u8) -> Result<(), Reason> {
        match self.reserved {
            0 => {}
            // What else is atomic is not in shared memory.
            BARRIER if access == Access::Atomic => {}
            BARRIER => return Err(Reason::Barrier),
            thread => return Err(Reason::Pending { thread: u32::from(thread) - 1 }),
        }
        if access.reads() && self.written & bytes != bytes {
            return Err(Reason::Uninitialised);
        }
        let changed = self.write.block != 0 || self.has_atomics;
        let assumes = access == Access::ReadOnlyLoad;
        if (assumes && changed) || (access.writes() && self.assumed_constant) {
            return Err(Reason::NotConstant);
        }
        Ok(())
    }
}

/// What is known about a piece of memory.
pub(super) struct Shadow {
    cells: Vec<Cell>,
    /// The atomic accesses to each word that has any. Empty until one has.
    atomics: Vec<Group>,
    crowds: Crowds,
    /// Counts how often the content was lost. Cells of an earlier life are void: that is cheaper than clearing them.
    life: u32,
}

impl Shadow {
    pub(super) fn new(bytes: usize, initialised: bool) -> Self {
        let written = if initialised { ALL_BYTES } else { 0 };
        let cell = Cell { written, ..Cell::default() };
        Self { cells: vec![cell; bytes.div_ceil(WORD)], atomics: Vec::new(), crowds: Crowds::default(), life: 0 }
    }

    /// Forgets who accessed the memory, because everybody has finished.
    pub(super) fn forget_accesses(&mut self) {
        for cell in &mut self.cells {
            *cell = Cell { written: cell.written, life: cell.life, ..Cell::default() };
        }
        self.forget_crowds();
    }

    /// Forgets the content too, as at the start of a block whose own memory this is.
    pub(super) fn forget(&mut self) {
        self.life += 1;
        self.forget_crowds();
    }

    /// Nothing refers to what is not in the cells any more.
    fn forget_crowds(&mut self) {
        self.atomics.clear();
        self.crowds.clear();
    }

    /// The first byte that was never written.
    pub(super) fn first_unwritten(&self, bytes: usize) -> Option<usize> {
        (0..bytes).find(|&offset| self.cells[offset / WORD].written >> (offset % WORD) & 1 == 0)
    }

    /// Checks an access within the memory, then takes it down.
    pub(super) fn access(
        &mut self,
        access: Access,
        actor: &Actor<'_>,
        offset: usize,
        bytes: usize,
    ) -> Result<(), Objection> {
        for (word, mask) in words(offset, bytes) {
            self.check(access, actor, word, mask).map_err(|reason| objection(offset, word, reason))?;
            self.record(access, actor, word, mask);
        }
        Ok(())
    }

    /// Checks a write of whole words that is to be made later. Until [`fill`](Self::fill) nobody may access them, so
    /// what holds for the write now also holds then.
    pub(super) fn reserve(&mut self, actor: &Actor<'_>, offset: usize, bytes: usize) -> Result<(), Objection> {
        for (word, mask) in words(offset, bytes) {
            self.check(Access::Write, actor, word, mask).map_err(|reason| objection(offset, word, reason))?;
            self.cells[word].reserved = actor.thread() as u16 + 1;
        }
        Ok(())
    }

    /// Takes down that the actor makes a write now that it has reserved.
    pub(super) fn fill(&mut self, actor: &Actor<'_>, offset: usize, bytes: usize) {
        for (word, mask) in words(offset, bytes) {
            self.cells[word].reserved = 0;
            self.record(Access::Write, actor, word, mask);
        }
    }

    /// Checks the write that makes a memory barrier, takes it down, and keeps everybody else from the barrier.
    pub(super) fn make_barrier(&mut self, actor: &Actor<'_>, offset: usize, bytes: usize) -> Result<(), Objection> {
        self.access(Access::Write, actor, offset, bytes)?;
        words(offset, bytes).for_each(|(word, _)| self.cells[word].reserved = BARRIER);
        Ok(())
    }

    /// Checks that a memory barrier was made before the actor uses it.
    pub(super) fn use_barrier(&mut self, actor: &Actor<'_>, offset: usize, bytes: usize) -> Result<(), Objection> {
        words(offset, bytes).try_for_each(|(word, mask)| {
            let checked = self.check(Access::Atomic, actor, word, mask);
            checked.map_err(|reason| objection(offset, word, reason))
        })
    }

    #[inline]
    fn check(&mut self, access: Access, actor: &Actor<'_>, word: usize, bytes: u8) -> Result<(), Reason> {
        self.renew(word);
        let cell = &self.cells[word];
        cell.allows(access, bytes)?;
        let against = |earlier, other: Option<Other>| match other {
            Some(other) => Err(Reason::Race { earlier, other }),
            None => Ok(()),
        };
        against(Access::Write, cell.write.unordered(actor, bytes))?;
        if cell.has_atomics && access != Access::Atomic {
            against(Access::Atomic, self.atomics[word].unordered(actor, bytes, &self.crowds))?;
        }
        if access.writes() {
            against(Access::Read, cell.reads.unordered(actor, bytes, &self.crowds))?;
        }
        Ok(())
    }

    /// Takes down an access that nothing objects to.
    #[inline]
    fn record(&mut self, access: Access, actor: &Actor<'_>, word: usize, bytes: u8) {
        let cell = &mut self.cells[word];
        match access {
            Access::Read => cell.reads.record(actor, bytes, &mut self.crowds),
            Access::ReadOnlyLoad => cell.assumed_constant = true,
            Access::Write => self.record_write(actor, word, bytes),
            Access::Atomic => self.record_atomic(actor, word, bytes),
        }
    }

    fn record_write(&mut self, actor: &Actor<'_>, word: usize, bytes: u8) {
        let cell = &mut self.cells[word];
        cell.written |= bytes;
        cell.write = LatestWrite::new(actor, bytes);
        let is_covered = |group: &Group| group.bytes & !bytes == 0;
        if is_covered(&cell.reads) {
            cell.reads.forget();
        }
        cell.has_atomics = cell.has_atomics && !is_covered(&self.atomics[word]);
    }

    fn record_atomic(&mut self, actor: &Actor<'_>, word: usize, bytes: u8) {
        self.atomics.resize(self.cells.len(), Group::default());
        let (cell, group) = (&mut self.cells[word], &mut self.atomics[word]);
        if !cell.has_atomics {
            group.forget();
        }
        (cell.has_atomics, cell.written) = (true, cell.written | bytes);
        group.record(actor, bytes, &mut self.crowds);
    }

    /// Forgets what is known about a word from an earlier life.
    #[inline]
    fn renew(&mut self, word: usize) {
        let cell = &mut self.cells[word];
        if cell.life != self.life {
            *cell = Cell { life: self.life, ..Cell::default() };
        }
    }
}

/// The objection to an access that starts at `offset`, for what is known about one of its words.
fn objection(offset: usize, word: usize, reason: Reason) -> Objection {
    Objection { offset: offset.max(word * WORD), reason }
}

const ALL_BYTES: u8 = (1 << WORD) - 1;

/// The words that a range of bytes touches, each with the bytes of it that are in the range.
fn words(offset: usize, bytes: usize) -> impl Iterator<Item = (usize, u8)> {
    let end = offset + bytes;
    (offset / WORD..end.div_ceil(WORD)).map(move |word| {
        let start = word * WORD;
        let skipped = offset.saturating_sub(start);
        let cut = (start + WORD).saturating_sub(end);
        (word, ALL_BYTES << skipped & ALL_BYTES >> cut)
    })
}

#[cfg(test)]
mod tests {
    use super::super::known::Known;
    use super::super::order::Cluster;
    use super::*;

    const NOTHING_HEARD: [u32; 32] = [0; 32];
    const ALONE: Cluster = Cluster { blocks: 1, since: 0 };

    fn actor(block: u32, epoch: u32, thread: u32) -> Actor<'static> {
        let (warp, lane) = ((thread / 32) as u8, (thread % 32) as u8);
        Actor {
            block: block + 1,
            cluster: &ALONE,
            epoch,
            warps: 2,
            warp,
            lane,
            time: 0,
            heard: &NOTHING_HEARD,
            known: None,
        }
    }

    /// An actor in a cluster of two, whose barrier has opened before each epoch.
    fn actor_beside(block: u32, epoch: u32) -> Actor<'static> {
        static PAIRS: [Cluster; 2] = [Cluster { blocks: 2, since: 0 }, Cluster { blocks: 2, since: 1 }];
        Actor { cluster: &PAIRS[epoch as usize], ..actor(block, epoch, 0) }
    }

    /// An actor that knows all that some other warps of its block did at time 0.
    fn knowing(warps: &[usize], thread: u32) -> Actor<'static> {
        let mut known = Known::NOTHING;
        warps.iter().for_each(|&warp| known.learn_of_warp(warp, &[1; LANES]));
        Actor { warps: 5, known: Some(std::boxed::Box::leak(std::boxed::Box::new(known))), ..actor(0, 0, thread) }
    }

    fn race(earlier: Access, other: Other) -> Result<(), Objection> {
        Err(Objection { offset: 0, reason: Reason::Race { earlier, other } })
    }

    #[test]
    fn a_range_splits_into_words() {
        let all: Vec<_> = words(2, 8).collect();
        assert_eq!(all, [(0, 0b1100), (1, 0b1111), (2, 0b0011)]);
    }

    #[test]
    fn readers_of_several_warps_all_race_with_a_writer_among_them() {
        let mut shadow = Shadow::new(4, true);
        for thread in [0, 40] {
            assert_eq!(shadow.access(Access::Read, &actor(0, 0, thread), 0, 4), Ok(()));
        }
        let write = shadow.access(Access::Write, &actor(0, 0, 40), 0, 4);
        assert_eq!(write, race(Access::Read, Other::Thread(0)));
    }

    #[test]
    fn a_barrier_orders_a_block_but_not_a_grid() {
        let mut shadow = Shadow::new(4, true);
        assert_eq!(shadow.access(Access::Read, &actor(0, 0, 0), 0, 4), Ok(()));
        assert_eq!(shadow.access(Access::Read, &actor(1, 0, 1), 0, 4), Ok(()));
        let write = shadow.access(Access::Write, &actor(1, 1, 2), 0, 4);
        assert_eq!(write, race(Access::Read, Other::Block(0)));
    }

    #[test]
    fn the_barrier_of_a_cluster_orders_its_blocks() {
        let mut shadow = Shadow::new(4, true);
        for (block, epoch) in [(0, 0), (1, 0), (0, 0), (0, 1), (1, 1)] {
            assert_eq!(shadow.access(Access::Read, &actor_beside(block, epoch), 0, 4), Ok(()));
        }
        // Of what the other block did, only the read before the barrier is ordered.
        let write = shadow.access(Access::Write, &actor_beside(1, 1), 0, 4);
        assert_eq!(write, race(Access::Read, Other::Block(0)));
    }

    #[test]
    fn blocks_of_a_cluster_race_until_its_barrier() {
        let mut shadow = Shadow::new(4, true);
        assert_eq!(shadow.access(Access::Read, &actor_beside(0, 0), 0, 4), Ok(()));
        assert_eq!(shadow.access(Access::Read, &actor_beside(1, 0), 0, 4), Ok(()));
        for block in [0, 1] {
            let write = shadow.access(Access::Write, &actor_beside(block, 0), 0, 4);
            assert_eq!(write, race(Access::Read, Other::Block(1 - block)));
        }
        assert_eq!(shadow.access(Access::Write, &actor_beside(0, 1), 0, 4), Ok(()));
        assert_eq!(shadow.access(Access::Write, &actor_beside(0, 1), 0, 4), Ok(()));
        let write = shadow.access(Access::Write, &actor_beside(1, 1), 0, 4);
        assert_eq!(write, race(Access::Write, Other::Block(0)));
    }

    #[test]
    fn the_barrier_of_a_cluster_does_not_order_other_clusters() {
        let mut shadow = Shadow::new(4, true);
        for (block, epoch) in [(0, 0), (2, 0), (3, 0), (2, 1)] {
            assert_eq!(shadow.access(Access::Read, &actor_beside(block, epoch), 0, 4), Ok(()));
        }
        let write = shadow.access(Access::Write, &actor_beside(2, 1), 0, 4);
        assert_eq!(write, race(Access::Read, Other::Block(0)));
    }

    #[test]
    fn of_a_crowd_each_has_to_be_known() {
        let mut shadow = Shadow::new(4, true);
        for thread in [0, 32, 64] {
            assert_eq!(shadow.access(Access::Read, &knowing(&[], thread), 0, 4), Ok(()));
        }
        let write = |shadow: &mut Shadow, known: &[usize]| shadow.access(Access::Write, &knowing(known, 96), 0, 4);
        for (known, unknown) in [([0, 1], 64), ([1, 2], 0), ([0, 2], 32)] {
            assert_eq!(write(&mut shadow, &known), race(Access::Read, Other::Thread(unknown)));
        }
        assert_eq!(write(&mut shadow, &[0, 1, 2]), Ok(()));
    }

    #[test]
    fn who_comes_after_a_write_comes_after_what_was_before() {
        let mut shadow = Shadow::new(4, true);
        for (access, thread, known) in
            [(Access::Read, 0, vec![]), (Access::Write, 32, vec![0]), (Access::Write, 64, vec![1])]
        {
            assert_eq!(shadow.access(access, &knowing(&known, thread), 0, 4), Ok(()));
        }
        let read = shadow.access(Access::Read, &knowing(&[0, 1], 96), 0, 4);
        assert_eq!(read, race(Access::Write, Other::Thread(64)));
    }

    #[test]
    fn the_barrier_of_the_block_before_is_none() {
        let mut shadow = Shadow::new(8, false);
        assert_eq!(shadow.make_barrier(&actor(0, 0, 0), 0, 8), Ok(()));
        assert_eq!(shadow.use_barrier(&actor(0, 0, 0), 0, 8), Ok(()));
        shadow.forget();
        let unmade = Objection { offset: 0, reason: Reason::Uninitialised };
        assert_eq!(shadow.use_barrier(&actor(1, 1, 0), 0, 8), Err(unmade));
    }

    #[test]
    fn different_bytes_of_a_word_do_not_race() {
        let mut shadow = Shadow::new(4, false);
        for _ in 0..2 {
            assert_eq!(shadow.access(Access::Write, &actor(0, 0, 0), 0, 1), Ok(()));
            assert_eq!(shadow.access(Access::Write, &actor(0, 0, 40), 1, 1), Ok(()));
            assert_eq!(shadow.access(Access::Write, &actor(0, 0, 40), 1, 1), Ok(()));
        }
        assert_eq!(shadow.first_unwritten(4), Some(2));
    }
}
