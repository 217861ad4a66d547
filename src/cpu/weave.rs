//! Interleaves the phases of the last axis into a row of output.
//!
//! Output positions `q * stride + r` come from position `q` of phase `r`. All phases of a row are at hand when it is
//! stored, so each cache line of the output is written once and whole. An output too large for the caches is written
//! past them, which saves reading every line of it before it is overwritten. Only whole cache lines of long rows are: a
//! line that is written half past the caches and half through them costs more than all that is saved.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

use super::microkernel::Kernels;

/// Elements of an output that is written past the caches, if the processor can: 32 MiB.
const STREAMED_ELEMENTS: usize = 8 << 20;
/// Elements of a row, or of a tile's part of it, that is written past the caches: a page.
const STREAMED_ROW: usize = 1 << 10;
/// Bytes of a cache line.
const CACHE_LINE: usize = 64;

/// The way in which rows are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Weave {
    Portable,
    #[cfg(target_arch = "x86_64")]
    Avx,
    /// Past the caches. [`finish`](Self::finish) has to follow.
    #[cfg(target_arch = "x86_64")]
    AvxStreaming,
}

/// The phases of one output row: phase `r` is at `first + r * pitch` of `lines`.
pub(super) struct Woven<'a> {
    pub lines: &'a [f32],
    pub first: usize,
    pub pitch: usize,
    /// Number of positions of each phase; they differ by at most one and do not grow.
    pub counts: &'a [usize],
}

impl Weave {
    /// The best way for an output of that many elements, in pieces of rows of that many.
    #[cfg(target_arch = "x86_64")]
    pub fn new(kernels: &Kernels, output_elements: usize, row_elements: usize) -> Self {
        // Kernels of eight lanes or more were detected together with AVX.
        match (kernels.lanes >= 8, output_elements >= STREAMED_ELEMENTS && row_elements >= STREAMED_ROW) {
            (false, _) => Self::Portable,
            (true, false) => Self::Avx,
            (true, true) => Self::AvxStreaming,
        }
    }

    /// The best way for an output of that many elements, in pieces of rows of that many.
    #[cfg(not(target_arch = "x86_64"))]
    pub fn new(_kernels: &Kernels, _output_elements: usize, _row_elements: usize) -> Self {
        Self::Portable
    }

    /// Stores position `q` of phase `r` as `row[q * stride + r]`.
    pub fn store(self, woven: &Woven<'_>, row: &mut [f32], stride: usize) {
        if woven.counts.len() < stride {
            return woven.store_from(row, stride, 0);
        }
        let full = woven.counts.last().copied().unwrap_or(0);
        let all = &mut row[..full * stride];
        match stride {
            1 => self.store_line(woven.line(0, full), all),
            2 => self.store_pairs(woven.line(0, full), woven.line(1, full), all),
            3 => woven.store_all::<3>(all),
            4 => woven.store_all::<4>(all),
            8 => woven.store_all::<8>(all),
            _ => return woven.store_from(row, stride, 0),
        }
        woven.store_from(row, stride, full);
    }

    /// Makes streamed elements visible before whatever this thread stores next.
    pub fn finish(self) {
        #[cfg(target_arch = "x86_64")]
        if self == Self::AvxStreaming {
            // SAFETY: every x86-64 processor has this instruction.
            unsafe { _mm_sfence() };
        }
    }

    fn store_line(self, line: &[f32], row: &mut [f32]) {
        match self {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: this way is only chosen where AVX was detected.
            Self::AvxStreaming => unsafe { stream_line(line, row) },
            _ => row.copy_from_slice(line),
        }
    }

    fn store_pairs(self, even: &[f32], odd: &[f32], row: &mut [f32]) {
        match self {
            Self::Portable => pairs(even, odd, row),
            #[cfg(target_arch = "x86_64")]
            // SAFETY: this way is only chosen where AVX was detected.
            Self::Avx => unsafe { avx_pairs::<false>(even, odd, row) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: this way is only chosen where AVX was detected.
            Self::AvxStreaming => unsafe { avx_pairs::<true>(even, odd, row) },
        }
    }
}

impl Woven<'_> {
    fn line(&self, r: usize, count: usize) -> &[f32] {
        let start = self.first + r * self.pitch;
        &self.lines[start..start + count]
    }

    fn store_all<const STRIDE: usize>(&self, row: &mut [f32]) {
        let (elements, _) = row.as_chunks_mut::<STRIDE>();
        let lines: [&[f32]; STRIDE] = std::array::from_fn(|r| self.line(r, elements.len()));
        for (q, woven) in elements.iter_mut().enumerate() {
            for (element, line) in woven.iter_mut().zip(lines) {
                *element = line[q];
            }
        }
    }

    /// Positions `from..` of each phase, element by element.
    fn store_from(&self, row: &mut [f32], stride: usize, from: usize) {
        for (r, &count) in self.counts.iter().enumerate() {
            for (q, &element) in self.line(r, count).iter().enumerate().skip(from) {
                row[q * stride + r] = element;
            }
        }
    }
}

