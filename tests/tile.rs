//! The tile kernels on the emulator: geometries around the edges of tiles, in both precisions.
#![cfg(feature = "emulator")]

use conv_transpose::{
    ConvTranspose, Precision, Shape, Tensor,
    cuda::{Algorithm, EmulatedPlan, Options},
    oracle,
};

fn check<const D: usize>(name: &str, layer: ConvTranspose<D>, input: Shape<D>) {
    for precision in [Precision::Tf32, Precision::F32] {
        let options = Options::default().algorithm(Algorithm::Tile).precision(precision);
        let plan = EmulatedPlan::new(&layer, input, options).unwrap();
        let mut rng = fastrand::Rng::with_seed(1);
        let mut small = |shape| {
            let mut tensor = Tensor::filled(shape, 0.0f32).unwrap();
            tensor.as_mut_slice().fill_with(|| rng.i32(-4..=4) as f32);
            tensor
        };
        let (x, w) = (small(input), small(layer.weight_shape()));
        let bias: Vec<f32> = (0..plan.problem().out_channels()).map(|c| c as f32).collect();
        let start = std::time::Instant::now();
        let y = plan.forward(&x, &w, Some(&bias)).unwrap_or_else(|error| panic!("{name} {precision}: {error}"));
        eprintln!("{name} {precision} {:?}", start.elapsed());
        for (index, &value) in y.as_slice().iter().enumerate() {
            let expected = oracle::output_at(plan.problem(), x.as_slice(), w.as_slice(), Some(&bias), index);
            assert_eq!(f64::from(value), expected, "{name} {precision}: element {index}");
        }
    }
}

#[test]
fn small() {
    let l = ConvTranspose::<2>::builder(5, 7, [3, 3]).build().unwrap();
    check("3x3", l, Shape::batched(2, 5, [6, 9]));
    let l = ConvTranspose::<2>::builder(12, 9, [4, 4]).stride([2, 2]).padding([1, 1]).build().unwrap();
    check("4x4s2", l, Shape::batched(3, 12, [5, 8]));
    let l = ConvTranspose::<1>::builder(16, 33, [16]).stride([8]).padding([4]).build().unwrap();
    check("k16s8", l, Shape::batched(1, 16, [37]));
    let l = ConvTranspose::<3>::builder(8, 16, [3, 5, 3])
        .stride([2, 1, 3])
        .padding([1, 2, 0])
        .dilation([2, 1, 2])
        .groups(2)
        .build()
        .unwrap();
    check("3d", l, Shape::batched(2, 8, [3, 4, 5]));
    let l = ConvTranspose::<1>::builder(32, 64, [5]).dilation([3]).build().unwrap();
    check("k5d3", l, Shape::batched(1, 32, [300]));
}
