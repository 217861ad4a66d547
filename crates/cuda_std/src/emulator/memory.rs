//! Global memory: named buffers, and the checks on every access to them.

use core::alloc::Layout;
use core::fmt;
use core::ptr::NonNull;
use std::alloc;
use std::borrow::ToOwned;
use std::string::String;
use std::vec::Vec;

use bytemuck::Pod;

use super::fault::{FaultKind, Place};
use super::order::Actor;
use super::shadow::{Access, Objection, Shadow};

/// What the driver aligns allocations to.
const ALIGN: usize = 256;

/// The distance to the next buffer on both sides. Within it, an access out of bounds is told from one to a neighbour;
/// pages that nothing touches cost no memory.
const MARGIN: usize = 64 * 1024;

/// What memory that nothing wrote holds: not-a-numbers, to be seen by code that the emulator cannot check.
const UNWRITTEN: u8 = 0xff;

/// The global memory of a device: buffers with a name, an extent and a permission.
///
/// ```
/// use cuda_std::emulator::Memory;
///
/// let mut memory = Memory::new();
/// let input = memory.read_only("input", &[1.0f32, 2.0]);
/// let output = memory.uninitialised::<f32>("output", 2);
/// assert_eq!(memory.values(input).unwrap(), [1.0, 2.0]);
/// assert!(memory.values(output).is_err());
/// ```
#[derive(Default)]
pub struct Memory {
    /// By address.
    buffers: Vec<Buffer>,
}

struct Buffer {
    name: String,
    bytes: Allocation,
    /// None for a buffer that no kernel may write: then there is nothing to keep watch over.
    shadow: Option<Shadow>,
}

impl Memory {
    /// Without any buffers.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a buffer that kernels may only read.
    pub fn read_only<T: Pod>(&mut self, name: &str, values: &[T]) -> *const T {
        self.add(name, bytemuck::cast_slice(values), |_| None).cast()
    }

    /// Adds a buffer with a content.
    pub fn read_write<T: Pod>(&mut self, name: &str, values: &[T]) -> *mut T {
        self.add(name, bytemuck::cast_slice(values), |bytes| Some(Shadow::new(bytes, true))).cast()
    }

    /// Adds a buffer for `count` values whose content is not to be read before it is written.
    pub fn uninitialised<T: Pod>(&mut self, name: &str, count: usize) -> *mut T {
        let content = std::vec![UNWRITTEN; count * size_of::<T>()];
        self.add(name, &content, |bytes| Some(Shadow::new(bytes, false))).cast()
    }

    fn add(&mut self, name: &str, content: &[u8], shadow: impl FnOnce(usize) -> Option<Shadow>) -> *mut u8 {
        let bytes = Allocation::new(content);
        let start = bytes.start();
        let shadow = shadow(content.len());
        let index = self.buffers.partition_point(|other| other.bytes.start().addr() < start.addr());
        self.buffers.insert(index, Buffer { name: name.to_owned(), bytes, shadow });
        start
    }

    /// The content of the buffer that starts at `start`.
    ///
    /// # Errors
    ///
    /// Where no buffer starts there, its size is no multiple of that of `T`, or some of it was never written.
    pub fn values<T: Pod>(&self, start: *const T) -> Result<Vec<T>, ReadError> {
        let buffer = self.starting_at(start.addr()).ok_or(ReadError::NoBuffer)?;
        let bytes = buffer.bytes.content();
        let unwritten = buffer.shadow.as_ref().and_then(|shadow| shadow.first_unwritten(bytes.len()));
        if let Some(offset) = unwritten {
            return Err(ReadError::NeverWritten { buffer: buffer.name.clone(), offset });
        }
        let values = bytemuck::try_cast_slice(bytes);
        values.map(<[T]>::to_vec).map_err(|_| ReadError::Size { buffer: buffer.name.clone(), bytes: bytes.len() })
    }

    /// Removes the buffer that starts at `start`, and says whether there was one.
    pub fn remove<T>(&mut self, start: *const T) -> bool {
        let before = self.buffers.len();
        self.buffers.retain(|buffer| buffer.bytes.start().addr() != start.addr());
        self.buffers.len() < before
    }

    fn starting_at(&self, address: usize) -> Option<&Buffer> {
        self.buffers.iter().find(|buffer| buffer.bytes.start().addr() == address)
    }

    /// Forgets the accesses of the launch that has ended.
    pub(super) fn forget_accesses(&mut self) {
        self.buffers.iter_mut().filter_map(|buffer| buffer.shadow.as_mut()).for_each(Shadow::forget_accesses);
    }

