//! In turn: one team stores after the other, if that is `on`, and meanwhile the other one computes.
//!
//! Teams that store at the same time are in each other's way: their stores, and what they load from shared memory for
//! them, queue in the same places. Left to themselves they may fall in step or not; a few hundred cycles more or less
//! at the end of a job decide which. So the first team waits until the second one has stored its part of the job
//! before, and the second one until the first one has stored its part of this job. In tile kernels that pays where what
//! lanes hold goes out at once (`cost::stores_in_turn` of the host); flat and patch kernels do so wherever blocks have
//! several jobs.

use cuda_std::{hint, thread};

use super::{TEAM_THREADS, TEAMS};

/// The named barrier of the first team, which opens when it may store; that of the second one follows.
const MAY_STORE: u32 = 5;

/// Those who come to such a barrier: one team waits, the other one does not.
const BOTH_TEAMS: u32 = TEAMS * TEAM_THREADS;
const _: () = assert!(TEAMS == 2);

/// The number of the thread's team.
#[cfg_attr(gpu, inline(always))]
fn team() -> u32 {
    hint::opaque(thread::thread_idx_x()) / TEAM_THREADS
}

/// Waits until the team may store, if teams store in turn; the first one may in its first job.
///
/// # Safety
/// All threads of the team come here together, once for each job, and then to [`pass_on`].
#[cfg_attr(gpu, inline(always))]
pub(crate) unsafe fn await_turn(is_on: bool, is_first_job: bool) {
    if is_on && !(is_first_job && team() == 0) {
        // SAFETY: the caller's promise.
        unsafe { thread::sync_named(MAY_STORE + team(), BOTH_TEAMS) };
    }
}

/// The team has stored, and the other one may.
///
/// # Safety
/// All threads of the team come here together, after [`await_turn`].
#[cfg_attr(gpu, inline(always))]
pub(crate) unsafe fn pass_on(is_on: bool) {
    if is_on {
        // SAFETY: the caller's promise. The other team comes there once before this one does again.
        unsafe { thread::arrive_named(MAY_STORE + 1 - team(), BOTH_TEAMS) };
    }
}

/// After the last job: takes back the turn that nobody needs.
///
/// # Safety
/// All threads of the team come here together.
#[cfg_attr(gpu, inline(always))]
pub(crate) unsafe fn end(is_on: bool) {
    if is_on && team() == 0 {
        // SAFETY: the caller's promise; the second team has come there after its last job.
        unsafe { thread::sync_named(MAY_STORE, BOTH_TEAMS) };
    }
}
