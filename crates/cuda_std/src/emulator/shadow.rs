//! What is known about each word of memory: whether it was written, and by whom it was accessed.
//!
//! A word keeps its readers, its writers and its atomic writers as one [`Group`] each. A group remembers the latest
//! accesses of one warp exactly, and that there were others in another warp or another block. That is enough while
//! nothing orders warps within an epoch. Once a launch has used a named or a memory barrier, it also matters when each
//! of the other warps made its latest accesses: these, the [`Crowds`], are kept apart, and only in such launches.
//!
//! This misses a race only where lanes of one warp access a word after different synchronisations, or different numbers
//! of arrivals at memory barriers, that do not order them, where accesses are to different bytes of a word, or where
//! several warps accessed it before the launch's first such barrier, of which the last two are remembered; it never
//! reports one that is none.

use std::vec;
use std::vec::Vec;

use super::order::{Actor, LANES, WARPS, lanes};

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

/// Accesses of one kind to one word. All zero: there were none.
#[derive(Clone, Copy, Default)]
struct Group {
    /// The block's number from 1.
    block: u32,
    /// An earlier block that had accesses, its number from 1. In a cluster, it had them since the cluster's barrier
    /// opened.
    earlier_block: u32,
    epoch: u32,
    /// The time of the warp; all lanes of the group have the same.
    time: u32,
    lanes: u32,
    warp: u8,
    /// The bytes of the word, one bit each.
    bytes: u8,
    /// A thread of another warp that had accesses in the same epoch, its number from 1. With [`CROWD`], the group's
    /// crowd has them all.
    other_warp: u16,
}

/// Beyond the numbers of threads.
const CROWD: u16 = 1 << 15;

/// The latest accesses of one warp.
#[derive(Clone, Copy, Default)]
struct Latest {
    time: u32,
    lanes: u32,
}

/// For each warp, and for the one whose lanes are copies, its latest accesses.
#[derive(Clone, Copy)]
struct Crowd {
    /// A bit for each warp that has any.
    warps: u64,
    latest: [Latest; WARPS + 1],
}

impl Crowd {
    const NOBODY: Self = Self { warps: 0, latest: [Latest { time: 0, lanes: 0 }; WARPS + 1] };

    fn note(&mut self, warp: usize, latest: Latest) {
        self.warps |= 1 << warp;
        self.latest[warp] = latest;
    }

    /// A thread that made some of these accesses, and that nothing orders before the actor.
    fn unknown(&self, actor: &Actor<'_>) -> Option<u32> {
        let mut warps = self.warps;
        while warps != 0 {
            let warp = warps.trailing_zeros() as usize;
            warps &= warps - 1;
            if let Some(thread) = self.latest[warp].unknown(warp, actor) {
                return Some(thread);
            }
        }
        None
    }
}

/// The crowds of a memory: of each group of each word, where other warps than the group's have accessed it.
#[derive(Default)]
struct Crowds {
    /// By word and group, the number of its crowd plus one. Empty until there is a crowd.
    numbers: Vec<[u32; 3]>,
    crowds: Vec<Crowd>,
}

impl Crowds {
    fn crowd(&mut self, words: usize, word: usize, group: usize) -> &mut Crowd {
        self.numbers.resize(words, [0; 3]);
        let number = &mut self.numbers[word][group];
        if *number == 0 {
            self.crowds.push(Crowd::NOBODY);
            *number = self.crowds.len() as u32;
        }
        &mut self.crowds[*number as usize - 1]
    }

    /// The crowd of a group that has one.
    fn known(&self, word: usize, group: usize) -> &Crowd {
        &self.crowds[self.numbers[word][group] as usize - 1]
    }
}

impl Latest {
    /// A thread of the warp of that number, among those that made these accesses, that nothing orders before the actor.
    fn unknown(&self, warp: usize, actor: &Actor<'_>) -> Option<u32> {
        // A single lane is asked for sooner than all.
        if !self.lanes.is_power_of_two() && actor.knows_all(warp, self.time) {
            return None;
        }
        let lane = lanes(self.lanes).find(|&lane| !actor.knows(warp, lane, self.time))?;
        Some((warp * LANES + lane) as u32)
    }
}

