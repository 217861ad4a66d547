//! Small problems for the kernels, with the answer by definition.

use conv_transpose_kernels as kernels;
use cuda_std::emulator::{Fault, Launch, Memory, ReadError};
use cuda_std::entry;

/// Threads of a block: not a divisor of most sizes, and more than one warp.
const BLOCK: u32 = 48;

/// One spatial axis.
#[derive(Clone, Copy, Debug)]
pub struct Axis {
    pub input: usize,
    pub kernel: usize,
    pub stride: usize,
    pub dilation: usize,
    pub pad_begin: usize,
    pub output: usize,
}

impl Axis {
    /// An axis on which nothing happens.
    pub const ONE: Self = Self { input: 1, kernel: 1, stride: 1, dilation: 1, pad_begin: 0, output: 1 };

    fn gcd(&self) -> usize {
        let common =
            (1..=self.stride).rev().find(|d| self.stride.is_multiple_of(*d) && self.dilation.is_multiple_of(*d));
        common.expect("one divides everything")
    }

    /// The taps of each residue of an output position, by search.
    fn phases(&self) -> impl Iterator<Item = kernels::Phase> {
        (0..self.stride.min(self.output)).map(|residue| {
            let reached = |tap: &usize| (residue + self.pad_begin) % self.stride == tap * self.dilation % self.stride;
            let taps: Vec<usize> = (0..self.kernel).filter(reached).collect();
            let first_tap = taps.first().copied().unwrap_or(0);
            let distance = (residue + self.pad_begin) as i64 - (first_tap * self.dilation) as i64;
            let first_input = if taps.is_empty() { 0 } else { distance / self.stride as i64 };
            kernels::Phase { taps: taps.len() as u32, first_tap: first_tap as u32, first_input }
        })
    }

    fn most_taps(&self) -> u32 {
        self.phases().map(|phase| phase.taps).max().unwrap_or(0)
    }

    fn parameters(&self, first_phase: usize) -> kernels::Axis {
        kernels::Axis {
            input_divisor: kernels::Divisor::new(self.input as u64),
            output_divisor: kernels::Divisor::new(self.output as u64),
            stride_divisor: kernels::Divisor::new(self.stride as u64),
            positions_divisor: kernels::Divisor::new(self.output.div_ceil(self.stride) as u64),
            input_step_divisor: kernels::Divisor::new((self.dilation / self.gcd()) as u64),
            input: self.input as u64,
            output: self.output as u64,
            kernel: self.kernel as u64,
            stride: self.stride as u64,
            dilation: self.dilation as u64,
            pad_begin: self.pad_begin as i64,
            pad_strides: (self.pad_begin / self.stride) as i64,
            pad_remainder: (self.pad_begin % self.stride) as u64,
            least_taps: (self.kernel / self.stride) as u64,
            longer_phases: (self.kernel % self.stride) as u64,
            tabulated: u64::from(self.stride > 1 && self.dilation > 1),
            tap_step: (self.stride / self.gcd()) as u64,
            input_step: (self.dilation / self.gcd()) as u64,
            first_phase: first_phase as u64,
            most_taps: self.most_taps() as u64,
        }
    }
}

/// A problem with its tensors.
#[derive(Clone, Debug)]
pub struct Case {
    pub axes: [Axis; 3],
    pub batch: usize,
    pub groups: usize,
    pub in_per_group: usize,
    pub out_per_group: usize,
    pub input: Vec<f32>,
    pub weight: Vec<f32>,
    pub bias: Vec<f32>,
}

impl Case {
    /// Tensors of small whole numbers, so that sums are exact.
    pub fn new(axes: [Axis; 3], batch: usize, groups: usize, in_per_group: usize, out_per_group: usize) -> Self {
        let numbers = |count: usize, step: usize| (0..count).map(|i| (i * step % 11) as f32 - 5.0).collect();
        let volume = |extent: fn(&Axis) -> usize| axes.iter().map(extent).product::<usize>();
        let inputs = batch * groups * in_per_group * volume(|axis| axis.input);
        let weights = groups * in_per_group * out_per_group * volume(|axis| axis.kernel);
        Self {
            axes,
            batch,
            groups,
            in_per_group,
            out_per_group,
            input: numbers(inputs, 7),
            weight: numbers(weights, 3),
            bias: numbers(groups * out_per_group, 5),
        }
    }

    fn volume(&self, extent: fn(&Axis) -> usize) -> usize {
        self.axes.iter().map(extent).product()
    }

    pub fn out_channels(&self) -> usize {
        self.groups * self.out_per_group
    }

    pub fn outputs(&self) -> usize {
        self.batch * self.out_channels() * self.volume(|axis| axis.output)
    }

    /// The phases of a row, all as long as the longest.
    fn row_threads(&self) -> usize {
        let row = self.axes[2];
        row.stride.min(row.output) * row.output.div_ceil(row.stride)
    }

    pub fn gather_threads(&self) -> usize {
        self.outputs() / self.axes[2].output * self.row_threads()
    }

    /// The products of an output element, or 0 if they are many.
    fn few_products(&self) -> usize {
        let taps: u32 = self.axes.iter().map(Axis::most_taps).product();
        let products = taps as usize * self.in_per_group;
        if products <= kernels::FEW_PRODUCTS { products } else { 0 }
    }

    pub fn scatter_threads(&self) -> usize {
        self.batch * self.out_channels() * self.volume(|axis| axis.input)
    }

