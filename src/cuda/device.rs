//! A GPU that is ready to run the kernels.

use std::{ptr, sync::Arc};

use cust::{
    device::Device as CustDevice,
    memory::{DeviceBuffer, DeviceCopy},
    sys::{self, CUdevice_attribute},
};
use rayon::prelude::*;

use super::{
    algorithm::{self, Target},
    context::{self, Context, Entered, Freeing},
    embedded::{self, Ptx},
    error::{CudaError, Status, check},
    module::{Kernel, Modules},
    plan::Options,
    recipe::Launch,
    specialised::{Cache, Specialised},
    tensor::DeviceTensor,
};
use crate::{Element, Error, Shape, Tensor};

/// A GPU that can run the kernels. Cheap to clone; may be shared between threads.
///
/// A plan that is made with it loads the kernels that it needs, which the driver compiles then. They stay loaded as
/// long as the device and its clones, or as the plans that they were compiled for ([`Options::specialised`]); no kernel
/// is loaded twice. For compute capability 9.0 the library has machine code, which a driver of CUDA 13 loads without
/// compiling anything, all kernels in a few milliseconds.
#[derive(Clone, Debug)]
pub struct Device {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    // Dropped in this order: the modules need their context.
    modules: Modules,
    specialised: Cache,
    context: Context,
    ordinal: i32,
    name: String,
    capability: (u32, u32),
    multiprocessors: u32,
    shared_memory_per_block: usize,
    /// See `Target`.
    clusters: [u32; 3],
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Ok(_entered) = self.context.enter_to_unload() {
            self.modules.unload();
        }
    }
}

impl Device {
    /// The GPU of that ordinal, in its primary context: the one that the CUDA runtime, PyTorch and cudarc use too.
    ///
    /// If the calling thread had no context, this one becomes current, so that `cust` streams and buffers can be made
    /// right away.
    ///
    /// # Errors
    /// [`CudaError::NoDriver`], [`CudaError::NoDevice`], [`CudaError::DeviceTooOld`], [`CudaError::PtxRefused`], or
    /// [`CudaError::Driver`] for whatever else the driver reports.
    pub fn new(ordinal: u32) -> Result<Self, CudaError> {
        Self::in_context(primary_context(ordinal)?, embedded::newest)
    }

    /// As [`new`](Self::new), with the kernels for an older architecture than the newest that the GPU runs: for tests
    /// of them and for comparisons. `"sm_80"` is what compute capability 8.0 takes, and every later one that has no
    /// kernels of its own.
    ///
    /// # Errors
    /// As [`new`](Self::new); [`CudaError::NoSuchArchitecture`] or [`CudaError::WrongArchitecture`] if there are no
    /// such kernels, or the GPU cannot run them.
    pub fn with_architecture(ordinal: u32, architecture: &str) -> Result<Self, CudaError> {
        let named = |name: &str, capability| embedded::named(architecture, name, capability);
        Self::in_context(primary_context(ordinal)?, named)
    }

    /// The GPU of the context that is current on this thread: for a program that has made its own, with `cust` or
    /// otherwise.
    ///
    /// # Errors
    /// [`CudaError::NoContext`] if there is none; otherwise as [`Device::new`].
    ///
    /// # Safety
    /// The context must outlive the device and everything made with it.
    pub unsafe fn from_current_context() -> Result<Self, CudaError> {
        initialise(0)?;
        let current = context::current_alive()?.ok_or(CudaError::NoContext)?;
        Self::in_context(Context::Borrowed(current), embedded::newest)
    }