impl Group {
    fn first_thread(&self) -> u32 {
        u32::from(self.warp) * u32::BITS + self.lanes.trailing_zeros()
    }

    /// An access of the group that is not ordered before the actor's, where `in_epoch` yields a thread of such an
    /// access in the actor's own epoch.
    #[inline]
    fn unordered(&self, actor: &Actor<'_>, bytes: u8, in_epoch: impl FnOnce() -> Option<u32>) -> Option<Other> {
        if self.block == 0 || self.bytes & bytes == 0 {
            None
        } else if self.has_other_blocks(actor)
            && let Some(block) = self.unordered_block(actor, [self.earlier_block, self.block])
        {
            Some(Other::Block(block - 1))
        } else if self.block != actor.block || self.epoch != actor.epoch {
            None
        } else {
            in_epoch().map(Other::Thread)
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

    /// A thread of the group that nothing but named and memory barriers may order before the actor.
    fn unordered_in_epoch(&self, actor: &Actor<'_>) -> Option<u32> {
        if self.warp != actor.warp {
            return Some(self.first_thread());
        }
        if self.other_warp != 0 {
            return Some(u32::from(self.other_warp & !CROWD) - 1);
        }
        self.unordered_lane(actor)
    }

    /// A thread of the group that nothing orders before the actor, named and memory barriers included.
    fn unordered_by_barriers<'a>(&self, actor: &Actor<'_>, crowd: impl FnOnce() -> &'a Crowd) -> Option<u32> {
        let latest = Latest { time: self.time, lanes: self.lanes };
        let others = || if self.other_warp == 0 { None } else { self.unordered_other(actor, crowd) };
        latest.unknown(self.warp.into(), actor).or_else(others)
    }

    /// A thread of other warps than the group's that nothing orders before the actor.
    fn unordered_other<'a>(&self, actor: &Actor<'_>, crowd: impl FnOnce() -> &'a Crowd) -> Option<u32> {
        if self.other_warp & CROWD != 0 {
            return crowd().unknown(actor);
        }
        // From before the launch's first such barrier, when nobody kept books: the time does not matter.
        let thread = usize::from(self.other_warp) - 1;
        let (warp, lane) = (thread / LANES, thread % LANES);
        let known = warp == actor.warp.into() || actor.knows(warp, lane, 0);
        (!known).then_some(thread as u32)
    }

    /// A lane of the group, which is of the actor's warp, that the actor has not heard of.
    fn unordered_lane(&self, actor: &Actor<'_>) -> Option<u32> {
        let others = self.lanes & !(1 << actor.lane);
        (0..u32::BITS)
            .filter(|lane| others >> lane & 1 == 1)
            .find(|&lane| !actor.has_heard(lane, self.time))
            .map(|lane| u32::from(self.warp) * u32::BITS + lane)
    }

    fn record(&mut self, actor: &Actor<'_>, bytes: u8) {
        let same_block = self.block == actor.block;
        let same_epoch = same_block && self.epoch == actor.epoch;
        let same_warp = same_epoch && self.warp == actor.warp;
        if same_warp && self.time == actor.time && self.bytes == bytes {
            self.lanes |= 1 << actor.lane;
            return;
        }
        // Others are remembered as long as they accessed the same bytes, since there is one mask for all.
        let others = if self.bytes == bytes { *self } else { Self::default() };
        let earlier_block = if others.block != 0 && others.has_other_blocks(actor) {
            others.unordered_block(actor, [others.block, others.earlier_block]).unwrap_or(0)
        } else {
            0
        };
        let other_warp = match (same_epoch, same_warp) {
            (true, false) if others.block != 0 => (self.other_warp & CROWD) | (self.first_thread() as u16 + 1),
            (true, true) => others.other_warp,
            _ => 0,
        };
        let Actor { block, epoch, warp, lane, time, .. } = *actor;
        *self = Self { block, earlier_block, epoch, time, lanes: 1 << lane, warp, bytes, other_warp };
    }

    /// Whether an access of the actor is about to replace those of another warp, which remain of concern.
    fn yields_to(&self, actor: &Actor<'_>, bytes: u8) -> bool {
        let same_epoch = self.block == actor.block && self.epoch == actor.epoch;
        same_epoch && self.warp != actor.warp && self.bytes == bytes
    }

