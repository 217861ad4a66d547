//! The library against PyTorch: a table of geometries with the outputs that PyTorch computed, or the fact that it
//! refused them.
//!
//! The table is `data/pytorch.csv`; `data/pytorch.py` beside it wrote it, and says what its fields mean.

#[macro_use]
mod engines;
mod geometries;

use conv_transpose::{ConvTranspose, GeometryError, Problem, Shape, Tensor, oracle};
use engines::Engine;
use geometries::{Failure, Stop, Tally};

const TABLE: &str = include_str!("data/pytorch.csv");

/// One line of the table.
struct Row {
    line: &'static str,
    batch: Option<usize>,
    groups: usize,
    in_channels: usize,
    out_channels: usize,
    /// Input extents, kernel, stride, padding, output padding and dilation.
    lists: [Vec<usize>; 6],
    output_size: Option<Vec<usize>>,
    /// What was made wrong on purpose; "-" if nothing.
    spoiled: &'static str,
    /// The dimensions and elements of the output; `None` if PyTorch refused.
    output: Option<(Vec<usize>, Vec<f64>)>,
}

fn number<T: std::str::FromStr<Err: std::fmt::Debug>>(field: &str) -> T {
    field.parse().unwrap_or_else(|error| panic!("{field:?} in the table: {error:?}"))
}

fn list<T: std::str::FromStr<Err: std::fmt::Debug>>(field: &str) -> Vec<T> {
    field.split_whitespace().map(number).collect()
}

fn table() -> Vec<Row> {
    let rows = TABLE.lines().filter(|line| !line.starts_with('#')).skip(1);
    rows.map(|line| {
        let fields: Vec<&str> = line.split(';').collect();
        let [batch, groups, in_channels, out_channels, rest @ ..] = &fields[..] else { panic!("too short: {line}") };
        let [lists @ .., output_size, spoiled, output, values] = rest else { panic!("too short: {line}") };
        let lists: [Vec<usize>; 6] = lists.iter().map(|field| list(field)).collect::<Vec<_>>().try_into().unwrap();
        Row {
            line,
            batch: (*batch != "-").then(|| number(batch)),
            groups: number(groups),
            in_channels: number(in_channels),
            out_channels: number(out_channels),
            lists,
            output_size: (*output_size != "-").then(|| list(output_size)),
            spoiled,
            output: (*output != "refused").then(|| (list(output), list(values))),
        }
    })
    .collect()
}

impl Row {
    fn axes(&self) -> usize {
        self.lists[0].len()
    }

    fn layer<const D: usize>(&self) -> Result<ConvTranspose<D>, GeometryError> {
        let array = |list: &Vec<usize>| <[usize; D]>::try_from(&list[..]).unwrap();
        let [_, kernel, stride, padding, output_padding, dilation] = self.lists.each_ref().map(array);
        let builder = ConvTranspose::builder(self.in_channels, self.out_channels, kernel)
            .stride(stride)
            .padding(padding)
            .output_padding(output_padding)
            .dilation(dilation)
            .groups(self.groups);
        match &self.output_size {
            Some(size) => builder.output_size(array(size)),
            None => builder,
        }
        .build()
    }

    fn input_shape<const D: usize>(&self) -> Shape<D> {
        let extent = self.lists[0][..].try_into().unwrap();
        Shape { batch: self.batch, channels: self.in_channels, extent }
    }

    fn problem<const D: usize>(&self) -> Result<Problem<D>, GeometryError> {
        self.layer()?.problem(self.input_shape())
    }

    fn data<const D: usize>(&self) -> (Tensor<f32, D>, Tensor<f32, D>, Vec<f32>) {
        let tensor = |shape: Shape<D>, element: fn(usize) -> f32| {
            Tensor::from_vec(shape, (0..shape.checked_len().unwrap()).map(element).collect()).unwrap()
        };
        let input = tensor(self.input_shape(), |i| ((3 * i * i + 7 * i + 2) % 11) as f32 - 5.0);
        let weight_shape = self.layer().unwrap().weight_shape();
        let weight = tensor(weight_shape, |j| ((5 * j * j + 3 * j + 1) % 7) as f32 - 3.0);
        let bias = (0..self.out_channels).map(|c| ((c * c + 2) % 5) as f32 - 2.0).collect();
        (input, weight, bias)
    }
}

