//! The roofline, as a picture: how fast each problem ran, by its arithmetic intensity, below what memory and tensor
//! cores allow.
//!
//! The font is in the program, so the picture has text on machines without fonts.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};
use conv_transpose::Precision;
use image::RgbImage;
use plotters::{prelude::*, style::register_font};

use crate::{floor::Ceiling, labels, measure::Measurement};

const SIZE: (u32, u32) = (1600, 1000);
const FONT: &str = "monospace";
const PRECISIONS: [(Precision, RGBColor); 2] =
    [(Precision::F32, RGBColor(31, 90, 180)), (Precision::Tf32, RGBColor(200, 80, 20))];

/// Takes the path of a PNG, for the command line.
pub fn path(text: &str) -> Result<PathBuf, String> {
    let is_png = Path::new(text).extension().is_some_and(|extension| extension.eq_ignore_ascii_case("png"));
    if is_png { Ok(text.into()) } else { Err("the picture is a PNG, so its name has to end in .png".to_owned()) }
}

/// Draws the measurements and the roofs of their precisions.
pub fn draw(device: &str, ceiling: &Ceiling, rows: &[Measurement]) -> Result<RgbImage> {
    let font = register_font(FONT, FontStyle::Normal, epaint_default_fonts::HACK_REGULAR);
    font.map_err(|_| anyhow!("the font cannot be read"))?;
    let mut pixels = vec![255; 3 * SIZE.0 as usize * SIZE.1 as usize];
    paint(&mut pixels, device, ceiling, rows)?;
    RgbImage::from_raw(SIZE.0, SIZE.1, pixels).context("the picture has lost pixels")
}

fn paint(pixels: &mut [u8], device: &str, ceiling: &Ceiling, rows: &[Measurement]) -> Result<()> {
    let points: Vec<Point> = rows.iter().map(Point::of).collect();
    let [left, right, bottom, top] = ranges(ceiling, &points);
    let area = BitMapBackend::with_buffer(pixels, SIZE).into_drawing_area();
    let mut chart = ChartBuilder::on(&area)
        .caption(format!("Transposed convolutions on {device}"), (FONT, 26))
        .margin(20)
        .x_label_area_size(60)
        .y_label_area_size(90)
        .build_cartesian_2d((left..right).log_scale(), (bottom..top).log_scale())?;
    chart
        .configure_mesh()
        .x_desc("arithmetic intensity, FLOP per byte")
        .y_desc("TFLOP/s")
        .axis_desc_style((FONT, 20))
        .label_style((FONT, 18))
        .light_line_style(RGBColor(240, 240, 240))
        .draw()?;
    for (precision, color) in PRECISIONS {
        let rate = ceiling.tflop_per_s(precision);
        let roof = [(left, left * ceiling.copy_gb_per_s / 1e3), (ridge(ceiling, precision), rate), (right, rate)];
        chart
            .draw_series(LineSeries::new(roof, color.stroke_width(2)))?
            .label(format!("{precision}: {:.0} GB/s, {rate:.0} TFLOP/s", ceiling.copy_gb_per_s))
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 20, y)], color.stroke_width(2)));
        let own = points.iter().filter(|point| point.precision == precision.to_string());
        chart.draw_series(own.map(|point| Circle::new((point.intensity, point.tflop_per_s), 5, color.filled())))?;
    }
    let legend = SeriesLabelPosition::UpperLeft;
    chart.configure_series_labels().position(legend).label_font((FONT, 18)).border_style(BLACK).draw()?;

    let marks: Vec<_> = points.iter().map(|p| chart.backend_coord(&(p.intensity, p.tflop_per_s))).collect();
    let texts: Vec<_> = points.iter().map(|point| point.label.as_str()).collect();
    for ((mark, text), place) in marks.iter().zip(&texts).zip(labels::places(&marks, &texts)) {
        area.draw(&PathElement::new([*mark, place.anchor(*mark)], BLACK.mix(0.4)))?;
        area.draw(&Text::new(*text, place.corner(), (FONT, labels::FONT_SIZE)))?;
    }
    area.present()?;
    Ok(())
}

