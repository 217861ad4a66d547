//! The inner loop: sums of products, held in registers.
//!
//! A *block* is up to [`MAX_ROWS`] rows of consecutive results. Row `m` at position `p` sums, over taps `t` and steps
//! `k`, `coefficient[t][k][m] * line[t][k][p]`. Coefficients are packed in the order in which they are used and are
//! broadcast; lines are read as they lie, as vectors of consecutive positions. In the direct algorithm rows are output
//! channels, coefficients weights and lines rows of the input; in the column algorithm rows are input positions and
//! lines rows of the weight.
//!
//! Six rows by two vectors are what the sixteen registers of AVX2 take: twelve sums, which hide the latency of the
//! fused multiply-add, two line vectors, and two to spare for coefficients (with none to spare, as in four rows by
//! three vectors, the compiler moves sums to memory and back at half the speed). Eight loads serve twelve
//! multiply-adds. With fewer rows there are more vectors. AVX-512 would hold more; the same blocks keep its two units
//! busy as well. Sums are in the order of the taps, then of the steps, however positions are split into blocks.

#[cfg(target_arch = "x86_64")]
use super::vector::{Avx2, Avx512};
use super::vector::{Portable, Vector};

/// Most rows that a block can have.
pub(super) const MAX_ROWS: usize = 6;

/// What the sums of a block start from.
#[derive(Clone, Copy)]
pub(super) enum Start<'a> {
    /// One value per row.
    Values(&'a [f32]),
    /// What the results hold already.
    Results,
}

/// One block: where its operands lie, and where its results go.
#[derive(Clone, Copy)]
pub(super) struct Block<'a> {
    /// For each tap, the distance from `lines` to the line of its first step.
    pub taps: &'a [usize],
    /// Number of steps of each tap.
    pub steps: usize,
    /// The packed coefficients.
    pub coefficients: *const f32,
    /// The first position of the lines.
    pub lines: *const f32,
    /// Distance between the lines of successive steps.
    pub line_pitch: usize,
    /// The result of the first row at the first position.
    pub results: *mut f32,
    /// Distance between the results of successive rows.
    pub result_pitch: usize,
    /// What the sums start from.
    pub start: Start<'a>,
}

/// Computes that many vectors of consecutive positions of a block.
///
/// # Safety
/// The processor must have the kernel's instruction set. All elements that the block names must be readable, and its
/// results writable, for `vectors` whole vectors of positions.
type Kernel = unsafe fn(&Block<'_>, usize);

/// The micro-kernels of one instruction set.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kernels {
    /// Elements of a vector.
    pub lanes: usize,
    by_rows: [Kernel; MAX_ROWS],
}

impl Kernels {
    /// The widest ones that this processor has.
    pub fn detect() -> Self {
        Self::available()[0]
    }

    /// All that this processor has, the widest ones first.
    pub fn available() -> Vec<Self> {
        let mut available = Vec::new();
        #[cfg(target_arch = "x86_64")]
        {
            if is_x86_feature_detected!("avx512f") {
                available.push(Self {
                    lanes: Avx512::LANES,
                    by_rows: [avx512::<1>, avx512::<2>, avx512::<3>, avx512::<4>, avx512::<5>, avx512::<6>],
                });
            }
            if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
                available.push(Self {
                    lanes: Avx2::LANES,
                    by_rows: [avx2::<1>, avx2::<2>, avx2::<3>, avx2::<4>, avx2::<5>, avx2::<6>],
                });
            }
        }
        available.push(Self::portable());
        available
    }

    /// Those that every processor has.
    fn portable() -> Self {
        Self {
            lanes: Portable::LANES,
            by_rows: [portable::<1>, portable::<2>, portable::<3>, portable::<4>, portable::<5>, portable::<6>],
        }
    }

    /// Computes `vectors` vectors of consecutive positions of a block of `rows` rows.
    ///
    /// # Safety
    /// All elements that the block names must be readable, and its results writable, for `vectors` whole vectors of
    /// positions.
    pub unsafe fn run(&self, rows: usize, block: &Block<'_>, vectors: usize) {
        // SAFETY: the instruction set was detected; the rest is the caller's promise.
        unsafe { self.by_rows[rows - 1](block, vectors) }
    }
}

/// Vectors per row that keep a block of `rows` rows in registers.
pub(super) const fn vectors_per_row(rows: usize) -> usize {
    [8, 5, 3, 2, 2, 2][rows - 1]
}

/// With vectors of 16.
///
/// # Safety
/// As [`run`](Kernels::run); the processor has AVX-512F.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
unsafe fn avx512<const ROWS: usize>(block: &Block<'_>, vectors: usize) {
    // SAFETY: the caller's promise.
    unsafe { positions::<Avx512, ROWS>(block, vectors) }
}

