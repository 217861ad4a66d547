//! Memory barriers in software, for GPUs before sm_80, which have none.
//!
//! A barrier's first word counts down the arrivals that its phase still expects. The last one finds it at zero, starts
//! it anew by the same atomic instruction, and then turns the lowest bit of the second word: the parity of the phase
//! that the barrier is in. The other bits of that word are the arrivals that a phase expects.
//!
//! Those that wait look again and again, which takes turns from other warps. That lanes of a warp wait for each other
//! is possible all the same: from sm_70 on, each makes progress by itself.

use core::arch::asm;

/// Makes a barrier whose phases expect so many arrivals.
///
/// # Safety
///
/// As for [`Mbarrier::init`](super::Mbarrier::init).
#[inline(always)]
pub(super) unsafe fn init(barrier: u32, arrivals: u32) {
    // SAFETY: the caller vouches for the place. Memory counts as changed.
    unsafe {
        asm!(
            "st.shared.v2.u32 [{barrier}], {{{missing}, {expected}}};",
            barrier = in(reg32) barrier,
            missing = in(reg32) arrivals - 1,
            expected = in(reg32) arrivals * 2,
            options(nostack, preserves_flags),
        );
    }
}

/// One arrival. The fences order what the thread did before, and what it knows of others, before what those do that
/// wait: the last one has read what all others counted.
///
/// # Safety
///
/// As for [`Mbarrier::arrive`](super::Mbarrier::arrive).
#[inline(always)]
pub(super) unsafe fn arrive(barrier: u32) {
    // SAFETY: the caller vouches for the barrier. Memory counts as changed.
    unsafe {
        asm!(
            "{{",
            ".reg .pred last;",
            ".reg .b32 count;",
            "fence.acq_rel.cta;",
            "ld.relaxed.cta.shared.b32 count, [{barrier}+4];",
            "shr.u32 count, count, 1;",
            "sub.u32 count, count, 1;",
            "atom.relaxed.cta.shared.dec.u32 count, [{barrier}], count;",
            "setp.eq.u32 last, count, 0;",
            "@last fence.acq_rel.cta;",
            "@last atom.relaxed.cta.shared.xor.b32 count, [{barrier}+4], 1;",
            "}}",
            barrier = in(reg32) barrier,
            options(nostack, preserves_flags),
        );
    }
}

/// Waits until the phase of that parity is complete: until the barrier is in one of the other parity.
///
/// # Safety
///
/// As for [`Mbarrier::wait`](super::Mbarrier::wait).
#[inline(always)]
#[expect(named_asm_labels, reason = "PTX has no numeric labels; within braces they are local")]
pub(super) unsafe fn wait(barrier: u32, parity: u32) {
    // SAFETY: the caller vouches for the barrier. Memory counts as changed.
    unsafe {
        asm!(
            "{{",
            ".reg .pred complete;",
            ".reg .b32 phase;",
            "again:",
            "ld.relaxed.cta.shared.b32 phase, [{barrier}+4];",
            "and.b32 phase, phase, 1;",
            "setp.ne.u32 complete, phase, {parity};",
            "@!complete bra again;",
            "fence.acq_rel.cta;",
            "}}",
            barrier = in(reg32) barrier,
            parity = in(reg32) parity,
            options(nostack, preserves_flags),
        );
    }
}
