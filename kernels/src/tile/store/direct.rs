//! Storing straight from the product: the elements that a lane holds of an output row go out in one piece.
//!
//! A store reads its registers long after it is issued, and whoever writes to them next has to wait. So all that a
//! block of columns stores is computed first, and then stored.

use cuda_std::{
    hint,
    mem::{self, Transfer},
};

use super::{
    Line, Target,
    held::{pairs, quads, quads_of_halves},
    sync_team,
};
use crate::{
    index::Index,
    tile::{TEAM_ROWS, multiply::Product, parameters::Tiling},
    unrolled::unrolled,
};

impl Target<'_> {
    /// Stores a product of which a lane holds pieces of rows: `HELD` is one of [`Tiling`]'s ways.
    ///
    /// # Safety
    /// As [`store`](Self::store); the pieces are aligned, and all elements of one exist, or none.
    #[cfg_attr(gpu, inline(always))]
    pub(super) unsafe fn store_direct<const BLOCKS: usize, const SLOTS: usize, const HELD: u32>(
        &self,
        product: &impl Product<BLOCKS, SLOTS>,
    ) {
        let t = self.t;
        let output = hint::opaque_pointer(self.first_output()).cast_mut();
        let used_blocks = hint::opaque(t.used_blocks);
        let row = self.lane_row();
        let passes_on = HELD == Tiling::PAIRS && hint::opaque(t.direct_warps) > 1;
        // One line of each row after the other: it is the same for all columns of some phases.
        for line in 0..hint::opaque(t.row_lines) {
            // SAFETY: the caller's promise; the blocks are used, the product complete.
            unsafe {
                let pieces = self.pieces::<SLOTS>(&row, line);
                let passing = self.passing(SLOTS as u32 * 2);
                if passes_on {
                    // What was passed on last has been taken.
                    sync_team();
                }
                unrolled!(BLOCK in 0..BLOCKS, at most 16 => {
                    const NEXT: usize = BLOCK + 1;
                    let last = if HELD == Tiling::QUADS { NEXT } else { BLOCK };
                    let is_first = HELD != Tiling::QUADS || BLOCK.is_multiple_of(2);
                    // Found again for each job, not kept in registers meanwhile.
                    let (group, phase) = hint::opaque(BLOCK as u32).divide(t.column_phases);
                    if is_first && last < BLOCKS && (last as u32) < used_blocks && phase.divide(t.columns_x).0 == line {
                        let channels = self.channels(output, group);
                        match HELD {
                            Tiling::PAIRS if passes_on => {
                                let values = pairs::<BLOCKS, SLOTS, BLOCK>(product);
                                self.store_sectors(&channels, &pieces, &passing, values, group);
                            }
                            Tiling::PAIRS => channels.store(&pieces, pairs::<BLOCKS, SLOTS, BLOCK>(product)),
                            Tiling::QUADS => channels.store(&pieces, quads::<BLOCKS, SLOTS, BLOCK, NEXT>(product)),
                            _ => channels.store(&pieces, quads_of_halves::<BLOCKS, SLOTS, BLOCK>(product)),
                        }
                    }
                });
            }
        }
    }

    /// The lane's row, and its first word there.
    #[cfg_attr(gpu, inline(always))]
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
        LaneRow { segment, first: if exists { (x * self.t.line_phases.value() as u32) as i32 } else { NOWHERE } }
    }

    /// Where the lane's pieces lie in a line of each output row.
    ///
    /// # Safety
    /// The lines have been found.
    #[cfg_attr(gpu, inline(always))]
    unsafe fn pieces<const ROWS: usize>(&self, row: &LaneRow, line: u32) -> Pieces<ROWS> {
        let (team, _) = Self::team();
        let segments = self.t.segments.value() as u32;
        let rows = ROWS as u32 / hint::opaque(self.t.halves);
        let lines = self.lines(team).add(line * segments + row.segment);
        let mut pieces = Pieces { first: row.first, offsets: [0; ROWS], words: [0; ROWS] };
        unrolled!(ROW in 0..ROWS, at most 8 => {
            if (ROW as u32) < rows {
                let place = lines.add(ROW as u32 * self.t.row_lines * segments).cast::<[u32; 4]>();
                // SAFETY: the caller's promise: there are so many rows.
                let line: Line = bytemuck::cast(unsafe { place.load() });
                pieces.offsets[ROW] = line.offset.wrapping_add(row.first as u32);
                pieces.words[ROW] = line.words as i32;
            }
        });
        pieces
    }

    /// The lane's two channels of a group of eight. `output` is the tile's.
    ///
    /// # Safety
    /// The biases have been found; the tile has such a group.
    #[cfg_attr(gpu, inline(always))]
    unsafe fn channels(&self, output: *mut f32, group: u32) -> Channels {
        let (team, thread) = Self::team();
        // A channel has fewer than 2^31 elements.
        let plane = hint::opaque(self.t.output_plane as u32) as usize;
        let first = group * 8 + thread % 4 * 2;
        let channels = self.channels_from(0);
        Channels {
            first: output.wrapping_add(first as usize * plane),
            plane,
            exist: [first < channels, first + 1 < channels],
            // SAFETY: a team has biases for all channels of the tile.
            biases: unsafe { self.biases(team).add(first).cast::<[f32; 2]>().load() },
        }
    }
}

