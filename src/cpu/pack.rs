//! The weights in the order in which the direct algorithm uses them.
//!
//! `[group][block of input channels][block of output channels][phase][tap][input channel][output channel]`: what one
//! call of the micro-kernel reads lies in one piece, and each weight is read from where the caller has it in pieces as
//! long as a kernel. It takes as much memory as the weights of all phases, no more than the weights themselves.

use std::ops::Range;

use rayon::prelude::*;

use super::{microkernel::MAX_ROWS, split::part};
use crate::Problem;

/// Most input channels of a block: their lines for one register block stay in the first-level cache.
const CHANNELS_PER_BLOCK: usize = 128;

/// How weights are packed.
#[derive(Clone, Debug)]
pub(super) struct Packing {
    groups: usize,
    /// Channels per group.
    pub in_channels: usize,
    pub out_channels: usize,
    /// Elements of a kernel.
    kernel: usize,
    /// The kernel index of each tap, phase after phase.
    pub taps: Vec<usize>,
    /// The blocks of input channels of a group.
    pub in_blocks: Vec<Range<usize>>,
    /// The blocks of output channels of a group. Sizes differ by at most one, since small blocks are slow ones.
    pub out_blocks: Vec<Range<usize>>,
}

impl Packing {
    /// Packs for a problem the weights of these taps.
    pub fn new(problem: &Problem<3>, taps: Vec<usize>) -> Self {
        let blocks = |channels: usize, largest: usize| {
            let count = channels.div_ceil(largest);
            (0..count).map(|block| part(channels, count, block)).collect()
        };
        let (in_channels, out_channels) = (problem.in_channels_per_group(), problem.out_channels_per_group());
        Self {
            groups: problem.groups(),
            in_channels,
            out_channels,
            kernel: problem.taps(),
            taps,
            in_blocks: blocks(in_channels, CHANNELS_PER_BLOCK),
            out_blocks: blocks(out_channels, MAX_ROWS),
        }
    }

    /// Elements of the packed weights.
    pub fn elements(&self) -> usize {
        self.groups * self.in_channels * self.out_channels * self.taps.len()
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
        let mut pieces = Vec::with_capacity(self.groups * self.in_blocks.len() * self.out_blocks.len());
        let mut rest = packed.as_mut_slice();
        for group in 0..self.groups {
            for in_block in &self.in_blocks {
                for out_block in &self.out_blocks {
                    let elements = in_block.len() * out_block.len() * self.taps.len();
                    let (piece, after) = rest.split_at_mut(elements);
                    rest = after;
                    pieces.push((group, in_block, out_block, piece));
                }
            }
        }
        pieces.into_par_iter().for_each(|(group, in_block, out_block, piece)| {
            self.pack_block(weight, group * self.in_channels, in_block, out_block, piece);
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
