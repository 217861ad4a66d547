//! The PTX of each kernel alone, out of a text with many: a driver then compiles only those that a program uses.
//!
//! Whatever is not a kernel (the header, shared arrays, constants, functions) is in every text, before the kernel. An
//! array in global memory is there once for each kernel, which no kernel notices as long as nobody writes to it.

use std::mem;

use crate::ptx::{Defect, kernel_name};

/// The PTX of one kernel. It has no comments but those that begin with `//!`: a kernel's inline assembly can say
/// something with them to who loads the text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KernelPtx {
    /// The kernel's name.
    pub name: String,
    /// A complete text, with this kernel and no other.
    pub text: String,
}

/// The kernels of a text, in its order.
pub(crate) fn by_kernel(text: &str) -> Result<Vec<KernelPtx>, Defect> {
    let (mut common, mut kernels) = (String::new(), Vec::new());
    let (mut comments, mut braces) = (Comments::default(), Braces::default());
    let mut kernel = KernelPtx::default();
    for line in text.lines() {
        let is_kept = !comments.open && line.contains("//!");
        let code = if is_kept { line.to_owned() } else { comments.strip(line) };
        if let (0, Some(name)) = (braces.depth, kernel_name(&code)) {
            kernel.name = name.to_owned();
        }
        let end_of_body = braces.read(&code)?;
        let in_kernel = !kernel.name.is_empty();
        push_line(if in_kernel { &mut kernel.text } else { &mut common }, &code);
        if in_kernel && end_of_body {
            kernels.push(mem::take(&mut kernel));
        }
    }
    if braces.depth > 0 || !kernel.name.is_empty() {
        return Err(Defect::Unbalanced);
    }
    if kernels.is_empty() {
        return Err(Defect::NoKernels);
    }
    for kernel in &mut kernels {
        kernel.text.insert_str(0, &common);
    }
    Ok(kernels)
}

/// Adds the line, unless it is blank.
fn push_line(text: &mut String, code: &str) {
    let code = code.trim_end();
    if !code.is_empty() {
        text.push_str(code);
        text.push('\n');
    }
}

/// Takes the comments out of one line after another.
#[derive(Default)]
struct Comments {
    /// The line before ended within `/* .. */`.
    open: bool,
}

impl Comments {
    fn strip(&mut self, line: &str) -> String {
        let (mut code, mut quoted) = (String::new(), false);
        let mut chars = line.chars().peekable();
        while let Some(char) = chars.next() {
            match (char, chars.peek()) {
                ('*', Some('/')) if self.open => {
                    chars.next();
                    self.open = false;
                }
                _ if self.open => {}
                ('/', Some('/')) if !quoted => break,
                ('/', Some('*')) if !quoted => {
                    chars.next();
                    self.open = true;
                    code.push(' ');
                }
                _ => {
                    quoted ^= char == '"';
                    code.push(char);
                }
            }
        }
        code
    }
}

/// Counts braces. Those within bodies are inline assembly's blocks, and vectors' of registers.
#[derive(Default)]
struct Braces {
    depth: u32,
}

