//! The CPU backend: the same plan-and-forward interface as on a GPU, on every machine.

mod direct;
mod plan;

pub use plan::Plan;