/// Where a lane's two positions are.
struct LaneRow {
    /// The row of the box, counted from the team's first one.
    segment: u32,
    /// The first position's word in the line there, or [`NOWHERE`].
    first: i32,
}

/// Beyond all lines, by far: there is no such word.
const NOWHERE: i32 = i32::MAX / 2;

/// Where the pieces of output rows lie that a lane holds, in any channel.
pub(super) struct Pieces<const ROWS: usize> {
    /// The first word of a piece, counted from the beginning of its line.
    first: i32,
    /// The same word of each row's piece, counted from where the tile begins.
    offsets: [u32; ROWS],
    /// Words of each row's line: none if there is no such row.
    pub(super) words: [i32; ROWS],
}

impl<const ROWS: usize> Pieces<ROWS> {
    /// The same, of which a compiler does not know that.
    #[cfg_attr(gpu, inline(always))]
    pub(super) fn again(&self) -> Self {
        Self { offsets: self.offsets.map(hint::opaque), ..*self }
    }
}

/// Two output channels of a lane.
pub(super) struct Channels {
    /// The first one, where the tile begins.
    first: *mut f32,
    /// Words from one to the other.
    plane: usize,
    /// Whether they exist.
    exist: [bool; 2],
    /// Their biases.
    biases: [f32; 2],
}

impl Channels {
    /// Stores a piece of each row, by channel, with the bias added.
    ///
    /// # Safety
    /// As [`Target::store_direct`].
    #[cfg_attr(gpu, inline(always))]
    unsafe fn store<const ROWS: usize, const WORDS: usize>(
        &self,
        pieces: &Pieces<ROWS>,
        values: [[[f32; WORDS]; 2]; ROWS],
    ) where
        [f32; WORDS]: Transfer,
    {
        let values = self.with_biases(values);
        unrolled!(ROW in 0..ROWS, at most 8 => {
            unrolled!(CHANNEL in 0..2, at most 2 => {
                let (first, place) = self.piece(pieces, ROW, CHANNEL);
                // SAFETY: the caller's promise; the piece exists if the condition holds.
                unsafe { mem::store_below(first, pieces.words[ROW], place.cast(), values[ROW][CHANNEL]) };
            });
        });
    }

    /// The values of each row, by channel, with the biases added.
    #[cfg_attr(gpu, inline(always))]
    pub(super) fn with_biases<const ROWS: usize, const WORDS: usize>(
        &self,
        values: [[[f32; WORDS]; 2]; ROWS],
    ) -> [[[f32; WORDS]; 2]; ROWS] {
        let [left, right] = self.biases;
        values.map(|[a, b]| [a.map(|value| value + left), b.map(|value| value + right)])
    }

    /// The piece of a row in a channel: its first word, counted from the beginning of the line, and its place in the
    /// output.
    #[cfg_attr(gpu, inline(always))]
    pub(super) fn piece<const ROWS: usize>(
        &self,
        pieces: &Pieces<ROWS>,
        row: usize,
        channel: usize,
    ) -> (i32, *mut f32) {
        let first = hint::opaque_pointer(self.first.wrapping_add(pieces.offsets[row] as usize)).cast_mut();
        // Of a channel that does not exist, no line has such a word.
        let number = if self.exist[channel] { pieces.first } else { NOWHERE };
        (number, if channel == 0 { first } else { first.wrapping_add(self.plane) })
    }
}
