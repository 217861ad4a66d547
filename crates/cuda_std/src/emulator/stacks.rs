//! The stacks that threads run on. They outlive a launch, because mapping one costs more than running a small kernel.

use core::cell::RefCell;
use std::vec::Vec;

use corosensei::stack::{DefaultStack, Stack};

std::thread_local! {
    static KEPT: RefCell<Vec<DefaultStack>> = const { RefCell::new(Vec::new()) };
}

/// The stacks of one launch that no thread is using.
pub(super) struct Stacks {
    bytes: usize,
    free: Vec<DefaultStack>,
}

impl Stacks {
    /// Stacks of at least that size, with those that an earlier launch left.
    pub(super) fn new(bytes: usize) -> Self {
        let mut free = KEPT.take();
        free.retain(|stack| stack.base().get() - stack.limit().get() >= bytes);
        Self { bytes, free }
    }

    /// # Panics
    ///
    /// When the system has no memory left to map.
    pub(super) fn take(&mut self) -> DefaultStack {
        self.free.pop().unwrap_or_else(|| DefaultStack::new(self.bytes).expect("memory for a stack"))
    }

    pub(super) fn give_back(&mut self, stack: DefaultStack) {
        self.free.push(stack);
    }
}

impl Drop for Stacks {
    fn drop(&mut self) {
        KEPT.set(core::mem::take(&mut self.free));
    }
}
