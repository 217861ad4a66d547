//! Side by side: on how many multiprocessors the parts are computed.
//!
//! Usually all of them compute the first part, then the others, which are small. Columns at the end of rows take long for what they are: they wait for memory, because they read and write a small piece of each row, which
//! has left the cache since the first part was there. Computed by a few multiprocessors at the same time, they find it there, and delay nobody. But both have to take as long as each other, within a few percent: problem 61
//! takes 0.66 ms instead of 0.75 with 11 multiprocessors for its columns, 0.80 with eight, and 70 takes 1.60 ms instead of 1.68 with eight, 1.85 with ten. The model does not know it as well as that, so it is for `Autotune` to
//! measure. (`benchmarks/2026-11-27-gpu-side-by-side.md`)

use super::{Task, choice::Part, cost};

/// The most multiprocessors for the second part: one of so many.
const MOST: f64 = 1.0 / 4.0;

/// How much longer or shorter the second part may take than the model says.
const MARGINS: [f64; 3] = [0.85, 1.0, 1.15];

/// The most blocks of each part, usually: one for each multiprocessor, which does one job after the other. Beyond the columns that the first part has, blocks have one job each, and go wherever one has ended.
pub(super) fn one_after_the_other(task: &Task, parts: &[Part]) -> Vec<u32> {
    let divides_rows = !parts[0].layout.region.is_last[2];
    let blocks = |number| if number > 0 && divides_rows { u32::MAX } else { task.target.multiprocessors };
    (0..parts.len()).map(blocks).collect()
}

/// The same, with the first two parts side by side, in some ways that may be fast, if there are such parts.
pub(super) fn ways(task: &Task, parts: &[Part]) -> Vec<Vec<u32>> {
    let multiprocessors = task.target.multiprocessors;
    let [first, second, ..] = parts else { return Vec::new() };
    // Partners have one job each.
    if !task.target.large_tiles || [first, second].iter().any(|part| part.layout.cut.partners > 1) {
        return Vec::new();
    }
    let cycles = first.cycles - cost::pack(&task.problem, &first.layout);
    let balanced = f64::from(multiprocessors) * second.cycles / (cycles + second.cycles);
    let mut ways: Vec<Vec<u32>> = Vec::new();
    for margin in MARGINS {
        let of_second = (margin * balanced).round().clamp(1.0, MOST * f64::from(multiprocessors)) as u32;
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
        super::{Target, candidates, cheapest_parts},
        *,
    };
    use crate::{ConvTranspose3d, Precision, Shape};

    fn parts(extent: usize, target: Target) -> (Task, Vec<Part>) {
        let layer = ConvTranspose3d::builder(48, 48, [3; 3]).build().unwrap();
        let problem = layer.problem(Shape::batched(8, 48, [extent; 3])).unwrap().to_compute();
        let task = Task::new(problem, Precision::Tf32, target);
        let parts = cheapest_parts(&task, &candidates(&task).unwrap()).unwrap();
        (task, parts)
    }

    #[test]
    fn some_multiprocessors_compute_the_columns_that_are_beyond() {
        let (task, parts) = parts(64, Target::EMULATED);
        assert!(parts.len() > 1, "66 positions of a row: problem 61");
        assert_eq!(one_after_the_other(&task, &parts)[..2], [132, u32::MAX]);
        let ways = ways(&task, &parts);
        assert!(ways.iter().all(|blocks| blocks.len() == parts.len() && blocks[0] + blocks[1] == 132), "{ways:?}");
        assert!(ways.iter().any(|blocks| (10..=12).contains(&blocks[1])), "as many as it takes: {ways:?}");
    }

    #[test]
    fn one_part_has_all_multiprocessors() {
        let (task, parts) = parts(62, Target::EMULATED);
        assert_eq!(one_after_the_other(&task, &parts), [132]);
        assert!(ways(&task, &parts).is_empty());
    }
}
