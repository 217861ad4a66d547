//! The problems: where their lists come from, and which of a list are wanted.

use std::{fs, path::Path, str::FromStr};

use anyhow::{Context, Result, bail, ensure};
use conv_transpose::{ConvTranspose, Problem, Shape};
use serde::{Deserialize, Serialize};

/// A geometry with a number or a name; arrays have one entry per spatial axis.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BenchProblem {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
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

impl BenchProblem {
    /// Number and name, as far as there are any.
    pub fn label(&self) -> String {
        let number = self.id.map(|id| id.to_string());
        number.into_iter().chain(self.name.clone()).collect::<Vec<_>>().join(" ")
    }

    /// The library's problem; `D` is the number of spatial axes.
    pub fn resolve<const D: usize>(&self) -> Result<(ConvTranspose<D>, Problem<D>)> {
        let array = |values: &[usize]| <[usize; D]>::try_from(values).context("axes differ in number");
        let layer = ConvTranspose::builder(self.in_channels, self.out_channels, array(&self.kernel)?)
            .stride(array(&self.stride)?)
            .padding(array(&self.padding)?)
            .output_padding(array(&self.output_padding)?)
            .dilation(array(&self.dilation)?)
            .groups(self.groups)
            .build()?;
        ensure!(self.batch > 0, "the batch is 0, which leaves nothing to measure");
        let problem = layer.problem(Shape::batched(self.batch, self.in_channels, array(&self.input)?))?;
        Ok((layer, problem))
    }

    /// Refuses what is not a transposed convolution.
    pub fn check(&self) -> Result<()> {
        match self.input.len() {
            1 => self.resolve::<1>().map(drop),
            2 => self.resolve::<2>().map(drop),
            3 => self.resolve::<3>().map(drop),
            axes => bail!("the input has {axes} spatial axes, but 1 to 3 are supported"),
        }
    }
}

/// One `--problem`.
#[derive(Clone, Debug)]
pub enum Wanted {
    /// Some of the list.
    Numbers(Vec<u32>),
    /// One that need not be in any list.
    Geometry(BenchProblem),
}

impl FromStr for Wanted {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        if text.contains('=') {
            return Ok(Self::Geometry(text.parse()?));
        }
        let numbers = text.split(',').map(str::parse).collect::<Result<_, _>>();
        match numbers {
            Ok(numbers) => Ok(Self::Numbers(numbers)),
            Err(_) => bail!("neither numbers, such as 70,72, nor a geometry, such as input=8x64x28x28,out=32,kernel=4"),
        }
    }
}

#[derive(Deserialize)]
struct List {
    problems: Vec<BenchProblem>,
}

/// What is wanted of a list, which is KernelBench's if no file is given; all of it if nothing particular is wanted.
pub fn select(file: Option<&Path>, wanted: &[Wanted]) -> Result<Vec<BenchProblem>> {
    let list = match file {
        None => parse(include_str!("../../benches/problems.json"))?,
        Some(path) => {
            let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
            parse(&text).with_context(|| path.display().to_string())?
        }
    };
    if wanted.is_empty() {
        return Ok(list);
    }
    let mut selected = Vec::new();
    for wanted in wanted {
        match wanted {
            Wanted::Geometry(problem) => selected.push(problem.clone()),
            Wanted::Numbers(numbers) => {
                for &number in numbers {
                    selected.push(find(&list, number)?.clone());
                }
            }
        }
    }
    Ok(selected)
}

fn parse(json: &str) -> Result<Vec<BenchProblem>> {
    let list: List = serde_json::from_str(json)?;
    ensure!(!list.problems.is_empty(), "the list has no problems");
    for problem in &list.problems {
        problem.check().with_context(|| format!("problem {}", problem.label()))?;
    }
    Ok(list.problems)
}

fn find(list: &[BenchProblem], number: u32) -> Result<&BenchProblem> {
    list.iter().find(|problem| problem.id == Some(number)).with_context(|| {
        let numbers: Vec<_> = list.iter().filter_map(|problem| problem.id).map(|id| id.to_string()).collect();
        format!("there is no problem {number}; there are {}", numbers.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lists_hold_problems_with_numbers_of_their_own() {
        let lists = [
            include_str!("../../benches/problems.json"),
            include_str!("../../benches/bare_rows.json"),
            include_str!("../../benches/few_inputs.json"),
            include_str!("../../benches/decoders.json"),
            include_str!("../../benches/depthwise.json"),
            include_str!("../../benches/odd_rows.json"),
            include_str!("../../benches/stride_one.json"),
            include_str!("../../benches/drawn_layers.json"),
            include_str!("../../benches/families.json"),
            include_str!("../../benches/gaps.json"),
            include_str!("../../benches/few_channels.json"),
            include_str!("../../benches/fitted_layers.json"),
            include_str!("../../benches/patches.json"),
            include_str!("../../benches/layers.json"),
            include_str!("../../benches/many_weights.json"),
            include_str!("../../benches/monai.json"),
            include_str!("../../benches/networks.json"),
            include_str!("../../benches/sixteen_families.json"),
            include_str!("../../benches/small_inputs.json"),
            include_str!("../../benches/small_layers.json"),
            include_str!("../../benches/ten_families.json"),
            include_str!("../../benches/wider.json"),
        ];
        for json in lists {
            let mut numbers: Vec<_> = parse(json).unwrap().iter().map(|problem| problem.id.unwrap()).collect();
            let count = numbers.len();
            numbers.sort_unstable();
            numbers.dedup();
            assert_eq!(numbers.len(), count);
        }
    }

    #[test]
    fn a_mistake_in_a_list_is_told_with_its_problem() {
        let json =
            include_str!("../../benches/problems.json").replacen(r#""stride": [1, 1]"#, r#""stride": [1, 0]"#, 1);
        let message = format!("{:#}", parse(&json).unwrap_err());
        assert_eq!(message, "problem 57: stride is 0 on spatial axis 1, but must be at least 1");
    }

    #[test]
    fn a_list_without_problems_is_told_by_its_name() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("none.json");
        fs::write(&path, r#"{"problems": []}"#).unwrap();
        let message = format!("{:#}", select(Some(&path), &[]).unwrap_err());
        assert_eq!(message, format!("{}: the list has no problems", path.display()));
    }
}
