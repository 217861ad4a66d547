//! Clusters: blocks that wait for each other and reach each other's shared memory.

use cuda_std::emulator::{Access, ClusterProblem, Dim3, FaultKind, Instead, Launch, MbarrierProblem, Memory};
use cuda_std::mbarrier::Mbarrier;
use cuda_std::shared::{SharedPtr, dynamic_shared_mem};
use cuda_std::{async_copy, cluster, kernel, mem, shared_array, thread, warp};

/// Threads in each block: the last warp is not full.
const THREADS: u32 = 40;

/// The natural order, and random ones.
fn orders(launch: &Launch) -> impl Iterator<Item = Launch> {
    let seeded = |seed| launch.clone().seed(seed);
    [launch.clone()].into_iter().chain((0..20).map(seeded))
}

/// Two clusters of so many blocks.
fn two_clusters(blocks: u32) -> Launch {
    Launch::new(2 * blocks, THREADS).cluster(blocks)
}

/// Runs a kernel without arguments in all orders.
fn in_any_order(launch: &Launch, kernel: unsafe fn()) -> Vec<Result<(), FaultKind>> {
    // SAFETY: the emulator checks every access.
    let run = |launch: Launch| launch.run(&mut Memory::new(), "kernel", || unsafe { kernel() });
    orders(launch).map(|launch| run(launch).map_err(|fault| fault.kind)).collect()
}

fn assert_right(launch: &Launch, kernel: unsafe fn()) {
    for outcome in in_any_order(launch, kernel) {
        assert_eq!(outcome, Ok(()));
    }
}

fn assert_fault(launch: &Launch, kernel: unsafe fn(), fault: &FaultKind) {
    for outcome in in_any_order(launch, kernel) {
        assert_eq!(outcome.as_ref(), Err(fault));
    }
}

fn assert_race(launch: &Launch, kernel: unsafe fn()) {
    for outcome in in_any_order(launch, kernel) {
        assert!(matches!(outcome, Err(FaultKind::Race { .. })), "{outcome:?}");
    }
}

shared_array! {
    static OWN: [[f32; 4]; 40];
}

shared_array! {
    static BROUGHT: [[f32; 4]; 40];
}

/// The thread's place in an array, in whichever block.
fn place(array: SharedPtr<[f32; 4]>) -> SharedPtr<[f32; 4]> {
    array.add(thread::thread_idx_x())
}

/// A value of its own for each thread of a block, by the block's number.
fn value(block: u32) -> [f32; 4] {
    [block as f32, thread::thread_idx_x() as f32, 0.5, -1.0]
}

/// The first block of the cluster, and the rank of this one.
fn cluster_and_rank(blocks: u32) -> (u32, u32) {
    let rank = thread::block_idx_x() % blocks;
    (thread::block_idx_x() - rank, rank)
}

/// Each block reads what the next one of its cluster has written, and brings the one before it that.
///
/// # Safety
/// Clusters have so many blocks. `seen` is valid for two values for each thread.
#[kernel]
unsafe fn exchange(blocks: u32, seen: *mut [f32; 4]) {
    let (first, rank) = cluster_and_rank(blocks);
    let (next, before) = ((rank + 1) % blocks, (rank + blocks - 1) % blocks);
    let index = thread::block_idx_x() * thread::block_dim_x() + thread::thread_idx_x();
    // SAFETY: the places exist, and the barrier is between writes and reads, and before the end.
    unsafe {
        place(OWN.as_ptr()).store(value(thread::block_idx_x()));
        cluster::sync_cluster();
        let read = cluster::load(place(OWN.as_ptr()), next);
        assert_eq!(read, value(first + next));
        cluster::store(place(BROUGHT.as_ptr()), before, read);
        cluster::sync_cluster();
        mem::store(seen.add(2 * index as usize), read);
        mem::store(seen.add(2 * index as usize + 1), place(BROUGHT.as_ptr()).load());
    }
}