    /// `choose` takes the device's name and compute capability.
    fn in_context(
        context: Context,
        choose: impl FnOnce(&str, (u32, u32)) -> Result<&'static Ptx, CudaError>,
    ) -> Result<Self, CudaError> {
        let entered = context.enter()?;
        let mut ordinal = 0;
        // SAFETY: writes one integer. A `CUdevice` is the ordinal.
        check("cuCtxGetDevice", unsafe { sys::cuCtxGetDevice(&mut ordinal) })?;
        let device = CustDevice::get_device(ordinal as u32).map_err(failed("cuDeviceGet"))?;
        let name = device.name().map_err(failed("cuDeviceGetName"))?;
        let capability = (
            attribute(ordinal, CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
            attribute(ordinal, CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
        );
        let multiprocessors = attribute(ordinal, CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?;
        let shared = attribute(ordinal, CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?;
        let mut modules = Modules::new(choose(&name, capability)?)?;
        let shared_memory_per_block = shared as usize;
        let has_clusters = modules.architecture() == "sm_90a";
        let clusters = if has_clusters { modules.most_clusters(shared) } else { Ok([0; 3]) };
        let clusters = clusters.inspect_err(|_| modules.unload())?;
        drop(entered);
        let inner = Inner {
            modules,
            specialised: Cache::default(),
            context,
            ordinal,
            name,
            capability,
            multiprocessors,
            shared_memory_per_block,
            clusters,
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// The device's name, as the driver says it, such as `NVIDIA H200`.
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// The device's number, from 0, among those that the driver shows to this program.
    pub fn ordinal(&self) -> i32 {
        self.inner.ordinal
    }

    /// The compute capability, `(major, minor)`: `(9, 0)` for an H200.
    pub fn compute_capability(&self) -> (u32, u32) {
        self.inner.capability
    }

    /// The architecture whose kernels run, such as `sm_80`: the newest that this GPU runs, unless another was asked
    /// for.
    pub fn architecture(&self) -> &'static str {
        self.inner.modules.architecture()
    }

    /// The number of multiprocessors, each of which runs blocks of its own: 132 for an H200.
    pub fn multiprocessors(&self) -> u32 {
        self.inner.multiprocessors
    }

    /// The most shared memory that a block can have, in bytes: 227 KiB for an H200. More than 48 KiB has to be dynamic.
    pub fn shared_memory_per_block(&self) -> usize {
        self.inner.shared_memory_per_block
    }

    /// Makes the device's context current on this thread, which `cust` needs for streams, events and buffers of its
    /// own.
    ///
    /// # Errors
    /// [`CudaError::Driver`] if the driver refuses.
    pub fn make_current(&self) -> Result<(), CudaError> {
        // SAFETY: the context is alive as long as the device.
        check("cuCtxSetCurrent", unsafe { sys::cuCtxSetCurrent(self.inner.context.raw()) })
    }

    /// A device tensor filled with zeros. Returns when it is: streams of every kind may use it.
    ///
    /// # Errors
    /// [`CudaError::OutOfMemory`], or [`CudaError::Driver`].
    pub fn zeroed<T: Element + DeviceCopy, const D: usize>(
        &self,
        shape: Shape<D>,
    ) -> Result<DeviceTensor<T, D>, Error> {
        let len = shape.checked_len().unwrap_or(usize::MAX);
        let _entered = self.enter()?;
        let mut buffer = self.allocate(len)?;
        buffer.set_8(0).map_err(failed("cuMemsetD8"))?;
        // The memset is asynchronous, and a non-blocking stream would not wait for it.
        // SAFETY: the device's context is current.
        check("cuStreamSynchronize", unsafe { sys::cuStreamSynchronize(ptr::null_mut()) })?;
        Ok(DeviceTensor::new(self.clone(), shape, buffer))
    }

    /// A copy of a host tensor in device memory. Returns when the copy is done.
    ///
    /// # Errors
    /// [`CudaError::OutOfMemory`], or [`CudaError::Driver`].
    pub fn upload<T: Element + DeviceCopy, const D: usize>(
        &self,
        tensor: &Tensor<T, D>,
    ) -> Result<DeviceTensor<T, D>, Error> {
        let buffer = self.upload_slice(tensor.as_slice())?;
        Ok(DeviceTensor::new(self.clone(), tensor.shape(), buffer))
    }

    /// A copy of a slice in device memory, such as a bias. Returns when the copy is done.
    ///
    /// The buffer is `cust`'s, which frees it in the context that is current where it is dropped. Drop it on a thread
    /// whose current context is the device's (see [`make_current`](Self::make_current)), as long as there is that
    /// context: while somebody has this device or a clone of it, or its primary context.
    ///
    /// # Errors
    /// [`CudaError::OutOfMemory`], or [`CudaError::Driver`].
    pub fn upload_slice<T: DeviceCopy>(&self, slice: &[T]) -> Result<DeviceBuffer<T>, CudaError> {
        use cust::memory::CopyDestination;

        let _entered = self.enter()?;
        let mut buffer = self.allocate(slice.len())?;
        if !slice.is_empty() {
            buffer.copy_from(slice).map_err(failed("cuMemcpyHtoD"))?;
            // SAFETY: the device's context is current. A small copy from pageable memory may still be on its way.
            check("cuStreamSynchronize", unsafe { sys::cuStreamSynchronize(ptr::null_mut()) })?;
        }
        Ok(buffer)
    }

    /// Memory for `len` elements, in the current context.
    pub(super) fn allocate<T: DeviceCopy>(&self, len: usize) -> Result<DeviceBuffer<T>, CudaError> {
        let bytes = len.saturating_mul(size_of::<T>());
        // SAFETY: every caller fills the memory before anyone reads it.
        unsafe { DeviceBuffer::uninitialized(len) }.map_err(|error| match error {
            cust::error::CudaError::OutOfMemory | cust::error::CudaError::InvalidMemoryAllocation => {
                CudaError::OutOfMemory { bytes }
            }
            error => failed("cuMemAlloc")(error),
        })
    }

    pub(super) fn enter(&self) -> Result<Entered, CudaError> {
        self.inner.context.enter()
    }

    pub(super) fn enter_to_free(&self) -> Result<Freeing, CudaError> {
        self.inner.context.enter_to_free()
    }

    pub(super) fn enter_to_unload(&self) -> Result<Freeing, CudaError> {
        self.inner.context.enter_to_unload()
    }

    /// Whether a stream belongs to this device's context.
    pub(super) fn owns_stream(&self, stream: sys::CUstream) -> Result<bool, CudaError> {
        let mut context = ptr::null_mut();
        // SAFETY: the caller holds the stream; writes one handle.
        check("cuStreamGetCtx", unsafe { sys::cuStreamGetCtx(stream, &mut context) })?;
        Ok(self.has_context(context))
    }

    /// Whether this is the device's context.
    pub(super) fn has_context(&self, context: sys::CUcontext) -> bool {
        context == self.inner.context.raw()
    }

    /// Loads the kernels that plans with these options may need, several at a time, so that no plan has to wait for
    /// them later. The driver compiles a kernel when it is first loaded, unless it has taken machine code, and keeps
    /// the result in a cache on disk unless it is told not to. What it compiles for one plan alone is not among them:
    /// see [`Options::specialised`].
    ///
    /// With [`Algorithm::Auto`](super::Algorithm::Auto) these are the kernels of all algorithms that `Auto` may choose.
    /// The kernels for tensors of 2^31 elements and more are left to the plans that need them.
    ///
    /// ```no_run
    /// use conv_transpose::{Precision, cuda::{CudaError, Device, Options}};
    ///
    /// let device = Device::new(0)?;
    /// device.warm_up(Options::default().precision(Precision::Tf32))?;
    /// # Ok::<(), CudaError>(())
    /// ```
    ///
    /// # Errors
    /// [`CudaError::PtxRefused`], or [`CudaError::Driver`] for whatever else the driver reports.
    pub fn warm_up(&self, options: Options) -> Result<(), CudaError> {
        let kernels = algorithm::kernels(options.algorithm, options.precision, &self.target());
        kernels.into_par_iter().try_for_each(|name| self.kernel(name).map(drop))
    }

    /// What the choice of an algorithm depends on.
    pub(super) fn target(&self) -> Target {
        Target {
            multiprocessors: self.multiprocessors(),
            shared_bytes: self.shared_memory_per_block() as u32,
            tensor_cores: self.architecture() != "sm_70",
            large_tiles: self.architecture() == "sm_90a",
            clusters: self.inner.clusters,
        }
    }

    /// Tells the kernels that run from those of other builds and architectures.
    pub(super) fn kernels_hash(&self) -> &'static str {
        self.inner.modules.hash()
    }

    /// Size of the cache between the multiprocessors and the memory.
    pub(super) fn l2_cache_bytes(&self) -> Result<usize, CudaError> {
        let bytes = attribute(self.inner.ordinal, CUdevice_attribute::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)?;
        Ok(bytes as usize)
    }

    /// The kernel of that name, loaded.
    pub(super) fn kernel(&self, name: &'static str) -> Result<Kernel, CudaError> {
        let _entered = self.enter()?;
        self.inner.modules.kernel(name)
    }

    /// Whether the kernel of that name need not be compiled.
    pub(super) fn is_at_hand(&self, name: &'static str) -> bool {
        self.inner.modules.is_at_hand(name)
    }

    /// The kernel of a launch, compiled for the values of its first parameters, or about to be.
    pub(super) fn specialised_kernel(&self, launch: &Launch, values: &[&[u8]]) -> Result<Arc<Specialised>, CudaError> {
        let ptx = self.inner.modules.ptx(launch.kernel)?;
        Ok(self.inner.specialised.get(self, ptx, values, (launch.shared_bytes, launch.least_blocks)))
    }
}

/// Loads and initialises the driver, for the GPU of that ordinal.
fn initialise(ordinal: u32) -> Result<(), CudaError> {
    cuda_loader::driver()?;
    match cust::init(cust::CudaFlags::empty()) {
        Err(cust::error::CudaError::NoDevice) => Err(CudaError::NoDevice { ordinal, count: 0 }),
        result => result.map_err(failed("cuInit")),
    }
}

/// The primary context of the GPU of that ordinal, current on this thread only if it had none.
fn primary_context(ordinal: u32) -> Result<Context, CudaError> {
    initialise(ordinal)?;
    let count = device_count()?;
    if ordinal >= count {
        return Err(CudaError::NoDevice { ordinal, count });
    }
    let device = CustDevice::get_device(ordinal).map_err(failed("cuDeviceGet"))?;
    let before = context::current_alive()?;
    let primary = cust::context::Context::new(device).map_err(failed("cuDevicePrimaryCtxRetain"))?;
    if let Some(before) = before {
        // SAFETY: this context was current a moment ago.
        check("cuCtxSetCurrent", unsafe { sys::cuCtxSetCurrent(before) })?;
    }
    Ok(Context::Primary(primary))
}

/// An attribute that is not negative.
fn attribute(device: sys::CUdevice, attribute: CUdevice_attribute) -> Result<u32, CudaError> {
    let mut value = 0;
    // SAFETY: writes one integer.
    check("cuDeviceGetAttribute", unsafe { sys::cuDeviceGetAttribute(&mut value, attribute, device) })?;
    Ok(value as u32)
}

fn device_count() -> Result<u32, CudaError> {
    match CustDevice::num_devices() {
        Err(cust::error::CudaError::NoDevice) => Ok(0),
        count => count.map_err(failed("cuDeviceGetCount")),
    }
}

/// Names the call that `cust` reports an error of.
pub(super) fn failed(call: &'static str) -> impl Fn(cust::error::CudaError) -> CudaError {
    move |error| CudaError::Driver { call, status: Status::from(error) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        ConvTranspose2d, Precision,
        cuda::{Algorithm, Plan, module::tests::device},
    };

    #[test]
    fn a_warm_device_loads_nothing_for_a_plan() {
        let Some(device) = device("a_warm_device_loads_nothing_for_a_plan") else { return };
        // Of which there is no machine code, whose kernels are all loaded at once.
        let architecture = if device.compute_capability() >= (8, 0) { "sm_80" } else { "sm_70" };
        let device = Device::with_architecture(0, architecture).unwrap();
        let loaded = || device.inner.modules.loaded();
        let options = Options::default().algorithm(Algorithm::Scatter);
        device.warm_up(options).unwrap();
        assert_eq!(loaded(), 2, "scatter, and the kernel that the driver is tried with");
        for precision in [Precision::F32, Precision::Tf32] {
            let options = Options::default().precision(precision);
            device.warm_up(options).unwrap();
            let warm = loaded();
            assert!(warm > 4, "gather and direct at least");
            for channels in [1, 4, 16, 64, 128] {
                let layer = ConvTranspose2d::builder(channels, channels, [4, 4]).stride([2, 2]).build().unwrap();
                Plan::new(&device, &layer, Shape::batched(2, channels, [9, 9]), options).unwrap();
            }
            assert_eq!(loaded(), warm);
        }
    }
}
