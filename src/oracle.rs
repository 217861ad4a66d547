//! The definition of transposed convolution, computed literally: what every backend is compared with.
//!
//! Products and sums are in `f64`. Nothing here is shared with the backends: taps are found by trying every kernel
//! index. It is as slow as that sounds; [`output_at`] serves to check single elements of a large output.
//!
//! ```
//! use conv_transpose::{ConvTranspose1d, Shape, oracle};
//!
//! let layer = ConvTranspose1d::builder(1, 1, [3]).stride([2]).build()?;
//! let problem = layer.problem(Shape::unbatched(1, [2]))?;
//! let output = oracle::forward(&problem, &[10.0f32, 20.0], &[1.0, 2.0, 3.0], None);
//! assert_eq!(output, [10.0, 20.0, 30.0 + 20.0, 40.0, 60.0]);
//! # Ok::<(), conv_transpose::GeometryError>(())
//! ```

use rayon::prelude::*;

use crate::{Axis, Problem};

/// The output of `problem`, in row-major order.
///
/// `input`, `weight` and `bias` are row-major, of the problem's shapes.
///
/// # Panics
/// If a slice is shorter than its shape says.
pub fn forward<T, const D: usize>(problem: &Problem<D>, input: &[T], weight: &[T], bias: Option<&[T]>) -> Vec<f64>
where
    T: Copy + Into<f64> + Sync,
{
    let len: usize = problem.output_shape().dims().iter().product();
    (0..len).into_par_iter().map(|index| output_at(problem, input, weight, bias, index)).collect()
}

/// One element of the output of `problem`, by its row-major index.
///
/// # Panics
/// If a slice is shorter than its shape says.
pub fn output_at<T, const D: usize>(
    problem: &Problem<D>,
    input: &[T],
    weight: &[T],
    bias: Option<&[T]>,
    index: usize,
) -> f64
where
    T: Copy + Into<f64>,
{
    let axes = *problem.to_3d().axes();
    let [width, height, depth] = [axes[2].output, axes[1].output, axes[0].output];
    let (row, ox) = (index / width, index % width);
    let (plane, oy) = (row / height, row % height);
    let (channel, oz) = (plane / depth, plane % depth);
    let (sample, co) = (channel / problem.out_channels(), channel % problem.out_channels());

    let [taps_z, taps_y, taps_x] = [taps(&axes[0], oz), taps(&axes[1], oy), taps(&axes[2], ox)];
    let out_per_group = problem.out_channels() / problem.groups();
    let in_per_group = problem.in_channels() / problem.groups();
    let group = co / out_per_group;

    let mut sum = bias.map_or(0.0, |bias| bias[co].into());
    for ci in group * in_per_group..(group + 1) * in_per_group {
        for &(kz, iz) in &taps_z {
            for &(ky, iy) in &taps_y {
                for &(kx, ix) in &taps_x {
                    let x = sample * problem.in_channels() + ci;
                    let x = ((x * axes[0].input + iz) * axes[1].input + iy) * axes[2].input + ix;
                    let w = ci * out_per_group + co % out_per_group;
                    let w = ((w * axes[0].kernel + kz) * axes[1].kernel + ky) * axes[2].kernel + kx;
                    sum += input[x].into() * weight[w].into();
                }
            }
        }
    }
    sum
}

/// Every `(kernel index, input position)` that contributes to output position `o` of an axis.
fn taps(axis: &Axis, o: usize) -> Vec<(usize, usize)> {
    let stride = axis.stride as i128;
    (0..axis.kernel)
        .filter_map(|k| {
            let scaled = o as i128 + axis.pad_begin as i128 - k as i128 * axis.dilation as i128;
            let divides = scaled.rem_euclid(stride) == 0;
            let input = usize::try_from(scaled.div_euclid(stride)).ok()?;
            (divides && input < axis.input).then_some((k, input))
        })
        .collect()
}
