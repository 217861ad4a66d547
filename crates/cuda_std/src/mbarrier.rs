//! Memory barriers: barriers that lie in shared memory, as many as there is room for.
//!
//! A barrier goes through phases. A phase is complete when as many arrivals have come as the barrier was initialised
//! for, and as many bytes of [bulk copies](crate::async_copy::copy_bulk) as they announced; then the next one begins.
//! Threads come and wait one by one, and those that come need not wait. Asynchronous copies may come in place of a
//! thread.
//!
//! Who waits names the phase by its parity: the first one has 0, the next one 1, and so on in turn. So a thread may be
//! one phase behind a barrier, but not two.
//!
//! In a ring of slots, each slot has two barriers: one whose phases are complete when the slot is full, at which those
//! wait that use the data, and one at which those that bring data wait until the slot is empty. These wait with the
//! opposite parity, by which they find a new barrier as if a phase were complete already.
//!
//! The hardware has them from sm_80 on. On sm_70 they are made of atomic counters, and only [`init`](Mbarrier::init),
//! [`arrive`](Mbarrier::arrive) and [`wait`](Mbarrier::wait) are there: there are no copies that could arrive. An
//! arrival takes some ten instructions and lanes arrive one after the other, so let one lane arrive for its warp where
//! that will do.
//!
//! To wait takes PTX 7.1, and rustc gives 7.0 for sm_80: `cuda_builder` raises it.
//!
//! ```
//! use cuda_std::mbarrier::Mbarrier;
//! use cuda_std::{async_copy, kernel, mem, shared_array, thread};
//!
//! shared_array! {
//!     static SLOTS: [[u32; 32]; 2];
//! }
//!
//! shared_array! {
//!     static BARRIERS: [u64; 4];
//! }
//!
//! /// Adds up `rounds` times 32 words: one warp brings them, another one uses them.
//! ///
//! /// # Safety
//! ///
//! /// `words` is valid for as many words, `sums` for 32; the block has 64 threads.
//! #[kernel]
//! pub unsafe fn add_up(words: *const u32, rounds: u32, sums: *mut u32) {
//!     let thread = thread::thread_idx_x();
//!     let full = |slot: u32| Mbarrier::at(BARRIERS.as_ptr().add(slot));
//!     let empty = |slot: u32| Mbarrier::at(BARRIERS.as_ptr().add(2 + slot));
//!     let place = |slot: u32| SLOTS.as_ptr().add(slot).cast::<u32>().add(thread % 32);
//!     // SAFETY: each slot is filled while it is empty, and read while it is full.
//!     unsafe {
//!         if thread == 0 {
//!             for barrier in 0..4 {
//!                 Mbarrier::at(BARRIERS.as_ptr().add(barrier)).init(32);
//!             }
//!         }
//!         thread::sync_threads();
//!         let mut sum = 0;
//!         for round in 0..rounds {
//!             let (slot, parity) = (round % 2, round / 2 % 2);
//!             if thread < 32 {
//!                 empty(slot).wait(parity ^ 1);
//!                 async_copy::copy_4(place(slot), words.add((round * 32 + thread) as usize), true);
//!                 full(slot).arrive_after_copies();
//!             } else {
//!                 full(slot).wait(parity);
//!                 sum += place(slot).load();
//!                 empty(slot).arrive();
//!             }
//!         }
//!         if thread >= 32 {
//!             mem::store(sums.add(thread as usize - 32), sum);
//!         }
//!     }
//! }
//! # use cuda_std::emulator::{Launch, Memory};
//! # let mut memory = Memory::new();
//! # let words = memory.read_only("words", &(0..320).collect::<Vec<u32>>());
//! # let sums = memory.uninitialised("sums", 32);
//! # Launch::new(1, 64).run(&mut memory, "add_up", || unsafe { add_up(words, 10, sums) }).unwrap();
//! # assert_eq!(memory.values(sums).unwrap()[..2], [1440, 1450]);
//! ```

#[cfg(cuda_arch = "sm_70")]
mod software;

#[cfg(not(target_arch = "nvptx64"))]
use crate::host;
use crate::shared::SharedPtr;

/// A barrier in shared memory: eight bytes, aligned to eight, that nothing but these methods may access.
#[derive(Clone, Copy)]
pub struct Mbarrier(SharedPtr<u64>);

impl Mbarrier {
    /// The barrier at a place, which has to be initialised before it is used.
    #[inline(always)]
    #[must_use]
    pub const fn at(place: SharedPtr<u64>) -> Self {
        Self(place)
    }

    /// The address as a number.
    #[inline(always)]
    #[must_use]
    pub const fn address(self) -> u32 {
        self.0.address()
    }

