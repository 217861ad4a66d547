//! A layer bound to an input shape: everything a backend needs to know, resolved and checked.

use super::{
    axis::Axis,
    error::{Argument, GeometryError},
    shape::Shape,
};

/// The largest number of elements of a tensor: its bytes must be addressable, at up to eight bytes per element.
const MAX_ELEMENTS: usize = isize::MAX as usize / 8;

/// One transposed convolution of known shapes. Made by [`ConvTranspose::problem`](super::ConvTranspose::problem), and
/// correct by construction: extents are consistent, and the number of elements of each tensor fits in an `isize`.
///
/// With `co` in the group of `ci`, per axis,
/// `output[n, co, o] = bias[co] + sum of input[n, ci, i] * weight[ci, co mod (out_channels / groups), k]`
/// over all `ci`, `i`, `k` with `o + pad_begin = i * stride + k * dilation`. This is the definition of PyTorch's
/// `conv_transpose` and of ONNX' `ConvTranspose`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Problem<const D: usize> {
    batch: Option<usize>,
    in_channels: usize,
    out_channels: usize,
    groups: usize,
    axes: [Axis; D],
}

impl<const D: usize> Problem<D> {
    /// Checks that every tensor can be addressed; all other rules were checked by the layer.
    pub(super) fn new(
        batch: Option<usize>,
        in_channels: usize,
        out_channels: usize,
        groups: usize,
        axes: [Axis; D],
    ) -> Result<Self, GeometryError> {
        let problem = Self { batch, in_channels, out_channels, groups, axes };
        let tensors = [
            (Argument::Input, problem.input_shape()),
            (Argument::Weight, problem.weight_shape()),
            (Argument::Output, problem.output_shape()),
        ];
        for (argument, shape) in tensors {
            if shape.checked_len().is_none_or(|len| len > MAX_ELEMENTS) {
                return Err(GeometryError::Overflow { argument, limit: MAX_ELEMENTS });
            }
        }
        Ok(problem)
    }

    /// Number of samples; 1 for an unbatched input.
    pub fn batch(&self) -> usize {
        self.batch.unwrap_or(1)
    }

    /// Channels of the input.
    pub fn in_channels(&self) -> usize {
        self.in_channels
    }

    /// Channels of the output.
    pub fn out_channels(&self) -> usize {
        self.out_channels
    }

    /// Number of groups; it divides both channel counts.
    pub fn groups(&self) -> usize {
        self.groups
    }

    /// Input channels that one output channel reads: `in_channels / groups`.
    pub fn in_channels_per_group(&self) -> usize {
        self.in_channels / self.groups
    }

    /// Output channels that one input channel reaches: `out_channels / groups`.
    pub fn out_channels_per_group(&self) -> usize {
        self.out_channels / self.groups
    }

    /// The spatial axes, outermost first.
    pub fn axes(&self) -> &[Axis; D] {
        &self.axes
    }

    /// The shape `[batch, in_channels, input extents...]`, without a batch axis if the input has none.
    pub fn input_shape(&self) -> Shape<D> {
        Shape { batch: self.batch, channels: self.in_channels, extent: self.axes.map(|axis| axis.input) }
    }

    /// The shape `[in_channels, out_channels / groups, kernel extents...]`.
    pub fn weight_shape(&self) -> Shape<D> {
        Shape::batched(self.in_channels, self.out_channels_per_group(), self.axes.map(|axis| axis.kernel))
    }

    /// The shape `[batch, out_channels, output extents...]`, without a batch axis if the input has none.
    pub fn output_shape(&self) -> Shape<D> {
        Shape { batch: self.batch, channels: self.out_channels, extent: self.axes.map(|axis| axis.output) }
    }

