//! What is read, written and printed when all goes well.

use std::path::PathBuf;

use image::{
    ColorType, ImageDecoder, ImageEncoder, ImageReader,
    codecs::{jpeg::JpegEncoder, png::PngEncoder},
};

use crate::{
    pictures::{constant, picture, small_png},
    workshop::Workshop,
};

#[test]
fn without_arguments_the_bundled_photograph_is_doubled() {
    let workshop = Workshop::new();
    let output = workshop.run("");
    assert!(output.status.success() && output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    let files: Vec<PathBuf> = workshop.files().into_keys().collect();
    assert_eq!(files, [workshop.path("astronaut-2x.png")]);
    assert!(String::from_utf8_lossy(&output.stdout).contains("astronaut-2x.png"));
    let doubled = workshop.open("astronaut-2x.png");
    assert_eq!((doubled.width(), doubled.height(), doubled.color()), (1024, 1024, ColorType::Rgb8));
}

#[test]
fn the_report_names_device_algorithm_times_and_file() {
    let workshop = Workshop::new();
    workshop.put_image("in.png", &constant(ColorType::Rgb8, 20, 10));
    let report = workshop.succeeds("in.png --output out.png");
    for fact in ["20 x 10, RGB, 8 bit", "40 x 20", "CPU", "algorithm", "copies", "compute", " ms", "GB/s", "out.png"] {
        assert!(report.contains(fact), "{fact} is missing in\n{report}");
    }
}

#[test]
fn help_is_no_error() {
    let output = Workshop::new().run("--help");
    assert!(output.status.success() && output.stderr.is_empty());
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(["--scale", "--filter", "--verify", "lanczos3"].iter().all(|word| text.contains(word)), "{text}");
    // What it says of colours is what `colours_that_are_packed_or_listed_become_channels` finds.
    assert!(["palette", "alpha channel", "16 bits"].iter().all(|word| text.contains(word)), "{text}");
}

#[test]
fn colours_that_are_packed_or_listed_become_channels() {
    let workshop = Workshop::new();
    let (palette, no_chunk) = ((*b"PLTE", [9, 8, 7, 200, 100, 50].as_slice()), (*b"tEXt", b"a\0b".as_slice()));
    let (clear_grey, clear_entry) = ((*b"tRNS", [0, 1].as_slice()), (*b"tRNS", [0].as_slice()));
    // Colour types of PNG: 0 is grey, 2 is RGB, 3 is a palette.
    let cases = [
        (1, 0, no_chunk, no_chunk, ColorType::L8),
        (2, 0, no_chunk, no_chunk, ColorType::L8),
        (4, 0, no_chunk, no_chunk, ColorType::L8),
        (16, 0, no_chunk, no_chunk, ColorType::L16),
        (1, 0, no_chunk, clear_grey, ColorType::La8),
        (1, 3, palette, no_chunk, ColorType::Rgb8),
        (8, 3, palette, no_chunk, ColorType::Rgb8),
        (1, 3, palette, clear_entry, ColorType::Rgba8),
    ];
    for (bits, kind, first, second, expected) in cases {
        workshop.put("in.png", &small_png(bits, kind, &[first, second]));
        workshop.succeeds("in.png -o out.png");
        assert_eq!(workshop.open("out.png").color(), expected, "{bits} bits of type {kind}");
    }
}

#[test]
fn jpegs_are_read_and_written() {
    let workshop = Workshop::new();
    for colour in [ColorType::L8, ColorType::Rgb8] {
        workshop.put_image("in.jpg", &constant(colour, 33, 17));
        workshop.succeeds("in.jpg -o out.png");
        let after = workshop.open("out.png");
        assert_eq!((after.width(), after.height(), after.color()), (66, 34, colour));
    }
    for (colour, kept) in [(ColorType::Rgb16, ColorType::Rgb8), (ColorType::L16, ColorType::L8)] {
        workshop.put_image("in.png", &constant(colour, 16, 16));
        workshop.succeeds("in.png -o out.JPG");
        let after = workshop.open("out.JPG");
        assert_eq!((after.width(), after.height(), after.color()), (32, 32, kept));
        let off = after.as_bytes().iter().zip(constant(kept, 32, 32).as_bytes()).map(|(&a, &b)| a.abs_diff(b)).max();
        assert!(off <= Some(3), "{colour:?}: {off:?}");
    }
}

#[test]
fn orientation_and_profile_of_a_jpeg_are_heeded() {
    let workshop = Workshop::new();
    // Dark on the left, to be turned clockwise by a quarter for display (orientation 6): then dark is at the top.
    let half = picture(ColorType::Rgb8, 32, 16, |x, _, _| if x < 16 { 0 } else { 65_535 });
    let exif = [b"II*\0\x08\0\0\0\x01\0".as_slice(), b"\x12\x01\x03\0\x01\0\0\0\x06\0\0\0", b"\0\0\0\0"].concat();
    let mut profile = vec![0; 128];
    profile[16..20].copy_from_slice(b"RGB ");
    let mut file = Vec::new();
    let mut encoder = JpegEncoder::new(&mut file);
    encoder.set_exif_metadata(exif).expect("a JPEG holds EXIF");
    encoder.set_icc_profile(profile.clone()).expect("a JPEG holds a profile");
    encoder.write_image(half.as_bytes(), 32, 16, half.color().into()).expect("a JPEG in memory");
    workshop.put("in.jpg", &file);

    workshop.succeeds("in.jpg -o out.png");
    let after = workshop.open("out.png").to_luma8();
    assert_eq!(after.dimensions(), (32, 64));
    assert!(after.get_pixel(16, 8)[0] < 40 && after.get_pixel(16, 56)[0] > 215);
    let reader = ImageReader::open(workshop.path("out.png")).expect("the result");
    assert_eq!(reader.into_decoder().expect("a PNG").icc_profile().expect("readable"), Some(profile));
}

#[test]
fn a_profile_is_kept_up_to_8_mib() {
    let workshop = Workshop::new();
    for (len, is_kept) in [(8 << 20, true), ((8 << 20) + 1, false), (70 << 20, false)] {
        let mut profile = vec![0; len];
        profile[16..20].copy_from_slice(b"GRAY");
        let mut file = Vec::new();
        let mut encoder = PngEncoder::new(&mut file);
        encoder.set_icc_profile(profile).expect("a PNG holds a profile");
        encoder.write_image(&[7], 1, 1, ColorType::L8.into()).expect("a PNG in memory");
        workshop.put("in.png", &file);
        workshop.succeeds("in.png -o out.png");
        let reader = ImageReader::open(workshop.path("out.png")).expect("the result");
        let kept = reader.into_decoder().expect("a PNG").icc_profile().expect("readable");
        assert_eq!(kept.map(|profile| profile.len()), is_kept.then_some(len));
    }
}

#[test]
fn an_earlier_result_is_replaced_whole() {
    let workshop = Workshop::new();
    workshop.put_image("in.png", &constant(ColorType::L8, 8, 8));
    workshop.put("out.png", &[7; 100_000]);
    workshop.succeeds("in.png -o out.png");
    assert!(workshop.open("out.png") == constant(ColorType::L8, 16, 16));
    assert_eq!(workshop.files().len(), 2);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = |name: &str| std::fs::metadata(workshop.path(name)).expect("a file").permissions().mode();
        assert_eq!(mode("out.png"), mode("in.png"));
    }
}

