//! The compiler's PTX, made ready for a driver: launch bounds written in, and defects found before a driver finds them.
//!
//! rustc has no attribute for launch bounds. `#[kernel(launch_bounds(..))]` therefore leaves a comment in the assembly,
//! `// launch_bounds NAME THREADS [BLOCKS]`, which becomes the directives `.maxntid` and `.minnctapersm` of that
//! kernel.
//!
//! Nor does rustc align parameters to more than 16 bytes. `tensor_map_parameter!` leaves `// tensor_map PARAMETER`
//! where it takes the address of one, which has to be aligned to 64.

use std::collections::{BTreeMap, BTreeSet};

/// Functions that the driver itself provides to kernels.
const SYSTEM_CALLS: &[&str] = &["vprintf", "malloc", "free", "__assertfail"];

/// Why a driver would not load the PTX.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Defect {
    /// There is nothing to launch.
    #[error("it has no kernels")]
    NoKernels,
    /// A function is called that is not there, such as one that a panic calls.
    #[error("it calls `{0}`, which is not in it")]
    Unresolved(String),
    /// Two arrays in shared memory have the same name.
    #[error("it has two shared arrays named `{0}`: names must be unique over all kernels")]
    DuplicateArray(String),
    /// Launch bounds for something that is no kernel.
    #[error("it has launch bounds for `{0}`, which is no kernel in it")]
    UnknownKernel(String),
    /// The address of tensor maps that are no parameter, or none of 128 bytes for each.
    #[error("it uses `{0}` as tensor maps, which is no parameter of a multiple of 128 bytes, aligned to 16")]
    NoTensorMap(String),
    /// A text that is not whole.
    #[error("its braces do not match")]
    Unbalanced,
}

/// Checks the compiler's text and writes the launch bounds in.
pub(crate) fn finish(text: &str) -> Result<String, Defect> {
    check_functions(text)?;
    check_arrays(text)?;
    let mut bounds = read_bounds(text);
    let finished = align_tensor_maps(raise_version(&write_bounds(text, &mut bounds)?))?;
    match bounds.into_keys().next() {
        Some(unused) => Err(Defect::UnknownKernel(unused.to_owned())),
        None => Ok(finished),
    }
}

/// rustc declares the language version that came with the architecture. That of sm_80 lacks one of its instructions,
/// waiting for a phase of a memory barrier by parity, which the next version has.
fn raise_version(text: &str) -> String {
    text.replacen("\n.version 7.0\n", "\n.version 7.1\n", 1)
}

/// Bytes of a tensor map.
const TENSOR_MAP_BYTES: u32 = 128;

/// Aligns the parameters that are tensor maps to 64 bytes.
fn align_tensor_maps(mut text: String) -> Result<String, Defect> {
    let marks = text.lines().filter_map(|line| line.trim().strip_prefix("// tensor_map "));
    for map in marks.map(str::to_owned).collect::<BTreeSet<_>>() {
        let declared = |align: u32| format!(".param .align {align} .b8 {map}[");
        let rest = text.split_once(&declared(16)).map_or("", |(_, rest)| rest);
        let bytes = rest.split_once(']').and_then(|(bytes, _)| bytes.parse::<u32>().ok()).unwrap_or(0);
        if bytes == 0 || !bytes.is_multiple_of(TENSOR_MAP_BYTES) {
            return Err(Defect::NoTensorMap(map));
        }
        text = text.replacen(&declared(16), &declared(64), 1);
    }
    Ok(text)
}

fn check_functions(text: &str) -> Result<(), Defect> {
    let declared = text.lines().filter(|line| line.trim_start().starts_with(".extern .func"));
    for line in declared {
        let name = declared_function(line);
        if !SYSTEM_CALLS.contains(&name) {
            return Err(Defect::Unresolved(name.to_owned()));
        }
    }
    Ok(())
}

/// The name in `.extern .func (.param .b32 result) name` or `.extern .func name(`; parameters may follow.
fn declared_function(line: &str) -> &str {
    let rest = line.trim_start().trim_start_matches(".extern .func").trim_start();
    let after_result = match rest.strip_prefix('(') {
        Some(result) => result.split_once(')').map_or("", |(_, name)| name),
        None => rest,
    };
    let name = after_result.trim();
    name.split(|c: char| c == '(' || c.is_whitespace()).next().unwrap_or(name)
}

fn check_arrays(text: &str) -> Result<(), Defect> {
    let mut seen = BTreeSet::new();
    for line in text.lines().filter(|line| line.starts_with(".shared ")) {
        let name = line.split_whitespace().find_map(|word| word.split_once('['));
        if let Some((name, _)) = name.filter(|(name, _)| !seen.insert(*name)) {
            return Err(Defect::DuplicateArray(name.to_owned()));
        }
    }
    Ok(())
}

