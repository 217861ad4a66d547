//! Whether a JPEG file is all there: decoders tend to fill up a missing end with grey and say nothing.

/// End of image.
const END: u8 = 0xD9;

/// Whether the segments of a JPEG file lead to its end marker.
pub fn is_reached(bytes: &[u8]) -> bool {
    let mut rest = bytes.get(2..).unwrap_or_default();
    while let Some(at) = rest.windows(2).position(is_marker) {
        if rest[at + 1] == END {
            return true;
        }
        // A segment begins with its length, which counts itself. Skipping it skips the end marker of a thumbnail
        // within.
        rest = match rest[at + 2..] {
            [high, low, ..] => rest.get(at + 2 + usize::from(u16::from_be_bytes([high, low]))..).unwrap_or_default(),
            _ => return false,
        };
    }
    false
}

/// Whether two bytes are a marker that begins a segment or ends the file: no escaped 0xFF, filler, or restart.
fn is_marker(pair: &[u8]) -> bool {
    pair[0] == 0xFF && !matches!(pair[1], 0x00 | 0xFF | 0xD0..=0xD7)
}
