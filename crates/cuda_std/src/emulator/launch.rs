//! A launch: dimensions, choices, and the way from there to the blocks.

use core::ffi::c_void;
use std::borrow::ToOwned;
use std::boxed::Box;
use std::format;
use std::string::String;

use super::dim3::Dim3;
use super::fault::{Fault, FaultKind};
use super::memory::Memory;
use super::schedule::Crew;
use super::state::{self, State};
use crate::entry::Entry;

/// The most threads of a block on any GPU.
const MOST_THREADS: u32 = 1024;

/// The most blocks of a grid along y, and along z.
const MOST_BLOCKS_ACROSS: u32 = 65_535;

/// The most blocks of a cluster that every GPU with clusters takes.
const MOST_BLOCKS: u32 = 8;

/// The most shared memory of a block on any GPU.
const MOST_SHARED_BYTES: usize = 227 * 1024;

/// The extents of a launch, and how the emulator is to carry it out.
///
/// ```
/// use cuda_std::emulator::{Launch, Memory};
/// use cuda_std::{kernel, mem, thread};
///
/// /// # Safety
/// /// `values` is valid for a value per thread.
/// #[kernel]
/// pub unsafe fn double(values: *mut f32) {
///     // SAFETY: the caller's promise.
///     unsafe {
///         let value = values.add(thread::thread_idx_x() as usize);
///         mem::store(value, 2.0 * mem::load(value));
///     }
/// }
///
/// let mut memory = Memory::new();
/// let values = memory.read_write("values", &[1.0f32, 2.0, 3.0]);
/// let launch = Launch::new(1, 3);
/// launch.run(&mut memory, "double", || unsafe { double(values) }).unwrap();
/// assert_eq!(memory.values(values).unwrap(), [2.0, 4.0, 6.0]);
///
/// // The buffer has three elements: the fourth thread is out of bounds.
/// let fault = Launch::new(1, 4).run(&mut memory, "double", || unsafe { double(values) }).unwrap_err();
/// assert_eq!(fault.thread.unwrap().thread.x, 3);
/// ```
#[derive(Clone, Debug)]
pub struct Launch {
    pub(super) grid: Dim3,
    pub(super) block: Dim3,
    pub(super) cluster: u32,
    pub(super) shared_bytes: usize,
    pub(super) stack_bytes: usize,
    pub(super) step_limit: u64,
    pub(super) seed: Option<u64>,
    pub(super) barriers_without_returned: bool,
}

impl Launch {
    /// A grid of that many blocks, of that many threads each.
    pub fn new(grid: impl Into<Dim3>, block: impl Into<Dim3>) -> Self {
        Self {
            grid: grid.into(),
            block: block.into(),
            cluster: 1,
            shared_bytes: 0,
            stack_bytes: 64 * 1024,
            step_limit: 1 << 24,
            seed: None,
            barriers_without_returned: false,
        }
    }

    /// The number of blocks in a cluster, at most 8, of which the grid's number of blocks is a multiple; without it, 1.
    /// Block `number`, counting along x first, then y, then z, is number `number % blocks` of its cluster.
    #[must_use]
    pub fn cluster(self, blocks: u32) -> Self {
        Self { cluster: blocks, ..self }
    }

    /// The size of the dynamic shared memory; without it there is none.
    #[must_use]
    pub fn shared_bytes(self, shared_bytes: usize) -> Self {
        Self { shared_bytes, ..self }
    }

    /// The stack of each thread; without it, 64 KiB. A thread that needs more ends the process.
    #[must_use]
    pub fn stack_bytes(self, stack_bytes: usize) -> Self {
        Self { stack_bytes, ..self }
    }

    /// How many accesses and synchronisations a thread may make before the launch counts as endless; without it, 2^24.
    #[must_use]
    pub fn step_limit(self, step_limit: u64) -> Self {
        Self { step_limit, ..self }
    }

    /// Runs the blocks in a random order, those of a cluster together, and interrupts threads at random accesses to let
    /// others run. The same seed gives the same order. Without a seed, blocks run in order, and each thread runs until
    /// it has to wait.
    #[must_use]
    pub fn seed(self, seed: u64) -> Self {
        Self { seed: Some(seed), ..self }
    }

