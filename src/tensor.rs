//! Tensors in host memory.

use crate::{Argument, Error, GeometryError, Shape};

/// A type that the backends compute with: `f32`, and no other so far. It cannot be implemented for more types from
/// outside.
pub trait Element: bytemuck::Pod + Into<f64> + Send + Sync + sealed::Sealed {}

impl Element for f32 {}

mod sealed {
    pub trait Sealed {}
    impl Sealed for f32 {}
}

/// A dense row-major tensor over `D` spatial axes: an input, an output, or a weight. The last axis is contiguous.
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor<T, const D: usize> {
    shape: Shape<D>,
    data: Vec<T>,
}

impl<T: Copy, const D: usize> Tensor<T, D> {
    /// A tensor of the given shape over the given elements, in row-major order.
    ///
    /// # Errors
    /// [`GeometryError::Length`] if the number of elements is not that of the shape, [`GeometryError::Overflow`] if the
    /// shape's does not fit in a `usize`. Both speak of an `input`, whatever the tensor is meant for.
    pub fn from_vec(shape: Shape<D>, data: Vec<T>) -> Result<Self, GeometryError> {
        match shape.checked_len() {
            Some(expected) if expected == data.len() => Ok(Self { shape, data }),
            Some(expected) => Err(GeometryError::Length { argument: Argument::Input, value: data.len(), expected }),
            None => Err(GeometryError::Overflow { argument: Argument::Input, limit: usize::MAX }),
        }
    }

    /// A tensor with every element equal to `value`.
    ///
    /// # Errors
    /// [`Error::HostMemory`] if there is no memory for it.
    pub fn filled(shape: Shape<D>, value: T) -> Result<Self, Error> {
        let mut data = Vec::new();
        let len = shape.checked_len().filter(|&len| data.try_reserve_exact(len).is_ok());
        let len = len.ok_or_else(|| Error::HostMemory { shape: shape.dims() })?;
        data.resize(len, value);
        Ok(Self { shape, data })
    }

    /// The shape.
    pub fn shape(&self) -> Shape<D> {
        self.shape
    }

    /// The elements in row-major order.
    pub fn as_slice(&self) -> &[T] {
        &self.data
    }

    /// The elements in row-major order.
    pub fn as_mut_slice(&mut self) -> &mut [T] {
        &mut self.data
    }

    /// The elements in row-major order, without a copy.
    pub fn into_vec(self) -> Vec<T> {
        self.data
    }
}
