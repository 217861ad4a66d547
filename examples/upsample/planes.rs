//! Between the interleaved integers of a picture and planes of floats, one per channel.
//!
//! In the planes full scale is 1, and colour is multiplied by opacity: what shows of a pixel is what spreads to its
//! neighbours, and the colour of a fully transparent one does not. The samples are taken as they are, without undoing
//! gamma, as resizers do.

use conv_transpose::{Error, Shape, Tensor};
use image::ColorType;
use rayon::prelude::*;

use crate::picture::Picture;

/// The planes of a picture, continued by `border` pixels on each side with the pixels of its edge.
pub fn from_picture(picture: &Picture, border: usize) -> Result<Tensor<f32, 2>, Error> {
    let (width, height) = (picture.width as usize, picture.height as usize);
    let extent = [height + 2 * border, width + 2 * border];
    let mut planes = Tensor::filled(Shape::unbatched(picture.channels(), extent), 0.0)?;
    let alpha = alpha_channel(picture.colour);
    planes.as_mut_slice().par_chunks_mut(extent[1]).enumerate().for_each(|(row, values)| {
        let (channel, y) = (row / extent[0], (row % extent[0]).saturating_sub(border).min(height - 1));
        for (x, value) in values.iter_mut().enumerate() {
            let x = x.saturating_sub(border).min(width - 1);
            let opacity = alpha.filter(|&alpha| alpha != channel).map_or(1.0, |alpha| picture.sample(x, y, alpha));
            *value = picture.sample(x, y, channel) * opacity;
        }
    });
    Ok(planes)
}

/// The picture of planes, rounded and clamped to what `colour` can hold.
pub fn to_picture(planes: &Tensor<f32, 2>, colour: ColorType, profile: Option<Vec<u8>>) -> Result<Picture, Error> {
    let [height, width] = planes.shape().extent;
    let pixel_bytes = usize::from(colour.bytes_per_pixel());
    // A tensor, because making one fails, instead of aborting, where there is no memory.
    let mut bytes = Tensor::filled(Shape::unbatched(height, [width, pixel_bytes]), 0)?;
    let (values, alpha) = (planes.as_slice(), alpha_channel(colour));
    let value = |channel: usize, pixel: usize| values[channel * height * width + pixel];
    bytes.as_mut_slice().par_chunks_mut(pixel_bytes).enumerate().for_each(|(pixel, bytes)| {
        let opacity = alpha.map(|alpha| value(alpha, pixel));
        for (channel, bytes) in bytes.chunks_mut(sample_bytes(colour)).enumerate() {
            let divisor = if alpha == Some(channel) { None } else { opacity };
            store(divide(value(channel, pixel), divisor, full_scale(colour)), full_scale(colour), bytes);
        }
    });
    Ok(Picture { width: width as u32, height: height as u32, colour, bytes: bytes.into_vec(), profile })
}

/// Takes opacity out of a colour again. What rounds to fully transparent is black.
fn divide(value: f32, opacity: Option<f32>, full_scale: f32) -> f32 {
    match opacity {
        Some(opacity) if opacity * full_scale < 0.5 => 0.0,
        Some(opacity) => value / opacity,
        None => value,
    }
}

/// Writes a sample of one or two bytes.
fn store(value: f32, full_scale: f32, bytes: &mut [u8]) {
    let value = (value.clamp(0.0, 1.0) * full_scale).round() as u16;
    match bytes {
        [byte] => *byte = value as u8,
        bytes => bytes.copy_from_slice(&value.to_ne_bytes()),
    }
}

/// The channel that holds the opacity: the last one, if any.
fn alpha_channel(colour: ColorType) -> Option<usize> {
    colour.has_alpha().then(|| usize::from(colour.channel_count()) - 1)
}

/// Bytes of one sample: 1 or 2.
pub fn sample_bytes(colour: ColorType) -> usize {
    usize::from(colour.bytes_per_pixel() / colour.channel_count())
}

/// The largest value of a sample.
pub fn full_scale(colour: ColorType) -> f32 {
    if sample_bytes(colour) == 1 { 255.0 } else { 65535.0 }
}
