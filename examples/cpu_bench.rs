//! Times one problem on the CPU, for `benches/torch_cpu.py`.
//!
//! Reads `input.f32`, `weight.f32` and `bias.f32` (native-endian, row-major) from a directory, computes the output
//! several times, writes it to `output.f32` and prints the seconds of each run.
//!
//! ```text
//! cpu_bench dir=DIR threads=2 repeats=20 batch=1 in=3 out=3 groups=1 input=8,8 kernel=4,4 stride=2,2 padding=1,1 output_padding=0,0
//! ```

use std::{collections::HashMap, error::Error, fs, path::PathBuf, time::Instant};

use conv_transpose::{ConvTranspose, Shape, Tensor, cpu};

type Outcome<T> = Result<T, Box<dyn Error>>;

/// The arguments by name.
struct Arguments(HashMap<String, String>);

impl Arguments {
    fn parse() -> Outcome<Self> {
        let pair = |argument: String| {
            let (name, value) = argument.split_once('=').ok_or("arguments are name=value")?;
            Ok((name.to_owned(), value.to_owned()))
        };
        std::env::args().skip(1).map(pair).collect::<Outcome<_>>().map(Self)
    }

    fn text(&self, name: &str) -> Outcome<&str> {
        self.0.get(name).map(String::as_str).ok_or_else(|| format!("{name} is missing").into())
    }

    fn number(&self, name: &str) -> Outcome<usize> {
        Ok(self.text(name)?.parse()?)
    }

    fn extents<const D: usize>(&self, name: &str) -> Outcome<[usize; D]> {
        let extents = self.text(name)?.split(',').map(str::parse).collect::<Result<Vec<usize>, _>>()?;
        extents.try_into().map_err(|_| format!("{name} has another number of axes than the input").into())
    }

    fn read(&self, name: &str) -> Outcome<Vec<f32>> {
        let bytes = fs::read(PathBuf::from(self.text("dir")?).join(name))?;
        let (elements, _) = bytes.as_chunks::<4>();
        Ok(elements.iter().map(|&element| f32::from_ne_bytes(element)).collect())
    }
}

fn run<const D: usize>(arguments: &Arguments) -> Outcome<()> {
    let padding = arguments.extents::<D>("padding")?;
    let layer = ConvTranspose::builder(arguments.number("in")?, arguments.number("out")?, arguments.extents("kernel")?)
        .stride(arguments.extents("stride")?)
        .padding(padding)
        .output_padding(arguments.extents("output_padding")?)
        .groups(arguments.number("groups")?)
        .build()?;
    let shape = Shape::batched(arguments.number("batch")?, layer.in_channels(), arguments.extents("input")?);
    let input = Tensor::from_vec(shape, arguments.read("input.f32")?)?;
    let weight = Tensor::from_vec(layer.weight_shape(), arguments.read("weight.f32")?)?;
    let bias = arguments.read("bias.f32")?;
    let plan = cpu::Plan::new(&layer, shape)?;
    let mut output = Tensor::filled(plan.output_shape(), f32::NAN)?;

    let mut seconds = Vec::new();
    for _ in 0..arguments.number("repeats")? {
        let start = Instant::now();
        plan.forward(&input, &weight, Some(&bias), &mut output)?;
        seconds.push(start.elapsed().as_secs_f64());
    }
    fs::write(PathBuf::from(arguments.text("dir")?).join("output.f32"), bytemuck::cast_slice(output.as_slice()))?;
    println!("{seconds:?}");
    Ok(())
}

fn main() -> Outcome<()> {
    let arguments = Arguments::parse()?;
    rayon::ThreadPoolBuilder::new().num_threads(arguments.number("threads")?).build_global()?;
    match arguments.text("input")?.split(',').count() {
        1 => run::<1>(&arguments),
        2 => run::<2>(&arguments),
        3 => run::<3>(&arguments),
        axes => Err(format!("input has {axes} axes").into()),
    }
}
