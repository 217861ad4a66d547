//! What a lane holds of output rows: two or four neighbouring words of each, in its two channels of a group of eight.
//!
//! A lane has two neighbouring positions. With a stride of one along x these are two output elements. With a stride of
//! two, and both of its phases in the columns of the matrix or in a pair of slots, they are four.

use crate::{tile::multiply::Product, unrolled::unrolled};

/// The two words of each row that a block of columns has, by channel.
///
/// # Safety
/// The product is complete.
#[cfg_attr(gpu, inline(always))]
pub(super) unsafe fn pairs<const BLOCKS: usize, const SLOTS: usize, const BLOCK: usize>(
    product: &impl Product<BLOCKS, SLOTS>,
) -> [[[f32; 2]; 2]; SLOTS] {
    let mut values = [[[0.0; 2]; 2]; SLOTS];
    unrolled!(SLOT in 0..SLOTS, at most 8 => {
        // SAFETY: the caller's promise.
        let [a, b, c, d] = unsafe { product.values::<SLOT, BLOCK>() };
        values[SLOT] = [[a, c], [b, d]];
    });
    values
}

/// The four words of each row that a block of columns and the next one have, with a phase each, by channel.
///
/// # Safety
/// The product is complete.
#[cfg_attr(gpu, inline(always))]
pub(super) unsafe fn quads<const BLOCKS: usize, const SLOTS: usize, const BLOCK: usize, const NEXT: usize>(
    product: &impl Product<BLOCKS, SLOTS>,
) -> [[[f32; 4]; 2]; SLOTS] {
    let mut values = [[[0.0; 4]; 2]; SLOTS];
    unrolled!(SLOT in 0..SLOTS, at most 8 => {
        // SAFETY: the caller's promise.
        let ([a, b, c, d], [e, f, g, h]) = unsafe { (product.values::<SLOT, BLOCK>(), product.values::<SLOT, NEXT>()) };
        values[SLOT] = [[a, e, c, g], [b, f, d, h]];
    });
    values
}

/// The four words of each row that two slots have, with a phase each, by channel. There are half as many rows as slots.
///
/// # Safety
/// The product is complete.
#[cfg_attr(gpu, inline(always))]
pub(super) unsafe fn quads_of_halves<const BLOCKS: usize, const SLOTS: usize, const BLOCK: usize>(
    product: &impl Product<BLOCKS, SLOTS>,
) -> [[[f32; 4]; 2]; SLOTS] {
    let mut values = [[[0.0; 4]; 2]; SLOTS];
    unrolled!(SLOT in 0..SLOTS, at most 8 => {
        const NEXT: usize = SLOT + 1;
        if SLOT.is_multiple_of(2) && NEXT < SLOTS {
            // SAFETY: the caller's promise.
            let ([a, b, c, d], [e, f, g, h]) = unsafe { (product.values::<SLOT, BLOCK>(), product.values::<NEXT, BLOCK>()) };
            values[SLOT / 2] = [[a, e, c, g], [b, f, d, h]];
        }
    });
    values
}
