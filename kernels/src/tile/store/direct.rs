//! Storing straight from the product: the elements that a lane holds of an output row go out in one piece.
//!
//! A lane has two neighbouring positions. With a stride of one along x these are two output elements. With a stride of two, and both of its
//! phases in the columns of the matrix or in a pair of slots, they are four.

use cuda_std::{
    hint,
    mem::{self, Transfer},
    shared::SharedPtr,
};

use super::{Line, Target};
use crate::{
    index::Index,
    tile::{TEAM_ROWS, multiply::Product, unrolled::unrolled},
};

/// Where a lane stores its two channels of a block of columns.
struct Lane {
    /// The line that it is in, for slot 0; those of the other rows follow at a distance.
    lines: SharedPtr<Line>,
    row_distance: u32,
    /// Its first word there.
    first: u32,
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
        let (row, used_blocks) = (self.lane_row(), hint::opaque(self.t.used_blocks));
        unrolled!(BLOCK in 0..BLOCKS, at most 16 => {
            if (BLOCK as u32) < used_blocks {
                // SAFETY: the caller's promise; the block is used, the product complete.
                unsafe {
                    let lane = self.lane(&row, output, BLOCK as u32);
                    unrolled!(SLOT in 0..SLOTS, at most 8 => {
                        lane.store_pairs(SLOT as u32, product.values::<SLOT, BLOCK>());
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
        let (row, used_blocks) = (self.lane_row(), hint::opaque(self.t.used_blocks));
        unrolled!(BLOCK in 0..BLOCKS, at most 16 => {
            const NEXT: usize = BLOCK + 1;
            if BLOCK.is_multiple_of(2) && NEXT < BLOCKS && (NEXT as u32) < used_blocks {
                // SAFETY: the caller's promise; both blocks are used, the product complete.
                unsafe {
                    let lane = self.lane(&row, output, BLOCK as u32);
                    unrolled!(SLOT in 0..SLOTS, at most 8 => {
                        lane.store_quads(SLOT as u32, product.values::<SLOT, BLOCK>(), product.values::<SLOT, NEXT>());
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
        let (row, used_blocks) = (self.lane_row(), hint::opaque(self.t.used_blocks));
        unrolled!(BLOCK in 0..BLOCKS, at most 16 => {
            if (BLOCK as u32) < used_blocks {
                // SAFETY: the caller's promise; the block is used, the product complete.
                unsafe {
                    let lane = self.lane(&row, output, BLOCK as u32);
                    unrolled!(SLOT in 0..SLOTS, at most 8 => {
                        const NEXT: usize = SLOT + 1;
                        if SLOT.is_multiple_of(2) && NEXT < SLOTS {
                            let slots = SLOT as u32 / 2;
                            lane.store_quads(slots, product.values::<SLOT, BLOCK>(), product.values::<NEXT, BLOCK>());
                        }
                    });
                }
            }
        });
    }

    /// The lane's row, and its first word there.
    #[inline(always)]
    fn lane_row(&self) -> LaneRow {
        let (team, thread) = Self::team();
        let first = team * TEAM_ROWS;
        let position = first + Self::first_row(thread);
        // Rows of the product without a position have no words of a line.
        let exists = position < self.t.positions;
        let (row, x) = if exists { position } else { first }.divide(self.t.box_x);
        let segment = row - first.divide(self.t.box_x).0;
        // The first row begins where the team does.
        let x = if segment == 0 { position - first } else { x };
        LaneRow { segment, first: if exists { x * self.t.line_phases.value() as u32 } else { u32::MAX } }
    }

    /// Where this lane stores the columns of a block. `output` is the tile's.
    ///
    /// # Safety
    /// The lines and the biases have been found; the tile has such a block.
    #[inline(always)]
    unsafe fn lane(&self, row: &LaneRow, output: *mut f32, block: u32) -> Lane {
        let t = self.t;
        let (team, thread) = Self::team();
        // Found again for each job, not kept in registers meanwhile.
        let (group, phase) = hint::opaque(block).divide(t.column_phases);
        let (line, _) = phase.divide(t.columns_x);
        let first = group * 8 + thread % 4 * 2;
        let channels = self.channels_from(0);
        let place = output.wrapping_add(first as usize * t.output_plane as usize);
        // SAFETY: a team has biases for all channels of the tile.
        let biases = unsafe { self.biases(team).add(first).cast::<[f32; 2]>().load() };
        let segments = t.segments.value() as u32;
        Lane {
            lines: self.lines(team).add(line * segments + row.segment),
            row_distance: t.row_lines * segments,
            first: row.first,
            channels: [place, place.wrapping_add(t.output_plane as usize)],
            exist: [first < channels, first + 1 < channels],
            biases,
        }
    }
}

/// Where a lane's two positions are.
struct LaneRow {
    /// The row of the box, counted from the team's first one.
    segment: u32,
    /// The first position's word in the line there; beyond all lines if there is no position.
    first: u32,
}

impl Lane {
    /// Stores two positions of a row, by channel.
    ///
    /// # Safety
    /// As [`store`](Self::store).
    #[inline(always)]
    unsafe fn store_pairs(&self, row: u32, [a, b, c, d]: [f32; 4]) {
        let [left, right] = self.biases;
        // SAFETY: the caller's promise.
        unsafe { self.store(row, [[a + left, c + left], [b + right, d + right]]) };
    }

    /// Stores two positions of a row that have two phases each, by channel.
    ///
    /// # Safety
    /// As [`store`](Self::store).
    #[inline(always)]
    unsafe fn store_quads(&self, row: u32, [a, b, c, d]: [f32; 4], [e, f, g, h]: [f32; 4]) {
        let [left, right] = self.biases;
        let values = [[a + left, e + left, c + left, g + left], [b + right, f + right, d + right, h + right]];
        // SAFETY: the caller's promise.
        unsafe { self.store(row, values) };
    }

    /// Stores the values of a row, by channel.
    ///
    /// # Safety
    /// The lines have been found, and are the block's own; the lane's words are aligned as `T` is, and all or none of them exist.
    #[inline(always)]
    unsafe fn store<T: Transfer>(&self, row: u32, values: [T; 2]) {
        // SAFETY: the caller's promise.
        unsafe {
            let line: Line = bytemuck::cast(self.lines.add(row * self.row_distance).cast::<[u32; 4]>().load());
            let place = line.offset.wrapping_add(self.first) as usize;
            let [left, right] = self.channels.map(|channel| channel.wrapping_add(place).cast());
            let exists = self.first < line.words;
            if exists && self.exist[0] {
                mem::store(left, values[0]);
            }
            if exists && self.exist[1] {
                mem::store(right, values[1]);
            }
        }
    }
}
