//! The CPU backend against the definition on small problems, and on five problems from practice.
//!
//! `cargo bench --bench cpu`. For a comparison with PyTorch see `benches/torch_cpu.py`.

use std::hint::black_box;

use conv_transpose::{
    ConvTranspose, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d, GeometryError, Shape, Tensor, cpu, oracle,
};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};

fn tensor<const D: usize>(shape: Shape<D>, seed: u32) -> Tensor<f32, D> {
    let len: usize = shape.dims().iter().product();
    let element = |i: u32| (i.wrapping_mul(0x9E37_79B9).wrapping_add(seed) >> 16) as f32 / 32768.0 - 1.0;
    Tensor::from_vec(shape, (0..len as u32).map(element).collect()).expect("as many elements as the shape has")
}

fn bench<const D: usize>(
    criterion: &mut Criterion,
    name: &str,
    layer: Result<ConvTranspose<D>, GeometryError>,
    extent: [usize; D],
    batch: usize,
    with_definition: bool,
) {
    let layer = layer.expect("the layer is a legal one");
    let shape = Shape::batched(batch, layer.in_channels(), extent);
    let (input, weight) = (tensor(shape, 1), tensor(layer.weight_shape(), 2));
    let plan = cpu::Plan::new(&layer, shape).expect("the layer takes the input");
    let mut output = Tensor::filled(plan.output_shape(), 0.0).expect("the output fits in memory");

    let mut group = criterion.benchmark_group(name);
    group.throughput(Throughput::Elements(plan.problem().flops() as u64)).sample_size(10);
    group.bench_function("cpu", |bencher| {
        bencher
            .iter(|| plan.forward(&input, &weight, None, black_box(&mut output)).expect("the shapes are the plan's"));
    });
    if with_definition {
        group.bench_function("definition", |bencher| {
            bencher.iter(|| oracle::forward(plan.problem(), input.as_slice(), weight.as_slice(), None));
        });
    }
}

fn small(criterion: &mut Criterion) {
    let layer = ConvTranspose2d::builder(16, 16, [4, 4]).stride([2, 2]).padding([1, 1]).build();
    bench(criterion, "small 2D stride 2", layer, [16, 16], 2, true);
    let layer = ConvTranspose2d::builder(64, 32, [4, 4]).build();
    bench(criterion, "small 2D from one position", layer, [1, 1], 4, true);
    let layer = ConvTranspose3d::builder(8, 8, [3, 3, 3]).stride([2; 3]).padding([1; 3]).build();
    bench(criterion, "small 3D stride 2", layer, [6, 6, 6], 1, true);
}

fn practice(criterion: &mut Criterion) {
    let layer = ConvTranspose3d::builder(32, 32, [3, 5, 7]).stride([2; 3]).padding([1, 2, 3]).output_padding([1; 3]);
    bench(criterion, "KernelBench 72", layer.groups(4).build(), [12, 24, 48], 8, false);
    let layer = ConvTranspose2d::builder(3, 3, [4, 4]).stride([2, 2]).padding([1, 1]).groups(3).build();
    bench(criterion, "RGB 12 megapixel 2x, depthwise", layer, [3000, 4000], 1, false);
    let layer = ConvTranspose2d::builder(128, 64, [2, 2]).stride([2, 2]).build();
    bench(criterion, "U-Net decoder step", layer, [64, 64], 4, false);
    let layer = ConvTranspose2d::builder(256, 128, [4, 4]).stride([2, 2]).padding([1, 1]).build();
    bench(criterion, "DCGAN layer", layer, [16, 16], 16, false);
    let layer = ConvTranspose1d::builder(512, 256, [16]).stride([8]).padding([4]).build();
    bench(criterion, "vocoder 1D 8x", layer, [1000], 1, false);
}

criterion_group!(benches, small, practice);
criterion_main!(benches);
