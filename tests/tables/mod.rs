//! The rows of the conformance tables: what to run and what must come out.
//!
//! The tables are in `data/conformance`: a manifest, and the tensors that it names. The scripts beside them wrote both.

pub mod onnx;
pub mod opinfo;

use conv_transpose::{ConvTranspose, Problem, Shape, Tensor, oracle};
use safetensors::{Dtype, SafeTensors};

use crate::rounding::Rounding;

/// The rows over 1, 2 and 3 axes.
pub struct Table(pub Vec<Row<1>>, pub Vec<Row<2>>, pub Vec<Row<3>>);

/// One case that has an output.
pub struct Row<const D: usize> {
    pub name: String,
    pub layer: ConvTranspose<D>,
    pub input: Tensor<f32, D>,
    pub weight: Tensor<f32, D>,
    pub bias: Option<Vec<f32>>,
    pub output: Shape<D>,
    pub expected: Expected,
}

/// The output elements that the table holds.
pub struct Expected {
    pub values: Vec<f64>,
    /// The distance from one of them to the next in the output: 1 if the table holds all.
    pub every: usize,
    /// The round-off of the type that they were computed in.
    pub roundoff: f64,
}

impl<const D: usize> Row<D> {
    pub fn problem(&self) -> Problem<D> {
        self.layer.problem(self.input.shape()).unwrap_or_else(|error| panic!("{}: refused: {error}", self.name))
    }

    /// What the oracle makes of it.
    pub fn oracle(&self) -> Vec<f64> {
        oracle::forward(&self.problem(), self.input.as_slice(), self.weight.as_slice(), self.bias.as_deref())
    }

    /// Whether all tensors hold whole numbers. Such small ones have exact sums in any order.
    pub fn is_whole(&self) -> bool {
        let tensors = [self.input.as_slice(), self.weight.as_slice(), self.bias.as_deref().unwrap_or_default()];
        tensors.concat().iter().all(|value| value.fract() == 0.0)
    }

    /// Compares an output that was computed with this round-off: exactly if the row is of whole numbers.
    ///
    /// Elements that the table leaves out are compared with the oracle.
    pub fn check(&self, actual: &[f64], roundoff: f64) -> Result<(), String> {
        let expected = &self.expected;
        if actual.len() != self.output.checked_len().unwrap() {
            return Err(format!("{} elements instead of {:?}", actual.len(), self.output));
        }
        self.compare(actual, expected.every, &expected.values, [roundoff, expected.roundoff])?;
        if expected.every > 1 {
            self.compare(actual, 1, &self.oracle(), [roundoff, f64::EPSILON / 2.0])?;
        }
        Ok(())
    }

    /// Compares every `every`-th element with the next of the expected ones.
    fn compare(&self, actual: &[f64], every: usize, expected: &[f64], roundoffs: [f64; 2]) -> Result<(), String> {
        assert_eq!(actual.len().div_ceil(every), expected.len(), "{}", self.name);
        let (input, weight) = (self.input.as_slice(), self.weight.as_slice());
        let rounding = Rounding::of(&self.problem(), input, weight, self.bias.as_deref());
        let roundoffs = if self.is_whole() { [0.0; 2] } else { roundoffs };
        expected
            .iter()
            .enumerate()
            .map(|(place, &expected)| (place * every, expected))
            .try_for_each(|(index, expected)| rounding.check(index, actual[index], expected, roundoffs))
    }
}

/// The tensors of a table, each named after its row.
struct Tensors(SafeTensors<'static>);

impl Tensors {
    fn read(file: &'static [u8]) -> Self {
        Self(SafeTensors::deserialize(file).expect("the table is a safetensors file"))
    }

    fn dims(&self, name: &str) -> Option<Vec<usize>> {
        Some(self.0.tensor(name).ok()?.shape().to_vec())
    }

    fn elements(&self, name: &str) -> Option<Vec<f32>> {
        let tensor = self.0.tensor(name).ok()?;
        assert_eq!(tensor.dtype(), Dtype::F32, "{name}");
        Some(tensor.data().as_chunks().0.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect())
    }

    fn tensor<const D: usize>(&self, name: &str) -> Tensor<f32, D> {
        let dims = self.dims(name).unwrap_or_else(|| panic!("the table has no {name}"));
        Tensor::from_vec(Shape::from_dims(&dims).unwrap(), self.elements(name).unwrap()).unwrap()
    }

    /// Expected elements, in the type that they were computed in.
    fn expected(&self, name: &str, every: usize) -> Expected {
        let tensor = self.0.tensor(name).unwrap_or_else(|error| panic!("{name}: {error}"));
        let (values, roundoff) = match tensor.dtype() {
            Dtype::F64 => (
                tensor.data().as_chunks().0.iter().map(|&bytes| f64::from_le_bytes(bytes)).collect(),
                f64::EPSILON / 2.0,
            ),
            _ => {
                let values = self.elements(name).unwrap();
                (values.into_iter().map(f64::from).collect(), f64::from(f32::EPSILON) / 2.0)
            }
        };
        Expected { values, every, roundoff }
    }

    /// The rows that the tensors belong to, each once.
    fn rows(&self) -> Vec<String> {
        let row = |name: &str| name.rsplit_once('.').expect("ROW.TENSOR").0.to_owned();
        let mut rows: Vec<String> = self.0.names().into_iter().map(row).collect();
        rows.sort();
        rows.dedup();
        rows
    }
}
