//! Compiled or prebuilt: who decides, and what happens when neither can be had.

use std::env;

use cuda_builder::Ptx;

use crate::prebuilt::Unusable;

/// The environment variable by which a user decides.
pub const REQUEST: &str = "CONV_TRANSPOSE_PTX";

/// What the user asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// Nothing: compile where that is possible.
    Automatic,
    /// PTX compiled now.
    Source,
    /// The PTX in the repository.
    Prebuilt,
}

/// The modules to use.
#[derive(Debug)]
pub struct Choice {
    /// One for each architecture.
    pub modules: Vec<Ptx>,
    /// What the user should hear about it.
    pub warning: Option<String>,
}

/// Why there is no PTX to use.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The user asked for something that does not exist.
    #[error("{REQUEST} is {0:?}, but can only be `source` or `prebuilt`, or not set")]
    BadRequest(String),

    /// Compiling was asked for, and does not work.
    #[error("{0}\n({REQUEST}=source asks for kernels compiled from source)")]
    Source(#[source] cuda_builder::Error),

    /// The prebuilt files were asked for, and cannot be used.
    #[error(
        "{0}\n({REQUEST}=prebuilt asks for them; `cargo xtask ptx` makes them anew, given a compiler for GPU code)"
    )]
    Prebuilt(#[source] Unusable),

    /// Neither works.
    #[error(
        "{source}\n\nand the repository does not help out:\n{prebuilt}\n\
             (after a change to the kernels, `cargo xtask ptx` makes it anew, given such a compiler)"
    )]
    Neither {
        /// Why it was not compiled.
        source: Box<cuda_builder::Error>,
        /// Why the prebuilt files cannot be used.
        prebuilt: Box<Unusable>,
    },
}

impl Request {
    /// Reads [`REQUEST`].
    ///
    /// # Errors
    ///
    /// [`Error::BadRequest`] when it is set to something else.
    pub fn from_env() -> Result<Self, Error> {
        match env::var_os(REQUEST) {
            None => Ok(Self::Automatic),
            Some(value) => Self::parse(&value.to_string_lossy()),
        }
    }

    fn parse(value: &str) -> Result<Self, Error> {
        match value {
            "source" => Ok(Self::Source),
            "prebuilt" => Ok(Self::Prebuilt),
            other => Err(Error::BadRequest(other.to_owned())),
        }
    }
}

/// Gets the modules in the way that was asked for.
///
/// Left to itself it compiles. A machine that cannot do that gets the prebuilt files; so does one on which compiling
/// fails, with a warning, because files that are up to date show that the fault is not in the kernels.
///
/// # Errors
///
/// [`Error`], with all that is needed to put it right.
pub fn choose(
    request: Request,
    compile: impl FnOnce() -> Result<Vec<Ptx>, cuda_builder::Error>,
    prebuilt: impl FnOnce() -> Result<Vec<Ptx>, Unusable>,
) -> Result<Choice, Error> {
    match request {
        Request::Source => compile().map(Choice::silent).map_err(Error::Source),
        Request::Prebuilt => prebuilt().map(Choice::silent).map_err(Error::Prebuilt),
        Request::Automatic => match compile() {
            Ok(modules) => Ok(Choice::silent(modules)),
            Err(source) => instead_of(source, prebuilt()),
        },
    }
}

fn instead_of(source: cuda_builder::Error, prebuilt: Result<Vec<Ptx>, Unusable>) -> Result<Choice, Error> {
    match prebuilt {
        Ok(modules) => {
            let expected = matches!(source, cuda_builder::Error::NoCompiler(_));
            let warning = (!expected).then(|| format!("using prebuilt PTX, because {source}"));
            Ok(Choice { modules, warning })
        }
        Err(prebuilt) => Err(Error::Neither { source: Box::new(source), prebuilt: Box::new(prebuilt) }),
    }
}

impl Choice {
    fn silent(modules: Vec<Ptx>) -> Self {
        let warning = None;
        Self { modules, warning }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Compiled = Result<Vec<Ptx>, cuda_builder::Error>;
    type Loaded = Result<Vec<Ptx>, Unusable>;

    fn module(from: &str) -> Vec<Ptx> {
        vec![Ptx { arch: "sm_80".to_owned(), path: "sm_80.ptx".into(), text: from.to_owned() }]
    }

    fn compiled() -> Compiled {
        Ok(module("compiled"))
    }

    fn does_not_compile() -> Compiled {
        Err(cuda_builder::Error::Compile {
            crate_dir: "kernels".into(),
            arch: "sm_80".to_owned(),
            output: "error: missing".to_owned(),
        })
    }

    fn no_compiler() -> Compiled {
        let absent = cuda_builder::DeviceCompiler::at("/no/such/rustc");
        Err(absent.unwrap_err().into())
    }

    fn current() -> Loaded {
        Ok(module("prebuilt"))
    }

    fn stale() -> Loaded {
        Err(Unusable::Stale { dir: "ptx".into(), found: "old".to_owned(), expected: "new".to_owned() })
    }

    fn unwanted<T>() -> T {
        panic!("this was not asked for")
    }

    fn text(choice: &Choice) -> &str {
        &choice.modules[0].text
    }

    #[test]
    fn what_was_asked_for_is_done_and_nothing_else() {
        let source = choose(Request::Source, compiled, unwanted).unwrap();
        assert_eq!(text(&source), "compiled");
        let prebuilt = choose(Request::Prebuilt, unwanted, current).unwrap();
        assert_eq!(text(&prebuilt), "prebuilt");
        assert!(matches!(choose(Request::Source, does_not_compile, unwanted), Err(Error::Source(_))));
        assert!(matches!(choose(Request::Prebuilt, unwanted, stale), Err(Error::Prebuilt(_))));
    }

    #[test]
    fn left_alone_it_compiles() {
        let choice = choose(Request::Automatic, compiled, unwanted).unwrap();
        assert_eq!(text(&choice), "compiled");
        assert_eq!(choice.warning, None);
    }

    #[test]
    fn without_a_compiler_current_prebuilt_ptx_is_used_without_a_word() {
        let choice = choose(Request::Automatic, no_compiler, current).unwrap();
        assert_eq!(text(&choice), "prebuilt");
        assert_eq!(choice.warning, None);
    }

    #[test]
    fn when_compiling_fails_current_prebuilt_ptx_is_used_with_a_warning() {
        let choice = choose(Request::Automatic, does_not_compile, current).unwrap();
        assert_eq!(text(&choice), "prebuilt");
        assert!(choice.warning.unwrap().contains("error: missing"));
    }

    #[test]
    fn stale_ptx_is_never_used_and_the_error_says_what_to_do() {
        let error = choose(Request::Automatic, no_compiler, stale).unwrap_err().to_string();
        for part in ["rustup component add rust-src", "from other sources", "cargo xtask ptx"] {
            assert!(error.contains(part), "{part:?} is not in:\n{error}");
        }
        assert!(choose(Request::Automatic, does_not_compile, stale).is_err());
    }

    #[test]
    fn a_request_is_one_of_two_words() {
        assert_eq!(Request::parse("source").unwrap(), Request::Source);
        assert_eq!(Request::parse("prebuilt").unwrap(), Request::Prebuilt);
        let error = Request::parse("yes").unwrap_err().to_string();
        assert!(error.contains("CONV_TRANSPOSE_PTX"), "{error}");
    }
}
