//! Few products: as many factors of an output element as there are registers for are on their way before the first two
//! are multiplied, in a kernel that is compiled for its layer.
//!
//! Taps beyond the input are not left out; instead of their factors, which are not loaded, there are zeros. So it is
//! known then which product is the first, the second, and so on, and how far apart their factors lie: one base for each
//! tensor and constants.

use cuda_std::{math, mem};

use super::Factors;
use crate::{
    index::Index,
    problem::{Problem, Taps},
    unrolled::unrolled,
};

/// The most products of an element that are few, with those of taps beyond the input.
pub const FEW_PRODUCTS: usize = BATCHES * BATCH;

const BATCHES: usize = 16;

/// Products whose factors are under way at once in a kernel for any layer, which asks before each batch whether there is
/// one. Where no question is left, the compiler loads as many as there are registers for.
const BATCH: usize = 8;

/// Adds the products of all taps along the three axes, in the order of taps, and of channels within each.
///
/// # Safety
/// There are [`FEW_PRODUCTS`] at most, `p.few_products`; the factors are those of the first channel.
#[cfg_attr(gpu, inline(always))]
pub(super) unsafe fn sum_of_few<I: Index>(p: &Problem, taps: &[Taps<I>; 3], factors: Factors, mut sum: f32) -> f32 {
    let first = factors.of_first_taps(p, taps);
    let mut product = Product { taps: [0; 3], channel: 0 };
    let exists = |number: usize| (number as u64) < p.few_products;
    unrolled!(NUMBER in 0..BATCHES, at most 16 => {
        if exists(NUMBER * BATCH) {
            let (mut inputs, mut weights) = ([0.0; BATCH], [0.0; BATCH]);
            unrolled!(WITHIN in 0..BATCH, at most 8 => {
                let is_read = exists(NUMBER * BATCH + WITHIN) & product.reads_input(p, taps);
                let Factors { input, weight } = product.factors(p, first);
                // SAFETY: the caller's promise: it is a product of this element, and its tap reads within the input.
                unsafe {
                    inputs[WITHIN] = mem::load_readonly_if(is_read, input);
                    weights[WITHIN] = mem::load_readonly_if(is_read, weight);
                }
                product.advance(p);
            });
            unrolled!(WITHIN in 0..BATCH, at most 8 => {
                if exists(NUMBER * BATCH + WITHIN) {
                    sum = math::fma(inputs[WITHIN], weights[WITHIN], sum);
                }
            });
        }
    });
    sum
}

impl Factors {
    /// Those of the first tap along each axis, which may lie outside of the input.
    #[cfg_attr(gpu, inline(always))]
    fn of_first_taps<I: Index>(self, p: &Problem, [z, y, x]: &[Taps<I>; 3]) -> Self {
        let [_, ay, ax] = &p.axes;
        let input = flat([z.input, y.input, x.input].map(Index::signed), [ay.input, ax.input]);
        let weight = flat([z.tap, y.tap, x.tap].map(Index::signed), [ay.kernel, ax.kernel]);
        self.moved(input, weight)
    }

    /// Those so many elements further on.
    #[cfg_attr(gpu, inline(always))]
    fn moved(self, input: i64, weight: i64) -> Self {
        Self { input: self.input.wrapping_offset(input as isize), weight: self.weight.wrapping_offset(weight as isize) }
    }
}

/// The number of the element at some coordinates, of which the inner two have these extents.
#[cfg_attr(gpu, inline(always))]
fn flat([z, y, x]: [i64; 3], [y_extent, x_extent]: [u64; 2]) -> i64 {
    // Far beyond the input it may overflow, where nothing is read.
    z.wrapping_mul(y_extent as i64).wrapping_add(y).wrapping_mul(x_extent as i64).wrapping_add(x)
}

/// A product: the numbers of its tap along each axis, and its channel.
struct Product {
    taps: [u32; 3],
    channel: u32,
}

impl Product {
    /// Whether it has a tap along each axis, which reads within the input.
    #[cfg_attr(gpu, inline(always))]
    fn reads_input<I: Index>(&self, p: &Problem, [z, y, x]: &[Taps<I>; 3]) -> bool {
        let ([az, ay, ax], [tz, ty, tx]) = (&p.axes, self.taps);
        // No branches.
        z.reads_within(tz, az) & y.reads_within(ty, ay) & x.reads_within(tx, ax)
    }

    /// Its factors, counted from those of the first product.
    #[cfg_attr(gpu, inline(always))]
    fn factors(&self, p: &Problem, first: Factors) -> Factors {
        let ([az, ay, ax], [tz, ty, tx]) = (&p.axes, self.taps.map(i64::from));
        let steps = [tz * az.input_step as i64, ty * ay.input_step as i64, tx * ax.input_step as i64];
        let tap_steps = [tz * az.tap_step as i64, ty * ay.tap_step as i64, tx * ax.tap_step as i64];
        let channel = i64::from(self.channel);
        first.moved(
            channel * p.input_plane as i64 - flat(steps, [ay.input, ax.input]),
            channel * p.weight_step() as i64 + flat(tap_steps, [ay.kernel, ax.kernel]),
        )
    }

    /// Goes on to the next one.
    #[cfg_attr(gpu, inline(always))]
    fn advance(&mut self, p: &Problem) {
        let ([_, ay, ax], [z, y, x]) = (&p.axes, &mut self.taps);
        let along_x = count_up(&mut self.channel, 1, p.in_per_group);
        let along_y = count_up(x, along_x, ax.most_taps);
        *z += count_up(y, along_y, ay.most_taps);
    }
}

/// Adds to a digit, which begins again where it would be `end`: what is carried to the next one.
#[cfg_attr(gpu, inline(always))]
fn count_up(digit: &mut u32, by: u32, end: u64) -> u32 {
    let next = *digit + by;
    let is_over = next == end as u32;
    *digit = if is_over { 0 } else { next };
    u32::from(is_over)
}
