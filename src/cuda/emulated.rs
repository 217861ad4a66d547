//! A plan whose kernels run on the emulator: the same choice, parameters and launches as on a GPU, carried out on the
//! CPU.

use conv_transpose_kernels::{
    self as kernels,
    tile::{TensorMap, TensorMaps},
};
use cuda_std::{
    emulator::{Launch, Memory},
    entry,
};

use super::{
    algorithm::{self, Algorithm, Target, Task, Way},
    embedded,
    error::CudaError,
    plan::Options,
    recipe::{Operands, Recipe},
};
use crate::{ConvTranspose, Error, Problem, Shape, Tensor};

/// As [`Plan`](super::Plan), on the emulator instead of a GPU: for tests of the kernels on any machine.
///
/// Every access of the kernels to memory is checked; up to a million threads run per second. `cuda_std::emulator` tells
/// what it sees and what it does not.
#[derive(Clone, Debug)]
pub struct EmulatedPlan<const D: usize> {
    problem: Problem<D>,
    algorithm: Algorithm,
    task: Task,
    recipe: Recipe,
    seed: Option<u64>,
}

/// The stack of an emulated thread. Kernels that are compiled without optimisation keep everything there that is a
/// register otherwise, and the tile kernels have a great deal of it. Memory is taken for what is used.
const STACK_BYTES: usize = 1 << 20;

impl<const D: usize> EmulatedPlan<D> {
    /// Plans `layer` for inputs of the given shape.
    ///
    /// # Errors
    /// As [`Plan::new`](super::Plan::new), less what concerns a device.
    pub fn new(layer: &ConvTranspose<D>, input: Shape<D>, options: Options) -> Result<Self, Error> {
        Self::new_on(Target::EMULATED, layer, input, options)
    }

    /// As [`new`](Self::new), with the kernels for an older architecture, as
    /// [`Device::with_architecture`](super::Device::with_architecture): `"sm_70"` stands for a T4, any other for an
    /// H200.
    ///
    /// # Errors
    /// As [`new`](Self::new); [`CudaError::NoSuchArchitecture`] if there are no such kernels.
    pub fn with_architecture(
        layer: &ConvTranspose<D>,
        input: Shape<D>,
        options: Options,
        architecture: &str,
    ) -> Result<Self, Error> {
        Self::new_on(target(architecture)?, layer, input, options)
    }

