//! The primitives' bodies under the emulator, one for each of those in `host.rs`.

use core::panic::Location;
use core::sync::atomic::{AtomicU32, Ordering};

use super::dim3::Dim3;
use super::fault::FaultKind;
use super::lanes::{Answer, Call, Operation};
use super::matrices::{self, Elements};
use super::memory::Violation;
use super::shadow::Access;
use super::shared::Shared;
use super::state::{self, GiveWay, Onward, State, Stop};
use crate::warp::FULL_MASK;

#[cold]
#[track_caller]
fn outside_a_launch() -> ! {
    panic!("device code called outside a kernel launch")
}

/// Asks the running launch.
#[track_caller]
fn ask<R>(question: impl FnOnce(&State) -> R) -> R {
    match state::with(|state| question(state)) {
        Some(answer) => answer,
        None => outside_a_launch(),
    }
}

/// Does what may be a mistake, and ends the thread if it is one.
#[track_caller]
fn perform<R>(action: impl FnOnce(&mut State) -> Result<R, Violation>) -> R {
    let location = Location::caller();
    match state::with(|state| state.perform(location, action)) {
        Some(Ok(done)) => done,
        Some(Err(stop)) => end(stop),
        None => outside_a_launch(),
    }
}

/// [`perform`] for an access to memory, after which others may be due to run.
#[track_caller]
fn access<R>(action: impl FnOnce(&mut State) -> Result<R, Violation>) -> R {
    let (done, preempted) = perform(|state| {
        let done = action(state)?;
        Ok((done, state.preempt()))
    });
    if preempted {
        give_way();
    }
    done
}

#[cold]
fn end(stop: Stop) -> ! {
    std::panic::resume_unwind(std::boxed::Box::new(stop))
}

/// Lets other threads run until this one is ready again.
fn give_way() {
    let way: *const GiveWay = ask(State::give_way);
    // SAFETY: the running thread's own, which lives on its stack as long as the kernel runs.
    unsafe { (*way).suspend(()) };
}

#[track_caller]
pub(crate) fn thread_idx() -> Dim3 {
    ask(State::thread_idx)
}

#[track_caller]
pub(crate) fn block_idx() -> Dim3 {
    ask(State::block_idx)
}

#[track_caller]
pub(crate) fn block_dim() -> Dim3 {
    ask(State::block_dim)
}

#[track_caller]
pub(crate) fn grid_dim() -> Dim3 {
    ask(State::grid_dim)
}

#[track_caller]
pub(crate) fn sync_threads() {
    let location = Location::caller();
    perform(|state| {
        state.wait_at_barrier(location);
        Ok(())
    });
    give_way();
}

/// Waits at a barrier of the block until so many threads have come.
#[track_caller]
pub(crate) fn sync_named(barrier: u32, threads: u32) {
    come_to_named(Operation::SyncNamed { barrier, threads });
}

/// Comes to a barrier of the block without waiting: but for the other lanes of its warp, which come together.
#[track_caller]
pub(crate) fn arrive_named(barrier: u32, threads: u32) {
    come_to_named(Operation::ArriveNamed { barrier, threads });
}

#[track_caller]
fn come_to_named(operation: Operation) {
    let location = Location::caller();
    if perform(|state| Ok(state.come_to_named(operation, location)?)) == Onward::Waits {
        give_way();
    }
}

/// Waits for all threads of the cluster.
#[track_caller]
pub(crate) fn sync_cluster() {
    let location = Location::caller();
    perform(|state| {
        state.wait_at_cluster(location);
        Ok(())
    });
    give_way();
}

#[track_caller]
pub(crate) fn trap() -> ! {
    perform(|_| Err(FaultKind::Trap.into()))
}

#[track_caller]
pub(crate) fn lane_id() -> u32 {
    ask(State::lane)
}

#[track_caller]
pub(crate) fn sync_warp(mask: u32) {
    meet(Operation::Synchronise, mask, []);
}

/// The lanes of `mask` whose predicate holds, as a bit mask.
#[track_caller]
pub(crate) fn ballot(mask: u32, predicate: bool) -> u32 {
    let [lanes, ..] = meet(Operation::Vote, mask, [predicate.into()]);
    lanes
}

/// Passes `bits` in, and returns the bits that the lane `source` passed in.
#[track_caller]
pub(crate) fn read_lane(mask: u32, bits: u32, source: u32) -> u32 {
    let [bits, ..] = meet(Operation::Exchange, mask, [bits, source]);
    bits
}

