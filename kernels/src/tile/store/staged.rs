//! Storing by way of shared memory: a team stages some channels at a time, then its lanes store neighbouring elements of an output row.
//!
//! Four channels of an element, a quad, lie together: a lane that stores it takes them at once.

use cuda_std::{
    mem,
    shared::{SharedPtr, dynamic_shared_mem},
};

use super::{NOWHERE, ONLY_BIAS, Target};
use crate::{
    index::Index,
    tile::{TEAM_ROWS, TEAM_THREADS, multiply::Product, unrolled::unrolled},
};

/// Channels of a quad.
pub const QUAD: u32 = 4;

impl Target<'_> {
    /// Stores a product by way of shared memory. It synchronises the team before the staged output is used again.
    ///
    /// # Safety
    /// As [`store`](Self::store).
    #[inline(always)]
    pub(super) unsafe fn store_staged<const BLOCKS: usize, const SLOTS: usize>(
        &self,
        product: &impl Product<BLOCKS, SLOTS>,
    ) {
        let mut first = 0;
        while first < self.t.used_blocks {
            let slice = self.t.slice_blocks.min(self.t.used_blocks - first);
            let channel = first.divide(self.t.column_phases).0 * 8;
            let channels = slice.divide(self.t.column_phases).0 * 8;
            // SAFETY: the caller's promise; barriers lie between writing and reading.
            unsafe {
                unrolled!(BLOCK in 0..BLOCKS, at most 16 => {
                    let part = (BLOCK as u32).wrapping_sub(first);
                    if part < slice {
                        self.stage::<BLOCKS, SLOTS, BLOCK>(product, channel, part);
                    }
                });
                self.sync_team();
                self.store_channels(channel, channels);
                self.sync_team();
            }
            first += slice;
        }
    }

    /// Stores the biases where a pass has no taps.
    ///
    /// # Safety
    /// All threads of the team come here together; the elements have been looked up, and are the block's own.
    #[inline(always)]
    pub(in crate::tile) unsafe fn store_biases(&self) {
        // SAFETY: the caller's promise; nothing is staged, and no element of such a pass is.
        unsafe { self.store_channels(0, self.t.tile_channels) };
    }

    /// The staged output of a team.
    #[inline(always)]
    fn staged(&self, team: u32) -> SharedPtr<f32> {
        dynamic_shared_mem::<f32>().add((self.t.output_start + team * self.t.output_bytes) / 4)
    }

    /// Writes a block of eight columns to the staged output, where it is number `part`. Staging begins with number `first_channel` of the
    /// tile.
    #[inline(always)]
    unsafe fn stage<const BLOCKS: usize, const SLOTS: usize, const BLOCK: usize>(
        &self,
        product: &impl Product<BLOCKS, SLOTS>,
        first_channel: u32,
        part: u32,
    ) {
        let (team, thread) = Self::team();
        let row = Self::first_row(thread);
        let column = thread % 4 * 2;
        let (group, phase) = part.divide(self.t.column_phases);
        let quad = (group * 8 + column) / QUAD;
        let word = quad * self.t.quad_words + phase * self.t.phase_words + row * QUAD + column % QUAD;
        let first = self.staged(team).add(word);
        // SAFETY: the staged output has room for the slice, and nobody else writes to these words; the product is complete.
        unsafe {
            let [left, right] = self.biases(team).add(first_channel + group * 8 + column).cast::<[f32; 2]>().load();
            unrolled!(SLOT in 0..SLOTS, at most 8 => {
                let [a, b, c, d] = product.values::<SLOT, BLOCK>();
                let place = first.add(SLOT as u32 * self.t.slot_words);
                place.cast::<[f32; 2]>().store([a + left, b + right]);
                place.add(QUAD).cast::<[f32; 2]>().store([c + left, d + right]);
            });
        }
    }

    /// Stores channels of the tile from number `first` on, which are staged or biases.
    ///
    /// # Safety
    /// All threads of the team come here together, after a barrier.
    #[inline(always)]
    unsafe fn store_channels(&self, first: u32, channels: u32) {
        let channels = self.channels_from(first).min(channels);
        let plane = self.t.output_plane as usize;
        let output = self.first_output().wrapping_add(first as usize * plane);
        let (team, thread) = Self::team();
        let elements = self.t.places * TEAM_ROWS;
        // Where a channel has fewer elements than the team threads, these share the channels.
        let (mut element, channels) = if self.t.places == 1 {
            let half = channels.div_ceil(2).next_multiple_of(QUAD);
            let first = thread / TEAM_ROWS * half;
            (thread % TEAM_ROWS, first..channels.min(first + half))
        } else {
            (thread, 0..channels)
        };
        while element < elements {
            // SAFETY: the caller's promise.
            unsafe {
                let [offset, word] = self.elements(team).add(element).load();
                if offset != NOWHERE {
                    // Neighbouring lanes store together, whether they have sums or biases.
                    let (values, distance) = if word == ONLY_BIAS {
                        (self.biases(team).add(first), QUAD)
                    } else {
                        (self.staged(team).add(word), self.t.quad_words)
                    };
                    let values = values.add(channels.start / QUAD * distance);
                    let place = output.wrapping_add(offset as usize + channels.start as usize * plane);
                    let left = channels.end.saturating_sub(channels.start);
                    // One or two columns do not begin at a quad.
                    if matches!(self.t.close_channels, 1 | 2) {
                        self.store_close(values, place, left);
                    } else {
                        self.store_element(values.cast(), distance / QUAD, place, left);
                    }
                }
            }
            element += TEAM_THREADS;
        }
    }

    /// Stores an element of the next `channels` channels. Their quads lie at a `distance` in shared memory, counted in quads.
    #[inline(always)]
    unsafe fn store_element(&self, values: SharedPtr<[f32; 4]>, distance: u32, place: *mut f32, channels: u32) {
        let (mut values, mut place, mut left) = (values, place, channels);
        // SAFETY: the caller's promise.
        unsafe {
            // Two quads at a time: what does not depend on each other keeps the warp busy.
            while left >= 2 * QUAD {
                let [a, b] = [values.load(), values.add(distance).load()];
                unrolled!(NUMBER in 0..4, at most 4 => { mem::store(self.channel(place, NUMBER), a[NUMBER % 4]); });
                unrolled!(NUMBER in 0..4, at most 4 => { mem::store(self.channel(place, 4 + NUMBER), b[NUMBER % 4]); });
                values = values.add(2 * distance);
                place = self.channel(place, 2 * QUAD as usize);
                left -= 2 * QUAD;
            }
            while left > 0 {
                let quad = values.load();
                unrolled!(NUMBER in 0..4, at most 4 => {
                    if (NUMBER as u32) < left {
                        mem::store(self.channel(place, NUMBER), quad[NUMBER % 4]);
                    }
                });
                values = values.add(distance);
                place = self.channel(place, QUAD as usize);
                left = left.saturating_sub(QUAD);
            }
        }
    }

    /// Stores an element of the next `channels` channels, one or two, which lie side by side in shared memory.
    #[inline(always)]
    unsafe fn store_close(&self, values: SharedPtr<f32>, place: *mut f32, channels: u32) {
        // SAFETY: the caller's promise.
        unsafe {
            mem::store(place, values.load());
            if channels == 2 {
                mem::store(self.channel(place, 1), values.add(1).load());
            }
        }
    }

    /// The same element that many channels further on. A constant number makes it a single instruction.
    #[inline(always)]
    fn channel(&self, place: *mut f32, number: usize) -> *mut f32 {
        place.wrapping_byte_add(self.t.output_plane as u32 as usize * (4 * number))
    }
}
