//! The PTX of a kernel with the values of its first parameters written into it, in the place of these parameters.

/// The comment behind instructions that only kernels for any layer need.
const UNLESS_SPECIALISED: &str = "//! unless specialised";

/// The comment before instructions that only specialised kernels need.
const IF_SPECIALISED: &str = "//! if specialised: ";

/// The PTX of a kernel in which the values of its first parameters are constants: each load of some of their bytes
/// becomes a move, and launches do not pass them. It takes in what only specialised kernels need, and leaves out what
/// they do not, if it `goes_on` while products are under way.
pub(super) fn with_constants(ptx: &str, name: &str, values: &[impl AsRef<[u8]>], goes_on: bool) -> String {
    let parameter = format!("{name}_param_");
    let mut text = String::with_capacity(ptx.len());
    let is_left_out =
        |line: &str| goes_on && line.ends_with(UNLESS_SPECIALISED) || declares_one_of(line, &parameter, values.len());
    for line in ptx.lines().filter(|line| !is_left_out(line)) {
        match load(line, &parameter).and_then(|load| constant(&load, values)) {
            Some(constant) => text.push_str(&constant),
            None if goes_on => text.push_str(line.trim_start().strip_prefix(IF_SPECIALISED).unwrap_or(line)),
            None => text.push_str(line),
        }
        text.push('\n');
    }
    text
}

/// The PTX of a kernel that leaves registers for so many blocks on a multiprocessor, if it is more than 0.
pub(super) fn with_least_blocks(ptx: String, least_blocks: u32) -> String {
    const DIRECTIVE: &str = ".minnctapersm ";
    let Some((before, behind)) = ptx.split_once(DIRECTIVE).filter(|_| least_blocks > 0) else { return ptx };
    let behind = behind.trim_start_matches(|digit: char| digit.is_ascii_digit());
    format!("{before}{DIRECTIVE}{least_blocks}{behind}")
}

/// Whether a line declares one of the first parameters, as in `.param .align 8 .b8 kernel_param_0[720],`. Names of
/// parameters are `parameter` and a number.
fn declares_one_of(line: &str, parameter: &str, first: usize) -> bool {
    let declared = line.trim_start().strip_prefix(".param ").and_then(|rest| rest.split_once(parameter));
    let number = declared.and_then(|(_, number)| number.split(['[', ',']).next()?.parse().ok());
    number.is_some_and(|number: usize| number < first)
}

/// A load of one value from a parameter.
struct Load<'a> {
    register: &'a str,
    /// The parameter's number.
    parameter: usize,
    offset: usize,
    bytes: usize,
}

/// What a line loads from a parameter, as in `ld.param.b64 %rd1, [kernel_param_0+8];`, if it does. Names of parameters
/// are `parameter` and a number.
fn load<'a>(line: &'a str, parameter: &str) -> Option<Load<'a>> {
    let (kind, rest) = line.trim().strip_prefix("ld.param.")?.split_once(char::is_whitespace)?;
    let bytes = match kind {
        "b64" | "u64" | "s64" => 8,
        "b32" | "u32" | "s32" => 4,
        _ => return None,
    };
    let (register, place) = rest.trim().split_once(',')?;
    let place = place.trim().strip_prefix('[')?.strip_prefix(parameter)?.strip_suffix("];")?;
    let (number, offset) = place.split_once('+').unwrap_or((place, "0"));
    Some(Load { register, parameter: number.parse().ok()?, offset: offset.parse().ok()?, bytes })
}

/// The instruction in the place of a load, if the values have such bytes.
fn constant(load: &Load, values: &[impl AsRef<[u8]>]) -> Option<String> {
    let mut bytes = [0; 8];
    bytes[..load.bytes]
        .copy_from_slice(values.get(load.parameter)?.as_ref().get(load.offset..load.offset + load.bytes)?);
    Some(format!("\tmov.b{} {}, {:#x};", 8 * load.bytes, load.register, u64::from_le_bytes(bytes)))
}

#[cfg(test)]
mod tests {
    use conv_transpose_kernels::tile::{Tiling, VARIANTS};

    use super::*;
    use crate::cuda::embedded;

