//! Where conv-transpose gets the PTX of its kernels from: compiled out of `kernels/`, or prebuilt in `ptx/`.
//!
//! The build script of the library and `cargo xtask ptx` share this, so that they agree on what the kernels are made
//! of, which architectures they are built for, and when the prebuilt files are up to date.

mod choice;
mod kernels;
mod machine_code;
mod prebuilt;

pub use choice::{Choice, Error, REQUEST, Request, choose};
pub use kernels::Kernels;
pub use machine_code::MachineCode;
pub use prebuilt::{Prebuilt, Unusable};
