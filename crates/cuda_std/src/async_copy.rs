//! Copies between global and shared memory that go on while their thread does something else. For sm_80 and later; from
//! shared to global memory, for sm_90 and later.
//!
//! A thread starts copies, closes what it has started into a group, and later waits for its oldest groups. Until then
//! nobody may touch the targets, the thread itself included; from then on the data counts as written by the thread, so
//! that other threads see it after a barrier. Waiting concerns the thread's own copies only, and says nothing to
//! others.
//!
//! Instead, a thread may let a [memory barrier](crate::mbarrier) tell others that its copies are complete, without
//! waiting itself. Bulk copies to shared memory, for sm_90 and later, are complete by such a barrier only: one thread
//! starts a copy of any length, or of a box of a tensor, which a [`TensorMap`] describes. Those to global memory are
//! closed into groups of their own (`commit_bulk_group`), and what a thread waits for is that their sources have been
//! read (`await_bulk_reads`).

#[cfg(not(target_arch = "nvptx64"))]
use crate::host;
use crate::mbarrier::Mbarrier;
use crate::shared::SharedPtr;

/// Starts a copy; `$instruction` uses the register `address`, which the source is turned into.
#[cfg(target_arch = "nvptx64")]
macro_rules! start {
    ($instruction:literal, $bytes:literal, $target:ident, $source:ident, $valid:ident) => {
        // No options that concern memory: the compiler has to assume that any of it is read and written here.
        core::arch::asm!(
            "{{",
            ".reg .u64 address;",
            "cvta.to.global.u64 address, {source};",
            concat!($instruction, " [{target}], [address], ", $bytes, ", {valid_bytes};"),
            "}}",
            source = in(reg64) $source,
            target = in(reg32) $target.address(),
            valid_bytes = in(reg32) if $valid { $bytes } else { 0u32 },
            options(nostack, preserves_flags),
        )
    };
}

/// Starts to copy one word, through the cache of the multiprocessor. Where `valid` does not hold, the target becomes
/// zero and the source is not read: it may be any pointer.
///
/// # Safety
///
/// `target` must lie in an array and be aligned to the copy's size. If `valid`, so must `source` in global memory, and
/// nobody may be writing there until the copy is complete. Until its thread has waited for it, nobody may access the
/// target; what other threads did to it before must be ordered before this call.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn copy_4(target: SharedPtr<u32>, source: *const u32, valid: bool) {
    #[cfg(target_arch = "nvptx64")]
    // SAFETY: the caller vouches for both places.
    unsafe {
        start!("cp.async.ca.shared.global", 4, target, source, valid)
    }
    #[cfg(not(target_arch = "nvptx64"))]
    host::start_copy(target.address(), source.cast::<[u32; 1]>(), valid)
}

/// Starts to copy four words, past the cache of the multiprocessor. Where `valid` does not hold, the target becomes
/// zero and the source is not read: it may be any pointer.
///
/// # Safety
///
/// As for [`copy_4`].
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn copy_16(target: SharedPtr<[u32; 4]>, source: *const [u32; 4], valid: bool) {
    #[cfg(target_arch = "nvptx64")]
    // SAFETY: the caller vouches for both places.
    unsafe {
        start!("cp.async.cg.shared.global", 16, target, source, valid)
    }
    #[cfg(not(target_arch = "nvptx64"))]
    host::start_copy(target.address(), source, valid)
}

/// Closes the copies that this thread has started since it last did so into a group, which may be empty.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn commit_group() {
    #[cfg(target_arch = "nvptx64")]
    // SAFETY: the instruction has no requirements. Memory counts as changed, so copies stay on their side of it.
    unsafe {
        core::arch::asm!("cp.async.commit_group;", options(nostack, preserves_flags))
    }
    #[cfg(not(target_arch = "nvptx64"))]
    host::commit_copies()
}

/// Waits for this thread's groups, all but the `PENDING` newest ones. Copies that are in no group yet are not waited
/// for.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn wait_group<const PENDING: u32>() {
    #[cfg(target_arch = "nvptx64")]
    // SAFETY: the instruction has no requirements. Memory counts as changed, so loads stay on their side of it.
    unsafe {
        core::arch::asm!("cp.async.wait_group {pending};", pending = const PENDING, options(nostack, preserves_flags))
    }
    #[cfg(not(target_arch = "nvptx64"))]
    host::wait_for_copies(PENDING)
}

