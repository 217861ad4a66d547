//! PyTorch's own samples, and how its arguments are asked of our builder.

use conv_transpose::{ConvTranspose, GeometryError, Shape};
use serde::Deserialize;

use super::{Row, Table, Tensors};

#[derive(Deserialize)]
pub struct Manifest {
    pub samples: Vec<Sample>,
    pub refusals: Vec<Refused>,
}

#[derive(Deserialize)]
pub struct Sample {
    pub name: String,
    arguments: Arguments,
    output: Vec<usize>,
    every: usize,
}

/// A case that PyTorch refuses.
#[derive(Deserialize)]
pub struct Refused {
    pub name: String,
    input: Vec<usize>,
    weight: Vec<usize>,
    arguments: Arguments,
}

#[derive(Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Arguments {
    stride: PerAxis,
    padding: PerAxis,
    output_padding: PerAxis,
    dilation: PerAxis,
    groups: i64,
}

/// PyTorch's defaults.
impl Default for Arguments {
    fn default() -> Self {
        let [zero, one] = [0, 1].map(PerAxis::All);
        Self { stride: one.clone(), padding: zero.clone(), output_padding: zero, dilation: one, groups: 1 }
    }
}

/// A number for all axes, or a list.
#[derive(Clone, Deserialize)]
#[serde(untagged)]
enum PerAxis {
    All(i64),
    Each(Vec<i64>),
}

/// How a case is refused here.
#[derive(Debug, PartialEq)]
pub enum Refusal {
    /// By the geometry.
    Geometry(GeometryError),
    /// By the type of the argument, which has no negative values.
    Negative(&'static str),
    /// By the type of the layer, which has 1, 2 or 3 spatial axes.
    SpatialAxes(usize),
}

impl From<GeometryError> for Refusal {
    fn from(error: GeometryError) -> Self {
        Self::Geometry(error)
    }
}

pub fn manifest() -> Manifest {
    serde_json::from_str(include_str!("../data/conformance/opinfo.json")).unwrap()
}

fn tensors() -> Tensors {
    Tensors::read(include_bytes!("../data/conformance/opinfo.safetensors"))
}

/// The rows that the tensors belong to.
pub fn rows_with_tensors() -> Vec<String> {
    tensors().rows()
}

pub fn table() -> Table {
    Table(rows(), rows(), rows())
}

/// The samples over `D` axes.
fn rows<const D: usize>() -> Vec<Row<D>> {
    let tensors = tensors();
    let over_these_axes = |sample: &Sample| sample.name.starts_with(&format!("conv_transpose{D}d."));
    manifest().samples.into_iter().filter(over_these_axes).map(|sample| row(sample, &tensors)).collect()
}

fn row<const D: usize>(Sample { name, arguments, output, every }: Sample, tensors: &Tensors) -> Row<D> {
    let part = |part| format!("{name}.{part}");
    let weight = tensors.tensor::<D>(&part("weight"));
    Row {
        layer: arguments.layer(&weight.shape().dims()).unwrap_or_else(|refusal| panic!("{name}: {refusal:?}")),
        input: tensors.tensor(&part("input")),
        weight,
        bias: tensors.elements(&part("bias")),
        output: Shape::from_dims(&output).unwrap(),
        expected: tensors.expected(&part("output"), every),
        name,
    }
}

impl Arguments {
    /// The layer for a weight of these dimensions, `[in_channels, out_channels / groups, kernel...]`.
    fn layer<const D: usize>(&self, weight: &[usize]) -> Result<ConvTranspose<D>, Refusal> {
        let groups = usize::try_from(self.groups).map_err(|_| Refusal::Negative("groups"))?;
        let kernel = weight[2..].try_into().map_err(|_| Refusal::SpatialAxes(weight.len() - 2))?;
        // Without a group there is no knowing the output channels; it is the groups that are to be refused then.
        let builder = ConvTranspose::builder(weight[0], weight[1] * groups.max(1), kernel)
            .stride(self.stride.axes("stride")?)
            .padding(self.padding.axes("padding")?)
            .output_padding(self.output_padding.axes("output_padding")?)
            .dilation(self.dilation.axes("dilation")?)
            .groups(groups);
        Ok(builder.build()?)
    }
}

impl PerAxis {
    /// The values of all axes. A list of one stands for all of them, as in PyTorch.
    fn axes<const D: usize>(&self, argument: &'static str) -> Result<[usize; D], Refusal> {
        let values = match self {
            Self::All(value) => [*value; D],
            Self::Each(list) if list.len() == 1 => [list[0]; D],
            Self::Each(list) => list[..].try_into().unwrap_or_else(|_| panic!("{argument} has not {D} entries")),
        };
        if values.iter().any(|&value| value < 0) {
            return Err(Refusal::Negative(argument));
        }
        Ok(values.map(|value| value as usize))
    }
}

impl Refused {
    /// What we say against it. The weight decides the number of axes, as it is the weight that a layer is made for.
    pub fn refusal(&self) -> Refusal {
        let result = match self.weight.len() - 2 {
            1 => self.run::<1>(),
            2 => self.run::<2>(),
            3 => self.run::<3>(),
            axes => Err(Refusal::SpatialAxes(axes)),
        };
        result.expect_err(&self.name)
    }

    fn run<const D: usize>(&self) -> Result<(), Refusal> {
        let layer = self.arguments.layer::<D>(&self.weight)?;
        layer.problem(Shape::from_dims(&self.input)?)?;
        Ok(())
    }
}