    /// Takes down the group's latest accesses in its crowd.
    fn join_crowd(&mut self, crowd: &mut Crowd) {
        if self.other_warp & CROWD == 0 {
            *crowd = Crowd::NOBODY;
            if self.other_warp != 0 {
                let thread = usize::from(self.other_warp) - 1;
                crowd.note(thread / LANES, Latest { time: 0, lanes: 1 << (thread % LANES) });
            }
        }
        crowd.note(self.warp.into(), Latest { time: self.time, lanes: self.lanes });
        self.other_warp |= CROWD;
    }
}

// The groups of a word, as numbers.
const READS: usize = 0;
const WRITES: usize = 1;
const ATOMICS: usize = 2;

/// The word is part of a memory barrier, which nothing but its own operations may access.
const BARRIER: u16 = u16::MAX;

/// One word: its content, and the accesses to it in the running launch.
#[derive(Clone, Copy, Default)]
struct Cell {
    reads: Group,
    writes: Group,
    atomics: Group,
    /// The life of the memory that all of this is about.
    life: u32,
    /// Whether some load assumed that the word never changes.
    assumed_constant: bool,
    /// One bit per byte that was written.
    written: u8,
    /// The thread that has started a copy to the word that has not been waited for, its number from 1: until then the
    /// word is the copy's, and nobody may access it. Or [`BARRIER`].
    reserved: u16,
}

impl Cell {
    /// `unordered` yields an access of a group, which it also gets by number, that is not ordered before this one.
    #[inline]
    fn check(
        &self,
        access: Access,
        bytes: u8,
        unordered: impl Fn(&Group, usize) -> Option<Other>,
    ) -> Result<(), Reason> {
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
        let changed = self.writes.block != 0 || self.atomics.block != 0;
        let assumes = access == Access::ReadOnlyLoad;
        if (assumes && changed) || (access.writes() && self.assumed_constant) {
            return Err(Reason::NotConstant);
        }
        let against = |group: &Group, number, earlier| match unordered(group, number) {
            Some(other) => Err(Reason::Race { earlier, other }),
            None => Ok(()),
        };
        against(&self.writes, WRITES, Access::Write)?;
        if access != Access::Atomic {
            against(&self.atomics, ATOMICS, Access::Atomic)?;
        }
        if access.writes() {
            against(&self.reads, READS, Access::Read)?;
        }
        Ok(())
    }

    fn record(&mut self, access: Access, actor: &Actor<'_>, bytes: u8) {
        if access.writes() {
            self.written |= bytes;
        }
        match access {
            Access::Read => self.reads.record(actor, bytes),
            Access::ReadOnlyLoad => self.assumed_constant = true,
            Access::Write => self.writes.record(actor, bytes),
            Access::Atomic => self.atomics.record(actor, bytes),
        }
    }
}

/// What is known about a piece of memory.
pub(super) struct Shadow {
    cells: Vec<Cell>,
    /// Counts how often the content was lost. Cells of an earlier life are void: that is cheaper than clearing them.
    life: u32,
    crowds: Crowds,
}

impl Shadow {
    pub(super) fn new(bytes: usize, initialised: bool) -> Self {
        let written = if initialised { ALL_BYTES } else { 0 };
        let cell = Cell { written, ..Cell::default() };
        Self { cells: vec![cell; bytes.div_ceil(WORD)], life: 0, crowds: Crowds::default() }
    }

    /// Forgets who accessed the memory, because everybody has finished.
    pub(super) fn forget_accesses(&mut self) {
        for cell in &mut self.cells {
            *cell = Cell { written: cell.written, life: cell.life, ..Cell::default() };
        }
        self.crowds = Crowds::default();
    }

