use cuda_std_macros::kernel;

#[kernel]
pub unsafe fn print(first: u32, _: ...) {}

fn main() {}
