//! The times, as a user and as `benches/torch_gpu.py` reads them.

use std::{fs, path::Path};

use anyhow::{Context, Result};
use serde::Serialize;

use crate::{problem::Row, timing::Timing};

#[derive(Serialize)]
pub struct Report {
    versions: String,
    rows: Vec<Line>,
}

/// A problem's time; none where burn refuses it or fails.
#[derive(Serialize)]
struct Line {
    id: Option<u32>,
    name: Option<String>,
    precision: String,
    ms: Option<f64>,
    error: Option<f64>,
}

impl Report {
    pub fn new() -> Self {
        Self { versions: format!("burn {}", burn_version()), rows: Vec::new() }
    }

    pub fn versions(&self) -> &str {
        &self.versions
    }

    /// What is known of the problem from another precision.
    pub fn timing(&self, row: &Row) -> Option<Option<Timing>> {
        let line = self.rows.iter().find(|line| row.same_problem(line.id, line.name.as_deref()))?;
        Some(line.ms.zip(line.error).map(|(ms, error)| Timing { ms, error }))
    }

    pub fn push(&mut self, row: &Row, timing: Option<Timing>) {
        let Row { id, name, precision, .. } = row.clone();
        let (ms, error) = (timing.map(|timing| timing.ms), timing.map(|timing| timing.error));
        self.rows.push(Line { id, name, precision, ms, error });
    }

    pub fn write(&self, path: &Path) -> Result<()> {
        fs::write(path, serde_json::to_string_pretty(self)?).with_context(|| format!("cannot write {}", path.display()))
    }
}

/// The end of a line on the screen.
pub fn cells(timing: Option<Timing>) -> String {
    timing.map_or_else(|| "-".to_owned(), |Timing { ms, error }| format!("{ms:>10.4} ms  error {error:.1e}"))
}

/// The version that cargo has chosen; burn itself does not tell.
fn burn_version() -> &'static str {
    let lines = include_str!("../Cargo.lock").lines();
    let version = lines.skip_while(|line| *line != r#"name = "burn""#).nth(1);
    version.and_then(|line| line.split('"').nth(1)).unwrap_or("of unknown version")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_found() {
        assert!(burn_version().starts_with("0."), "{}", burn_version());
    }

    #[test]
    fn a_problem_is_known_from_its_other_precision() {
        let row: Row = serde_json::from_str(crate::problem::tests::UNEVEN).unwrap();
        let timing = Timing { ms: 1.5, error: 1e-7 };
        let mut report = Report::new();
        assert_eq!(report.timing(&row), None);
        report.push(&row, Some(timing));
        assert_eq!(report.timing(&Row { precision: "tf32".to_owned(), ..row.clone() }), Some(Some(timing)));
        assert_eq!(report.timing(&Row { id: Some(4), ..row.clone() }), None);
        let refused = Row { id: Some(5), ..row };
        report.push(&refused, None);
        assert_eq!(report.timing(&refused), Some(None));
        let json: serde_json::Value = serde_json::to_value(&report).unwrap();
        assert_eq!(json["rows"][0]["ms"], 1.5);
        assert!(json["rows"][1]["ms"].is_null() && json["rows"][0]["name"].is_null());
    }
}
