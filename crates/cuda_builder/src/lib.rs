//! Compiles a crate of GPU kernels to PTX from a build script.
//!
//! The interface is that of rust-cuda's `cuda_builder`; behind it works rustc's own `nvptx64-nvidia-cuda` target, which
//! a stable toolchain has as soon as the standard library's source is installed.
//!
//! ```no_run
//! use cuda_builder::CudaBuilder;
//!
//! # fn main() -> Result<(), cuda_builder::Error> {
//! let modules = CudaBuilder::new("kernels").arch("sm_70").arch("sm_80").copy_to("ptx").build()?;
//! for ptx in modules {
//!     println!("{} is in {}", ptx.arch, ptx.path.display());
//! }
//! # Ok(()) }
//! ```

mod builder;
mod cargo;
mod compiler;
mod error;
mod hash;
mod ptx;
mod recipe;
mod sources;
mod split;

pub use builder::{CudaBuilder, Ptx};
pub use cargo::enclosing_target_dir;
pub use compiler::{DeviceCompiler, NoCompiler, Rejected};
pub use error::Error;
pub use ptx::Defect;
pub use sources::Sources;
pub use split::KernelPtx;
