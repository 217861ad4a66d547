//! The prebuilt PTX: made, and compared with the sources.

use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use cuda_builder::{CudaBuilder, DeviceCompiler, Ptx, enclosing_target_dir};
use kernel_ptx::Kernels;

/// Compiles the kernels into `ptx/`.
pub(crate) fn regenerate() -> anyhow::Result<()> {
    let kernels = kernels();
    let prebuilt = kernels.prebuilt();
    let compiler = DeviceCompiler::find()?;
    let modules = builder(&kernels, &compiler)?.copy_to(prebuilt.dir()).build()?;
    prebuilt.record(&kernels.hash()?, compiler.version())?;
    for module in modules {
        println!("{}: {} bytes", module.path.display(), module.text.len());
    }
    Ok(())
}

/// Fails unless `ptx/` is from the present sources and, where the same compiler is at hand, what it makes of them.
pub(crate) fn check() -> anyhow::Result<()> {
    let kernels = kernels();
    let prebuilt = kernels.prebuilt();
    let committed = prebuilt.load(&kernels.hash()?).context("run `cargo xtask ptx`")?;
    println!("ptx/ is from the present sources");
    let made_by = prebuilt.compiler()?;
    match DeviceCompiler::find() {
        Ok(compiler) if compiler.version() == made_by => {
            let fresh = builder(&kernels, &compiler)?.build()?;
            compare(&committed, &fresh)?;
            println!("{made_by} makes the same text of them");
        }
        Ok(other) => println!("not compiled again: here is {}, it was {made_by}", other.version()),
        Err(_) => {
            println!("not compiled again: there is no compiler for GPU code here, it was {made_by}")
        }
    }
    Ok(())
}

fn compare(committed: &[Ptx], fresh: &[Ptx]) -> anyhow::Result<()> {
    for (old, new) in committed.iter().zip(fresh) {
        let path = old.path.display();
        ensure!(old.text == new.text, "{path} is not what the compiler makes; run `cargo xtask ptx`");
    }
    Ok(())
}

/// The kernels of this checkout.
pub(crate) fn kernels() -> Kernels {
    Kernels::new(root())
}

/// The root of this checkout.
pub(crate) fn root() -> PathBuf {
    let own_dir = Path::new(env!("CARGO_MANIFEST_DIR"));
    own_dir.ancestors().nth(2).unwrap_or(own_dir).to_owned()
}

/// Builds where the library's build script does, so that neither has to start from nothing.
fn builder(kernels: &Kernels, compiler: &DeviceCompiler) -> anyhow::Result<CudaBuilder> {
    let program: PathBuf = std::env::current_exe()?;
    let target_dir = enclosing_target_dir(&program).context("this program is in no target directory")?;
    let builder = kernels.builder().compiler(compiler.clone());
    Ok(builder.target_dir(target_dir.join("cuda_builder")))
}
