//! The asynchronous copies that a thread has started and not waited for, in the groups that it waits for.

use std::collections::VecDeque;

use super::shared::Target;

/// The most words that one copy moves.
const MOST_WORDS: usize = 4;

/// A copy that is under way. The data is that of its start: what is written to the source later, it may or may not see.
pub(super) struct Pending {
    target: Target,
    words: [u32; MOST_WORDS],
    count: usize,
}

impl Pending {
    pub(super) fn new(target: Target, words: &[u32]) -> Self {
        let mut copy = Self { target, words: [0; MOST_WORDS], count: words.len() };
        copy.words[..copy.count].copy_from_slice(words);
        copy
    }

    pub(super) fn target(&self) -> Target {
        self.target
    }

    pub(super) fn words(&self) -> &[u32] {
        &self.words[..self.count]
    }
}

/// The copies of one thread. Their memory is kept from block to block.
#[derive(Default)]
pub(super) struct Copies {
    /// By age.
    pending: VecDeque<Pending>,
    /// How many of them each group has, by age.
    groups: VecDeque<usize>,
    /// How many are in no group yet.
    open: usize,
}

impl Copies {
    pub(super) fn start(&mut self, target: Target, words: &[u32]) {
        self.pending.push_back(Pending::new(target, words));
        self.open += 1;
    }

    /// Closes a group.
    pub(super) fn commit(&mut self) {
        self.groups.push_back(core::mem::take(&mut self.open));
    }

    /// Completes the groups, all but the `pending` newest ones: `fill` gets each target and its data.
    pub(super) fn complete(&mut self, pending: u32, mut fill: impl FnMut(Target, &[u32])) {
        let complete = self.groups.len().saturating_sub(pending as usize);
        let copies: usize = self.groups.drain(..complete).sum();
        for copy in self.pending.drain(..copies) {
            fill(copy.target(), copy.words());
        }
    }

    /// A memory barrier is to complete all of them: the groups that they were in remain, empty.
    pub(super) fn hand_over(&mut self) -> impl Iterator<Item = Pending> {
        self.groups.iter_mut().for_each(|copies| *copies = 0);
        self.open = 0;
        self.pending.drain(..)
    }

    /// The thread has ended, and with it the block's memory.
    pub(super) fn forget(&mut self) {
        self.pending.clear();
        self.groups.clear();
        self.open = 0;
    }
}
