//! A picture as files hold it: decoding and encoding of PNG and JPEG.

use std::{
    fs,
    io::{Cursor, Write},
    path::Path,
};

use anyhow::{Context, Result, bail, ensure};
use image::{
    ColorType, DynamicImage, ImageDecoder, ImageEncoder, ImageFormat, ImageReader, Limits,
    codecs::{jpeg::JpegEncoder, png::PngEncoder},
};

use crate::{filter::Interpolation, jpeg_end, memory, planes};

/// The photograph that is enlarged if no other is named.
const BUNDLED: &[u8] = include_bytes!("../images/astronaut.png");
/// File name of the bundled photograph.
pub const BUNDLED_NAME: &str = "astronaut.png";
/// Quality of a JPEG, of 100: one that shows no blocks.
const JPEG_QUALITY: u8 = 92;
/// The largest file that is read, and what its pixels may take: the usual limit of decoders, here for both.
const MAX_BYTES: u64 = 512 << 20;
/// What decoders may take beside the pixels, for metadata above all, which may be compressed a thousandfold.
const MAX_BESIDE: u64 = 64 << 20;
/// The largest ICC profile that is kept; a JPEG could hold twice that.
const MAX_PROFILE: usize = 8 << 20;

/// Interleaved samples, row by row.
pub struct Picture {
    /// Pixels of a row; at least 1.
    pub width: u32,
    /// Number of rows; at least 1.
    pub height: u32,
    /// Which channels, and 8 or 16 bits of each.
    pub colour: ColorType,
    /// The samples, in native byte order.
    pub bytes: Vec<u8>,
    /// ICC profile that says what the samples mean.
    pub profile: Option<Vec<u8>>,
}

impl Picture {
    /// Reads a file, or the bundled photograph, unless there is too little memory to enlarge it.
    pub fn read(path: Option<&Path>, interpolation: &Interpolation) -> Result<Self> {
        let Some(path) = path else { return Self::decode(BUNDLED, interpolation) };
        read_file(path)
            .and_then(|bytes| Self::decode(&bytes, interpolation))
            .with_context(|| format!("cannot read {}", path.display()))
    }

    fn decode(bytes: &[u8], interpolation: &Interpolation) -> Result<Self> {
        let mut reader = ImageReader::new(Cursor::new(bytes)).with_guessed_format()?;
        // The pixels are not among it: their buffer is checked below. A profile beyond it is left out.
        let mut limits = Limits::default();
        limits.max_alloc = Some(MAX_BESIDE);
        reader.limits(limits);
        match reader.format() {
            Some(ImageFormat::Png) => {}
            Some(ImageFormat::Jpeg) => ensure!(jpeg_end::is_reached(bytes), "the file ends before the picture does"),
            _ => bail!("it is neither PNG nor JPEG"),
        }
        let mut decoder = reader.into_decoder()?;
        let (width, height) = decoder.dimensions();
        ensure!(decoder.total_bytes() <= MAX_BYTES, "{width} x {height} pixels exceed {} MiB", MAX_BYTES >> 20);
        memory::check(width, height, decoder.color_type(), interpolation)?;

        let orientation = decoder.orientation()?;
        let profile = decoder.icc_profile().unwrap_or_default();
        let mut image = DynamicImage::from_decoder(decoder)?;
        image.apply_orientation(orientation);
        Ok(Self::from_image(image, profile))
    }

    fn from_image(image: DynamicImage, profile: Option<Vec<u8>>) -> Self {
        let colour = image.color();
        // A decoder may have converted the colours, from CMYK say; the profile then no longer tells of them.
        let space: &[u8] = if colour.has_color() { b"RGB " } else { b"GRAY" };
        let profile = profile.filter(|profile| profile.len() <= MAX_PROFILE && profile.get(16..20) == Some(space));
        Self { width: image.width(), height: image.height(), colour, bytes: image.into_bytes(), profile }
    }

    /// Number of channels.
    pub fn channels(&self) -> usize {
        usize::from(self.colour.channel_count())
    }

    /// One sample, full scale being 1.
    pub fn sample(&self, x: usize, y: usize, channel: usize) -> f32 {
        let index = (y * self.width as usize + x) * self.channels() + channel;
        let value = match planes::sample_bytes(self.colour) {
            1 => f32::from(self.bytes[index]),
            _ => f32::from(u16::from_ne_bytes([self.bytes[2 * index], self.bytes[2 * index + 1]])),
        };
        value / planes::full_scale(self.colour)
    }

    /// Writes the picture as a file of the given format.
    pub fn encode(&self, writer: impl Write, format: ImageFormat) -> Result<()> {
        match format {
            ImageFormat::Jpeg => self.encode_with(JpegEncoder::new_with_quality(writer, JPEG_QUALITY)),
            _ => self.encode_with(PngEncoder::new(writer)),
        }
    }

    fn encode_with(&self, mut encoder: impl ImageEncoder) -> Result<()> {
        if let Some(profile) = &self.profile {
            encoder.set_icc_profile(profile.clone())?;
        }
        Ok(encoder.write_image(&self.bytes, self.width, self.height, self.colour.into())?)
    }
}

fn read_file(path: &Path) -> Result<Vec<u8>> {
    let facts = fs::metadata(path)?;
    ensure!(facts.is_file(), "it is not a file");
    ensure!(facts.len() <= MAX_BYTES, "it is larger than {} MiB", MAX_BYTES >> 20);
    Ok(fs::read(path)?)
}
