//! Turns: by how many places blocks change from one round of jobs to the next.
//!
//! In a round, all blocks have neighbouring jobs, whose passes may take different times: one with four taps takes
//! longer than one with two. If each block had the same place in every round, some would get long jobs again and again.
//! By how much they turn is chosen so that the busiest one is done as early as possible.

/// Rounds that are looked at, at most: the last ones. Among many, what is different evens out.
const MOST_ROUNDS: usize = 64;

/// The turn with which the busiest of the `workers` has the least to do. Job number `n` is one of pass
/// `n / channel_tiles % passes.len()`, which takes that many cycles.
pub(super) fn best(workers: usize, jobs: usize, channel_tiles: usize, passes: &[f64]) -> u32 {
    let are_alike = passes.iter().all(|&cycles| cycles == passes[0]);
    if workers < 2 || jobs <= workers || are_alike {
        return 1;
    }
    let rounds = jobs.div_ceil(workers);
    let first = rounds.saturating_sub(MOST_ROUNDS);
    let busiest = |turn: &usize| {
        let mut cycles = vec![0.0; workers];
        for job in first * workers..jobs {
            // The worker whose place in the round this is.
            let turned = job / workers % workers * turn % workers;
            cycles[(job % workers + workers - turned) % workers] += passes[job / channel_tiles % passes.len()];
        }
        cycles.into_iter().fold(0.0, f64::max)
    };
    let turns = (0..workers.min(channel_tiles * passes.len())).map(|turn| (busiest(&turn), turn));
    turns.min_by(|(a, _), (b, _)| a.total_cmp(b)).map_or(1, |(_, turn)| turn as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the busiest of the workers has to do.
    fn busiest(workers: usize, jobs: usize, channel_tiles: usize, passes: &[f64], turn: usize) -> f64 {
        let rounds = jobs.div_ceil(workers);
        let of = |worker: usize| {
            let places = (0..rounds).map(|round| round * workers + (worker + round * turn) % workers);
            places.filter(|&job| job < jobs).map(|job| passes[job / channel_tiles % passes.len()]).sum()
        };
        (0..workers).map(of).fold(0.0, f64::max)
    }

    #[test]
    fn long_jobs_are_shared_out() {
        // Of 1024 jobs, half are twice as long: 11.6 units each, 12 if some have one more.
        assert_eq!(busiest(132, 1024, 8, &[2.0, 1.0], 1), 14.0, "one place further each time: some get six long ones");
        let turn = best(132, 1024, 8, &[2.0, 1.0]);
        assert_eq!(busiest(132, 1024, 8, &[2.0, 1.0], turn as usize), 12.0);
        // Every second job is long, and there are two rounds: each worker gets a long one and a short one.
        for (workers, jobs) in [(6, 12), (7, 14), (4, 8)] {
            let turn = best(workers, jobs, 1, &[3.0, 1.0]) as usize;
            assert_eq!(busiest(workers, jobs, 1, &[3.0, 1.0], turn), 4.0);
        }
    }

    #[test]
    fn no_worker_gets_the_same_kind_again_and_again() {
        // A turn by one would leave everybody at the same pass: 133 is a multiple of 7.
        let passes = [7.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0];
        assert_eq!(busiest(132, 132 * 70, 1, &passes, 1), 490.0);
        let turn = best(132, 132 * 70, 1, &passes) as usize;
        assert!(busiest(132, 132 * 70, 1, &passes, turn) < 140.0);
    }

    #[test]
    fn nothing_to_share_out() {
        assert_eq!(best(132, 1024, 8, &[1.0, 1.0]), 1);
        assert_eq!(best(100, 100, 1, &[2.0, 1.0]), 1);
        assert_eq!(best(1, 100, 1, &[2.0, 1.0]), 1);
        assert_eq!(best(0, 0, 1, &[]), 1);
    }
}
