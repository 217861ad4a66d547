//! The parameters of a layer, their rules, and what they make of an input shape.

use super::{
    axis::Axis,
    error::{Argument, GeometryError},
    problem::Problem,
    shape::Shape,
};

/// A transposed convolution along one axis: sequences `[batch, channels, length]`.
pub type ConvTranspose1d = ConvTranspose<1>;
/// A transposed convolution along two axes: images `[batch, channels, height, width]`.
pub type ConvTranspose2d = ConvTranspose<2>;
/// A transposed convolution along three axes: volumes `[batch, channels, depth, height, width]`.
pub type ConvTranspose3d = ConvTranspose<3>;

/// ONNX' `auto_pad`: how padding follows from the output extent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum AutoPad {
    /// Padding is given explicitly. With an `output_shape`, an odd total padding has its larger half at the beginning.
    #[default]
    NotSet,
    /// No padding. With an `output_shape`, the same as `NotSet`.
    Valid,
    /// The output extent is `input * stride`; an odd total padding has its larger half at the end.
    SameUpper,
    /// The output extent is `input * stride`; an odd total padding has its larger half at the beginning.
    SameLower,
}

/// The largest extent and padding of an axis: half the range of an `isize`, so that `output position + pad_begin` fits
/// too.
const MAX_EXTENT: usize = isize::MAX as usize / 2;

/// The parameters of a transposed convolution over `D` = 1, 2 or 3 spatial axes, with PyTorch's meaning and defaults.
///
/// The output extent of an axis is
/// `(input - 1) * stride - pad_begin - pad_end + dilation * (kernel - 1) + output_padding + 1`.
///
/// ```
/// use conv_transpose::{ConvTranspose2d, Shape};
///
/// let layer = ConvTranspose2d::builder(64, 32, [4, 4]).stride([2, 2]).padding([1, 1]).build()?;
/// let problem = layer.problem(Shape::batched(8, 64, [28, 28]))?;
/// assert_eq!(problem.output_shape(), Shape::batched(8, 32, [56, 56]));
/// # Ok::<(), conv_transpose::GeometryError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ConvTranspose<const D: usize> {
    parameters: Parameters<D>,
}

/// What the builder collects and the layer keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Parameters<const D: usize> {
    in_channels: usize,
    out_channels: usize,
    groups: usize,
    kernel: [usize; D],
    stride: [usize; D],
    dilation: [usize; D],
    /// Begin and end of each axis.
    padding: [[usize; 2]; D],
    output_padding: [usize; D],
    auto_pad: AutoPad,
    /// PyTorch's: padding stays, output padding is chosen to reach it.
    output_size: Option<[usize; D]>,
    /// ONNX': padding is chosen to reach it.
    output_shape: Option<[usize; D]>,
}

/// Collects the parameters of a [`ConvTranspose`]; [`build`](Self::build) checks them.
#[derive(Clone, Copy, Debug)]
#[must_use = "call build() to get the layer"]
pub struct ConvTransposeBuilder<const D: usize> {
    parameters: Parameters<D>,
}

impl<const D: usize> ConvTransposeBuilder<D> {
    /// Distance between the output positions of neighbouring input positions. Default 1.
    pub fn stride(mut self, stride: [usize; D]) -> Self {
        self.parameters.stride = stride;
        self
    }

    /// Positions cut off from both ends of each axis, as in PyTorch. Default 0.
    pub fn padding(self, padding: [usize; D]) -> Self {
        self.padding_begin_end(padding.map(|both| [both, both]))
    }

    /// Positions cut off from the `[begin, end]` of each axis. Default 0. (ONNX' `pads` lists all begins, then all
    /// ends.)
    pub fn padding_begin_end(mut self, padding: [[usize; 2]; D]) -> Self {
        self.parameters.padding = padding;
        self
    }

    /// Positions added at the end of each axis. They change the output extent and nothing else. Default 0.
    ///
    /// As in PyTorch it must be below `max(stride, dilation)`.
    pub fn output_padding(mut self, output_padding: [usize; D]) -> Self {
        self.parameters.output_padding = output_padding;
        self
    }

    /// Distance between the output positions of neighbouring kernel taps. Default 1.
    pub fn dilation(mut self, dilation: [usize; D]) -> Self {
        self.parameters.dilation = dilation;
        self
    }

    /// Number of groups into which both channel counts are split; each output group reads its own input group only.
    /// Default 1.
    pub fn groups(mut self, groups: usize) -> Self {
        self.parameters.groups = groups;
        self
    }

    /// PyTorch's `output_size`: the output extents, reached by choosing `output_padding` from 0 to `stride - 1`.
    ///
    /// The padding is kept as given, so only `stride` different extents are in reach, and the output positions that the
    /// input reaches do not shift. ONNX' [`output_shape`](Self::output_shape) chooses the padding instead.
    pub fn output_size(mut self, output_size: [usize; D]) -> Self {
        self.parameters.output_size = Some(output_size);
        self
    }

