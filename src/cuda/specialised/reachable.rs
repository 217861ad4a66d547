//! Leaving out what cannot be reached: follows constants through the PTX of a kernel to the branches that depend on
//! them.
//!
//! The driver's compiler finds out the same, but only after it has read everything and turned it over several times: of
//! a tile kernel that is compiled for its layer two thirds are for other layers, and without these it takes half to
//! nine tenths of the time.
//!
//! PTX as LLVM writes it: registers that are written by one instruction have one value, so if that is a constant, all
//! who read them read it. What an instruction is not known for stays as it is, and so do braces of inline assembly,
//! with names of their own in them.

use std::{
    borrow::Cow,
    collections::{HashMap, HashSet},
};

/// The text of a kernel without the instructions that constants in it keep from being reached.
pub(super) fn reachable(ptx: &str) -> String {
    let mut lines: Vec<Line> = ptx.lines().map(Line::new).collect();
    loop {
        let count = lines.len();
        let constants = Constants::find(&lines);
        let tables = tables(&lines);
        let resolved = lines.iter().filter_map(|line| constants.resolved(line, &lines, &tables)).collect();
        lines = reached(resolved);
        // What was left out may have been the only other instruction that writes a register.
        if lines.len() == count {
            return lines.iter().flat_map(|line| [&*line.text, "\n"]).collect();
        }
    }
}

/// A line, and what it is.
#[derive(Clone)]
struct Line<'a> {
    text: Cow<'a, str>,
    kind: Kind<'a>,
}

#[derive(Clone, Copy)]
enum Kind<'a> {
    /// The beginning of what is branched to under that name.
    Label(&'a str),
    /// A name by which [`brx`](Self::BranchOfTable) knows the labels on the lines that follow.
    Table(&'a str),
    /// One of these labels.
    Target(&'a str),
    /// A branch to a label, perhaps only if a predicate holds, or if it does not.
    Branch { condition: Option<Condition<'a>>, label: &'a str },
    /// A branch to one of the labels of a table.
    BranchOfTable { number: &'a str, table: &'a str },
    /// The end of the kernel.
    End,
    /// An instruction and its operands. The first one is what it writes, if it writes registers.
    Instruction { operation: &'a str, operands: &'a str, always: bool },
    /// Something else: a directive, a comment, a brace.
    Other,
}

#[derive(Clone, Copy)]
struct Condition<'a> {
    predicate: &'a str,
    holds: bool,
}

impl<'a> Line<'a> {
    /// A branch that is always taken.
    fn branch(label: &'a str) -> Self {
        Self { text: format!("\tbra.uni {label};").into(), kind: Kind::Branch { condition: None, label } }
    }

    fn new(text: &'a str) -> Self {
        Self { text: text.into(), kind: kind(text).unwrap_or(Kind::Other) }
    }
}

/// What a line is, unless it is something else.
fn kind(text: &str) -> Option<Kind<'_>> {
    let text = text.split_once("//").map_or(text, |(text, _)| text).trim();
    let is_label = |name: &str| name.starts_with('$');
    if let Some(label) = text.strip_suffix(':').filter(|label| is_label(label)) {
        return Some(Kind::Label(label));
    }
    if let Some((table, _)) = text.split_once(": .branchtargets") {
        return Some(Kind::Table(table));
    }
    if let Some(target) = text.strip_suffix([',', ';']).filter(|target| is_label(target)) {
        return Some(Kind::Target(target));
    }
    let text = text.strip_suffix(';')?;
    let (condition, text) = match text.strip_prefix('@') {
        Some(guarded) => {
            let (predicate, text) = guarded.split_once(char::is_whitespace)?;
            let negated = predicate.strip_prefix('!');
            (Some(Condition { predicate: negated.unwrap_or(predicate), holds: negated.is_none() }), text.trim_start())
        }
        None => (None, text),
    };
    let (operation, operands) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    let operands = operands.trim_start();
    match operation {
        "bra" | "bra.uni" if is_label(operands) => Some(Kind::Branch { condition, label: operands }),
        "brx.idx" => {
            let (number, table) = operands.split_once(',')?;
            Some(Kind::BranchOfTable { number, table: table.trim_start() })
        }
        "ret" | "exit" | "trap" | "trap;" if condition.is_none() => Some(Kind::End),
        _ if operation.starts_with('.') => None,
        _ => Some(Kind::Instruction { operation, operands, always: condition.is_none() }),
    }
}

