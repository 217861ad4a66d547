//! Shared memory: a block's own, fast memory, with 32-bit addresses of its own.
//!
//! Rust has no statics in shared memory, so arrays are declared in assembly, and a [`SharedPtr`] is a number that only
//! this module's instructions can use. An array of fixed size is declared with [`shared_array!`](crate::shared_array);
//! what exceeds 48 KiB has to come from [`dynamic_shared_mem`], whose size the launch gives.

use core::marker::PhantomData;

#[cfg(not(target_arch = "nvptx64"))]
use crate::host;
use crate::mem::{self, Transfer};

/// The address of a `T` in the shared memory of the thread's block.
pub struct SharedPtr<T> {
    address: u32,
    pointee: PhantomData<*mut T>,
}

impl<T> Clone for SharedPtr<T> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for SharedPtr<T> {}

impl<T> SharedPtr<T> {
    /// The pointer to an address, as instructions with shared-memory operands take it.
    #[inline(always)]
    #[must_use]
    pub const fn from_address(address: u32) -> Self {
        let pointee = PhantomData;
        Self { address, pointee }
    }

    /// The address as a number.
    #[inline(always)]
    #[must_use]
    pub const fn address(self) -> u32 {
        self.address
    }

    /// The pointer to the value `count` values further on. It may lie outside of any array; using it then may not.
    #[inline(always)]
    #[must_use]
    pub const fn add(self, count: u32) -> Self {
        let bytes = count.wrapping_mul(size_of::<T>() as u32);
        Self::from_address(self.address.wrapping_add(bytes))
    }

    /// The same address, as the place of another type.
    #[inline(always)]
    #[must_use]
    pub const fn cast<U>(self) -> SharedPtr<U> {
        SharedPtr::from_address(self.address)
    }
}

impl<T: Transfer> SharedPtr<T> {
    /// Reads the value.
    ///
    /// # Safety
    ///
    /// The pointer must lie in an array and be aligned to the size of `T`; no other thread may be writing there.
    #[inline(always)]
    #[must_use]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn load(self) -> T {
        // SAFETY: the caller vouches for the address.
        unsafe { mem::load_shared(self.address) }
    }

    /// Writes the value.
    ///
    /// # Safety
    ///
    /// The pointer must lie in an array and be aligned to the size of `T`; no other thread may be accessing it.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn store(self, value: T) {
        // SAFETY: the caller vouches for the address.
        unsafe { mem::store_shared(self.address, value) }
    }
}

impl<T: Transfer> SharedPtr<T> {
    /// Reads the value if `number` is below `count`, as signed numbers; otherwise it is zero, without an access. It
    /// never becomes a branch, so the loads of an unrolled loop stay together.
    ///
    /// # Safety
    ///
    /// As for [`load`](Self::load), if the condition holds.
    #[inline(always)]
    #[must_use]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn load_below(self, number: i32, count: i32) -> T {
        // SAFETY: the caller vouches for the address if the condition holds.
        unsafe { mem::load_shared_below(number, count, self.address) }
    }

    /// Reads the value if a condition holds; otherwise it is another one, without an access. It never becomes a branch.
    ///
    /// # Safety
    ///
    /// As for [`load`](Self::load), if the condition holds.
    #[inline(always)]
    #[must_use]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn load_if(self, condition: bool, otherwise: T) -> T {
        // SAFETY: the caller vouches for the address if the condition holds.
        unsafe { mem::load_shared_if(condition, self.address, otherwise) }
    }
}

/// The alignment of the dynamic part: what bulk copies of swizzled tiles ask for.
pub const DYNAMIC_ALIGN: u32 = 1024;

#[cfg(target_arch = "nvptx64")]
core::arch::global_asm!(
    ".extern .shared .align {align} .b8 dynamic_shared_mem[];",
    align = const DYNAMIC_ALIGN,
);

/// The start of the shared memory whose size the launch gives, aligned to [`DYNAMIC_ALIGN`].
#[inline(always)]
#[must_use]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn dynamic_shared_mem<T>() -> SharedPtr<T> {
    #[cfg(target_arch = "nvptx64")]
    let address = {
        let address: u32;
        // SAFETY: takes the address of the symbol declared above.
        unsafe {
            core::arch::asm!(
                "mov.u32 {address}, dynamic_shared_mem;",
                address = out(reg32) address,
                options(pure, nomem, nostack, preserves_flags),
            );
        }
        address
    };
    #[cfg(not(target_arch = "nvptx64"))]
    let address = host::dynamic_shared();
    SharedPtr::from_address(address)
}

/// Declares an array in shared memory, at module level.
///
/// The name becomes a unit structure with the method `as_ptr`. It is also the array's name in the PTX, so it must be
/// unique over all kernels of a crate. Each block has its own copy, whose content is undefined when the kernel starts.
///
/// ```
/// use cuda_std::{kernel, shared_array, thread};
///
/// shared_array! {
///     /// One value per thread.
///     static PARTIAL_SUMS: [f32; 256];
/// }
///
/// /// # Safety
/// ///
/// /// `values` is valid for 256 values; blocks have 256 threads.
/// #[kernel]
/// pub unsafe fn reverse(values: *mut f32) {
///     let index = thread::thread_idx_x();
///     // SAFETY: each thread stays inside both arrays, and the barrier is between writes and reads.
///     unsafe {
///         let value = values.add(index as usize);
///         PARTIAL_SUMS.as_ptr().add(index).store(*value);
///         thread::sync_threads();
///         *value = PARTIAL_SUMS.as_ptr().add(255 - index).load();
///     }
/// }
/// ```
#[macro_export]
macro_rules! shared_array {
    ($(#[$attribute:meta])* $visibility:vis static $name:ident: [$type:ty; $length:expr];) => {
        $(#[$attribute])*
        #[allow(non_camel_case_types, clippy::upper_case_acronyms)]
        #[derive(Clone, Copy)]
        $visibility struct $name;

        // Aligned to the widest access, so that vector loads may start at the first element.
        #[cfg(target_arch = "nvptx64")]
        ::core::arch::global_asm!(
            concat!(".shared .align 16 .b8 ", stringify!($name), "[{bytes}];"),
            bytes = const ::core::mem::size_of::<[$type; $length]>(),
        );

        impl $name {
            /// The first element.
            #[inline(always)]
            #[must_use]
            #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
            $visibility fn as_ptr(self) -> $crate::shared::SharedPtr<$type> {
                #[cfg(target_arch = "nvptx64")]
                let address = {
                    let address: u32;
                    // SAFETY: takes the address of the symbol declared above.
                    unsafe {
                        ::core::arch::asm!(
                            concat!("mov.u32 {address}, ", stringify!($name), ";"),
                            address = out(reg32) address,
                            options(pure, nomem, nostack, preserves_flags),
                        );
                    }
                    address
                };
                #[cfg(not(target_arch = "nvptx64"))]
                let address = $crate::macros::shared_array(
                    stringify!($name),
                    ::core::mem::size_of::<[$type; $length]>(),
                    16,
                );
                $crate::shared::SharedPtr::from_address(address)
            }
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pointers_count_in_values() {
        let start = SharedPtr::<[f32; 4]>::from_address(1024);
        assert_eq!(start.add(3).address(), 1024 + 48);
        assert_eq!(start.cast::<f32>().add(3).address(), 1024 + 12);
    }

    #[test]
    #[should_panic(expected = "device code called outside a kernel launch")]
    fn without_a_launch_there_is_no_shared_memory() {
        let _ = dynamic_shared_mem::<f32>();
    }
}
