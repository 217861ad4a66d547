//! The one error type of the library.

use thiserror::Error;

use crate::GeometryError;

/// Everything that can go wrong.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// The parameters or tensors do not describe a transposed convolution.
    #[error(transparent)]
    Geometry(#[from] GeometryError),
    /// The CUDA backend refuses or reports something.
    #[cfg(feature = "cuda")]
    #[error(transparent)]
    Cuda(#[from] crate::cuda::CudaError),
    /// What an [`Autotune`](crate::cuda::Autotune) knows cannot be saved or loaded.
    #[cfg(feature = "cuda")]
    #[error(transparent)]
    AutotuneFile(#[from] crate::cuda::AutotuneFileError),
    /// The emulator found a mistake in a kernel, or in how it was launched.
    #[cfg(feature = "emulator")]
    #[error(transparent)]
    Emulator(#[from] Box<cuda_std::emulator::Fault>),
    /// A kernel on the emulator left an output element unwritten.
    #[cfg(feature = "emulator")]
    #[error(transparent)]
    Unwritten(#[from] cuda_std::emulator::ReadError),
    /// There is not enough host memory for a tensor.
    #[error("no host memory for a tensor of shape {shape:?}")]
    HostMemory {
        /// The dimensions of the tensor.
        shape: Vec<usize>,
    },
}
