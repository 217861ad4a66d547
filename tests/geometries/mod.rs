//! Random geometries: every combination that a transposed convolution allows, valid by construction.
//!
//! A strategy draws raw numbers, and one function resolves them into a valid geometry: padding is clamped to what
//! leaves an output position, `output_padding` to its limit, extents to what the oracle computes in about a
//! millisecond. So nothing is rejected, and a failure shrinks number by number. Output extents and padding are computed
//! here on their own, not taken from the library.

#![allow(dead_code, reason = "every test file includes this module and uses its own part of it")]

use std::{
    cell::Cell,
    fmt,
    hash::{BuildHasher, RandomState},
};

use conv_transpose::{AutoPad, ConvTranspose, ConvTransposeBuilder, Problem, Shape, Tensor};
use proptest::{
    prelude::*,
    test_runner::{Config, RngSeed, TestCaseError, TestError, TestRunner},
};

/// The magnitude of integer-valued inputs, weights and biases.
///
/// A partial sum of `n` products and a bias is an integer of at most `16 * n + 4`, whatever the order of the additions,
/// so it is exact in `f32` (24 significant bits) while `n < 2^20`. The inputs and weights themselves are exact even in
/// TF32, f16 and bf16.
pub const MAGNITUDE: i64 = 4;

/// Most products that one output element of a random geometry sums up: five channels times the largest kernel volume.
const MOST_TERMS: i64 = 5 * 16 * 16 * 16;

const _: () = assert!(MAGNITUDE * MAGNITUDE * MOST_TERMS + MAGNITUDE < 1 << 24, "integer-valued sums are exact in f32");

/// How many output elements, and how many products, a random geometry may have.
const MOST_OUTPUTS: usize = 20_000;
const MOST_PRODUCTS: usize = 200_000;

/// What is asked of the layer to decide padding and output extent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Request {
    /// Padding and output padding, both given.
    Padding,
    /// Padding and PyTorch's `output_size`.
    OutputSize,
    /// ONNX' `output_shape`, with an output padding and a way to split the padding.
    OutputShape(AutoPad),
    /// ONNX' `auto_pad` alone, with an output padding.
    AutoPad(AutoPad),
}

/// One axis, resolved: `output = (input - 1) * stride - begin - end + dilation * (kernel - 1) + output_padding + 1`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AxisCase {
    pub input: usize,
    pub kernel: usize,
    pub stride: usize,
    pub dilation: usize,
    pub begin: i64,
    pub end: i64,
    pub output_padding: usize,
}

impl AxisCase {
    /// The extent without padding and output padding.
    pub fn full(&self) -> i64 {
        ((self.input - 1) * self.stride + self.dilation * (self.kernel - 1) + 1) as i64
    }

    pub fn output(&self) -> usize {
        usize::try_from(self.full() - self.begin - self.end + self.output_padding as i64).unwrap()
    }
}

/// A layer together with the input shape it is given.
#[derive(Clone, Copy, PartialEq)]
pub struct Geometry<const D: usize> {
    pub batch: Option<usize>,
    pub groups: usize,
    pub in_per_group: usize,
    pub out_per_group: usize,
    pub axes: [AxisCase; D],
    pub request: Request,
}

impl<const D: usize> Geometry<D> {
    pub fn in_channels(&self) -> usize {
        self.groups * self.in_per_group
    }

    pub fn out_channels(&self) -> usize {
        self.groups * self.out_per_group
    }

    pub fn output(&self) -> [usize; D] {
        self.axes.map(|axis| axis.output())
    }

    pub fn kernel_volume(&self) -> usize {
        self.axes.iter().map(|axis| axis.kernel).product()
    }

    pub fn input_shape(&self) -> Shape<D> {
        Shape { batch: self.batch, channels: self.in_channels(), extent: self.axes.map(|axis| axis.input) }
    }

    pub fn output_shape(&self) -> Shape<D> {
        Shape { batch: self.batch, channels: self.out_channels(), extent: self.output() }
    }

    pub fn weight_shape(&self) -> Shape<D> {
        Shape::batched(self.in_channels(), self.out_per_group, self.axes.map(|axis| axis.kernel))
    }

    fn builder(&self) -> ConvTransposeBuilder<D> {
        ConvTranspose::builder(self.in_channels(), self.out_channels(), self.axes.map(|axis| axis.kernel))
            .stride(self.axes.map(|axis| axis.stride))
            .dilation(self.axes.map(|axis| axis.dilation))
            .groups(self.groups)
    }

    fn explicit_padding(&self) -> Option<[[usize; 2]; D]> {
        let nonnegative = self.axes.iter().all(|axis| axis.begin >= 0 && axis.end >= 0);
        nonnegative.then(|| self.axes.map(|axis| [axis.begin as usize, axis.end as usize]))
    }

