//! The CPU backend: the same plan-and-forward interface as on a GPU, on every machine.

mod algorithm;
mod columns;
mod direct;
mod grid;
mod microkernel;
mod pack;
mod plan;
mod shared;
mod split;
mod vector;
mod weave;

pub use plan::Plan;
