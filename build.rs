//! Embeds the kernels: writes `ptx.rs` into `OUT_DIR`, a table of the PTX of each kernel that the library includes.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    #[cfg(feature = "cuda")]
    if let Err(error) = embed::embed_kernels() {
        // The message has lines and is for people; a panic would wrap it in debris.
        eprintln!("\nno PTX for the kernels of conv-transpose\n\n{error}\n");
        std::process::exit(1);
    }
}

#[cfg(feature = "cuda")]
mod embed {
    use std::error::Error;
    use std::fmt::Write as _;
    use std::path::{Path, PathBuf};
    use std::{env, fs};

    use cuda_builder::{DeviceCompiler, KernelPtx, Ptx};
    use kernel_ptx::{Kernels, MachineCode, REQUEST, Request, choose};

    pub(crate) fn embed_kernels() -> Result<(), Box<dyn Error>> {
        let kernels = Kernels::new(variable("CARGO_MANIFEST_DIR")?);
        print_what_decides(&kernels);
        let hash = kernels.hash()?;
        let choice = choose(Request::from_env()?, || kernels.compile(), || kernels.prebuilt().load(&hash))?;
        for line in choice.warning.iter().flat_map(|warning| warning.lines()) {
            println!("cargo::warning={line}");
        }
        write_table(&choice.modules, &kernels.machine_code(), &variable("OUT_DIR")?)
    }

    fn print_what_decides(kernels: &Kernels) {
        kernels.sources().print_rerun_if_changed();
        println!("cargo::rerun-if-changed={}", kernels.prebuilt().dir().display());
        println!("cargo::rerun-if-env-changed={REQUEST}");
        DeviceCompiler::print_rerun_if_env_changed();
    }

    fn variable(name: &str) -> Result<PathBuf, Box<dyn Error>> {
        let value = env::var_os(name).ok_or_else(|| format!("cargo did not set {name}"))?;
        Ok(value.into())
    }

    /// An expression, `&[Ptx { name, hash, machine_code, kernels: &[(name, text), ..] }, ..]`, oldest architecture
    /// first; whoever includes it says what a `Ptx` is.
    fn write_table(modules: &[Ptx], machine_code: &MachineCode, out_dir: &Path) -> Result<(), Box<dyn Error>> {
        let mut table = "&[\n".to_owned();
        for ptx in modules {
            let arch = &ptx.arch;
            fs::create_dir_all(out_dir.join(arch))?;
            writeln!(table, "    Ptx {{ name: {arch:?}, hash: {:?},", ptx.hash())?;
            match machine_code.of(ptx) {
                Some(path) => writeln!(table, "    machine_code: Some(include_bytes!({path:?})),")?,
                None => writeln!(table, "    machine_code: None,")?,
            }
            table.push_str("    kernels: &[\n");
            for KernelPtx { name, text } in ptx.kernels()? {
                let file = format!("{arch}/{name}.ptx");
                fs::write(out_dir.join(&file), text)?;
                writeln!(table, "        ({name:?}, include_str!(concat!(env!(\"OUT_DIR\"), \"/{file}\"))),")?;
            }
            table.push_str("    ] },\n");
        }
        table.push_str("]\n");
        fs::write(out_dir.join("ptx.rs"), table)?;
        Ok(())
    }
}
