//! The search for the fastest of some candidates, as far as a time limit allows.

use std::time::Duration;

use crate::Error;

/// Launches whose median is the time of a candidate, if there is time for so many.
const LAUNCHES: usize = 7;

/// A candidate whose first launch takes that many times as long as the best one is given up: no launch varies so much.
const HOPELESS: u32 = 2;

/// What the first launch may take besides, to fetch the kernel.
const FETCH: Duration = Duration::from_micros(100);

/// Something that can time candidates, and has a clock.
pub(super) trait Bench {
    /// What is to be timed.
    type Candidate;
    /// A candidate that is ready to be launched.
    type Ready;

    /// Time since the search began.
    fn elapsed(&self) -> Duration;

    /// Makes a candidate ready.
    fn ready(&mut self, candidate: Self::Candidate) -> Result<Self::Ready, Error>;

    /// The median time of some launches, one at least.
    fn time(&mut self, ready: &mut Self::Ready, launches: usize) -> Result<Duration, Error>;
}

/// A step of the search: a candidate and its time, after `measured` of them, this one included.
pub(super) struct Step<'a, R> {
    pub(super) ready: &'a R,
    pub(super) time: Duration,
    pub(super) best: Duration,
    pub(super) measured: usize,
}

/// The candidate with the shortest time. The first one is always measured, the others in order as long as there is
/// time, and memory for each.
pub(super) fn fastest<B: Bench>(
    bench: &mut B,
    candidates: Vec<B::Candidate>,
    limit: Duration,
    mut tell: impl FnMut(Step<'_, B::Ready>),
) -> Result<Option<B::Ready>, Error> {
    let mut best: Option<(B::Ready, Duration)> = None;
    let (count, mut measured) = (candidates.len(), 0);
    for (index, candidate) in candidates.into_iter().enumerate() {
        if best.is_some() && bench.elapsed() >= limit {
            break;
        }
        let best_time = best.as_ref().map(|(_, time)| *time);
        let timed = bench.ready(candidate).and_then(|mut ready| {
            let share = limit.saturating_sub(bench.elapsed()) / (count - index) as u32;
            Ok((measure(bench, &mut ready, best_time, share)?, ready))
        });
        let (time, ready) = match timed {
            Err(Error::Cuda(error)) if best.is_some() && error.is_out_of_memory() => continue,
            timed => timed?,
        };
        measured += 1;
        tell(Step { ready: &ready, time, best: best_time.map_or(time, |best| best.min(time)), measured });
        if best_time.is_none_or(|best| time < best) {
            best = Some((ready, time));
        }
    }
    Ok(best.map(|(ready, _)| ready))
}

/// The time of a candidate: of its first launch, unless that is promising and `share` is enough for more.
fn measure<B: Bench>(
    bench: &mut B,
    ready: &mut B::Ready,
    best: Option<Duration>,
    share: Duration,
) -> Result<Duration, Error> {
    let first = bench.time(ready, 1)?;
    let hopeless = best.is_some_and(|best| first > best * HOPELESS + FETCH);
    let affordable = share.as_nanos() / first.as_nanos().max(1);
    if hopeless || affordable == 0 {
        return Ok(first);
    }
    bench.time(ready, affordable.min(LAUNCHES as u128) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cuda::{CudaError, error::Status};

    const MS: Duration = Duration::from_millis(1);

    /// Candidates that cannot be made ready.
    const FAILS: u32 = u32::MAX;
    const TOO_LARGE: u32 = u32::MAX - 1;
    /// One for which the driver has no memory when it is launched.
    const FAILS_LATER: u32 = u32::MAX - 2;

    /// Candidates are the times of their launches in milliseconds; the clock goes on by what is launched.
    #[derive(Default)]
    struct Fake {
        clock: Duration,
        /// The candidate and the number of launches of each call.
        calls: Vec<(u32, usize)>,
        /// What the next call says, whatever the candidate.
        first: Option<Duration>,
    }

    impl Bench for Fake {
        type Candidate = u32;
        type Ready = u32;

        fn elapsed(&self) -> Duration {
            self.clock
        }

        fn ready(&mut self, candidate: u32) -> Result<u32, Error> {
            match candidate {
                FAILS => Err(Error::HostMemory { shape: Vec::new() }),
                TOO_LARGE => Err(CudaError::OutOfMemory { bytes: 1 }.into()),
                _ => Ok(candidate),
            }
        }

        fn time(&mut self, ready: &mut u32, launches: usize) -> Result<Duration, Error> {
            if *ready == FAILS_LATER {
                return Err(CudaError::Driver { call: "cuLaunchKernel", status: Status(2) }.into());
            }
            self.calls.push((*ready, launches));
            self.clock += MS * *ready * launches as u32;
            Ok(self.first.take().unwrap_or(MS * *ready))
        }
    }

    fn search(candidates: &[u32], limit: u32) -> (Option<u32>, Fake) {
        let mut bench = Fake::default();
        let best = fastest(&mut bench, candidates.to_vec(), MS * limit, |_| ()).unwrap();
        (best, bench)
    }

    #[test]
    fn the_shortest_time_wins_and_the_first_of_equals() {
        assert_eq!(search(&[5, 4, 6, 3, 9], 1000).0, Some(3));
        assert_eq!(search(&[], 1000).0, None);
        let mut firsts = Vec::new();
        fastest(&mut Fake::default(), vec![5, 5], MS * 1000, |step| firsts.push((*step.ready, step.best))).unwrap();
        assert_eq!(firsts, [(5, MS * 5), (5, MS * 5)]);
    }

    #[test]
    fn with_time_enough_everyone_has_a_warm_up_and_all_launches() {
        assert_eq!(search(&[5, 4], 1000).1.calls, [(5, 1), (5, LAUNCHES), (4, 1), (4, LAUNCHES)]);
    }

    #[test]
    fn the_first_one_is_measured_without_any_time_and_the_others_are_not() {
        let (best, bench) = search(&[5, 4], 0);
        assert_eq!(best, Some(5));
        assert_eq!(bench.calls, [(5, 1)]);
    }

    #[test]
    fn the_time_limit_ends_the_search() {
        let (best, bench) = search(&[5, 50, 50, 50, 1], 60);
        assert_eq!(best, Some(5), "the last one was never measured");
        assert!(!bench.calls.iter().any(|&(candidate, _)| candidate == 1));
        assert!(bench.clock >= MS * 60 && bench.clock < MS * 110, "no launch after the limit: {:?}", bench.clock);
    }

    #[test]
    fn the_time_is_shared_between_the_candidates() {
        let (_, bench) = search(&[10, 9, 8], 90);
        assert_eq!(bench.calls[..2], [(10, 1), (10, 3)], "30 for each of three");
        assert_eq!(bench.calls.last().map(|call| call.0), Some(8), "nobody is left out");
    }

    #[test]
    fn who_is_far_slower_is_launched_once() {
        let (best, bench) = search(&[5, 11, 10, 4], 10_000);
        assert_eq!(best, Some(4));
        assert_eq!(bench.calls[2..5], [(11, 1), (10, 1), (10, LAUNCHES)]);
    }

    #[test]
    fn short_launches_are_repeated_even_if_the_first_one_is_slow() {
        let mut bench = Fake::default();
        let us = |count| Duration::from_micros(count);
        let mut measure = |first, best| {
            bench.calls.clear();
            bench.first = Some(us(first));
            measure(&mut bench, &mut 1, Some(us(best)), MS * 100).unwrap();
            bench.calls.len()
        };
        assert_eq!([measure(105, 5), measure(111, 5)], [2, 1]);
    }

    #[test]
    fn every_step_is_told() {
        let mut steps = Vec::new();
        let tell = |step: Step<u32>| steps.push((*step.ready, step.time, step.best, step.measured));
        fastest(&mut Fake::default(), vec![5, 6, 4], MS * 1000, tell).unwrap();
        assert_eq!(steps, [(5, MS * 5, MS * 5, 1), (6, MS * 6, MS * 5, 2), (4, MS * 4, MS * 4, 3)]);
    }

    #[test]
    fn an_error_ends_the_search() {
        let mut bench = Fake::default();
        fastest(&mut bench, vec![5, FAILS, 4], MS * 1000, |_| ()).unwrap_err();
        assert!(!bench.calls.iter().any(|&(candidate, _)| candidate == 4));
    }

    #[test]
    fn who_does_not_fit_into_memory_is_left_out_but_not_the_first() {
        let mut measured = Vec::new();
        let candidates = vec![5, TOO_LARGE, FAILS_LATER, 4];
        let best = fastest(&mut Fake::default(), candidates, MS * 1000, |step| measured.push(step.measured)).unwrap();
        assert_eq!(best, Some(4));
        assert_eq!(measured, [1, 2], "nobody counts who was left out");
        for first in [TOO_LARGE, FAILS_LATER] {
            fastest(&mut Fake::default(), vec![first, 4], MS * 1000, |_| ()).unwrap_err();
        }
    }
}