/// What is known of registers.
#[derive(Default)]
struct Constants<'a> {
    numbers: HashMap<&'a str, u64>,
    predicates: HashMap<&'a str, bool>,
}

impl<'a> Constants<'a> {
    /// Those that some lines make known, in the order in which they stand: what comes from further down is not
    /// followed.
    fn find(lines: &[Line<'a>]) -> Self {
        let written = written_once(lines);
        let mut constants = Self::default();
        for line in lines {
            if let Kind::Instruction { operation, operands, always: true } = line.kind {
                constants.follow(operation, operands, &written);
            }
        }
        constants
    }

    /// Notes what an instruction writes, if that is known.
    fn follow(&mut self, operation: &str, operands: &'a str, written: &HashSet<&'a str>) {
        let mut operands = split(operands);
        let Some(target) = operands.next() else { return };
        if let Some(halves) = target.strip_prefix('{') {
            return self.follow_halves(operation, halves, operands.next(), written);
        }
        if !written.contains(target) {
            return;
        }
        let sources: Vec<&str> = operands.collect();
        if let Some(value) = self.number(operation, &sources) {
            self.numbers.insert(target, value);
        }
        if let Some(value) = self.predicate(operation, &sources) {
            self.predicates.insert(target, value);
        }
    }

    /// Notes both halves of a number, as in `mov.b64 {%r1, %r2}, %rd1`.
    fn follow_halves(&mut self, operation: &str, halves: &'a str, source: Option<&str>, written: &HashSet<&'a str>) {
        let value = source.and_then(|source| self.value(source));
        if let (true, Some(value)) = (operation == "mov.b64", value) {
            for (half, shift) in split(halves.trim_end_matches('}')).zip([0, 32]) {
                if written.contains(half) {
                    self.numbers.insert(half, value >> shift & u64::from(u32::MAX));
                }
            }
        }
    }

    /// The number that is meant, if it is known.
    fn value(&self, source: &str) -> Option<u64> {
        if source.starts_with('%') {
            return self.numbers.get(source).copied();
        }
        match source.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16).ok(),
            None => source.parse::<i64>().ok().map(|value| value as u64),
        }
    }

    /// What an instruction on numbers of 32 or 64 bits makes of its sources.
    fn number(&self, operation: &str, sources: &[&str]) -> Option<u64> {
        let (operation, kind) = operation.split_once('.')?;
        let mask = mask(kind)?;
        let bits = u64::from(mask.count_ones());
        let is_plain = !kind.contains('.');
        let value = |number: usize| sources.get(number).and_then(|source| self.value(source));
        let (a, b) = (value(0), value(1));
        let is_unsigned = !kind.ends_with("s32") && !kind.ends_with("s64");
        let result = match (operation, kind) {
            ("mov", _) if is_plain => a?,
            ("cvt", "u32.u64" | "u64.u32") => a? & u64::from(u32::MAX),
            ("not", _) if is_plain => !a?,
            ("add", _) if is_plain => a?.wrapping_add(b?),
            ("sub", _) if is_plain => a?.wrapping_sub(b?),
            ("mul", "lo.s32" | "lo.s64") => a?.wrapping_mul(b?),
            ("mul", "wide.u32") => return Some((a? & u64::from(u32::MAX)) * (b? & u64::from(u32::MAX))),
            ("mad", "lo.s32" | "lo.s64") => a?.wrapping_mul(b?).wrapping_add(value(2)?),
            ("and", _) if is_plain && (a == Some(0) || b == Some(0)) => 0,
            ("and", _) if is_plain => a? & b?,
            ("or", _) if is_plain => a? | b?,
            ("xor", _) if is_plain => a? ^ b?,
            ("shl", _) if is_plain && b? < bits => a? << b?,
            ("shr", _) if is_plain && is_unsigned && b? < bits => (a? & mask) >> b?,
            ("min", _) if is_plain && is_unsigned => (a? & mask).min(b? & mask),
            ("max", _) if is_plain && is_unsigned => (a? & mask).max(b? & mask),
            ("popc", "b32") => (a? & mask).count_ones().into(),
            ("selp", _) if is_plain => {
                if *self.predicates.get(sources.get(2)?)? {
                    a?
                } else {
                    b?
                }
            }
            _ => return None,
        };
        Some(result & mask)
    }

    /// Whether a predicate holds that an instruction makes.
    fn predicate(&self, operation: &str, sources: &[&str]) -> Option<bool> {
        let known = |number: usize| self.predicates.get(sources.get(number)?).copied();
        match operation {
            "not.pred" => return Some(!known(0)?),
            "and.pred" if known(0) == Some(false) || known(1) == Some(false) => return Some(false),
            "and.pred" => return Some(known(0)? && known(1)?),
            "or.pred" if known(0) == Some(true) || known(1) == Some(true) => return Some(true),
            "or.pred" => return Some(known(0)? || known(1)?),
            _ => {}
        }
        let (relation, kind) = operation.strip_prefix("setp.")?.split_once('.')?;
        let mask = mask(kind).filter(|_| !kind.contains('.'))?;
        let [a, b] = [0, 1].map(|number| sources.get(number).and_then(|source| self.value(source)));
        let (a, b) = (a? & mask, b? & mask);
        // Of as many bits as the numbers have, in the order of signed ones.
        let signed = |value: u64| if mask == u64::MAX { value as i64 } else { i64::from(value as u32 as i32) };
        let order = if kind.starts_with('s') { signed(a).cmp(&signed(b)) } else { a.cmp(&b) };
        Some(match relation {
            "eq" => order.is_eq(),
            "ne" => order.is_ne(),
            "lt" => order.is_lt(),
            "le" => order.is_le(),
            "gt" => order.is_gt(),
            "ge" => order.is_ge(),
            _ => return None,
        })
    }

    /// The line if what is known counts: a branch has no condition, or is left out, and one of a table goes where its
    /// number says.
    fn resolved(&self, line: &Line<'a>, lines: &[Line<'a>], tables: &HashMap<&'a str, usize>) -> Option<Line<'a>> {
        match line.kind {
            Kind::Branch { condition: Some(condition), label } => match self.predicates.get(condition.predicate) {
                Some(holds) if *holds == condition.holds => Some(Line::branch(label)),
                Some(_) => None,
                None => Some(line.clone()),
            },
            Kind::BranchOfTable { number, table } => {
                let target = |number: u64| targets(lines, tables, table).nth(usize::try_from(number).ok()?);
                let label = self.value(number).and_then(target);
                Some(label.map_or_else(|| line.clone(), Line::branch))
            }
            _ => Some(line.clone()),
        }
    }
}

