use cuda_std_macros::kernel;

#[kernel]
pub unsafe fn sum(values: *const f32) -> f32 {
    unsafe { *values }
}

fn main() {}
