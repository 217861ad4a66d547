//! Pictures to work on.

use std::io::Cursor;

use image::{ColorType, DynamicImage, ImageEncoder, codecs::png::PngEncoder};

pub const PHOTOGRAPH: &[u8] = include_bytes!("../../examples/images/astronaut.png");

pub const COLOURS: [ColorType; 8] = [
    ColorType::L8,
    ColorType::La8,
    ColorType::Rgb8,
    ColorType::Rgba8,
    ColorType::L16,
    ColorType::La16,
    ColorType::Rgb16,
    ColorType::Rgba16,
];

/// The bundled photograph.
pub fn photograph() -> DynamicImage {
    image::load_from_memory(PHOTOGRAPH).expect("the bundled photograph")
}

/// A picture from its 16-bit samples by column, row and channel; they lose their lower half in an 8-bit one.
pub fn picture(colour: ColorType, width: u32, height: u32, sample: impl Fn(u32, u32, usize) -> u16) -> DynamicImage {
    let channels = usize::from(colour.channel_count());
    let mut bytes = Vec::new();
    for (y, x) in (0..height).flat_map(|y| (0..width).map(move |x| (y, x))) {
        for value in (0..channels).map(|channel| sample(x, y, channel)) {
            match usize::from(colour.bytes_per_pixel()) / channels {
                1 => bytes.push((value >> 8) as u8),
                _ => bytes.extend(value.to_ne_bytes()),
            }
        }
    }
    let mut file = Cursor::new(Vec::new());
    PngEncoder::new(&mut file).write_image(&bytes, width, height, colour.into()).expect("a PNG in memory");
    image::load_from_memory(file.get_ref()).expect("the PNG just made")
}

/// A picture of which each pixel is the same, half transparent if it has an alpha channel.
pub fn constant(colour: ColorType, width: u32, height: u32) -> DynamicImage {
    let mut samples = [51_000, 9_000, 65_535, 0];
    if colour.has_alpha() {
        samples[usize::from(colour.channel_count()) - 1] = 22_222;
    }
    picture(colour, width, height, |_, _, channel| samples[channel])
}
