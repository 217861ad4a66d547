//! That transparency is filtered along with colour, and colour by what shows of it.

use image::{
    ColorType,
    imageops::{self, FilterType},
};

use crate::{pictures::picture, workshop::Workshop};

#[test]
fn colour_hidden_under_full_transparency_does_not_bleed() {
    let workshop = Workshop::new();
    // Left half opaque orange, right half invisible green.
    let (shown, hidden) = ([60_000, 30_000, 1_000, 65_535], [0, 65_535, 0, 0]);
    let orange = [234, 117, 3];
    let half = picture(ColorType::Rgba8, 12, 6, |x, _, channel| if x < 6 { shown[channel] } else { hidden[channel] });
    for (filter, scale) in
        ["nearest", "bilinear", "bicubic", "lanczos3"].map(|filter| [(filter, 2), (filter, 3)]).concat()
    {
        let after = workshop.enlarge(&half, filter, scale).to_rgba8();
        for (x, _, pixel) in after.enumerate_pixels() {
            let expected = if pixel[3] == 0 { [0; 3] } else { orange };
            assert_eq!(pixel.0[..3], expected, "{filter} x{scale}, column {x}, opacity {}", pixel[3]);
        }
        assert_eq!((after.get_pixel(0, 0)[3], after.get_pixel(12 * scale - 1, 0)[3]), (255, 0));
    }
}

#[test]
fn opacity_is_filtered_like_any_channel() {
    let workshop = Workshop::new();
    let dot = |x: u32, y: u32| if (x, y) == (7, 7) { 65_535 } else { 0 };
    let white = picture(ColorType::La8, 15, 15, |x, y, channel| if channel == 0 { 65_535 } else { dot(x, y) });
    let ours = workshop.enlarge(&white, "bilinear", 4).to_luma_alpha8();
    let opacity = picture(ColorType::L8, 15, 15, |x, y, _| dot(x, y)).to_luma8();
    let theirs = imageops::resize(&opacity, 60, 60, FilterType::Triangle);
    assert!(ours.pixels().zip(theirs.pixels()).all(|(ours, theirs)| ours[1].abs_diff(theirs[0]) <= 1));
}

#[test]
fn a_wholly_transparent_picture_stays_so() {
    let workshop = Workshop::new();
    for colour in [ColorType::Rgba8, ColorType::La16] {
        let alpha = usize::from(colour.channel_count()) - 1;
        let hidden = picture(colour, 5, 4, |_, _, channel| if channel == alpha { 0 } else { 40_000 });
        let after = workshop.enlarge(&hidden, "lanczos3", 2);
        assert!(after == picture(colour, 10, 8, |_, _, _| 0), "{colour:?}");
    }
}
