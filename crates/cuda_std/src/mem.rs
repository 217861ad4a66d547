//! Memory access of a chosen width: one instruction moves up to four words.
//!
//! Plain `*pointer` moves a word at a time unless the compiler can prove the alignment, which it rarely can.

#[cfg(not(target_arch = "nvptx64"))]
use crate::host;

/// A value that one instruction moves: one, two or four words of 32 bits.
pub trait Transfer: Copy + sealed::Instructions {}

mod sealed {
    /// The instructions for one type.
    #[cfg(target_arch = "nvptx64")]
    pub trait Instructions: Sized {
        unsafe fn load(source: *const Self) -> Self;
        unsafe fn load_readonly(source: *const Self) -> Self;
        unsafe fn load_readonly_if(condition: bool, source: *const Self) -> Self;
        unsafe fn store(target: *mut Self, value: Self);
        unsafe fn store_below(number: i32, count: i32, target: *mut Self, value: Self);
        unsafe fn load_shared(address: u32) -> Self;
        unsafe fn load_shared_if(condition: bool, address: u32, otherwise: Self) -> Self;
        unsafe fn load_shared_below(number: i32, count: i32, address: u32) -> Self;
        unsafe fn store_shared(address: u32, value: Self);
    }

    /// Almost nothing on the host, where every `Copy` type moves alike.
    #[cfg(not(target_arch = "nvptx64"))]
    pub trait Instructions {
        const ZERO: Self;
    }
}

/// Loads from global memory that the kernel may also write.
///
/// # Safety
///
/// `source` must be valid in global memory and aligned to the size of `T`; no other thread may be writing there.
#[inline(always)]
#[must_use]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn load<T: Transfer>(source: *const T) -> T {
    #[cfg(target_arch = "nvptx64")]
    // SAFETY: the caller vouches for the pointer.
    unsafe {
        T::load(source)
    }
    #[cfg(not(target_arch = "nvptx64"))]
    host::load(source)
}

/// Loads from global memory that nobody writes while the kernel runs, through the read-only cache.
///
/// # Safety
///
/// `source` must be valid in global memory and aligned to the size of `T`; nobody may write there before the kernel
/// ends.
#[inline(always)]
#[must_use]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn load_readonly<T: Transfer>(source: *const T) -> T {
    #[cfg(target_arch = "nvptx64")]
    // SAFETY: the caller vouches for the pointer.
    unsafe {
        T::load_readonly(source)
    }
    #[cfg(not(target_arch = "nvptx64"))]
    host::load_readonly(source)
}

/// Brings the line of the cache that has `place` closer, so that loads from there take less time later. Nothing waits
/// for it.
///
/// # Safety
///
/// `place` must be valid in global memory.
#[inline(always)]
pub unsafe fn prefetch<T>(place: *const T) {
    #[cfg(target_arch = "nvptx64")]
    // SAFETY: the caller vouches for the pointer; nothing changes but what the cache holds.
    unsafe {
        core::arch::asm!("prefetch.global.L1 [{place}];", place = in(reg64) place, options(nostack, preserves_flags));
    }
    #[cfg(not(target_arch = "nvptx64"))]
    let _ = place;
}

/// [`load_readonly`] if the condition holds, and else zero without an access. It never becomes a branch, so the loads
/// of an unrolled loop stay together and wait for memory at the same time.
///
/// # Safety
///
/// As for [`load_readonly`], if the condition holds.
#[inline(always)]
#[must_use]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn load_readonly_if<T: Transfer>(condition: bool, source: *const T) -> T {
    #[cfg(target_arch = "nvptx64")]
    // SAFETY: the caller vouches for the pointer if the condition holds.
    unsafe {
        T::load_readonly_if(condition, source)
    }
    #[cfg(not(target_arch = "nvptx64"))]
    if condition { host::load_readonly(source) } else { T::ZERO }
}

/// Stores to global memory.
///
/// # Safety
///
/// `target` must be valid for writes in global memory and aligned to the size of `T`; no other thread may be accessing
/// it.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn store<T: Transfer>(target: *mut T, value: T) {
    #[cfg(target_arch = "nvptx64")]
    // SAFETY: the caller vouches for the pointer.
    unsafe {
        T::store(target, value)
    }
    #[cfg(not(target_arch = "nvptx64"))]
    host::store(target, value)
}

/// [`store`] if `number` is below `count`, as signed numbers. It never becomes a branch, and the comparison is its
/// predicate.
///
/// # Safety
///
/// As for [`store`], if the condition holds.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn store_below<T: Transfer>(number: i32, count: i32, target: *mut T, value: T) {
    #[cfg(target_arch = "nvptx64")]
    // SAFETY: the caller vouches for the pointer if the condition holds.
    unsafe {
        T::store_below(number, count, target, value)
    }
    #[cfg(not(target_arch = "nvptx64"))]
    if number < count {
        host::store(target, value);
    }
}

