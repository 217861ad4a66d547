//! Inputs: what is fetched of the input, job after job, a stage at a time. Below, a word of all positions is called a
//! channel: if it is packed, it has two.
//!
//! A tile's input is a box with its halo, the same box for every channel. On compute capability 9.0, where rows are
//! aligned to 16 bytes and not too short, or tiles have whole rows, one thread starts the copy of all of it. Elsewhere
//! threads copy elements: where each one lies is looked up once per job, in a table in shared memory. Elements outside
//! of the input become zero, which is the padding. Before compute capability 8.0 they copy through `registers`.

use cuda_std::{
    async_copy, hint,
    mbarrier::Mbarrier,
    shared::{SharedPtr, dynamic_shared_mem},
};

#[cfg(not(cuda_arch = "sm_90a"))]
use super::registers;
use super::{INPUT_PRODUCERS, Operands, comes_in_boxes, producer};
use crate::{
    index::Index,
    tile::{
        parameters::Tiling,
        place::{PassHead, Place, next_job},
    },
};

/// In the table of offsets: the element does not exist.
pub(super) const OUTSIDE: u32 = u32::MAX;

/// How far the input of all jobs has been asked for.
pub(super) struct Inputs<'a> {
    t: &'a Tiling,
    operands: &'a Operands,
    /// The next round of jobs.
    round: u32,
    /// Channels of the job, rounded up to whole stages, that have not been asked for.
    channels_left: u32,
    /// The first one, of all input channels.
    channel: u32,
    sample: u32,
    /// The input position of the first element of the tile, outermost first; negative ones wrap around.
    origin: [u32; 3],
    /// Whether the table of offsets is that of tiles that lie inside of the input as a whole, which have the same.
    located_inside: bool,
}

impl<'a> Inputs<'a> {
    #[cfg_attr(gpu, inline(always))]
    pub(super) fn new(t: &'a Tiling, operands: &'a Operands) -> Self {
        Self { t, operands, round: 0, channels_left: 0, channel: 0, sample: 0, origin: [0; 3], located_inside: false }
    }

    /// Goes on to the next job with something to multiply if there is no more of this one. Whether there is anything to
    /// fetch.
    ///
    /// # Safety
    /// As [`produce`](super::produce).
    #[cfg_attr(gpu, inline(always))]
    pub(super) unsafe fn seek(&mut self) -> bool {
        let t = self.t;
        while self.channels_left == 0 {
            let Some(job) = next_job(t, &mut self.round) else { return false };
            let place = Place::new(t, job);
            // SAFETY: the caller's promise.
            let pass = unsafe { PassHead::load(t, self.operands.tables, place.pass) };
            if pass.chunks == 0 {
                continue;
            }
            (self.sample, self.channel) = (place.sample, place.share * t.in_per_share);
            self.origin = [0, 1, 2].map(|axis| place.origin[axis].wrapping_add(pass.origin[axis]));
            self.channels_left = staged_channels(t);
            if !comes_in_boxes(t, self.operands) {
                let inside = is_inside(t, self.sample, self.origin);
                if !(inside && self.located_inside) {
                    // SAFETY: the table has room for the copies of a channel.
                    unsafe { locate(t, self.sample, self.origin) };
                    self.located_inside = inside;
                }
            }
        }
        true
    }

    /// Starts to copy the next channels, and arrives at the barrier when they are there: one thread of all if the input
    /// comes in boxes, otherwise each, so many `TOGETHER`, of which their number is a multiple.
    ///
    /// # Safety
    /// `seek` has found some. The place has room for them, and nobody else accesses it until the barrier says so.
    #[cfg_attr(gpu, inline(always))]
    pub(super) unsafe fn fetch<const ORDINARY: bool, const TOGETHER: u32>(
        &mut self,
        target: SharedPtr<u8>,
        full: Mbarrier,
    ) {
        // SAFETY: the caller's promise.
        unsafe {
            if comes_in_boxes(self.t, self.operands) {
                #[cfg(cuda_arch = "sm_90a")]
                if producer() == 0 {
                    self.fetch_box(target, full);
                }
            } else {
                let (input, channels) = (self.first_element(), self.channels());
                if ORDINARY {
                    #[cfg(not(cuda_arch = "sm_90a"))]
                    registers::fetch_input(self.t, self.operands, input, channels, target);
                    full.arrive();
                } else {
                    self.fetch_elements::<TOGETHER>(input, channels, target);
                    full.arrive_after_copies();
                }
            }
        }
        self.channel += self.t.stage_channels;
        self.channels_left -= self.t.stage_channels;
    }

    /// Starts to copy a box.
    ///
    /// # Safety
    /// As [`fetch`](Self::fetch), by one thread.
    #[cfg(cuda_arch = "sm_90a")]
    #[cfg_attr(gpu, inline(always))]
    unsafe fn fetch_box(&self, target: SharedPtr<u8>, full: Mbarrier) {
        let [z, y, x] = box_origin(self.t, self.origin.map(|first| first as i32));
        let first = [x, y, z, self.sample as i32, self.channel as i32];
        // SAFETY: the caller's promise.
        unsafe {
            full.arrive_expect(self.t.box_bytes);
            async_copy::copy_box(target, self.operands.maps, first, full);
        }
    }

    /// Channels of the job that exist from the next one on.
    #[cfg_attr(gpu, inline(always))]
    fn channels(&self) -> u32 {
        let beyond = staged_channels(self.t) - self.t.in_per_share;
        let of_share = self.channels_left.saturating_sub(beyond);
        of_share.min((self.t.in_channels as u32).saturating_sub(self.channel))
    }