    /// The layer, asked for in the way that `request` says.
    pub fn layer(&self) -> ConvTranspose<D> {
        let output_padding = self.axes.map(|axis| axis.output_padding);
        let builder = match self.request {
            Request::Padding => {
                self.builder().padding_begin_end(self.explicit_padding().unwrap()).output_padding(output_padding)
            }
            Request::OutputSize => {
                self.builder().padding_begin_end(self.explicit_padding().unwrap()).output_size(self.output())
            }
            Request::OutputShape(auto_pad) => {
                self.builder().output_shape(self.output()).auto_pad(auto_pad).output_padding(output_padding)
            }
            Request::AutoPad(auto_pad) => self.builder().auto_pad(auto_pad).output_padding(output_padding),
        };
        builder.build().unwrap_or_else(|error| panic!("{self:?}\nis refused: {error}"))
    }

    /// The same layer by explicit padding and output padding; `None` where some padding is negative.
    pub fn layer_by_padding(&self) -> Option<ConvTranspose<D>> {
        let builder = self.builder().padding_begin_end(self.explicit_padding()?);
        Some(builder.output_padding(self.axes.map(|axis| axis.output_padding)).build().unwrap())
    }

    /// The same layer with neither padding nor output padding: its output holds every position that the input reaches.
    pub fn layer_without_padding(&self) -> ConvTranspose<D> {
        self.builder().build().unwrap()
    }

    /// The layer of a single group.
    pub fn layer_of_one_group(&self) -> ConvTranspose<D> {
        Self { groups: 1, ..*self }.layer()
    }

    pub fn problem(&self) -> Problem<D> {
        self.layer().problem(self.input_shape()).unwrap_or_else(|error| panic!("{self:?}\nis refused: {error}"))
    }
}

impl<const D: usize> fmt::Debug for Geometry<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { groups, request, .. } = self;
        let (input, weight, output) = (self.input_shape(), self.weight_shape(), self.output_shape());
        write!(
            f,
            "{D}d, input {input} * weight {weight} -> output {output}, groups {groups}, asked for by {request:?}"
        )?;
        for (number, axis) in self.axes.iter().enumerate() {
            let AxisCase { input, kernel, stride, dilation, begin, end, output_padding } = axis;
            write!(
                f,
                "\n  axis {number}: input {input}, kernel {kernel}, stride {stride}, dilation {dilation}, \
                 padding {begin} and {end}, output_padding {output_padding} -> output {}",
                axis.output()
            )?;
        }
        Ok(())
    }
}

/// The raw numbers of one axis; [`resolve`] makes them valid.
type RawAxis = (usize, usize, usize, usize, [usize; 2], usize, i64);

fn raw_axis(dimensions: usize) -> impl Strategy<Value = RawAxis> {
    let most: usize = [12, 7, 5][dimensions - 1];
    (
        prop_oneof![3 => 1..=most, 1 => Just(1)],
        prop_oneof![9 => 1usize..=7, 1 => 8usize..=16],
        prop_oneof![8 => 1usize..=5, 1 => 6usize..=9],
        1usize..=4,
        prop::array::uniform2(prop_oneof![2 => Just(0), 3 => 0usize..=3, 1 => 4usize..=30]),
        prop_oneof![2 => Just(0), 1 => 0usize..=8],
        -8i64..=12,
    )
}

fn request() -> impl Strategy<Value = Request> {
    prop_oneof![
        4 => Just(Request::Padding),
        1 => Just(Request::OutputSize),
        1 => Just(Request::AutoPad(AutoPad::Valid)),
        1 => Just(Request::AutoPad(AutoPad::SameUpper)),
        1 => Just(Request::AutoPad(AutoPad::SameLower)),
        1 => Just(Request::OutputShape(AutoPad::NotSet)),
        1 => Just(Request::OutputShape(AutoPad::SameUpper)),
        1 => Just(Request::OutputShape(AutoPad::SameLower)),
    ]
}

fn resolve(raw: RawAxis, request: Request) -> AxisCase {
    let (input, kernel, stride, dilation, padding, output_padding, total) = raw;
    let limit = if request == Request::OutputSize { stride } else { stride.max(dilation) };
    let output_padding = output_padding.min(limit - 1);
    let mut axis = AxisCase { input, kernel, stride, dilation, begin: 0, end: 0, output_padding };
    let most = axis.full() + output_padding as i64 - 1;
    match request {
        Request::Padding | Request::OutputSize => {
            axis.begin = (padding[0] as i64).min(most);
            axis.end = (padding[1] as i64).min(most - axis.begin);
        }
        Request::AutoPad(AutoPad::NotSet | AutoPad::Valid) => {}
        Request::AutoPad(auto_pad) => {
            (axis.begin, axis.end) = halves(most + 1 - (input * stride) as i64, auto_pad);
        }
        Request::OutputShape(auto_pad) => (axis.begin, axis.end) = halves(total.min(most), auto_pad),
    }
    axis
}

