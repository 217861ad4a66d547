//! Kernels by name: what `#[kernel]` makes known about each of them on the host.
//!
//! A crate of kernels lists its entries in a table; whoever launches looks one up with [`find`] and passes an array of
//! pointers to the arguments, which is what the CUDA driver takes too.

use core::alloc::Layout;
use core::ffi::c_void;

/// A kernel that can be called by name. For a kernel `scale`, the attribute generates the static `SCALE_ENTRY`.
#[derive(Debug)]
pub struct Entry {
    /// The name, which is also that of the entry point in the PTX.
    pub name: &'static str,
    /// Sizes and alignments of the parameters, in order.
    pub parameters: &'static [Layout],
    /// Runs the kernel for one thread; the array holds a pointer to each of the arguments.
    ///
    /// # Safety
    ///
    /// There is a pointer for each parameter, valid for reads of a value of its type; what the kernel itself asks of
    /// its arguments holds.
    pub call: unsafe fn(arguments: *const *mut c_void),
}

/// The entry of that name.
#[must_use]
pub fn find<'a>(entries: &[&'a Entry], name: &str) -> Option<&'a Entry> {
    entries.iter().copied().find(|entry| entry.name == name)
}

/// Copies argument number `index` out of an array of pointers to arguments.
///
/// # Safety
///
/// The array has such an element, and it points to a `T`; alignment does not matter. `T` is `Copy`, which the attribute
/// checks by itself, to say it once.
#[doc(hidden)]
#[inline(always)]
#[must_use]
pub unsafe fn argument<T>(arguments: *const *mut c_void, index: usize) -> T {
    // SAFETY: the caller vouches for the array and for what its element points to.
    unsafe { arguments.add(index).read().cast::<T>().read_unaligned() }
}