    /// Forgets the content too, as at the start of a block whose own memory this is.
    pub(super) fn forget(&mut self) {
        self.life += 1;
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
            if actor.known.is_some() {
                self.cell(word);
                self.access_by_barriers(access, actor, word, mask).map_err(|reason| objection(offset, word, reason))?;
                continue;
            }
            let cell = self.cell(word);
            cell.check(access, mask, before(actor, mask)).map_err(|reason| objection(offset, word, reason))?;
            cell.record(access, actor, mask);
        }
        Ok(())
    }

    /// Checks a write of whole words that is to be made later. Until [`fill`](Self::fill) nobody may access them, so
    /// what holds for the write now also holds then.
    pub(super) fn reserve(&mut self, actor: &Actor<'_>, offset: usize, bytes: usize) -> Result<(), Objection> {
        for (word, mask) in words(offset, bytes) {
            self.cell(word);
            self.check_by_barriers(Access::Write, actor, word, mask)
                .map_err(|reason| objection(offset, word, reason))?;
            self.cells[word].reserved = actor.thread() as u16 + 1;
        }
        Ok(())
    }

    /// Takes down that the actor makes a write now that it has reserved.
    pub(super) fn fill(&mut self, actor: &Actor<'_>, offset: usize, bytes: usize) {
        for (word, mask) in words(offset, bytes) {
            self.cell(word).reserved = 0;
            self.record_by_barriers(Access::Write, actor, word, mask);
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
            let checked = self.check_by_barriers(Access::Atomic, actor, word, mask);
            checked.map_err(|reason| objection(offset, word, reason))
        })
    }

    /// Checks and takes down an access in a launch with named or memory barriers, to a word that is in this life.
    fn access_by_barriers(&mut self, access: Access, actor: &Actor<'_>, word: usize, bytes: u8) -> Result<(), Reason> {
        self.check_by_barriers(access, actor, word, bytes)?;
        self.record_by_barriers(access, actor, word, bytes);
        Ok(())
    }

    fn check_by_barriers(&self, access: Access, actor: &Actor<'_>, word: usize, bytes: u8) -> Result<(), Reason> {
        if actor.known.is_none() {
            return self.cells[word].check(access, bytes, before(actor, bytes));
        }
        self.cells[word].check(access, bytes, |group, number| {
            let crowd = || self.crowds.known(word, number);
            // These barriers can only order more than what is quicker to see.
            let in_epoch = || group.unordered_in_epoch(actor).and_then(|_| group.unordered_by_barriers(actor, crowd));
            group.unordered(actor, bytes, in_epoch)
        })
    }

    /// Takes down an access; those of another warp that this replaces are kept in a crowd.
    fn record_by_barriers(&mut self, access: Access, actor: &Actor<'_>, word: usize, bytes: u8) {
        let words = self.cells.len();
        let cell = &mut self.cells[word];
        let group = match access {
            Access::Read => Some((&mut cell.reads, READS)),
            Access::Write => Some((&mut cell.writes, WRITES)),
            Access::Atomic => Some((&mut cell.atomics, ATOMICS)),
            Access::ReadOnlyLoad => None,
        };
        if let Some((group, number)) = group
            && actor.known.is_some()
            && group.yields_to(actor, bytes)
        {
            group.join_crowd(self.crowds.crowd(words, word, number));
        }
        cell.record(access, actor, bytes);
    }

    /// What is known about a word, in this life.
    fn cell(&mut self, word: usize) -> &mut Cell {
        let cell = &mut self.cells[word];
        if cell.life != self.life {
            *cell = Cell { life: self.life, ..Cell::default() };
        }
        cell
    }
}

/// How groups yield what is not ordered before the actor's access, named and memory barriers apart.
fn before(actor: &Actor<'_>, bytes: u8) -> impl Fn(&Group, usize) -> Option<Other> {
    move |group, _| group.unordered(actor, bytes, || group.unordered_in_epoch(actor))
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
    use super::super::order::Cluster;
    use super::*;

    const NOTHING_HEARD: [u32; 32] = [0; 32];
    const ALONE: Cluster = Cluster { blocks: 1, since: 0 };

    fn actor(block: u32, epoch: u32, thread: u32) -> Actor<'static> {
        let (warp, lane) = ((thread / 32) as u8, (thread % 32) as u8);
        Actor { block: block + 1, cluster: &ALONE, epoch, warp, lane, time: 0, heard: &NOTHING_HEARD, known: None }
    }

    /// An actor in a cluster of two, whose barrier has opened before each epoch.
    fn actor_beside(block: u32, epoch: u32) -> Actor<'static> {
        static PAIRS: [Cluster; 2] = [Cluster { blocks: 2, since: 0 }, Cluster { blocks: 2, since: 1 }];
        Actor { cluster: &PAIRS[epoch as usize], ..actor(block, epoch, 0) }
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
