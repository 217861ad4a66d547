//! Tensor cores: which lane holds which element, what is rounded, and who has to come.

use cuda_std::emulator::{FaultKind, Instead, Launch, Memory, WarpProblem};
use cuda_std::{kernel, mem, tensor_core, warp};

const ROWS: usize = 16;
const COLUMNS: usize = 8;
const DEPTH: usize = 8;

/// Adds the product of `a` and `b` to `c`, all of them row by row; each warp has its own of each.
///
/// # Safety
/// The buffers are valid for a matrix per warp; warps are full.
#[kernel]
unsafe fn product(a: *const f32, b: *const f32, c: *mut f32) {
    let (warp, lane) = (warp::warp_id() as usize, warp::lane_id() as usize);
    let (g, t) = (lane / 4, lane % 4);
    // SAFETY: inside of the matrices; all lanes take part.
    unsafe {
        let a = |row, k| mem::load_readonly(a.add((warp * ROWS + row) * DEPTH + k));
        let b = |k, column| mem::load_readonly(b.add((warp * DEPTH + k) * COLUMNS + column));
        let c = |row, column| c.add((warp * ROWS + row) * COLUMNS + column);
        let places = [c(g, 2 * t), c(g, 2 * t + 1), c(g + 8, 2 * t), c(g + 8, 2 * t + 1)];
        let mut accumulators = places.map(|place| mem::load(place));
        let left = [a(g, t), a(g + 8, t), a(g, t + 4), a(g + 8, t + 4)];
        tensor_core::mma_m16n8k8_tf32(&mut accumulators, left, [b(t, g), b(t + 4, g)]);
        for (place, value) in places.into_iter().zip(accumulators) {
            mem::store(place, value);
        }
    }
}

fn run(launch: &Launch, a: &[f32], b: &[f32], c: &[f32]) -> Vec<f32> {
    let mut memory = Memory::new();
    let (a, b) = (memory.read_only("a", a), memory.read_only("b", b));
    let c = memory.read_write("c", c);
    // SAFETY: the buffers are as the kernel asks.
    let kernel = || unsafe { product(a, b, c) };
    launch.run(&mut memory, "product", kernel).unwrap();
    memory.values(c).unwrap()
}

/// The product of the matrices of one warp, element by element.
fn plain_product(a: &[f32], b: &[f32], c: &[f32]) -> Vec<f32> {
    let element = |index: usize| {
        let (row, column) = (index / COLUMNS, index % COLUMNS);
        c[index] + (0..DEPTH).map(|k| a[row * DEPTH + k] * b[k * COLUMNS + column]).sum::<f32>()
    };
    (0..ROWS * COLUMNS).map(element).collect()
}

#[test]
fn lanes_hold_the_elements_of_the_manual() {
    // All elements are different, and small enough for every sum to be exact.
    let numbers = |count: usize, start: f32| (0..count).map(|number| number as f32 + start).collect::<Vec<_>>();
    let (a, b, c) = (numbers(256, -100.0), numbers(128, -30.0), numbers(256, 5000.0));
    let whole: Vec<f32> = (0..2)
        .flat_map(|warp| plain_product(&a[warp * 128..][..128], &b[warp * 64..][..64], &c[warp * 128..][..128]))
        .collect();
    let launches = (0..20).map(|seed| Launch::new(1, 64).seed(seed));
    for launch in launches.chain([Launch::new(1, 64)]) {
        assert_eq!(run(&launch, &a, &b, &c), whole);
    }
}

/// The first element of the result for the first row of the left operand, a right operand of equal elements and an
/// accumulator.
fn first_element(a: [f32; DEPTH], b: f32, c: f32) -> f32 {
    let mut whole = [0.0; ROWS * DEPTH];
    whole[..DEPTH].copy_from_slice(&a);
    run(&Launch::new(1, 32), &whole, &[b; DEPTH * COLUMNS], &[c; ROWS * COLUMNS])[0]
}

#[test]
fn operands_are_truncated_and_accumulators_are_not() {
    let lone = |value| [value, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0];
    let (last_bit, half_bit) = (f32::powi(2.0, -10), f32::powi(2.0, -11));
    let just_below_two = 2.0 - f32::EPSILON;
    for sign in [1.0, -1.0] {
        assert_eq!(first_element(lone(sign * (1.0 + last_bit)), 1.0, 0.0), sign * (1.0 + last_bit));
        assert_eq!(first_element(lone(sign * (1.0 + half_bit)), 1.0, 0.0), sign);
        assert_eq!(first_element(lone(sign * just_below_two), just_below_two, 0.0), sign * (2.0 - last_bit).powi(2));
    }
    assert_eq!(first_element(lone(0.0), 1.0, 1.0 + f32::EPSILON), 1.0 + f32::EPSILON);
}

#[test]
fn sums_are_rounded_once() {
    // Each product is lost if it is added by itself.
    assert_eq!(first_element([f32::EPSILON / 4.0; DEPTH], 1.0, 1.0), 1.0 + 2.0 * f32::EPSILON);
}

/// The lanes from `absent` on do not come.
///
/// # Safety
/// There is none.
#[kernel]
unsafe fn product_of_some(absent: u32) {
    if warp::lane_id() < absent {
        // SAFETY: the caller's promise.
        unsafe { tensor_core::mma_m16n8k8_tf32(&mut [0.0; 4], [0.0; 4], [0.0; 2]) };
    }
}

#[test]
fn all_lanes_come() {
    let run = |threads: u32, absent: u32| {
        // SAFETY: the emulator checks who comes.
        let kernel = || unsafe { product_of_some(absent) };
        Launch::new(1, threads).run(&mut Memory::new(), "product_of_some", kernel).map_err(|fault| fault.kind)
    };
    let problem = |problem| Err(FaultKind::Warp { mask: warp::FULL_MASK, problem });
    assert_eq!(run(64, 32), Ok(()));
    let missing = WarpProblem::MissingLanes { lanes: 1 << 31, instead: Instead::Returned };
    assert_eq!(run(32, 31), problem(missing));
    assert_eq!(run(20, 32), problem(WarpProblem::NoSuchLanes { lanes: 0xfff0_0000 }));
}

/// # Safety
/// The block has 128 threads.
#[kernel]
unsafe fn arrive() {
    // SAFETY: all threads come.
    unsafe { tensor_core::warpgroup_arrive() };
}

#[test]
fn warp_groups_are_not_emulated() {
    // SAFETY: the emulator has no warp groups to misuse.
    let fault = Launch::new(1, 128).run(&mut Memory::new(), "arrive", || unsafe { arrive() }).unwrap_err();
    let message = "`warpgroup_arrive` is not emulated: it works on a GPU only".into();
    assert_eq!(fault.kind, FaultKind::Panic { message });
}