impl Braces {
    /// Whether an outermost block ends in this line, which has no comments.
    fn read(&mut self, code: &str) -> Result<bool, Defect> {
        let mut end = false;
        for char in code.chars() {
            match char {
                '{' => self.depth += 1,
                '}' => {
                    self.depth = self.depth.checked_sub(1).ok_or(Defect::Unbalanced)?;
                    end |= self.depth == 0;
                }
                _ => {}
            }
        }
        Ok(end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = ".version 8.0\n.target sm_90a\n.address_size 64\n";

    /// The texts of kernels, by name.
    fn split(text: &str) -> Vec<(String, String)> {
        let kernels = by_kernel(text).unwrap();
        kernels.into_iter().map(|kernel| (kernel.name, kernel.text)).collect()
    }

    fn kernel(name: &str, body: &str) -> String {
        format!(".visible .entry {name}(\n\t.param .u32 {name}_param_0\n)\n.maxntid 256\n{{\n{body}\tret;\n}}\n")
    }

    #[test]
    fn each_kernel_has_the_header_and_itself() {
        let (first, second) = (kernel("first", ""), kernel("second", "\tbar.sync 0;\n"));
        let expected =
            [("first", &first), ("second", &second)].map(|(name, text)| (name.to_owned(), format!("{HEADER}{text}")));
        assert_eq!(split(&format!("{HEADER}{first}{second}")), expected);
    }

    #[test]
    fn whatever_is_no_kernel_goes_with_all_and_before_them() {
        let before = ".extern .shared .align 16 .b8 dynamic[];\n.shared .align 4 .b8 TILE[64];\n";
        let function = ".func (.param .b32 result) helper()\n{\n\t{\n\tret;\n}\n}\n";
        let table = ".const .align 4 .b8 table[4] = {\n1, 2,\n3, 4};\n";
        let (first, second) = (kernel("first", ""), kernel("second", ""));
        let texts = split(&format!("{HEADER}{before}{first}{function}{second}{table}"));
        assert_eq!(texts[0].1, format!("{HEADER}{before}{function}{table}{first}"));
        assert_eq!(texts[1].1, format!("{HEADER}{before}{function}{table}{second}"));
    }

    #[test]
    fn a_brace_at_the_start_of_a_line_does_not_end_a_kernel() {
        let assembly = "\t{\n.reg .u64 address;\nld.global.v2.f32 {%f1, %f2}, [address];\n}\n";
        let text = format!("{HEADER}{}{}", kernel("first", &assembly.repeat(2)), kernel("second", ""));
        let texts = split(&text);
        assert_eq!(texts.len(), 2);
        assert_eq!(texts[0].1, format!("{HEADER}{}", kernel("first", &assembly.repeat(2))));
    }

    #[test]
    fn a_kernel_on_one_line_is_one() {
        let texts = split(&format!("{HEADER}.visible .entry a() {{ ret; }}\n.visible .entry b()\n{{ ret; }}\n"));
        assert_eq!(texts[0].1, format!("{HEADER}.visible .entry a() {{ ret; }}\n"));
        assert_eq!(texts[1].1, format!("{HEADER}.visible .entry b()\n{{ ret; }}\n"));
    }

    #[test]
    fn comments_to_who_loads_the_text_stay() {
        let body = "\tbar.sync 0; //! unless alone\n\t//! if alone: bar.warp.sync 1;\n\tmov.u32 %r1, 0; // one\n/*\n//! none\n*/\n";
        let kept = "\tbar.sync 0; //! unless alone\n\t//! if alone: bar.warp.sync 1;\n\tmov.u32 %r1, 0;\n";
        assert_eq!(
            split(&format!("{HEADER}{}", kernel("first", body)))[0].1,
            format!("{HEADER}{}", kernel("first", kept))
        );
    }

    #[test]
    fn comments_are_left_out_and_nothing_in_them_counts() {
        let body =
            "\t// begin } inline asm\n\tmov.u32 %r1, 0; // {\n/* } }\n.visible .entry no(\n} */\tadd.u32 /*{*/ %r1;\n";
        let text = format!("// Generated {{\n{HEADER}\n// .globl\tfirst\n{}", kernel("first", body));
        let expected = kernel("first", "\tmov.u32 %r1, 0;\n\tadd.u32   %r1;\n");
        assert_eq!(split(&text), [("first".to_owned(), format!("{HEADER}{expected}"))]);
    }

    #[test]
    fn what_is_quoted_is_no_comment() {
        let body = "\t.pragma \"a // b /* c\";\n";
        let text = format!("{HEADER}{}", kernel("first", body));
        assert_eq!(split(&text)[0].1, text);
    }

    #[test]
    fn text_that_ends_too_early_is_refused() {
        let whole = format!("{HEADER}{}", kernel("first", "\t{ ret; }\n"));
        let after_parameters = whole.find(".maxntid").unwrap();
        for text in [&whole[..whole.len() - 2], &whole[..after_parameters], &format!("{whole}}}\n")] {
            assert_eq!(by_kernel(text), Err(Defect::Unbalanced), "{text}");
        }
        assert_eq!(by_kernel(HEADER), Err(Defect::NoKernels));
    }
}
