//! A crate of kernels becomes PTX, when there is a compiler for it.

use std::path::{Path, PathBuf};

use cuda_builder::{CudaBuilder, DeviceCompiler, Error, Ptx};

/// The target directory of the builds that users make, so that `core` is compiled once for all of them.
fn target_dir() -> PathBuf {
    let scratch = Path::new(env!("CARGO_TARGET_TMPDIR"));
    scratch.parent().expect("it lies in the target directory").join("cuda_builder")
}

fn compiler() -> Option<DeviceCompiler> {
    match DeviceCompiler::find() {
        Ok(compiler) => Some(compiler),
        Err(none) => {
            eprintln!("skipped: {none}");
            None
        }
    }
}

fn fixture(name: &str) -> CudaBuilder {
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(name);
    CudaBuilder::new(fixture).target_dir(target_dir())
}

#[test]
fn every_primitive_compiles_for_every_generation() {
    let Some(compiler) = compiler() else { return };
    let out = tempfile::tempdir().unwrap();
    let builder = fixture("fixture").compiler(compiler).copy_to(out.path());
    let modules = builder.arch("sm_70").arch("sm_80").arch("sm_90a").build().unwrap();
    for ptx in &modules {
        check_module(ptx);
    }
    // The oldest that each architecture has, so that old drivers load them; for sm_80 the next one, which has all of
    // its instructions.
    let versions: Vec<_> = modules.iter().map(version).collect();
    assert_eq!(versions, [".version 6.0", ".version 7.1", ".version 8.0"]);
    let ampere = modules.iter().map(|ptx| ptx.text.contains(".visible .entry ampere("));
    assert_eq!(ampere.collect::<Vec<_>>(), [false, true, false], "kernels know what they are compiled for");
}

fn check_module(ptx: &Ptx) {
    assert_eq!(std::fs::read_to_string(&ptx.path).unwrap(), ptx.text);
    for part in [
        &format!(".target {}", ptx.arch),
        ".visible .entry line(",
        ".maxntid 128\n.minnctapersm 8\n{",
        ".maxntid 128\n{",
        "fma.rn.f32",
        "bar.sync",
        "shfl.sync.bfly.b32",
        "vote.sync.ballot.b32",
        "red.relaxed.gpu.global.add.f32",
        "ld.global.nc.v2.f32",
        "ld.shared.v4.u32",
        "trap;",
    ] {
        assert!(ptx.text.contains(part), "{part:?} is not in\n{}", ptx.text);
    }
}

fn version(ptx: &Ptx) -> &str {
    let mut lines = ptx.text.lines();
    lines.find(|line| line.starts_with(".version")).expect("PTX begins with its version")
}

/// A crate with that source; all such crates have the same name.
fn crate_with(source: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let manifest = "[package]\nname = \"lonely\"\nedition = \"2024\"\n[workspace]\n";
    std::fs::create_dir(dir.path().join("src")).unwrap();
    std::fs::write(dir.path().join("Cargo.toml"), manifest).unwrap();
    std::fs::write(dir.path().join("src/lib.rs"), source).unwrap();
    dir
}

/// A crate of one kernel.
fn crate_of(kernel: &str) -> tempfile::TempDir {
    crate_with(&format!(
        "#![no_std]\n#![feature(abi_ptx)]\n#[panic_handler]\nfn stop(_: &core::panic::PanicInfo) -> ! {{ loop {{}} }}\n\
         #[unsafe(no_mangle)]\npub extern \"ptx-kernel\" fn {kernel}() {{}}\n"
    ))
}

#[test]
fn what_has_been_compiled_is_not_compiled_again_nor_taken_for_another_crate() {
    let Some(compiler) = compiler() else { return };
    let dirs = ["tango", "whisky"].map(crate_of);
    let build = |dir: &tempfile::TempDir| {
        let builder = CudaBuilder::new(dir.path()).target_dir(target_dir()).compiler(compiler.clone());
        builder.arch("sm_80").build().unwrap().remove(0)
    };
    let written = |ptx: &Ptx| std::fs::metadata(ptx.path.with_extension("s")).unwrap().modified().unwrap();
    let first = dirs.each_ref().map(build);
    assert!(first[0].text.contains(".entry tango(") && first[1].text.contains(".entry whisky("));
    let before = first.each_ref().map(written);
    let second = dirs.each_ref().map(build);
    assert_eq!(second, first);
    assert_eq!(second.each_ref().map(written), before);
    // Another kernel is compiled.
    let source = dirs[0].path().join("src/lib.rs");
    std::fs::write(&source, std::fs::read_to_string(&source).unwrap().replace("tango", "foxtrot")).unwrap();
    assert!(build(&dirs[0]).text.contains(".entry foxtrot("));
}

#[test]
fn a_mistake_in_a_kernel_is_shown_as_the_compiler_shows_it() {
    let Some(compiler) = compiler() else { return };
    let broken = crate_with("#![no_std]\nfn f() { missing() }\n");
    let builder = CudaBuilder::new(broken.path()).target_dir(target_dir());
    match builder.compiler(compiler).arch("sm_80").build() {
        Err(Error::Compile { output, .. }) => assert!(output.contains("`missing`"), "{output}"),
        other => panic!("{other:?}"),
    }
}
