//! Tensor maps: the input of one call as the copies of boxes see it, in the driver's encoding.

use conv_transpose_kernels::tile::TensorMap;

use super::error::{CudaError, check};
use crate::Problem;

/// `CU_TENSOR_MAP_DATA_TYPE_FLOAT32`, which the driver's bindings do not have.
const FLOAT32: u32 = 7;

/// `CU_TENSOR_MAP_L2_PROMOTION_L2_128B`: what is fetched from memory is at least a line of the L2 cache.
const L2_128B: u32 = 2;

/// To what an address must be aligned, in bytes.
const ALIGN: u64 = 16;

/// The boxes that copies take of the input, wherever it lies: x, y, z, samples, channels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Boxes {
    /// The input's extents.
    extents: [u64; 5],
    /// Distances in bytes along all but x.
    strides: [u64; 4],
    /// A box's extents.
    boxed: [u32; 5],
}

impl Boxes {
    /// The most elements of a box along each dimension.
    pub(super) const MOST: u32 = 256;

    /// Boxes of some extents. Rows of the input must be multiples of four elements, and no extent zero.
    pub(super) fn new(problem: &Problem<3>, boxed: [u32; 5]) -> Self {
        let [depth, height, width] = problem.axes().map(|axis| axis.input as u64);
        let (batch, channels) = (problem.batch() as u64, problem.in_channels() as u64);
        let (row, slice, channel) = (4 * width, 4 * width * height, 4 * width * height * depth);
        Self {
            extents: [width, height, depth, batch, channels],
            strides: [row, slice, channel * channels, channel],
            boxed,
        }
    }

    /// The encoding for an input at an address; that of nothing if the address is not aligned as copies need it.
    pub(super) fn encode(&self, address: u64) -> Result<TensorMap, CudaError> {
        /// Aligned as the driver wants it.
        #[repr(C, align(64))]
        struct Encoded(TensorMap);

        let mut map = Encoded(TensorMap::NONE);
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
                    L2_128B,
                )
            };
            check("cuTensorMapEncodeTiled", result)?;
        }
        Ok(map.0)
    }
}
