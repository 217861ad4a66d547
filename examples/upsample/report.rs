//! What is printed after the work.

use std::{fmt::Write, path::Path, time::Duration};

use clap::ValueEnum;
use image::ColorType;

use crate::{backend::Run, filter::Filter, picture::Picture, planes, verify::Verdict};

/// Everything there is to tell.
pub struct Facts<'a> {
    /// The picture that was read.
    pub before: &'a Picture,
    /// The picture that was written.
    pub after: &'a Picture,
    /// The interpolation kernel.
    pub filter: Filter,
    /// Why the CPU was taken, if that was not asked for.
    pub note: Option<String>,
    /// What the backend did.
    pub run: &'a Run,
    /// Bytes of input, weight and output.
    pub moved: usize,
    /// What the comparison with the definition gave.
    pub verdict: Option<Verdict>,
    /// Where the picture was written.
    pub path: &'a Path,
}

/// The report, one fact a line.
pub fn text(facts: &Facts<'_>) -> String {
    let Facts { before, after, run, .. } = facts;
    let filter = facts.filter.to_possible_value().map_or(String::new(), |value| value.get_name().to_owned());
    let mut text = String::new();
    let mut line = |name: &str, value: String| {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{name:<10} {value}");
    };
    line("picture", format!("{} x {}, {}", before.width, before.height, colour(before.colour)));
    line("enlarged", format!("{} x {}, {}, {filter}", after.width, after.height, colour(after.colour)));
    if let Some(note) = &facts.note {
        line("note", note.clone());
    }
    line("device", run.device.clone());
    line("algorithm", run.algorithm.clone());
    line("copies", run.copy.map_or("none".into(), milliseconds));
    let rate = facts.moved as f64 / run.compute.as_secs_f64() / 1e9;
    line("compute", format!("{}, {rate:.2} GB/s of input, weight and output", milliseconds(run.compute)));
    if let Some(verdict) = &facts.verdict {
        line("verified", verified(verdict, after.colour));
    }
    line("written", std::path::absolute(facts.path).unwrap_or(facts.path.into()).display().to_string());
    text
}

fn milliseconds(time: Duration) -> String {
    format!("{:.3} ms", time.as_secs_f64() * 1e3)
}

fn verified(verdict: &Verdict, colour: ColorType) -> String {
    let Verdict { difference, compared, of } = verdict;
    let steps = difference * f64::from(planes::full_scale(colour));
    let share = if compared == of { format!("all {of}") } else { format!("{compared} of {of}, evenly spread") };
    format!("largest difference {difference:.2e} of full scale, {steps:.2e} sample steps; elements: {share}")
}

/// The name of a colour type.
fn colour(colour: ColorType) -> String {
    let name = match (colour.has_color(), colour.has_alpha()) {
        (false, false) => "grey",
        (false, true) => "grey and alpha",
        (true, false) => "RGB",
        (true, true) => "RGBA",
    };
    format!("{name}, {} bit", 8 * planes::sample_bytes(colour))
}
