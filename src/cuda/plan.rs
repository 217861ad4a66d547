//! A plan: one problem on one device, ready to run as often as wanted.

use std::ffi::c_void;

use cust::{
    memory::{DeviceCopy, DeviceSlice},
    stream::Stream,
    sys,
};

use super::{
    algorithm::{self, Algorithm},
    device::Device,
    error::CudaError,
    memory::DeviceMemory,
    module::Kernel,
    operands::{self, Span},
    parameters::needs_64_bits,
    recipe::{BLOCK, Launch, Operands, Recipe, Values},
    tensor::DeviceTensor,
};
use crate::{Argument, ConvTranspose, Element, Error, Problem, Shape};

/// Dynamic shared memory of a block: no launch takes any.
const SHARED_BYTES: u32 = 0;

/// What a plan may be told.
///
/// ```
/// use conv_transpose::cuda::{Algorithm, Options};
///
/// let options = Options::default().algorithm(Algorithm::Gather);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    pub(super) algorithm: Algorithm,
}

impl Options {
    /// Forces an algorithm. Default [`Algorithm::Auto`].
    #[must_use]
    pub fn algorithm(mut self, algorithm: Algorithm) -> Self {
        self.algorithm = algorithm;
        self
    }
}

/// A transposed convolution of known shapes on a GPU.
///
/// A plan keeps the tables that its kernels need in device memory, [`device_bytes`](Self::device_bytes) of them; forward calls
/// need no other workspace.
#[derive(Debug)]
pub struct Plan<const D: usize> {
    device: Device,
    problem: Problem<D>,
    algorithm: Algorithm,
    recipe: Recipe,
    /// One for each launch of the recipe.
    kernels: Vec<Kernel>,
    /// The recipe's table, in device memory.
    phases: DeviceMemory<u8>,
}

impl<const D: usize> Plan<D> {
    /// Plans `layer` for inputs of the given shape on `device`, and loads the kernels for it. The first plan that needs a kernel waits
    /// until the driver has compiled it; forward calls load nothing.
    ///
    /// # Errors
    /// [`Error::Geometry`] if the layer does not take such an input; [`CudaError::Unsupported`] if the problem exceeds a limit of the
    /// algorithm, such as the number of elements that it can index; [`CudaError::OutOfMemory`] if its tables do not fit.
    pub fn new(device: &Device, layer: &ConvTranspose<D>, input: Shape<D>, options: Options) -> Result<Self, Error> {
        let problem = layer.problem(input)?;
        let computed = problem.to_compute();
        let (algorithm, recipe) = algorithm::choose(options.algorithm, &computed, needs_64_bits(&computed))?;
        let kernels = recipe.launches.iter().map(|launch| prepare(device, launch)).collect::<Result<_, _>>()?;
        let phases = DeviceMemory::new(device.clone(), device.upload_slice(bytemuck::cast_slice(&recipe.phases))?);
        Ok(Self { device: device.clone(), problem, algorithm, recipe, kernels, phases })
    }

    /// The problem that this plan solves.
    pub fn problem(&self) -> &Problem<D> {
        &self.problem
    }

    /// The shape of the output.
    pub fn output_shape(&self) -> Shape<D> {
        self.problem.output_shape()
    }

    /// The algorithm in use; never [`Algorithm::Auto`].
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// The device that this plan runs on.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Device memory that the plan holds as long as it lives, in bytes.
    pub fn device_bytes(&self) -> usize {
        self.phases.buffer().len()
    }

    /// Enqueues the computation of `output` on `stream`. Every element of it is written; what it held before does not matter.
    ///
    /// `weight` has the shape [`Problem::weight_shape`], `bias` one element per output channel. All are dense and row-major, in the
    /// memory of the plan's device. The output is complete when the stream has got this far; until then the operands must not be
    /// written to, by work on other streams for example.
    ///
    /// # Errors
    /// [`ShapeMismatch`](crate::GeometryError::ShapeMismatch) or [`Length`](crate::GeometryError::Length) naming the argument that does not fit the plan;
    /// [`CudaError::WrongDevice`], [`CudaError::NotDeviceMemory`], [`CudaError::WrongStream`]; [`CudaError::Driver`] if the launch
    /// fails, or something on this device failed before it. Nothing is enqueued then, except by `Scatter` between its two launches.
    pub fn forward<T: Element + DeviceCopy>(
        &self,
        stream: &Stream,
        input: &DeviceTensor<T, D>,
        weight: &DeviceTensor<T, D>,
        bias: Option<&DeviceSlice<T>>,
        output: &mut DeviceTensor<T, D>,
    ) -> Result<(), Error> {
        self.problem.check_tensors(input.shape(), weight.shape(), output.shape(), bias.map(|bias| bias.len()))?;
        self.forward_slices(stream, input.buffer(), weight.buffer(), bias, output.buffer_mut())
    }