/// The labels of a table.
fn targets<'a>(lines: &[Line<'a>], tables: &HashMap<&'a str, usize>, table: &str) -> impl Iterator<Item = &'a str> {
    let lines = tables.get(table).map_or(&[][..], |&table| &lines[table + 1..]);
    lines.iter().map_while(|line| if let Kind::Target(label) = line.kind { Some(label) } else { None })
}

/// The bits of numbers of a kind: 32 or 64.
fn mask(kind: &str) -> Option<u64> {
    match kind.rsplit('.').next()? {
        "b32" | "u32" | "s32" => Some(u32::MAX.into()),
        "b64" | "u64" | "s64" => Some(u64::MAX),
        _ => None,
    }
}

/// Operands, with those in braces as one.
fn split(operands: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0;
    let parts = operands.split(move |letter| {
        match letter {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        letter == ',' && depth == 0
    });
    parts.map(str::trim)
}

/// The registers that one instruction writes, and no other.
fn written_once<'a>(lines: &[Line<'a>]) -> HashSet<&'a str> {
    let (mut once, mut again) = (HashSet::new(), HashSet::new());
    for line in lines {
        let Kind::Instruction { operands, .. } = line.kind else { continue };
        let target = split(operands).next().unwrap_or("");
        // What is written through an address, or is read first, is taken for written as well.
        let registers = target.split(|letter: char| !(letter == '%' || letter == '_' || letter.is_alphanumeric()));
        for register in registers.filter(|register| register.starts_with('%')) {
            if !once.insert(register) {
                again.insert(register);
            }
        }
    }
    once.retain(|register| !again.contains(register));
    once
}

