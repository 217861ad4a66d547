//! The CPU backend: the same plan-and-forward interface as on a GPU, on every machine.

mod direct;
mod grid;
mod microkernel;
mod pack;
mod plan;
mod shared;
mod vector;
mod weave;

pub use plan::Plan;