#[test]
fn blocks_of_a_cluster_exchange_data_in_both_directions() {
    for blocks in [1, 2, 4, 8] {
        for launch in orders(&two_clusters(blocks)) {
            let mut memory = Memory::new();
            let seen = memory.uninitialised::<[f32; 4]>("seen", (2 * 2 * blocks * THREADS) as usize);
            // SAFETY: the emulator checks every access.
            launch.run(&mut memory, "exchange", || unsafe { exchange(blocks, seen) }).unwrap();
            for (place, seen) in (0..).zip(memory.values(seen).unwrap()) {
                let (block, thread, is_brought) = (place / 2 / THREADS, place / 2 % THREADS, place % 2 == 1);
                let (first, rank) = (block - block % blocks, block % blocks);
                // The block after this one has brought what it has read from the one after itself.
                let source = if is_brought { rank + 2 } else { rank + 1 };
                assert_eq!(seen[..2], [(first + source % blocks) as f32, thread as f32]);
            }
        }
    }
}

/// Sums over the blocks of a cluster, round by round: all add up what all have.
///
/// # Safety
/// Clusters have so many blocks, and blocks 16 bytes of dynamic shared memory for each thread. `sums` is valid for a
/// value for each thread.
#[kernel]
unsafe fn add_up(blocks: u32, rounds: u32, sums: *mut f32) {
    let own = place(dynamic_shared_mem());
    let index = thread::block_idx_x() * thread::block_dim_x() + thread::thread_idx_x();
    let mut value = thread::block_idx_x() as f32;
    // SAFETY: the places exist, and the barrier is between writes and reads, and before the end.
    unsafe {
        for _ in 0..rounds {
            own.store([value; 4]);
            cluster::sync_cluster();
            value = (0..blocks).map(|rank| cluster::load(own, rank)[3]).sum();
            cluster::sync_cluster();
        }
        mem::store(sums.add(index as usize), value);
    }
}

#[test]
fn rounds_follow_each_other() {
    for launch in orders(&Launch::new(12, THREADS).cluster(4).shared_bytes(16 * THREADS as usize)) {
        let mut memory = Memory::new();
        let sums = memory.uninitialised::<f32>("sums", 12 * THREADS as usize);
        // SAFETY: the emulator checks every access.
        launch.run(&mut memory, "add_up", || unsafe { add_up(4, 3, sums) }).unwrap();
        for (block, sums) in memory.values(sums).unwrap().chunks(THREADS as usize).enumerate() {
            let cluster: f32 = [6.0, 22.0, 38.0][block / 4];
            assert!(sums.iter().all(|&sum| sum == cluster * 16.0));
        }
    }
}

/// The blocks of a cluster come upon two arrays in different orders.
///
/// # Safety
/// Clusters of two blocks.
#[kernel]
unsafe fn meet_arrays_in_different_orders() {
    let (_, rank) = cluster_and_rank(2);
    let (mine, other) = match rank {
        0 => (OWN.as_ptr(), BROUGHT.as_ptr()),
        _ => (BROUGHT.as_ptr(), OWN.as_ptr()),
    };
    // SAFETY: the places exist, and the barrier is between writes and reads, and before the end.
    unsafe {
        place(mine).store(value(rank));
        cluster::sync_cluster();
        assert_eq!(cluster::load(place(other), 1 - rank), value(1 - rank));
        cluster::sync_cluster();
    }
}

#[test]
fn arrays_have_the_same_address_in_all_blocks_of_a_cluster() {
    assert_right(&two_clusters(2), meet_arrays_in_different_orders);
}

/// Some threads return at once, and whole blocks do, the first of a cluster among them. The others exchange data.
///
/// # Safety
/// Clusters of four blocks.
#[kernel]
unsafe fn return_early() {
    let (_, rank) = cluster_and_rank(4);
    if rank % 2 == 0 || thread::thread_idx_x().is_multiple_of(3) {
        return;
    }
    // SAFETY: the places exist, and the barrier is between writes and reads, and before the end.
    unsafe {
        place(OWN.as_ptr()).store(value(rank));
        cluster::sync_cluster();
        assert_eq!(cluster::load(place(OWN.as_ptr()), 4 - rank), value(4 - rank));
        cluster::sync_cluster();
    }
}

