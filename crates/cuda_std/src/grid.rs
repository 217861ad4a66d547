//! Grids that follow each other: a grid may begin while the one before it in a stream still runs, if it was launched
//! so.
//!
//! For sm_90 and later, and launches with the attribute for programmatic stream serialization; in others these
//! functions do nothing. The emulator runs one grid after the other and does not have them.

/// Lets the next grid of the stream begin, if it need not wait for this one, once all blocks of this grid came here or
/// ended.
#[inline(always)]
pub fn launch_dependents() {
    // SAFETY: the instruction has no requirements.
    unsafe { core::arch::asm!("griddepcontrol.launch_dependents;", options(nostack, preserves_flags)) }
}

/// Waits until the grid before this one in the stream, if this one did not wait for it, has ended, and what it wrote is
/// visible.
#[inline(always)]
pub fn await_prerequisites() {
    // SAFETY: the instruction has no requirements. Memory counts as changed.
    unsafe { core::arch::asm!("griddepcontrol.wait;", options(nostack, preserves_flags)) }
}
