//! Direct convolution by phase.

use rayon::prelude::*;

use crate::{Axis, Problem};

/// Computes the output of `problem` from slices of its shapes.
pub(super) fn forward(problem: &Problem<3>, input: &[f32], weight: &[f32], bias: Option<&[f32]>, output: &mut [f32]) {
    let [az, ay, ax] = *problem.axes();
    let phases = [az, ay, ax].map(|axis| axis.phases());
    let (ipg, opg) = (problem.in_channels_per_group(), problem.out_channels_per_group());
    output.par_chunks_mut(ax.output).enumerate().for_each(|(row, out)| {
        let (plane, oy) = (row / ay.output, row % ay.output);
        let (channel, oz) = (plane / az.output, plane % az.output);
        let (n, co) = (channel / problem.out_channels(), channel % problem.out_channels());
        let taps = |axis: &Axis, phases: &[crate::Phase], o: usize| -> Vec<(usize, usize)> {
            let phase = phases[o % axis.stride];
            (0..phase.taps)
                .filter_map(|t| {
                    let i = phase.first_input + (o / axis.stride) as isize - (t * axis.input_step()) as isize;
                    let i = usize::try_from(i).ok()?;
                    (i < axis.input).then_some((phase.first_tap + t * axis.tap_step(), i))
                })
                .collect()
        };
        let (tz, ty) = (taps(&az, &phases[0], oz), taps(&ay, &phases[1], oy));
        for (ox, y) in out.iter_mut().enumerate() {
            let mut sum = bias.map_or(0.0, |bias| bias[co]);
            let tx = taps(&ax, &phases[2], ox);
            for ci in co / opg * ipg..(co / opg + 1) * ipg {
                for &(kz, iz) in &tz {
                    for &(ky, iy) in &ty {
                        for &(kx, ix) in &tx {
                            let x =
                                ((((n * problem.in_channels() + ci) * az.input) + iz) * ay.input + iy) * ax.input + ix;
                            let w = (((ci * opg + co % opg) * az.kernel + kz) * ay.kernel + ky) * ax.kernel + kx;
                            sum = input[x].mul_add(weight[w], sum);
                        }
                    }
                }
            }
            *y = sum;
        }
    });
}