#[test]
fn threads_that_have_returned_count_as_having_come() {
    assert_right(&two_clusters(4), return_early);
}

/// Blocks come to the barrier at different calls, and to others of their own before.
///
/// # Safety
/// Clusters of two blocks.
#[kernel]
unsafe fn come_at_different_calls() {
    let (_, rank) = cluster_and_rank(2);
    // SAFETY: all threads of the block come to its barrier, and those of the cluster come to its own twice.
    unsafe {
        place(OWN.as_ptr()).store(value(rank));
        if rank == 0 {
            cluster::sync_cluster();
            assert_eq!(cluster::load(OWN.as_ptr().add(3), 1)[0], 1.0);
            cluster::sync_cluster();
        } else {
            for _ in 0..5 {
                thread::sync_threads();
            }
            cluster::sync_cluster();
            cluster::sync_cluster();
        }
    }
}

#[test]
fn blocks_may_come_to_the_barrier_at_different_calls() {
    assert_right(&two_clusters(2), come_at_different_calls);
}

/// Each thread writes its value and reads that of another warp.
///
/// # Safety
/// None.
#[kernel]
unsafe fn exchange_in_block() {
    let other = (thread::thread_idx_x() + 32) % THREADS;
    // SAFETY: the places exist, and the barrier is between writes and reads.
    unsafe {
        for _ in 0..2 {
            place(OWN.as_ptr()).store(value(0));
            cluster::sync_cluster();
            assert_eq!(OWN.as_ptr().add(other).load()[1], other as f32);
            cluster::sync_cluster();
        }
    }
}

#[test]
fn the_barrier_orders_the_threads_of_a_block_as_well() {
    assert_right(&Launch::new(2, THREADS), exchange_in_block);
    assert_right(&two_clusters(2), exchange_in_block);
}

/// Each block brings words by copies that are under way at the barrier of the cluster, some completed by a memory
/// barrier and some waited for; the other block reads them.
///
/// # Safety
/// Clusters of two blocks. `words` is valid for a value for each thread.
#[kernel]
unsafe fn copy_across_barriers(words: *const [u32; 4]) {
    let (_, rank) = cluster_and_rank(2);
    let (own, brought) = (place(OWN.as_ptr()).cast(), place(BROUGHT.as_ptr()).cast());
    let full = Mbarrier::at(dynamic_shared_mem());
    // SAFETY: the places exist; barriers of either kind are between writes and reads.
    unsafe {
        if thread::thread_idx_x() == 0 {
            full.init(THREADS);
        }
        thread::sync_threads();
        let source = words.add(thread::thread_idx_x() as usize);
        async_copy::copy_16(own, source, true);
        full.arrive_after_copies();
        async_copy::copy_16(brought, source, true);
        async_copy::commit_group();
        cluster::sync_cluster();
        full.wait(0);
        async_copy::wait_group::<0>();
        cluster::sync_cluster();
        for array in [OWN.as_ptr(), BROUGHT.as_ptr()] {
            let [word, ..] = cluster::load(place(array), 1 - rank);
            assert_eq!(word.to_bits(), thread::thread_idx_x());
        }
        cluster::sync_cluster();
    }
}

#[test]
fn copies_and_memory_barriers_remain_while_other_blocks_run() {
    for launch in orders(&two_clusters(2).shared_bytes(8)) {
        let mut memory = Memory::new();
        let words: Vec<[u32; 4]> = (0..THREADS).map(|word| [word; 4]).collect();
        let words = memory.read_only("words", &words);
        // SAFETY: the emulator checks every access.
        launch.run(&mut memory, "copy_across_barriers", || unsafe { copy_across_barriers(words) }).unwrap();
    }
}

/// The first thread of the first block reads from a place of a block; all wait before and afterwards.
unsafe fn read_there(place: SharedPtr<[f32; 4]>, rank: u32) {
    // SAFETY: all threads of the cluster come.
    unsafe {
        cluster::sync_cluster();
        if (thread::block_idx_x(), thread::thread_idx_x()) == (0, 0) {
            let _ = cluster::load(place, rank);
        }
        cluster::sync_cluster();
    }
}

