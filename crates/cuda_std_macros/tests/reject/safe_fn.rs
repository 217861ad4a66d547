use cuda_std_macros::kernel;

#[kernel]
pub fn fill(target: *mut f32) {
    let _ = target;
}

fn main() {}
