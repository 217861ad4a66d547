//! Clusters: neighbouring blocks that run at the same time, wait for each other, and reach each other's shared memory.
//! For sm_90 and later, and launches that say how many blocks a cluster has.

#[cfg(not(target_arch = "nvptx64"))]
use crate::host;
use crate::shared::SharedPtr;

/// Waits until all threads of the cluster's blocks have come here or ended. What they did in memory before, also in
/// shared memory, is visible afterwards.
///
/// # Safety
///
/// All threads of the cluster that have not ended come here equally often.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn sync_cluster() {
    #[cfg(target_arch = "nvptx64")]
    // SAFETY: the caller's promise. Memory counts as changed.
    unsafe {
        core::arch::asm!(
            "barrier.cluster.arrive.release;",
            "barrier.cluster.wait.acquire;",
            options(nostack, preserves_flags)
        );
    }
    #[cfg(not(target_arch = "nvptx64"))]
    host::sync_cluster()
}

/// Reads the value that block number `rank` of the cluster has in a place of its shared memory.
///
/// # Safety
///
/// As for [`SharedPtr::load`], there. That block has begun, and does not end before.
#[inline(always)]
#[must_use]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn load(place: SharedPtr<[f32; 4]>, rank: u32) -> [f32; 4] {
    #[cfg(target_arch = "nvptx64")]
    {
        let (a, b, c, d);
        // SAFETY: the caller's promise.
        unsafe {
            core::arch::asm!(
                "{{",
                ".reg .b32 there;",
                "mapa.shared::cluster.u32 there, {place}, {rank};",
                "ld.shared::cluster.v4.f32 {{{a}, {b}, {c}, {d}}}, [there];",
                "}}",
                place = in(reg32) place.address(),
                rank = in(reg32) rank,
                a = out(reg32) a,
                b = out(reg32) b,
                c = out(reg32) c,
                d = out(reg32) d,
                options(nostack, preserves_flags)
            );
        }
        [a, b, c, d]
    }
    #[cfg(not(target_arch = "nvptx64"))]
    host::load_in_cluster(place.address(), rank)
}

/// Writes a value to a place of the shared memory of block number `rank` of the cluster.
///
/// # Safety
///
/// As for [`SharedPtr::store`], there. That block has begun, and does not end before.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn store(place: SharedPtr<[f32; 4]>, rank: u32, value: [f32; 4]) {
    #[cfg(target_arch = "nvptx64")]
    // SAFETY: the caller's promise.
    unsafe {
        core::arch::asm!(
            "{{",
            ".reg .b32 there;",
            "mapa.shared::cluster.u32 there, {place}, {rank};",
            "st.shared::cluster.v4.f32 [there], {{{a}, {b}, {c}, {d}}};",
            "}}",
            place = in(reg32) place.address(),
            rank = in(reg32) rank,
            a = in(reg32) value[0],
            b = in(reg32) value[1],
            c = in(reg32) value[2],
            d = in(reg32) value[3],
            options(nostack, preserves_flags)
        );
    }
    #[cfg(not(target_arch = "nvptx64"))]
    host::store_in_cluster(place.address(), rank, value)
}
