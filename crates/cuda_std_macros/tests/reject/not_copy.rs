use cuda_std_macros::kernel;

pub struct Owner(u32);

#[kernel]
pub unsafe fn takes_struct(_count: u32, _owner: Owner) {}

#[kernel]
pub unsafe fn takes_vector(_values: Vec<f32>) {}

fn main() {}