/// The begin and end of a total padding, as ONNX splits it.
fn halves(total: i64, auto_pad: AutoPad) -> (i64, i64) {
    let smaller = (total as f64 / 2.0).floor() as i64;
    if auto_pad == AutoPad::SameUpper { (smaller, total - smaller) } else { (total - smaller, smaller) }
}

/// Random geometries over `D` axes. A batch of 0 is among them.
pub fn geometries<const D: usize>() -> impl Strategy<Value = Geometry<D>> {
    let batch = prop_oneof![2 => Just(None), 1 => Just(Some(0)), 9 => (1usize..=3).prop_map(Some)];
    let channels = (prop_oneof![3 => Just(1usize), 2 => 2usize..=4], 1usize..=5, 1usize..=5);
    (batch, channels, request(), [(); D].map(|()| raw_axis(D))).prop_map(|(batch, channels, request, raw)| {
        let (groups, in_per_group, out_per_group) = channels;
        let axes = raw.map(|raw| resolve(raw, request));
        fit(Geometry { batch, groups, in_per_group, out_per_group, axes, request }, raw)
    })
}

/// Reduces a geometry until it is small enough for the oracle.
fn fit<const D: usize>(mut geometry: Geometry<D>, mut raw: [RawAxis; D]) -> Geometry<D> {
    loop {
        let positions: usize = geometry.output().iter().product();
        let outputs = geometry.batch.unwrap_or(1) * geometry.out_channels() * positions;
        let reached: usize = geometry.axes.iter().map(|axis| axis.input * axis.kernel).product();
        let products = geometry.batch.unwrap_or(1) * geometry.in_channels() * geometry.out_per_group * reached;
        if outputs <= MOST_OUTPUTS && products <= MOST_PRODUCTS {
            return geometry;
        }
        if geometry.batch > Some(1) {
            geometry.batch = Some(1);
        } else if geometry.in_per_group > 3 {
            geometry.in_per_group = 3;
        } else if geometry.out_per_group > 2 {
            geometry.out_per_group = 2;
        } else {
            let extent = |axis: &AxisCase| axis.full().max(axis.output() as i64);
            let widest = (0..D).max_by_key(|&axis| extent(&geometry.axes[axis])).unwrap();
            let (input, kernel, _, dilation, .., total) = &mut raw[widest];
            match () {
                () if *input > 3 => *input -= 1,
                () if *dilation > 1 => *dilation -= 1,
                () if *kernel > 1 => *kernel -= 1,
                () if *input > 1 => *input -= 1,
                () => *total += 1,
            }
            geometry.axes[widest] = resolve(raw[widest], geometry.request);
        }
    }
}

/// A geometry and the data to run it on.
#[derive(Clone, Copy)]
pub struct Case<const D: usize> {
    pub geometry: Geometry<D>,
    pub bias: bool,
    /// Decides every element of the data.
    pub seed: u64,
}

impl<const D: usize> fmt::Debug for Case<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bias = if self.bias { "with" } else { "without" };
        write!(f, "{:?}\n  {bias} bias, data of seed {}", self.geometry, self.seed)
    }
}

/// Random geometries with data.
pub fn cases<const D: usize>() -> impl Strategy<Value = Case<D>> {
    (geometries(), any::<bool>(), 0u64..10_000).prop_map(|(geometry, bias, seed)| Case { geometry, bias, seed })
}

/// The tensors of a case.
pub struct Data<const D: usize> {
    pub input: Tensor<f32, D>,
    pub weight: Tensor<f32, D>,
    pub bias: Option<Vec<f32>>,
}

/// What to draw an element for; each has its own sequence of numbers.
#[derive(Clone, Copy)]
pub enum Stream {
    Input,
    OtherInput,
    Weight,
    Bias,
    Output,
}