/// The lines that can be reached from the first one, and those that end the kernel.
fn reached<'a>(lines: Vec<Line<'a>>) -> Vec<Line<'a>> {
    let labels = labels(&lines);
    let tables = tables(&lines);
    let mut is_reached = vec![false; lines.len()];
    let mut from = vec![0];
    while let Some(mut number) = from.pop() {
        while number < lines.len() && !is_reached[number] {
            is_reached[number] = true;
            match lines[number].kind {
                Kind::Branch { condition, label } => {
                    from.extend(labels.get(label));
                    if condition.is_none() {
                        break;
                    }
                }
                Kind::BranchOfTable { table, .. } => {
                    from.extend(targets(&lines, &tables, table).filter_map(|label| labels.get(label)));
                    break;
                }
                Kind::End => break,
                _ => {}
            }
            number += 1;
        }
    }
    let end = lines.iter().rposition(|line| line.text.starts_with('}')).unwrap_or(lines.len());
    // Of a table without its branch, labels may be gone.
    let is_used = |(number, line): (usize, &Line<'a>)| match line.kind {
        Kind::BranchOfTable { table, .. } if is_reached[number] => Some(table),
        _ => None,
    };
    let used: HashSet<&str> = lines.iter().enumerate().filter_map(is_used).collect();
    let mut is_in_use = true;
    let mut stays = |(number, line): &(usize, Line<'a>)| {
        match line.kind {
            Kind::Table(table) => is_in_use = used.contains(table),
            Kind::Target(_) => {}
            _ => is_in_use = true,
        }
        is_in_use && (is_reached[*number] || *number >= end)
    };
    lines.into_iter().enumerate().filter(|line| stays(line)).map(|(_, line)| line).collect()
}

/// Where labels are.
fn labels<'a>(lines: &[Line<'a>]) -> HashMap<&'a str, usize> {
    places(lines, |kind| if let Kind::Label(label) = kind { Some(label) } else { None })
}

/// Where tables are.
fn tables<'a>(lines: &[Line<'a>]) -> HashMap<&'a str, usize> {
    places(lines, |kind| if let Kind::Table(table) = kind { Some(table) } else { None })
}

/// Where the lines are that have a name.
fn places<'a>(lines: &[Line<'a>], name: impl Fn(Kind<'a>) -> Option<&'a str>) -> HashMap<&'a str, usize> {
    lines.iter().enumerate().filter_map(|(number, line)| Some((name(line.kind)?, number))).collect()
}

#[cfg(test)]
mod tests {
    use conv_transpose_kernels::tile::Tiling;

    use super::{super::with_constants, *};
    use crate::cuda::embedded;

    #[track_caller]
    fn check(ptx: &str, expected: &str) {
        let lines = |text: &str| text.lines().map(|line| line.trim().to_owned()).collect::<Vec<_>>();
        assert_eq!(lines(&reachable(ptx)), lines(expected));
    }

    #[test]
    fn branches_on_constants_are_taken_or_left_out() {
        check(
            "mov.b32 %r1, 0x7;\nsetp.lt.u32 %p1, %r1, 8;\n@%p1 bra $A;\nbar.sync 0;\n$A:\n@!%p1 bra $B;\nret;\n$B:\ntrap; exit;\n}",
            "mov.b32 %r1, 0x7;\nsetp.lt.u32 %p1, %r1, 8;\nbra.uni $A;\n$A:\nret;\n}",
        );
    }

    #[test]
    fn what_is_not_known_stays() {
        let ptx = "mov.u32 %r1, %tid.x;\nsetp.eq.b32 %p1, %r1, 0;\n@%p1 bra $A;\nbar.sync 0;\n$A:\nadd.s32 %r2, %r1, 1;\n@!complete bra again;\nret;\n}";
        check(ptx, ptx);
    }

