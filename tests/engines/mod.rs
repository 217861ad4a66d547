//! The engines: everything that computes a transposed convolution, behind one face.
//!
//! A new engine is a type that implements [`Computes`] and a module of a few lines in [`on_every_engine`]. Every
//! property, every named case and the whole PyTorch table then runs on it, so it has to take any geometry. An engine
//! that cannot run on this machine says why on standard error; one that needs a GPU fails instead, if the machine has
//! one.

#![allow(dead_code, reason = "every test file includes this module and uses its own part of it")]

#[cfg(feature = "cuda")]
pub mod cuda;
#[cfg(feature = "emulator")]
pub mod emulator;
mod erased;
#[cfg(feature = "cuda")]
mod kind;
#[path = "../report/mod.rs"]
pub mod report;

use std::{
    fmt::Write as _,
    time::{Duration, Instant},
};

#[cfg(feature = "cuda")]
use conv_transpose::cuda::{CudaError, Unsupported};
use conv_transpose::{ConvTranspose, Error, Shape, Tensor, cpu};

use crate::geometries::{Draw, Failure, Stop, Tally};
pub use erased::Engine;
use report::{machine_has_gpu, say};

/// A test of an engine.
type Test = fn(&Engine) -> Result<Tally, Failure>;

/// Something that computes a transposed convolution in `f32`. Tests take it as an [`Engine`].
pub trait Computes: Sized + 'static {
    /// What reports call it.
    const NAME: &'static str;

    /// Whether the same call gives the same bits every time.
    const REPEATABLE: bool = true;

    /// Whether it may be missing only on a machine without a GPU.
    const NEEDS_GPU: bool = false;

    /// The largest relative error of one of its operations; 2^-24 for `f32` rounded to nearest.
    const ROUNDOFF: f64 = f32::EPSILON as f64 / 2.0;

    /// The random cases that it gets where others get `usual` ones. An engine that is slow takes fewer.
    fn draw(usual: u32) -> Draw {
        Draw::usual(usual)
    }

    /// Makes it ready, or says why this machine cannot run it.
    fn start() -> Result<Self, String>;

    /// The output for the given tensors. Each output element must hold NaN before the engine computes it, see
    /// [`poisoned`].
    fn forward<const D: usize>(
        &self,
        layer: &ConvTranspose<D>,
        input: &Tensor<f32, D>,
        weight: &Tensor<f32, D>,
        bias: Option<&[f32]>,
    ) -> Result<Vec<f32>, Stop>;
}

/// An output that no engine has written yet: a forgotten element stays NaN, and NaN equals nothing.
pub fn poisoned<const D: usize>(shape: Shape<D>) -> Tensor<f32, D> {
    Tensor::filled(shape, f32::NAN).unwrap()
}

/// Every test of every engine takes only what the library takes, so any error is a failure; except that the tile
/// algorithm may find no tile that fits in shared memory, or too many taps for its tables, and leave the problem to
/// another one.
impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        #[cfg(feature = "cuda")]
        if let Error::Cuda(CudaError::Unsupported { reason, .. }) = &error {
            let too_many_taps = "the number of taps and phases";
            if matches!(reason, Unsupported::NoTile)
                || matches!(reason, Unsupported::TooLarge { what, .. } if *what == too_many_taps)
            {
                return Self::Unsupported(error.to_string());
            }
        }
        Self::Failed(format!("refused: {error}"))
    }
}

/// The CPU backend.
pub struct Cpu;

impl Computes for Cpu {
    const NAME: &'static str = "cpu";

    fn start() -> Result<Self, String> {
        Ok(Self)
    }

    fn forward<const D: usize>(
        &self,
        layer: &ConvTranspose<D>,
        input: &Tensor<f32, D>,
        weight: &Tensor<f32, D>,
        bias: Option<&[f32]>,
    ) -> Result<Vec<f32>, Stop> {
        let plan = cpu::Plan::new(layer, input.shape())?;
        let mut output = poisoned(plan.output_shape());
        plan.forward(input, weight, bias, &mut output)?;
        Ok(output.into_vec())
    }
}

