//! `ptx/REGISTERS.md`: one line for each kernel and GPU, so that a change to a kernel shows as changed lines.

use std::fmt::Write as _;

use super::output::Kernel;

/// Room for a kernel's name; a longer one widens its own line only.
const NAME_WIDTH: usize = 28;

/// The lines of one PTX file: each a target and a kernel.
pub(super) struct Section {
    pub ptx: String,
    pub rows: Vec<(String, Kernel)>,
}

/// Sorts the lines by kernel; targets stay in their order.
pub(super) fn render(version: &str, sections: &mut [Section]) -> String {
    let mut text = format!(
        "# What each kernel takes on each GPU\n\n\
         Written by `cargo xtask ptxas` with ptxas {version}. Registers are those of a thread. Shared memory is that of a\n\
         block, in bytes, as declared in the PTX; a launch may add to it. Stack and spills are bytes of a thread, and have\n\
         to be 0.\n"
    );
    for section in sections {
        section.rows.sort_by(|(_, a), (_, b)| a.name.cmp(&b.name));
        write_section(&mut text, section);
    }
    text
}

fn write_section(text: &mut String, section: &Section) {
    let dashes = "-".repeat(NAME_WIDTH);
    let _ = write!(
        text,
        "\n## {}.ptx\n\n\
         | {:NAME_WIDTH$} | GPU    | registers | shared memory | stack | spill stores | spill loads |\n\
         | {dashes} | ------ | --------: | ------------: | ----: | -----------: | ----------: |\n",
        section.ptx, "kernel",
    );
    for (target, kernel) in &section.rows {
        let Kernel { name, registers, shared, stack, spill_stores, spill_loads } = kernel;
        let name = format!("`{name}`");
        let _ = writeln!(
            text,
            "| {name:NAME_WIDTH$} | {target:6} | {registers:9} | {shared:13} | {stack:5} | {spill_stores:12} | {spill_loads:11} |",
        );
    }
}

/// The first lines that differ, of many; `None` if the texts are equal.
pub(super) fn difference(old: &str, new: &str) -> Option<String> {
    const SHOWN: usize = 10;
    if old == new {
        return None;
    }
    let gone = old.lines().filter(|line| !new.lines().any(|other| other == *line)).map(|line| format!("- {line}"));
    let come = new.lines().filter(|line| !old.lines().any(|other| other == *line)).map(|line| format!("+ {line}"));
    let (gone, come): (Vec<_>, Vec<_>) = (gone.collect(), come.collect());
    let shown = gone.iter().take(SHOWN).chain(come.iter().take(SHOWN)).cloned();
    Some(shown.collect::<Vec<_>>().join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kernel(name: &str, registers: u32) -> Kernel {
        Kernel { name: name.to_owned(), registers, ..Kernel::default() }
    }

    fn table(registers: u32) -> String {
        let rows = [("sm_75", kernel("b", 10)), ("sm_120", kernel("b", registers)), ("sm_75", kernel("a", 12))];
        let rows = rows.map(|(target, kernel)| (target.to_owned(), kernel)).into();
        render("13.0.88", &mut [Section { ptx: "sm_70".to_owned(), rows }])
    }

    #[test]
    fn lines_are_sorted_by_kernel_then_by_target() {
        let text = table(11);
        let lines: Vec<&str> = text.lines().filter(|line| line.starts_with("| `")).collect();
        let starts = lines.iter().map(|line| line.split_whitespace().collect::<Vec<_>>()[1..6].join(" "));
        assert_eq!(starts.collect::<Vec<_>>(), ["`a` | sm_75 | 12", "`b` | sm_75 | 10", "`b` | sm_120 | 11"]);
        assert!(text.contains("ptxas 13.0.88") && text.contains("## sm_70.ptx"));
        let widths = text.lines().filter(|line| line.starts_with('|')).map(str::len);
        assert_eq!(widths.clone().min(), widths.max());
    }

    #[test]
    fn only_changed_lines_are_shown() {
        assert_eq!(difference(&table(11), &table(11)), None);
        let shown = difference(&table(11), &table(40)).unwrap();
        assert_eq!(shown.lines().count(), 2);
        assert!(shown.contains("40") && shown.contains("11"));
        assert!(difference("", &table(11)).unwrap().lines().count() > 3);
    }
}