    /// Refuses tensors of other shapes than the problem's, and a bias that does not have one element per output
    /// channel.
    pub(crate) fn check_tensors(
        &self,
        input: Shape<D>,
        weight: Shape<D>,
        output: Shape<D>,
        bias_len: Option<usize>,
    ) -> Result<(), GeometryError> {
        input.expect(Argument::Input, self.input_shape())?;
        weight.expect(Argument::Weight, self.weight_shape())?;
        output.expect(Argument::Output, self.output_shape())?;
        match bias_len {
            Some(value) if value != self.out_channels => {
                Err(GeometryError::Length { argument: Argument::Bias, value, expected: self.out_channels })
            }
            _ => Ok(()),
        }
    }

    /// Floating-point operations of the usual count, two per product of an input element and a weight, cut-off ones
    /// included: `2 * batch * in_channels * out_channels / groups * input positions * taps`.
    pub fn flops(&self) -> f64 {
        let per_position: f64 = self.axes.iter().map(|axis| axis.input as f64 * axis.kernel as f64).product();
        2.0 * self.batch() as f64 * self.in_channels as f64 * self.out_channels_per_group() as f64 * per_position
    }

    /// Number of elements of input, weight, bias and output together: what has to be moved at least once.
    pub fn elements_moved(&self) -> f64 {
        let tensors = [self.input_shape(), self.weight_shape(), self.output_shape()];
        self.out_channels as f64 + tensors.iter().map(|shape| shape.len() as f64).sum::<f64>()
    }

    /// The same problem with three spatial axes: the missing outer ones have extent 1, so that no element moves in
    /// memory.
    ///
    /// # Panics
    /// If `D > 3`, which no [`ConvTranspose`](super::ConvTranspose) has.
    pub fn to_3d(&self) -> Problem<3> {
        let mut axes = [Axis::UNIT; 3];
        axes[3 - D..].copy_from_slice(&self.axes);
        let Self { batch, in_channels, out_channels, groups, .. } = *self;
        Problem { batch, in_channels, out_channels, groups, axes }
    }

    /// What a backend prepares for: this problem with three axes. Of an empty batch nothing is computed, and its
    /// extents may be far beyond any table or count, so they become 1.
    pub(crate) fn to_compute(self) -> Problem<3> {
        let problem = self.to_3d();
        if problem.batch() == 0 { Problem { axes: [Axis::UNIT; 3], ..problem } } else { problem }
    }

    /// The taps of the kernel along all axes together, or as many as a `usize` holds.
    pub(crate) fn taps(&self) -> usize {
        self.axes.iter().fold(1, |taps, axis| taps.saturating_mul(axis.kernel))
    }

    /// Products of an output element that has so many taps along each axis, in all input channels of its group.
    #[cfg(feature = "cuda")]
    pub(crate) fn products(&self, taps: [usize; D]) -> usize {
        taps.into_iter().fold(self.in_channels_per_group(), usize::saturating_mul)
    }

    /// The most taps that an output element has along each axis.
    #[cfg(feature = "cuda")]
    pub(crate) fn most_taps(&self) -> [usize; D] {
        self.axes.each_ref().map(Axis::most_taps)
    }

    /// The products of each input position with all taps: a problem with one tap, on the same input and the same
    /// weight, whose output is `[batch][out channel][tap][input position]`. Summed up where taps reach, these are the
    /// output of this problem; that is known as `col2im`.
    #[cfg(feature = "cuda")]
    pub(crate) fn columns(&self) -> Result<Problem<D>, GeometryError> {
        let axes = self.axes.map(|axis| Axis { input: axis.input, output: axis.input, ..Axis::UNIT });
        Problem::new(self.batch, self.in_channels, self.out_channels.saturating_mul(self.taps()), self.groups, axes)
    }

    /// The same problem, on the same tensors, in the form that is the least to compute.
    #[cfg(feature = "cuda")]
    pub(crate) fn simplified(self) -> Problem<3> {
        let problem = self.to_3d();
        Problem { axes: super::simplified::simplified(problem.axes), ..problem }
    }
}
