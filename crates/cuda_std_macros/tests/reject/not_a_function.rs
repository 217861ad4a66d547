use cuda_std_macros::kernel;

#[kernel]
pub struct Fill;

fn main() {}
