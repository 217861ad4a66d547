//! burn's part: one problem, from random inputs to milliseconds.

use std::{ops::Range, time::Instant};

use anyhow::{Result, bail, ensure};
use burn::tensor::{
    Device, Distribution, Tensor,
    module::{conv_transpose1d, conv_transpose2d, conv_transpose3d},
};

use crate::{problem::Row, reference::relative_error};

const WARM_UP: usize = 3;
/// A call that takes longer is not repeated.
const LONG_MS: f64 = 2000.0;
/// Inputs are together larger than the L2 cache of any GPU.
const ROTATION_BYTES: usize = 512 << 20;
/// Well above TF32's error. What is worse is another function, whose time says nothing.
const LARGEST_ERROR: f64 = 1e-2;

/// What burn did on a problem.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Timing {
    /// Mean time of a call in milliseconds.
    pub ms: f64,
    /// Relative L2 error of sampled outputs.
    pub error: f64,
}

pub fn measure(row: &Row, repeats: usize, device: &Device) -> Result<Timing> {
    match row.input.len() {
        1 => {
            let options = row.options()?;
            measure_layer(row, repeats, device, |x, weight| conv_transpose1d(x, weight, None, options.clone()))
        }
        2 => {
            let options = row.options()?;
            measure_layer(row, repeats, device, |x, weight| conv_transpose2d(x, weight, None, options.clone()))
        }
        3 => {
            let options = row.options()?;
            measure_layer(row, repeats, device, |x, weight| conv_transpose3d(x, weight, None, options.clone()))
        }
        axes => bail!("burn has no transposed convolution with {axes} axes"),
    }
}

/// `RANK` is that of the tensors, two more than there are axes.
fn measure_layer<const RANK: usize>(
    row: &Row,
    repeats: usize,
    device: &Device,
    layer: impl Fn(Tensor<RANK>, Tensor<RANK>) -> Tensor<RANK>,
) -> Result<Timing> {
    let random = |shape: Vec<usize>| Tensor::<RANK>::random(shape, Distribution::Uniform(-1.0, 1.0), device);
    let inputs: Vec<_> = (0..input_count(row, repeats)).map(|_| random(row.input_shape())).collect();
    let weight = random(row.weight_shape());
    device.sync()?;

    let call = |index: usize| layer(inputs[index % inputs.len()].clone(), weight.clone());
    // Mean milliseconds.
    let clock = |indices: Range<usize>| -> Result<f64> {
        let count = indices.len();
        let start = Instant::now();
        for index in indices {
            call(index);
        }
        device.sync()?;
        Ok(start.elapsed().as_secs_f64() * 1e3 / count as f64)
    };

    let shape = call(0).dims();
    ensure!(shape[..] == row.output_shape(), "output of shape {shape:?} in place of {:?}", row.output_shape());
    let mut ms = 0.0;
    for index in 0..WARM_UP {
        ms = clock(index..index + 1)?;
        // The first one includes autotune.
        if index > 0 && ms > LONG_MS {
            break;
        }
    }
    if ms <= LONG_MS {
        ms = clock(WARM_UP..WARM_UP + repeats)?;
    }

    // Of the batch's first item.
    let values = |tensor: Tensor<RANK>| -> Result<Vec<f32>> {
        Ok(tensor.narrow(0, 0, 1).try_into_data()?.iter::<f32>().collect())
    };
    let output = values(call(0))?;
    let weight = weight.clone().try_into_data()?.iter::<f32>().collect::<Vec<_>>();
    let error = relative_error(row, &values(inputs[0].clone())?, &weight, &output);
    ensure!(error < LARGEST_ERROR, "wrong: relative error {error:.1e}, in {ms:.4} ms");
    Ok(Timing { ms, error })
}

fn input_count(row: &Row, repeats: usize) -> usize {
    let bytes = size_of::<f32>() * row.input_shape().iter().product::<usize>();
    ROTATION_BYTES.div_ceil(bytes).min(WARM_UP + repeats)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_are_larger_than_the_cache_but_never_more_than_calls() {
        let row: Row = serde_json::from_str(crate::problem::tests::UNEVEN).unwrap();
        assert_eq!(input_count(&row, 12), 15);
        let large = Row { batch: 64, in_channels: 32, input: vec![256, 256], ..row.clone() };
        assert_eq!(input_count(&large, 12), 1);
        let quarter = Row { batch: 16, in_channels: 32, input: vec![257, 256], ..row };
        assert_eq!(input_count(&quarter, 12), 4);
    }
}
