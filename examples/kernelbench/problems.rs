//! The problems, read from `benches/problems.json`, which is built into the program.

use anyhow::Result;
use serde::Deserialize;

/// One problem as KernelBench states it; arrays have one entry per spatial axis.
#[derive(Clone, Debug, Deserialize)]
pub struct BenchProblem {
    pub id: u32,
    pub batch: usize,
    pub in_channels: usize,
    pub out_channels: usize,
    pub input: Vec<usize>,
    pub kernel: Vec<usize>,
    pub stride: Vec<usize>,
    pub padding: Vec<usize>,
    pub output_padding: Vec<usize>,
    pub dilation: Vec<usize>,
    pub groups: usize,
}

#[derive(Deserialize)]
struct File {
    problems: Vec<BenchProblem>,
}

/// All problems, in order of their number.
pub fn problems() -> Result<Vec<BenchProblem>> {
    let file: File = serde_json::from_str(include_str!("../../benches/problems.json"))?;
    Ok(file.problems)
}
