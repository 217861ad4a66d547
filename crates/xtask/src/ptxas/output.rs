//! What `ptxas -v` prints about each kernel.

use anyhow::{Context, ensure};

/// What one kernel takes on one GPU.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Kernel {
    pub name: String,
    /// Of each thread.
    pub registers: u32,
    /// Of each block, in bytes, as declared in the PTX; what a launch adds is not in it.
    pub shared: u32,
    /// Of each thread, in bytes, with the functions that it calls.
    pub stack: u32,
    /// Bytes.
    pub spill_stores: u32,
    /// Bytes.
    pub spill_loads: u32,
}

/// The report on one file for one GPU.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Report {
    pub kernels: Vec<Kernel>,
    pub warnings: Vec<String>,
}

impl Kernel {
    pub fn uses_local_memory(&self) -> bool {
        self.stack > 0 || self.spill_stores > 0 || self.spill_loads > 0
    }

    /// The line below `Function properties for ..`. Those of functions that the kernel calls follow its own.
    fn add_properties(&mut self, line: &str) -> anyhow::Result<()> {
        let [mut frame, mut stores, mut loads] = [None; 3];
        for part in line.split(',') {
            match part.trim().split_once(" bytes ") {
                Some((bytes, "stack frame")) => frame = bytes.parse().ok(),
                Some((bytes, "spill stores")) => stores = bytes.parse().ok(),
                Some((bytes, "spill loads")) => loads = bytes.parse().ok(),
                _ => {}
            }
        }
        let missing = || format!("no stack frame and spills in {line:?}");
        self.stack = self.stack.max(frame.with_context(missing)?);
        self.spill_stores += stores.with_context(missing)?;
        self.spill_loads += loads.with_context(missing)?;
        Ok(())
    }

    /// What follows on `Used`: `40 registers, used 1 barriers, 64 bytes cumulative stack size, 4096+16 bytes smem, ..`.
    fn add_usage(&mut self, line: &str) -> anyhow::Result<()> {
        for part in line.split(',').map(str::trim) {
            if let Some(registers) = part.strip_suffix(" registers") {
                self.registers = sum(registers)?;
            } else if let Some(bytes) = part.strip_suffix(" bytes smem") {
                self.shared = sum(bytes)?;
            } else if let Some(bytes) = part.strip_suffix(" bytes cumulative stack size") {
                self.stack = self.stack.max(sum(bytes)?);
            } else if let Some(bytes) = part.strip_suffix(" bytes lmem") {
                self.stack = self.stack.max(sum(bytes)?);
            }
        }
        ensure!(self.registers > 0, "no registers in {line:?}");
        Ok(())
    }
}

/// A number, or several with `+` between them: what the kernel declares, and what the system takes.
fn sum(numbers: &str) -> anyhow::Result<u32> {
    let numbers = numbers.split('+').map(|number| number.trim().parse::<u32>());
    numbers.sum::<Result<_, _>>().context("a number was expected")
}

impl Report {
    pub fn parse(text: &str) -> anyhow::Result<Self> {
        let mut report = Self::default();
        let mut lines = text.lines();
        while let Some(line) = lines.next() {
            if is_warning(line) {
                report.warnings.push(line.trim().to_owned());
                continue;
            }
            let message = line.split_once(':').map_or(line, |(_, message)| message).trim();
            if let Some(rest) = message.strip_prefix("Compiling entry function '") {
                let name = rest.split('\'').next().unwrap_or(rest).to_owned();
                report.kernels.push(Kernel { name, ..Kernel::default() });
            } else if message.starts_with("Function properties for ") {
                report.last(line)?.add_properties(lines.next().unwrap_or_default())?;
            } else if let Some(usage) = message.strip_prefix("Used ") {
                report.last(line)?.add_usage(usage)?;
            }
        }
        report.complete()
    }

    /// The kernel that a line is about.
    fn last(&mut self, line: &str) -> anyhow::Result<&mut Kernel> {
        self.kernels.last_mut().with_context(|| format!("{line:?} belongs to no kernel"))
    }

    /// Silence about a kernel must not pass for a kernel that takes nothing.
    fn complete(self) -> anyhow::Result<Self> {
        ensure!(!self.kernels.is_empty(), "it names no kernel");
        for kernel in &self.kernels {
            ensure!(kernel.registers > 0, "it does not say what `{}` uses", kernel.name);
        }
        Ok(self)
    }
}

/// Warnings, and remarks with a number `C75..`, which ptxas gives as mere information: they tell of tensor-core
/// instructions that wait for each other, or of register limits that it ignores.
fn is_warning(line: &str) -> bool {
    line.starts_with("ptxas warning") || line.contains("; warning") || line.contains("(C75")
}

