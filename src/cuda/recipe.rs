//! What an algorithm does for one problem, told apart from where it is done: its tables, and its launches in order.
//!
//! A recipe is carried out by the CUDA driver ([`Plan`](super::Plan)) or by the emulator; both take arguments as an
//! array of pointers, which [`Launch::pointers`] makes.

use std::ffi::c_void;

use bytemuck::Pod;
use conv_transpose_kernels::tile::{TensorMap, TensorMaps};

use super::{error::CudaError, tensor_map::Boxes};

/// Threads of a block, for kernels with one thread per element. The kernels' launch bounds allow no more.
pub(super) const BLOCK: u32 = 256;

/// The most parameters that a kernel has.
const MOST_ARGUMENTS: usize = 8;

/// The tables and launches of an algorithm for one problem.
#[derive(Clone, Debug, Default)]
pub(super) struct Recipe {
    /// Tables that lie in device memory as long as the plan lives.
    pub(super) tables: Vec<Table>,
    /// Elements of the packed weight; 0 if the kernels read the weight as it is.
    pub(super) packed_len: usize,
    /// Words of the packed input; 0 if the kernels read the input as it is.
    pub(super) input_len: usize,
    /// Elements of the columns, which some launches write and the last one reads; 0 if there are none.
    pub(super) columns_len: usize,
    /// Pack the weight. Run whenever it has changed.
    pub(super) pack: Vec<Launch>,
    /// Says what was chosen, for people.
    pub(super) description: String,
    /// Cycles that it takes by a model that knows other algorithms' as well, if there is one.
    pub(super) cycles: Option<f64>,
    /// Compute the output.
    pub(super) launches: Vec<Launch>,
}

/// A table as the device reads it: rows of four aligned words.
#[derive(Clone, Debug, Default)]
pub(super) struct Table(Vec<[u32; 4]>);

/// One launch.
#[derive(Clone, Debug)]
pub(super) struct Launch {
    pub(super) kernel: &'static str,
    /// Blocks along x and y.
    pub(super) blocks: [u32; 2],
    /// Threads of a block.
    pub(super) threads: u32,
    /// Dynamic shared memory of a block.
    pub(super) shared_bytes: u32,
    /// Where its part of the packed weight begins, in elements.
    pub(super) first_packed: usize,
    /// The kernel's parameters, in order.
    pub(super) arguments: Vec<Argument>,
    /// Whether the kernel gains from being compiled for the values among its parameters, which come first.
    pub(super) gains_from_constants: bool,
    /// Blocks that a multiprocessor has registers for, at least, where the kernel is compiled so; 0 if that is as the
    /// kernel says.
    pub(super) least_blocks: u32,
    /// Neighbouring blocks along x that are a cluster; 1 if there are no clusters.
    pub(super) cluster: u32,
    /// Whether it may begin while the launch before it in the same call still runs. It does not end before that does: so
    /// what waits for it waits for all that was before it.
    pub(super) beside: bool,
    /// Whether a kernel that is compiled for its layer does this itself: not needed if the launch behind it has such a
    /// one.
    pub(super) is_spared: bool,
}

/// A parameter of a kernel.
#[derive(Clone, Debug)]
pub(super) enum Argument {
    /// The bytes of a value.
    Value(Box<[u8]>),
    /// Address of the recipe's table of that number.
    Table(usize),
    /// Address of the input.
    Input,
    /// Address of the packed input, which some launches write and others read.
    PackedInput,
    /// Address of the columns: the products of each input position with all taps.
    Columns,
    /// The boxes of the input and of the output, described to the hardware; of no meaning if there are none.
    TensorMaps(Box<[Option<Boxes>; 2]>),
    /// Address of the weight.
    Weight,
    /// Address of the launch's part of the packed weight.
    PackedWeight,
    /// Address of the bias, null if there is none.
    Bias,
    /// Address of the output.
    Output,
}

/// Addresses of the tensors of one call.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Operands {
    pub(super) input: u64,
    pub(super) weight: u64,
    /// Zero if the kernels read the weight as it is.
    pub(super) packed_weight: u64,
    /// Zero if the kernels read the input as it is.
    pub(super) packed_input: u64,
    /// Of no meaning if there are no columns.
    pub(super) columns: u64,
    /// Zero if there is no bias.
    pub(super) bias: u64,
    pub(super) output: u64,
}

impl Recipe {
    /// What is done, for people: the kernels and how they are used. No two recipes for one task have the same
    /// description.
    pub(super) fn describe(&self) -> String {
        let kernels: Vec<&str> = self.launches.iter().map(|launch| launch.kernel).collect();
        format!("{} {}", kernels.join(" + "), self.description).trim_end().to_owned()
    }