/// Starts to copy `bytes` bytes in bulk, which is complete when `barrier` has counted them: it has to expect them, by
/// [`arrive_expect`](Mbarrier::arrive_expect), in the phase in which the copy starts. The data is there for those that
/// [wait](Mbarrier::wait) for the phase, and for nobody else, the thread itself included. For sm_90 and later.
///
/// What threads wrote to the target before is ordered before the copy only after
/// [`fence_async_proxy`](crate::tensor_core::fence_async_proxy) in each of them; what they read there needs no more
/// than the usual order.
///
/// # Safety
///
/// `bytes` must be a multiple of 16, and so must both addresses. The target must lie in one array, the source in global
/// memory, and nobody may write there until the copy is complete. Until they have waited for the barrier's phase,
/// nobody may access the target; what other threads did to it before must be ordered before this call. The barrier must
/// be initialised, and still be in the phase that expects the bytes; the block may not end before the phase is
/// complete.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn copy_bulk(target: SharedPtr<u8>, source: *const u8, bytes: u32, barrier: Mbarrier) {
    #[cfg(target_arch = "nvptx64")]
    // SAFETY: the caller vouches for the places and the barrier. The compiler has to assume that any memory is read and
    // written here.
    unsafe {
        core::arch::asm!(
            "{{",
            ".reg .u64 address;",
            "cvta.to.global.u64 address, {source};",
            "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [{target}], [address], {bytes}, [{barrier}];",
            "}}",
            source = in(reg64) source,
            target = in(reg32) target.address(),
            bytes = in(reg32) bytes,
            barrier = in(reg32) barrier.address(),
            options(nostack, preserves_flags),
        )
    }
    #[cfg(not(target_arch = "nvptx64"))]
    host::copy_bulk(target.address(), source, bytes, barrier.address())
}

/// A tensor in global memory and the box of it that a copy takes, as the driver's `cuTensorMapEncodeTiled` describes
/// them. Passed to kernels by value, in [`TensorMaps`].
#[repr(C, align(16))]
#[derive(Clone, Copy, Debug)]
pub struct TensorMap(pub [u64; 16]);

impl TensorMap {
    /// Describes nothing.
    pub const NONE: Self = Self([0; 16]);
}

/// Tensor maps that are one parameter of a kernel.
#[repr(C, align(16))]
#[derive(Clone, Copy, Debug)]
pub struct TensorMaps<const COUNT: usize>(pub [TensorMap; COUNT]);

/// The address of the first of a kernel's [`TensorMaps`](crate::async_copy::TensorMaps), by the kernel's name and the
/// parameter's number and name: copies want them where the launch has put them, and a reference would be to a copy of
/// their own. For sm_90 and later.
///
/// Copies want it aligned to 64 bytes, which rustc cannot say of a parameter. The mark that this leaves in the PTX has
/// `cuda_builder` say it.
#[macro_export]
macro_rules! tensor_map_parameter {
    ($kernel:ident, $number:literal, $parameter:ident) => {{
        let _: $crate::async_copy::TensorMaps<_> = $parameter;
        let map: *const $crate::async_copy::TensorMap;
        // SAFETY: takes the address of a parameter of the kernel in which this is expanded.
        unsafe {
            ::core::arch::asm!(
                concat!("// tensor_map ", stringify!($kernel), "_param_", $number),
                concat!("mov.b64 {map}, ", stringify!($kernel), "_param_", $number, ";"),
                "cvta.param.u64 {map}, {map};",
                map = out(reg64) map,
                options(pure, nomem, nostack, preserves_flags),
            );
        }
        map
    }};
}

/// Starts to copy a box of a tensor of five dimensions, which is complete as [`copy_bulk`] is. `first` is where the box
/// begins, innermost dimension first; what lies outside of the tensor becomes zero in the target, where the box is
/// dense. For sm_90 and later; the emulator does not have it.
///
/// # Safety
///
/// As for [`copy_bulk`], with the bytes of the box; `map` must be the address of one of a parameter, by
/// [`tensor_map_parameter`](crate::tensor_map_parameter). The target must be aligned to 128 bytes, and `first[0]`
/// elements must be a multiple of 16 bytes.
#[cfg(target_arch = "nvptx64")]
#[inline(always)]
pub unsafe fn copy_box(target: SharedPtr<u8>, map: *const TensorMap, first: [i32; 5], barrier: Mbarrier) {
    // SAFETY: the caller vouches for the map, the place and the barrier. The compiler has to assume that any memory is
    // read and written here.
    unsafe {
        core::arch::asm!(
            concat!(
                "cp.async.bulk.tensor.5d.shared::cluster.global.tile.mbarrier::complete_tx::bytes ",
                "[{target}], [{map}, {{{a}, {b}, {c}, {d}, {e}}}], [{barrier}];"
            ),
            target = in(reg32) target.address(),
            map = in(reg64) map,
            a = in(reg32) first[0],
            b = in(reg32) first[1],
            c = in(reg32) first[2],
            d = in(reg32) first[3],
            e = in(reg32) first[4],
            barrier = in(reg32) barrier.address(),
            options(nostack, preserves_flags),
        )
    }
}

