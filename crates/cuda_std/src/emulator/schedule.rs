//! The threads of a block as coroutines: each runs until it has to wait for others. So do the blocks of a cluster in
//! turn: each runs until it has to wait for the others.
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

/// Runs one cluster of blocks after another.
pub(super) struct Crew<'a, K> {
    kernel: &'a K,
    /// How many a block has.
    threads: u32,
    /// By block of the cluster and thread; none where the thread has not started or has returned.
    running: Vec<Option<Running>>,
    stacks: Stacks,
}

impl<'a, K: Fn()> Crew<'a, K> {
    /// For clusters of that many blocks, and blocks of that many threads, with that much stack for each.
    pub(super) fn new(kernel: &'a K, cluster: u32, threads: u32, stack_bytes: usize) -> Self {
        let running = (0..cluster * threads).map(|_| None).collect();
        Self { kernel, threads, running, stacks: Stacks::new(stack_bytes) }
    }

    pub(super) fn run_cluster(&mut self, cluster: u32) -> Result<(), Stop> {
        with_launch(|state| state.begin_cluster(cluster));
        while let Some(rank) = with_launch(State::next_block) {
            self.run_block(rank * self.threads)?;
        }
        Ok(())
    }

    /// Runs the block whose first thread has that number in the cluster, until it has ended or waits for the others.
    fn run_block(&mut self, first: u32) -> Result<(), Stop> {
        loop {
            while let Some(thread) = with_launch(State::next) {
                self.resume((first + thread) as usize)?;
            }
            if with_launch(State::settle)? {
                return Ok(());
            }
        }
    }

    /// Lets a thread, by its number in the cluster, run until it waits, returns or stops the launch.
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
