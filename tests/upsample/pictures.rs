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

/// A PNG of 8 x 1 zeros with so many bits a sample, of a colour type by its number in PNG, and some chunks.
pub fn small_png(bits: u8, kind: u8, chunks: &[([u8; 4], &[u8])]) -> Vec<u8> {
    // The filter's number, the samples; uncompressed in a stream of zlib, whose check sum of n zeros is n << 16 | 1.
    let row = vec![0; 1 + usize::from(bits)];
    let len = row.len() as u8;
    let stream = [&[0x78, 1, 1, len, 0, !len, 0xFF], row.as_slice(), &[0, len, 0, 1]].concat();
    let head = [0, 0, 0, 8, 0, 0, 0, 1, bits, kind, 0, 0, 0];
    let ends = ([(*b"IHDR", head.as_slice())], [(*b"IDAT", stream.as_slice()), (*b"IEND", &[])]);
    let chunks = [&ends.0, chunks, &ends.1].concat();
    let chunks = chunks.into_iter().map(|(name, data)| {
        let named = [&name, data].concat();
        [&(data.len() as u32).to_be_bytes(), named.as_slice(), &checksum(&named).to_be_bytes()].concat()
    });
    [b"\x89PNG\r\n\x1a\n".to_vec()].into_iter().chain(chunks).flatten().collect()
}

/// What stands at the end of a PNG's chunk: CRC-32 of its name and data.
pub fn checksum(bytes: &[u8]) -> u32 {
    let shift = |sum: u32| if sum & 1 == 1 { (sum >> 1) ^ 0xEDB8_8320 } else { sum >> 1 };
    let add = |sum: u32, &byte: &u8| (0..8).fold(sum ^ u32::from(byte), |sum, _| shift(sum));
    !bytes.iter().fold(u32::MAX, add)
}

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