/// The version in what `ptxas --version` prints: `13.0.88` in `.., release 13.0, V13.0.88`.
pub(super) fn release(text: &str) -> Option<&str> {
    let (_, after) = text.split_once(", release ")?;
    let (_, version) = after.lines().next()?.split_once(", V")?;
    Some(version.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO_KERNELS: &str = "\
ptxas info    : 0 bytes gmem, 128 bytes cmem[4]
ptxas info    : Compiling entry function 'tiles' for 'sm_75'
ptxas info    : Function properties for tiles
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 96 registers, used 1 barriers, 18432 bytes smem, 912 bytes cmem[0]
ptxas info    : Compile time = 27.932 ms
ptxas info    : Compiling entry function 'fill' for 'sm_75'
ptxas info    : Function properties for fill
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 10 registers, used 0 barriers, 888 bytes cmem[0]
ptxas info    : Compile time = 1.924 ms
";

    fn only_kernel(text: &str) -> Kernel {
        let report = Report::parse(text).unwrap();
        let [kernel] = &report.kernels[..] else { panic!("{report:?}") };
        kernel.clone()
    }

    #[test]
    fn each_kernel_has_its_own_figures() {
        let report = Report::parse(TWO_KERNELS).unwrap();
        let tiles = Kernel { name: "tiles".to_owned(), registers: 96, shared: 18432, ..Kernel::default() };
        let fill = Kernel { name: "fill".to_owned(), registers: 10, ..Kernel::default() };
        assert_eq!(report, Report { kernels: vec![tiles, fill], warnings: vec![] });
        assert!(!report.kernels.iter().any(Kernel::uses_local_memory));
    }

    #[test]
    fn spills_are_read() {
        let kernel = only_kernel(
            "ptxas info    : Compiling entry function 'k' for 'sm_90'\n\
             ptxas info    : Function properties for k\n    \
             16 bytes stack frame, 20 bytes spill stores, 24 bytes spill loads\n\
             ptxas info    : Used 255 registers, used 1 barriers, 16 bytes cumulative stack size\n",
        );
        assert_eq!((kernel.stack, kernel.spill_stores, kernel.spill_loads), (16, 20, 24));
        assert!(kernel.uses_local_memory());
    }

    #[test]
    fn what_a_function_takes_counts_for_the_kernel_that_calls_it() {
        let kernel = only_kernel(
            "ptxas info    : Compiling entry function 'k' for 'sm_90'\n\
             ptxas info    : Function properties for k\n    \
             0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n\
             ptxas info    : Used 30 registers, used 0 barriers\n\
             ptxas info    : Compile time = 4.743 ms\n\
             ptxas info    : Function properties for called\n    \
             64 bytes stack frame, 4 bytes spill stores, 8 bytes spill loads\n",
        );
        assert_eq!((kernel.stack, kernel.spill_stores, kernel.spill_loads), (64, 4, 8));
    }

    #[test]
    fn older_releases_write_some_figures_otherwise() {
        let kernel = only_kernel(
            "ptxas info    : Compiling entry function 'k' for 'sm_75'\r\n\
             ptxas info    : Used 8 registers, 24 bytes lmem, 4096+16 bytes smem, 56 bytes cmem[0]\r\n",
        );
        assert_eq!((kernel.registers, kernel.shared, kernel.stack), (8, 4112, 24));
    }

    #[test]
    fn warnings_and_serialised_tensor_core_instructions_are_kept() {
        let warnings = [
            "ptxas warning : Value of minnctapersm for entry k is out of range. minnctapersm will be ignored",
            "ptxas tiles.ptx, line 7; warning : Instruction is deprecated",
            "ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized in function 'k'",
            "ptxas info    : (C7517) wgmma.wait_group is injected in around line 14 by compiler in function 'k'",
        ];
        let report = Report::parse(&format!("{}\n{TWO_KERNELS}", warnings.join("\n"))).unwrap();
        assert_eq!(report.warnings, warnings);
        assert_eq!(report.kernels.len(), 2);
    }

    #[test]
    fn a_report_that_leaves_something_out_is_refused() {
        let start = "ptxas info    : Compiling entry function 'k' for 'sm_90'\n";
        let properties = "ptxas info    : Function properties for k\n";
        let used = "ptxas info    : Used 10 registers\n";
        assert!(Report::parse(&format!("{start}{used}")).is_ok());
        for text in [
            String::new(),
            start.to_owned(),
            used.to_owned(),
            format!("{start}{properties}{used}"),
            format!("{start}{properties}    0 bytes stack frame\n{used}"),
            format!("{start}ptxas info    : Used many registers\n"),
            format!("{start}ptxas info    : Used 4 bytes smem\n"),
        ] {
            assert!(Report::parse(&text).is_err(), "{text}");
        }
    }

    #[test]
    fn the_release_is_found() {
        let text = "ptxas: NVIDIA (R) Ptx optimizing assembler\n\
                    Cuda compilation tools, release 13.0, V13.0.88\nBuild cuda_13.0.r13.0/compiler.1_0\n";
        assert_eq!(release(text), Some("13.0.88"));
        assert_eq!(release("cargo 1.95.0"), None);
    }
}