    #[test]
    fn loads_become_moves_of_the_same_bytes() {
        let ptx = "\tld.param.b64 \t%rd1, [tango_param_0];\n\tld.param.u32 \t%r7, [tango_param_0+12];\n\
                   \tld.param.b64 \t%rd2, [tango_param_2];\n\tld.param.b64 \t%rd3, [tango_param_0+16];\n\tadd.s64 %rd4, %rd1, 8;\n\
                   \tld.param.b32 \t%r8, [tango_param_1+4];\n\tbar.sync 0; //! unless specialised\n\t//! if specialised: bar.sync 1;\n";
        let values: Vec<u8> = (1..=24).collect();
        let expected = "\tmov.b64 %rd1, 0x807060504030201;\n\tmov.b32 %r7, 0x100f0e0d;\n\
                        \tld.param.b64 \t%rd2, [tango_param_2];\n\tld.param.b64 \t%rd3, [tango_param_0+16];\n\tadd.s64 %rd4, %rd1, 8;\n\
                        \tmov.b32 %r8, 0x18171615;\nbar.sync 1;\n";
        assert_eq!(with_constants(ptx, "tango", &[&values[..16], &values[16..]], true), expected);
    }

    #[test]
    fn parameters_that_are_constants_are_not_declared() {
        let ptx = ".visible .entry tango(\n\t.param .align 8 .b8 tango_param_0[24],\n\t.param .u32 tango_param_1,\n\
                   \t.param .u64 .ptr .align 1 tango_param_2,\n\t.param .u64 tango_param_10\n)\n";
        let without_first = ".visible .entry tango(\n\t.param .u32 tango_param_1,\n\
                             \t.param .u64 .ptr .align 1 tango_param_2,\n\t.param .u64 tango_param_10\n)\n";
        assert_eq!(with_constants(ptx, "tango", &[[0; 24]], true), without_first);
        let without_two = without_first.replace("\t.param .u32 tango_param_1,\n", "");
        assert_eq!(with_constants(ptx, "tango", &[[0; 24], [0; 24]], true), without_two);
        assert_eq!(with_constants(ptx, "tango", &[[0; 24]; 0], true), ptx);
        assert_eq!(with_constants(ptx, "tang", &[[0; 24]], true), ptx, "a name that begins alike");
    }

    #[test]
    fn blocks_are_written_where_the_kernel_has_its_own() {
        let ptx = ".visible .entry tango()\n.maxntid 256\n.minnctapersm 12\n{\n\tret;\n}\n";
        assert_eq!(with_least_blocks(ptx.to_owned(), 3), ptx.replace("12", "3"));
        assert_eq!(with_least_blocks(ptx.to_owned(), 0), ptx);
        assert_eq!(with_least_blocks("{\n\tret;\n}\n".to_owned(), 3), "{\n\tret;\n}\n");
    }

    /// Kernels that are compiled for their layer, by what their names begin with.
    const COMPILED: [&str; 4] = ["tile_", "gather", "direct", "col2im"];

    #[test]
    fn no_kernel_is_left_with_the_parameter_that_it_is_compiled_for() {
        // Longer than any of them.
        let values = vec![0; 1 << 10];
        for capability in [(7, 0), (8, 0), (9, 0)] {
            let ptx = embedded::newest("", capability).unwrap();
            let is_compiled = |name: &str| COMPILED.iter().any(|beginning| name.starts_with(beginning));
            for (name, text) in ptx.kernels.iter().filter(|(name, _)| is_compiled(name)) {
                let parameters = |text: &str| text.matches(&format!(".param .align 8 .b8 {name}_param_0[")).count();
                let uses = |text: &str| text.matches(&format!("{name}_param_0")).count();
                assert!(parameters(text) == 1 && uses(text) > 10, "{name} has a parameter, and reads it");
                let specialised = with_constants(text, name, &[&values], true);
                assert_eq!(uses(&specialised), 0, "{name}, {}", ptx.name);
                let second = format!("{name}_param_1");
                assert_eq!(specialised.matches(&second).count(), text.matches(&second).count(), "{name}");
            }
        }
    }

    #[test]
    fn no_tile_kernel_is_left_with_a_comment_for_kernels_of_one_kind() {
        let values = vec![0; size_of::<Tiling>()];
        for capability in [(7, 0), (8, 0), (9, 0)] {
            let ptx = embedded::newest("", capability).unwrap();
            for (name, text) in ptx.kernels.iter().filter(|(name, _)| name.starts_with("tile_")) {
                assert!(VARIANTS.iter().any(|variant| variant.kernel == *name));
                let specialised = with_constants(text, name, &[&values], true);
                // Where products are asynchronous: see `Accumulators::wait_unless_specialised` of the kernels.
                for comment in [UNLESS_SPECIALISED, IF_SPECIALISED] {
                    assert_eq!(text.contains(comment), capability == (9, 0), "{name}");
                    assert!(!specialised.contains(comment));
                }
            }
        }
    }
}
