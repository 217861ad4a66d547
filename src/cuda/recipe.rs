//! What an algorithm does for one problem, told apart from where it is done: its tables, and its launches in order.
//!
//! A recipe is carried out by the CUDA driver ([`Plan`](super::Plan)) or by the emulator; both take arguments as an array of
//! pointers, which [`Values`] makes.

use std::ffi::c_void;

use conv_transpose_kernels as kernels;

/// Threads of a block, for kernels with one thread per element. The kernels' launch bounds allow no more.
pub(super) const BLOCK: u32 = 256;

/// The most parameters that a kernel has.
const MOST_ARGUMENTS: usize = 8;

/// The tables and launches of an algorithm for one problem.
#[derive(Clone, Debug)]
pub(super) struct Recipe {
    pub(super) problem: kernels::Problem,
    /// The table of phases, which lies in device memory as long as the plan lives. May be empty.
    pub(super) phases: Vec<kernels::Phase>,
    pub(super) launches: Vec<Launch>,
}

/// One launch of a one-dimensional grid.
#[derive(Clone, Copy, Debug)]
pub(super) struct Launch {
    pub(super) kernel: &'static str,
    /// Threads that have something to do; the last block may have more.
    pub(super) threads: u64,
    /// The kernel's parameters, in order.
    pub(super) arguments: &'static [Argument],
}

/// A parameter of a kernel.
#[derive(Clone, Copy, Debug)]
pub(super) enum Argument {
    /// The [`kernels::Problem`].
    Problem,
    /// Address of the table of phases.
    Phases,
    /// The number of threads that have something to do, a `u64`.
    Threads,
    /// Address of the input.
    Input,
    /// Address of the weight.
    Weight,
    /// Address of the bias, null if there is none.
    Bias,
    /// Address of the output.
    Output,
}

/// Addresses of the tensors of one call.
#[derive(Clone, Copy, Debug)]
pub(super) struct Operands {
    pub(super) input: u64,
    pub(super) weight: u64,
    /// Zero if there is no bias.
    pub(super) bias: u64,
    pub(super) output: u64,
}

/// The value of every [`Argument`] of one launch.
pub(super) struct Values {
    problem: kernels::Problem,
    phases: u64,
    threads: u64,
    operands: Operands,
}

impl Launch {
    /// The number of blocks, which `check_grid` found to be possible.
    pub(super) fn blocks(&self) -> u32 {
        self.threads.div_ceil(BLOCK.into()) as u32
    }
}

impl Values {
    pub(super) fn new(problem: &kernels::Problem, phases: u64, launch: &Launch, operands: &Operands) -> Self {
        Self { problem: *problem, phases, threads: launch.threads, operands: *operands }
    }

    /// Pointers to the values that a launch takes, in order, and null behind them.
    pub(super) fn pointers(&mut self, launch: &Launch) -> [*mut c_void; MOST_ARGUMENTS] {
        let mut pointers = [std::ptr::null_mut(); MOST_ARGUMENTS];
        for (pointer, argument) in pointers.iter_mut().zip(launch.arguments) {
            *pointer = match argument {
                Argument::Problem => (&raw mut self.problem).cast(),
                Argument::Phases => (&raw mut self.phases).cast(),
                Argument::Threads => (&raw mut self.threads).cast(),
                Argument::Input => (&raw mut self.operands.input).cast(),
                Argument::Weight => (&raw mut self.operands.weight).cast(),
                Argument::Bias => (&raw mut self.operands.bias).cast(),
                Argument::Output => (&raw mut self.operands.output).cast(),
            };
        }
        pointers
    }
}

#[cfg(test)]
mod tests {
    use cuda_std::entry;

    use super::*;
    use crate::{ConvTranspose1d, Shape, cuda::algorithm};

    /// Size of an argument as the launchers pass it.
    fn bytes(argument: &Argument) -> usize {
        match argument {
            Argument::Problem => size_of::<kernels::Problem>(),
            Argument::Phases | Argument::Input | Argument::Weight | Argument::Bias | Argument::Output => {
                size_of::<*const f32>()
            }
            Argument::Threads => size_of::<u64>(),
        }
    }

    #[test]
    fn a_grid_has_a_thread_for_each_element() {
        let blocks = |threads| Launch { kernel: "gather", threads, arguments: &[] }.blocks();
        assert_eq!([0, 1, 256, 257].map(blocks), [0, 1, 1, 2]);
        assert_eq!(blocks(i32::MAX as u64 * 256), i32::MAX as u32);
    }

    #[test]
    fn every_launch_passes_what_its_kernel_takes() {
        let layer = ConvTranspose1d::builder(1, 1, [3]).stride([2]).build().unwrap();
        let problem = layer.problem(Shape::batched(1, 1, [4])).unwrap().to_3d();
        for wide in [false, true] {
            for launch in algorithm::all_recipes(&problem, wide).flat_map(|recipe| recipe.launches) {
                let kernel = entry::find(&kernels::KERNELS, launch.kernel).expect(launch.kernel);
                let taken: Vec<usize> = kernel.parameters.iter().map(|parameter| parameter.size()).collect();
                let passed: Vec<usize> = launch.arguments.iter().map(bytes).collect();
                assert_eq!(passed, taken, "{}", launch.kernel);
                assert!(launch.arguments.len() <= MOST_ARGUMENTS);
                assert_eq!(launch.kernel.ends_with("_wide"), wide);
            }
        }
    }
}
