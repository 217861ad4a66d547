//! Plain convolution in `f64`, written from its own definition: the operator that transposed convolution is the adjoint
//! of.
//!
//! `z[n, ci, i] = sum of y[n, co, i * stride + k * dilation - pad_begin] * w[ci, co mod (Cout / groups), k]` over the
//! output channels `co` of the group of `ci` and all `k`, where positions outside of `y` count as zero. It shares
//! neither code nor tables with the library.

use crate::geometries::Geometry;

/// Every index of a grid with the given extents, in row-major order.
pub fn positions<const D: usize>(extent: [usize; D]) -> impl Iterator<Item = [usize; D]> {
    (0..extent.iter().product()).map(move |mut flat: usize| {
        let mut position = [0; D];
        for axis in (0..D).rev() {
            position[axis] = flat % extent[axis];
            flat /= extent[axis];
        }
        position
    })
}

/// The row-major index of a position.
pub fn flat<const D: usize>(extent: [usize; D], position: [usize; D]) -> usize {
    (0..D).fold(0, |flat, axis| flat * extent[axis] + position[axis])
}

/// Where in the output the input position `i` lands through the tap `k`; `None` if it is cut off.
pub fn lands<const D: usize>(geometry: &Geometry<D>, i: [usize; D], k: [usize; D]) -> Option<[usize; D]> {
    let extent = geometry.output();
    let mut position = [0; D];
    for (axis, parameters) in geometry.axes.iter().enumerate() {
        let o = (i[axis] * parameters.stride + k[axis] * parameters.dilation) as i64 - parameters.begin;
        position[axis] = usize::try_from(o).ok().filter(|&o| o < extent[axis])?;
    }
    Some(position)
}

/// The convolution of `y`, which has the output shape of `geometry`, to a tensor of its input shape.
pub fn forward<const D: usize>(geometry: &Geometry<D>, y: &[f32], weight: &[f32]) -> Vec<f64> {
    let (input, output) = (geometry.axes.map(|axis| axis.input), geometry.output());
    let kernel = geometry.axes.map(|axis| axis.kernel);
    let (output_volume, kernel_volume) = (output.iter().product::<usize>(), geometry.kernel_volume());
    let mut z = Vec::new();
    for n in 0..geometry.batch.unwrap_or(1) {
        for ci in 0..geometry.in_channels() {
            let group = ci / geometry.in_per_group;
            for i in positions(input) {
                let mut sum = 0.0;
                for k in positions(kernel) {
                    let Some(o) = lands(geometry, i, k) else { continue };
                    for c in 0..geometry.out_per_group {
                        let channel = n * geometry.out_channels() + group * geometry.out_per_group + c;
                        let y = y[channel * output_volume + flat(output, o)];
                        let w = weight[(ci * geometry.out_per_group + c) * kernel_volume + flat(kernel, k)];
                        sum += f64::from(y) * f64::from(w);
                    }
                }
                z.push(sum);
            }
        }
    }
    z
}
