//! Tensor cores: which lane holds which element, what is rounded, and who has to come.

use cuda_std::emulator::{FaultKind, Instead, Launch, Memory, WarpProblem};
use cuda_std::{half, kernel, mem, tensor_core, warp};

const ROWS: usize = 16;
const COLUMNS: usize = 8;

/// How far along the depth the operands of each product reach.
const TF32_DEPTH: usize = 8;
const F16_DEPTH: usize = 16;

/// A product as a kernel.
#[derive(Clone, Copy)]
struct Product {
    kernel: unsafe fn(*const f32, *const f32, *mut f32),
    depth: usize,
}

const TF32: Product = Product { kernel: tf32_product, depth: TF32_DEPTH };
const F16: Product = Product { kernel: f16_product, depth: F16_DEPTH };

/// Adds the product of `a` and `b` to `c`, all of them row by row; each warp has its own of each.
///
/// # Safety
/// The buffers are valid for a matrix per warp; warps are full.
#[kernel]
unsafe fn tf32_product(a: *const f32, b: *const f32, c: *mut f32) {
    let (warp, lane) = (warp::warp_id() as usize, warp::lane_id() as usize);
    let (g, t) = (lane / 4, lane % 4);
    // SAFETY: inside of the matrices; all lanes take part.
    unsafe {
        let a = |row, k| mem::load_readonly(a.add((warp * ROWS + row) * TF32_DEPTH + k));
        let b = |k, column| mem::load_readonly(b.add((warp * TF32_DEPTH + k) * COLUMNS + column));
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

/// As [`tf32_product`], with operands in half precision.
///
/// # Safety
/// As there.
#[kernel]
unsafe fn f16_product(a: *const f32, b: *const f32, c: *mut f32) {
    let (warp, lane) = (warp::warp_id() as usize, warp::lane_id() as usize);
    let (g, t) = (lane / 4, lane % 4);
    // SAFETY: inside of the matrices; all lanes take part.
    unsafe {
        let a = |row, k| mem::load_readonly(a.add((warp * ROWS + row) * F16_DEPTH + k));
        let b = |k, column| mem::load_readonly(b.add((warp * F16_DEPTH + k) * COLUMNS + column));
        let c = |row, column| c.add((warp * ROWS + row) * COLUMNS + column);
        let places = [c(g, 2 * t), c(g, 2 * t + 1), c(g + 8, 2 * t), c(g + 8, 2 * t + 1)];
        let mut accumulators = places.map(|place| mem::load(place));
        let left = |row, k| half::pack([a(row, k), a(row, k + 1)]);
        let right = |k, column| half::pack([b(k, column), b(k + 1, column)]);
        let left = [left(g, 2 * t), left(g + 8, 2 * t), left(g, 2 * t + 8), left(g + 8, 2 * t + 8)];
        tensor_core::mma_m16n8k16_f16(&mut accumulators, left, [right(2 * t, g), right(2 * t + 8, g)]);
        for (place, value) in places.into_iter().zip(accumulators) {
            mem::store(place, value);
        }
    }
}

fn run(product: Product, launch: &Launch, a: &[f32], b: &[f32], c: &[f32]) -> Vec<f32> {
    let mut memory = Memory::new();
    let (a, b) = (memory.read_only("a", a), memory.read_only("b", b));
    let c = memory.read_write("c", c);
    // SAFETY: the buffers are as the kernel asks.
    let kernel = || unsafe { (product.kernel)(a, b, c) };
    launch.run(&mut memory, "product", kernel).unwrap();
    memory.values(c).unwrap()
}

/// The product of the matrices of one warp, element by element. All numbers are whole, so that nothing is rounded.
fn plain_product(depth: usize, a: &[f32], b: &[f32], c: &[f32]) -> Vec<f32> {
    let mut whole = Vec::new();
    for row in 0..ROWS {
        for column in 0..COLUMNS {
            let mut sum = f64::from(c[row * COLUMNS + column]);
            for k in 0..depth {
                sum += f64::from(a[row * depth + k]) * f64::from(b[k * COLUMNS + column]);
            }
            whole.push(sum as f32);
        }
    }
    whole
}

/// Checks the matrices of two warps. All elements are different, and small enough for every sum to be exact.
fn check_elements(product: Product) {
    const WARPS: usize = 2;
    let numbers = |count: usize, start: f32| (0..count).map(|number| number as f32 + start).collect::<Vec<_>>();
    let (left, right, elements) = (ROWS * product.depth, product.depth * COLUMNS, ROWS * COLUMNS);
    let (a, b) = (numbers(WARPS * left, -100.0), numbers(WARPS * right, -30.0));
    let c = numbers(WARPS * elements, 5000.0);
    let warps = a.chunks(left).zip(b.chunks(right)).zip(c.chunks(elements));
    let whole: Vec<f32> = warps.flat_map(|((a, b), c)| plain_product(product.depth, a, b, c)).collect();
    let launches = (0..20).map(|seed| Launch::new(1, 64).seed(seed));
    for launch in launches.chain([Launch::new(1, 64)]) {
        assert_eq!(run(product, &launch, &a, &b, &c), whole);
    }
}

#[test]
fn lanes_hold_the_elements_of_the_manual() {
    check_elements(TF32);
    check_elements(F16);
}

/// The first element of the result for the first row of the left operand, a right operand of equal elements and an
/// accumulator.
fn first_element(product: Product, a: &[f32], b: f32, c: f32) -> f32 {
    let mut whole = vec![0.0; ROWS * product.depth];
    whole[..a.len()].copy_from_slice(a);
    let right = vec![b; product.depth * COLUMNS];
    run(product, &Launch::new(1, 32), &whole, &right, &[c; ROWS * COLUMNS])[0]
}

#[test]
fn operands_are_truncated_and_accumulators_are_not() {
    let first = |a: f32, b: f32, c: f32| first_element(TF32, &[a], b, c);
    let (last_bit, half_bit) = (f32::powi(2.0, -10), f32::powi(2.0, -11));
    let just_below_two = 2.0 - f32::EPSILON;
    for sign in [1.0, -1.0] {
        assert_eq!(first(sign * (1.0 + last_bit), 1.0, 0.0), sign * (1.0 + last_bit));
        assert_eq!(first(sign * (1.0 + half_bit), 1.0, 0.0), sign);
        assert_eq!(first(sign * just_below_two, just_below_two, 0.0), sign * (2.0 - last_bit).powi(2));
    }
    assert_eq!(first(0.0, 1.0, 1.0 + f32::EPSILON), 1.0 + f32::EPSILON);
}

#[test]
fn products_of_halves_are_exact() {
    let first = |a: f32, b: f32, c: f32| first_element(F16, &[a], b, c);
    let (last_bit, least) = (f32::powi(2.0, -10), f32::powi(2.0, -24));
    assert_eq!(first(1.0 + last_bit, 2.0 - last_bit, 0.0), (1.0 + last_bit) * (2.0 - last_bit));
    assert_eq!(first(65504.0, -65504.0, 0.0), -65504.0 * 65504.0);
    assert_eq!(first(least, least, 0.0), least * least);
    assert_eq!(first(0.0, 1.0, 1.0 + f32::EPSILON), 1.0 + f32::EPSILON);
}

#[test]
fn sums_are_rounded_once() {
    // Each product is lost if it is added by itself.
    assert_eq!(first_element(TF32, &[f32::EPSILON / 4.0; TF32_DEPTH], 1.0, 1.0), 1.0 + 2.0 * f32::EPSILON);
    // An operand's half holds no number as small as that.
    let (a, b) = (f32::powi(2.0, -13), f32::powi(2.0, -12));
    assert_eq!(first_element(F16, &[a; F16_DEPTH], b, 1.0), 1.0 + 4.0 * f32::EPSILON);
}

/// The lanes from `absent` on do not come.
///
/// # Safety
/// There is none.
#[kernel]
unsafe fn tf32_product_of_some(absent: u32) {
    if warp::lane_id() < absent {
        // SAFETY: the caller's promise.
        unsafe { tensor_core::mma_m16n8k8_tf32(&mut [0.0; 4], [0.0; 4], [0.0; 2]) };
    }
}

/// The lanes from `absent` on do not come.
///
/// # Safety
/// There is none.
#[kernel]
unsafe fn f16_product_of_some(absent: u32) {
    if warp::lane_id() < absent {
        // SAFETY: the caller's promise.
        unsafe { tensor_core::mma_m16n8k16_f16(&mut [0.0; 4], [0; 4], [0; 2]) };
    }
}

#[test]
fn all_lanes_come() {
    check_that_all_lanes_come(tf32_product_of_some);
    check_that_all_lanes_come(f16_product_of_some);
}

fn check_that_all_lanes_come(product_of_some: unsafe fn(u32)) {
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
