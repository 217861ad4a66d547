//! The copy of a gigabyte from device memory to device memory: what memory can do.

use anyhow::Result;
use cust::{
    memory::{AsyncCopyDestination, DeviceBuffer},
    stream::Stream,
};

use crate::timing::median_ms;

const BYTES: usize = 1 << 30;
const CALLS: usize = 10;

/// The two buffers.
pub struct GigabyteCopy {
    source: DeviceBuffer<u8>,
    target: DeviceBuffer<u8>,
}

impl GigabyteCopy {
    /// Allocates the buffers in the current context.
    pub fn new() -> Result<Self> {
        Ok(Self { source: DeviceBuffer::zeroed(BYTES)?, target: DeviceBuffer::zeroed(BYTES)? })
    }

    /// Keeps the stream busy for some copies, so that the host can enqueue ahead. It also drives everything else out of
    /// the caches.
    pub fn enqueue(&mut self, stream: &Stream, copies: usize) -> Result<()> {
        for _ in 0..copies {
            // SAFETY: freeing device memory waits for the work that uses it, so both buffers outlive the copy.
            unsafe { self.target.async_copy_from(&self.source, stream)? };
        }
        Ok(())
    }

    /// Bytes read and written per time, in GB/s: the median of some copies.
    pub fn gb_per_s(&mut self, stream: &Stream) -> Result<f64> {
        self.enqueue(stream, 1)?;
        let ms = median_ms(stream, CALLS, |_| self.enqueue(stream, 1))?;
        Ok(2.0 * BYTES as f64 / ms / 1e6)
    }
}