    /// What the kernels take besides the tensors.
    pub fn parameters(&self) -> (kernels::Problem, Vec<kernels::Phase>) {
        let mut phases = Vec::new();
        let axes = self.axes.map(|axis| {
            let parameters = axis.parameters(phases.len());
            phases.extend(axis.phases());
            parameters
        });
        let problem = kernels::Problem {
            axes,
            out_channels_divisor: kernels::Divisor::new(self.out_channels() as u64),
            out_per_group_divisor: kernels::Divisor::new(self.out_per_group as u64),
            groups: self.groups as u64,
            out_per_group: self.out_per_group as u64,
            in_per_group: self.in_per_group as u64,
            input_plane: self.volume(|axis| axis.input) as u64,
            output_plane: self.volume(|axis| axis.output) as u64,
            taps: self.volume(|axis| axis.kernel) as u64,
            outputs: self.outputs() as u64,
            row_threads_divisor: kernels::Divisor::new(self.row_threads() as u64),
            gather_threads: self.gather_threads() as u64,
            few_products: self.few_products() as u64,
        };
        (problem, phases)
    }

    /// The output by definition: each input times each weight, added to where it lands.
    pub fn expected(&self) -> Vec<f32> {
        let plane = self.volume(|axis| axis.output);
        let bias = |index: usize| self.bias[index / plane % self.out_channels()];
        let mut output: Vec<f32> = (0..self.outputs()).map(bias).collect();
        for (from, value) in self.input.iter().enumerate() {
            let (channel, position) = (from / self.volume(|axis| axis.input), from % self.volume(|axis| axis.input));
            let (sample, channel) =
                (channel / (self.groups * self.in_per_group), channel % (self.groups * self.in_per_group));
            for (local, tap) in pairs(self.out_per_group, self.volume(|axis| axis.kernel)) {
                let Some(landing) = self.landing(position, tap) else { continue };
                let weight =
                    self.weight[(channel * self.out_per_group + local) * self.volume(|axis| axis.kernel) + tap];
                let out_channel = channel / self.in_per_group * self.out_per_group + local;
                output[(sample * self.out_channels() + out_channel) * plane + landing] += value * weight;
            }
        }
        output
    }

    /// Where an input position lands with a tap, all of them counted in row-major order.
    fn landing(&self, mut position: usize, mut tap: usize) -> Option<usize> {
        let (mut landing, mut step) = (0, 1);
        for axis in self.axes.iter().rev() {
            let reached = position % axis.input * axis.stride + tap % axis.kernel * axis.dilation;
            let reached = reached.checked_sub(axis.pad_begin).filter(|&reached| reached < axis.output)?;
            landing += reached * step;
            step *= axis.output;
            (position, tap) = (position / axis.input, tap / axis.kernel);
        }
        Some(landing)
    }
}

fn pairs(first: usize, second: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..first).flat_map(move |a| (0..second).map(move |b| (a, b)))
}

/// A case in the memory of the emulator.
pub struct Device {
    memory: Memory,
    pub problem: kernels::Problem,
    phases: *const kernels::Phase,
    input: *const f32,
    weight: *const f32,
    bias: *const f32,
    output: *mut f32,
    outputs: u32,
    scatter_threads: u64,
}

impl Device {
    pub fn new(case: &Case) -> Self {
        let (problem, phases) = case.parameters();
        let mut memory = Memory::new();
        Self {
            problem,
            phases: memory.read_only("phases", &phases),
            input: memory.read_only("input", &case.input),
            weight: memory.read_only("weight", &case.weight),
            bias: memory.read_only("bias", &case.bias),
            output: memory.uninitialised("output", case.outputs()),
            memory,
            outputs: case.outputs() as u32,
            scatter_threads: case.scatter_threads() as u64,
        }
    }

    /// Runs `gather` or `gather_wide`.
    pub fn gather(&mut self, name: &str, order: fn(Launch) -> Launch) -> Result<(), Box<Fault>> {
        let threads = self.problem.gather_threads as u32;
        let Self { problem, phases, input, weight, bias, output, .. } = self;
        let arguments = [
            (&raw mut *problem).cast(),
            (&raw mut *phases).cast(),
            (&raw mut *input).cast(),
            (&raw mut *weight).cast(),
            (&raw mut *bias).cast(),
            (&raw mut *output).cast(),
        ];
        self.run(name, threads, order, &arguments)
    }

    /// Runs `fill_bias` and `scatter`, or the wide ones.
    pub fn scatter(&mut self, suffix: &str, order: fn(Launch) -> Launch) -> Result<(), Box<Fault>> {
        let Self { problem, input, weight, bias, output, scatter_threads, .. } = self;
        let fill = [(&raw mut *problem).cast(), (&raw mut *bias).cast(), (&raw mut *output).cast()];
        let scatter = [
            (&raw mut *problem).cast(),
            (&raw mut *scatter_threads).cast(),
            (&raw mut *input).cast(),
            (&raw mut *weight).cast(),
            (&raw mut *output).cast(),
        ];
        self.run(&format!("fill_bias{suffix}"), self.outputs, order, &fill)?;
        self.run(&format!("scatter{suffix}"), self.scatter_threads as u32, order, &scatter)
    }

    fn run(
        &mut self,
        name: &str,
        threads: u32,
        order: fn(Launch) -> Launch,
        arguments: &[*mut core::ffi::c_void],
    ) -> Result<(), Box<Fault>> {
        let entry = entry::find(kernels::KERNELS, name).expect("a kernel of that name");
        let launch = order(Launch::new(threads.div_ceil(BLOCK), BLOCK));
        // SAFETY: the arguments are in the order of the kernel's parameters, and of their types.
        unsafe { launch.run_entry(&mut self.memory, entry, arguments) }
    }

    pub fn output(&self) -> Result<Vec<f32>, ReadError> {
        self.memory.values(self.output)
    }
}
