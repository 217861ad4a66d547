//! Side by side: on how many multiprocessors the parts are computed.
//!
//! Usually all of them compute the first part, then the others, which are small. Columns at the end of rows take long
//! for what they are: they read and write a small piece of each row, which has left the cache since the first part was
//! there. A few multiprocessors that compute them at the same time find it there. But then both have to take as long as
//! each other: problem 61 takes 0.66 ms with 11 multiprocessors for its columns, 0.80 with eight, and 0.75 one after
//! the other; 70 takes 1.60 ms with eight, 1.85 with ten, and 1.67. The model does not know it as well as that, so
//! `Autotune` measures it (`benchmarks/2026-11-27-gpu-side-by-side.md`).

use super::{Task, choice::Part, cost};

/// The share of the multiprocessors that the second part gets at most.
const MOST: f64 = 0.25;

/// How many times as many multiprocessors as the model says the second part gets.
const TIMES: [f64; 3] = [0.85, 1.0, 1.15];

/// The most blocks, or clusters of partners, that a grid has: they are along y.
const MOST_BLOCKS: u32 = 65_535;

/// The most blocks of each part if they are computed one after the other: one for each multiprocessor, which does one
/// job after the other. Where the first part leaves columns to others, blocks of these have one job each, if a grid has
/// as many, and go wherever one has ended.
pub(super) fn one_after_the_other(task: &Task, parts: &[Part]) -> Vec<u32> {
    let divides_rows = !parts[0].layout.region.is_last[2];
    let one_job_each = |part: &Part| part.layout.jobs(task.problem.groups()) <= MOST_BLOCKS.into();
    let blocks = |(number, part)| {
        if number > 0 && divides_rows && one_job_each(part) { MOST_BLOCKS } else { task.target.multiprocessors }
    };
    parts.iter().enumerate().map(blocks).collect()
}

/// The same if the first two parts are computed side by side: some ways that may be fast, none if there is one part.
pub(super) fn ways(task: &Task, parts: &[Part]) -> Vec<Vec<u32>> {
    let multiprocessors = task.target.multiprocessors;
    let [first, second, ..] = parts else { return Vec::new() };
    let most_of_second = (MOST * f64::from(multiprocessors)).floor();
    // Partners have one job each.
    let have_partners = [first, second].iter().any(|part| part.layout.cut.partners > 1);
    if !task.target.large_tiles || have_partners || most_of_second < 1.0 {
        return Vec::new();
    }
    let cycles = first.cycles - cost::pack(&task.problem, &first.layout);
    let balanced = f64::from(multiprocessors) * second.cycles / (cycles + second.cycles);
    let mut ways: Vec<Vec<u32>> = Vec::new();
    for times in TIMES {
        let of_second = (times * balanced).round().clamp(1.0, most_of_second) as u32;
        let mut blocks = one_after_the_other(task, parts);
        blocks[..2].copy_from_slice(&[multiprocessors - of_second, of_second]);
        if !ways.contains(&blocks) {
            ways.push(blocks);
        }
    }
    ways
}

#[cfg(test)]
mod tests {
    use super::{
        super::{Target, candidates, cheapest_parts, others, recipe},
        *,
    };
    use crate::{ConvTranspose2d, ConvTranspose3d, Precision, Shape};

    fn parts(extent: usize) -> (Task, Vec<Part>) {
        let layer = ConvTranspose3d::builder(48, 48, [3; 3]).build().unwrap();
        let problem = layer.problem(Shape::batched(8, 48, [extent; 3])).unwrap().to_compute();
        let task = Task::new(problem, Precision::Tf32, Target::EMULATED);
        let parts = cheapest_parts(&task, &candidates(&task).unwrap()).unwrap();
        (task, parts)
    }

    #[test]
    fn some_multiprocessors_compute_the_columns_that_are_beyond() {
        let (task, parts) = parts(64);
        assert!(parts.len() > 1, "66 positions of a row: problem 61");
        assert_eq!(one_after_the_other(&task, &parts)[..2], [132, MOST_BLOCKS]);
        let ways = ways(&task, &parts);
        assert!(ways.iter().all(|blocks| blocks.len() == parts.len() && blocks[0] + blocks[1] == 132), "{ways:?}");
        assert!(ways.iter().any(|blocks| (10..=12).contains(&blocks[1])), "as many as it takes: {ways:?}");
    }

    /// Such plans could be made, and launching them was an error.
    #[test]
    fn more_jobs_than_a_grid_has_blocks_are_done_one_after_the_other() {
        let channels = 70_000;
        let layer = ConvTranspose2d::builder(channels, channels, [2; 2]).groups(channels).build().unwrap();
        let problem = layer.problem(Shape::batched(1, channels, [16; 2])).unwrap().to_compute();
        for precision in [Precision::Tf32, Precision::F32] {
            let task = Task::new(problem, precision, Target::EMULATED);
            let recipes = [vec![recipe(&task).unwrap()], others(&task)].concat();
            assert!(recipes.iter().any(|recipe| recipe.launches.len() > 1), "a column is beyond 16");
            let mut launches = recipes.iter().flat_map(|recipe| &recipe.launches);
            assert!(launches.all(|launch| launch.blocks[1] <= 65_535));
        }
    }

    #[test]
    fn one_part_has_all_multiprocessors() {
        let (task, parts) = parts(62);
        assert_eq!(one_after_the_other(&task, &parts), [132]);
        assert!(ways(&task, &parts).is_empty());
    }
}
