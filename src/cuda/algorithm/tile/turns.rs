//! Turns: by how many places blocks change from one round of jobs to the next, and which jobs a round has.
//!
//! In a round, all blocks have neighbouring jobs, whose passes may take different times: one with four taps takes
//! longer than one with two. If each block had the same place in every round, some would get long jobs again and again.
//! By how much they turn is chosen so that the busiest one is done as early as possible. Where there are few rounds,
//! that is not enough: whoever gets a long job last is behind all others. So all jobs of the longest pass may come
//! first, then all of the next one, if what they read stays in the L2 cache.

/// Rounds that are looked at, at most: the last ones. Among many, what is different evens out.
const MOST_ROUNDS: usize = 64;

/// The most rounds in which passes are apart.
pub(super) const MOST_ROUNDS_APART: usize = 16;

/// Of what it takes the busiest block, the most that it may take with passes apart.
const MOST_APART: f64 = 0.98;

/// The jobs of some blocks, or clusters of partners.
pub(super) struct Jobs<'a> {
    pub(super) workers: usize,
    pub(super) jobs: usize,
    /// Jobs of a pass that are neighbours, if passes are not apart.
    pub(super) channel_tiles: usize,
    /// Cycles of a job of each pass.
    pub(super) passes: &'a [f64],
    pub(super) may_be_apart: bool,
}

/// How blocks share the jobs out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Turns {
    /// Blocks, or clusters of partners.
    pub(super) workers: u32,
    /// By how many places blocks change from round to round.
    pub(super) turn: u32,
    /// Whether all jobs of a pass come before those of the next one.
    pub(super) are_apart: bool,
}

impl Jobs<'_> {
    /// The turns with which the busiest block has the least to do.
    pub(super) fn best_turns(&self) -> Turns {
        let &Self { workers, jobs, passes, .. } = self;
        let together = Turns { workers: workers as u32, turn: 1, are_apart: false };
        let are_alike = passes.iter().all(|&cycles| cycles == passes[0]);
        if workers < 2 || jobs <= workers || are_alike {
            return together;
        }
        let (cycles, best) = self.best_of(together);
        if self.may_be_apart && jobs <= workers * MOST_ROUNDS_APART {
            let (cycles_apart, apart) = self.best_of(Turns { are_apart: true, ..together });
            if cycles_apart <= MOST_APART * cycles {
                return apart;
            }
        }
        best
    }

    /// The best turn for passes that are apart, or not, and cycles of the busiest block with it.
    fn best_of(&self, turns: Turns) -> (f64, Turns) {
        let period = if turns.are_apart { self.workers } else { self.channel_tiles * self.passes.len() };
        let all = (0..self.workers.min(period)).map(|turn| Turns { turn: turn as u32, ..turns });
        let best = all.map(|turns| (self.busiest(turns), turns)).min_by(|(a, _), (b, _)| a.total_cmp(b));
        best.unwrap_or((0.0, turns))
    }

    /// Cycles of the busiest block.
    fn busiest(&self, Turns { turn, are_apart, .. }: Turns) -> f64 {
        let &Self { workers, jobs, passes, .. } = self;
        let neighbours = if are_apart { jobs / passes.len() } else { self.channel_tiles };
        let first = jobs.div_ceil(workers).saturating_sub(MOST_ROUNDS);
        let mut cycles = vec![0.0; workers];
        for job in first * workers..jobs {
            // The worker whose place in the round this is.
            let turned = job / workers % workers * turn as usize % workers;
            cycles[(job % workers + workers - turned) % workers] += passes[job / neighbours % passes.len()];
        }
        cycles.into_iter().fold(0.0, f64::max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn jobs(workers: usize, jobs: usize, channel_tiles: usize, passes: &[f64]) -> Jobs<'_> {
        Jobs { workers, jobs, channel_tiles, passes, may_be_apart: false }
    }

    fn together(workers: u32, turn: u32) -> Turns {
        Turns { workers, turn, are_apart: false }
    }

    /// Cycles of each of the workers, as the kernel numbers jobs.
    fn cycles(jobs: &Jobs, Turns { turn, are_apart, .. }: Turns) -> Vec<f64> {
        let &Jobs { workers, passes, channel_tiles, .. } = jobs;
        let pass = |job: usize| match are_apart {
            true => job / (jobs.jobs / passes.len()),
            false => job / channel_tiles % passes.len(),
        };
        let of = |worker: usize| {
            let places =
                (0..jobs.jobs.div_ceil(workers)).map(|round| (round, (worker + round * turn as usize) % workers));
            let numbers = places.map(|(round, place)| round * workers + place);
            numbers.filter(|&job| job < jobs.jobs).map(|job| passes[pass(job)]).sum()
        };
        (0..workers).map(of).collect()
    }

    fn busiest(jobs: &Jobs, turns: Turns) -> f64 {
        cycles(jobs, turns).into_iter().fold(0.0, f64::max)
    }

    #[test]
    fn long_jobs_are_shared_out() {
        // Of 1024 jobs, half are twice as long: 11.6 units each, 12 if some have one more.
        let many = jobs(132, 1024, 8, &[2.0, 1.0]);
        assert_eq!(busiest(&many, together(132, 1)), 14.0, "one place further each time: some get six long ones");
        assert_eq!(busiest(&many, many.best_turns()), 12.0);
        // Every second job is long, and there are two rounds: each worker gets a long one and a short one.
        for (workers, count) in [(6, 12), (7, 14), (4, 8)] {
            let few = jobs(workers, count, 1, &[3.0, 1.0]);
            assert_eq!(busiest(&few, few.best_turns()), 4.0);
        }
    }

    #[test]
    fn no_worker_gets_the_same_kind_again_and_again() {
        // A turn by one would leave everybody at the same pass: 133 is a multiple of 7.
        let kinds = jobs(132, 132 * 70, 1, &[7.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]);
        assert_eq!(busiest(&kinds, together(132, 1)), 490.0);
        assert!(busiest(&kinds, kinds.best_turns()) < 140.0);
    }

    #[test]
    fn long_jobs_come_first_where_there_are_few_rounds() {
        // Of 200 jobs a quarter each takes 4, 2, 2 and 1: 3.4 on average, 4 for the long ones.
        let passes = [4.0, 2.0, 2.0, 1.0];
        let few = Jobs { may_be_apart: true, ..jobs(132, 200, 1, &passes) };
        let turns = few.best_turns();
        assert!(turns.are_apart);
        assert_eq!(busiest(&few, turns), 4.0);
        assert!(busiest(&few, Jobs { may_be_apart: false, ..few }.best_turns()) >= 5.0);
        let all: f64 = cycles(&few, turns).iter().sum();
        assert_eq!(all, 450.0, "each job is somebody's");
        let many = Jobs { jobs: 132 * 20, ..few };
        assert!(!many.best_turns().are_apart, "what is different evens out");
    }

    #[test]
    fn nothing_to_share_out() {
        for (workers, count, passes) in [(132, 1024, &[1.0, 1.0][..]), (100, 100, &[2.0, 1.0]), (1, 100, &[2.0, 1.0])] {
            assert_eq!(jobs(workers, count, 1, passes).best_turns(), together(workers as u32, 1));
        }
        assert_eq!(jobs(0, 0, 1, &[]).best_turns(), together(0, 1));
    }
}
