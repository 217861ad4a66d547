use cuda_std_macros::kernel;

#[kernel]
pub fn sum<T>(values: &[T]) -> f32 {
    0.0
}

fn main() {}
