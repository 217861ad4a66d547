use cuda_std_macros::kernel;

#[kernel]
pub unsafe fn shared(values: &f32) {}

#[kernel]
pub unsafe fn exclusive(values: &mut [f32]) {}

fn main() {}