    /// Words of memory that a call fills and reads: for the packed input, and the columns behind it.
    pub(super) fn scratch_len(&self) -> usize {
        if self.columns_len > 0 { self.columns_start() + self.columns_len } else { self.input_len }
    }

    fn columns_start(&self) -> usize {
        self.input_len.next_multiple_of(ALIGN)
    }

    /// The operands of a call that has so much memory at an address.
    pub(super) fn with_scratch(&self, operands: Operands, scratch: u64) -> Operands {
        let columns = scratch + (self.columns_start() * size_of::<f32>()) as u64;
        Operands { packed_input: scratch, columns, ..operands }
    }
}

/// Words that what is kept in one piece of memory is aligned to: 256 bytes, as all device memory is.
pub(super) const ALIGN: usize = 64;

impl Operands {
    /// With the weight being a packed one, wherever the kernels look for it.
    pub(super) fn with_packed_weight(self) -> Self {
        Self { packed_weight: self.weight, ..self }
    }
}

impl Table {
    /// A table of entries whose size is a multiple of 16 bytes.
    pub(super) fn new<T: Pod>(entries: &[T]) -> Self {
        // Entries need not be aligned on the host, so they are copied.
        let mut rows = vec![[0; 4]; size_of_val(entries) / size_of::<[u32; 4]>()];
        bytemuck::cast_slice_mut::<_, u8>(&mut rows).copy_from_slice(bytemuck::cast_slice(entries));
        Self(rows)
    }

    pub(super) fn rows(&self) -> &[[u32; 4]] {
        &self.0
    }
}

impl Argument {
    pub(super) fn value<T: Pod>(value: &T) -> Self {
        Self::Value(bytemuck::bytes_of(value).into())
    }
}

impl Launch {
    /// A launch of at least `elements` threads, in blocks of [`BLOCK`]; `check_grid` found it to be possible.
    pub(super) fn per_element(kernel: &'static str, elements: u64, arguments: Vec<Argument>) -> Self {
        Self {
            kernel,
            blocks: [elements.div_ceil(BLOCK.into()) as u32, 1],
            threads: BLOCK,
            shared_bytes: 0,
            first_packed: 0,
            arguments,
            gains_from_constants: false,
            least_blocks: 0,
            cluster: 1,
            beside: false,
            is_spared: false,
        }
    }

    /// A launch of some blocks that find something of all their threads' values: each warp has a word of shared memory.
    pub(super) fn of_blocks(kernel: &'static str, blocks: u32, threads: u32, arguments: Vec<Argument>) -> Self {
        let shared_bytes = threads / 32 * size_of::<u32>() as u32;
        Self { blocks: [blocks, 1], threads, shared_bytes, ..Self::per_element(kernel, 0, arguments) }
    }

    /// The values of the first parameters, if the kernel gains from being compiled for them.
    pub(super) fn constants(&self) -> Option<Vec<&[u8]>> {
        let values = self.arguments.iter().map_while(|argument| match argument {
            Argument::Value(bytes) => Some(&**bytes),
            _ => None,
        });
        self.gains_from_constants.then(|| values.collect())
    }

    /// The descriptions of the boxes that the kernel copies of input and output, if it does.
    pub(super) fn tensor_maps(&self, operands: &Operands) -> Result<TensorMaps<2>, CudaError> {
        let boxes = self.arguments.iter().find_map(|argument| match argument {
            Argument::TensorMaps(boxes) => Some(**boxes),
            _ => None,
        });
        let [input, output] = boxes.unwrap_or_default();
        let encode = |boxes: Option<Boxes>, address| boxes.map_or(Ok(TensorMap::NONE), |boxes| boxes.encode(address));
        let has = |wanted: fn(&Argument) -> bool| self.arguments.iter().any(wanted);
        let reads_packed = has(|argument| matches!(argument, Argument::PackedInput));
        let writes_columns = has(|argument| matches!(argument, Argument::Columns));
        let read = if reads_packed { operands.packed_input } else { operands.input };
        let written = if writes_columns { operands.columns } else { operands.output };
        Ok(TensorMaps([encode(input, read)?, encode(output, written)?]))
    }

    /// The operands of a call, with the launch's part of the packed weight.
    pub(super) fn operands(&self, operands: &Operands) -> Operands {
        let first = (self.first_packed * size_of::<f32>()) as u64;
        Operands { packed_weight: operands.packed_weight + first, ..*operands }
    }