/// Every row with an output, in `D` dimensions.
fn computed<const D: usize>() -> impl Iterator<Item = (Row, Vec<usize>, Vec<f64>)> {
    table().into_iter().filter(|row| row.axes() == D).filter_map(|mut row| {
        let (dims, values) = row.output.take()?;
        Some((row, dims, values))
    })
}

on_every_engine! {
    in_1d_2d_3d:
    it_computes_what_pytorch_computes,
}

fn it_computes_what_pytorch_computes<const D: usize>(engine: &Engine) -> Result<Tally, Failure> {
    let mut tally = Tally::default();
    for (row, _, values) in computed::<D>() {
        let (input, weight, bias) = row.data();
        match engine.forward(&row.layer::<D>().unwrap(), &input, &weight, Some(&bias)) {
            Ok(output) => assert_eq!(output.iter().map(|&y| f64::from(y)).collect::<Vec<_>>(), values, "{}", row.line),
            Err(Stop::Unsupported(_)) => {
                tally.unsupported += 1;
                continue;
            }
            Err(Stop::Failed(reason)) => panic!("{reason}: {}", row.line),
        }
        tally.ran += 1;
    }
    Ok(tally)
}

fn shapes_and_oracle_agree<const D: usize>() {
    let mut rows = 0;
    for (row, dims, values) in computed::<D>() {
        let problem = row.problem::<D>().unwrap_or_else(|error| panic!("refused: {error}: {}", row.line));
        assert_eq!(problem.output_shape().dims(), dims, "{}", row.line);
        let (input, weight, bias) = row.data::<D>();
        let output = oracle::forward(&problem, input.as_slice(), weight.as_slice(), Some(&bias));
        assert_eq!(output, values, "{}", row.line);
        rows += 1;
    }
    assert_eq!(rows, 70, "the table has 70 outputs in each dimension");
}

#[test]
fn shapes_and_oracle_agree_in_1d() {
    shapes_and_oracle_agree::<1>();
}

#[test]
fn shapes_and_oracle_agree_in_2d() {
    shapes_and_oracle_agree::<2>();
}

#[test]
fn shapes_and_oracle_agree_in_3d() {
    shapes_and_oracle_agree::<3>();
}

/// What PyTorch refuses is refused here, for the reason that was planted.
#[test]
fn what_pytorch_refuses_is_refused() {
    let refused: Vec<Row> = table().into_iter().filter(|row| row.output.is_none()).collect();
    assert_eq!(refused.len(), 99, "three rows for each of 11 reasons in each dimension");
    for row in refused {
        let error = match row.axes() {
            1 => row.problem::<1>().map(|_| ()),
            2 => row.problem::<2>().map(|_| ()),
            _ => row.problem::<3>().map(|_| ()),
        }
        .expect_err(row.line);
        let argument = row.spoiled.split(' ').next().unwrap();
        let variant_fits = match row.spoiled {
            "output_padding" => matches!(error, GeometryError::OutputPadding { .. }),
            "output_size below" | "output_size above" => matches!(error, GeometryError::OutputSize { .. }),
            "padding" => matches!(error, GeometryError::OutputExtent { .. }),
            "stride" | "dilation" | "kernel" | "input" => matches!(error, GeometryError::ZeroExtent { .. }),
            "in_channels" | "out_channels" => matches!(error, GeometryError::Groups { .. }),
            "groups" => matches!(error, GeometryError::ZeroCount { .. }),
            other => panic!("{other:?} is not a way to spoil a case"),
        };
        assert!(variant_fits && error.to_string().contains(argument), "{error}: {}", row.line);
    }
}
