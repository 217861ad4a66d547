//! Which accesses are ordered: happens-before between the threads of a grid.
//!
//! Threads of different blocks are never ordered within a launch. Within a block, a barrier orders everything before it
//! before everything after it, so accesses from different *epochs* (the number of barriers passed) are ordered. Within
//! an epoch, lanes of a warp are ordered by `sync_warp`, but not by shuffles and votes, to which CUDA gives no effect on
//! memory. Each warp counts its `sync_warp`s, and each lane knows up to which of them it has heard of each other lane: a
//! vector clock of 32 entries.
//!
//! Threads of different warps are ordered, within an epoch, by named barriers alone. To these a warp comes as a whole,
//! which its count of synchronisations includes; and it knows up to which count it is after each other warp of the
//! block: a second vector clock, of the warps. Those that wait at a named barrier get to know what all that came there
//! knew and had done; those that merely arrive get to know nothing, not even their own lanes of each other.
//!
//! An asynchronous copy is not an [`Actor`] of its own. It can be completed by nobody but the thread that started it, so
//! it is two deeds of that thread: at the start it reserves its target, which must be ordered after everything that
//! others did there, and when the thread waits, it writes. In between nobody may access the target, ordered or not. What
//! is completed by barrier objects (bulk copies) or in a group of warps (its products) would be an actor with a warp
//! number beyond those of threads, which nothing orders until this module learns what does.

pub(super) const LANES: usize = 32;

/// The most warps of a block.
pub(super) const WARPS: usize = 32;

/// For each warp of a block: what it did at times below this one happened before.
pub(super) type Known = [u32; WARPS];

/// Who makes an access, and what has happened before it.
pub(super) struct Actor<'a> {
    /// The block's number, counted from 1: 0 stands for nobody.
    pub(super) block: u32,
    /// Counts the barriers that blocks have passed.
    pub(super) epoch: u32,
    pub(super) warp: u8,
    pub(super) lane: u8,
    /// Counts the synchronisations that warps in this place have passed.
    pub(super) time: u32,
    /// For each lane of the warp, the number of the last synchronisation that this lane has heard of it by.
    pub(super) heard: &'a [u32; LANES],
    /// What the warp knows of the others in this epoch; none where no named barrier has been used in the launch.
    pub(super) known: Option<&'a Known>,
}

impl Actor<'_> {
    /// The thread's number in its block.
    pub(super) fn thread(&self) -> u32 {
        u32::from(self.warp) * LANES as u32 + u32::from(self.lane)
    }

    /// Whether everything that `lane` of the same warp did at `time` happened before.
    pub(super) fn has_heard(&self, lane: u32, time: u32) -> bool {
        self.heard[lane as usize] > time
    }

    /// Whether everything that another warp did at `time`, in this epoch, happened before.
    pub(super) fn knows(&self, warp: usize, time: u32) -> bool {
        self.known.is_some_and(|known| known[warp] > time)
    }
}

/// The clocks of one warp.
#[derive(Clone)]
pub(super) struct WarpClock {
    pub(super) time: u32,
    pub(super) heard: [[u32; LANES]; LANES],
    pub(super) known: Known,
}

impl WarpClock {
    pub(super) const START: Self = Self { time: 0, heard: [[0; LANES]; LANES], known: [0; WARPS] };

    /// What the warp does from now on can be told from what it has done.
    pub(super) fn advance(&mut self) {
        self.time += 1;
    }

    /// The lanes of `mask` synchronise: each now knows what any of them knew.
    pub(super) fn synchronise(&mut self, mask: u32) {
        self.advance();
        let mut joined = [0; LANES];
        for lane in lanes(mask) {
            join(&mut joined, &self.heard[lane]);
        }
        for lane in lanes(mask) {
            joined[lane] = self.time;
        }
        for lane in lanes(mask) {
            self.heard[lane] = joined;
        }
    }
}

/// Adds to a vector clock what another one knows.
pub(super) fn join(known: &mut [u32; 32], others: &[u32; 32]) {
    for (all, &one) in known.iter_mut().zip(others) {
        *all = one.max(*all);
    }
}

/// The numbers of the lanes of a mask.
pub(super) fn lanes(mask: u32) -> impl Iterator<Item = usize> {
    (0..LANES).filter(move |lane| mask >> lane & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn has_heard(clock: &WarpClock, reader: usize, lane: u32, time: u32) -> bool {
        let heard = &clock.heard[reader];
        Actor { block: 1, epoch: 0, warp: 0, lane: 0, time: clock.time, heard, known: None }.has_heard(lane, time)
    }

    #[test]
    fn only_the_lanes_of_the_mask_are_ordered() {
        let mut clock = WarpClock::START;
        clock.synchronise(0b011);
        assert!(has_heard(&clock, 1, 0, 0));
        assert!(!has_heard(&clock, 2, 0, 0));
        // What lane 0 does afterwards, nobody has heard of.
        assert!(!has_heard(&clock, 1, 0, clock.time));
    }

    #[test]
    fn order_is_passed_on() {
        let mut clock = WarpClock::START;
        clock.synchronise(0b011);
        let later = clock.time;
        clock.synchronise(0b110);
        assert!(has_heard(&clock, 2, 0, 0));
        assert!(!has_heard(&clock, 2, 0, later));
    }
}
