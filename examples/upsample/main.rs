//! Enlarges a picture by a transposed convolution: `cargo run --release --example upsample -- photo.jpg --scale 3`.
//!
//! Interpolation by a whole factor *is* a transposed convolution: stride = factor, one group per channel, and the
//! interpolation kernel, sampled at the sub-pixel positions, for a weight. This program builds that layer, runs it on a
//! GPU or the CPU, and tells how long it took. Without arguments it enlarges a bundled photograph.

mod arguments;
mod backend;
mod cpu;
#[cfg_attr(not(feature = "cuda"), path = "without_cuda.rs")]
mod cuda;
mod destination;
mod filter;
mod jpeg_end;
mod memory;
mod picture;
mod planes;
mod report;
mod verify;

use std::{io::Write, process::ExitCode};

use arguments::Arguments;
use destination::Destination;
use filter::Interpolation;
use picture::Picture;

fn main() -> ExitCode {
    let arguments = match arguments::parse() {
        Ok(arguments) => arguments,
        Err(refusal) => return refusal.exit(),
    };
    match upsample(&arguments) {
        Ok(report) => {
            // A reader that closed the pipe has seen enough; the picture is written all the same.
            let _ = std::io::stdout().write_all(report.as_bytes());
            ExitCode::SUCCESS
        }
        Err(error) => arguments::fail(&format!("{error:#}")),
    }
}

/// Does what the arguments say and returns what to print.
fn upsample(arguments: &Arguments) -> anyhow::Result<String> {
    let destination = Destination::choose(arguments)?;
    let interpolation = Interpolation { filter: arguments.filter, scale: arguments.scale as usize };
    let picture = Picture::read(arguments.source(), &interpolation)?;
    let colour = destination.colour(&picture, &interpolation)?;

    let layer = interpolation.layer(picture.channels())?;
    let weight = interpolation.weight(&layer)?;
    let input = planes::from_picture(&picture, interpolation.border())?;
    let (run, note) = backend::run(arguments, &layer, &input, &weight)?;
    let verdict = if arguments.verify { Some(verify::compare(&layer, &input, &weight, &run.output)?) } else { None };

    let enlarged = planes::to_picture(&run.output, colour, picture.profile.clone())?;
    destination.write(&enlarged)?;

    let moved = [&input, &weight, &run.output].map(|tensor| size_of_val(tensor.as_slice())).iter().sum();
    Ok(report::text(&report::Facts {
        before: &picture,
        after: &enlarged,
        filter: arguments.filter,
        note,
        run: &run,
        moved,
        verdict,
        path: destination.path(),
    }))
}
