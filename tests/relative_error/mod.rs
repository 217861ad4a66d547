//! How far an output is from the exact one.

/// The L2 norm of the difference, beside that of what is expected.
pub fn relative_error(actual: &[f32], expected: &[f64]) -> f64 {
    let pairs = || actual.iter().zip(expected);
    let difference: f64 = pairs().map(|(actual, expected)| (f64::from(*actual) - expected).powi(2)).sum();
    (difference / pairs().map(|(_, expected)| expected.powi(2)).sum::<f64>()).sqrt()
}