    /// The first element of the next channels. It may lie before the input.
    #[cfg_attr(gpu, inline(always))]
    fn first_element(&self) -> *const f32 {
        let t = self.t;
        let first = self.sample as usize * t.input_sample as usize + self.channel as usize * t.input_plane as usize;
        let [z, y, x] = self.origin.map(|first| first as i32 as isize);
        let [_, height, width] = t.input.map(|extent| extent as isize);
        self.operands.input.wrapping_add(first).wrapping_offset((z * height + y) * width + x)
    }

    /// Starts to copy elements. A thread copies the same elements of all channels, of which so many exist, so that it
    /// looks each up once.
    ///
    /// # Safety
    /// As [`fetch`](Self::fetch); the table of offsets is that of the job.
    #[cfg_attr(gpu, inline(always))]
    unsafe fn fetch_elements<const TOGETHER: u32>(&self, input: *const f32, channels: u32, target: SharedPtr<u8>) {
        let t = self.t;
        // The host knows the alignment of the rows to each other, not that of the first one.
        let wide = t.copy_words == 4 && input.addr().is_multiple_of(16);
        // Distances in registers once, not a register for each multiple of them.
        let plane = hint::opaque(t.input_plane as u32) as usize;
        let channel_bytes = hint::opaque(4 * t.channel_words);
        let mut copy = producer();
        while copy < t.copies {
            // SAFETY: this thread wrote the entry.
            let offset = unsafe { offsets(t).add(copy).load() };
            let inside = offset != OUTSIDE;
            let mut from = input.wrapping_add(offset as usize);
            let mut to = target.add(copy * 4 * t.copy_words).address();
            let mut channel = 0;
            while channel < t.stage_channels {
                for next in 0..TOGETHER {
                    let exists = inside && channel + next < channels;
                    // SAFETY: the caller's promise; an element that exists lies within the input.
                    unsafe { copy_words(t, SharedPtr::from_address(to), from, exists, wide) };
                    from = hint::opaque_pointer(from.wrapping_add(plane));
                    to = hint::opaque(to + channel_bytes);
                }
                channel += TOGETHER;
            }
            copy += INPUT_PRODUCERS;
        }
    }
}

/// Where a box begins, as the map of the input counts that: in axes that are merged with x, words of x.
#[cfg(cuda_arch = "sm_90a")]
#[cfg_attr(gpu, inline(always))]
fn box_origin(t: &Tiling, [z, y, x]: [i32; 3]) -> [i32; 3] {
    let [_, height, width] = t.input.map(|extent| extent as i32);
    match t.merged_axes {
        0 => [z, y, x],
        1 => [z, 0, y * width + x],
        _ => [0, 0, (z * height + y) * width + x],
    }
}

/// Channels of all stages of a job. Found again, not kept in a register meanwhile.
#[cfg_attr(gpu, inline(always))]
fn staged_channels(t: &Tiling) -> u32 {
    hint::opaque(t.stages) * t.stage_channels
}

/// Whether all elements of a tile exist.
#[cfg_attr(gpu, inline(always))]
fn is_inside(t: &Tiling, sample: u32, [z, y, x]: [u32; 3]) -> bool {
    let [depth, height, width] = t.input;
    let ends_by = |first: u32, count: u32, extent: u32| first <= extent && count <= extent - first;
    ends_by(z, t.halo_z.value() as u32, depth)
        && ends_by(y, t.halo_y.value() as u32, height)
        && ends_by(x, t.pitch, width)
        && ends_by(sample, t.tile[0], t.batch)
}

/// The table of offsets, one for each copy of a channel. Each thread writes and reads entries of its own.
#[cfg_attr(gpu, inline(always))]
pub(super) fn offsets(t: &Tiling) -> SharedPtr<u32> {
    dynamic_shared_mem::<u32>().add(t.offsets_start / 4)
}

/// Fills the table of offsets for the tile whose first staged element has the given coordinates, counted from that
/// element.
///
/// # Safety
/// The table has room for `copies` words.
#[cfg_attr(gpu, inline(always))]
unsafe fn locate(t: &Tiling, sample: u32, origin: [u32; 3]) {
    let [depth, height, width] = t.input;
    let mut copy = producer();
    while copy < t.copies {
        let (row, x) = copy.divide(t.halo_x);
        let (slice, y) = row.divide(t.halo_y);
        let (n, z) = slice.divide(t.halo_z);
        let x = x * t.copy_words;
        // Positions before the first one become larger than any extent.
        let within = |axis: usize, position: u32, extent: u32| origin[axis].wrapping_add(position) < extent;
        let inside = sample + n < t.batch && within(0, z, depth) && within(1, y, height) && within(2, x, width);
        let row = z.wrapping_mul(height).wrapping_add(y);
        let offset = n.wrapping_mul(t.input_sample as u32).wrapping_add(row.wrapping_mul(width)).wrapping_add(x);
        // SAFETY: the caller's promise.
        unsafe { offsets(t).add(copy).store(if inside { offset } else { OUTSIDE }) };
        copy += INPUT_PRODUCERS;
    }
}

/// Starts copying what one entry of the table stands for.
///
/// # Safety
/// As [`async_copy::copy_16`] if `wide`, else as [`async_copy::copy_4`] for each word.
#[cfg_attr(gpu, inline(always))]
unsafe fn copy_words(t: &Tiling, to: SharedPtr<u8>, from: *const f32, exists: bool, wide: bool) {
    // SAFETY: the caller's promise.
    unsafe {
        if wide {
            return async_copy::copy_16(to.cast(), from.cast(), exists);
        }
        async_copy::copy_4(to.cast(), from.cast(), exists);
        if t.copy_words > 1 {
            for word in 1..4 {
                async_copy::copy_4(to.add(4 * word).cast(), from.wrapping_add(word as usize).cast(), exists);
            }
        }
    }
}
