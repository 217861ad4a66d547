use cuda_std_macros::kernel;

#[kernel]
pub unsafe fn tuple((x, y): (u32, u32)) {}

#[kernel]
pub unsafe fn nameless(_: u32) {}

fn main() {}