    /// ONNX' `output_shape` (spatial axes only): the output extents, reached by choosing the padding.
    ///
    /// The total padding, `stride * (input - 1) + output_padding + dilation * (kernel - 1) + 1 - output_shape`, is
    /// split in two as [`auto_pad`](Self::auto_pad) says, the smaller half rounded down. A negative total adds
    /// positions that hold only the bias. PyTorch's [`output_size`](Self::output_size) keeps the padding instead.
    pub fn output_shape(mut self, output_shape: [usize; D]) -> Self {
        self.parameters.output_shape = Some(output_shape);
        self
    }

    /// ONNX' `auto_pad`. Default [`AutoPad::NotSet`].
    pub fn auto_pad(mut self, auto_pad: AutoPad) -> Self {
        self.parameters.auto_pad = auto_pad;
        self
    }

    /// Checks all rules that do not depend on an input.
    ///
    /// # Errors
    /// [`GeometryError`] with the argument, axis, value and limit of the first broken rule: a zero channel count,
    /// number of groups, kernel, stride or dilation; groups that do not divide both channel counts; `output_padding`
    /// not below `max(stride, dilation)`; two arguments that decide the same thing.
    pub fn build(self) -> Result<ConvTranspose<D>, GeometryError> {
        const { assert!(D >= 1 && D <= 3, "a transposed convolution has 1, 2 or 3 spatial axes") };
        let p = self.parameters;
        p.check_channels()?;
        for (argument, extents) in
            [(Argument::Kernel, p.kernel), (Argument::Stride, p.stride), (Argument::Dilation, p.dilation)]
        {
            check_extents(argument, extents)?;
        }
        if let Some(output_shape) = p.output_shape {
            check_extents(Argument::OutputShape, output_shape)?;
        }
        p.check_output_padding()?;
        p.check_conflicts()?;
        Ok(ConvTranspose { parameters: p })
    }
}

impl<const D: usize> Parameters<D> {
    fn check_channels(&self) -> Result<(), GeometryError> {
        let Self { in_channels, out_channels, groups, .. } = *self;
        let channels = [(Argument::InChannels, in_channels), (Argument::OutChannels, out_channels)];
        for (argument, count) in channels.into_iter().chain([(Argument::Groups, groups)]) {
            if count == 0 {
                return Err(GeometryError::ZeroCount { argument });
            }
        }
        for (argument, channels) in channels {
            if !channels.is_multiple_of(groups) {
                return Err(GeometryError::Groups { argument, channels, groups });
            }
        }
        Ok(())
    }

    fn check_output_padding(&self) -> Result<(), GeometryError> {
        for (axis, &value) in self.output_padding.iter().enumerate() {
            let limit = self.stride[axis].max(self.dilation[axis]);
            if value >= limit {
                return Err(GeometryError::OutputPadding { axis, value, limit });
            }
        }
        Ok(())
    }

    fn check_conflicts(&self) -> Result<(), GeometryError> {
        let conflict = |first, second, reason| Err(GeometryError::Conflict { first, second, reason });
        let padded = self.padding != [[0, 0]; D];
        let pads_itself = self.auto_pad != AutoPad::NotSet;
        match (self.output_size, self.output_shape) {
            (Some(_), Some(_)) => {
                conflict(Argument::OutputSize, Argument::OutputShape, "both decide the output extent")
            }
            (Some(_), None) if self.output_padding != [0; D] => {
                conflict(Argument::OutputSize, Argument::OutputPadding, "output_size chooses the output padding")
            }
            (Some(_), None) if pads_itself => {
                conflict(Argument::OutputSize, Argument::AutoPad, "both decide the output extent")
            }
            (None, Some(_)) if padded => {
                conflict(Argument::OutputShape, Argument::Padding, "output_shape chooses the padding")
            }
            _ if padded && pads_itself => {
                conflict(Argument::AutoPad, Argument::Padding, "auto_pad chooses the padding")
            }
            _ => Ok(()),
        }
    }

    /// The extent without any padding, `stride * (input - 1) + dilation * (kernel - 1) + 1`; `None` if it is not
    /// addressable.
    fn full_extent(&self, axis: usize, input: usize) -> Option<i128> {
        let span = (input - 1).checked_mul(self.stride[axis])?;
        let reach = (self.kernel[axis] - 1).checked_mul(self.dilation[axis])?;
        let full = span.checked_add(reach)?.checked_add(1)?;
        isize::try_from(full).ok().map(|full| full as i128)
    }

