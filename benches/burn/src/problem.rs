//! What `kernelbench` has measured, as far as it matters here.

use std::{fs, path::Path};

use anyhow::{Context, Result, ensure};
use burn::tensor::ops::ConvTransposeOptions;
use serde::Deserialize;

/// The file that `kernelbench --json` writes.
#[derive(Debug, Deserialize)]
pub struct Ours {
    pub repeats: usize,
    rows: Vec<Row>,
}

/// A problem in one precision. Arrays have one entry per spatial axis.
#[derive(Clone, Debug, Deserialize)]
pub struct Row {
    pub id: Option<u32>,
    pub name: Option<String>,
    pub precision: String,
    pub batch: usize,
    pub in_channels: usize,
    pub out_channels: usize,
    pub groups: usize,
    pub input: Vec<usize>,
    pub kernel: Vec<usize>,
    pub stride: Vec<usize>,
    pub padding: Vec<usize>,
    pub output_padding: Vec<usize>,
    pub dilation: Vec<usize>,
}

impl Ours {
    pub fn read(path: &Path) -> Result<Self> {
        let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        let ours: Self =
            serde_json::from_str(&text).with_context(|| format!("cannot understand {}", path.display()))?;
        ensure!(ours.repeats > 0, "{} asks for no repeats", path.display());
        for row in &ours.rows {
            row.check().with_context(|| format!("problem {} in {}", row.label(), path.display()))?;
        }
        Ok(ours)
    }

    /// The rows of the problems with these numbers, of all where there are none. The first of each problem and
    /// precision: further ones are other algorithms of ours.
    pub fn select(&self, only: &[u32]) -> Result<Vec<&Row>> {
        for id in only {
            ensure!(self.rows.iter().any(|row| row.id == Some(*id)), "there is no problem {id}");
        }
        let mut rows: Vec<&Row> = Vec::new();
        for row in &self.rows {
            let wanted = only.is_empty() || row.id.is_some_and(|id| only.contains(&id));
            let known =
                |other: &&Row| other.same_problem(row.id, row.name.as_deref()) && other.precision == row.precision;
            if wanted && !rows.iter().any(known) {
                rows.push(row);
            }
        }
        Ok(rows)
    }
}

impl Row {
    pub fn same_problem(&self, id: Option<u32>, name: Option<&str>) -> bool {
        (self.id, self.name.as_deref()) == (id, name)
    }

    /// Number and name, as far as there are any.
    pub fn label(&self) -> String {
        let number = self.id.map(|id| id.to_string());
        number.into_iter().chain(self.name.clone()).collect::<Vec<_>>().join(" ")
    }

    pub fn input_shape(&self) -> Vec<usize> {
        [&[self.batch, self.in_channels], &self.input[..]].concat()
    }

    pub fn weight_shape(&self) -> Vec<usize> {
        [&[self.in_channels, self.out_channels / self.groups], &self.kernel[..]].concat()
    }

    pub fn output_shape(&self) -> Vec<usize> {
        let extents = (0..self.input.len()).map(|axis| self.extent(axis).expect("checked when it was read"));
        [self.batch, self.out_channels].into_iter().chain(extents).collect()
    }

    pub fn options<const D: usize>(&self) -> Result<ConvTransposeOptions<D>> {
        let array = |values: &[usize]| <[usize; D]>::try_from(values).context("axes differ in number");
        let (stride, padding) = (array(&self.stride)?, array(&self.padding)?);
        let (output_padding, dilation) = (array(&self.output_padding)?, array(&self.dilation)?);
        Ok(ConvTransposeOptions::new(stride, padding, output_padding, dilation, self.groups))
    }

    /// The output's extent on an axis; none where it is not above 0.
    fn extent(&self, axis: usize) -> Option<usize> {
        let spread = self.input[axis].checked_sub(1)? * self.stride[axis];
        let kernel = self.dilation[axis] * self.kernel[axis].checked_sub(1)?;
        let extent = (spread + kernel + self.output_padding[axis] + 1).checked_sub(2 * self.padding[axis])?;
        (extent > 0).then_some(extent)
    }

    /// That nothing divides by 0, and every array has an entry for every axis.
    fn check(&self) -> Result<()> {
        let axes = self.input.len();
        let arrays = [&self.kernel, &self.stride, &self.padding, &self.output_padding, &self.dilation];
        ensure!(arrays.iter().all(|array| array.len() == axes), "axes differ in number");
        let numbers = [self.batch, self.in_channels, self.out_channels, self.groups];
        let positive = [&numbers[..], &self.stride, &self.dilation].concat();
        ensure!(positive.iter().all(|&number| number > 0), "a number is 0 that must not be");
        let divisible = self.in_channels.is_multiple_of(self.groups) && self.out_channels.is_multiple_of(self.groups);
        ensure!(divisible, "the groups do not divide the channels");
        ensure!((0..axes).all(|axis| self.extent(axis).is_some()), "the output is empty");
        Ok(())
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// Two groups, and another number for everything.
    pub const UNEVEN: &str = r#"{"id": 3, "precision": "f32", "batch": 2, "in_channels": 4, "out_channels": 6, "groups": 2,
        "input": [5, 7], "kernel": [3, 4], "stride": [2, 3], "padding": [1, 2], "output_padding": [1, 0], "dilation": [2, 1]}"#;

    fn ours(rows: &[Row]) -> Ours {
        Ours { repeats: 12, rows: rows.to_vec() }
    }

    #[test]
    fn shapes_are_those_of_pytorch() {
        let row: Row = serde_json::from_str(UNEVEN).unwrap();
        row.check().unwrap();
        assert_eq!(row.input_shape(), [2, 4, 5, 7]);
        assert_eq!(row.weight_shape(), [4, 3, 3, 4]);
        assert_eq!(row.output_shape(), [2, 6, 12, 18]);
        assert_eq!(row.options::<2>().unwrap().padding_out, [1, 0]);
        assert!(row.options::<3>().is_err());
    }

    #[test]
    fn what_cannot_be_computed_is_refused() {
        let row: Row = serde_json::from_str(UNEVEN).unwrap();
        assert!(Row { groups: 3, ..row.clone() }.check().is_err());
        assert!(Row { stride: vec![2, 0], ..row.clone() }.check().is_err());
        assert!(Row { kernel: vec![3], ..row.clone() }.check().is_err());
        assert!(Row { padding: vec![9, 9], ..row.clone() }.check().is_err());
        assert!(Row { input: vec![5, 0], ..row }.check().is_err());
    }

    #[test]
    fn each_problem_is_selected_once_in_each_precision() {
        let row: Row = serde_json::from_str(UNEVEN).unwrap();
        let tf32 = Row { precision: "tf32".to_owned(), ..row.clone() };
        let other = Row { id: None, name: Some("other".to_owned()), ..row.clone() };
        let ours = ours(&[row.clone(), tf32, row.clone(), other]);
        let labels = |only| ours.select(only).unwrap().iter().map(|row| row.label()).collect::<Vec<_>>();
        assert_eq!(labels(&[]), ["3", "3", "other"]);
        assert_eq!(labels(&[3]), ["3", "3"]);
        assert_eq!(ours.select(&[4]).unwrap_err().to_string(), "there is no problem 4");
    }
}
