//! A plan: one problem, ready to run on the CPU as often as wanted.

use super::{algorithm::Algorithm, microkernel::Kernels};
use crate::{ConvTranspose, Element, Error, Problem, Shape, Tensor};

/// A transposed convolution of known shapes on the CPU.
///
/// Work is spread over the threads of the current rayon pool: the global one, or the one whose `install` the call is
/// made in. Results are bitwise repeatable on one kind of processor, whatever the number of threads. Sums are in `f32`:
/// an element's error is at most `f32::EPSILON * (products + 2)` times the sum of the magnitudes of its products and
/// its bias, where `products` is the input channels of a group times the elements of a kernel; in practice it is far
/// smaller.
///
/// A weight that is infinite or NaN may make NaN of elements close to the border that no finite weight would: the
/// algorithms multiply it by the zeros around the input.
///
/// ```
/// use conv_transpose::{ConvTranspose2d, Shape, Tensor, cpu};
///
/// // Doubles an image by repeating each pixel.
/// let layer = ConvTranspose2d::builder(1, 1, [2, 2]).stride([2, 2]).build()?;
/// let input = Tensor::from_vec(Shape::unbatched(1, [1, 2]), vec![1.0f32, 2.0])?;
/// let weight = Tensor::filled(layer.weight_shape(), 1.0)?;
///
/// let plan = cpu::Plan::new(&layer, input.shape())?;
/// let mut output = Tensor::filled(plan.output_shape(), 0.0)?;
/// plan.forward(&input, &weight, None, &mut output)?;
/// assert_eq!(output.as_slice(), [1.0, 1.0, 2.0, 2.0, 1.0, 1.0, 2.0, 2.0]);
/// # Ok::<(), conv_transpose::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Plan<const D: usize> {
    problem: Problem<D>,
    algorithm: Algorithm,
}

impl<const D: usize> Plan<D> {
    /// Plans `layer` for inputs of the given shape.
    ///
    /// # Errors
    /// [`Error::Geometry`] if the layer does not take such an input; see [`ConvTranspose::problem`].
    pub fn new(layer: &ConvTranspose<D>, input: Shape<D>) -> Result<Self, Error> {
        let problem = layer.problem(input)?;
        let algorithm = Algorithm::choose(&problem.to_compute(), Kernels::detect());
        Ok(Self { problem, algorithm })
    }

    /// The problem that this plan solves.
    pub fn problem(&self) -> &Problem<D> {
        &self.problem
    }

    /// The shape of the output.
    pub fn output_shape(&self) -> Shape<D> {
        self.problem.output_shape()
    }

    /// The algorithm in use: `direct`, by phase on blocks of the input, or `columns`, a matrix product whose results
    /// are added into the output, for layers where `direct` would multiply or copy much in vain.
    pub fn algorithm(&self) -> &'static str {
        self.algorithm.name()
    }

    /// Bytes that [`forward`](Self::forward) allocates on the current rayon pool, and frees again: the packed weights,
    /// no more than the weights themselves, and a few hundred KiB for each thread (more only with thousands of input
    /// channels per group or with kernels that reach far, and never above 40 MiB).
    pub fn workspace_bytes(&self) -> usize {
        let (shared, per_thread) = self.algorithm.workspace_elements();
        size_of::<f32>() * (shared + per_thread * rayon::current_num_threads())
    }

    /// Computes the output. Every element of `output` is written; what it held before does not matter.
    ///
    /// `weight` has the shape [`Problem::weight_shape`], `bias` one element per output channel.
    ///
    /// # Errors
    /// [`ShapeMismatch`](crate::GeometryError::ShapeMismatch) or [`Length`](crate::GeometryError::Length) naming the
    /// argument that does not fit the plan; the output is then untouched.
    pub fn forward<T: Element>(
        &self,
        input: &Tensor<T, D>,
        weight: &Tensor<T, D>,
        bias: Option<&[T]>,
        output: &mut Tensor<T, D>,
    ) -> Result<(), Error> {
        self.problem.check_tensors(input.shape(), weight.shape(), output.shape(), bias.map(|bias| bias.len()))?;
        if output.as_slice().is_empty() {
            return Ok(());
        }
        // `f32` is the only element type so far.
        let bias = bias.map(bytemuck::cast_slice);
        self.algorithm.forward(
            bytemuck::cast_slice(input.as_slice()),
            bytemuck::cast_slice(weight.as_slice()),
            bias,
            bytemuck::cast_slice_mut(output.as_mut_slice()),
        );
        Ok(())
    }
}
