//! The list of faults.

use std::fs;
use std::path::Path;

use anyhow::{Context, ensure};
use serde::Deserialize;

/// Where the list is.
const LIST: &str = "tests/mutants/faults.toml";

/// A small change to a source file that makes it wrong.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Fault {
    /// What is wrong, in a few words.
    pub what: String,
    /// From the root of the repository.
    pub file: String,
    /// Occurs once in the file.
    find: String,
    replace: String,
}

#[derive(Deserialize)]
struct List {
    fault: Vec<Fault>,
}

impl Fault {
    /// The file's text with the fault.
    pub fn planted_in(&self, text: &str) -> anyhow::Result<String> {
        let Self { what, file, find, replace, .. } = self;
        let places = text.matches(find).count();
        ensure!(places == 1, "{file}: {what}: the text to replace is there {places} times, not once:\n{find}");
        ensure!(find != replace, "{file}: {what}: it changes nothing");
        Ok(text.replacen(find, replace, 1))
    }
}

/// Reads the list and makes sure that every fault finds its place.
pub(super) fn load(root: &Path) -> anyhow::Result<Vec<Fault>> {
    let text = fs::read_to_string(root.join(LIST)).context(LIST)?;
    let faults = parse(&text).context(LIST)?;
    let lost: Vec<String> = faults.iter().filter_map(|fault| loss(fault, root)).collect();
    ensure!(lost.is_empty(), "{LIST} is out of date:\n{}", lost.join("\n"));
    Ok(faults)
}

fn parse(text: &str) -> anyhow::Result<Vec<Fault>> {
    let List { fault: faults } = toml::from_str(text)?;
    Ok(faults)
}

fn loss(fault: &Fault, root: &Path) -> Option<String> {
    let text = match fs::read_to_string(root.join(&fault.file)) {
        Ok(text) => text.replace("\r\n", "\n"),
        Err(error) => return Some(format!("{}: {error}", fault.file)),
    };
    fault.planted_in(&text).err().map(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault() -> Fault {
        let list = "[[fault]]\nwhat = \"it is off by one\"\nfile = \"src/a.rs\"\nfind = 'a < b'\nreplace = 'a <= b'\n";
        parse(list).unwrap().remove(0)
    }

    #[test]
    fn a_fault_is_planted_where_its_text_is() {
        assert_eq!(fault().planted_in("if a < b {").unwrap(), "if a <= b {");
    }

    #[test]
    fn a_text_that_is_gone_or_there_twice_is_refused() {
        for text in ["if b > a {", "a < b && a < b"] {
            let error = fault().planted_in(text).unwrap_err().to_string();
            assert!(error.contains("off by one") && error.contains("src/a.rs"), "{error}");
        }
    }

    #[test]
    fn a_fault_that_changes_nothing_is_refused() {
        let fault = Fault { replace: "a < b".to_owned(), ..fault() };
        assert!(fault.planted_in("a < b").is_err());
    }
}
