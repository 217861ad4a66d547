//! Storing straight from the product: the elements that a lane holds of an output row go out in one piece.
//!
//! A lane has two neighbouring positions. With a stride of one along x these are two output elements. With a stride of two, and both of its
//! phases in the columns of the matrix or in a pair of slots, they are four.

use cuda_std::{
    hint,
    mem::{self, Transfer},
    shared::SharedPtr,
};

use super::{NOWHERE, Target};
use crate::{
    index::Index,
    tile::{TEAM_ROWS, multiply::Product, unrolled::unrolled},
};

/// Where a lane stores its two channels of a block of columns.
struct Lane {
    /// Where its first element of a channel is looked up, for slot 0; those of the other slots follow at a distance.
    elements: SharedPtr<[u32; 2]>,
    slot_distance: u32,
    /// The two channels.
    channels: [*mut f32; 2],
    /// Whether they exist.
    exist: [bool; 2],
    /// Their biases.
    biases: [f32; 2],
}

impl Target<'_> {
    /// Stores a product whose rows have a stride of one along x.
    ///
    /// # Safety
    /// As [`store`](Self::store); the lanes' elements are aligned, and all or none of them exist.
    #[inline(always)]
    pub(super) unsafe fn store_pairs<const BLOCKS: usize, const SLOTS: usize>(
        &self,
        product: &impl Product<BLOCKS, SLOTS>,
    ) {
        let output = hint::opaque_pointer(self.first_output()).cast_mut();
        unrolled!(BLOCK in 0..BLOCKS, at most 16 => {
            if (BLOCK as u32) < self.t.used_blocks {
                // SAFETY: the caller's promise; the block is used, the product complete.
                unsafe {
                    let lane = self.lane(output, BLOCK as u32, 1);
                    let [left, right] = lane.biases;
                    unrolled!(SLOT in 0..SLOTS, at most 8 => {
                        let [a, b, c, d] = product.values::<SLOT, BLOCK>();
                        lane.store(SLOT as u32, [[a + left, c + left], [b + right, d + right]]);
                    });
                }
            }
        });
    }

    /// Stores a product whose rows have a stride of two along x, with both phases in columns that follow each other.
    ///
    /// # Safety
    /// As [`store_pairs`](Self::store_pairs).
    #[inline(always)]
    pub(super) unsafe fn store_quads<const BLOCKS: usize, const SLOTS: usize>(
        &self,
        product: &impl Product<BLOCKS, SLOTS>,
    ) {
        let output = hint::opaque_pointer(self.first_output()).cast_mut();
        unrolled!(BLOCK in 0..BLOCKS, at most 16 => {
            const NEXT: usize = BLOCK + 1;
            if BLOCK.is_multiple_of(2) && NEXT < BLOCKS && (NEXT as u32) < self.t.used_blocks {
                // SAFETY: the caller's promise; both blocks are used, the product complete.
                unsafe {
                    let lane = self.lane(output, BLOCK as u32, 2);
                    let [left, right] = lane.biases;
                    unrolled!(SLOT in 0..SLOTS, at most 8 => {
                        let [a, b, c, d] = product.values::<SLOT, BLOCK>();
                        let [e, f, g, h] = product.values::<SLOT, NEXT>();
                        lane.store(SLOT as u32, [
                            [a + left, e + left, c + left, g + left],
                            [b + right, f + right, d + right, h + right],
                        ]);
                    });
                }
            }
        });
    }

    /// Stores a product whose rows have a stride of two along x, with both phases in slots that follow each other.
    ///
    /// # Safety
    /// As [`store_pairs`](Self::store_pairs).
    #[inline(always)]
    pub(super) unsafe fn store_quads_of_halves<const BLOCKS: usize, const SLOTS: usize>(
        &self,
        product: &impl Product<BLOCKS, SLOTS>,
    ) {
        let output = hint::opaque_pointer(self.first_output()).cast_mut();
        unrolled!(BLOCK in 0..BLOCKS, at most 16 => {
            if (BLOCK as u32) < self.t.used_blocks {
                // SAFETY: the caller's promise; the block is used, the product complete.
                unsafe {
                    let lane = self.lane_of_halves(output, BLOCK as u32);
                    let [left, right] = lane.biases;
                    unrolled!(SLOT in 0..SLOTS, at most 8 => {
                        const NEXT: usize = SLOT + 1;
                        if SLOT.is_multiple_of(2) && NEXT < SLOTS {
                            let [a, b, c, d] = product.values::<SLOT, BLOCK>();
                            let [e, f, g, h] = product.values::<NEXT, BLOCK>();
                            lane.store(SLOT as u32, [
                                [a + left, e + left, c + left, g + left],
                                [b + right, f + right, d + right, h + right],
                            ]);
                        }
                    });
                }
            }
        });
    }

    /// As [`lane`](Self::lane), where the two phases along x are in slots.
    ///
    /// # Safety
    /// As [`lane`](Self::lane).
    #[inline(always)]
    unsafe fn lane_of_halves(&self, output: *mut f32, block: u32) -> Lane {
        let (team, thread) = Self::team();
        let (_, phase) = hint::opaque(block).divide(self.t.column_phases);
        // SAFETY: the caller's promise.
        let lane = unsafe { self.lane(output, block, 1) };
        let first = (2 * phase * TEAM_ROWS) + 2 * Self::first_row(thread);
        Lane { elements: self.elements(team).add(first), ..lane }
    }

    /// Where this lane stores the columns of a block, and of those that follow for the other `phases` along x. `output` is the tile's.
    ///
    /// # Safety
    /// The elements and the biases have been looked up; the tile has such a block.
    #[inline(always)]
    unsafe fn lane(&self, output: *mut f32, block: u32, phases: u32) -> Lane {
        let t = self.t;
        let (team, thread) = Self::team();
        let row = Self::first_row(thread);
        // Found again for each job, not kept in registers meanwhile.
        let (group, phase) = hint::opaque(block).divide(t.column_phases);
        let first = group * 8 + thread % 4 * 2;
        let channels = self.channels_from(0);
        let place = output.wrapping_add(first as usize * t.output_plane as usize);
        // SAFETY: a team has biases for all channels of the tile.
        let biases = unsafe { self.biases(team).add(first).cast::<[f32; 2]>().load() };
        Lane {
            elements: self.elements(team).add(phase * TEAM_ROWS + row * phases),
            slot_distance: t.column_phases.value() as u32 * TEAM_ROWS,
            channels: [place, place.wrapping_add(t.output_plane as usize)],
            exist: [first < channels, first + 1 < channels],
            biases,
        }
    }
}

impl Lane {
    /// Stores the values of a slot, by channel.
    ///
    /// # Safety
    /// The elements have been looked up, and are the block's own; they are aligned as `T` is.
    #[inline(always)]
    unsafe fn store<T: Transfer>(&self, slot: u32, values: [T; 2]) {
        // SAFETY: the caller's promise.
        unsafe {
            let [offset, _] = self.elements.add(slot * self.slot_distance).load();
            let [left, right] = self.channels.map(|channel| channel.wrapping_add(offset as usize).cast());
            if offset != NOWHERE && self.exist[0] {
                mem::store(left, values[0]);
            }
            if offset != NOWHERE && self.exist[1] {
                mem::store(right, values[1]);
            }
        }
    }
}
