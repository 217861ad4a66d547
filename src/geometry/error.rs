//! What a geometry can be refused for: each reason with the argument, axis, value and limit.

use std::fmt;

use thiserror::Error;

/// The argument that a [`GeometryError`] speaks of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[expect(missing_docs, reason = "each variant is the argument of that name")]
pub enum Argument {
    InChannels,
    OutChannels,
    Kernel,
    Stride,
    Padding,
    OutputPadding,
    OutputSize,
    OutputShape,
    AutoPad,
    Dilation,
    Groups,
    Batch,
    Input,
    Weight,
    Bias,
    Output,
}

impl fmt::Display for Argument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::InChannels => "in_channels",
            Self::OutChannels => "out_channels",
            Self::Kernel => "kernel",
            Self::Stride => "stride",
            Self::Padding => "padding",
            Self::OutputPadding => "output_padding",
            Self::OutputSize => "output_size",
            Self::OutputShape => "output_shape",
            Self::AutoPad => "auto_pad",
            Self::Dilation => "dilation",
            Self::Groups => "groups",
            Self::Batch => "batch",
            Self::Input => "input",
            Self::Weight => "weight",
            Self::Bias => "bias",
            Self::Output => "output",
        })
    }
}

/// Why a geometry, or a tensor offered to it, is refused. An `axis` counts spatial axes from 0, outermost first.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum GeometryError {
    /// A channel count or the number of groups is zero.
    #[error("{argument} is 0, but must be at least 1")]
    ZeroCount {
        /// `in_channels`, `out_channels` or `groups`.
        argument: Argument,
    },
    /// A kernel extent, stride, dilation, input extent or extent of `output_shape` is zero on one axis.
    #[error("{argument} is 0 on spatial axis {axis}, but must be at least 1")]
    ZeroExtent {
        /// `kernel`, `stride`, `dilation`, `input` or `output_shape`.
        argument: Argument,
        /// The spatial axis.
        axis: usize,
    },
    /// `groups` does not divide a channel count.
    #[error("{argument} is {channels}, which groups = {groups} does not divide")]
    Groups {
        /// `in_channels` or `out_channels`.
        argument: Argument,
        /// That channel count.
        channels: usize,
        /// The number of groups.
        groups: usize,
    },
    /// `output_padding` reaches the larger of stride and dilation.
    #[error("output_padding is {value} on spatial axis {axis}, but must be below max(stride, dilation) = {limit}")]
    OutputPadding {
        /// The spatial axis.
        axis: usize,
        /// The output padding asked for.
        value: usize,
        /// The first value that is refused.
        limit: usize,
    },
    /// `output_size` is not among the extents that stride and padding can produce.
    #[error(
        "output_size is {value} on spatial axis {axis}, but an input extent of {input} reaches only {min} to {max}"
    )]
    OutputSize {
        /// The spatial axis.
        axis: usize,
        /// The output size asked for.
        value: usize,
        /// The input extent of that axis.
        input: usize,
        /// The smallest extent in reach.
        min: i128,
        /// The largest extent in reach.
        max: i128,
    },
    /// The output would have no positions on one axis.
    #[error(
        "the output extent is {extent} on spatial axis {axis}, but must be at least 1: padding is too large for this input and kernel"
    )]
    OutputExtent {
        /// The spatial axis.
        axis: usize,
        /// The extent that the parameters give.
        extent: i128,
    },
    /// Two arguments both claim to decide the same thing.
    #[error("{first} and {second} cannot be given together: {reason}")]
    Conflict {
        /// One of the arguments.
        first: Argument,
        /// The other one.
        second: Argument,
        /// What both would decide.
        reason: &'static str,
    },
    /// A list of dimensions has the wrong length.
    #[error("{argument} has {rank} dimensions, but {spatial_axes} spatial axes need {} (unbatched) or {} (batched)", spatial_axes + 1, spatial_axes + 2)]
    Rank {
        /// The tensor in question.
        argument: Argument,
        /// Number of spatial axes expected.
        spatial_axes: usize,
        /// Number of dimensions given.
        rank: usize,
    },
    /// The input has another number of channels than the layer.
    #[error("input has {value} channels, but the layer has in_channels = {expected}")]
    Channels {
        /// Channels of the input.
        value: usize,
        /// Channels that the layer takes.
        expected: usize,
    },
    /// A tensor has another shape than the problem.
    #[error("{argument} has shape {value:?}, but {expected:?} is needed")]
    ShapeMismatch {
        /// The tensor in question.
        argument: Argument,
        /// Its shape.
        value: Vec<usize>,
        /// The shape needed.
        expected: Vec<usize>,
    },
    /// A buffer holds another number of elements than its shape, or a bias another number than `out_channels`.
    #[error("{argument} has {value} elements, but {expected} are needed")]
    Length {
        /// The buffer in question.
        argument: Argument,
        /// Its number of elements.
        value: usize,
        /// The number needed.
        expected: usize,
    },
    /// An extent or a number of elements does not fit in the address space.
    #[error("the size of {argument} overflows: more than {limit} elements cannot be addressed")]
    Overflow {
        /// The tensor whose size overflows.
        argument: Argument,
        /// The largest number of elements that can be addressed.
        limit: usize,
    },
}
