//! The shape of a tensor: optional batch, channels, spatial extents.

use std::fmt;

use super::error::{Argument, GeometryError};

/// The shape of a row-major tensor `[batch, channels, extent...]`, or of an unbatched one `[channels, extent...]`.
///
/// Spatial axes come in PyTorch's order: `[width]`, `[height, width]` or `[depth, height, width]`; the last axis is
/// contiguous. A weight `[in_channels, out_channels / groups, kernel...]` has the same type, with `in_channels` as its
/// batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Shape<const D: usize> {
    /// Number of samples, of a weight `in_channels`; `None` for an unbatched tensor, which has no batch axis at all.
    pub batch: Option<usize>,
    /// Number of channels; of a weight, `out_channels / groups`.
    pub channels: usize,
    /// Extent of each spatial axis, in elements.
    pub extent: [usize; D],
}

impl<const D: usize> Shape<D> {
    /// The shape `[batch, channels, extent...]`.
    pub const fn batched(batch: usize, channels: usize, extent: [usize; D]) -> Self {
        Self { batch: Some(batch), channels, extent }
    }

    /// The shape `[channels, extent...]`.
    pub const fn unbatched(channels: usize, extent: [usize; D]) -> Self {
        Self { batch: None, channels, extent }
    }

    /// Reads a shape from a list of dimensions: `D + 2` of them make a batched shape, `D + 1` an unbatched one.
    ///
    /// # Errors
    /// [`GeometryError::Rank`] for any other number of dimensions. It speaks of an `input`, whatever the shape is meant
    /// for.
    pub fn from_dims(dims: &[usize]) -> Result<Self, GeometryError> {
        let rank = || GeometryError::Rank { argument: Argument::Input, spatial_axes: D, rank: dims.len() };
        let spatial = dims.len().checked_sub(D).ok_or_else(rank)?;
        let extent = dims[spatial..].try_into().map_err(|_| rank())?;
        match dims[..spatial] {
            [channels] => Ok(Self::unbatched(channels, extent)),
            [batch, channels] => Ok(Self::batched(batch, channels, extent)),
            _ => Err(rank()),
        }
    }

    /// The dimensions as a list, outermost first.
    pub fn dims(&self) -> Vec<usize> {
        self.batch.into_iter().chain([self.channels]).chain(self.extent).collect()
    }

    /// Number of elements, or `None` where it does not fit in a `usize`.
    ///
    /// A dimension of zero makes the count zero however large the others are.
    pub fn checked_len(&self) -> Option<usize> {
        let dims = self.dims();
        if dims.contains(&0) {
            return Some(0);
        }
        dims.iter().try_fold(1usize, |product, &dim| product.checked_mul(dim))
    }

    /// Refuses any other shape than `expected`.
    pub(crate) fn expect(self, argument: Argument, expected: Self) -> Result<(), GeometryError> {
        if self == expected {
            return Ok(());
        }
        Err(GeometryError::ShapeMismatch { argument, value: self.dims(), expected: expected.dims() })
    }

    /// Number of elements of a shape that is known to be representable, as every shape of a [`Problem`](super::Problem)
    /// is.
    pub(crate) fn len(&self) -> usize {
        self.checked_len().expect("the shape was validated when its problem or tensor was made")
    }
}

impl<const D: usize> fmt::Display for Shape<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.dims())
    }
}
