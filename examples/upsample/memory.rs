//! Whether there is memory for the work, asked before it begins: a machine that runs out of it ends the process without
//! a word.

use anyhow::{Result, bail};
use image::ColorType;
use sysinfo::System;

use crate::filter::Interpolation;

/// Refuses a picture whose enlargement needs more memory than is free.
pub fn check(width: u32, height: u32, colour: ColorType, interpolation: &Interpolation) -> Result<()> {
    let (needed, free) = (needed(width, height, colour, interpolation), free());
    if needed > free {
        let gib = |bytes: f64| bytes / f64::from(1 << 30);
        bail!(
            "enlarging {width} x {height} pixels {} times needs {:.1} GiB of memory, but {:.1} GiB are free",
            interpolation.scale,
            gib(needed),
            gib(free)
        );
    }
    Ok(())
}

/// Bytes for the work, from above.
fn needed(width: u32, height: u32, colour: ColorType, interpolation: &Interpolation) -> f64 {
    let border = 2.0 * interpolation.border() as f64;
    let before = (f64::from(width) + border) * (f64::from(height) + border);
    let after = f64::from(width) * f64::from(height) * (interpolation.scale * interpolation.scale) as f64;
    let (plane, packed) = (4.0 * f64::from(colour.channel_count()), f64::from(colour.bytes_per_pixel()));
    // The packed picture is turned upright in a copy before, and compressed by way of copies after.
    before * (plane + 2.0 * packed) + after * (plane + 3.0 * packed)
}

/// Bytes that can be had; without bound on a system that does not tell.
fn free() -> f64 {
    let Ok(mut system) = System::new() else { return f64::INFINITY };
    system.refresh_memory();
    let limit = system.cgroup_limits().map_or(u64::MAX, |group| group.total_memory);
    system.available_memory().min(limit) as f64
}