    #[test]
    fn a_register_that_is_written_twice_is_no_constant() {
        for second in [
            "mov.b32 %r1, 1;",
            "@%p9 mov.b32 %r1, 0;",
            "ld.global.v2.u32 {%r1, %r2}, [%rd1];",
            "atom.add.u32 %r1, [%rd1], 1;",
        ] {
            let ptx = format!(
                "mov.b32 %r1, 0;\n{second}\nsetp.eq.b32 %p1, %r1, 0;\n@%p1 bra $A;\nbar.sync 0;\n$A:\nret;\n}}"
            );
            check(&ptx, &ptx);
        }
        // A value that is written under a condition is not always that one.
        let ptx = "@%p9 mov.b32 %r1, 0;\nsetp.eq.b32 %p1, %r1, 0;\n@%p1 bra $A;\nbar.sync 0;\n$A:\nret;\n}";
        check(ptx, ptx);
    }

    #[test]
    fn what_is_left_out_writes_nothing() {
        check(
            "mov.b32 %r1, 1;\nsetp.ne.b32 %p1, %r1, 0;\n@%p1 bra $A;\nmov.b32 %r2, 5;\nbra.uni $B;\n$A:\nmov.b32 %r2, 6;\n$B:\nsetp.eq.b32 %p2, %r2, 5;\n@%p2 bra $C;\nret;\n$C:\ntrap; exit;\n}",
            "mov.b32 %r1, 1;\nsetp.ne.b32 %p1, %r1, 0;\nbra.uni $A;\n$A:\nmov.b32 %r2, 6;\n$B:\nsetp.eq.b32 %p2, %r2, 5;\nret;\n}",
        );
    }

    #[test]
    fn branches_of_tables_go_where_their_numbers_say() {
        let table = "$T: .branchtargets\n$A,\n$B;\nbrx.idx %r1, $T;\n$A:\nret;\n$B:\ntrap; exit;\n}";
        check(&format!("mov.b32 %r1, 0;\n{table}"), "mov.b32 %r1, 0;\nbra.uni $A;\n$A:\nret;\n}");
        check(&format!("mov.u32 %r1, %tid.x;\n{table}"), &format!("mov.u32 %r1, %tid.x;\n{table}"));
        // Neither a branch to what is not in the table.
        check(&format!("mov.b32 %r1, 2;\n{table}"), &format!("mov.b32 %r1, 2;\n{table}"));
    }

    #[test]
    fn loops_and_comments_behind_instructions() {
        let ptx =
            "mov.b32 %r1, 0; //! unless specialised\n$A:\nbar.sync 0;\nsetp.eq.b32 %p2, %r3, 0;\n@%p2 bra $A;\nret;\n}";
        check(ptx, ptx);
        check(
            &format!("{}\nbar.sync 1;\n", ptx.replace("%r3", "%r1")),
            "mov.b32 %r1, 0; //! unless specialised\n$A:\nbar.sync 0;\nsetp.eq.b32 %p2, %r1, 0;\nbra.uni $A;\n}\nbar.sync 1;",
        );
    }

