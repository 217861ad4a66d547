//! Tensors in device memory.

use cust::{
    memory::{AsyncCopyDestination, DeviceBuffer, DeviceCopy, DeviceSlice},
    stream::Stream,
};

use super::{
    device::{Device, failed},
    memory::DeviceMemory,
};
use crate::{Argument, Element, Error, GeometryError, Shape, Tensor};

/// A dense row-major tensor in the memory of a GPU: a `cust` buffer with a shape.
#[derive(Debug)]
pub struct DeviceTensor<T: DeviceCopy, const D: usize> {
    shape: Shape<D>,
    memory: DeviceMemory<T>,
}

impl<T: Element + DeviceCopy, const D: usize> DeviceTensor<T, D> {
    pub(super) fn new(device: Device, shape: Shape<D>, buffer: DeviceBuffer<T>) -> Self {
        Self { shape, memory: DeviceMemory::new(device, buffer) }
    }

    /// Gives a shape to a `cust` buffer that lies on `device`. Nothing is copied. A buffer that was allocated in the order
    /// of a stream (`uninitialized_async`) is not waited for when the tensor is dropped: wait for the work that uses it
    /// before.
    ///
    /// # Errors
    /// [`GeometryError::Length`] if the buffer does not have exactly as many elements as the shape. (That it lies on
    /// the device is checked when it is used.)
    pub fn from_buffer(device: &Device, shape: Shape<D>, buffer: DeviceBuffer<T>) -> Result<Self, Error> {
        let expected = shape.checked_len().unwrap_or(usize::MAX);
        if buffer.len() != expected {
            return Err(GeometryError::Length { argument: Argument::Input, value: buffer.len(), expected }.into());
        }
        Ok(Self::new(device.clone(), shape, buffer))
    }

    /// Gives the `cust` buffer back. To drop it is to wait for the kernels that use it, unless it was allocated in the
    /// order of a stream; to free it in the order of one (`drop_async`) is not: do so only on the stream of the work
    /// that uses it, or on one that waits for it. Its memory is the context's: drop it while there is that context, as
    /// while somebody has the device or a clone of it.
    pub fn into_buffer(self) -> DeviceBuffer<T> {
        self.memory.into_buffer()
    }

    /// The shape.
    pub fn shape(&self) -> Shape<D> {
        self.shape
    }

    /// The elements in row-major order.
    pub fn buffer(&self) -> &DeviceBuffer<T> {
        self.memory.buffer()
    }

    /// The elements in row-major order. Whoever exchanges the slice for one of another length gets an error when the
    /// tensor is used.
    pub fn buffer_mut(&mut self) -> &mut DeviceSlice<T> {
        self.memory.buffer_mut()
    }

    /// Copies the tensor to the host when the work enqueued on `stream` so far is done, and waits for it.
    ///
    /// # Errors
    /// [`CudaError::Driver`](super::CudaError::Driver) if the copy, or work before it on the stream, failed;
    /// [`Error::HostMemory`]; [`GeometryError::Length`] if [`buffer_mut`](Self::buffer_mut) was exchanged for a slice of
    /// another length.
    pub fn download(&self, stream: &Stream) -> Result<Tensor<T, D>, Error> {
        let _entered = self.memory.device().enter()?;
        let mut host = Tensor::filled(self.shape, T::zeroed())?;
        let (value, expected) = (self.buffer().len(), host.as_slice().len());
        if value != expected {
            return Err(GeometryError::Length { argument: Argument::Input, value, expected }.into());
        }
        if value > 0 {
            // SAFETY: the host memory outlives the copy, which the synchronisation below waits for.
            let copied = unsafe { self.buffer().async_copy_to(host.as_mut_slice(), stream) };
            let finished = stream.synchronize();
            copied.map_err(failed("cuMemcpyDtoHAsync"))?;
            finished.map_err(failed("cuStreamSynchronize"))?;
        }
        Ok(host)
    }
}
