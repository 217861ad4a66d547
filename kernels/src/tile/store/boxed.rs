//! Storing in boxes, on compute capability 9.0: a team stages its product, a thread of its first warp for each box
//! starts the copy of it to the output, and the team goes on.
//!
//! A box has some neighbouring words of a row, 16 or 32, in all channels of the tile. What lies beyond the end of a
//! row, or is a channel that does not exist, is not copied. Copies want boxes to begin at multiples of 16 bytes, in all
//! rows. In shared memory the words of a channel follow those of the one before. The copies exchange units of 16 bytes
//! within 128 or 64 bytes, depending on the address, so that what the lanes of a warp write at once lies on different
//! banks.

use cuda_std::{
    async_copy, hint,
    mem::Transfer,
    shared::{SharedPtr, dynamic_shared_mem},
    tensor_core,
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

/// The threads of a team that start copies: a warp.
const STARTERS: u32 = 32;

impl Target<'_> {
    /// Stores a product in boxes: `HELD` is one of [`Tiling`]'s ways.
    ///
    /// # Safety
    /// As [`store`](Self::store); the output is aligned to 16 bytes, and its map describes the boxes.
    #[cfg_attr(gpu, inline(always))]
    pub(super) unsafe fn store_boxed<const BLOCKS: usize, const SLOTS: usize, const HELD: u32>(
        &self,
        product: &impl Product<BLOCKS, SLOTS>,
    ) {
        let t = self.t;
        let (_, thread) = Self::team();
        let used_blocks = hint::opaque(t.used_blocks);
        let lane = self.lane_boxes();
        // SAFETY: the caller's promise; barriers lie between writing and reading.
        unsafe {
            if thread < STARTERS {
                async_copy::await_bulk_reads::<0>();
            }
            sync_team();
            // One line of each row after the other: it is the same for all columns of some phases.
            for line in 0..hint::opaque(t.row_lines) {
                unrolled!(BLOCK in 0..BLOCKS, at most 16 => {
                    const NEXT: usize = BLOCK + 1;
                    let last = if HELD == Tiling::QUADS { NEXT } else { BLOCK };
                    let is_first = HELD != Tiling::QUADS || BLOCK.is_multiple_of(2);
                    // Found again for each job, not kept in registers meanwhile.
                    let (group, phase) = hint::opaque(BLOCK as u32).divide(t.column_phases);
                    if is_first && last < BLOCKS && (last as u32) < used_blocks && phase.divide(t.columns_x).0 == line {
                        match HELD {
                            Tiling::PAIRS => self.stage_boxed(&lane, group, line, pairs::<BLOCKS, SLOTS, BLOCK>(product)),
                            Tiling::QUADS => self.stage_boxed(&lane, group, line, quads::<BLOCKS, SLOTS, BLOCK, NEXT>(product)),
                            _ => self.stage_boxed(&lane, group, line, quads_of_halves::<BLOCKS, SLOTS, BLOCK>(product)),
                        }
                    }
                });
            }
            tensor_core::fence_async_proxy();
            sync_team();
            if thread < STARTERS {
                self.start_copies(thread);
            }
        }
    }

    /// Where the lane stages what it holds.
    #[cfg_attr(gpu, inline(always))]
    fn lane_boxes(&self) -> LaneBoxes {
        let t = self.t;
        let (team, thread) = Self::team();
        // A power of two.
        let words = t.boxed_words;
        let word = Self::first_row(thread) * t.line_phases.value() as u32;
        let (number, within) = (word >> words.trailing_zeros(), word & (words - 1));
        let channel = thread % 4 * 2;
        let place = |channel: u32| {
            let address = self.boxed(team).add(number * self.boxed_bytes() + 4 * (channel * words + within)).address();
            // As copies exchange units: within 128 bytes by the number of these.
            address ^ ((address >> 7 & (words / 4 - 1)) << 4)
        };
        LaneBoxes { places: [channel, channel + 1].map(place), biases: self.biases(team).add(channel) }
    }

    /// Boxes of a team's line: a power of two, as their words are.
    #[cfg_attr(gpu, inline(always))]
    fn line_boxes(&self) -> u32 {
        TEAM_ROWS * self.t.line_phases.value() as u32 >> self.t.boxed_words.trailing_zeros()
    }

    /// Bytes of a box, in all channels of a tile.
    #[cfg_attr(gpu, inline(always))]
    fn boxed_bytes(&self) -> u32 {
        4 * self.t.boxed_words * self.t.tile_channels
    }

    /// The staged boxes of a team.
    #[cfg_attr(gpu, inline(always))]
    fn boxed(&self, team: u32) -> SharedPtr<u8> {
        dynamic_shared_mem::<u8>().add(self.t.output_start + team * self.t.output_bytes)
    }

    /// Writes what a lane holds of one line of each row, in its channels of a group, to the staged boxes, with the bias
    /// added.
    ///
    /// # Safety
    /// The biases have been found; nobody else writes to these words, or reads them before a barrier.
    #[cfg_attr(gpu, inline(always))]
    unsafe fn stage_boxed<const ROWS: usize, const WORDS: usize>(
        &self,
        lane: &LaneBoxes,
        group: u32,
        line: u32,
        values: [[[f32; WORDS]; 2]; ROWS],
    ) where
        [f32; WORDS]: Transfer,
    {
        let t = self.t;
        let rows = ROWS as u32 / hint::opaque(t.halves);
        let line_bytes = self.line_boxes() * self.boxed_bytes();
        let group_bytes = group * t.boxed_words * 32;
        // SAFETY: a team has biases for all channels of the tile.
        let biases = unsafe { lane.biases.add(group * 8).cast::<[f32; 2]>().load() };
        unrolled!(ROW in 0..ROWS, at most 8 => {
            if (ROW as u32) < rows {
                let bytes = (ROW as u32 * t.row_lines + line) * line_bytes + group_bytes;
                unrolled!(CHANNEL in 0..2, at most 2 => {
                    let place = SharedPtr::<[f32; WORDS]>::from_address(lane.places[CHANNEL] + bytes);
                    // SAFETY: the caller's promise.
                    unsafe { place.store(values[ROW][CHANNEL].map(|value| value + biases[CHANNEL])) };
                });
            }
        });
    }

    /// Starts to copy the boxes, by a warp: each thread some of them.
    ///
    /// # Safety
    /// The boxes are staged; the lines have been found.
    #[cfg_attr(gpu, inline(always))]
    unsafe fn start_copies(&self, thread: u32) {
        let t = self.t;
        let (team, _) = Self::team();
        let line_boxes = self.line_boxes();
        let first = team * TEAM_ROWS;
        let segments = t.segments.value() as u32;
        let mut number = thread;
        while number < t.places * line_boxes {
            let (place, word) = (number >> line_boxes.trailing_zeros(), (number & (line_boxes - 1)) * t.boxed_words);
            let position = first + word.divide(t.line_phases).0;
            let (row, x) = position.divide(t.box_x);
            let segment = row - first.divide(t.box_x).0;
            // The first row begins where the team does.
            let begins = if segment == 0 { position - first } else { x } * t.line_phases.value() as u32;
            if position < t.positions {
                // SAFETY: the caller's promise: there is such a line, and such a box is staged.
                unsafe {
                    let line = self.lines(team).add(place * segments + segment).cast::<[u32; 4]>();
                    let line: Line = bytemuck::cast(line.load());
                    if begins < line.words {
                        let (n, _) = row.divide(t.box_y).0.divide(t.box_z);
                        let source = self.boxed(team).add(number * self.boxed_bytes());
                        async_copy::store_box(self.output_map, self.box_place(&line, n, begins), source);
                    }
                }
            }
            number += STARTERS;
        }
        async_copy::commit_bulk_group();
    }

    /// Where a box begins in the output that is so far from the beginning of a line of sample `n` of the tile.
    #[cfg_attr(gpu, inline(always))]
    fn box_place(&self, line: &Line, n: u32, begins: u32) -> [i32; 5] {
        let t = self.t;
        let [_, height, width] = t.output;
        let [z, y, x] = self.origin();
        let line_x = line.offset.wrapping_sub(n * t.output_sample as u32).wrapping_sub(line.row * width);
        let place = [
            x + line_x + begins,
            z.wrapping_mul(height).wrapping_add(y).wrapping_add(line.row),
            self.place.first_channel,
            self.place.group,
            self.place.sample + n,
        ];
        place.map(|coordinate| coordinate as i32)
    }
}

/// Where a lane stages what it holds of boxes.
struct LaneBoxes {
    /// The addresses in shared memory for the first line, in either of its channels of the first group.
    places: [u32; 2],
    /// The bias of the first channel; those of the others follow.
    biases: SharedPtr<f32>,
}
