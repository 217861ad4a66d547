//! Additions to global memory that many threads make at once.
//!
//! They are relaxed, and visible to the whole GPU: other threads see each of them, in no particular order with
//! anything else.

#[cfg(not(target_arch = "nvptx64"))]
use crate::host;

macro_rules! add {
    ($($(#[$doc:meta])* $name:ident($type:ty) = $instruction:literal, $host:ident;)*) => {
        $(
            $(#[$doc])*
            ///
            /// # Safety
            ///
            /// `target` must be aligned and valid in global memory; while the kernel runs, every access to it must be
            /// atomic.
            #[inline(always)]
            #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
            pub unsafe fn $name(target: *mut $type, value: $type) {
                #[cfg(target_arch = "nvptx64")]
                // SAFETY: the caller vouches for the pointer.
                unsafe {
                    core::arch::asm!(
                        "{{",
                        ".reg .u64 address;",
                        "cvta.to.global.u64 address, {target};",
                        concat!($instruction, " [address], {value};"),
                        "}}",
                        target = in(reg64) target,
                        value = in(reg32) value,
                        options(nostack, preserves_flags),
                    );
                }
                #[cfg(not(target_arch = "nvptx64"))]
                host::$host(target, value)
            }
        )*
    };
}

add! {
    /// Adds to a float. The order of additions varies from run to run, and with it the rounding.
    add_f32(f32) = "red.relaxed.gpu.global.add.f32", atomic_add_f32;
    /// Adds to an integer, wrapping around.
    add_u32(u32) = "red.relaxed.gpu.global.add.u32", atomic_add_u32;
}