/// Passes `value` in, and returns the largest one of the lanes of `mask`.
#[track_caller]
pub(crate) fn maximum(mask: u32, value: u32) -> u32 {
    let [largest, ..] = meet(Operation::Maximum, mask, [value]);
    largest
}

/// Adds the product of the matrices whose elements the lanes of the warp hold to the accumulators.
#[track_caller]
pub(crate) fn multiply_tf32(accumulators: &mut [f32; 4], a: [f32; 4], b: [f32; 2]) {
    multiply(Elements::Tf32, accumulators, a.map(f32::to_bits), b.map(f32::to_bits));
}

/// [`multiply_tf32`] for operands in half precision, two elements in a word.
#[track_caller]
pub(crate) fn multiply_f16(accumulators: &mut [f32; 4], a: [u32; 4], b: [u32; 2]) {
    multiply(Elements::F16, accumulators, a, b);
}

#[track_caller]
fn multiply(elements: Elements, accumulators: &mut [f32; 4], a: [u32; 4], b: [u32; 2]) {
    let offer = matrices::fragments(a, b, *accumulators);
    *accumulators = meet(Operation::Multiply(elements), FULL_MASK, offer).map(f32::from_bits);
}

#[track_caller]
fn meet<const WORDS: usize>(operation: Operation, mask: u32, offer: [u32; WORDS]) -> Answer {
    let call = Call { operation, mask, location: Location::caller() };
    let answer = perform(|state| Ok(state.wait_at_warp(call, offer)?));
    answer.unwrap_or_else(|| {
        give_way();
        ask(State::answer)
    })
}

/// The shared-memory address of a static array; `name` is the same for every thread, and unique.
#[track_caller]
pub fn shared_array(name: &'static str, bytes: usize, align: usize) -> u32 {
    perform(|state| Ok(state.shared_array(name, bytes, align)?))
}

/// The shared-memory address of the part whose size the launch gives.
#[track_caller]
pub(crate) fn dynamic_shared() -> u32 {
    ask(|_| Shared::dynamic_start())
}

#[track_caller]
pub(crate) fn load_shared<T: Copy>(address: u32) -> T {
    access(|state| {
        let (_, shared, actor) = state.memories();
        let place = shared.access(Access::Read, &actor, address, size_of::<T>())?;
        // SAFETY: the bytes are as many as a `T` has, and were written.
        Ok(unsafe { place.as_ptr().cast::<T>().read_unaligned() })
    })
}

#[track_caller]
pub(crate) fn store_shared<T: Copy>(address: u32, value: T) {
    access(|state| {
        let (_, shared, actor) = state.memories();
        let place = shared.access(Access::Write, &actor, address, size_of::<T>())?;
        // SAFETY: the bytes are as many as a `T` has.
        unsafe { place.as_mut_ptr().cast::<T>().write_unaligned(value) };
        Ok(())
    });
}

/// Reads from the shared memory of the cluster's block of that rank.
#[track_caller]
pub(crate) fn load_in_cluster(address: u32, rank: u32) -> [f32; 4] {
    let location = Location::caller();
    access(|state| {
        let place = state.access_in_cluster(Access::Read, address, size_of::<[f32; 4]>(), rank, location)?;
        Ok(bytemuck::pod_read_unaligned(place))
    })
}

/// Writes to the shared memory of the cluster's block of that rank.
#[track_caller]
pub(crate) fn store_in_cluster(address: u32, rank: u32, value: [f32; 4]) {
    let location = Location::caller();
    access(|state| {
        let place = state.access_in_cluster(Access::Write, address, size_of_val(&value), rank, location)?;
        place.copy_from_slice(bytemuck::bytes_of(&value));
        Ok(())
    });
}

/// Starts a copy to shared memory; one that is not valid writes zeros.
#[track_caller]
pub(crate) fn start_copy<const WORDS: usize>(target: u32, source: *const [u32; WORDS], valid: bool) {
    access(|state| {
        let words = if valid {
            let place = global(state, Access::Read, source)?;
            // SAFETY: in bounds of a buffer, aligned and written.
            unsafe { place.read() }
        } else {
            [0; WORDS]
        };
        state.start_copy(target, &words)
    });
}

#[track_caller]
pub(crate) fn commit_copies() {
    perform(|state| {
        state.commit_copies();
        Ok(())
    });
}

