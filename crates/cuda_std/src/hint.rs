//! Hints to the compiler about registers.

/// The same value, about which the compiler knows nothing.
///
/// What is computed from it is computed there and then: not before a loop, where the result would occupy a register all
/// the while, and not shared with the same computation elsewhere.
#[inline(always)]
#[must_use]
pub fn opaque(value: u32) -> u32 {
    #[cfg(target_arch = "nvptx64")]
    {
        let same: u32;
        // SAFETY: copies a register. Not `pure`, so that it stays where it is.
        unsafe {
            core::arch::asm!(
                "mov.u32 {same}, {value};",
                value = in(reg32) value,
                same = lateout(reg32) same,
                options(nomem, nostack, preserves_flags)
            );
        }
        same
    }
    #[cfg(not(target_arch = "nvptx64"))]
    value
}

/// As [`opaque`], for an address.
#[inline(always)]
#[must_use]
pub fn opaque_pointer<T>(pointer: *const T) -> *const T {
    #[cfg(target_arch = "nvptx64")]
    {
        let same: *const T;
        // SAFETY: copies a register. Not `pure`, so that it stays where it is.
        unsafe {
            core::arch::asm!(
                "mov.u64 {same}, {pointer};",
                pointer = in(reg64) pointer,
                same = lateout(reg64) same,
                options(nomem, nostack, preserves_flags)
            );
        }
        same
    }
    #[cfg(not(target_arch = "nvptx64"))]
    pointer
}