    /// Lets a barrier of a block open without the threads that have returned, as a GPU does. Without it that is a
    /// fault: it is more often a mistake than meant.
    #[must_use]
    pub fn barriers_without_returned(self) -> Self {
        Self { barriers_without_returned: true, ..self }
    }

    /// Runs a kernel: `kernel` is called once per thread, and calls it with the same arguments each time. `name` is for
    /// the report.
    ///
    /// # Errors
    ///
    /// The first mistake that a thread makes. The memory then holds what had been written by that time.
    pub fn run(&self, memory: &mut Memory, name: &str, kernel: impl Fn()) -> Result<(), Box<Fault>> {
        let refused = |reason| refusal(name, reason);
        let (blocks, threads) = self.extents().map_err(refused)?;
        if state::is_running() {
            return Err(refused("a kernel is running on this host thread".to_owned()));
        }
        let running = Running::begin(memory, |memory| State::new(name, self, threads, memory));
        run_clusters(&mut Crew::new(&kernel, self.cluster, threads, self.stack_bytes), blocks / self.cluster);
        running.end()
    }

    /// Runs a kernel of a table of entries, with pointers to its arguments as `cuLaunchKernel` takes them.
    ///
    /// # Safety
    ///
    /// Each argument points to a value of the parameter's type.
    ///
    /// # Errors
    ///
    /// As for [`run`](Self::run).
    pub unsafe fn run_entry(
        &self,
        memory: &mut Memory,
        entry: &Entry,
        arguments: &[*mut c_void],
    ) -> Result<(), Box<Fault>> {
        let (given, wanted) = (arguments.len(), entry.parameters.len());
        if given != wanted {
            let reason = format!("it has {wanted} parameters, and {given} arguments were given");
            return Err(refusal(entry.name, reason));
        }
        // SAFETY: there are as many arguments as parameters, and the caller vouches for their types. What the kernel
        // asks of them beyond that is checked at each access.
        self.run(memory, entry.name, || unsafe { (entry.call)(arguments.as_ptr()) })
    }

    /// The number of blocks, and of threads in each.
    fn extents(&self) -> Result<(u32, u32), String> {
        let Self { grid, block, cluster, shared_bytes, .. } = self;
        let is_short = grid.y <= MOST_BLOCKS_ACROSS && grid.z <= MOST_BLOCKS_ACROSS;
        let blocks = grid.count().filter(|&blocks| blocks != 0 && blocks != u32::MAX && is_short);
        let blocks = blocks.ok_or_else(|| format!("no grid can have extent {grid}"))?;
        let threads = block.count().filter(|threads| (1..=MOST_THREADS).contains(threads));
        let threads = threads.ok_or_else(|| format!("no block can have extent {block}"))?;
        if !(1..=MOST_BLOCKS).contains(cluster) {
            return Err(format!("no cluster can have {cluster} blocks"));
        }
        if !blocks.is_multiple_of(*cluster) {
            return Err(format!("a grid of {blocks} blocks has no whole number of clusters of {cluster}"));
        }
        if *shared_bytes > MOST_SHARED_BYTES {
            return Err(format!("no block can have {shared_bytes} bytes of shared memory"));
        }
        Ok((blocks, threads))
    }
}

fn refusal(kernel: &str, reason: String) -> Box<Fault> {
    let kind = FaultKind::Refused { reason };
    Box::new(Fault { kernel: kernel.to_owned(), thread: None, location: None, kind })
}

/// Runs the clusters, until a block stops the launch.
fn run_clusters<K: Fn()>(crew: &mut Crew<'_, K>, clusters: u32) {
    let order = state::with(|state| state.order(clusters)).unwrap_or_default();
    let _ = order.into_iter().try_for_each(|cluster| crew.run_cluster(cluster));
}

/// The memory is lent to the running launch; it returns to its owner however the launch ends.
struct Running<'a> {
    memory: &'a mut Memory,
}

impl<'a> Running<'a> {
    fn begin(memory: &'a mut Memory, state: impl FnOnce(Memory) -> State) -> Self {
        state::install(state(core::mem::take(memory)));
        Self { memory }
    }

    /// The fault, if there was one: also where a kernel caught the panic by which it was to stop.
    fn end(self) -> Result<(), Box<Fault>> {
        state::with(|state| state.fault.take()).flatten().map_or(Ok(()), Err)
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        if let Some(state) = state::remove() {
            *self.memory = state.memory;
            self.memory.forget_accesses();
        }
    }
}