/// [`load`] for a 32-bit address in shared memory; [`SharedPtr::load`](crate::shared::SharedPtr::load) is its face.
///
/// # Safety
///
/// As for [`load`], of shared memory.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub(crate) unsafe fn load_shared<T: Transfer>(address: u32) -> T {
    #[cfg(target_arch = "nvptx64")]
    // SAFETY: the caller vouches for the address.
    unsafe {
        T::load_shared(address)
    }
    #[cfg(not(target_arch = "nvptx64"))]
    host::load_shared(address)
}

/// [`load_shared`] if a condition holds, and else another value without an access;
/// [`SharedPtr::load_if`](crate::shared::SharedPtr::load_if) is its face.
///
/// # Safety
///
/// As for [`load`], of shared memory, if the condition holds.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub(crate) unsafe fn load_shared_if<T: Transfer>(condition: bool, address: u32, otherwise: T) -> T {
    #[cfg(target_arch = "nvptx64")]
    // SAFETY: the caller vouches for the address if the condition holds.
    unsafe {
        T::load_shared_if(condition, address, otherwise)
    }
    #[cfg(not(target_arch = "nvptx64"))]
    if condition { host::load_shared(address) } else { otherwise }
}

/// [`load_shared`] if `number` is below `count`, as signed numbers, and else zero without an access;
/// [`SharedPtr::load_below`](crate::shared::SharedPtr::load_below) is its face.
///
/// # Safety
///
/// As for [`load`], of shared memory, if the condition holds.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub(crate) unsafe fn load_shared_below<T: Transfer>(number: i32, count: i32, address: u32) -> T {
    #[cfg(target_arch = "nvptx64")]
    // SAFETY: the caller vouches for the address if the condition holds.
    unsafe {
        T::load_shared_below(number, count, address)
    }
    #[cfg(not(target_arch = "nvptx64"))]
    if number < count { host::load_shared(address) } else { T::ZERO }
}

/// [`store`] for a 32-bit address in shared memory; [`SharedPtr::store`](crate::shared::SharedPtr::store) is its face.
///
/// # Safety
///
/// As for [`store`], of shared memory.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub(crate) unsafe fn store_shared<T: Transfer>(address: u32, value: T) {
    #[cfg(target_arch = "nvptx64")]
    // SAFETY: the caller vouches for the address.
    unsafe {
        T::store_shared(address, value)
    }
    #[cfg(not(target_arch = "nvptx64"))]
    host::store_shared(address, value)
}

/// One access to global memory; `$instruction` uses the register `address`, which the pointer is turned into.
#[cfg(target_arch = "nvptx64")]
macro_rules! global {
    ($pointer:ident, $instruction:expr, $($operands:tt)*) => {
        core::arch::asm!(
            "{{",
            ".reg .u64 address;",
            "cvta.to.global.u64 address, {pointer};",
            $instruction,
            "}}",
            pointer = in(reg64) $pointer,
            $($operands)*
        )
    };
}