/// # Safety
/// Wrong: only one of the words of the value was written.
#[kernel]
unsafe fn read_unwritten() {
    // SAFETY: wrong on purpose.
    unsafe {
        if thread::thread_idx_x() == 7 {
            OWN.as_ptr().cast::<f32>().store(1.0);
        }
        read_there(OWN.as_ptr(), 1);
    }
}

/// # Safety
/// Wrong: the place is behind the array's end.
#[kernel]
unsafe fn read_out_of_bounds() {
    // SAFETY: wrong on purpose.
    unsafe { read_there(OWN.as_ptr().add(THREADS), 1) };
}

/// # Safety
/// Wrong: the place is not aligned.
#[kernel]
unsafe fn read_misaligned() {
    // SAFETY: wrong on purpose.
    unsafe { read_there(OWN.as_ptr().cast::<f32>().add(1).cast(), 1) };
}

/// # Safety
/// Wrong: there is a memory barrier.
#[kernel]
unsafe fn read_barrier() {
    // SAFETY: wrong on purpose.
    unsafe {
        if thread::thread_idx_x() == 7 {
            Mbarrier::at(OWN.as_ptr().cast()).init(1);
        }
        read_there(OWN.as_ptr(), 1);
    }
}

#[test]
fn accesses_to_other_blocks_are_checked() {
    let launch = two_clusters(2);
    for outcome in in_any_order(&launch, read_unwritten) {
        let Err(FaultKind::Uninitialised { access: Access::Read, place }) = outcome else { panic!("{outcome:?}") };
        assert_eq!((place.buffer.as_str(), place.offset, place.shared), ("OWN", 4, true));
    }
    for outcome in in_any_order(&launch, read_out_of_bounds) {
        let Err(FaultKind::OutOfBounds { near: Some((place, bytes)), .. }) = outcome else { panic!("{outcome:?}") };
        assert_eq!((place.buffer.as_str(), place.offset, bytes), ("OWN", 640, 640));
    }
    for outcome in in_any_order(&launch, read_misaligned) {
        assert!(matches!(outcome, Err(FaultKind::Misaligned { bytes: 16, .. })), "{outcome:?}");
    }
    let problem = MbarrierProblem::Accessed { access: Access::Read };
    for outcome in in_any_order(&launch, read_barrier) {
        assert!(matches!(outcome, Err(FaultKind::Mbarrier { problem: found, .. }) if found == problem), "{outcome:?}");
    }
}

/// # Safety
/// Wrong in clusters of two blocks.
#[kernel]
unsafe fn read_outside() {
    // SAFETY: wrong on purpose.
    unsafe {
        place(OWN.as_ptr()).store(value(0));
        read_there(OWN.as_ptr(), 2);
    }
}

/// # Safety
/// Wrong: the other block may not have begun.
#[kernel]
unsafe fn write_at_once() {
    let (_, rank) = cluster_and_rank(2);
    // SAFETY: wrong on purpose.
    unsafe {
        if rank == 1 {
            cluster::store(place(OWN.as_ptr()), 0, value(0));
        }
        cluster::sync_cluster();
    }
}

/// # Safety
/// Wrong: the other block may end before.
#[kernel]
unsafe fn write_at_last() {
    let (_, rank) = cluster_and_rank(2);
    // SAFETY: wrong on purpose.
    unsafe {
        cluster::sync_cluster();
        if rank == 1 {
            cluster::store(place(OWN.as_ptr()), 0, value(0));
        }
    }
}

/// # Safety
/// Wrong: the other block has ended.
#[kernel]
unsafe fn write_too_late() {
    let (_, rank) = cluster_and_rank(2);
    // SAFETY: wrong on purpose.
    unsafe {
        cluster::sync_cluster();
        if rank == 1 {
            cluster::sync_cluster();
            cluster::store(place(OWN.as_ptr()), 0, value(0));
        }
    }
}

