//! Kernels of the textbooks, which are right: the emulator finds nothing, and they compute what they should, in any
//! order.

use cuda_std::emulator::{Dim3, Fault, Launch, Memory};
use cuda_std::shared::dynamic_shared_mem;
use cuda_std::{atomic, kernel, mem, shared_array, thread, warp};

/// Runs a test in the natural order, and in random ones.
fn in_any_order(test: impl Fn(&dyn Fn(Launch) -> Launch)) {
    test(&|launch| launch);
    for seed in 0..20 {
        test(&|launch| launch.seed(seed));
    }
}

fn numbers(count: usize) -> Vec<f32> {
    (0..count).map(|number| number as f32).collect()
}

shared_array! {
    static PARTIAL_SUMS: [f32; 256];
}

/// Sums up 256 values per block, by halving.
///
/// # Safety
/// `input` is valid for 256 values per block, `sums` for one per block; blocks have 256 threads.
#[kernel(launch_bounds(256))]
unsafe fn reduce_block(input: *const f32, sums: *mut f32) {
    let (thread, block) = (thread::thread_idx_x(), thread::block_idx_x());
    let mine = PARTIAL_SUMS.as_ptr().add(thread);
    // SAFETY: the indices are within the arrays, and barriers are between writes and reads.
    unsafe {
        mine.store(mem::load_readonly(input.add((block * 256 + thread) as usize)));
        let mut count = 128;
        while count > 0 {
            thread::sync_threads();
            if thread < count {
                mine.store(mine.load() + mine.add(count).load());
            }
            count /= 2;
        }
        if thread == 0 {
            mem::store(sums.add(block as usize), mine.load());
        }
    }
}

#[test]
fn block_reduction() {
    in_any_order(|order| {
        let mut memory = Memory::new();
        let input = memory.read_only("input", &numbers(1024));
        let sums = memory.uninitialised::<f32>("sums", 4);
        let launch = order(Launch::new(4, 256));
        // SAFETY: the buffers and the extents are as the kernel asks.
        let kernel = || unsafe { reduce_block(input, sums) };
        launch.run(&mut memory, "reduce_block", kernel).unwrap();
        assert_eq!(memory.values(sums).unwrap(), [32640.0, 98176.0, 163712.0, 229248.0]);
    });
}

/// Sums up 32 values per warp, without memory.
///
/// # Safety
/// `input` is valid for a value per thread, `sums` for one per warp; warps are full.
#[kernel]
unsafe fn reduce_warp(input: *const f32, sums: *mut f32) {
    let index = thread::thread_idx_x();
    // SAFETY: the caller's promise; all lanes take part.
    unsafe {
        let mut sum: f32 = mem::load_readonly(input.add(index as usize));
        for delta in [16, 8, 4, 2, 1] {
            sum += warp::warp_shuffle_down(warp::FULL_MASK, sum, delta);
        }
        if warp::lane_id() == 0 {
            mem::store(sums.add(warp::warp_id() as usize), sum);
        }
    }
}

#[test]
fn warp_reduction() {
    in_any_order(|order| {
        let mut memory = Memory::new();
        let input = memory.read_only("input", &numbers(96));
        let sums = memory.uninitialised::<f32>("sums", 3);
        // SAFETY: the buffers and the extents are as the kernel asks.
        let kernel = || unsafe { reduce_warp(input, sums) };
        order(Launch::new(1, 96)).run(&mut memory, "reduce_warp", kernel).unwrap();
        assert_eq!(memory.values(sums).unwrap(), [496.0, 1520.0, 2544.0]);
    });
}

/// Each lane's view of its warp: a butterfly sum, the next lane's number, and votes.
///
/// # Safety
/// `out` is valid for four values per thread, and warps are full.
#[kernel]
unsafe fn lanes(out: *mut [u32; 4]) {
    let lane = warp::lane_id();
    // SAFETY: the caller's promise; all lanes take part.
    unsafe {
        let mut sum = lane;
        for bit in [1, 2, 4, 8, 16] {
            sum += warp::warp_shuffle_xor(warp::FULL_MASK, sum, bit);
        }
        let next = warp::warp_shuffle_idx(warp::FULL_MASK, lane, lane + 1);
        let odd = warp::warp_vote_ballot(warp::FULL_MASK, lane % 2 == 1);
        let any = warp::warp_vote_any(warp::FULL_MASK, lane == 7);
        let all = warp::warp_vote_all(warp::FULL_MASK, lane != 7);
        mem::store(out.add(lane as usize), [sum, next, odd, u32::from(any) << 1 | u32::from(all)]);
    }
}