/// Starts to copy a box of a tensor of five dimensions from shared memory, where it is dense but for what the tensor
/// map's swizzling exchanges; elements that lie outside of the tensor are not copied. `first` is where the box begins,
/// innermost dimension first. The copy belongs to the thread's next [group](commit_bulk_group). For sm_90 and later;
/// the emulator does not have it.
///
/// # Safety
///
/// `map` must be the address of one of a parameter, by [`tensor_map_parameter`](crate::tensor_map_parameter). The
/// source must be aligned to 128 bytes and lie in one array; what threads wrote there must be ordered before this call,
/// after [`fence_async_proxy`](crate::tensor_core::fence_async_proxy) in each of them, and nobody may write there until
/// the thread has waited for the group to be read. Nobody else may access the box in the tensor before the kernel ends,
/// and the block may not end before the group is read.
#[cfg(target_arch = "nvptx64")]
#[inline(always)]
pub unsafe fn store_box(map: *const TensorMap, first: [i32; 5], source: SharedPtr<u8>) {
    // SAFETY: the caller vouches for the map and the places. The compiler has to assume that any memory is read and
    // written here.
    unsafe {
        core::arch::asm!(
            "cp.async.bulk.tensor.5d.global.shared::cta.tile.bulk_group [{map}, {{{a}, {b}, {c}, {d}, {e}}}], [{source}];",
            map = in(reg64) map,
            a = in(reg32) first[0],
            b = in(reg32) first[1],
            c = in(reg32) first[2],
            d = in(reg32) first[3],
            e = in(reg32) first[4],
            source = in(reg32) source.address(),
            options(nostack, preserves_flags),
        )
    }
}

/// Starts to copy `bytes` bytes in bulk from shared memory. The copy belongs to the thread's next
/// [group](commit_bulk_group). For sm_90 and later; the emulator does not have it.
///
/// # Safety
///
/// `bytes` must be a multiple of 16, and so must both addresses. The target must lie in global memory, the source in
/// one array; what threads wrote there must be ordered before this call, after
/// [`fence_async_proxy`](crate::tensor_core::fence_async_proxy) in each of them, and nobody may write there until the
/// thread has waited for the group to be read. Nobody else may access the target before the kernel ends, and the block
/// may not end before the group is read.
#[cfg(target_arch = "nvptx64")]
#[inline(always)]
pub unsafe fn store_bulk(target: *mut u8, source: SharedPtr<u8>, bytes: u32) {
    // SAFETY: the caller vouches for the places. The compiler has to assume that any memory is read and written here.
    unsafe {
        core::arch::asm!(
            "{{",
            ".reg .u64 address;",
            "cvta.to.global.u64 address, {target};",
            "cp.async.bulk.global.shared::cta.bulk_group [address], [{source}], {bytes};",
            "}}",
            target = in(reg64) target,
            source = in(reg32) source.address(),
            bytes = in(reg32) bytes,
            options(nostack, preserves_flags),
        )
    }
}

/// Closes what this thread has [stored](store_box) since it last did so into a group, which may be empty. For sm_90 and
/// later; the emulator does not have it.
#[cfg(target_arch = "nvptx64")]
#[inline(always)]
pub fn commit_bulk_group() {
    // SAFETY: the instruction has no requirements. Memory counts as changed, so copies stay on their side of it.
    unsafe { core::arch::asm!("cp.async.bulk.commit_group;", options(nostack, preserves_flags)) }
}

/// Waits until the sources of this thread's [groups](commit_bulk_group) have been read, all but those of the `PENDING`
/// newest ones. For sm_90 and later; the emulator does not have it.
#[cfg(target_arch = "nvptx64")]
#[inline(always)]
pub fn await_bulk_reads<const PENDING: u32>() {
    // SAFETY: the instruction has no requirements. Memory counts as changed, so stores stay on their side of it.
    unsafe {
        core::arch::asm!(
            "cp.async.bulk.wait_group.read {pending};",
            pending = const PENDING,
            options(nostack, preserves_flags),
        )
    }
}
