//! A `cudarc` program that runs a layer on its own memory and its own stream.
//!
//! The library does not know cudarc: `Plan::forward_raw` takes device addresses and a stream handle, whosever they are.
//! Both sides work in the GPU's primary context (`CudaContext::new` and `Device::new` do), so the addresses mean the
//! same to both. The same way leads to candle, to PyTorch's tensors and to the CUDA runtime.
//!
//! `cargo run --release --example cudarc_interop`

use std::error::Error;

use conv_transpose::{
    ConvTranspose2d, Problem, Shape,
    cuda::{self, CudaError},
    oracle,
};
use cudarc::driver::{CudaContext, CudaSlice, CudaStream, DevicePtr, DevicePtrMut};

fn main() -> Result<(), Box<dyn Error>> {
    // First of all: where there is no driver, this is an error, but cudarc would panic.
    let device = match cuda::Device::new(0) {
        Ok(device) => device,
        Err(reason @ (CudaError::NoDriver(_) | CudaError::NoDevice { .. })) => {
            println!("no CUDA device: {reason}; nothing to show");
            return Ok(());
        }
        Err(error) => return Err(error.into()),
    };
    let layer = ConvTranspose2d::builder(6, 4, [3, 4]).stride([2, 3]).padding([1, 0]).groups(2).build()?;
    let plan = cuda::Plan::new(&device, &layer, Shape::batched(3, 6, [5, 7]), cuda::Options::default())?;
    let problem = plan.problem();

    let context = CudaContext::new(0)?;
    let stream = context.new_stream()?;
    let host = Operands::of(problem);
    let input = stream.clone_htod(&host.input)?;
    let weight = stream.clone_htod(&host.weight)?;
    let bias = stream.clone_htod(&host.bias)?;
    let mut output: CudaSlice<f32> = stream.alloc_zeros(plan.output_shape().dims().iter().product())?;

    forward(&plan, &stream, [&input, &weight, &bias], &mut output)?;

    // cudarc's copy is on the same stream, and so after the kernel.
    let output = stream.clone_dtoh(&output)?;
    let difference = host.check(problem, &output)?;
    println!(
        "cudarc_interop: {} elements of cudarc's memory on {}; largest difference from the oracle {difference:.1e}",
        output.len(),
        device.name()
    );
    Ok(())
}

/// The bridge: cudarc's slices and stream on one side, the plan on the other.
fn forward<const D: usize>(
    plan: &cuda::Plan<D>,
    stream: &CudaStream,
    [input, weight, bias]: [&CudaSlice<f32>; 3],
    output: &mut CudaSlice<f32>,
) -> Result<(), Box<dyn Error>> {
    let problem = plan.problem();
    let elements = |dims: Vec<usize>| dims.iter().product::<usize>();
    // What the raw tier does not check, the bridge does.
    assert_eq!(input.len(), elements(problem.input_shape().dims()));
    assert_eq!(weight.len(), elements(problem.weight_shape().dims()));
    assert_eq!(bias.len(), problem.out_channels());
    assert_eq!(output.len(), elements(problem.output_shape().dims()));
    assert_eq!(stream.context().ordinal(), plan.device().ordinal() as usize);

    // A guard beside each address makes cudarc's other streams wait for this work. They are dropped after it is
    // enqueued.
    let (input, _input_read) = input.device_ptr(stream);
    let (weight, _weight_read) = weight.device_ptr(stream);
    let (bias, _bias_read) = bias.device_ptr(stream);
    let (output, _output_written) = output.device_ptr_mut(stream);
    // SAFETY: the stream is of the plan's context, the primary one. The lengths were checked; the output is borrowed
    // alone, so it overlaps nothing. cudarc frees memory in the order of the stream, hence after the kernel.
    unsafe { plan.forward_raw(stream.cu_stream().cast(), input, weight, Some(bias), output)? };
    Ok(())
}

/// The operands in host memory: small whole numbers, so that every sum is exact.
struct Operands {
    input: Vec<f32>,
    weight: Vec<f32>,
    bias: Vec<f32>,
}

impl Operands {
    fn of<const D: usize>(problem: &Problem<D>) -> Self {
        let numbers = |len: usize, seed: usize| (0..len).map(|i| ((i * 7 + seed) % 17) as f32 - 8.0).collect();
        let elements = |dims: Vec<usize>| dims.iter().product();
        Self {
            input: numbers(elements(problem.input_shape().dims()), 1),
            weight: numbers(elements(problem.weight_shape().dims()), 2),
            bias: numbers(problem.out_channels(), 3),
        }
    }

    /// The largest difference from the definition, which must be none.
    fn check<const D: usize>(&self, problem: &Problem<D>, output: &[f32]) -> Result<f64, String> {
        let exact = oracle::forward(problem, &self.input, &self.weight, Some(&self.bias));
        let differences = exact.iter().zip(output).map(|(&exact, &got)| (exact - f64::from(got)).abs());
        // `max` would pass over a NaN.
        let difference = differences.fold(0.0, |largest, next| if next <= largest { largest } else { next });
        if exact.len() == output.len() && difference == 0.0 {
            return Ok(difference);
        }
        Err(format!("the output differs from the oracle by {difference:.1e}"))
    }
}
