use cuda_std_macros::kernel;

#[kernel]
pub unsafe fn of_type<T: Copy>(value: T) {}

#[kernel]
pub unsafe fn of_length<const N: usize>(values: [f32; N]) {}

#[kernel]
pub unsafe fn of_lifetime<'a>(value: f32) {}

#[kernel]
pub unsafe fn of_trait(value: impl Copy) {}

#[kernel]
pub unsafe fn of_clause(value: f32)
where
    f32: Copy,
{
}

fn main() {}
