//! A plan: one problem on one device, ready to run as often as wanted.

use std::{ffi::c_void, sync::Arc, time::Duration};

use cuda_loader::Grid;
use cust::{
    memory::{DeviceCopy, DeviceSlice},
    stream::Stream,
    sys,
};

use super::{
    algorithm::{self, Algorithm, Task, Way},
    context::Entered,
    device::Device,
    error::CudaError,
    launch_kernel::LaunchKernel,
    memory::DeviceMemory,
    operands::{self, Span},
    packed_weight::PackedWeight,
    recipe::{Launch, Operands, Recipe},
    tensor::DeviceTensor,
    workspace::{Workspace, is_captured, with_memory_of_graph},
};
use crate::{Argument, ConvTranspose, Element, Error, Precision, Problem, Shape};

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
    pub(super) precision: Precision,
    pub(super) generic: bool,
    compile_within: Option<Duration>,
}

/// How long [`Plan::new`] waits for the driver's compiler if nothing else is asked for.
const COMPILE_WITHIN: Duration = Duration::from_millis(700);

impl Options {
    /// Forces an algorithm. Default [`Algorithm::Auto`].
    #[must_use]
    pub fn algorithm(mut self, algorithm: Algorithm) -> Self {
        self.algorithm = algorithm;
        self
    }

    /// How exactly to compute. Default [`Precision::F32`].
    #[must_use]
    pub fn precision(mut self, precision: Precision) -> Self {
        self.precision = precision;
        self
    }

    /// Whether kernels that gain from it are compiled for the plan's layer and shapes, by the driver. Default true:
    /// results are the same, to the bit, and a tenth faster on average; but the driver takes half a second, sometimes
    /// more than one, where it has not compiled this case before, and milliseconds where it finds it in its cache on
    /// disk, or another plan has it. See [`compile_within`](Self::compile_within). To be switched off where plans are
    /// made for many shapes and run a few times each.
    #[must_use]
    pub fn specialised(mut self, specialised: bool) -> Self {
        self.generic = !specialised;
        self
    }

    /// How long [`Plan::new`] waits for kernels that are compiled for its layer. Default 0.7 seconds, in which most of
    /// them are. After that the driver goes on beside the program, and until it is done the plan takes the general
    /// kernels, if the library has machine code of them ([`Device`]) or they are loaded ([`Device::warm_up`]);
    /// otherwise it waits. [`Plan::warm_up`] waits for what is left: before times are taken, for example, or a graph is
    /// captured.
    ///
    /// With `Duration::ZERO` plans for all layers of a network are made at once, and their kernels compiled side by
    /// side.
    #[must_use]
    pub fn compile_within(mut self, time: Duration) -> Self {
        self.compile_within = Some(time);
        self
    }

    /// How long to wait for kernels that are compiled for the plan; `None` if there are none to be.
    pub(super) fn patience(&self) -> Option<Duration> {
        (!self.generic).then(|| self.compile_within.unwrap_or(COMPILE_WITHIN))
    }
}

/// A transposed convolution of known shapes on a GPU.
///
/// A plan keeps the tables that its kernels need in device memory, and room for the weight in the form that they read
/// it, for the input, if they read that in another form, and for the columns of `Col2im`:
/// [`device_bytes`](Self::device_bytes) in all. Forward calls allocate nothing else. Calls that use this room, on
/// different streams, wait for each other on the GPU; `forward_packed` of a plan that packs nothing but its weight does
/// not use it.
#[derive(Debug)]
pub struct Plan<const D: usize> {
    device: Device,
    problem: Problem<D>,
    algorithm: Algorithm,
    recipe: Recipe,
    /// The recipe's tables, in device memory.
    tables: Vec<DeviceMemory<[u32; 4]>>,
    /// Their addresses.
    table_addresses: Vec<u64>,
    /// Where `forward` packs its weight, and any call its input, if it has to.
    workspace: Option<Workspace>,
    /// Tells the packed weights of this plan from those of others.
    identity: Arc<()>,
    /// One for each launch that packs the weight.
    packers: Vec<LaunchKernel>,
    /// One for each other launch of the recipe.
    kernels: Vec<LaunchKernel>,
}