/// The directives of each kernel that has launch bounds.
fn read_bounds(text: &str) -> BTreeMap<&str, String> {
    let marks = text.lines().filter_map(|line| line.trim().strip_prefix("// launch_bounds "));
    marks
        .filter_map(|mark| {
            let mut words = mark.split_whitespace();
            let (kernel, threads) = (words.next()?, words.next()?);
            let blocks = words.next().map(|blocks| format!(".minnctapersm {blocks}\n"));
            let directives = format!(".maxntid {threads}\n{}", blocks.unwrap_or_default());
            Some((kernel, directives))
        })
        .collect()
}

/// Directives stand between a kernel's parameters and its body. Those that find their kernel are taken out of `bounds`.
fn write_bounds(text: &str, bounds: &mut BTreeMap<&str, String>) -> Result<String, Defect> {
    let mut finished = String::with_capacity(text.len());
    let mut kernels = 0;
    let mut pending = None;
    for line in text.lines() {
        if let Some(name) = kernel_name(line) {
            kernels += 1;
            pending = bounds.remove(name);
        }
        if line.starts_with('{') {
            finished.push_str(&pending.take().unwrap_or_default());
        }
        finished.push_str(line);
        finished.push('\n');
    }
    if kernels == 0 { Err(Defect::NoKernels) } else { Ok(finished) }
}

/// The kernel that begins in this line.
pub(crate) fn kernel_name(line: &str) -> Option<&str> {
    let (name, _) = line.trim_start().strip_prefix(".visible .entry ")?.split_once('(')?;
    Some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KERNEL: &str = ".visible .entry fill(\n\t.param .u32 fill_param_0\n)\n{\n\tret;\n}\n";

    #[test]
    fn only_the_version_of_sm_80_is_raised() {
        let of = |version: &str| format!("//\n\n.version {version}\n.target sm_80\n");
        assert_eq!(raise_version(&of("7.0")), of("7.1"));
        assert_eq!(raise_version(&of("8.0")), of("8.0"));
    }

    #[test]
    fn tensor_maps_are_aligned() {
        let text = |align: u32, bytes: u32| {
            format!(
                ".visible .entry fill(\n\t.param .align {align} .b8 fill_param_0[{bytes}],\n\t.param .align 16 .b8 \
                 fill_param_1[128]\n)\n{{\n\t// tensor_map fill_param_0\n\tret;\n}}\n"
            )
        };
        assert_eq!(finish(&text(16, 128)), Ok(text(64, 128)));
        assert_eq!(finish(&text(16, 256)), Ok(text(64, 256)));
        assert_eq!(finish(&text(16, 64)), Err(Defect::NoTensorMap("fill_param_0".to_owned())));
    }

    #[test]
    fn text_without_marks_stays_as_it_is() {
        assert_eq!(finish(KERNEL).unwrap(), KERNEL);
    }

    #[test]
    fn launch_bounds_go_between_parameters_and_body() {
        let text = format!("// launch_bounds fill 256 2\n{KERNEL}");
        let expected = text.replace(")\n{", ")\n.maxntid 256\n.minnctapersm 2\n{");
        assert_eq!(finish(&text).unwrap(), expected);
    }

    #[test]
    fn launch_bounds_reach_only_their_kernel() {
        let other = ".visible .entry other()\n{\n\tret;\n}\n";
        let text = format!("// launch_bounds other 32\n{KERNEL}{other}");
        let expected = text.replace("other()\n{", "other()\n.maxntid 32\n{");
        assert_eq!(finish(&text).unwrap(), expected);
    }

    #[test]
    fn launch_bounds_without_a_kernel_are_refused() {
        let text = format!("// launch_bounds gone 256\n{KERNEL}");
        assert_eq!(finish(&text), Err(Defect::UnknownKernel("gone".to_owned())));
    }

    #[test]
    fn text_without_kernels_is_refused() {
        assert_eq!(finish(".version 7.0\n"), Err(Defect::NoKernels));
    }

    #[test]
    fn missing_functions_are_refused() {
        let missing = Err(Defect::Unresolved("panic_bounds_check".to_owned()));
        for declaration in [
            ".extern .func panic_bounds_check\n(\n",
            ".extern .func panic_bounds_check(.param .b64 index);\n",
            ".extern .func  (.param .b32 func_retval0) panic_bounds_check\n",
        ] {
            assert_eq!(finish(&format!("{declaration}{KERNEL}")), missing, "{declaration}");
        }
    }

    #[test]
    fn the_drivers_own_functions_are_not_missing() {
        let text = format!(".extern .func  (.param .b32 func_retval0) vprintf\n(\n)\n;\n{KERNEL}");
        assert_eq!(finish(&text).unwrap(), text);
    }

    #[test]
    fn shared_arrays_of_the_same_name_are_refused() {
        let array = ".shared .align 16 .b8 TILE[512];\n";
        assert!(finish(&format!("{array}{KERNEL}")).is_ok());
        let twice = finish(&format!("{array}{array}{KERNEL}"));
        assert_eq!(twice, Err(Defect::DuplicateArray("TILE".to_owned())));
    }
}
