//! What is read, written and printed when all goes well.

use std::path::PathBuf;

use image::{ColorType, ImageDecoder, ImageEncoder, ImageReader, codecs::jpeg::JpegEncoder};

use crate::{
    pictures::{constant, picture},
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
