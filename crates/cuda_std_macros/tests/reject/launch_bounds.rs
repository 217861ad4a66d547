use cuda_std_macros::kernel;

#[kernel(max_threads(256))]
pub unsafe fn unknown_word() {}

#[kernel(launch_bounds())]
pub unsafe fn none() {}

#[kernel(launch_bounds(256, 2, 1))]
pub unsafe fn too_many() {}

#[kernel(launch_bounds("many"))]
pub unsafe fn not_a_number() {}

fn main() {}