impl<const D: usize> Case<D> {
    fn draw(&self, stream: Stream, index: usize) -> u64 {
        // The mixer of splitmix64: every bit of the result depends on every bit of the argument.
        let mut z =
            (self.seed << 40 | (stream as u64) << 36).wrapping_add(index as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// An integer from `-MAGNITUDE` to `MAGNITUDE`.
    pub fn integer(&self, stream: Stream, index: usize) -> f32 {
        (self.draw(stream, index) % (2 * MAGNITUDE as u64 + 1)) as f32 - MAGNITUDE as f32
    }

    /// A real number with 24 random bits, of either sign, and of a magnitude from about 2^-30 to 2^6: neither products
    /// nor their rounding errors underflow.
    pub fn real(&self, stream: Stream, index: usize) -> f32 {
        let bits = self.draw(stream, index);
        let fraction = (bits >> 40) as f32 - (1u64 << 23) as f32 + 0.5;
        fraction * 2f32.powi((bits % 13) as i32 - 6 - 23)
    }

    fn data(&self, element: impl Fn(Stream, usize) -> f32) -> Data<D> {
        let tensor = |stream, shape: Shape<D>| {
            let len = shape.checked_len().unwrap();
            Tensor::from_vec(shape, (0..len).map(|index| element(stream, index)).collect()).unwrap()
        };
        let out_channels = self.geometry.out_channels();
        Data {
            input: tensor(Stream::Input, self.geometry.input_shape()),
            weight: tensor(Stream::Weight, self.geometry.weight_shape()),
            bias: self.bias.then(|| (0..out_channels).map(|index| element(Stream::Bias, index)).collect()),
        }
    }

    pub fn integers(&self) -> Data<D> {
        self.data(|stream, index| self.integer(stream, index))
    }

    pub fn reals(&self) -> Data<D> {
        self.data(|stream, index| self.real(stream, index))
    }
}

impl<const D: usize> From<Case<D>> for Geometry<D> {
    fn from(case: Case<D>) -> Self {
        case.geometry
    }
}

/// Why a case did not pass.
pub enum Stop {
    /// The engine says that it does not do such a problem.
    Unsupported(String),
    /// It is wrong.
    Failed(String),
}

/// How many cases ran.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Tally {
    pub ran: u32,
    pub unsupported: u32,
}

/// The smallest failing case that shrinking found.
#[derive(Debug)]
pub struct Failure {
    pub reason: String,
    pub case: String,
    /// Number of output elements of the case: how far shrinking came.
    pub outputs: usize,
    pub seed: u64,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\n{}\nto repeat: PROPTEST_RNG_SEED={}", self.reason, self.case, self.seed)
    }
}

/// The fewest cases: of fewer, all may have outputs without elements, or of zeros.
const LEAST_CASES: u64 = 8;

/// How many random cases to draw, and which.
#[derive(Clone, Copy, Debug)]
pub struct Draw {
    pub cases: u32,
    pub seed: u64,
}

impl Draw {
    /// `usual` times what `PROPTEST_CASES` is of 256, proptest's own default, but at least [`LEAST_CASES`]. The cases
    /// are others in every run, unless `PROPTEST_RNG_SEED` is set.
    pub fn usual(usual: u32) -> Self {
        let Config { cases, rng_seed, .. } = Config::default();
        let cases = (u64::from(usual) * u64::from(cases)).div_ceil(256).clamp(LEAST_CASES, u64::from(u32::MAX));
        let seed = match rng_seed {
            RngSeed::Fixed(seed) => seed,
            RngSeed::Random => RandomState::new().hash_one(0),
        };
        Self { cases: cases as u32, seed }
    }
}

/// Runs `test` on random geometries or cases, and shrinks the first that fails.
pub fn for_all<V: Copy + fmt::Debug + Into<Geometry<D>> + 'static, const D: usize>(
    draw: Draw,
    values: impl Strategy<Value = V> + 'static,
    test: impl Fn(&V) -> Result<(), Stop>,
) -> Result<Tally, Failure> {
    run(draw, &values.boxed(), &test)
}

/// [`for_all`] without the types of its arguments, so that proptest's runner is not compiled again for every test.
fn run<V: Copy + fmt::Debug + Into<Geometry<D>>, const D: usize>(
    draw: Draw,
    values: &BoxedStrategy<V>,
    test: &dyn Fn(&V) -> Result<(), Stop>,
) -> Result<Tally, Failure> {
    let Draw { cases, seed } = draw;
    let rng_seed = RngSeed::Fixed(seed);
    let config = Config { cases, rng_seed, failure_persistence: None, max_shrink_iters: 10_000, ..Config::default() };
    let tally = Cell::new(Tally::default());
    let result = TestRunner::new(config).run(values, |value| {
        let Tally { ran, unsupported } = tally.get();
        match test(&value) {
            Ok(()) => tally.set(Tally { ran: ran + 1, unsupported }),
            Err(Stop::Unsupported(_)) => tally.set(Tally { ran, unsupported: unsupported + 1 }),
            Err(Stop::Failed(reason)) => return Err(TestCaseError::fail(reason)),
        }
        Ok(())
    });
    let (reason, case, outputs) = match result {
        Ok(()) => return Ok(tally.get()),
        Err(TestError::Fail(reason, value)) => {
            (reason, format!("{value:?}"), value.into().output_shape().checked_len().unwrap())
        }
        Err(TestError::Abort(reason)) => (reason, "aborted".into(), 0),
    };
    Err(Failure { reason: reason.to_string(), case, outputs, seed })
}
