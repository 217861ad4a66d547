//! That pictures come out as they should: in place, with whole borders, like another resizer's, and as the definition
//! says.

use image::{ColorType, DynamicImage, imageops::FilterType};

use crate::{
    pictures::{COLOURS, constant, photograph, picture},
    workshop::Workshop,
};

/// Each filter with what the `image` crate, which resizes by code of its own, calls it.
const FILTERS: [(&str, FilterType); 4] = [
    ("nearest", FilterType::Nearest),
    ("bilinear", FilterType::Triangle),
    ("bicubic", FilterType::CatmullRom),
    ("lanczos3", FilterType::Lanczos3),
];

/// Every filter at every one of some scales.
fn at_scales<const N: usize>(scales: [u32; N]) -> impl Iterator<Item = (&'static str, FilterType, u32)> {
    FILTERS.into_iter().flat_map(move |(filter, other)| scales.map(|scale| (filter, other, scale)))
}

/// Peak signal-to-noise ratio of two 8-bit pictures in dB, `border` pixels at each side left out.
fn psnr(one: &DynamicImage, other: &DynamicImage, border: u32) -> f64 {
    let inner = |image: &DynamicImage| {
        image.crop_imm(border, border, image.width() - 2 * border, image.height() - 2 * border).into_bytes()
    };
    let (one, other) = (inner(one), inner(other));
    assert_eq!(one.len(), other.len());
    let squares: f64 = one.iter().zip(&other).map(|(&a, &b)| (f64::from(a) - f64::from(b)).powi(2)).sum();
    10.0 * (255.0 * 255.0 * one.len() as f64 / squares).log10()
}

#[test]
fn the_photograph_agrees_with_another_resizer() {
    let (workshop, photograph) = (Workshop::new(), photograph().crop_imm(128, 128, 256, 256));
    for (filter, other, scale) in at_scales([2, 3, 4]).filter(|(filter, ..)| filter.starts_with("bi")) {
        let ours = workshop.enlarge(&photograph, filter, scale);
        // Resizers differ in what they take to lie beyond the edge.
        let psnr = psnr(&ours, &photograph.resize_exact(scale * 256, scale * 256, other), 4 * scale);
        println!("{filter} x{scale}: {psnr:.1} dB");
        assert!(psnr > 60.0, "{filter} x{scale}: {psnr:.1} dB");
    }
}

#[test]
fn every_scale_agrees_with_another_resizer() {
    let (workshop, small) = (Workshop::new(), photograph().crop_imm(140, 360, 41, 36));
    for (filter, other, scale) in at_scales([2, 3, 4, 5, 6, 7, 8]) {
        let ours = workshop.enlarge(&small, filter, scale);
        assert_eq!((ours.width(), ours.height()), (41 * scale, 36 * scale));
        let psnr = psnr(&ours, &small.resize_exact(41 * scale, 36 * scale, other), 4 * scale);
        assert!(psnr > 60.0, "{filter} x{scale}: {psnr:.1} dB");
    }
}

#[test]
fn constant_pictures_stay_constant_up_to_the_border() {
    let workshop = Workshop::new();
    for colour in COLOURS {
        let before = constant(colour, 7, 5);
        for (filter, _, scale) in at_scales([2, 3, 4, 8]) {
            let after = workshop.enlarge(&before, filter, scale);
            assert!(after == constant(colour, 7 * scale, 5 * scale), "{colour:?} {filter} x{scale}");
        }
    }
}

#[test]
fn the_border_continues_the_edge() {
    let workshop = Workshop::new();
    // Rows that differ, columns that do not: nor do they in the result, whatever lies beyond the left and right edge.
    let rows = picture(ColorType::Rgb16, 6, 9, |_, y, channel| (y * 6_000 + channel as u32 * 5_000) as u16);
    for (filter, _, scale) in at_scales([2, 3, 8]) {
        let after = workshop.enlarge(&rows, filter, scale).to_rgb16();
        let middle = 3 * scale;
        assert!(after.enumerate_pixels().all(|(_, y, pixel)| {
            let middle = after.get_pixel(middle, y);
            (0..3).all(|channel| pixel[channel].abs_diff(middle[channel]) <= 1)
        }));
    }
}

