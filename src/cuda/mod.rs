//! The CUDA backend: plans that launch the kernels through `cust`.
//!
//! Streams and buffers are those of the crate `cust`, version 0.3; a program that makes some depends on it as well.
//!
//! ```no_run
//! use conv_transpose::{ConvTranspose2d, Shape, Tensor, cuda};
//! use cust::stream::{Stream, StreamFlags};
//!
//! let device = cuda::Device::new(0)?;
//! let stream = Stream::new(StreamFlags::NON_BLOCKING, None)?;
//!
//! let layer = ConvTranspose2d::builder(64, 32, [4, 4]).stride([2, 2]).padding([1, 1]).build()?;
//! let plan = cuda::Plan::new(&device, &layer, Shape::batched(8, 64, [28, 28]), cuda::Options::default())?;
//!
//! let input = device.upload(&Tensor::filled(plan.problem().input_shape(), 1.0f32)?)?;
//! let weight = device.upload(&Tensor::filled(layer.weight_shape(), 0.5f32)?)?;
//! let mut output = device.zeroed(plan.output_shape())?;
//! plan.forward(&stream, &input, &weight, None, &mut output)?;
//! let output: Tensor<f32, 2> = output.download(&stream)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Three tiers
//! | method | memory | checked |
//! | --- | --- | --- |
//! | [`Plan::forward`] | [`DeviceTensor`] | shapes, device, overlap |
//! | [`Plan::forward_slices`] | `cust` [`DeviceSlice`](cust::memory::DeviceSlice)s, so any `DeviceBuffer` | lengths, device, overlap |
//! | [`Plan::forward_raw`] | device addresses and a stream handle of any library | nothing: `unsafe` |
//!
//! Without a driver or a GPU, [`Device::new`] says so ([`CudaError::NoDriver`], [`CudaError::NoDevice`]); everything
//! else needs a [`Device`], so this is the only place where a program has to decide what to do without one.
//!
//! # Streams and threads
//! `forward` enqueues on the given stream and returns; the output is complete when the stream is. It allocates nothing
//! and waits for nothing. Work on other streams has to be ordered with events, as with any kernel. A plan is
//! `Send + Sync`: several threads may use it at once, on as many streams. Whatever context a calling thread has is
//! current again when a call returns.
//!
//! Plans and tensors may be dropped while a graph is captured, on whatever thread. Making them is another matter: in the
//! driver's default mode of a capture nobody may allocate memory or load kernels meanwhile.
//!
//! # Time
//! Where the library has no machine code for the GPU, the driver compiles a kernel when a plan first needs it;
//! [`Device::warm_up`] has it done at a time of the program's choosing. What takes long to compile for a plan
//! ([`Options::compile_within`]) is compiled while it is in use already; [`Plan::warm_up`] waits for that.
//! [`Plan::new`] chooses by a model, at once; [`Autotune`] measures, and remembers. CUDA graphs can capture
//! [`Plan::forward_packed`], and `forward` of a plan that packs no weight.

mod algorithm;
mod architecture;
mod autotune;
mod context;
mod device;
mod embedded;
#[cfg(feature = "emulator")]
mod emulated;
mod error;
mod launch_kernel;
mod memory;
mod module;
mod operands;
mod packed_weight;
mod parameters;
mod plan;
mod recipe;
mod specialised;
mod tensor;
mod tensor_map;
mod workspace;

pub use algorithm::Algorithm;
pub use autotune::{Autotune, AutotuneFileError, Progress};
pub use device::Device;
#[cfg(feature = "emulator")]
pub use emulated::EmulatedPlan;
pub use error::{CudaError, Status, Unsupported};
pub use packed_weight::PackedWeight;
pub use plan::{Options, Plan};
pub use tensor::DeviceTensor;