/// Stamps the given functions of this file's root as tests of every engine: the one list of engines.
///
/// `in_1d_2d_3d` takes functions `fn<const D: usize>(&Engine) -> Result<Tally, Failure>`, and `once` takes functions
/// `fn(&Engine) -> Result<Tally, Failure>`; `large` is the same for tests that run only when asked for with
/// `--ignored`.
macro_rules! on_every_engine {
    ($how:ident: $($property:ident),+ $(,)?) => {
        mod cpu {
            on_engine!($how, $crate::engines::Cpu: $($property),+);
        }
        #[cfg(feature = "emulator")]
        mod emulated_col2im {
            on_engine!($how, $crate::engines::emulator::Col2im: $($property),+);
        }
        #[cfg(feature = "emulator")]
        mod emulated_direct {
            on_engine!($how, $crate::engines::emulator::Direct: $($property),+);
        }
        #[cfg(feature = "emulator")]
        mod emulated_gather {
            on_engine!($how, $crate::engines::emulator::Gather: $($property),+);
        }
        #[cfg(feature = "emulator")]
        mod emulated_scatter {
            on_engine!($how, $crate::engines::emulator::Scatter: $($property),+);
        }
        #[cfg(feature = "emulator")]
        mod emulated_tile {
            on_engine!($how, $crate::engines::emulator::Tile: $($property),+);
        }
        #[cfg(feature = "emulator")]
        mod emulated_ordinary_tile {
            on_engine!($how, $crate::engines::emulator::OrdinaryTile: $($property),+);
        }
        #[cfg(feature = "cuda")]
        mod cuda_col2im {
            on_engine!($how, $crate::engines::cuda::Col2im: $($property),+);
        }
        #[cfg(feature = "cuda")]
        mod cuda_direct {
            on_engine!($how, $crate::engines::cuda::Direct: $($property),+);
        }
        #[cfg(feature = "cuda")]
        mod cuda_gather {
            on_engine!($how, $crate::engines::cuda::Gather: $($property),+);
        }
        #[cfg(feature = "cuda")]
        mod cuda_scatter {
            on_engine!($how, $crate::engines::cuda::Scatter: $($property),+);
        }
        #[cfg(feature = "cuda")]
        mod cuda_tile {
            on_engine!($how, $crate::engines::cuda::Tile: $($property),+);
        }
    };
}

macro_rules! on_engine {
    (in_1d_2d_3d, $engine:ty: $($property:ident),+) => {$(
        mod $property {
            #[test]
            fn in_1d() {
                $crate::engines::run::<$engine>(concat!(stringify!($property), " in 1d"), $crate::$property::<1>);
            }

            #[test]
            fn in_2d() {
                $crate::engines::run::<$engine>(concat!(stringify!($property), " in 2d"), $crate::$property::<2>);
            }

            #[test]
            fn in_3d() {
                $crate::engines::run::<$engine>(concat!(stringify!($property), " in 3d"), $crate::$property::<3>);
            }
        }
    )+};
    (large, $engine:ty: $($property:ident),+) => {$(
        #[test]
        #[ignore = "takes 9 GB of memory"]
        fn $property() {
            $crate::engines::run::<$engine>(stringify!($property), $crate::$property);
        }
    )+};
    (once, $engine:ty: $($property:ident),+) => {$(
        #[test]
        fn $property() {
            $crate::engines::run::<$engine>(stringify!($property), $crate::$property);
        }
    )+};
}

/// Runs one test on one engine and reports how many cases ran.
///
/// # Panics
/// If the test fails, if it ran on no case at all, or if the engine is missing where it may not be.
pub fn run<C: Computes>(name: &str, test: Test) {
    match attempt::<C>(name, machine_has_gpu(), test) {
        Ok(line) => say(&line),
        Err(reason) => panic!("{} {name}: {reason}", C::NAME),
    }
}

/// The line to report, or the reason to fail.
pub fn attempt<C: Computes>(name: &str, machine_has_gpu: bool, test: Test) -> Result<String, String> {
    let engine = match C::start() {
        Ok(ready) => Engine::new(ready),
        Err(reason) if C::NEEDS_GPU && !machine_has_gpu => return Ok(format!("{} {name}: skipped: {reason}", C::NAME)),
        Err(reason) => return Err(format!("this machine should run it, but: {reason}")),
    };
    let start = Instant::now();
    let Tally { ran, unsupported } = test(&engine).map_err(|failure| failure.to_string())?;
    if ran == 0 {
        return Err(format!("no case ran; {unsupported} are not supported"));
    }
    let mut line = format!("{} {name}: {ran} cases in {}", C::NAME, milliseconds(start.elapsed()));
    if unsupported > 0 {
        write!(line, ", {unsupported} more not supported").unwrap();
    }
    Ok(line)
}

fn milliseconds(time: Duration) -> String {
    format!("{} ms", time.as_millis())
}