    /// Pointers to the values that the launch takes, in order, and null behind them. `tables` are the addresses of the
    /// recipe's tables; `operands` and `maps` are the launch's own. The driver only reads what they point to.
    pub(super) fn pointers(
        &self,
        tables: &[u64],
        operands: &Operands,
        maps: &TensorMaps<2>,
    ) -> [*mut c_void; MOST_ARGUMENTS] {
        let mut pointers = [std::ptr::null_mut(); MOST_ARGUMENTS];
        for (pointer, argument) in pointers.iter_mut().zip(&self.arguments) {
            let value: *const u8 = match argument {
                Argument::Value(bytes) => bytes.as_ptr(),
                Argument::Table(number) => (&raw const tables[*number]).cast(),
                Argument::Input => (&raw const operands.input).cast(),
                Argument::PackedInput => (&raw const operands.packed_input).cast(),
                Argument::Columns => (&raw const operands.columns).cast(),
                Argument::TensorMaps(_) => (&raw const *maps).cast(),
                Argument::Weight => (&raw const operands.weight).cast(),
                Argument::PackedWeight => (&raw const operands.packed_weight).cast(),
                Argument::Bias => (&raw const operands.bias).cast(),
                Argument::Output => (&raw const operands.output).cast(),
            };
            *pointer = value.cast_mut().cast();
        }
        pointers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grid_has_a_thread_for_each_element() {
        let blocks = |elements| Launch::per_element("gather", elements, Vec::new()).blocks[0];
        assert_eq!([0, 1, 256, 257].map(blocks), [0, 1, 1, 2]);
        assert_eq!(blocks(i32::MAX as u64 * 256), i32::MAX as u32);
    }

    #[test]
    fn columns_lie_behind_the_packed_input() {
        let columns = |input_len, columns_len| {
            let recipe = Recipe { input_len, columns_len, ..Recipe::default() };
            let operands = recipe.with_scratch(Operands { input: 7, ..Operands::default() }, 4096);
            assert_eq!((operands.input, operands.packed_input), (7, 4096));
            (operands.columns, recipe.scratch_len())
        };
        assert_eq!(columns(0, 100), (4096, 100));
        assert_eq!(columns(65, 100), (4096 + 4 * 128, 228));
        assert_eq!(columns(65, 0).1, 65);
    }

    #[test]
    fn a_table_keeps_its_bytes() {
        let entries = [[1u64, 2], [3, 4]];
        assert_eq!(Table::new(&entries).rows(), [[1, 0, 2, 0], [3, 0, 4, 0]]);
    }

    /// The host knows what kernels take where they are compiled for it.
    #[cfg(feature = "emulator")]
    #[test]
    fn every_launch_passes_what_its_kernel_takes() {
        use std::collections::BTreeSet;

        use conv_transpose_kernels::KERNELS;
        use cuda_std::entry;

        use crate::{ConvTranspose1d, ConvTranspose2d, Shape, cuda::algorithm};

        // As the launchers pass it.
        let bytes = |argument: &Argument| match argument {
            Argument::Value(bytes) => bytes.len(),
            Argument::TensorMaps(_) => size_of::<TensorMaps<2>>(),
            _ => size_of::<*const f32>(),
        };
        let signal = |stride: usize, dilation: usize| {
            let layer = ConvTranspose1d::builder(1, 1, [3]).stride([stride]).dilation([dilation]).build().unwrap();
            layer.problem(Shape::batched(1, 1, [4])).unwrap().to_3d()
        };
        let picture = |channels: usize, kernel: usize, stride: usize| {
            let layer = ConvTranspose2d::builder(channels, channels, [kernel; 2]).stride([stride; 2]).build().unwrap();
            layer.problem(Shape::batched(1, channels, [32; 2])).unwrap().to_3d()
        };
        let problems =
            [signal(1, 1), signal(2, 1), signal(2, 3), picture(64, 3, 1), picture(64, 2, 2), picture(256, 2, 2)];
        let mut launched = BTreeSet::new();
        for recipe in problems.into_iter().flat_map(algorithm::all_recipes) {
            assert_eq!(recipe.packed_len > 0, !recipe.pack.is_empty());
            for launch in recipe.pack.iter().chain(&recipe.launches) {
                let kernel = entry::find(KERNELS, launch.kernel).expect(launch.kernel);
                let taken: Vec<usize> = kernel.parameters.iter().map(|parameter| parameter.size()).collect();
                let passed: Vec<usize> = launch.arguments.iter().map(bytes).collect();
                assert_eq!(passed, taken, "{}", launch.kernel);
                assert!(launch.arguments.len() <= MOST_ARGUMENTS);
                launched.insert(launch.kernel);
            }
        }
        // All tile kernels take the same.
        let others = KERNELS.iter().map(|kernel| kernel.name).filter(|name| !name.starts_with("tile_"));
        assert_eq!(others.filter(|&name| !launched.contains(name)).collect::<Vec<_>>(), Vec::<&str>::new());
    }
}
