//! Tensor maps: the input and the output of one call as the copies of boxes see them, in the driver's encoding.

use conv_transpose_kernels::tile::TensorMap;

use super::error::{CudaError, check};
use crate::Problem;

/// `CU_TENSOR_MAP_DATA_TYPE_FLOAT32`, which the driver's bindings do not have.
const FLOAT32: u32 = 7;

/// `CU_TENSOR_MAP_L2_PROMOTION_L2_128B`: what is fetched from memory is at least a line of the L2 cache.
const L2_128B: u32 = 2;

/// To what an address must be aligned, in bytes.
const ALIGN: u64 = 16;

/// The boxes of the input or the output that copies take, wherever it lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Boxes {
    /// The tensor's extents, innermost first.
    extents: [u64; 5],
    /// Distances in bytes along all but the innermost.
    strides: [u64; 4],
    /// A box's extents.
    boxed: [u32; 5],
    /// `CUtensorMapSwizzle`: how units of 16 bytes are exchanged in shared memory.
    swizzle: u32,
    /// Bytes before the tensor, if it is the packed input: those of its header.
    header: u64,
}

impl Boxes {
    /// The most elements of a box along each dimension.
    pub(super) const MOST: u32 = 256;

    /// Boxes of an input of so many words along z, y and x, samples, and channels, behind a header: x, y, z, samples,
    /// channels. The first of `merged_axes`, y and z, are one with x. Rows, slices and channels that are not must be
    /// multiples of four words, and no extent zero.
    pub(super) fn of_input(
        extents: [usize; 3],
        [batch, channels]: [usize; 2],
        header: usize,
        merged_axes: u32,
        boxed: [u32; 5],
    ) -> Self {
        let [depth, height, width] = extents.map(|extent| extent as u64);
        let (batch, channels) = (batch as u64, channels as u64);
        let (slice, channel) = (width * height, width * height * depth);
        let ([x, y, z], [row, slice]) = match merged_axes {
            0 => ([width, height, depth], [width, slice]),
            1 => ([slice, 1, depth], [slice; 2]),
            _ => ([channel, 1, 1], [channel; 2]),
        };
        Self {
            extents: [x, y, z, batch, channels],
            strides: [row, slice, channel * channels, channel].map(|words| 4 * words),
            boxed,
            swizzle: 0,
            header: 4 * header as u64,
        }
    }

    /// Boxes of the output: x, rows, channels of a group, groups, samples. Each has some words of one row, 16 or 32, in
    /// some channels. In shared memory, units of 16 bytes are exchanged with each other, so that those of eight
    /// channels, or as many as there are in 128 bytes, lie on different banks. Rows of the output must be multiples of
    /// four elements, and no extent zero.
    pub(super) fn of_output(problem: &Problem<3>, words: u32, channels: u32) -> Self {
        let [depth, height, width] = problem.axes().map(|axis| axis.output as u64);
        let (batch, groups) = (problem.batch() as u64, problem.groups() as u64);
        let (rows, group_channels) = (depth * height, problem.out_channels_per_group() as u64);
        let (row, channel) = (4 * width, 4 * width * rows);
        Self {
            extents: [width, rows, group_channels, groups, batch],
            strides: [row, channel, channel * group_channels, channel * group_channels * groups],
            boxed: [words, 1, channels, 1, 1],
            // `CU_TENSOR_MAP_SWIZZLE_64B`, or that of 128 bytes.
            swizzle: words.ilog2() - 2,
            header: 0,
        }
    }

    /// The encoding for a tensor at an address, or behind the header there; that of nothing if the address is not
    /// aligned as copies need it.
    pub(super) fn encode(&self, address: u64) -> Result<TensorMap, CudaError> {
        /// Aligned as the driver wants it.
        #[repr(C, align(64))]
        struct Encoded(TensorMap);

        let mut map = Encoded(TensorMap::NONE);
        let address = address + self.header;
        if address.is_multiple_of(ALIGN) {
            // SAFETY: the map has the size and the alignment of the driver's type.
            let result = unsafe {
                cuda_loader::encode_tensor_map(
                    (&raw mut map.0).cast(),
                    FLOAT32,
                    address,
                    &self.extents,
                    &self.strides,
                    &self.boxed,
                    [self.swizzle, L2_128B],
                )
            };
            check("cuTensorMapEncodeTiled", result)?;
        }
        Ok(map.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ConvTranspose3d, Shape};

    #[test]
    fn boxes_of_an_input_may_merge_axes() {
        let boxes = |merged_axes| Boxes::of_input([6, 7, 8], [3, 5], 4, merged_axes, [8, 1, 1, 1, 8]);
        let channel = 6 * 7 * 8 * 4;
        assert_eq!(boxes(0).extents, [8, 7, 6, 3, 5]);
        assert_eq!(boxes(0).strides, [8 * 4, 7 * 8 * 4, 5 * channel, channel]);
        assert_eq!(boxes(1).extents, [7 * 8, 1, 6, 3, 5]);
        assert_eq!(boxes(1).strides[1..], [7 * 8 * 4, 5 * channel, channel]);
        assert_eq!(boxes(2).extents, [6 * 7 * 8, 1, 1, 3, 5]);
        assert_eq!(boxes(2).strides[2..], [5 * channel, channel]);
        assert_eq!(boxes(0).header, 16);
    }

    #[test]
    fn boxes_of_an_output_are_rows_of_the_channels_of_a_group() {
        let layer = ConvTranspose3d::builder(2, 10, [1, 3, 5]).groups(2).build().unwrap();
        let problem = layer.problem(Shape::batched(3, 2, [6, 7, 8])).unwrap();
        let boxes = Boxes::of_output(&problem, 16, 8);
        // 6 x 9 rows of 12 elements for each channel, five of them in a group.
        assert_eq!(boxes.extents, [12, 54, 5, 2, 3]);
        let channel = 12 * 54 * 4;
        assert_eq!(boxes.strides, [12 * 4, channel, 5 * channel, 10 * channel]);
        assert_eq!((boxes.boxed, boxes.swizzle), ([16, 1, 8, 1, 1], 2));
        assert_eq!(Boxes::of_output(&problem, 32, 8).swizzle, 3);
    }
}
