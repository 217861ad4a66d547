//! Runs kernels on the host, as they are written, and reports their mistakes.
//!
//! ```
//! use cuda_std::emulator::{FaultKind, Launch, Memory};
//! use cuda_std::{kernel, mem, shared_array, thread};
//!
//! shared_array! {
//!     static TILE: [f32; 64];
//! }
//!
//! /// Reverses 64 values, without waiting for the threads that bring them.
//! ///
//! /// # Safety
//! /// `values` is valid for 64 values; the block has 64 threads.
//! #[kernel]
//! pub unsafe fn reverse(values: *mut f32) {
//!     let index = thread::thread_idx_x();
//!     // SAFETY: the indices are below 64.
//!     unsafe {
//!         let value = values.add(index as usize);
//!         TILE.as_ptr().add(index).store(mem::load(value));
//!         mem::store(value, TILE.as_ptr().add(63 - index).load());
//!     }
//! }
//!
//! let mut memory = Memory::new();
//! let values = memory.read_write("values", &[0.0f32; 64]);
//! let launch = Launch::new(1, 64);
//! let fault = launch.run(&mut memory, "reverse", || unsafe { reverse(values) }).unwrap_err();
//! assert!(matches!(fault.kind, FaultKind::Uninitialised { .. }));
//! ```
//!
//! A [`Launch`] runs the blocks of a grid one after another on the calling host thread; the threads of a block are
//! coroutines, which run in turn until they have to wait for each other. So do the blocks of a
//! [cluster](Launch::cluster): each runs until its threads wait at the cluster's barrier or have returned. Everything
//! is deterministic; a [seed](Launch::seed) chooses other orders of blocks and of accesses. Every access to [`Memory`]
//! and to shared memory is checked before it is made, so a mistake ends the launch with a [`Fault`] and does no harm.
//!
//! # What is reported
//!
//! - accesses out of bounds of all buffers or arrays, misaligned ones, and writes to read-only buffers;
//! - reads of memory that nothing wrote: shared memory of the block, and buffers registered without a content;
//! - races: two accesses to a word, at least one of them a write and not both atomic, that nothing orders. Threads of a
//!   block are ordered by its barriers, where named ones and memory barriers order only what came before them, and only
//!   before what those do afterwards that waited there; lanes of a warp also by `sync_warp`, but *not* by shuffles and
//!   votes, which CUDA gives no effect on memory; threads of different blocks are ordered by the barrier of their
//!   cluster only. Races are found by that order, not by luck: it does not matter which access the emulator happens to
//!   make first;
//! - accesses to the target of an asynchronous copy, by whomever, before the thread that copies has waited for it, or
//!   anybody at the memory barrier that completes it; after that, races with what the copy wrote, which those know that
//!   have waited. Starting a copy too early, before others have finished with the target, is a race too. Data that
//!   nobody waits for never arrives. Bulk copies of a size that there is none of;
//! - words that the launch both writes and loads by `load_readonly`;
//! - barriers that some thread of the block does not come to, or at another call; named barriers that too few come to,
//!   that one warp comes to twice, or with different numbers of threads; operations of a warp with a wrong
//!   mask, missing lanes, or at different calls;
//! - accesses to the shared memory of another block that is not of the cluster, that may not have begun, because the
//!   cluster's barrier has not opened yet, or that may have ended, because it does not wait there afterwards: by that
//!   order, too, and not by luck. They are checked like those to a thread's own shared memory;
//! - threads that wait at the barrier of the cluster while others of their block wait for ever at something else, which
//!   is what is reported. Those that have returned count as having come;
//! - memory barriers that are used before they were made, that more come to than they expect, that are waited at for
//!   ever, or that something else accesses;
//! - panics, `trap`, too much shared memory, and threads that do not end.
//!
//! # What is not seen
//!
//! - Plain accesses, `*pointer`, `read` and `write`: they work, but nothing checks them, and they do not count as
//!   writes of memory without a content. Only what goes through [`mem`](crate::mem), [`shared`](crate::shared) and
//!   [`atomic`](crate::atomic) is seen. Pointer arithmetic is not seen either; `pointer.add` that overflows the address
//!   space ends the process where debug assertions are on.
//! - An access so far out of bounds that it hits another buffer: buffers are 128 KiB apart, shared arrays 1 KiB. An
//!   access that is in bounds of its buffer but meant for another element is none the less right for the emulator.
//! - Some races between lanes of one warp, or with several of its lanes, after synchronisations that order some of
//!   them, or different numbers of arrivals at memory barriers, or on parts of a word: a word remembers only the last
//!   of them.
//! - Arrivals at a memory barrier that come in another phase than they are meant for, unless the phase cannot take
//!   them; what follows from them mostly shows. Of more than 32 memory barriers in a block, some pass for one another
//!   as to what their copies write.
//! - Memory barriers count the bytes of a bulk copy, and an arrival after copies, when these start. That the data comes
//!   later is seen, because nobody may touch it before the phase is complete; that a block ends before is not.
//! - That stores of threads and a bulk copy to the same place later need `fence_async_proxy` in between.
//! - A write to the source of an asynchronous copy while the copy is under way: the source is read, and checked, when
//!   the copy starts.
//! - Warp groups and the fence for what works beside the threads: `warpgroup_arrive` and its kind, which only sm_90a
//!   has, panic.
//! - Grids that follow each other (`grid`), and, of [`async_copy`](crate::async_copy), copies of boxes and copies from
//!   shared memory: `copy_box`, `store_box`, `store_bulk`, `commit_bulk_group` and `await_bulk_reads` are not there on
//!   the host.
//! - The weak memory model: every access takes effect at once, in the order of the program.
//! - Real scheduling: threads give way only at primitives, blocks do not run side by side, and a loop without
//!   primitives never ends. A block that waits for another one waits for ever, which the step limit reports, unless it
//!   waits at the barrier of their cluster.
//! - Shapes of clusters: blocks are neighbours by number. A GPU takes a cluster along an axis only if the grid's extent
//!   along that axis is a multiple of it.
//! - Anything of cost or size: time, bank conflicts, coalescing, registers, occupancy, the stack in local memory.
//!   Launch bounds are not checked.
//! - Differences in arithmetic: the host's own floating-point operations are used, in particular for transcendental
//!   functions, and atomic additions come in the order of the threads. Tensor cores add in f64 and round once.
//! - A thread that overflows its [stack](Launch::stack_bytes) ends the process. A program that aborts on panics cannot
//!   report faults. Miri cannot run coroutines.
//!
//! # Structure
//!
//! The bodies of the primitives come first and everything serves them: `primitives` asks the running launch (`state`),
//! which checks memory (`memory`, `shared`) by what is known about each word (`shadow`) and about the order of threads
//! (`order`), or lets threads wait for each other (`lanes`, `schedule`). Operations of a warp that are more than an
//! exchange (tensor cores, whose arithmetic is in `matrices`; coming to one of the named `barriers`) are further
//! `Operation`s of the same meetings; to a memory barrier (`mbarriers`) threads come one by one. What they learn at
//! either is in `known`. An asynchronous copy (`copies`) reserves its target when it starts and fills it when its
//! thread waits, or when somebody sees that the phase of its memory barrier is complete; `order` says why that is
//! enough. What belongs to one `block` is kept while the other blocks of its cluster run. A new primitive has a body in
//! `host.rs`, which panics, and one in `primitives`.

mod barriers;
mod block;
mod copies;
mod dim3;
mod fault;
mod known;
mod lanes;
mod launch;
mod matrices;
mod mbarriers;
mod memory;
mod order;
pub(crate) mod primitives;
mod random;
mod schedule;
mod shadow;
mod shared;
mod stacks;
mod state;

pub use dim3::Dim3;
pub use fault::{
    ClusterProblem, Fault, FaultKind, Instead, MbarrierProblem, NamedBarrierProblem, Place, Thread, WarpProblem,
};
pub use launch::Launch;
pub use memory::{Memory, ReadError};
pub use shadow::Access;