/// Implements [`Transfer`]: the type, its words' type, the PTX type, the PTX operand, and the value taken apart.
macro_rules! transfer {
    ($type:ty, $word:ty, $ptx:literal, $operand:literal, $value:tt, $($lane:ident)+) => {
        impl Transfer for $type {}

        #[cfg(not(target_arch = "nvptx64"))]
        impl sealed::Instructions for $type {
            const ZERO: Self = {
                $(let $lane = 0 as $word;)+
                $value
            };
        }

        #[cfg(target_arch = "nvptx64")]
        impl sealed::Instructions for $type {
            #[inline(always)]
            unsafe fn load(source: *const Self) -> Self {
                $(let $lane: $word;)+
                // SAFETY: the caller vouches for the pointer.
                unsafe {
                    global!(
                        source,
                        concat!("ld.global.", $ptx, " ", $operand, ", [address];"),
                        $($lane = out(reg32) $lane,)+
                        options(pure, readonly, nostack, preserves_flags)
                    );
                }
                $value
            }

            #[inline(always)]
            unsafe fn load_readonly(source: *const Self) -> Self {
                $(let $lane: $word;)+
                // SAFETY: the caller vouches for the pointer, and that the memory keeps its content: so the load
                // depends on nothing but the address.
                unsafe {
                    global!(
                        source,
                        concat!("ld.global.nc.", $ptx, " ", $operand, ", [address];"),
                        $($lane = out(reg32) $lane,)+
                        options(pure, nomem, nostack, preserves_flags)
                    );
                }
                $value
            }

            #[inline(always)]
            unsafe fn load_readonly_if(condition: bool, source: *const Self) -> Self {
                $(let $lane: $word;)+
                // SAFETY: the caller vouches for the pointer if the condition holds, and that the memory keeps its
                // content.
                unsafe {
                    core::arch::asm!(
                        "{{",
                        ".reg .pred holds;",
                        ".reg .u64 address;",
                        "setp.ne.u32 holds, {condition}, 0;",
                        "cvta.to.global.u64 address, {source};",
                        $(concat!("mov.b32 {", stringify!($lane), "}, 0;"),)+
                        concat!("@holds ld.global.nc.", $ptx, " ", $operand, ", [address];"),
                        "}}",
                        condition = in(reg32) u32::from(condition),
                        source = in(reg64) source,
                        $($lane = out(reg32) $lane,)+
                        options(pure, nomem, nostack, preserves_flags)
                    );
                }
                $value
            }

            #[inline(always)]
            unsafe fn store(target: *mut Self, value: Self) {
                let $value = value;
                // SAFETY: the caller vouches for the pointer.
                unsafe {
                    global!(
                        target,
                        concat!("st.global.", $ptx, " [address], ", $operand, ";"),
                        $($lane = in(reg32) $lane,)+
                        options(nostack, preserves_flags)
                    );
                }
            }

            #[inline(always)]
            unsafe fn store_below(number: i32, count: i32, target: *mut Self, value: Self) {
                let $value = value;
                // SAFETY: the caller vouches for the pointer if the condition holds.
                unsafe {
                    core::arch::asm!(
                        "{{",
                        ".reg .pred below;",
                        ".reg .u64 address;",
                        "setp.lt.s32 below, {number}, {count};",
                        "cvta.to.global.u64 address, {target};",
                        concat!("@below st.global.", $ptx, " [address], ", $operand, ";"),
                        "}}",
                        number = in(reg32) number,
                        count = in(reg32) count,
                        target = in(reg64) target,
                        $($lane = in(reg32) $lane,)+
                        options(nostack, preserves_flags)
                    );
                }
            }

            #[inline(always)]
            unsafe fn load_shared(address: u32) -> Self {
                $(let $lane: $word;)+
                // SAFETY: the caller vouches for the address.
                unsafe {
                    core::arch::asm!(
                        concat!("ld.shared.", $ptx, " ", $operand, ", [{address}];"),
                        address = in(reg32) address,
                        $($lane = out(reg32) $lane,)+
                        options(pure, readonly, nostack, preserves_flags)
                    );
                }
                $value
            }

            #[inline(always)]
            unsafe fn load_shared_if(condition: bool, address: u32, otherwise: Self) -> Self {
                let $value = otherwise;
                $(let mut $lane: $word = $lane;)+
                // SAFETY: the caller vouches for the address if the condition holds.
                unsafe {
                    core::arch::asm!(
                        "{{",
                        ".reg .pred holds;",
                        "setp.ne.b32 holds, {condition}, 0;",
                        concat!("@holds ld.shared.", $ptx, " ", $operand, ", [{address}];"),
                        "}}",
                        condition = in(reg32) u32::from(condition),
                        address = in(reg32) address,
                        $($lane = inout(reg32) $lane,)+
                        options(readonly, nostack, preserves_flags)
                    );
                }
                $value
            }

            #[inline(always)]
            unsafe fn load_shared_below(number: i32, count: i32, address: u32) -> Self {
                $(let $lane: $word;)+
                // SAFETY: the caller vouches for the address if the condition holds.
                unsafe {
                    core::arch::asm!(
                        "{{",
                        ".reg .pred below;",
                        "setp.lt.s32 below, {number}, {count};",
                        $(concat!("mov.b32 {", stringify!($lane), "}, 0;"),)+
                        concat!("@below ld.shared.", $ptx, " ", $operand, ", [{address}];"),
                        "}}",
                        number = in(reg32) number,
                        count = in(reg32) count,
                        address = in(reg32) address,
                        $($lane = out(reg32) $lane,)+
                        options(pure, readonly, nostack, preserves_flags)
                    );
                }
                $value
            }

            #[inline(always)]
            unsafe fn store_shared(address: u32, value: Self) {
                let $value = value;
                // SAFETY: the caller vouches for the address.
                unsafe {
                    core::arch::asm!(
                        concat!("st.shared.", $ptx, " [{address}], ", $operand, ";"),
                        address = in(reg32) address,
                        $($lane = in(reg32) $lane,)+
                        options(nostack, preserves_flags)
                    );
                }
            }
        }
    };
}

transfer!(f32, f32, "f32", "{a}", a, a);
transfer!([f32; 1], f32, "f32", "{a}", [a], a);
transfer!([f32; 2], f32, "v2.f32", "{{{a}, {b}}}", [a, b], a b);
transfer!([f32; 4], f32, "v4.f32", "{{{a}, {b}, {c}, {d}}}", [a, b, c, d], a b c d);
transfer!(u32, u32, "u32", "{a}", a, a);
transfer!([u32; 2], u32, "v2.u32", "{{{a}, {b}}}", [a, b], a b);
transfer!([u32; 4], u32, "v4.u32", "{{{a}, {b}, {c}, {d}}}", [a, b, c, d], a b c d);