#[test]
fn the_other_block_is_there() {
    let fault = |rank, problem| FaultKind::Cluster { rank, problem };
    let launch = two_clusters(2);
    assert_fault(&launch, read_outside, &fault(2, ClusterProblem::NoSuchBlock { blocks: 2 }));
    assert_right(&two_clusters(4), read_outside);
    assert_fault(&launch, write_at_once, &fault(0, ClusterProblem::NotBegun));
    assert_fault(&launch, write_at_last, &fault(0, ClusterProblem::Ended));
    assert_fault(&launch, write_too_late, &fault(0, ClusterProblem::Ended));
}

#[test]
fn an_access_to_a_block_that_ends_is_reported_where_it_is() {
    for launch in orders(&Launch::new(2, 1).cluster(2)) {
        // SAFETY: the emulator checks every access.
        let fault = launch.run(&mut Memory::new(), "write_at_last", || unsafe { write_at_last() }).unwrap_err();
        assert_eq!(fault.thread.unwrap().block.x, 1);
        assert!(fault.location.unwrap().file().ends_with("emulator_clusters.rs"));
    }
}

/// # Safety
/// Wrong: nothing is between the write there and the read here.
#[kernel]
unsafe fn write_there_and_read() {
    let (_, rank) = cluster_and_rank(2);
    // SAFETY: wrong on purpose.
    unsafe {
        place(OWN.as_ptr()).store(value(rank));
        cluster::sync_cluster();
        cluster::store(place(OWN.as_ptr()), 1 - rank, value(rank));
        let _ = place(OWN.as_ptr()).load();
        cluster::sync_cluster();
    }
}

/// # Safety
/// Wrong: nothing is between the read there and the write here.
#[kernel]
unsafe fn read_there_and_write() {
    let (_, rank) = cluster_and_rank(2);
    // SAFETY: wrong on purpose.
    unsafe {
        place(OWN.as_ptr()).store(value(rank));
        cluster::sync_cluster();
        let _ = cluster::load(place(OWN.as_ptr()), 1 - rank);
        place(OWN.as_ptr()).store(value(rank));
        cluster::sync_cluster();
    }
}

/// # Safety
/// Wrong: a barrier of the block does not order others.
#[kernel]
unsafe fn write_there_and_synchronise_here() {
    let (_, rank) = cluster_and_rank(2);
    // SAFETY: wrong on purpose.
    unsafe {
        place(OWN.as_ptr()).store(value(rank));
        cluster::sync_cluster();
        cluster::store(place(OWN.as_ptr()), 1 - rank, value(rank));
        thread::sync_threads();
        let _ = place(OWN.as_ptr()).load();
        cluster::sync_cluster();
    }
}

/// # Safety
/// Wrong in clusters of more than two blocks: several of them write there.
#[kernel]
unsafe fn all_write_to_the_first() {
    let (_, rank) = cluster_and_rank(thread::grid_dim_x());
    // SAFETY: wrong on purpose.
    unsafe {
        cluster::sync_cluster();
        if rank != 0 {
            cluster::store(place(OWN.as_ptr()), 0, value(rank));
        }
        cluster::sync_cluster();
    }
}

#[test]
fn blocks_of_a_cluster_are_ordered_by_its_barrier_only() {
    for kernel in [write_there_and_read, read_there_and_write, write_there_and_synchronise_here] {
        assert_race(&two_clusters(2), kernel);
    }
    assert_race(&Launch::new(4, THREADS).cluster(4), all_write_to_the_first);
    assert_right(&Launch::new(2, THREADS).cluster(2), all_write_to_the_first);
}

/// The first block writes a word and the last one reads it: after the barrier of the cluster.
///
/// # Safety
/// `word` is valid for a number.
#[kernel]
unsafe fn pass_on(word: *mut u32) {
    let (block, thread) = (thread::block_idx_x(), thread::thread_idx_x());
    // SAFETY: the caller's promise; all threads of the cluster come to the barrier.
    unsafe {
        if (block, thread) == (0, 0) {
            mem::store(word, 1);
        }
        cluster::sync_cluster();
        if (block, thread) == (thread::grid_dim_x() - 1, 1) {
            assert_eq!(mem::load(word), 1);
        }
    }
}