/// With vectors of eight.
///
/// # Safety
/// As [`run`](Kernels::run); the processor has AVX2 and FMA.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
unsafe fn avx2<const ROWS: usize>(block: &Block<'_>, vectors: usize) {
    // SAFETY: the caller's promise.
    unsafe { positions::<Avx2, ROWS>(block, vectors) }
}

/// Without vectors of the processor.
///
/// # Safety
/// As [`run`](Kernels::run).
unsafe fn portable<const ROWS: usize>(block: &Block<'_>, vectors: usize) {
    // SAFETY: the caller's promise.
    unsafe { positions::<Portable, ROWS>(block, vectors) }
}

/// Cuts the positions into as many full register blocks as fit and one smaller one.
///
/// # Safety
/// As for [`Kernels::run`], and `V`'s instruction set must be there.
#[inline(always)]
unsafe fn positions<V: Vector, const ROWS: usize>(block: &Block<'_>, vectors: usize) {
    let full = const { vectors_per_row(ROWS) };
    let mut done = 0;
    while done < vectors {
        let now = full.min(vectors - done);
        // SAFETY: `done + now <= vectors`, so the promise for the whole covers each part. No match arm beyond `full` is
        // reached.
        unsafe {
            let part = Block {
                lines: block.lines.add(done * V::LANES),
                results: block.results.add(done * V::LANES),
                ..*block
            };
            match now {
                1 => register_block::<V, ROWS, 1>(&part),
                2 => register_block::<V, ROWS, 2>(&part),
                3 if full >= 3 => register_block::<V, ROWS, 3>(&part),
                4 if full >= 4 => register_block::<V, ROWS, 4>(&part),
                5 if full >= 5 => register_block::<V, ROWS, 5>(&part),
                6 if full >= 6 => register_block::<V, ROWS, 6>(&part),
                7 if full >= 7 => register_block::<V, ROWS, 7>(&part),
                _ if full >= 8 => register_block::<V, ROWS, 8>(&part),
                _ => {}
            }
        }
        done += now;
    }
}

/// # Safety
/// As for [`Kernels::run`] with `VECTORS` vectors, and `V`'s instruction set must be there.
#[inline(always)]
unsafe fn register_block<V: Vector, const ROWS: usize, const VECTORS: usize>(block: &Block<'_>) {
    // SAFETY: every address lies within what the caller promises: `ROWS` coefficients per step, `VECTORS` vectors per
    // line and result row.
    unsafe {
        let mut sums = [[V::splat(0.0); VECTORS]; ROWS];
        for (m, row) in sums.iter_mut().enumerate() {
            for (v, sum) in row.iter_mut().enumerate() {
                *sum = match block.start {
                    Start::Values(values) => V::splat(*values.get_unchecked(m)),
                    Start::Results => V::load(block.results.add(m * block.result_pitch + v * V::LANES)),
                };
            }
        }
        let mut coefficient = block.coefficients;
        for &tap in block.taps {
            let mut line = block.lines.add(tap);
            for _ in 0..block.steps {
                // Whichever are fewer stay in registers; the others pass through one.
                if VECTORS < ROWS {
                    let mut vectors = [V::splat(0.0); VECTORS];
                    for (v, vector) in vectors.iter_mut().enumerate() {
                        *vector = V::load(line.add(v * V::LANES));
                    }
                    for (m, row) in sums.iter_mut().enumerate() {
                        let factor = V::splat(*coefficient.add(m));
                        for (sum, vector) in row.iter_mut().zip(vectors) {
                            *sum = vector.mul_add(factor, *sum);
                        }
                    }
                } else {
                    let mut factors = [V::splat(0.0); ROWS];
                    for (m, factor) in factors.iter_mut().enumerate() {
                        *factor = V::splat(*coefficient.add(m));
                    }
                    for v in 0..VECTORS {
                        let vector = V::load(line.add(v * V::LANES));
                        for (row, factor) in sums.iter_mut().zip(factors) {
                            row[v] = vector.mul_add(factor, row[v]);
                        }
                    }
                }
                // The last step leaves the pointer behind the last line, where nothing is read.
                line = line.wrapping_add(block.line_pitch);
                coefficient = coefficient.add(ROWS);
            }
        }
        for (m, row) in sums.into_iter().enumerate() {
            for (v, sum) in row.into_iter().enumerate() {
                sum.store(block.results.add(m * block.result_pitch + v * V::LANES));
            }
        }
    }
}
