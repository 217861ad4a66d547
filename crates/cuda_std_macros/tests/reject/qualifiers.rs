use cuda_std_macros::kernel;

#[kernel]
pub async unsafe fn later() {}

#[kernel]
pub const unsafe fn constant() {}

#[kernel]
pub unsafe extern "C" fn foreign() {}

fn main() {}