    /// All plans that [`Autotune`](super::Autotune) would measure, beginning with the one that [`new`](Self::new)
    /// makes.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn ways(layer: &ConvTranspose<D>, input: Shape<D>, options: Options) -> Result<Vec<Self>, Error> {
        Self::ways_on(Target::EMULATED, layer, input, options)
    }

    /// As [`ways`](Self::ways), with the kernels for an older architecture.
    ///
    /// # Errors
    /// As [`with_architecture`](Self::with_architecture).
    pub fn ways_with_architecture(
        layer: &ConvTranspose<D>,
        input: Shape<D>,
        options: Options,
        architecture: &str,
    ) -> Result<Vec<Self>, Error> {
        Self::ways_on(target(architecture)?, layer, input, options)
    }

    fn new_on(target: Target, layer: &ConvTranspose<D>, input: Shape<D>, options: Options) -> Result<Self, Error> {
        let (problem, task) = Self::task(target, layer, input, options)?;
        Ok(Self::carried_out(problem, task, algorithm::choose(options.algorithm, &task)?))
    }

    fn ways_on(
        target: Target,
        layer: &ConvTranspose<D>,
        input: Shape<D>,
        options: Options,
    ) -> Result<Vec<Self>, Error> {
        let (problem, task) = Self::task(target, layer, input, options)?;
        let ways = algorithm::ways(options.algorithm, &task)?;
        Ok(ways.into_iter().map(|way| Self::carried_out(problem, task, way)).collect())
    }

    fn task(
        target: Target,
        layer: &ConvTranspose<D>,
        input: Shape<D>,
        options: Options,
    ) -> Result<(Problem<D>, Task), Error> {
        let problem = layer.problem(input)?;
        Ok((problem, Task::new(problem.to_compute(), options.precision, target)))
    }

    fn carried_out(problem: Problem<D>, task: Task, (algorithm, recipe): Way) -> Self {
        Self { problem, algorithm, task, recipe, seed: None }
    }

    /// What is done, for people: the kernels and how they are used.
    pub fn describe(&self) -> String {
        self.recipe.describe()
    }

    /// Takes the kernels with 64-bit indices, which otherwise run only where a tensor has 2^31 elements or more.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn wide(mut self) -> Result<Self, Error> {
        self.task.wide = true;
        self.recipe = algorithm::choose(self.algorithm, &self.task)?.1;
        Ok(self)
    }

    /// Runs blocks and threads in an order drawn from `seed`, instead of one after the other.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// The problem that this plan solves.
    pub fn problem(&self) -> &Problem<D> {
        &self.problem
    }

    /// The algorithm in use; never [`Algorithm::Auto`].
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// Computes the output. It starts out unwritten, and an element that no kernel writes is an error.
    ///
    /// # Errors
    /// [`ShapeMismatch`](crate::GeometryError::ShapeMismatch) or [`Length`](crate::GeometryError::Length) naming the
    /// argument that does not fit the plan; [`Error::Emulator`] for whatever a kernel did wrong; [`Error::Unwritten`]
    /// for an output element that none of them wrote.
    pub fn forward(
        &self,
        input: &Tensor<f32, D>,
        weight: &Tensor<f32, D>,
        bias: Option<&[f32]>,
    ) -> Result<Tensor<f32, D>, Error> {
        let shape = self.problem.output_shape();
        self.problem.check_tensors(input.shape(), weight.shape(), shape, bias.map(<[f32]>::len))?;
        let mut memory = Memory::new();
        let output = memory.uninitialised::<f32>("output", shape.len());
        let operands = Operands {
            input: memory.read_only("input", input.as_slice()) as u64,
            weight: memory.read_only("weight", weight.as_slice()) as u64,
            bias: bias.map_or(0, |bias| memory.read_only("bias", bias) as u64),
            output: output as u64,
            ..Operands::default()
        };
        self.launch(&mut memory, &operands)?;
        Ok(Tensor::from_vec(shape, memory.values(output.cast_const())?)?)
    }

    /// Carries the recipe out, unless there is nothing to compute: a grid cannot be empty.
    fn launch(&self, memory: &mut Memory, operands: &Operands) -> Result<(), Error> {
        if self.problem.output_shape().len() == 0 {
            return Ok(());
        }
        let tables: Vec<u64> =
            self.recipe.tables.iter().map(|table| memory.read_only("table", table.rows()) as u64).collect();
        let packed_weight = memory.uninitialised::<f32>("packed weight", self.recipe.packed_len) as u64;
        let packed_input = memory.uninitialised::<f32>("packed input", self.recipe.input_len) as u64;
        let columns = memory.uninitialised::<f32>("columns", self.recipe.columns_len) as u64;
        let operands = Operands { packed_weight, packed_input, columns, ..*operands };
        // On the host, kernels do what those do that are compiled for their layer.
        for launch in self.recipe.pack.iter().chain(&self.recipe.launches).filter(|launch| !launch.is_spared) {
            let kernel = entry::find(kernels::KERNELS, launch.kernel).expect("recipes name kernels that there are");
            let operands = launch.operands(&operands);
            let pointers = launch.pointers(&tables, &operands, &TensorMaps([TensorMap::NONE; 2]));
            let mut emulated = Launch::new((launch.blocks[0], launch.blocks[1]), launch.threads)
                .shared_bytes(launch.shared_bytes as usize)
                .stack_bytes(STACK_BYTES)
                .cluster(launch.cluster);
            if let Some(seed) = self.seed {
                emulated = emulated.seed(seed);
            }
            // SAFETY: a recipe names the arguments of its kernels, which a test compares with their parameters; all
            // accesses to memory go through the emulator, which checks them.
            unsafe { emulated.run_entry(memory, kernel, &pointers[..launch.arguments.len()])? };
        }
        Ok(())
    }
}

/// What the emulator stands for with the kernels for an architecture.
fn target(architecture: &str) -> Result<Target, CudaError> {
    Ok(match embedded::named(architecture, "the emulator", (9, 0))?.name {
        "sm_70" => Target::EMULATED_ORDINARY,
        "sm_80" => Target::EMULATED_OLDER,
        _ => Target::EMULATED,
    })
}