    /// What an instruction makes of constants `%r1` = -3, `%r2` = 5, `%r3` = 0, `%rd1` = 2^40 + 7, and of a register
    /// that is not known, `%r9`.
    #[test]
    fn instructions_on_constants() {
        let known = [
            "mov.b32 %r1, 0xfffffffd;",
            "mov.b32 %r2, 5;",
            "mov.u32 %r3, 0;",
            "mov.b64 %rd1, 0x10000000007;",
            "mov.b64 {%r4, %r5}, %rd1;",
            "setp.lt.s32 %p1, %r1, %r2;",
            "mov.u32 %r9, %tid.x;",
        ];
        let of = |instruction: &str| {
            let lines: Vec<Line> = known.into_iter().chain([instruction]).map(Line::new).collect();
            let constants = Constants::find(&lines);
            (constants.numbers.get("%x").copied(), constants.predicates.get("%x").copied())
        };
        for (instruction, value) in [
            ("add.s32 %x, %r1, %r2;", 2),
            ("add.s32 %x, %r1, -3;", 0xffff_fffa),
            ("add.s64 %x, %rd1, -8;", 0xff_ffff_ffff),
            ("sub.s32 %x, %r2, %r1;", 8),
            ("mul.lo.s32 %x, %r1, %r2;", 0xffff_fff1),
            ("mul.wide.u32 %x, %r1, 2;", 0x1_ffff_fffa),
            ("mad.lo.s32 %x, %r2, %r2, %r1;", 22),
            ("and.b32 %x, %r1, 4;", 4),
            ("and.b32 %x, %r9, 0;", 0),
            ("or.b32 %x, %r2, 8;", 13),
            ("xor.b32 %x, %r2, 1;", 4),
            ("not.b32 %x, %r3;", 0xffff_ffff),
            ("shl.b32 %x, %r2, 31;", 0x8000_0000),
            ("shr.u32 %x, %r1, 28;", 15),
            ("shr.u64 %x, %rd1, 8;", 1 << 32),
            ("shr.u64 %x, %rd1, 32;", 256),
            ("shl.b64 %x, %rd1, 60;", 7 << 60),
            ("min.u32 %x, %r1, %r2;", 5),
            ("max.u32 %x, %r1, %r2;", 0xffff_fffd),
            ("popc.b32 %x, %r1;", 31),
            ("selp.b32 %x, 7, 8, %p1;", 7),
            ("cvt.u32.u64 %x, %rd1;", 7),
            ("cvt.u64.u32 %x, %r1;", 0xffff_fffd),
            ("mov.u32 %x, %r4;", 7),
            ("mov.u32 %x, %r5;", 256),
        ] {
            assert_eq!(of(instruction), (Some(value), None), "{instruction}");
        }
        for (instruction, holds) in [
            ("setp.lt.u32 %x, %r1, %r2;", false),
            ("setp.lt.s32 %x, %r1, %r2;", true),
            ("setp.gt.s32 %x, %r1, -4;", true),
            ("setp.eq.b32 %x, %r1, -3;", true),
            ("setp.ne.b32 %x, %r1, -3;", false),
            ("setp.le.u64 %x, %rd1, 7;", false),
            ("setp.ge.u32 %x, %r2, 5;", true),
            ("not.pred %x, %p1;", false),
            ("and.pred %x, %p1, %p1;", true),
            ("or.pred %x, %p8, %p1;", true),
        ] {
            assert_eq!(of(instruction), (None, Some(holds)), "{instruction}");
        }
        for unknown in [
            "add.s32 %x, %r1, %r9;",
            "add.sat.s32 %x, %r1, %r2;",
            "shr.s32 %x, %r1, 1;",
            "shl.b32 %x, %r2, 32;",
            "shl.b64 %x, %rd1, 64;",
            "min.s32 %x, %r1, %r2;",
            "mul.hi.u32 %x, %r1, %r2;",
            "mul.wide.s32 %x, %r1, %r2;",
            "mov.f32 %x, 0f00000000;",
            "setp.lt.f32 %x, %f1, %f2;",
            "setp.eq.and.b32 %x, %r2, 5, %p8;",
            "setp.lo.u32 %x, %r1, %r2;",
            "and.pred %x, %p8, %p1;",
            "selp.b32 %x, 7, 8, %p8;",
            "selp.f32 %x, %f1, %f2, %p1;",
            "@%p1 mov.b32 %x, 1;",
        ] {
            assert_eq!(of(unknown), (None, None), "{unknown}");
        }
    }

    /// Of whatever values: whoever is branched to is there, and braces are in pairs.
    #[test]
    fn kernels_stay_whole() {
        for value in [0, 1, 3] {
            let values = vec![value; size_of::<Tiling>()];
            for capability in [(7, 0), (8, 0), (9, 0)] {
                let ptx = embedded::newest("", capability).unwrap();
                for (name, text) in ptx.kernels.iter().filter(|(name, _)| name.starts_with("tile_")) {
                    let text = with_constants(text, name, &[&values], true);
                    let reached = reachable(&text);
                    assert!(reached.len() < text.len(), "{name}");
                    let lines: Vec<Line> = reached.lines().map(Line::new).collect();
                    let labels = labels(&lines);
                    let is_there = |line: &Line| match line.kind {
                        Kind::Branch { label, .. } | Kind::Target(label) => labels.contains_key(label),
                        _ => true,
                    };
                    assert!(lines.iter().all(is_there), "{name}");
                    assert_eq!(reached.matches('{').count(), reached.matches('}').count(), "{name}");
                }
            }
        }
    }
}
