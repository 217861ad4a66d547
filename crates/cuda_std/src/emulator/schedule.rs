//! The threads of a block as coroutines: each runs until it has to wait for others.
//!
//! A thread that never waits enters its coroutine once and leaves it once, and the next one gets the same stack.

use core::panic::AssertUnwindSafe;
use std::panic::catch_unwind;
use std::vec::Vec;

use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult};

use super::stacks::Stacks;
use super::state::{self, GiveWay, State, Stop};

type Running = Coroutine<(), (), (), DefaultStack>;

/// Runs one block after another.
pub(super) struct Crew<'a, K> {
    kernel: &'a K,
    /// By thread; none where the thread has not started or has returned.
    running: Vec<Option<Running>>,
    stacks: Stacks,
}

impl<'a, K: Fn()> Crew<'a, K> {
    /// For blocks of that many threads, with that much stack for each.
    pub(super) fn new(kernel: &'a K, threads: u32, stack_bytes: usize) -> Self {
        let running = (0..threads).map(|_| None).collect();
        Self { kernel, running, stacks: Stacks::new(stack_bytes) }
    }

    pub(super) fn run_block(&mut self, block: u32) -> Result<(), Stop> {
        with_launch(|state| state.begin_block(block));
        loop {
            while let Some(thread) = with_launch(State::next) {
                self.resume(thread as usize)?;
            }
            if with_launch(State::settle)? {
                return Ok(());
            }
        }
    }

    /// Lets a thread run until it waits, returns or stops the launch.
    fn resume(&mut self, thread: usize) -> Result<(), Stop> {
        let mut coroutine = match self.running[thread].take() {
            Some(coroutine) => coroutine,
            None => self.start(),
        };
        // A panic ends the launch, after which nothing looks at what the thread has left half done.
        match catch_unwind(AssertUnwindSafe(|| coroutine.resume(()))) {
            Ok(CoroutineResult::Yield(())) => self.running[thread] = Some(coroutine),
            Ok(CoroutineResult::Return(())) => {
                with_launch(State::returned);
                self.stacks.give_back(coroutine.into_stack());
            }
            Err(payload) => {
                with_launch(|state| state.panicked(payload.as_ref()));
                return Err(Stop);
            }
        }
        Ok(())
    }

    fn start(&mut self) -> Running {
        let kernel = self.kernel;
        let body = move |give_way: &GiveWay, ()| {
            with_launch(|state| state.started(give_way));
            kernel();
        };
        // SAFETY: the body borrows the kernel, which outlives this crew; coroutines do not leave the crew, and it drops
        // those that have not finished.
        unsafe { Coroutine::with_stack_unchecked(self.stacks.take(), body) }
    }
}

fn with_launch<R>(action: impl FnOnce(&mut State) -> R) -> R {
    state::with(action).expect("the crew works for a launch")
}