/// Waits for the thread's groups of copies, all but the `pending` newest ones.
#[track_caller]
pub(crate) fn wait_for_copies(pending: u32) {
    access(|state| {
        state.complete_copies(pending);
        Ok(())
    });
}

/// Starts a bulk copy to shared memory, which is complete by the barrier at that address. It is checked in pieces of
/// what it is to be a multiple of.
#[track_caller]
pub(crate) fn copy_bulk(target: u32, source: *const u8, bytes: u32, barrier: u32) {
    const PIECE: u32 = size_of::<[u32; 4]>() as u32;
    access(|state| {
        if !bytes.is_multiple_of(PIECE) {
            return Err(FaultKind::BulkSize { bytes }.into());
        }
        let number = state.mbarrier(barrier)?;
        for start in (0..bytes).step_by(PIECE as usize) {
            let piece = source.wrapping_add(start as usize).cast::<[u32; 4]>();
            let place = global(state, Access::Read, piece)?;
            // SAFETY: in bounds of a buffer, aligned and written.
            let words = unsafe { place.read() };
            state.start_bulk_copy(number, target.wrapping_add(start), &words)?;
        }
        state.finish_bulk_copy(number, bytes)
    });
}

/// Makes a memory barrier that expects so many arrivals in each phase.
#[track_caller]
pub(crate) fn init_mbarrier(barrier: u32, arrivals: u32) {
    access(|state| state.init_mbarrier(barrier, arrivals));
}

/// Comes to a memory barrier, whose phase is also to wait for so many bytes of bulk copies.
#[track_caller]
pub(crate) fn arrive_mbarrier(barrier: u32, bytes: u32) {
    access(|state| state.arrive_mbarrier(barrier, bytes));
}

/// Comes to a memory barrier when the thread's copies are complete.
#[track_caller]
pub(crate) fn arrive_mbarrier_after_copies(barrier: u32) {
    access(|state| state.arrive_mbarrier_after_copies(barrier));
}

/// Waits until the phase of that parity is complete.
#[track_caller]
pub(crate) fn wait_at_mbarrier(barrier: u32, parity: u32) {
    let location = Location::caller();
    let gives_way = perform(|state| {
        let onward = state.wait_at_mbarrier(barrier, parity, location)?;
        Ok(onward == Onward::Waits || state.preempt())
    });
    if gives_way {
        give_way();
    }
}

#[track_caller]
pub(crate) fn load<T: Copy>(source: *const T) -> T {
    load_as(Access::Read, source)
}

#[track_caller]
pub(crate) fn load_readonly<T: Copy>(source: *const T) -> T {
    load_as(Access::ReadOnlyLoad, source)
}

#[track_caller]
fn load_as<T: Copy>(kind: Access, source: *const T) -> T {
    access(|state| {
        let place = global(state, kind, source)?;
        // SAFETY: in bounds of a buffer, aligned and written.
        Ok(unsafe { place.read() })
    })
}

#[track_caller]
pub(crate) fn store<T: Copy>(target: *mut T, value: T) {
    access(|state| {
        let place = global(state, Access::Write, target)?;
        // SAFETY: in bounds of a buffer, and aligned.
        unsafe { place.write(value) };
        Ok(())
    });
}

#[track_caller]
pub(crate) fn atomic_add_f32(target: *mut f32, value: f32) {
    atomic(target, |bits| (f32::from_bits(bits) + value).to_bits());
}

#[track_caller]
pub(crate) fn atomic_add_u32(target: *mut u32, value: u32) {
    atomic(target, |old| old.wrapping_add(value));
}

#[track_caller]
fn atomic<T>(target: *mut T, change: impl FnMut(u32) -> u32) {
    access(|state| {
        let place = global(state, Access::Atomic, target)?.cast::<u32>();
        // SAFETY: in bounds of a buffer and aligned; this host thread has the buffer to itself.
        let word = unsafe { AtomicU32::from_ptr(place) };
        word.update(Ordering::Relaxed, Ordering::Relaxed, change);
        Ok(())
    });
}

/// Checks an access to global memory, and yields the pointer to make it with.
fn global<T>(state: &mut State, access: Access, pointer: *const T) -> Result<*mut T, Violation> {
    let (memory, _, actor) = state.memories();
    memory.access(access, &actor, pointer.addr(), size_of::<T>()).map(<*mut u8>::cast)
}
