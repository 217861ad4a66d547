//! The geometry of a transposed convolution: pure integer arithmetic, shared by every backend.
//!
//! A [`ConvTranspose`] holds the parameters of a layer and is validated when it is built. Bound to an input shape it
//! becomes a [`Problem`]: every extent, padding and count resolved and checked. A backend never validates again, and
//! never divides per tap: [`Axis::phases`] tabulates which taps reach which output position.

mod axis;
mod error;
mod layer;
mod problem;
mod shape;
#[cfg(feature = "cuda")]
mod simplified;

#[cfg(feature = "cuda")]
pub(crate) use axis::gcd;
pub use axis::{Axis, Phase};
pub use error::{Argument, GeometryError};
pub use layer::{AutoPad, ConvTranspose, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d, ConvTransposeBuilder};
pub use problem::Problem;
pub use shape::Shape;