#[test]
fn shuffles_and_votes() {
    in_any_order(|order| {
        let mut memory = Memory::new();
        let out = memory.uninitialised::<[u32; 4]>("out", 32);
        // SAFETY: the buffers and the extents are as the kernel asks.
        let kernel = || unsafe { lanes(out) };
        order(Launch::new(1, 32)).run(&mut memory, "lanes", kernel).unwrap();
        let expected = |lane: u32| [496, (lane + 1) % 32, 0xaaaa_aaaa, 0b10];
        assert_eq!(memory.values(out).unwrap(), (0..32).map(expected).collect::<Vec<_>>());
    });
}

/// The largest value of the even lanes, and of the odd ones, for each lane.
///
/// # Safety
/// `values` is valid for a value per thread, `out` for two, and warps are full.
#[kernel]
unsafe fn maxima(values: *const u32, out: *mut [u32; 2]) {
    let index = thread::thread_idx_x() as usize;
    // SAFETY: the caller's promise; all lanes of each mask take part.
    unsafe {
        let value = mem::load_readonly(values.add(index));
        let of_parity = if index.is_multiple_of(2) {
            warp::warp_reduce_max(0x5555_5555, value)
        } else {
            warp::warp_reduce_max(0xaaaa_aaaa, value)
        };
        mem::store(out.add(index), [of_parity, warp::warp_reduce_max(warp::FULL_MASK, value)]);
    }
}

#[test]
fn maxima_are_of_unsigned_numbers() {
    // As signed numbers those of the first warp's odd lanes would be the lowest ones.
    let value = |thread: u32| if thread < 32 && thread % 2 == 1 { u32::MAX - thread } else { 100 - thread };
    in_any_order(|order| {
        let mut memory = Memory::new();
        let values = memory.read_only("values", &(0..64).map(value).collect::<Vec<_>>());
        let out = memory.uninitialised::<[u32; 2]>("out", 64);
        // SAFETY: the buffers and the extents are as the kernel asks.
        let kernel = || unsafe { maxima(values, out) };
        order(Launch::new(1, 64)).run(&mut memory, "maxima", kernel).unwrap();
        let expected = |thread: u32| match (thread / 32, thread % 2) {
            (0, 0) => [100, u32::MAX - 1],
            (0, _) => [u32::MAX - 1; 2],
            (_, 0) => [68; 2],
            (..) => [67, 68],
        };
        assert_eq!(memory.values(out).unwrap(), (0..64).map(expected).collect::<Vec<_>>());
    });
}

/// Counts values, first per bin and then for the halves of all bins.
///
/// # Safety
/// `values` is valid for a value per thread, each below 8; `bins` for 8 counts, `total` for one.
#[kernel]
unsafe fn histogram(values: *const u32, bins: *mut u32, total: *mut f32) {
    let index = thread::block_idx_x() * thread::block_dim_x() + thread::thread_idx_x();
    // SAFETY: the caller's promise.
    unsafe {
        let value: u32 = mem::load_readonly(values.add(index as usize));
        atomic::add_u32(bins.add(value as usize), 1);
        atomic::add_f32(total, value as f32);
    }
}

#[test]
fn histogram_with_atomics() {
    in_any_order(|order| {
        let mut memory = Memory::new();
        let content: Vec<u32> = (0..192).map(|number| number * number % 8).collect();
        let values = memory.read_only("values", &content);
        let bins = memory.read_write("bins", &[0u32; 8]);
        let total = memory.read_write("total", &[0.0f32]);
        let launch = order(Launch::new(3, 64));
        // SAFETY: the buffers and the extents are as the kernel asks.
        let kernel = || unsafe { histogram(values, bins, total) };
        launch.run(&mut memory, "histogram", kernel).unwrap();
        assert_eq!(memory.values(bins).unwrap(), [48, 96, 0, 0, 48, 0, 0, 0]);
        assert_eq!(memory.values(total).unwrap(), [288.0]);
    });
}

const TILE: u32 = 8;