/// What is drawn of a measurement.
struct Point {
    label: String,
    precision: String,
    intensity: f64,
    tflop_per_s: f64,
}

impl Point {
    fn of(row: &Measurement) -> Self {
        Self {
            label: row.problem.id.map_or_else(|| row.problem.label(), |id| id.to_string()),
            precision: row.precision.clone(),
            intensity: row.work.flops / row.work.bytes,
            tflop_per_s: row.tflop_per_s(),
        }
    }
}

/// The intensity from which on the arithmetic is the limit.
fn ridge(ceiling: &Ceiling, precision: Precision) -> f64 {
    ceiling.tflop_per_s(precision) * 1e3 / ceiling.copy_gb_per_s
}

/// Left, right, bottom and top, with every point and both ridges inside.
fn ranges(ceiling: &Ceiling, points: &[Point]) -> [f64; 4] {
    let ridges = PRECISIONS.map(|(precision, _)| ridge(ceiling, precision));
    let rates = PRECISIONS.map(|(precision, _)| ceiling.tflop_per_s(precision));
    let (left, right) = around(points.iter().map(|point| point.intensity).chain(ridges));
    let (bottom, top) = around(points.iter().map(|point| point.tflop_per_s).chain(rates));
    [left, right, bottom, top]
}

fn around(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let (least, most) = values.fold((f64::MAX, 0.0), |(least, most): (f64, f64), v| (least.min(v), most.max(v)));
    (least / 2.0, most * 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{arguments::TFLOPS, floor::Work, problems::BenchProblem};

    /// The measurement of a problem that reached some share of its floor.
    fn row(ceiling: &Ceiling, id: u32, intensity: f64, precision: Precision, share: f64) -> Measurement {
        let problem: BenchProblem = "input=1x1x1,out=1,kernel=1".parse().unwrap();
        let work = Work { bytes: 1e9, flops: 1e9 * intensity };
        let floor_ms = ceiling.floor_ms(&work, precision);
        Measurement {
            problem: BenchProblem { id: Some(id), ..problem },
            precision: precision.to_string(),
            asked: "auto".to_owned(),
            algorithm: "gather".to_owned(),
            ms: floor_ms / share,
            work,
            floor_ms,
            error: 0.0,
        }
    }

    #[test]
    fn a_full_chart_has_text_and_both_colours() {
        let ceiling = Ceiling { copy_gb_per_s: 4000.0, tf32_tflop_per_s: 360.0 };
        let mut rows = Vec::new();
        for id in 0..30 {
            let intensity = 2.0 * 1.2f64.powi(id as i32 % 25);
            rows.push(row(&ceiling, 50 + id, intensity, Precision::F32, 0.3 + 0.02 * f64::from(id % 7)));
            rows.push(row(&ceiling, 50 + id, intensity, Precision::Tf32, 0.5 + 0.05 * f64::from(id % 9)));
        }
        let picture = draw("a test", &ceiling, &rows).unwrap();
        for (_, RGBColor(r, g, b)) in PRECISIONS {
            assert!(picture.pixels().any(|pixel| pixel.0 == [r, g, b]));
        }
        let caption = image::imageops::crop_imm(&picture, 400, 20, 800, 40).to_image();
        assert!(caption.pixels().any(|pixel| pixel.0 == [0, 0, 0]));
    }

    #[test]
    fn nothing_measured_is_an_empty_chart() {
        assert!(draw("a test", &Ceiling { copy_gb_per_s: 1.0, tf32_tflop_per_s: 1.0 }, &[]).is_ok());
    }

    #[test]
    fn a_chart_has_room_for_every_rate_that_can_be_assumed() {
        let real = Ceiling { copy_gb_per_s: 4000.0, tf32_tflop_per_s: 360.0 };
        let rows = [row(&real, 57, 10.0, Precision::F32, 0.5), row(&real, 57, 1000.0, Precision::Tf32, 0.5)];
        for tf32_tflop_per_s in [*TFLOPS.start(), *TFLOPS.end()] {
            let assumed = Ceiling { tf32_tflop_per_s, ..real };
            assert!(draw("a test", &assumed, &rows).is_ok() && draw("a test", &assumed, &[]).is_ok());
        }
    }
}
