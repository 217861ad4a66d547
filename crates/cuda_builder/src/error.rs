//! What can go wrong between a crate of kernels and its PTX.

use std::io;
use std::path::{Path, PathBuf};

use crate::compiler::NoCompiler;
use crate::ptx::Defect;

/// Why there is no PTX.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No installed compiler can compile for the GPU.
    #[error(transparent)]
    NoCompiler(#[from] NoCompiler),

    /// The builder was not told what to build for.
    #[error("no architecture to build for: call `CudaBuilder::arch`, for example with \"sm_80\"")]
    NoArchitecture,

    /// An architecture's name is not one.
    #[error("{0:?} is no GPU architecture: they look like \"sm_80\" or \"sm_90a\"")]
    BadArchitecture(String),

    /// There is no target directory around the build script, and none was given.
    #[error("nowhere to build: not run from a build script, and no `CudaBuilder::target_dir` given")]
    NoTargetDir,

    /// The kernels do not compile, or cargo cannot fetch what they need.
    #[error("the kernels in {} do not build for {arch}:\n{output}", crate_dir.display())]
    Compile {
        /// The crate of kernels.
        crate_dir: PathBuf,
        /// The architecture that was being built.
        arch: String,
        /// What cargo and the compiler said.
        output: String,
    },

    /// The compiler's output cannot be loaded by a driver as it is.
    #[error("the PTX for {arch} is unusable: {defect}")]
    Unusable {
        /// The architecture that was being built.
        arch: String,
        /// What is wrong with it.
        defect: Defect,
    },

    /// A file cannot be read or written, or a program not started.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or program.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
}

impl Error {
    /// For `map_err`: an input or output error that says where.
    pub(crate) fn at(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { path: path.to_owned(), source }
    }
}
