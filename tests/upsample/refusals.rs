//! That whatever cannot be done is told in one line, with exit code 1 and no file changed.

use std::{fs, io::Cursor};

use image::{ColorType, ImageFormat};

use crate::{
    pictures::{PHOTOGRAPH, checksum, constant, photograph},
    workshop::Workshop,
};

#[test]
fn things_that_are_no_pictures() {
    let workshop = Workshop::new();
    workshop.put("text.png", b"This is not a picture.\nNot at all.\n");
    workshop.put("empty.png", b"");
    workshop.put("bitmap.png", b"BM\x46\0\0\0");
    workshop.put("zero.png", &with_size(PHOTOGRAPH, 0, 512));
    fs::create_dir(workshop.path("folder.png")).expect("a folder");
    for file in ["missing.png", "text.png", "empty.png", "bitmap.png", "zero.png", "folder.png"] {
        let message = workshop.refuses(&format!("{file} -o out.png"));
        assert!(message.contains(file), "{message}");
    }
}

#[test]
fn pictures_that_are_not_whole() {
    let workshop = Workshop::new();
    let mut jpeg = Cursor::new(Vec::new());
    photograph().write_to(&mut jpeg, ImageFormat::Jpeg).expect("a JPEG in memory");
    for (suffix, whole) in [("png", PHOTOGRAPH), ("jpg", jpeg.get_ref().as_slice())] {
        let len = whole.len();
        for cut in [4, 20, 100, len / 10, len / 2, len * 9 / 10, len - 2] {
            let file = format!("cut-{cut}.{suffix}");
            // Of a PNG the last bytes but two hold no pixels; a decoder may do without them.
            if cut < len - 2 || suffix == "jpg" {
                workshop.put(&file, &whole[..cut]);
                assert!(workshop.refuses(&format!("{file} -o out.png")).contains(&file));
            }
        }
    }
    let mut damaged = PHOTOGRAPH.to_vec();
    damaged[400_000..400_100].fill(0);
    workshop.put("damaged.png", &damaged);
    workshop.refuses("damaged.png -o out.png");
}

#[test]
fn pictures_beyond_memory() {
    let workshop = Workshop::new();
    workshop.put("bomb.png", &with_size(PHOTOGRAPH, 60_000, 60_000));
    assert!(workshop.refuses("bomb.png -o out.png").contains("60000 x 60000"));
    workshop.put("wide.png", &with_size(PHOTOGRAPH, 1 << 30, 1));
    workshop.refuses("wide.png -o out.png --scale 8");
    // Small enough to be read, far too large once enlarged.
    workshop.put("large.png", &with_size(PHOTOGRAPH, 13_000, 13_000));
    let message = workshop.refuses("large.png -o out.png --scale 8");
    let mut system = sysinfo::System::new().expect("a system that tells its memory");
    system.refresh_memory();
    // With more memory the file is read after all, and found to be too short.
    assert!(message.contains("GiB of memory") || system.total_memory() > 200 << 30, "{message}");
}

/// A PNG that claims to have another size.
fn with_size(png: &[u8], width: u32, height: u32) -> Vec<u8> {
    let mut bytes = png.to_vec();
    bytes[16..20].copy_from_slice(&width.to_be_bytes());
    bytes[20..24].copy_from_slice(&height.to_be_bytes());
    let checksum = checksum(&bytes[12..29]);
    bytes[29..33].copy_from_slice(&checksum.to_be_bytes());
    bytes
}

#[test]
fn bad_arguments() {
    let workshop = Workshop::new();
    workshop.put_image("in.png", &constant(ColorType::Rgb8, 8, 8));
    for scale in ["0", "1", "9", "99", "-2", "2.5", "999999999999", "99999999999999999999999", "abc"] {
        assert!(workshop.refuses(&format!("in.png -o out.png --scale={scale}")).contains(scale));
    }
    for mistake in ["--filter box", "--backend tpu", "--algorithm fft", "--frobnicate", "--output", "two.png"] {
        workshop.refuses(&format!("in.png {mistake}"));
    }
    assert!(workshop.refuses("in.png -o out.png --backend cpu --algorithm scatter").contains("scatter"));
}

#[test]
fn places_that_cannot_be_written() {
    let workshop = Workshop::new();
    workshop.put_image("in.png", &constant(ColorType::Rgb8, 8, 8));
    fs::create_dir(workshop.path("folder.png")).expect("a folder");
    let places = ["missing/out.png", "folder.png", "in.png/out.png", "out.gif", "out", "png"];
    let input = ["in.png", "./in.png", "folder.png/../in.png"];
    for output in places.into_iter().chain(input) {
        assert!(workshop.refuses(&format!("in.png -o {output}")).contains(output));
    }
    #[cfg(target_os = "linux")]
    workshop.refuses("in.png -o /proc/out.png");
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink("in.png", workshop.path("link.png")).expect("a link");
        workshop.refuses("in.png -o link.png");
        workshop.refuses("link.png -o in.png");
        std::os::unix::fs::symlink("circle.png", workshop.path("circle.png")).expect("a link");
        assert!(workshop.refuses("in.png -o circle.png").contains("leads nowhere"));
    }
}

#[cfg(unix)]
#[test]
fn files_that_may_not_be_replaced() {
    use std::os::unix::{fs::PermissionsExt, net::UnixListener};
    let workshop = Workshop::new();
    workshop.put_image("in.png", &constant(ColorType::Rgb8, 8, 8));
    let _socket = UnixListener::bind(workshop.path("socket.png")).expect("a socket");
    assert!(workshop.refuses("in.png -o socket.png").contains("no regular file"));
    assert!(UnixListener::bind(workshop.path("socket.png")).is_err(), "it is still there");
    workshop.put("kept.png", b"not to be written");
    fs::set_permissions(workshop.path("kept.png"), fs::Permissions::from_mode(0o400)).expect("a file of this test");
    assert!(workshop.refuses("in.png -o kept.png").contains("read-only"));
}

#[test]
fn pictures_that_a_jpeg_cannot_hold() {
    let workshop = Workshop::new();
    workshop.put_image("alpha.png", &constant(ColorType::Rgba8, 8, 8));
    assert!(workshop.refuses("alpha.png -o out.jpg").contains("transparency"));
    workshop.put_image("long.png", &constant(ColorType::L8, 9_000, 1));
    assert!(workshop.refuses("long.png -o out.jpg --scale 8").contains("72000"));
}
