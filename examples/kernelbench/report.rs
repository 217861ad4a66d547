//! What a user sees and keeps: a line per measurement, the geometric means, the file for `benches/torch_gpu.py`, the
//! picture.

use std::{fmt, fs};

use anyhow::{Context, Result};
use conv_transpose::cuda::CudaError;
use serde::Serialize;

use crate::{
    arguments::{Arguments, Variant},
    floor::Ceiling,
    measure::Measurement,
    problems::BenchProblem,
    roofline,
};

/// All results, with what they depend on. Prints as the lines above the table.
#[derive(Serialize)]
pub struct Report {
    device: String,
    #[serde(flatten)]
    ceiling: Ceiling,
    repeats: u16,
    repack: bool,
    bias: bool,
    /// The seconds that a search for the fastest plan may take, if there is one.
    autotune: Option<f64>,
    pub rows: Vec<Measurement>,
}

impl Report {
    pub fn new(device: &str, ceiling: Ceiling, arguments: &Arguments) -> Self {
        let Arguments { repeats, repack, bias, autotune, .. } = *arguments;
        Self { device: device.to_owned(), ceiling, repeats, repack, bias, autotune, rows: Vec::new() }
    }

    /// Writes the files that were asked for.
    pub fn write(&self, arguments: &Arguments) -> Result<()> {
        if let Some(path) = &arguments.json {
            fs::write(path, serde_json::to_string_pretty(self)?)
                .with_context(|| format!("cannot write {}", path.display()))?;
        }
        if let Some(path) = &arguments.plot {
            let picture = roofline::draw(&self.device, &self.ceiling, &self.rows)?;
            picture.save(path).with_context(|| format!("cannot write {}", path.display()))?;
        }
        Ok(())
    }

    /// The geometric mean of the share of the floor, for each algorithm in each precision that measured anything.
    pub fn means(&self, arguments: &Arguments) -> String {
        let mut lines = vec!["Geometric mean of the share of the floor:".to_owned()];
        for Variant { algorithm, precision } in arguments.variants() {
            let (algorithm, precision) = (algorithm.to_string(), precision.to_string());
            let rows = self.rows.iter().filter(|row| row.asked == algorithm && row.precision == precision);
            let shares: Vec<f64> = rows.map(Measurement::share).collect();
            if !shares.is_empty() {
                let mean = 100.0 * geometric_mean(&shares);
                lines.push(format!("  {algorithm} {precision}: {mean:.1} % over {} problems", shares.len()));
            }
        }
        lines.join("\n")
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Ceiling { copy_gb_per_s, tf32_tflop_per_s } = self.ceiling;
        let packing = if self.repack { "packed by every launch" } else { "packed beforehand" };
        let bias = if self.bias { "with a bias" } else { "no bias" };
        writeln!(f, "{}, median of {} launches, weight {packing}, {bias}", self.device, self.repeats)?;
        if let Some(seconds) = self.autotune {
            writeln!(f, "Plans by measurement, up to {seconds} s for each")?;
        }
        writeln!(f, "Floor of the bytes: {copy_gb_per_s:.0} GB/s, a copy measured in this run")?;
        write!(f, "Floor of the arithmetic: {tf32_tflop_per_s:.0} TFLOP/s for TF32, assumed; a third of it for f32")
    }
}

fn geometric_mean(values: &[f64]) -> f64 {
    (values.iter().map(|value| value.ln()).sum::<f64>() / values.len() as f64).exp()
}

/// The table's columns; the first is as wide as the longest label.
pub struct Table {
    width: usize,
}

impl Table {
    pub fn new(problems: &[BenchProblem]) -> Self {
        let longest = problems.iter().map(|problem| problem.label().chars().count()).max();
        Self { width: longest.unwrap_or(0).max("problem".len()) }
    }

    pub fn header(&self) -> String {
        let names = "precision          ms     GB/s  TFLOP/s   floor ms   share    error  kernel";
        format!("{:<width$}  {names}", "problem", width = self.width)
    }

    pub fn line(&self, row: &Measurement) -> String {
        format!(
            "{:<width$}  {:<9} {:>10.4} {:>8.1} {:>8.2} {:>10.4} {:>5.1} % {:>8.1e}  {}",
            row.problem.label(),
            row.precision,
            row.ms,
            row.gb_per_s(),
            row.tflop_per_s(),
            row.floor_ms,
            100.0 * row.share(),
            row.error,
            row.algorithm,
            width = self.width,
        )
    }

    pub fn refusal(&self, problem: &BenchProblem, variant: Variant, refusal: CudaError) -> String {
        let precision = variant.precision.to_string();
        format!("{:<width$}  {precision:<9}  {refusal}", problem.label(), width = self.width)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_is_that_of_ratios() {
        assert!((geometric_mean(&[0.5, 2.0, 1.0]) - 1.0).abs() < 1e-12);
        assert!((geometric_mean(&[0.1, 0.4]) - 0.2).abs() < 1e-12);
    }
}
