//! The flags and profile that kernels are compiled with, and why.

/// Counts changes to what this crate itself does to the compiler's output.
const REVISION: u32 = 1;

/// Settings of the release profile. They are given on the command line, so that the user's workspace has no part in
/// them: one code generation unit and full link-time optimisation, because PTX has no linking to speak of.
pub(crate) const PROFILE: &[&str] = &[
    "profile.release.opt-level=3",
    "profile.release.lto=\"fat\"",
    "profile.release.codegen-units=1",
    "profile.release.panic=\"abort\"",
    "profile.release.debug=false",
    "profile.release.debug-assertions=false",
    "profile.release.overflow-checks=false",
    "profile.release.incremental=false",
];

/// Flags for every crate that ends up in the PTX, `core` among them.
pub(crate) fn rustflags(arch: &str) -> Vec<String> {
    vec![
        "-Zunstable-options".to_owned(),
        // A panic becomes a trap where it happens. Otherwise it is a call into `core` with a formatted message, and
        // the PTX refers to functions that are not in it.
        "-Cpanic=immediate-abort".to_owned(),
        // Also chooses the PTX version: the oldest that has this architecture, so that old drivers load it.
        format!("-Ctarget-cpu={arch}"),
        // For kernels that use instructions of one generation; rustc itself has no condition for them.
        format!("--cfg=cuda_arch={arch:?}"),
        // For attributes that kernels need there, but not on the host.
        "--cfg=gpu".to_owned(),
        // Copies code, and with it barriers, into branches that threads take separately.
        "-Zmir-enable-passes=-JumpThreading".to_owned(),
    ]
}

/// Everything beside the sources that decides the PTX, for hashing.
pub(crate) fn describe(archs: &[String]) -> String {
    let mut lines = vec![format!("cuda_builder {REVISION}")];
    lines.extend(PROFILE.iter().map(|&setting| setting.to_owned()));
    lines.extend(archs.iter().map(|arch| rustflags(arch).join(" ")));
    lines.join("\n")
}