#[cfg(unix)]
#[test]
fn permissions_of_an_earlier_result_are_kept() {
    use std::{fs, os::unix::fs::PermissionsExt};
    let workshop = Workshop::new();
    workshop.put_image("in.png", &constant(ColorType::L8, 8, 8));
    workshop.put("out.png", b"an earlier result");
    fs::set_permissions(workshop.path("out.png"), fs::Permissions::from_mode(0o640)).expect("a file of this test");
    workshop.succeeds("in.png -o out.png");
    assert_eq!(fs::metadata(workshop.path("out.png")).expect("the result").permissions().mode() & 0o777, 0o640);
}

#[cfg(unix)]
#[test]
fn a_link_is_followed_to_what_it_leads_to() {
    use std::{fs, os::unix::fs::symlink};
    let workshop = Workshop::new();
    workshop.put_image("in.png", &constant(ColorType::L8, 8, 8));
    fs::create_dir(workshop.path("folder")).expect("a folder");
    // A link to a link, from another folder back to this one.
    symlink("folder/second.png", workshop.path("first.png")).expect("a link");
    symlink("../target.png", workshop.path("folder/second.png")).expect("a link");
    for earlier in [None, Some(b"an earlier result")] {
        earlier.inspect(|bytes| workshop.put("target.png", bytes.as_slice()));
        assert!(workshop.succeeds("in.png -o first.png").contains("first.png"));
        assert!(workshop.open("target.png") == constant(ColorType::L8, 16, 16));
        fs::remove_file(workshop.path("target.png")).expect("a file, and no link");
        let links = ["first.png", "folder/second.png"].map(|name| workshop.path(name));
        assert!(links.iter().all(|link| link.is_symlink()));
    }
}