/// Transposes a matrix by tiles, in dynamic shared memory.
///
/// # Safety
/// `input` is valid for `height` times `width` values, and `output` too. Blocks are tiles, and have shared memory for
/// one with a padding of one value per row.
#[kernel]
unsafe fn transpose(input: *const f32, output: *mut f32, width: u32, height: u32) {
    let tile = dynamic_shared_mem::<f32>();
    let (x, y) = (thread::thread_idx_x(), thread::thread_idx_y());
    let (left, top) = (thread::block_idx_x() * TILE, thread::block_idx_y() * TILE);
    // SAFETY: inside the matrices by the comparisons, inside the tile by the block's extent; the barrier orders.
    unsafe {
        if left + x < width && top + y < height {
            let value = mem::load_readonly(input.add(((top + y) * width + left + x) as usize));
            tile.add(y * (TILE + 1) + x).store(value);
        }
        thread::sync_threads();
        if left + y < width && top + x < height {
            let value = tile.add(x * (TILE + 1) + y).load();
            mem::store(output.add(((left + y) * height + top + x) as usize), value);
        }
    }
}

fn run_transpose(shared_bytes: usize, order: &dyn Fn(Launch) -> Launch) -> Result<(), Box<Fault>> {
    let (width, height) = (19, 13);
    let mut memory = Memory::new();
    let input = memory.read_only("input", &numbers(19 * 13));
    let output = memory.uninitialised::<f32>("output", 19 * 13);
    let launch = order(Launch::new((3, 2), (TILE, TILE)).shared_bytes(shared_bytes));
    // SAFETY: the buffers and the extents are as the kernel asks.
    let kernel = || unsafe { transpose(input, output, width, height) };
    launch.run(&mut memory, "transpose", kernel)?;
    let expected: Vec<f32> = (0..19).flat_map(|x| (0..13).map(move |y| (y * 19 + x) as f32)).collect();
    assert_eq!(memory.values(output).unwrap(), expected);
    Ok(())
}

#[test]
fn transpose_through_dynamic_shared_memory() {
    in_any_order(|order| run_transpose(8 * 9 * 4 - 4, order).unwrap());
    assert!(run_transpose(8 * 9 * 4 - 8, &|launch| launch).is_err());
}

/// Writes down where each thread is.
///
/// # Safety
/// `out` is valid for a value per thread of the grid.
#[kernel]
unsafe fn whereabouts(out: *mut [u32; 2]) {
    let block = (thread::block_idx_z() * thread::grid_dim_y() + thread::block_idx_y()) * thread::grid_dim_x()
        + thread::block_idx_x();
    let threads = thread::block_dim_x() * thread::block_dim_y() * thread::block_dim_z();
    let index = block * threads + thread::index_in_block();
    let digits = thread::block_idx_z() * 10 + thread::thread_idx_z();
    // SAFETY: the index is below the number of threads.
    unsafe { mem::store(out.add(index as usize), [digits, warp::warp_id() * 100 + warp::lane_id()]) };
}

#[test]
fn grids_and_blocks_of_three_axes() {
    in_any_order(|order| {
        let mut memory = Memory::new();
        let out = memory.uninitialised::<[u32; 2]>("out", 12 * 40);
        let launch = order(Launch::new((2, 3, 2), (4, 5, 2)));
        // SAFETY: the buffers and the extents are as the kernel asks.
        let kernel = || unsafe { whereabouts(out) };
        launch.run(&mut memory, "whereabouts", kernel).unwrap();
        let expected = |index: u32| {
            let (block, thread) = (index / 40, index % 40);
            [block / 6 * 10 + thread / 20, thread / 32 * 100 + thread % 32]
        };
        assert_eq!(memory.values(out).unwrap(), (0..480).map(expected).collect::<Vec<_>>());
    });
}

#[test]
fn kernels_run_by_their_entries() {
    let mut memory = Memory::new();
    let mut input = memory.read_only("input", &numbers(256));
    let mut sums = memory.uninitialised::<f32>("sums", 1);
    let arguments = [(&raw mut input).cast(), (&raw mut sums).cast()];
    let entry = cuda_std::entry::find(&[&REDUCE_WARP_ENTRY, &REDUCE_BLOCK_ENTRY], "reduce_block").unwrap();
    let launch = Launch::new(Dim3 { x: 1, y: 1, z: 1 }, 256);
    // SAFETY: the arguments are those of the kernel.
    unsafe { launch.run_entry(&mut memory, entry, &arguments) }.unwrap();
    assert_eq!(memory.values(sums).unwrap(), [32640.0]);
}
