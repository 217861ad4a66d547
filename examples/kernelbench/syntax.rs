//! Geometries in one line: `input=8x64x28x28,out=32,kernel=4x4,stride=2,padding=1`.

use std::{collections::BTreeMap, str::FromStr};

use anyhow::{Context, Result, bail, ensure};

use crate::problems::BenchProblem;

const KEYS: [&str; 8] = ["input", "out", "kernel", "stride", "padding", "output_padding", "dilation", "groups"];

impl FromStr for BenchProblem {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let fields = Fields::read(text)?;
        let input = fields.required("input")?;
        let [batch, in_channels, extents @ ..] = input.as_slice() else {
            bail!("input has one number only, but is batch x channels x extents");
        };
        let axes = extents.len();
        ensure!((1..=3).contains(&axes), "input has {axes} extents after batch and channels, but 1 to 3 are supported");
        let problem = Self {
            id: None,
            name: Some(text.to_owned()),
            batch: *batch,
            in_channels: *in_channels,
            out_channels: single("out", &fields.required("out")?)?,
            kernel: per_axis("kernel", fields.required("kernel")?, axes)?,
            stride: per_axis("stride", fields.optional("stride", 1), axes)?,
            padding: per_axis("padding", fields.optional("padding", 0), axes)?,
            output_padding: per_axis("output_padding", fields.optional("output_padding", 0), axes)?,
            dilation: per_axis("dilation", fields.optional("dilation", 1), axes)?,
            groups: single("groups", &fields.optional("groups", 1))?,
            input: extents.to_vec(),
        };
        problem.check()?;
        Ok(problem)
    }
}

/// Numbers by their key.
struct Fields<'a>(BTreeMap<&'a str, Vec<usize>>);

impl<'a> Fields<'a> {
    fn read(text: &'a str) -> Result<Self> {
        let mut fields = BTreeMap::new();
        for field in text.split(',').map(str::trim) {
            let Some((key, value)) = field.split_once('=') else { bail!("`{field}` is not key=value") };
            ensure!(KEYS.contains(&key), "there is no key `{key}`; there are {}", KEYS.join(", "));
            let Ok(numbers) = value.split('x').map(str::parse).collect::<Result<_, _>>() else {
                bail!("`{field}`: a value is a number, or several with x between them, such as 4x4");
            };
            ensure!(fields.insert(key, numbers).is_none(), "`{key}` is given twice");
        }
        Ok(Self(fields))
    }

    fn required(&self, key: &str) -> Result<Vec<usize>> {
        self.0.get(key).cloned().with_context(|| format!("`{key}` is missing"))
    }

    fn optional(&self, key: &str, default: usize) -> Vec<usize> {
        self.0.get(key).cloned().unwrap_or(vec![default])
    }
}

fn single(key: &str, numbers: &[usize]) -> Result<usize> {
    let &[number] = numbers else { bail!("{key} takes one number, not {}", numbers.len()) };
    Ok(number)
}

/// One number per axis; a single one applies to all.
fn per_axis(key: &str, numbers: Vec<usize>, axes: usize) -> Result<Vec<usize>> {
    match numbers.len() {
        1 => Ok(vec![numbers[0]; axes]),
        count if count == axes => Ok(numbers),
        count => bail!("{key} has {count} numbers, but the input has {axes} spatial axes"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_geometry_has_pytorchs_defaults() {
        let problem: BenchProblem = "input=8x64x28x30,out=32,kernel=4".parse().unwrap();
        assert_eq!((problem.batch, problem.in_channels, problem.out_channels, problem.groups), (8, 64, 32, 1));
        assert_eq!((problem.input, problem.kernel, problem.stride), (vec![28, 30], vec![4, 4], vec![1, 1]));
        assert_eq!((problem.padding, problem.output_padding, problem.dilation), (vec![0, 0], vec![0, 0], vec![1, 1]));
    }

    #[test]
    fn every_key_has_its_place() {
        let text = "input=1x6x5x6x7, out=9, groups=3, kernel=3x5x7, stride=2x3x4, padding=1x2x3, output_padding=1, dilation=2x1x1";
        let problem: BenchProblem = text.parse().unwrap();
        assert_eq!((problem.input, problem.groups), (vec![5, 6, 7], 3));
        assert_eq!((problem.kernel, problem.stride, problem.padding), (vec![3, 5, 7], vec![2, 3, 4], vec![1, 2, 3]));
        assert_eq!((problem.output_padding, problem.dilation), (vec![1, 1, 1], vec![2, 1, 1]));
    }

    #[test]
    fn mistakes_are_named() {
        let message = |text: &str| text.parse::<BenchProblem>().unwrap_err().to_string();
        let with_rest = |text: &str| message(&format!("input=1x4x8x8,out=4,kernel=3,{text}"));
        assert_eq!(message("input=1x4x8,out=4"), "`kernel` is missing");
        assert_eq!(message("input=4,out=4,kernel=3"), "input has one number only, but is batch x channels x extents");
        let extents = "extents after batch and channels, but 1 to 3 are supported";
        assert_eq!(message("input=1x4,out=4,kernel=3"), format!("input has 0 {extents}"));
        assert_eq!(message("input=1x4x1x1x1x1,out=4,kernel=3"), format!("input has 4 {extents}"));
        assert_eq!(with_rest("stride=2x2x2"), "stride has 3 numbers, but the input has 2 spatial axes");
        assert_eq!(with_rest("groups=2x2"), "groups takes one number, not 2");
        assert_eq!(with_rest("kernel=5"), "`kernel` is given twice");
        assert_eq!(with_rest("stride"), "`stride` is not key=value");
        assert!(with_rest("strides=2").starts_with("there is no key `strides`; there are input, out, kernel"));
        assert!(with_rest("stride=2*2").starts_with("`stride=2*2`: a value is a number"));
        assert_eq!(with_rest("groups=3"), "in_channels is 4, which groups = 3 does not divide");
        assert_eq!(message("input=0x4x8,out=4,kernel=3"), "the batch is 0, which leaves nothing to measure");
    }
}
