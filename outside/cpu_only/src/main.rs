//! Doubles a picture of 2 x 3 pixels on the CPU and prints it.

use conv_transpose::{ConvTranspose2d, Error, Shape, Tensor, cpu};

fn main() -> Result<(), Error> {
    let layer = ConvTranspose2d::builder(1, 1, [2, 2]).stride([2, 2]).build()?;
    let picture = Tensor::from_vec(Shape::unbatched(1, [2, 3]), vec![1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0])?;
    let weight = Tensor::filled(layer.weight_shape(), 1.0f32)?;

    let plan = cpu::Plan::new(&layer, picture.shape())?;
    let mut doubled = Tensor::filled(plan.output_shape(), 0.0f32)?;
    plan.forward(&picture, &weight, None, &mut doubled)?;

    for row in doubled.as_slice().chunks(6) {
        println!("{row:?}");
    }
    assert_eq!(doubled.as_slice()[..6], [1.0, 1.0, 2.0, 2.0, 3.0, 3.0]);
    Ok(())
}