    /// Checks an access, and yields the pointer to make it with.
    pub(super) fn access(
        &mut self,
        access: Access,
        actor: &Actor<'_>,
        address: usize,
        bytes: usize,
    ) -> Result<*mut u8, Violation> {
        let (buffer, offset) = self.locate(access, address, bytes)?;
        let place = |offset| buffer_place(&buffer.name, offset);
        if !address.is_multiple_of(bytes.next_power_of_two()) {
            return Err(FaultKind::Misaligned { access, bytes, place: place(offset as i64) }.into());
        }
        match &mut buffer.shadow {
            Some(shadow) => shadow.access(access, actor, offset, bytes).map_err(|objection| {
                let place = place(objection.offset as i64);
                Violation::Objection { access, place, objection }
            })?,
            None if access.writes() => {
                return Err(FaultKind::ReadOnly { access, place: place(offset as i64) }.into());
            }
            None => {}
        }
        // SAFETY: the offset is within the buffer.
        Ok(unsafe { buffer.bytes.start().add(offset) })
    }

    /// The buffer that an access lies in, and its offset.
    fn locate(&mut self, access: Access, address: usize, bytes: usize) -> Result<(&mut Buffer, usize), Violation> {
        let after = self.buffers.partition_point(|buffer| buffer.bytes.start().addr() <= address);
        let inside = after.checked_sub(1).filter(|&index| {
            let buffer = &self.buffers[index].bytes;
            address - buffer.start().addr() + bytes <= buffer.size
        });
        match inside {
            Some(index) => {
                let buffer = &mut self.buffers[index];
                let offset = address - buffer.bytes.start().addr();
                Ok((buffer, offset))
            }
            None => {
                let near = self.near(address);
                Err(FaultKind::OutOfBounds { access, bytes, address: address as u64, near }.into())
            }
        }
    }

    /// The buffer nearest to an address, if the address is within its margin.
    fn near(&self, address: usize) -> Option<(Place, usize)> {
        let distance = |buffer: &Buffer| {
            let start = buffer.bytes.start().addr();
            let end = start + buffer.bytes.size;
            start.saturating_sub(address).max(address.saturating_sub(end))
        };
        let nearest = self.buffers.iter().min_by_key(|buffer| distance(buffer))?;
        let offset = address.wrapping_sub(nearest.bytes.start().addr()) as i64;
        (distance(nearest) < MARGIN).then(|| (buffer_place(&nearest.name, offset), nearest.bytes.size))
    }
}

fn buffer_place(name: &str, offset: i64) -> Place {
    Place { buffer: name.to_owned(), offset, shared: false }
}

/// A fault, or what becomes one when it is known where the other thread is.
pub(super) enum Violation {
    Fault(FaultKind),
    Objection { access: Access, place: Place, objection: Objection },
}

impl From<FaultKind> for Violation {
    fn from(fault: FaultKind) -> Self {
        Self::Fault(fault)
    }
}

/// Why [`Memory::values`] has none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadError {
    /// No buffer starts there.
    NoBuffer,
    /// The size of the buffer is no multiple of the size of a value.
    Size {
        /// The buffer.
        buffer: String,
        /// Its size.
        bytes: usize,
    },
    /// Part of the buffer was never written.
    NeverWritten {
        /// The buffer.
        buffer: String,
        /// The first byte that was not.
        offset: usize,
    },
}

impl core::error::Error for ReadError {}

impl fmt::Display for ReadError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoBuffer => write!(formatter, "no buffer starts there"),
            Self::Size { buffer, bytes } => {
                write!(formatter, "buffer `{buffer}` has {bytes} bytes, which is no whole number of values")
            }
            Self::NeverWritten { buffer, offset } => {
                write!(formatter, "nothing has written offset {offset} of buffer `{buffer}`")
            }
        }
    }
}

/// Memory with a margin on both sides. It is used by raw pointers only, since kernels hold some too.
struct Allocation {
    base: NonNull<u8>,
    size: usize,
}

impl Allocation {
    fn new(content: &[u8]) -> Self {
        let size = content.len();
        let layout = Self::layout(size);
        // SAFETY: the layout has the margins, so its size is not zero.
        let base = unsafe { alloc::alloc(layout) };
        let Some(base) = NonNull::new(base) else { alloc::handle_alloc_error(layout) };
        let allocation = Self { base, size };
        // SAFETY: the new allocation has room for the content, and nobody else knows it.
        unsafe { allocation.start().copy_from_nonoverlapping(content.as_ptr(), size) };
        allocation
    }

    fn layout(size: usize) -> Layout {
        let padded = size.checked_add(2 * MARGIN).expect("the size of a buffer fits in the address space");
        Layout::from_size_align(padded, ALIGN).expect("the size of a buffer fits in the address space")
    }

    fn start(&self) -> *mut u8 {
        // SAFETY: the margin is part of the allocation.
        unsafe { self.base.as_ptr().add(MARGIN) }
    }

    fn content(&self) -> &[u8] {
        // SAFETY: the bytes were initialised by `new`. Kernels, who write them, only run while the launch has the
        // memory exclusively.
        unsafe { core::slice::from_raw_parts(self.start(), self.size) }
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        // SAFETY: allocated by `new` with the same layout.
        unsafe { alloc::dealloc(self.base.as_ptr(), Self::layout(self.size)) };
    }
}

// SAFETY: an allocation owns its bytes; pointers that users keep give no access without `unsafe`.
unsafe impl Send for Allocation {}
// SAFETY: a shared reference only allows to read.
unsafe impl Sync for Allocation {}
