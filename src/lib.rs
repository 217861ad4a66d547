//! Transposed convolution.
