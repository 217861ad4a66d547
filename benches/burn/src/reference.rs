//! The definition, at some outputs.

use crate::problem::Row;

const SAMPLES: usize = 64;

/// Relative L2 error of some outputs of one item of the batch, against the definition in f64. Not a number if an output
/// is none.
pub fn relative_error(row: &Row, input: &[f32], weight: &[f32], output: &[f32]) -> f64 {
    let (mut error, mut norm) = (0.0, 0.0);
    for sample in 0..SAMPLES {
        // Spread over all of them: the golden ratio's multiples.
        let fraction = (sample as f64 * 0.618_033_988_749_895).fract();
        let position = (fraction * output.len() as f64) as usize;
        let expected = at(row, input, weight, position);
        error += (f64::from(output[position]) - expected).powi(2);
        norm += expected.powi(2);
    }
    // All zeros, as where no sample has a tap, are exact or infinitely wrong.
    if norm == 0.0 && error == 0.0 { 0.0 } else { (error / norm).sqrt() }
}

/// The output at a position, which counts channel by channel, with the last axis innermost.
fn at(row: &Row, input: &[f32], weight: &[f32], position: usize) -> f64 {
    let extents = &row.output_shape()[2..];
    let places: usize = extents.iter().product();
    let (channel, place) = (position / places, position % places);
    let target = coordinates(place, extents);
    let taps: usize = row.kernel.iter().product();
    let inputs: usize = row.input.iter().product();
    let (in_group, out_group) = (row.in_channels / row.groups, row.out_channels / row.groups);
    let (group, channel_in_group) = (channel / out_group, channel % out_group);

    let mut sum = 0.0;
    for tap in 0..taps {
        let Some(source) = source(row, &target, &coordinates(tap, &row.kernel)) else { continue };
        for in_channel in group * in_group..(group + 1) * in_group {
            let factor = weight[(in_channel * out_group + channel_in_group) * taps + tap];
            sum += f64::from(input[in_channel * inputs + source]) * f64::from(factor);
        }
    }
    sum
}

/// Which input a tap of the kernel brings to an output, if any.
fn source(row: &Row, target: &[usize], tap: &[usize]) -> Option<usize> {
    let mut index = 0;
    for axis in 0..target.len() {
        let spread = (target[axis] + row.padding[axis]).checked_sub(tap[axis] * row.dilation[axis])?;
        let coordinate = spread / row.stride[axis];
        if !spread.is_multiple_of(row.stride[axis]) || coordinate >= row.input[axis] {
            return None;
        }
        index = index * row.input[axis] + coordinate;
    }
    Some(index)
}

/// The coordinates of an index, with the last axis innermost.
fn coordinates(mut index: usize, extents: &[usize]) -> Vec<usize> {
    let mut coordinates = vec![0; extents.len()];
    for (coordinate, extent) in coordinates.iter_mut().zip(extents).rev() {
        *coordinate = index % extent;
        index /= extent;
    }
    coordinates
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(count: usize) -> Vec<f32> {
        (0..count).map(|index| (index * 7 % 11) as f32 - 5.0).collect()
    }

    /// By scattering: every input to the outputs that it reaches.
    fn scattered(row: &Row, input: &[f32], weight: &[f32]) -> Vec<f32> {
        let shape = &row.output_shape()[1..];
        let (height, width) = (shape[1], shape[2]);
        let out_group = row.out_channels / row.groups;
        let mut output = vec![0.0; shape.iter().product()];
        for (index, value) in input.iter().enumerate() {
            let [channel, y, x] = coordinates(index, &row.input_shape()[1..])[..] else { unreachable!() };
            let group = channel / (row.in_channels / row.groups);
            for tap in 0..out_group * row.kernel[0] * row.kernel[1] {
                let [out, down, right] = coordinates(tap, &row.weight_shape()[1..])[..] else { unreachable!() };
                let y = (y * row.stride[0] + down * row.dilation[0]).wrapping_sub(row.padding[0]);
                let x = (x * row.stride[1] + right * row.dilation[1]).wrapping_sub(row.padding[1]);
                if y < height && x < width {
                    let factor = weight[channel * row.weight_shape()[1..].iter().product::<usize>() + tap];
                    output[((group * out_group + out) * height + y) * width + x] += value * factor;
                }
            }
        }
        output
    }

    #[test]
    fn it_is_what_scattering_gives_and_notices_another() {
        let row: Row = serde_json::from_str(crate::problem::tests::UNEVEN).unwrap();
        let input = numbers(row.input_shape()[1..].iter().product());
        let weight = numbers(row.weight_shape().iter().product());
        let mut output = scattered(&row, &input, &weight);
        for (position, value) in output.iter().enumerate() {
            assert_eq!(at(&row, &input, &weight, position), f64::from(*value), "at {position}");
        }
        assert_eq!(relative_error(&row, &input, &weight, &output), 0.0);
        output.reverse();
        assert!(relative_error(&row, &input, &weight, &output) > 0.1);
        output.fill(f32::NAN);
        assert!(relative_error(&row, &input, &weight, &output).is_nan());
    }
}
