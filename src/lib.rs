//! Transposed convolution in one, two and three dimensions, on NVIDIA GPUs and on the CPU.
//!
//! A transposed convolution enlarges its input: each input element, times the kernel, is added into the output, and
//! `stride` says how far apart neighbouring elements land. PyTorch calls the layer `ConvTranspose2d`, ONNX
//! `ConvTranspose`, older papers "deconvolution". It is what U-Nets, GANs, vocoders and super-resolution networks grow
//! their pictures and signals with.
//!
//! # The idea
//!
//! | step | type | what it knows | when |
//! | --- | --- | --- | --- |
//! | layer | [`ConvTranspose`] | channels, kernel, stride, padding... | once per layer |
//! | problem | [`Problem`] | the layer and an input shape, hence every extent | once per shape |
//! | plan | [`cpu::Plan`], [`cuda::Plan`] | the problem, the algorithm for it and its tables | once per shape |
//! | forward | a method of the plan | the tensors | as often as there is data |
//!
//! What can be refused is refused early. The layer checks its parameters and the problem checks the input shape, alike
//! for every backend, so all that is left to `forward` is to compare the tensors that it is given with the shapes that
//! the plan expects.
//!
//! `D` in all of these types is the number of *spatial* axes. A [`Shape<2>`](Shape) is
//! `[batch, channels, height, width]`, or `[channels, height, width]` without a batch. Memory is dense and row-major,
//! so the last axis is contiguous, and all sizes count elements, never bytes (methods that count bytes say so in their
//! names). A weight has the shape `[in_channels, out_channels / groups, kernel...]`, a bias one element per output
//! channel.
//!
//! # On the CPU
//!
//! ```
//! use conv_transpose::{ConvTranspose2d, Shape, Tensor, cpu};
//!
//! // 16 channels become 8, and the picture doubles.
//! let layer = ConvTranspose2d::builder(16, 8, [4, 4]).stride([2, 2]).padding([1, 1]).build()?;
//!
//! let input = Tensor::filled(Shape::batched(1, 16, [14, 14]), 1.0f32)?;
//! let weight = Tensor::filled(layer.weight_shape(), 0.25f32)?;
//! let bias = [0.5f32; 8];
//!
//! let plan = cpu::Plan::new(&layer, input.shape())?;
//! let mut output = Tensor::filled(plan.output_shape(), 0.0f32)?;
//! plan.forward(&input, &weight, Some(&bias), &mut output)?;
//!
//! assert_eq!(output.shape(), Shape::batched(1, 8, [28, 28]));
//! // Away from the border, 2 x 2 taps of 16 channels reach each position.
//! assert_eq!(output.as_slice()[5 * 28 + 5], 16.0 * 4.0 * 0.25 + 0.5);
//! # Ok::<(), conv_transpose::Error>(())
//! ```
//!
//! # On a GPU
//!
//! The same layer and the same four steps, with a [`cuda::Device`] that holds the kernels and a `cust` stream that they
//! run on:
//!
#![cfg_attr(feature = "cuda", doc = "```no_run")]
#![cfg_attr(not(feature = "cuda"), doc = "```ignore")]
//! use conv_transpose::{ConvTranspose2d, Shape, Tensor, cuda};
//! use cust::stream::{Stream, StreamFlags};
//!
//! let device = cuda::Device::new(0)?;
//! let stream = Stream::new(StreamFlags::NON_BLOCKING, None)?;
//!
//! let layer = ConvTranspose2d::builder(16, 8, [4, 4]).stride([2, 2]).padding([1, 1]).build()?;
//! let plan = cuda::Plan::new(&device, &layer, Shape::batched(1, 16, [14, 14]), cuda::Options::default())?;
//!
//! let input = device.upload(&Tensor::filled(plan.problem().input_shape(), 1.0f32)?)?;
//! let weight = device.upload(&Tensor::filled(layer.weight_shape(), 0.25f32)?)?;
//! let bias = device.upload_slice(&[0.5f32; 8])?;
//! let mut output = device.zeroed(plan.output_shape())?;
//!
//! plan.forward(&stream, &input, &weight, Some(&bias), &mut output)?; // Enqueues, and returns at once.
//! let output: Tensor<f32, 2> = output.download(&stream)?; // Waits.
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A project that has device memory already keeps it: [`cuda`] tells of the tiers for `cust` buffers and for the raw
//! addresses of any other library. The examples `cust_program`, `cudarc_interop` and `decoder` are such projects in
//! small.
//!
//! # Coming from PyTorch or ONNX
//!
//! | PyTorch | ONNX | here |
//! | --- | --- | --- |
//! | `in_channels`, `out_channels`, `kernel_size` | from `W`; `kernel_shape` | [`builder(in_channels, out_channels, kernel)`](ConvTranspose::builder) |
//! | `stride` | `strides` | [`stride`](ConvTransposeBuilder::stride) |
//! | `padding` | | [`padding`](ConvTransposeBuilder::padding), the same at both ends |
//! | | `pads` (all begins, then all ends) | [`padding_begin_end`](ConvTransposeBuilder::padding_begin_end), a pair for each axis |
//! | `output_padding` | `output_padding` | [`output_padding`](ConvTransposeBuilder::output_padding) |
//! | `dilation` | `dilations` | [`dilation`](ConvTransposeBuilder::dilation) |
//! | `groups` | `group` | [`groups`](ConvTransposeBuilder::groups) |
//! | `output_size`, an argument of `forward` | | [`output_size`](ConvTransposeBuilder::output_size): keeps the padding |
//! | | `output_shape` | [`output_shape`](ConvTransposeBuilder::output_shape): chooses the padding |
//! | | `auto_pad` | [`auto_pad`](ConvTransposeBuilder::auto_pad) |
//! | `weight` | `W` | the same shape and layout; the elements can be taken as they are |
//! | `bias=False` | no `B` | `None` as the bias of `forward` |
//! | an input without a batch | | [`Shape::unbatched`] |
//!
//! Defaults are theirs: stride 1, no padding, dilation 1, one group. Every parameter is an array with a value per axis:
//! `[2, 2]` where PyTorch also takes a plain `2`. The sizes of `output_size` and `output_shape` are those of the
//! spatial axes alone.
//!
//! # How it is computed
//!
//! Taken at its word, the definition scatters: many input elements add into one output element. The algorithms that are
//! fast turn it round and ask which kernel elements (*taps*) reach an output position. The answer depends only on the
//! position's remainder modulo the stride, so an axis falls apart into `stride` *phases*, and each of them is an
//! ordinary dense convolution with a part of the kernel. With the input `a b c`, the kernel `u v w` and stride 2:
//!
//! ```text
//!  output position    0     1     2     3     4     5     6
//!                   ---------------------------------------
//!  phase 0           au         aw+bu       bw+cu        cw
//!  phase 1                av          bv          cv
//! ```
//!
//! Phase 0 convolves with `u w`, phase 1 with `v` alone; nothing is ever multiplied by zeros that were put between the
//! inputs. [`Axis::phases`] makes the table, for any stride and dilation.
//!
//! # Errors
//!
//! Layers and plans do not panic over an argument: what they do not take, they refuse with an [`Error`]. A
//! [`GeometryError`] has the argument, the axis, the value and the limit as fields, to match on, and says them in one
//! line:
//!
//! ```
//! use conv_transpose::{Argument, ConvTranspose2d, Error, GeometryError, Shape, Tensor, cpu};
//!
//! let builder = ConvTranspose2d::builder(4, 4, [3, 3]).stride([2, 2]).output_padding([0, 2]);
//! let refusal = builder.build().unwrap_err();
//! assert_eq!(refusal, GeometryError::OutputPadding { axis: 1, value: 2, limit: 2 });
//! assert_eq!(
//!     refusal.to_string(),
//!     "output_padding is 2 on spatial axis 1, but must be below max(stride, dilation) = 2"
//! );
//!
//! let layer = ConvTranspose2d::builder(4, 4, [3, 3]).build()?;
//! let plan = cpu::Plan::new(&layer, Shape::batched(1, 4, [8, 8]))?;
//! let smaller = Tensor::filled(Shape::batched(1, 4, [8, 7]), 0.0f32)?;
//! let weight = Tensor::filled(layer.weight_shape(), 0.0f32)?;
//! let mut output = Tensor::filled(plan.output_shape(), 0.0f32)?;
//! match plan.forward(&smaller, &weight, None, &mut output) {
//!     Err(Error::Geometry(GeometryError::ShapeMismatch { argument: Argument::Input, value, expected })) => {
//!         assert_eq!((value, expected), (vec![1, 4, 8, 7], vec![1, 4, 8, 8]));
//!     }
//!     other => panic!("{other:?}"),
//! }
//! # Ok::<(), conv_transpose::Error>(())
//! ```
//!
//! | refused | where | as |
//! | --- | --- | --- |
//! | zeros, groups that do not divide, contradicting arguments | [`build`](ConvTransposeBuilder::build) | [`GeometryError`] |
//! | inputs of the wrong rank or channels, outputs that vanish or overflow | [`ConvTranspose::problem`], `Plan::new` | [`GeometryError`] |
//! | tensors of other shapes than planned, biases of another length | `forward` | [`GeometryError`] |
//! | no driver, no GPU, no memory, foreign buffers and streams, limits of an algorithm, errors of the driver | [`cuda`] | [`CudaError`](cuda::CudaError) |
//! | a file of decisions that is damaged or something else | [`cuda::Autotune::load`] | [`AutotuneFileError`](cuda::AutotuneFileError) |
//! | no host memory for a tensor | [`Tensor::filled`], `download` | [`Error::HostMemory`] |
//!
//! An empty batch is legal, an empty spatial axis is not. A program that runs on a GPU where there is one matches
//! `CudaError::NoDriver` and `CudaError::NoDevice` of `cuda::Device::new`, and plans on the CPU instead.
//!
//! # Precision
//!
//! On a GPU with tensor cores for TF32, [`Precision`] chooses what `Tile`, `Col2im`, `Flat` and `Patch` compute:
//! products as exact as those of `f32` (the default: each factor is the sum of two numbers, of TF32 or, on compute
//! capability 9.0, of `f16`), or products of factors rounded to TF32 or `f16`, which on an H200 are 1.1 to 3 times as
//! fast. What follows is about `Direct`, `Gather` and `Scatter`, and about the CPU.
//!
//! Elements are `f32`, and so are the sums. The rounding error of an element is at most `f32::EPSILON * (products + 2)`
//! times the sum of the magnitudes of its products and its bias, where `products` is the input channels of a group
//! times the elements of a kernel. That is the worst case of any order of summation; in practice errors are far
//! smaller. Small whole numbers, whose sums are below 2^24, are exact on every backend.
//!
//! [`oracle`] computes the definition literally in `f64`, slowly, and shares no code with the backends. The tests
//! compare everything with it, and so may you.
//!
//! # Repeatability
//!
//! The same call gives the same bits on the CPU, whatever the number of threads, and on a GPU with every algorithm that
//! `Auto` chooses. `cuda::Algorithm::Scatter` adds with atomics, in an order that varies from run to run, and its
//! rounding with it; it has to be asked for. Different algorithms, and different kinds of processor, may round
//! differently. So may two plans of `cuda::Autotune`, which measures what is the fastest, unless the second one takes
//! over the decision of the first, from memory or from a file.
//!
//! # Threads and streams
//!
//! Plans, devices and layers may be shared between threads, and a plan used by several at once. On the CPU, `forward`
//! works on the current rayon pool and returns when it is done; run it in `ThreadPool::install` to choose another pool.
//! On a GPU it enqueues on the stream it is given and returns before it is done. Calls on one stream follow one
//! another, so layers chain without waiting; work on different streams is ordered with events. An error of a kernel
//! shows up in a later call.
//!
//! Plans for a GPU are made on the current rayon pool, too. As with everything that waits for rayon, tasks of that pool
//! should hold no lock meanwhile that others of them wait for.
//!
//! # Memory
//!
//! You own the tensors: input, weight, bias and output are arguments of each `forward`, which writes every element of
//! the output. A [`cpu::Plan`] holds next to nothing; its `forward` takes
//! [`workspace_bytes`](cpu::Plan::workspace_bytes) from the allocator and gives them back. A `cuda::Plan` holds the
//! tables of its algorithm in device memory, and room for operands that it packs, `device_bytes` in all (for `Gather`
//! and `Direct`, 16 bytes for each phase of each axis); its `forward` allocates nothing. Only a CUDA graph that
//! captures `forward_packed` may have memory of its own, as long as it runs.
//!
//! # Features
//!
//! | feature | default | adds |
//! | --- | --- | --- |
//! | `cuda` | yes | the module [`cuda`], and with it `cust`. Needs no CUDA toolkit to build and no driver to start |
//! | `emulator` | no | `cuda::EmulatedPlan`, which runs the kernels on the CPU, slowly, and reports their mistakes: for tests. Implies `cuda` |
//!
//! # Limits
//!
//! There is no backward pass, and no `f16` or `bf16`. GPUs from compute capability 7.0 on; tensor cores are used from
//! 8.0 on. `cuda::Algorithm::Tile`, `Col2im`, `Flat` and `Patch` split, round or scale factors for tensor cores and
//! multiply some by zeros; `Direct` and the CPU multiply by the zeros around the input. So an infinite input or weight
//! may give NaN where the definition says infinity, and it or NaN may make NaN of outputs beside those that it reaches.
//! `Gather` computes with the factors as they are.

// The guide speaks of the CUDA backend whether or not it is there.
#![cfg_attr(not(feature = "cuda"), allow(rustdoc::broken_intra_doc_links))]

pub mod cpu;
#[cfg(feature = "cuda")]
pub mod cuda;
mod error;
mod geometry;
pub mod oracle;
#[cfg(feature = "cuda")]
mod precision;
mod tensor;

pub use error::Error;
pub use geometry::{
    Argument, AutoPad, Axis, ConvTranspose, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d, ConvTransposeBuilder,
    GeometryError, Phase, Problem, Shape,
};
#[cfg(feature = "cuda")]
pub use precision::Precision;
pub use tensor::{Element, Tensor};

/// The programs in the documents are compiled and run as tests.
#[cfg(all(doctest, feature = "cuda"))]
mod documents {
    #[doc = include_str!("../README.md")]
    mod readme {}
    #[doc = include_str!("../CONTRIBUTING.md")]
    mod contributing {}
    #[doc = include_str!("../docs/architecture.md")]
    mod architecture {}
    #[doc = include_str!("../docs/kernels.md")]
    mod kernels {}
    #[doc = include_str!("../docs/toolchain.md")]
    mod toolchain {}
}