    /// As [`forward`](Self::forward), on any `cust` memory: the first elements of each slice are used, as many as the problem has, in
    /// row-major order.
    ///
    /// # Errors
    /// As [`forward`](Self::forward), with [`CudaError::TooShort`] for a slice that has too few elements, and
    /// [`CudaError::Overlap`] if the output shares memory with another one.
    pub fn forward_slices<T: Element + DeviceCopy>(
        &self,
        stream: &Stream,
        input: &DeviceSlice<T>,
        weight: &DeviceSlice<T>,
        bias: Option<&DeviceSlice<T>>,
        output: &mut DeviceSlice<T>,
    ) -> Result<(), Error> {
        let _entered = self.device.enter()?;
        if !self.device.owns_stream(stream.as_inner())? {
            return Err(CudaError::WrongStream.into());
        }
        let spans = [
            Span::new(Argument::Input, input),
            Span::new(Argument::Weight, weight),
            Span::new(Argument::Output, output),
        ];
        let bias = bias.map(|bias| Span::new(Argument::Bias, bias));
        let operands = operands::checked(&self.problem, self.device.ordinal(), spans, bias)?;
        // SAFETY: the context is current, the stream belongs to it, and the operands were checked. Freeing device memory waits for
        // the kernels that use it, so they stay valid.
        unsafe { self.enqueue(stream.as_inner(), &operands) }
    }

    /// As [`forward`](Self::forward), on device addresses and a stream of any library: cudarc, candle, PyTorch, the CUDA runtime.
    ///
    /// `stream` is a `CUstream` or `cudaStream_t`, null for the default stream. Addresses are those of the first `f32` element of dense
    /// row-major tensors. The example `cudarc_interop` shows a safe function around this one.
    ///
    /// # Errors
    /// [`CudaError::Driver`] if the launch fails, or something on this device failed before it.
    ///
    /// # Safety
    /// `stream` must belong to the context of the plan's device. The addresses must be accessible from it, aligned to four bytes, and
    /// hold as many elements as the problem's shapes say (`bias`: one per output channel); the output must not overlap the others.
    /// All of it must stay so, and nothing else write to it, until the enqueued work is done.
    pub unsafe fn forward_raw(
        &self,
        stream: *mut c_void,
        input: u64,
        weight: u64,
        bias: Option<u64>,
        output: u64,
    ) -> Result<(), Error> {
        let _entered = self.device.enter()?;
        let operands = Operands { input, weight, bias: bias.unwrap_or(0), output };
        // SAFETY: the context is current; the rest is the caller's promise.
        unsafe { self.enqueue(stream.cast(), &operands) }
    }

    /// Launches the kernels, unless there is nothing to compute: a grid cannot be empty.
    ///
    /// # Safety
    /// The device's context is current and `stream` belongs to it. The operands are addresses that the device can access, with as many
    /// elements as the problem says, the output apart from the others, and stay valid until the kernels have run.
    unsafe fn enqueue(&self, stream: sys::CUstream, operands: &Operands) -> Result<(), Error> {
        if self.problem.output_shape().len() == 0 {
            return Ok(());
        }
        let phases = self.phases.buffer().as_device_ptr().as_raw();
        for (launch, kernel) in self.recipe.launches.iter().zip(&self.kernels) {
            let mut values = Values::new(&self.recipe.problem, phases, launch, operands);
            // SAFETY: a recipe names the arguments of its kernels; the caller vouches for the rest.
            unsafe { kernel.launch(stream, launch.blocks(), BLOCK, SHARED_BYTES, values.pointers(launch))? };
        }
        Ok(())
    }
}

/// The kernel of a launch, loaded and ready for it.
fn prepare(device: &Device, launch: &Launch) -> Result<Kernel, CudaError> {
    let _entered = device.enter()?;
    let kernel = device.kernel(launch.kernel)?;
    kernel.allow_shared_bytes(SHARED_BYTES)?;
    Ok(kernel)
}