fn pairs(even: &[f32], odd: &[f32], row: &mut [f32]) {
    let (elements, _) = row.as_chunks_mut::<2>();
    for (pair, (&even, &odd)) in elements.iter_mut().zip(even.iter().zip(odd)) {
        *pair = [even, odd];
    }
}

/// Stores `even` and `odd` in turn; `row` is as long as both together.
///
/// # Safety
/// The processor has AVX.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx")]
unsafe fn avx_pairs<const STREAM: bool>(even: &[f32], odd: &[f32], row: &mut [f32]) {
    // Pairs never come to the beginning of a cache line if the row does not begin with one's even element.
    let head = if STREAM { row.as_ptr().align_offset(CACHE_LINE) } else { 0 };
    if !head.is_multiple_of(2) {
        // SAFETY: AVX is there.
        return unsafe { avx_pairs::<false>(even, odd, row) };
    }
    let (row_head, row) = row.split_at_mut(head.min(row.len()));
    let (even_head, even) = even.split_at(row_head.len() / 2);
    let (odd_head, odd) = odd.split_at(row_head.len() / 2);
    pairs(even_head, odd_head, row_head);

    let (even_vectors, even_tail) = even.as_chunks::<8>();
    let (odd_vectors, odd_tail) = odd.as_chunks::<8>();
    let (row_vectors, row_tail) = row.as_chunks_mut::<16>();
    for ((even, odd), to) in even_vectors.iter().zip(odd_vectors).zip(row_vectors) {
        // SAFETY: the arrays hold one and two vectors; what is streamed is aligned to a cache line.
        unsafe {
            let (even, odd) = (_mm256_loadu_ps(even.as_ptr()), _mm256_loadu_ps(odd.as_ptr()));
            let (low, high) = (_mm256_unpacklo_ps(even, odd), _mm256_unpackhi_ps(even, odd));
            let (first, second) = (_mm256_permute2f128_ps(low, high, 0x20), _mm256_permute2f128_ps(low, high, 0x31));
            if STREAM {
                _mm256_stream_ps(to.as_mut_ptr(), first);
                _mm256_stream_ps(to.as_mut_ptr().add(8), second);
            } else {
                _mm256_storeu_ps(to.as_mut_ptr(), first);
                _mm256_storeu_ps(to.as_mut_ptr().add(8), second);
            }
        }
    }
    pairs(even_tail, odd_tail, row_tail);
}

/// Copies a line, past the caches; `row` is as long as the line.
///
/// # Safety
/// The processor has AVX.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx")]
unsafe fn stream_line(line: &[f32], row: &mut [f32]) {
    let head = row.as_ptr().align_offset(CACHE_LINE).min(row.len());
    let (row_head, row) = row.split_at_mut(head);
    let (line_head, line) = line.split_at(head);
    row_head.copy_from_slice(line_head);
    let (line_vectors, line_tail) = line.as_chunks::<16>();
    let (row_vectors, row_tail) = row.as_chunks_mut::<16>();
    for (from, to) in line_vectors.iter().zip(row_vectors) {
        // SAFETY: the arrays hold two vectors each; that of the row is aligned to a cache line.
        unsafe {
            _mm256_stream_ps(to.as_mut_ptr(), _mm256_loadu_ps(from.as_ptr()));
            _mm256_stream_ps(to.as_mut_ptr().add(8), _mm256_loadu_ps(from.as_ptr().add(8)));
        }
    }
    row_tail.copy_from_slice(line_tail);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ways() -> Vec<Weave> {
        [0, STREAMED_ELEMENTS]
            .map(|elements| Weave::new(&Kernels::detect(), elements, elements))
            .into_iter()
            .chain([Weave::Portable])
            .collect()
    }

    #[test]
    fn every_way_weaves_alike_at_every_alignment_and_length() {
        let lines: Vec<f32> = (0..1000).map(|i| i as f32).collect();
        for way in ways() {
            for (stride, phases) in [(1, 1), (2, 2), (2, 1), (3, 3), (4, 4), (5, 5), (8, 8), (9, 4)] {
                for (count, longer) in (0..40).flat_map(|count| (0..phases).map(move |longer| (count, longer))) {
                    let counts: Vec<usize> = (0..phases).map(|r| count + usize::from(r < longer)).collect();
                    let woven = Woven { lines: &lines, first: 3, pitch: 50, counts: &counts };
                    for offset in 0..9 {
                        let mut row = vec![-1.0; offset + (count + 1) * stride + 1];
                        way.store(&woven, &mut row[offset..], stride);
                        way.finish();
                        for (at, &element) in row.iter().enumerate() {
                            let (q, r) = (at.wrapping_sub(offset) / stride, at.wrapping_sub(offset) % stride);
                            let stored = at >= offset && r < phases && q < counts[r];
                            let expected = if stored { lines[3 + r * 50 + q] } else { -1.0 };
                            assert_eq!(
                                element, expected,
                                "{way:?}, stride {stride}, counts {counts:?}, offset {offset}"
                            );
                        }
                    }
                }
            }
        }
    }
}
