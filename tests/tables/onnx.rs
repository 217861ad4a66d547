//! The cases of the onnx package, and how its attributes are asked of our builder.

use conv_transpose::{AutoPad, ConvTranspose, Shape};
use serde::Deserialize;

use super::{Row, Table, Tensors};

#[derive(Deserialize)]
pub struct Manifest {
    pub node: Vec<Case>,
    pub converted: Vec<Case>,
}

#[derive(Clone, Deserialize)]
pub struct Case {
    pub name: String,
    pub attributes: Attributes,
}

/// The attributes of the operator; [`None`] where the case leaves them out.
#[derive(Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Attributes {
    auto_pad: Option<String>,
    dilations: Option<Vec<usize>>,
    group: Option<usize>,
    kernel_shape: Option<Vec<usize>>,
    output_padding: Option<Vec<usize>>,
    pub output_shape: Option<Vec<usize>>,
    pads: Option<Vec<usize>>,
    strides: Option<Vec<usize>>,
}

pub fn manifest() -> Manifest {
    serde_json::from_str(include_str!("../data/conformance/onnx.json")).unwrap()
}

fn tensors() -> Tensors {
    Tensors::read(include_bytes!("../data/conformance/onnx.safetensors"))
}

/// The rows that the tensors belong to.
pub fn rows_with_tensors() -> Vec<String> {
    tensors().rows()
}

pub fn table(cases: Vec<Case>) -> Table {
    Table(rows(&cases), rows(&cases), rows(&cases))
}

/// The cases over `D` axes.
fn rows<const D: usize>(cases: &[Case]) -> Vec<Row<D>> {
    let tensors = tensors();
    let over_these_axes = |case: &&Case| tensors.dims(&format!("{}.W", case.name)).unwrap().len() == D + 2;
    cases.iter().filter(over_these_axes).map(|case| row(case.clone(), &tensors)).collect()
}

fn row<const D: usize>(Case { name, attributes }: Case, tensors: &Tensors) -> Row<D> {
    let part = |letter| format!("{name}.{letter}");
    let (input, weight) = (tensors.tensor(&part('X')), tensors.tensor(&part('W')));
    let output = Shape::from_dims(&tensors.dims(&part('Y')).unwrap()).unwrap();
    Row {
        layer: attributes.layer(weight.shape(), output),
        input,
        weight,
        bias: tensors.elements(&part('B')),
        output,
        expected: tensors.expected(&part('Y'), 1),
        name,
    }
}

/// A list with an entry for each spatial axis.
fn spatial<const D: usize>(list: Vec<usize>) -> [usize; D] {
    list.try_into().unwrap_or_else(|list| panic!("{list:?} is not a list of {D}"))
}

impl Attributes {
    /// The layer for this weight `[in_channels, out_channels / group, kernel...]` that gives this output.
    pub fn layer<const D: usize>(self, weight: Shape<D>, output: Shape<D>) -> ConvTranspose<D> {
        let kernel = self.kernel_shape.map_or(weight.extent, spatial);
        let group = self.group.unwrap_or(1);
        let mut builder = ConvTranspose::builder(weight.batch.unwrap(), weight.channels * group, kernel)
            .groups(group)
            .stride(self.strides.map_or([1; D], spatial))
            .dilation(self.dilations.map_or([1; D], spatial))
            .output_padding(self.output_padding.map_or([0; D], spatial))
            .auto_pad(self.auto_pad.as_deref().map_or(AutoPad::NotSet, auto_pad));
        if let Some(pads) = self.pads {
            builder = builder.padding_begin_end(begin_end(&pads));
        }
        if let Some(shape) = self.output_shape {
            builder = builder.output_shape(output_extent(&shape, output));
        }
        builder.build().unwrap()
    }
}

fn auto_pad(name: &str) -> AutoPad {
    match name {
        "NOTSET" => AutoPad::NotSet,
        "VALID" => AutoPad::Valid,
        "SAME_UPPER" => AutoPad::SameUpper,
        "SAME_LOWER" => AutoPad::SameLower,
        _ => panic!("{name:?} is not a way to pad"),
    }
}

/// ONNX lists all begins, then all ends.
fn begin_end<const D: usize>(pads: &[usize]) -> [[usize; 2]; D] {
    assert_eq!(pads.len(), 2 * D);
    std::array::from_fn(|axis| [pads[axis], pads[D + axis]])
}

/// The extents of an `output_shape`, which may name batch and channels as well.
fn output_extent<const D: usize>(shape: &[usize], output: Shape<D>) -> [usize; D] {
    if shape.len() > D {
        assert_eq!(shape, output.dims(), "batch and channels are not ours to choose");
    }
    spatial(shape[shape.len() - D..].to_vec())
}