impl<const D: usize> Plan<D> {
    /// Plans `layer` for inputs of the given shape on `device`, and loads the kernels for it. The first plan that needs
    /// a kernel waits until the driver has compiled it, or some time, if there is another one meanwhile
    /// ([`Options::compile_within`]); forward calls load nothing. To drop a plan is to wait for the compiler.
    ///
    /// Planning works on the current rayon pool. So a task of that pool that holds a lock meanwhile may wait for ever:
    /// rayon lets a thread that waits begin other tasks, which may want the same lock.
    ///
    /// # Errors
    /// [`Error::Geometry`] if the layer does not take such an input; [`CudaError::Unsupported`] if the problem exceeds
    /// a limit of the algorithm, such as the number of elements that it can index; [`CudaError::OutOfMemory`] if its
    /// tables do not fit; [`CudaError::PtxRefused`], or [`CudaError::Driver`] for whatever else the driver reports when
    /// it loads kernels.
    pub fn new(device: &Device, layer: &ConvTranspose<D>, input: Shape<D>, options: Options) -> Result<Self, Error> {
        let (problem, task) = Self::task(device, layer, input, options)?;
        Self::prepared(device, problem, algorithm::choose(options.algorithm, &task)?, options.patience())
    }

    /// All plans that [`Autotune`](super::Autotune) would measure, beginning with the one that [`new`](Self::new)
    /// makes.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn ways(
        device: &Device,
        layer: &ConvTranspose<D>,
        input: Shape<D>,
        options: Options,
    ) -> Result<Vec<Self>, Error> {
        let (problem, task) = Self::task(device, layer, input, options)?;
        let ways = algorithm::ways(options.algorithm, &task)?;
        ways.into_iter().map(|way| Self::prepared(device, problem, way, options.patience())).collect()
    }

    /// What is to be computed, and on what.
    pub(super) fn task(
        device: &Device,
        layer: &ConvTranspose<D>,
        input: Shape<D>,
        options: Options,
    ) -> Result<(Problem<D>, Task), Error> {
        let problem = layer.problem(input)?;
        Ok((problem, Task::new(problem.to_compute(), options.precision, device.target())))
    }

    /// The plan that computes in a certain way. Its tables are in device memory and its kernels loaded. Those that are
    /// compiled for it are waited for with some `patience`; there are none without.
    pub(super) fn prepared(
        device: &Device,
        problem: Problem<D>,
        (algorithm, recipe): Way,
        patience: Option<Duration>,
    ) -> Result<Self, Error> {
        let patience = patience.filter(|_| problem.output_shape().len() > 0);
        let packers = LaunchKernel::all(device, &recipe.pack, None)?;
        let kernels = LaunchKernel::all(device, &recipe.launches, patience)?;
        let tables =
            recipe.tables.iter().map(|table| Ok(DeviceMemory::new(device.clone(), device.upload_slice(table.rows())?)));
        let tables = tables.collect::<Result<Vec<_>, CudaError>>()?;
        let workspace = match (recipe.packed_len, recipe.scratch_len()) {
            (0, 0) => None,
            (weight, scratch) => Some(Workspace::new(device, weight, scratch)?),
        };
        Ok(Self {
            device: device.clone(),
            problem,
            algorithm,
            recipe,
            table_addresses: tables.iter().map(|table| table.buffer().as_device_ptr().as_raw()).collect(),
            tables,
            workspace,
            identity: Arc::new(()),
            packers,
            kernels,
        })
    }

    /// The way that the plan computes.
    pub(super) fn into_way(self) -> Way {
        (self.algorithm, self.recipe)
    }

    /// Whether kernels that were compiled for this plan are in use: see [`Options::specialised`].
    pub fn is_specialised(&self) -> bool {
        let mut specialised = self.kernels.iter().filter(|kernel| kernel.is_to_be_specialised()).peekable();
        specialised.peek().is_some() && specialised.all(LaunchKernel::is_specialised)
    }

    /// Waits until the kernels that are compiled for this plan are in use, which [`new`](Self::new) does not always do:
    /// see [`Options::compile_within`].
    ///
    /// # Errors
    /// [`CudaError::PtxRefused`], or [`CudaError::Driver`] for whatever else the driver reports. The plan goes on with
    /// general kernels then.
    pub fn warm_up(&self) -> Result<(), CudaError> {
        self.kernels.iter().try_for_each(LaunchKernel::wait)
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

    /// What the plan does, for people: the kernels and how they are used. Not meant to be parsed.
    pub fn describe(&self) -> String {
        self.recipe.describe()
    }

    /// The device that this plan runs on.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Device memory that the plan holds as long as it lives, in bytes.
    pub fn device_bytes(&self) -> usize {
        let tables: usize = self.tables.iter().map(|table| table.buffer().len() * size_of::<[u32; 4]>()).sum();
        tables + self.workspace.as_ref().map_or(0, Workspace::bytes)
    }

    /// Packs a weight for [`forward_packed`](Self::forward_packed), on `stream`, into new device memory. Worth it when
    /// a weight is used more than once; [`PackedWeight::update`] takes over a new value.
    ///
    /// # Errors
    /// As [`forward`](Self::forward), and [`CudaError::OutOfMemory`].
    pub fn pack_weight<T: Element + DeviceCopy>(
        &self,
        stream: &Stream,
        weight: &DeviceTensor<T, D>,
    ) -> Result<PackedWeight<D>, Error> {
        PackedWeight::new(self, stream, weight)
    }

    /// Enqueues the computation of `output` on `stream`. Every element of it is written; what it held before does not
    /// matter.
    ///
    /// `weight` has the shape [`Problem::weight_shape`], `bias` one element per output channel. All are dense and
    /// row-major, in the memory of the plan's device, and of its context if the program has more than one for it. The
    /// output is complete when the stream has got this far; until then the operands must not be written to, by work on
    /// other streams for example, nor freed in the order of another stream. What was allocated in the order of a stream
    /// must not be dropped before either: to free other memory is to wait.
    ///
    /// # Errors
    /// [`ShapeMismatch`](crate::GeometryError::ShapeMismatch) or [`Length`](crate::GeometryError::Length) naming the
    /// argument that does not fit the plan; [`CudaError::WrongDevice`], [`CudaError::WrongContext`],
    /// [`CudaError::NotDeviceMemory`], [`CudaError::WrongStream`]; [`CudaError::Driver`] if the launch fails, or
    /// something on this device failed before it. Nothing is enqueued then, except where one launch of several fails;
    /// [`CudaError::Captured`] if the algorithm packs its weight and `stream` is being captured into a graph: capture
    /// [`forward_packed`](Self::forward_packed), as the capture goes on.
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

    /// As [`forward`](Self::forward), on any `cust` memory: the first elements of each slice are used, as many as the
    /// problem has, in row-major order.
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
        let _entered = self.enter_for(stream)?;
        let spans = [
            Span::new(Argument::Input, input),
            Span::new(Argument::Weight, weight),
            Span::new(Argument::Output, output),
        ];
        let bias = bias.map(|bias| Span::new(Argument::Bias, bias));
        let weight_len = self.problem.weight_shape().len();
        let operands = operands::checked(&self.problem, weight_len, &self.device, spans, bias)?;
        // SAFETY: the context is current, the stream belongs to it, and the operands were checked. They stay valid:
        // freeing device memory waits for the kernels that use it, or comes behind them, as callers are told.
        unsafe { self.enqueue(stream.as_inner(), &operands) }
    }

    /// As [`forward`](Self::forward), on device addresses and a stream of any library: cudarc, candle, PyTorch, the
    /// CUDA runtime.
    ///
    /// `stream` is a `CUstream` or `cudaStream_t`, null for the default stream. Addresses are those of the first `f32`
    /// element of dense row-major tensors. The example `cudarc_interop` shows a safe function around this one.
    ///
    /// # Errors
    /// [`CudaError::Driver`] if the launch fails, or something on this device failed before it.
    ///
    /// # Safety
    /// `stream` must belong to the context of the plan's device. The addresses must be accessible from it, aligned to
    /// four bytes, and hold as many elements as the problem's shapes say (`bias`: one per output channel); the output
    /// must not overlap the others. All of it must stay so, and nothing else write to it, until the enqueued work is
    /// done.
    pub unsafe fn forward_raw(
        &self,
        stream: *mut c_void,
        input: u64,
        weight: u64,
        bias: Option<u64>,
        output: u64,
    ) -> Result<(), Error> {
        let _entered = self.device.enter()?;
        let operands = Operands { input, weight, bias: bias.unwrap_or(0), output, ..Operands::default() };
        // SAFETY: the context is current; the rest is the caller's promise.
        unsafe { self.enqueue(stream.cast(), &operands) }
    }

    /// As [`forward`](Self::forward), with a weight that was packed before, on this stream or on one that this one
    /// waits for.
    ///
    /// It enqueues the kernels of the layer and nothing else but the order of their turns, so CUDA graphs can capture
    /// it. A graph has memory of its own for what the plan's workspace is used for otherwise, so that it can run beside
    /// other calls; with such memory, CUDA allows one instance of it at a time, and not as part of another graph. What
    /// is captured keeps using the plan and the packed weight, so both have to outlive the graph; and it keeps the
    /// kernels of the moment, so [`warm_up`](Self::warm_up) first.
    ///
    /// # Errors
    /// As [`forward`](Self::forward); [`CudaError::ForeignWeight`] if another plan packed the weight.
    pub fn forward_packed<T: Element + DeviceCopy>(
        &self,
        stream: &Stream,
        input: &DeviceTensor<T, D>,
        weight: &PackedWeight<D>,
        bias: Option<&DeviceSlice<T>>,
        output: &mut DeviceTensor<T, D>,
    ) -> Result<(), Error> {
        let weight_shape = self.problem.weight_shape();
        self.problem.check_tensors(input.shape(), weight_shape, output.shape(), bias.map(|bias| bias.len()))?;
        let _entered = self.enter_for(stream)?;
        let spans = [
            Span::new(Argument::Input, input.buffer()),
            weight.span_for(&self.identity)?,
            Span::new(Argument::Output, output.buffer()),
        ];
        let bias = bias.map(|bias| Span::new(Argument::Bias, bias));
        let operands = operands::checked(&self.problem, self.kept_weight_len(), &self.device, spans, bias)?;
        // SAFETY: the context is current, the stream belongs to it, and the operands were checked. They stay valid:
        // freeing device memory waits for the kernels that use it, or comes behind them, as callers are told.
        unsafe { self.compute(stream.as_inner(), &operands.with_packed_weight()) }
    }

    /// As [`forward_packed`](Self::forward_packed), on device addresses and a stream of any library.
    ///
    /// # Errors
    /// As [`forward_raw`](Self::forward_raw); [`CudaError::ForeignWeight`] if another plan packed the weight.
    ///
    /// # Safety
    /// As [`forward_raw`](Self::forward_raw); the packed weight must outlive the enqueued work.
    pub unsafe fn forward_packed_raw(
        &self,
        stream: *mut c_void,
        input: u64,
        weight: &PackedWeight<D>,
        bias: Option<u64>,
        output: u64,
    ) -> Result<(), Error> {
        let _entered = self.device.enter()?;
        let weight = weight.address_for(&self.identity)?;
        let operands = Operands { input, weight, bias: bias.unwrap_or(0), output, ..Operands::default() };
        // SAFETY: the context is current; the rest is the caller's promise.
        unsafe { self.compute(stream.cast(), &operands.with_packed_weight()) }
    }

    /// Makes the plan's context current, and checks that the stream belongs to it.
    pub(super) fn enter_for(&self, stream: &Stream) -> Result<Entered, CudaError> {
        let entered = self.device.enter()?;
        if self.device.owns_stream(stream.as_inner())? { Ok(entered) } else { Err(CudaError::WrongStream) }
    }

    /// The plan's identity, for what belongs to it.
    pub(super) fn identity(&self) -> &Arc<()> {
        &self.identity
    }

    /// Elements of the packed weight; 0 if the kernels read the weight as it is.
    pub(super) fn packed_len(&self) -> usize {
        self.recipe.packed_len
    }

    /// Elements of a [`PackedWeight`]: those of the packed weight, or of the weight as it is.
    pub(super) fn kept_weight_len(&self) -> usize {
        match self.packed_len() {
            0 => self.problem.weight_shape().len(),
            len => len,
        }
    }

    /// Packs the weight if the kernels want that, and launches them.
    ///
    /// # Safety
    /// As [`launch`](Self::launch).
    unsafe fn enqueue(&self, stream: sys::CUstream, operands: &Operands) -> Result<(), Error> {
        let Some(workspace) = &self.workspace else {
            // SAFETY: the caller's promise.
            return unsafe { self.compute(stream, operands) };
        };
        let enqueue = |packed_weight, scratch| {
            let operands = self.recipe.with_scratch(Operands { packed_weight, ..*operands }, scratch);
            // SAFETY: the caller's promise, and the workspace is as large as the packed operands.
            unsafe {
                self.pack(stream, &operands)?;
                self.launch(stream, &self.recipe.launches, &self.kernels, &operands, !self.recipe.pack.is_empty())
            }
        };
        // SAFETY: the caller's promise.
        unsafe {
            if is_captured(stream)? {
                return Err(CudaError::Captured.into());
            }
            workspace.in_turn(stream, enqueue)?;
        }
        Ok(())
    }

    /// Launches the kernels that pack the weight.
    ///
    /// # Safety
    /// As [`launch`](Self::launch).
    pub(super) unsafe fn pack(&self, stream: sys::CUstream, operands: &Operands) -> Result<(), CudaError> {
        // SAFETY: the caller's promise.
        unsafe { self.launch(stream, &self.recipe.pack, &self.packers, operands, false) }
    }

    /// Launches the kernels that compute the output, with a weight that is packed, if it has to be. A graph that
    /// captures them has memory of its own for what they fill and read.
    ///
    /// # Safety
    /// As [`launch`](Self::launch).
    unsafe fn compute(&self, stream: sys::CUstream, operands: &Operands) -> Result<(), Error> {
        let enqueue = |scratch| {
            let operands = self.recipe.with_scratch(*operands, scratch);
            // SAFETY: the caller's promise, and there is as much memory as the recipe says.
            unsafe { self.launch(stream, &self.recipe.launches, &self.kernels, &operands, false) }
        };
        // SAFETY: the caller's promise.
        unsafe {
            match &self.workspace {
                Some(workspace) if self.recipe.scratch_len() > 0 => {
                    if is_captured(stream)? {
                        with_memory_of_graph(stream, self.recipe.scratch_len(), enqueue)?;
                    } else {
                        workspace.in_turn(stream, |_, scratch| enqueue(scratch))?;
                    }
                }
                _ => enqueue(0)?,
            }
        }
        Ok(())
    }

    /// Launches kernels in order, unless there is nothing to compute: a grid cannot be empty. The first one may begin
    /// beside what is before it in the stream if it `follows` a launch of the same call.
    ///
    /// # Safety
    /// The device's context is current and `stream` belongs to it. The operands are addresses that the device can
    /// access, with as many elements as the problem says, what is written apart from the others, and stay valid until
    /// the kernels have run.
    unsafe fn launch(
        &self,
        stream: sys::CUstream,
        launches: &[Launch],
        kernels: &[LaunchKernel],
        operands: &Operands,
        mut follows: bool,
    ) -> Result<(), CudaError> {
        if self.problem.output_shape().len() == 0 {
            return Ok(());
        }
        for (number, (launch, kernel)) in launches.iter().zip(kernels).enumerate() {
            // If it is compiled by the time of its launch only, it does again what has been done.
            if launch.is_spared && kernels[number + 1].is_specialised_to_go_on() {
                continue;
            }
            let operands = launch.operands(operands);
            let maps = launch.tensor_maps(&operands)?;
            let mut arguments = launch.pointers(&self.table_addresses, &operands, &maps);
            let Launch { blocks, threads, shared_bytes, cluster, .. } = *launch;
            let beside = launch.beside && follows;
            follows = true;
            let grid = Grid { blocks, threads, shared_bytes, stream, cluster, beside };
            // SAFETY: a recipe names the arguments of its kernels; the caller vouches for the rest.
            unsafe { kernel.launch(grid, &mut arguments)? };
        }
        Ok(())
    }
}