    /// Makes the barrier, whose phases expect `arrivals` arrivals each. One thread does so, once in a block. Lanes of a
    /// warp that make one each take turns, about 80 cycles on an H200; warps do not.
    ///
    /// # Safety
    ///
    /// The place must lie in an array, be aligned to eight bytes, and not be a barrier yet. `arrivals` must be in
    /// 1..2^20. Uses by others must be ordered after this call, by a barrier of the block for instance.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn init(self, arrivals: u32) {
        #[cfg(cuda_arch = "sm_70")]
        // SAFETY: the caller vouches for the place.
        unsafe {
            software::init(self.address(), arrivals)
        }
        #[cfg(all(target_arch = "nvptx64", not(cuda_arch = "sm_70")))]
        // SAFETY: the caller vouches for the place. Memory counts as changed, here and in all that follow, so that
        // accesses stay on their side of them. What completes bulk copies sees the barrier after the fences only.
        unsafe {
            core::arch::asm!(
                "mbarrier.init.shared.b64 [{barrier}], {arrivals};",
                barrier = in(reg32) self.address(),
                arrivals = in(reg32) arrivals,
                options(nostack, preserves_flags),
            );
            #[cfg(cuda_arch = "sm_90a")]
            core::arch::asm!(
                "fence.mbarrier_init.release.cluster;",
                "fence.proxy.async.shared::cta;",
                options(nostack, preserves_flags),
            );
        }
        #[cfg(not(target_arch = "nvptx64"))]
        host::init_mbarrier(self.address(), arrivals)
    }

    /// One arrival: what this thread did in memory before is visible to those that wait for the phase, after their
    /// wait.
    ///
    /// # Safety
    ///
    /// The barrier must be initialised, and fewer arrivals must have come in its phase than it expects.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn arrive(self) {
        #[cfg(cuda_arch = "sm_70")]
        // SAFETY: the caller vouches for the barrier.
        unsafe {
            software::arrive(self.address())
        }
        #[cfg(all(target_arch = "nvptx64", not(cuda_arch = "sm_70")))]
        // SAFETY: the caller vouches for the barrier.
        unsafe {
            core::arch::asm!(
                "{{",
                ".reg .b64 state;",
                "mbarrier.arrive.shared.b64 state, [{barrier}];",
                "}}",
                barrier = in(reg32) self.address(),
                options(nostack, preserves_flags),
            );
        }
        #[cfg(not(target_arch = "nvptx64"))]
        host::arrive_mbarrier(self.address(), 0)
    }

    /// [`arrive`](Self::arrive), after which the phase is complete only when `bytes` more bytes of bulk copies are. For
    /// sm_90 and later.
    ///
    /// # Safety
    ///
    /// As for [`arrive`](Self::arrive); a phase may expect less than 2^20 bytes, of which as many must be copied.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn arrive_expect(self, bytes: u32) {
        #[cfg(target_arch = "nvptx64")]
        // SAFETY: the caller vouches for the barrier.
        unsafe {
            core::arch::asm!(
                "{{",
                ".reg .b64 state;",
                "mbarrier.arrive.expect_tx.shared::cta.b64 state, [{barrier}], {bytes};",
                "}}",
                barrier = in(reg32) self.address(),
                bytes = in(reg32) bytes,
                options(nostack, preserves_flags),
            );
        }
        #[cfg(not(target_arch = "nvptx64"))]
        host::arrive_mbarrier(self.address(), bytes)
    }

    /// One arrival as soon as all asynchronous copies are complete that this thread has started so far, of which it
    /// does not wait for any: their data is visible to those that wait for the phase. Nothing else that the thread did
    /// is. For sm_80 and later.
    ///
    /// The copies are the barrier's from now on: the thread itself has to wait there, too, if it needs the data.
    ///
    /// # Safety
    ///
    /// As for [`arrive`](Self::arrive).
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn arrive_after_copies(self) {
        #[cfg(target_arch = "nvptx64")]
        // SAFETY: the caller vouches for the barrier.
        unsafe {
            core::arch::asm!(
                "cp.async.mbarrier.arrive.noinc.shared.b64 [{barrier}];",
                barrier = in(reg32) self.address(),
                options(nostack, preserves_flags),
            );
        }
        #[cfg(not(target_arch = "nvptx64"))]
        host::arrive_mbarrier_after_copies(self.address())
    }

    /// Waits until the phase of that parity is complete, of the phase that the barrier is in and the one before. What
    /// came before its arrivals, and the data of its copies, is visible afterwards, to this thread only.
    ///
    /// A new barrier counts as having completed a phase of parity 1.
    ///
    /// # Safety
    ///
    /// The barrier must be initialised, and `parity` be 0 or 1.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    #[cfg_attr(
        all(target_arch = "nvptx64", not(cuda_arch = "sm_70")),
        expect(named_asm_labels, reason = "PTX has no numeric labels; within braces they are local")
    )]
    pub unsafe fn wait(self, parity: u32) {
        #[cfg(cuda_arch = "sm_70")]
        // SAFETY: the caller vouches for the barrier.
        unsafe {
            software::wait(self.address(), parity)
        }
        // What waits itself, for a while, is not on all GPUs.
        #[cfg(all(target_arch = "nvptx64", not(cuda_arch = "sm_70")))]
        macro_rules! wait_by {
            ($instruction:literal) => {
                core::arch::asm!(
                    "{{",
                    ".reg .pred complete;",
                    "again:",
                    concat!($instruction, " complete, [{barrier}], {parity};"),
                    "@!complete bra again;",
                    "}}",
                    barrier = in(reg32) self.address(),
                    parity = in(reg32) parity,
                    options(nostack, preserves_flags),
                )
            };
        }
        #[cfg(all(target_arch = "nvptx64", cuda_arch = "sm_90a"))]
        // SAFETY: the caller vouches for the barrier.
        unsafe {
            wait_by!("mbarrier.try_wait.parity.shared::cta.b64")
        }
        #[cfg(all(target_arch = "nvptx64", not(any(cuda_arch = "sm_70", cuda_arch = "sm_90a"))))]
        // SAFETY: the caller vouches for the barrier.
        unsafe {
            wait_by!("mbarrier.test_wait.parity.shared.b64")
        }
        #[cfg(not(target_arch = "nvptx64"))]
        host::wait_at_mbarrier(self.address(), parity)
    }
}