#[test]
fn nearest_repeats_every_sample_exactly() {
    let workshop = Workshop::new();
    // Any opacity but none at all lets colour survive.
    let sample = |x: u32, y: u32, channel: usize| {
        ((x * 4_099 + y * 9_973 + channel as u32 * 20_011) % 65_000).max(16_384) as u16
    };
    for colour in COLOURS {
        let after = workshop.enlarge(&picture(colour, 9, 8, sample), "nearest", 3);
        assert!(after == picture(colour, 27, 24, |x, y, channel| sample(x / 3, y / 3, channel)), "{colour:?}");
    }
}

#[test]
fn a_turned_picture_gives_the_turned_result() {
    let (workshop, small) = (Workshop::new(), photograph().crop_imm(180, 60, 24, 24));
    for (filter, _, scale) in at_scales([2, 3, 5, 8]) {
        let plain = workshop.enlarge(&small, filter, scale).to_rgb8();
        let turned = workshop.enlarge(&small.rotate180(), filter, scale).rotate180().to_rgb8();
        // Sums are taken in the other order, which may tip a rounding.
        let largest = plain.iter().zip(turned.iter()).map(|(&a, &b)| a.abs_diff(b)).max();
        assert!(largest <= Some(1), "{filter} x{scale}: {largest:?}");
    }
}

#[test]
fn overshoot_is_clamped() {
    let workshop = Workshop::new();
    // Broad stripes of the extremes: wrapping would turn white into black. 8 columns of the result are a stripe's
    // middle.
    let stripes = picture(ColorType::L8, 16, 16, |x, _, _| if x / 4 % 2 == 0 { 0 } else { 65_535 });
    for filter in ["bicubic", "lanczos3"] {
        let after = workshop.enlarge(&stripes, filter, 4).to_luma8();
        for (x, _, pixel) in after.enumerate_pixels().filter(|(x, ..)| (4..12).contains(&(x % 16))) {
            let expected = if x / 16 % 2 == 0 { 0..32 } else { 224..256 };
            assert!(expected.contains(&i32::from(pixel[0])), "{filter}, column {x}: {}", pixel[0]);
        }
    }
}

#[test]
fn pictures_of_a_pixel_or_a_line_are_enlarged() {
    let workshop = Workshop::new();
    for (width, height) in [(1, 1), (1, 5), (5, 1)] {
        for (filter, _, scale) in at_scales([8]) {
            let after = workshop.enlarge(&constant(ColorType::Rgba8, width, height), filter, scale);
            assert!(after == constant(ColorType::Rgba8, scale * width, scale * height), "{width} x {height} {filter}");
        }
    }
}

#[test]
fn verification_passes_and_tells_the_difference() {
    let workshop = Workshop::new();
    workshop.put_image("in.png", &photograph().crop_imm(150, 50, 45, 35));
    for (filter, _, scale) in at_scales([2, 3, 8]) {
        let report = workshop.succeeds(&format!("in.png -o out.png --filter {filter} --scale {scale} --verify"));
        let difference = report.split("difference ").nth(1).and_then(|rest| rest.split(' ').next()).unwrap_or_default();
        let difference: f64 = difference.parse().unwrap_or_else(|_| panic!("no difference in\n{report}"));
        assert!(difference < 1e-4, "{filter} x{scale}: {difference}");
        assert!(report.contains(&format!("all {}", 45 * 35 * 3 * scale * scale)), "{report}");
    }
}

#[test]
fn a_gpu_agrees_with_the_definition_or_is_missed_in_one_line() {
    let workshop = Workshop::new();
    workshop.put_image("in.png", &photograph().crop_imm(150, 50, 90, 70));
    for algorithm in ["auto", "gather", "scatter"] {
        let arguments = format!("in.png -o out.png --backend cuda --verify --algorithm {algorithm}");
        let output = workshop.run(&arguments);
        if output.status.success() {
            assert!(String::from_utf8_lossy(&output.stdout).contains("verified"));
            assert_eq!((workshop.open("out.png").width(), workshop.open("out.png").height()), (180, 140));
            std::fs::remove_file(workshop.path("out.png")).expect("the result");
        } else {
            assert!(workshop.refuses(&arguments).to_lowercase().contains("cuda"));
        }
    }
}
