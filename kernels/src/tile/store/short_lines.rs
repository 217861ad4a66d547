//! Storing staged lines that are short: lanes take pieces side by side, whatever line they are of.
//!
//! Lanes that take a line together, as in `staged`, find their pieces anew for each line and each channel, and most of
//! them have none if a line is short. But all channels have the same lines. So a lane finds out once which pieces it
//! has, of whatever lines, and stores these of all channels: two instructions for each, and their conditions. A line
//! then begins with any lane, and not where a sector of the memory does, so that sectors are written in more pieces.

use cuda_std::{hint, mem, shared::SharedPtr};

use super::{Line, Target, staged::Piece};
use crate::{
    index::Index,
    tile::{TEAM_THREADS, parameters::OutputPlace},
    unrolled::unrolled,
};

/// Where one of a lane's pieces is.
#[derive(Clone, Copy)]
struct Spot<P> {
    /// Where it is staged, of the first channel. Or that channel's bias, if the line has nothing else.
    values: SharedPtr<P>,
    /// Pieces from one channel to the next there.
    step: u32,
    /// Where it belongs in each channel of the output, in pieces from where the tile begins.
    offset: u32,
    /// 0 if there is such a piece, otherwise 1.
    missing: i32,
}

impl Target<'_> {
    /// Stores channels of the tile from number `first` on, so many pieces of each lane at once.
    ///
    /// # Safety
    /// All threads of the team come here together, after a barrier; lines begin and end at multiples of a piece. If it
    /// has several words, all lines are staged.
    #[cfg_attr(gpu, inline(always))]
    pub(super) unsafe fn store_short_lines<P: Piece, const PIECES: usize>(&self, first: u32, channels: u32) {
        let t = self.t;
        let channels = self.channels_from(first).min(channels);
        let output = self.first_output().wrapping_add(first as usize * t.output_plane as usize).cast::<P>();
        let plane = (hint::opaque(t.output_plane as u32) / P::WORDS) as usize;
        let pieces = t.lines.value() as u32 * t.longest_line.value() as u32;
        let (team, mut number) = Self::team();
        while number < pieces {
            // SAFETY: the caller's promise.
            unsafe {
                let none = Spot { values: self.staged(team).cast(), step: 0, offset: 0, missing: 1 };
                let mut spots = [none; PIECES];
                unrolled!(PIECE in 0..PIECES, at most 6 => {
                    spots[PIECE % PIECES] = self.spot_of(first, number + PIECE as u32 * TEAM_THREADS);
                });
                let mut channel = 0;
                while channel < channels {
                    let next = channel + 1;
                    // Both on their way together.
                    let values = [load(&spots, channel, true), load(&spots, next, next < channels)];
                    store(&spots, output, channel as usize * plane, true, values[0]);
                    store(&spots, output, next as usize * plane, next < channels, values[1]);
                    channel += 2;
                }
            }
            number += PIECES as u32 * TEAM_THREADS;
        }
    }

    /// Where piece `number` is, counted as if all lines were as long as the longest one.
    ///
    /// # Safety
    /// As [`store_short_lines`](Self::store_short_lines), with number `first` as the first channel.
    #[cfg_attr(gpu, inline(always))]
    unsafe fn spot_of<P: Piece>(&self, first: u32, number: u32) -> Spot<P> {
        let t = self.t;
        let (team, _) = Self::team();
        let (line_number, piece) = number.divide(t.longest_line);
        let is_of_line = line_number < t.lines.value() as u32;
        // SAFETY: the table has this line.
        let line: Line = unsafe {
            bytemuck::cast(self.lines(team).add(if is_of_line { line_number } else { 0 }).cast::<[u32; 4]>().load())
        };
        let word = piece * P::WORDS;
        let (period, phases) = (hint::opaque(t.line_period.value() as u32), t.line_phases.value() as u32);
        let apart = if period == phases {
            word
        } else {
            let (position, phase) = word.divide(t.line_phases);
            position * period + phase
        };
        let exists = is_of_line && word < line.words;
        let (values, step) = if line.source == OutputPlace::BIAS {
            (self.biases(team).add(first).cast(), 1)
        } else {
            // What is no place has a source that no word has.
            (self.staged(team).add(line.source.wrapping_add(word)).cast(), t.staged_channel_words / P::WORDS)
        };
        Spot { values, step, offset: (line.offset + apart) / P::WORDS, missing: i32::from(!exists) }
    }
}

/// A lane's pieces of a channel, if it exists.
///
/// # Safety
/// They are staged.
#[cfg_attr(gpu, inline(always))]
unsafe fn load<P: Piece, const PIECES: usize>(spots: &[Spot<P>; PIECES], channel: u32, exists: bool) -> [P; PIECES] {
    let mut values = [P::of(0.0); PIECES];
    unrolled!(PIECE in 0..PIECES, at most 6 => {
        let Spot { values: staged, step, missing, .. } = spots[PIECE % PIECES];
        // SAFETY: the caller's promise.
        values[PIECE % PIECES] = unsafe { staged.add(channel * step).load_below(missing, i32::from(exists)) };
    });
    values
}

/// Stores them, if the channel exists, which begins that many pieces behind `output`.
///
/// # Safety
/// They are the block's own.
#[cfg_attr(gpu, inline(always))]
unsafe fn store<P: Piece, const PIECES: usize>(
    spots: &[Spot<P>; PIECES],
    output: *mut P,
    channel: usize,
    exists: bool,
    values: [P; PIECES],
) {
    let output = output.wrapping_add(channel);
    unrolled!(PIECE in 0..PIECES, at most 6 => {
        let Spot { offset, missing, .. } = spots[PIECE % PIECES];
        let target = output.wrapping_add(offset as usize);
        // SAFETY: the caller's promise.
        unsafe { mem::store_below(missing, i32::from(exists), target, values[PIECE % PIECES]) };
    });
}
