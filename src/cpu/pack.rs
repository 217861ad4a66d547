//! The weights in the order in which the direct algorithm uses them.
//!
//! `[group][block of input channels][block of output channels][phase][tap][input channel][output channel]`: what one call of the
//! micro-kernel reads lies in one piece, and each weight is read from where the caller has it in pieces as long as a kernel.
//! It takes as much memory as the weights of all phases, no more than the weights themselves.

use std::ops::Range;

use rayon::prelude::*;

use super::{microkernel::MAX_ROWS, split::part};

/// Most input channels of a block: their lines for one register block stay in the first-level cache.
const CHANNELS_PER_BLOCK: usize = 128;

/// How weights are packed.
#[derive(Clone, Debug)]
pub(super) struct Packing {
    pub groups: usize,
    /// Channels per group.
    pub in_channels: usize,
    pub out_channels: usize,
    /// Elements of a kernel.
    pub kernel: usize,
    /// The kernel index of each tap, phase after phase.
    pub taps: Vec<usize>,
}

impl Packing {
    /// Elements of the packed weights.
    pub fn elements(&self) -> usize {
        self.groups * self.in_channels * self.out_channels * self.taps.len()
    }

    pub fn in_blocks(&self) -> usize {
        self.in_channels.div_ceil(CHANNELS_PER_BLOCK)
    }

    /// The input channels of a block, within their group.
    pub fn in_block(&self, block: usize) -> Range<usize> {
        part(self.in_channels, self.in_blocks(), block)
    }

    pub fn out_blocks(&self) -> usize {
        self.out_channels.div_ceil(MAX_ROWS)
    }

    /// The output channels of a block, within their group. Sizes differ by at most one, since small blocks are slow ones.
    pub fn out_block(&self, block: usize) -> Range<usize> {
        part(self.out_channels, self.out_blocks(), block)
    }

    /// Where the weights of tap number `tap` of a pair of blocks begin.
    pub fn start(&self, group: usize, in_block: &Range<usize>, out_block: &Range<usize>, tap: usize) -> usize {
        let before = group * self.in_channels * self.out_channels
            + in_block.start * self.out_channels
            + in_block.len() * out_block.start;
        before * self.taps.len() + tap * in_block.len() * out_block.len()
    }

    /// Packs all weights.
    pub fn pack(&self, weight: &[f32]) -> Vec<f32> {
        let mut packed = vec![0.0; self.elements()];
        if packed.is_empty() {
            return packed;
        }
        let mut pieces = Vec::with_capacity(self.groups * self.in_blocks() * self.out_blocks());
        let mut rest = packed.as_mut_slice();
        for group in 0..self.groups {
            for in_block in (0..self.in_blocks()).map(|block| self.in_block(block)) {
                for out_block in (0..self.out_blocks()).map(|block| self.out_block(block)) {
                    let elements = in_block.len() * out_block.len() * self.taps.len();
                    let (piece, after) = rest.split_at_mut(elements);
                    rest = after;
                    pieces.push((group, in_block.clone(), out_block, piece));
                }
            }
        }
        pieces.into_par_iter().for_each(|(group, in_block, out_block, piece)| {
            self.pack_block(weight, group * self.in_channels, &in_block, &out_block, piece);
        });
        packed
    }

    fn pack_block(
        &self,
        weight: &[f32],
        first_channel: usize,
        in_block: &Range<usize>,
        out_block: &Range<usize>,
        piece: &mut [f32],
    ) {
        let (steps, rows) = (in_block.len(), out_block.len());
        for (step, ci) in in_block.clone().enumerate() {
            let from = ((first_channel + ci) * self.out_channels + out_block.start) * self.kernel;
            let kernels = &weight[from..from + rows * self.kernel];
            for (t, &tap) in self.taps.iter().enumerate() {
                let to = (t * steps + step) * rows;
                for (m, packed) in piece[to..to + rows].iter_mut().enumerate() {
                    *packed = kernels[m * self.kernel + tap];
                }
            }
        }
    }
}