    /// Padding at the beginning, and output extent, of an axis with extent `full` before padding.
    fn resolve(&self, axis: usize, input: usize, full: i128) -> Result<(i128, i128), GeometryError> {
        let [begin, end] = self.padding[axis].map(|padding| padding as i128);
        let output_padding = self.output_padding[axis] as i128;
        if let Some(size) = self.output_size {
            let (value, min) = (size[axis], full - begin - end);
            let max = min + self.stride[axis] as i128 - 1;
            if !(min..=max).contains(&(value as i128)) {
                return Err(GeometryError::OutputSize { axis, value, input, min, max });
            }
            return Ok((begin, value as i128));
        }
        let full = full + output_padding;
        Ok(match (self.output_shape, self.auto_pad) {
            (Some(shape), _) => self.pad_to(shape[axis] as i128, full),
            (None, AutoPad::SameUpper | AutoPad::SameLower) => {
                self.pad_to(input as i128 * self.stride[axis] as i128, full)
            }
            (None, AutoPad::NotSet | AutoPad::Valid) => (begin, full - begin - end),
        })
    }

    /// Splits the padding that brings `full` down to `output` as ONNX says.
    fn pad_to(&self, output: i128, full: i128) -> (i128, i128) {
        let total = full - output;
        let smaller = total.div_euclid(2);
        let begin = if self.auto_pad == AutoPad::SameUpper { smaller } else { total - smaller };
        (begin, output)
    }

    /// The axis for an input of this extent, if none of its positions is beyond [`MAX_EXTENT`].
    fn resolve_axis(&self, axis: usize, input: usize) -> Result<Axis, GeometryError> {
        let overflow = GeometryError::Overflow { argument: Argument::Output, limit: MAX_EXTENT };
        let full = self.full_extent(axis, input).ok_or_else(|| overflow.clone())?;
        let (pad_begin, output) = self.resolve(axis, input, full)?;
        if output < 1 {
            return Err(GeometryError::OutputExtent { axis, extent: output });
        }
        let limit = MAX_EXTENT as i128;
        if output > limit || pad_begin.abs() > limit || full > limit {
            return Err(overflow);
        }
        Ok(Axis {
            input,
            output: output as usize,
            kernel: self.kernel[axis],
            stride: self.stride[axis],
            dilation: self.dilation[axis],
            pad_begin: pad_begin as isize,
        })
    }
}

impl<const D: usize> ConvTranspose<D> {
    /// Starts a layer with stride 1, no padding, dilation 1 and one group. `kernel` has the extent of each spatial
    /// axis, outermost first, as all arrays here do: `[height, width]` for images.
    pub fn builder(in_channels: usize, out_channels: usize, kernel: [usize; D]) -> ConvTransposeBuilder<D> {
        ConvTransposeBuilder {
            parameters: Parameters {
                in_channels,
                out_channels,
                groups: 1,
                kernel,
                stride: [1; D],
                dilation: [1; D],
                padding: [[0, 0]; D],
                output_padding: [0; D],
                auto_pad: AutoPad::NotSet,
                output_size: None,
                output_shape: None,
            },
        }
    }

    /// Channels that the input must have.
    pub fn in_channels(&self) -> usize {
        self.parameters.in_channels
    }

    /// Channels of the output, and elements of a bias.
    pub fn out_channels(&self) -> usize {
        self.parameters.out_channels
    }

    /// The shape of the weight, `[in_channels, out_channels / groups, kernel...]`.
    pub fn weight_shape(&self) -> Shape<D> {
        let p = &self.parameters;
        Shape::batched(p.in_channels, p.out_channels / p.groups, p.kernel)
    }

    /// Binds the layer to an input shape.
    ///
    /// # Errors
    /// [`GeometryError`] if the input has the wrong number of channels or an empty spatial axis (an empty batch is
    /// legal), if an output extent comes out below 1, if `output_size` is out of reach, or if a tensor is too large to
    /// be addressed.
    pub fn problem(&self, input: Shape<D>) -> Result<Problem<D>, GeometryError> {
        let p = &self.parameters;
        if input.channels != p.in_channels {
            return Err(GeometryError::Channels { value: input.channels, expected: p.in_channels });
        }
        check_extents(Argument::Input, input.extent)?;
        let mut axes = [Axis::UNIT; D];
        for (axis, resolved) in axes.iter_mut().enumerate() {
            *resolved = p.resolve_axis(axis, input.extent[axis])?;
        }
        Problem::new(input.batch, p.in_channels, p.out_channels, p.groups, axes)
    }
}

fn check_extents<const D: usize>(argument: Argument, extents: [usize; D]) -> Result<(), GeometryError> {
    match extents.iter().position(|&extent| extent == 0) {
        Some(axis) => Err(GeometryError::ZeroExtent { argument, axis }),
        None => Ok(()),
    }
}
