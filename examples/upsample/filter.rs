//! Interpolation kernels as weights of a transposed convolution.
//!
//! Output pixel `o` has its centre at `(o + 1/2) / scale - 1/2` in units of input pixels (the convention that resizers
//! share, and that PyTorch calls `align_corners = false`). Input pixel `i` contributes `h(distance)` to it, where `h`
//! is the kernel. With stride `scale` tap `k` of `taps` thus lies at distance `(2 k + 1 - taps) / (2 scale)`, symmetric
//! for even and odd scales alike.
//!
//! The kernels are separable, yet this is one layer of two dimensions, its weight the outer product. Two layers, one
//! per axis, would take fewer products (12 instead of 36 per output element for lanczos3), but an intermediate picture
//! `scale` times the size of the input to hold, write and read again. One layer is the simpler thing, and what its time
//! is can be told plainly.

use clap::ValueEnum;
use conv_transpose::{ConvTranspose2d, Error, GeometryError, Tensor};

/// An interpolation kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Filter {
    /// Repeats each pixel.
    Nearest,
    /// Straight lines between pixels.
    Bilinear,
    /// Catmull-Rom splines: cubics with a = -1/2.
    Bicubic,
    /// A sinc under a sinc window of three lobes.
    Lanczos3,
}

impl Filter {
    /// How far from a pixel the kernel reaches, doubled so as to be whole.
    fn twice_radius(self) -> usize {
        match self {
            Self::Nearest => 1,
            Self::Bilinear => 2,
            Self::Bicubic => 4,
            Self::Lanczos3 => 6,
        }
    }

    /// The kernel at a distance within its radius.
    fn at(self, distance: f64) -> f64 {
        let x = distance.abs();
        match self {
            Self::Nearest => 1.0,
            Self::Bilinear => 1.0 - x,
            Self::Bicubic if x < 1.0 => (1.5 * x - 2.5) * x * x + 1.0,
            Self::Bicubic => ((-0.5 * x + 2.5) * x - 4.0) * x + 2.0,
            Self::Lanczos3 => sinc(x) * sinc(x / 3.0),
        }
    }
}

fn sinc(x: f64) -> f64 {
    let angle = std::f64::consts::PI * x;
    if angle == 0.0 { 1.0 } else { angle.sin() / angle }
}

/// A filter at a scale.
#[derive(Clone, Copy, Debug)]
pub struct Interpolation {
    /// The kernel.
    pub filter: Filter,
    /// The factor by which width and height grow.
    pub scale: usize,
}

impl Interpolation {
    /// By how many pixels the input must be continued on each side, so that the kernel finds a pixel wherever it
    /// reaches.
    pub fn border(&self) -> usize {
        self.filter.twice_radius() / 2
    }

    /// The layer that enlarges a continued input. Its padding cuts off what the continuation adds to the output.
    pub fn layer(&self, channels: usize) -> Result<ConvTranspose2d, GeometryError> {
        let taps = self.taps();
        let cut = self.border() * self.scale + (taps - self.scale) / 2;
        ConvTranspose2d::builder(channels, channels, [taps; 2])
            .stride([self.scale; 2])
            .padding([cut; 2])
            .groups(channels)
            .build()
    }

    /// The weight of [`layer`](Self::layer): the same outer product for every channel.
    pub fn weight(&self, layer: &ConvTranspose2d) -> Result<Tensor<f32, 2>, Error> {
        let line = self.line();
        let square: Vec<f32> = line.iter().flat_map(|y| line.iter().map(move |x| (y * x) as f32)).collect();
        Ok(Tensor::from_vec(layer.weight_shape(), square.repeat(layer.in_channels()))?)
    }

    /// Number of sub-pixel distances strictly within the radius.
    fn taps(&self) -> usize {
        let width = self.filter.twice_radius();
        // Where a tap would fall on the radius itself, on both sides, it is zero and left out.
        width * self.scale - (width + 1) * self.scale % 2
    }

    /// The kernel along one axis. The taps that meet in one output pixel, those `scale` apart, sum to 1.
    fn line(&self) -> Vec<f64> {
        let taps = self.taps();
        let distance = |k: usize| (2.0 * k as f64 + 1.0 - taps as f64) / (2.0 * self.scale as f64);
        let mut line: Vec<f64> = (0..taps).map(|k| self.filter.at(distance(k))).collect();
        for phase in 0..self.scale {
            let sum: f64 = line.iter().skip(phase).step_by(self.scale).sum();
            line.iter_mut().skip(phase).step_by(self.scale).for_each(|weight| *weight /= sum);
        }
        line
    }
}
