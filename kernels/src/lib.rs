//! The GPU kernels of conv-transpose.
#![no_std]
