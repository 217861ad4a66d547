//! Transposed convolution.

pub mod cpu;
#[cfg(feature = "cuda")]
pub mod cuda;
mod error;
mod geometry;
pub mod oracle;
mod tensor;

pub use error::Error;
pub use geometry::{
    Argument, AutoPad, Axis, ConvTranspose, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d, ConvTransposeBuilder,
    GeometryError, Phase, Problem, Shape,
};
pub use tensor::{Element, Tensor};