#[test]
fn the_barrier_of_a_cluster_orders_global_memory_within_it() {
    let outcome = |launch: Launch| {
        let mut memory = Memory::new();
        let word = memory.read_write("word", &[1u32]);
        // SAFETY: the emulator checks every access.
        launch.run(&mut memory, "pass_on", || unsafe { pass_on(word) }).map_err(|fault| fault.kind)
    };
    for launch in orders(&Launch::new(4, 2)) {
        assert_eq!(outcome(launch.clone().cluster(4)), Ok(()));
        let race = outcome(launch.cluster(2));
        assert!(matches!(race, Err(FaultKind::Race { other_block: Dim3 { x: 0 | 3, .. }, .. })), "{race:?}");
    }
}

#[test]
fn grids_are_whole_clusters() {
    let outcome = |grid: (u32, u32), cluster| {
        let outcome = Launch::new(grid, 1).cluster(cluster).run(&mut Memory::new(), "nothing", || ());
        outcome.map_err(|fault| fault.to_string())
    };
    for (grid, cluster) in [((6, 1), 2), ((6, 1), 1), ((8, 2), 8), ((2, 2), 4)] {
        assert_eq!(outcome(grid, cluster), Ok(()));
    }
    assert!(outcome((6, 1), 4).unwrap_err().contains("a grid of 6 blocks has no whole number of clusters of 4"));
    assert!(outcome((9, 1), 9).unwrap_err().contains("no cluster can have 9 blocks"));
    assert!(outcome((9, 1), 0).unwrap_err().contains("no cluster can have 0 blocks"));
}

/// In one block of a cluster, the first warp waits elsewhere.
unsafe fn wait_elsewhere(wait: impl Fn()) {
    if thread::block_idx_x() == 1 && thread::thread_idx_x() < 32 {
        wait();
    }
    // SAFETY: wrong on purpose.
    unsafe { cluster::sync_cluster() };
}

/// # Safety
/// Wrong: others wait for the cluster.
#[kernel]
unsafe fn wait_for_the_block() {
    // SAFETY: wrong on purpose.
    unsafe { wait_elsewhere(|| thread::sync_threads()) };
}

/// # Safety
/// Wrong: others wait for the cluster.
#[kernel]
unsafe fn wait_at_a_named_barrier() {
    // SAFETY: wrong on purpose.
    unsafe { wait_elsewhere(|| thread::sync_named(1, 64)) };
}

/// # Safety
/// Wrong: nobody arrives.
#[kernel]
unsafe fn wait_at_a_memory_barrier() {
    let barrier = Mbarrier::at(OWN.as_ptr().cast());
    // SAFETY: wrong on purpose.
    unsafe {
        if thread::thread_idx_x() == 0 {
            barrier.init(1);
        }
        thread::sync_threads();
        wait_elsewhere(|| barrier.wait(0));
    }
}

/// # Safety
/// Wrong: half of the warp waits for the cluster.
#[kernel]
unsafe fn wait_for_the_warp() {
    let wait = || {
        if thread::thread_idx_x() < 16 {
            // SAFETY: wrong on purpose.
            unsafe { warp::sync_warp(warp::FULL_MASK) };
        }
    };
    // SAFETY: wrong on purpose.
    unsafe { wait_elsewhere(wait) };
}

#[test]
fn deadlocks_are_reported() {
    let launch = Launch::new(2, 64).cluster(2);
    for outcome in in_any_order(&launch, wait_for_the_block) {
        let Err(FaultKind::Barrier { other, instead: Instead::Waits(_) }) = outcome else { panic!("{outcome:?}") };
        assert_eq!(other, Dim3 { x: 32, y: 0, z: 0 });
    }
    for outcome in in_any_order(&launch, wait_at_a_named_barrier) {
        assert!(matches!(outcome, Err(FaultKind::NamedBarrier { .. })), "{outcome:?}");
    }
    for outcome in in_any_order(&launch, wait_at_a_memory_barrier) {
        assert!(matches!(outcome, Err(FaultKind::Mbarrier { .. })), "{outcome:?}");
    }
    for outcome in in_any_order(&launch, wait_for_the_warp) {
        assert!(matches!(outcome, Err(FaultKind::Warp { mask: u32::MAX, .. })), "{outcome:?}");
    }
}
