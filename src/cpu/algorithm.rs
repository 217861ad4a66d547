//! The choice between the algorithms, from the problem alone.

use super::{columns::Columns, direct::Direct, microkernel::Kernels};
use crate::Problem;

/// An algorithm, prepared for one problem.
#[derive(Clone, Debug)]
pub(super) enum Algorithm {
    Direct(Box<Direct>),
    Columns(Box<Columns>),
}

impl Algorithm {
    /// The one that costs the least, counting what is multiplied and copied in vain.
    pub fn choose(problem: &Problem<3>, kernels: Kernels) -> Self {
        let columns = Columns::new(problem, kernels);
        match Direct::new(problem, kernels) {
            Some(direct) if direct.cost() <= columns.cost() => Self::Direct(Box::new(direct)),
            _ => Self::Columns(Box::new(columns)),
        }
    }

    /// What reports call it.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Direct(_) => "direct",
            Self::Columns(_) => "columns",
        }
    }

    /// Elements of memory that all threads share, and that each thread has of its own.
    pub fn workspace_elements(&self) -> (usize, usize) {
        match self {
            Self::Direct(direct) => (direct.shared_elements(), direct.elements_per_thread()),
            Self::Columns(columns) => (0, columns.elements_per_thread()),
        }
    }

    /// Computes the output from slices of the problem's shapes.
    pub fn forward(&self, input: &[f32], weight: &[f32], bias: Option<&[f32]>, output: &mut [f32]) {
        match self {
            Self::Direct(direct) => direct.forward(input, weight, bias, output),
            Self::Columns(columns) => columns.forward(input, weight, bias, output),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{ConvTranspose, ConvTranspose1d, Shape, oracle};

    /// Small integers, so that every sum is exact in any order.
    fn integers(count: usize, seed: usize) -> Vec<f32> {
        (0..count).map(|i| ((i * 7919 + seed * 104_729) % 1009 % 9) as f32 - 4.0).collect()
    }

    /// Every algorithm that takes the problem, with all kernels that this processor has.
    fn algorithms(problem: &Problem<3>) -> Vec<Algorithm> {
        let kernels = Kernels::available();
        let direct =
            kernels.iter().filter_map(|&kernels| Direct::new(problem, kernels)).map(Box::new).map(Algorithm::Direct);
        let columns = kernels.iter().map(|&kernels| Algorithm::Columns(Box::new(Columns::new(problem, kernels))));
        direct.chain(columns).collect()
    }

    fn assert_exact<const D: usize>(problem: &Problem<D>) {
        let input = integers(problem.input_shape().len(), 1);
        let weight = integers(problem.weight_shape().len(), 2);
        let bias = integers(problem.out_channels(), 3);
        for bias in [None, Some(bias.as_slice())] {
            let expected: Vec<f32> =
                oracle::forward(problem, &input, &weight, bias).into_iter().map(|value| value as f32).collect();
            for algorithm in algorithms(&problem.to_3d()) {
                let mut output = vec![f32::NAN; expected.len()];
                algorithm.forward(&input, &weight, bias, &mut output);
                assert!(output == expected, "{problem:?} by {algorithm:?}");
            }
        }
    }

    #[derive(Clone, Debug)]
    struct AxisChoice {
        input: usize,
        kernel: usize,
        stride: usize,
        dilation: usize,
        begin: usize,
        end: usize,
        output_padding: usize,
    }

    fn axis(largest: usize) -> impl Strategy<Value = AxisChoice> {
        let stride = prop_oneof![4 => 1usize..=4, 1 => 5usize..40];
        (1..=largest, 1usize..=5, stride, 1usize..=4, 0usize..4, 0usize..4, 0usize..4).prop_map(
            |(input, kernel, stride, dilation, begin, end, output_padding)| AxisChoice {
                input,
                kernel,
                stride,
                dilation,
                begin,
                end,
                output_padding: output_padding % stride.max(dilation),
            },
        )
    }

    fn check_layer<const D: usize>(batch: usize, groups: usize, channels: [usize; 2], axes: [AxisChoice; D]) {
        let builder = ConvTranspose::<D>::builder(
            groups * channels[0],
            groups * channels[1],
            axes.each_ref().map(|axis| axis.kernel),
        );
        let builder = builder
            .groups(groups)
            .stride(axes.each_ref().map(|axis| axis.stride))
            .dilation(axes.each_ref().map(|axis| axis.dilation))
            .padding_begin_end(axes.each_ref().map(|axis| [axis.begin, axis.end]))
            .output_padding(axes.each_ref().map(|axis| axis.output_padding));
        let layer = builder.build().unwrap();
        let shape = Shape::batched(batch, groups * channels[0], axes.each_ref().map(|axis| axis.input));
        // Where padding leaves no output, there is nothing to compute.
        if let Ok(problem) = layer.problem(shape) {
            assert_exact(&problem);
        }
    }

    proptest! {
        #[test]
        fn exact_in_1d(batch in 0usize..4, groups in 1usize..4, ci in 1usize..7, co in 1usize..15, x in axis(80)) {
            check_layer(batch, groups, [ci, co], [x]);
        }

        #[test]
        fn exact_in_2d(batch in 0usize..4, groups in 1usize..3, ci in 1usize..5, co in 1usize..9, y in axis(9), x in axis(20)) {
            check_layer(batch, groups, [ci, co], [y, x]);
        }

        #[test]
        fn exact_in_3d(
            batch in 1usize..3, groups in 1usize..3, ci in 1usize..3, co in 1usize..4, z in axis(4), y in axis(4), x in axis(6),
        ) {
            check_layer(batch, groups, [ci, co], [z, y, x]);
        }
    }

    /// A layer of one axis with the rest of the parameters at 1.
    fn check_1d(batch: usize, channels: [usize; 2], input: usize, kernel: usize, stride: usize, dilation: usize) {
        let axis = AxisChoice { input, kernel, stride, dilation, begin: 0, end: 0, output_padding: 0 };
        check_layer(batch, 1, channels, [axis]);
    }

    #[test]
    fn exact_around_the_edges_of_blocks_of_channels() {
        for in_channels in [1, 127, 128, 129, 257] {
            for out_channels in [1, 5, 6, 7, 11, 13, 31] {
                check_1d(2, [in_channels, out_channels], 9, 3, 2, 1);
            }
        }
    }

    #[test]
    fn exact_around_the_edges_of_vectors_and_tiles() {
        for positions in [1, 7, 8, 9, 15, 16, 17, 63, 64, 65, 95, 96, 97, 191, 192, 193, 479, 481] {
            check_1d(1, [3, 7], positions, 4, 2, 1);
            check_1d(positions, [3, 2], 2, 4, 2, 1);
        }
        for positions in [2729, 2730, 2731, 5461, 16385, 40000] {
            check_1d(1, [1, 1], positions, 4, 2, 1);
            check_1d(1, [2, 6], positions, 3, 1, 1);
        }
    }

    #[test]
    fn exact_for_tiles_of_several_axes() {
        let axis = |input, kernel, stride| AxisChoice {
            input,
            kernel,
            stride,
            dilation: 1,
            begin: 1,
            end: 1,
            output_padding: 0,
        };
        check_layer(3, 1, [150, 3], [axis(23, 4, 2), axis(31, 3, 2)]);
        check_layer(2, 1, [70, 5], [axis(7, 3, 2), axis(9, 3, 1), axis(11, 4, 2)]);
        check_layer(2, 2, [1, 1], [axis(70, 4, 2), axis(301, 4, 2)]);
    }

    /// Windows of a few inputs and millions of zeros were copied for each tile: 50 ms for a hundred products.
    #[test]
    fn kernels_that_reach_far_beyond_the_input_are_for_columns() {
        let name = |channels: [usize; 2], batch, input, dilation| {
            let layer =
                ConvTranspose1d::builder(channels[0], channels[1], [3]).dilation([dilation]).padding([dilation]);
            let problem = layer.build().unwrap().problem(Shape::batched(batch, channels[0], [input])).unwrap();
            Algorithm::choose(&problem.to_3d(), Kernels::available()[0]).name()
        };
        assert_eq!(name([1, 1], 100, 1, 2_000_000), "columns");
        assert_eq!(name([64, 1], 64, 16, 4096), "columns");
        assert_eq!(name([64, 32], 4, 4096, 4), "direct");
        assert_eq!(name([1, 1], 1, 4096, 1), "direct");
    }

    #[test]
    fn exact_for_strides_and_dilations_far_beyond_the_input() {
        check_1d(2, [3, 2], 3, 3, 5000, 1);
        check_1d(2, [3, 2], 3, 3, 1, 5000);
        check_1d(2, [3, 2], 3, 3, 700, 900);
        check_1d(2, [2, 2], 2, 2, 33, 1);
        check_1d(1, [2, 2], 5, 200, 64, 1);
        check_1d(1, [2, 2], 1, 1500, 1, 1);
    }

    #[test]
    fn chooses_by_the_work_in_vain() {
        let chosen = |input, kernel, stride| {
            let layer = ConvTranspose::builder(256, 128, [kernel; 2]).stride([stride; 2]).build().unwrap();
            let problem = layer.problem(Shape::batched(1, 256, [input; 2])).unwrap();
            Algorithm::choose(&problem.to_3d(), Kernels::detect())
        };
        assert!(matches!(chosen(32, 4, 2), Algorithm::Direct(_)));
        assert!(matches!(chosen(1, 4, 1), Algorithm::Columns(_)), "15 of 16 taps would read zeros");
        assert!(matches!(chosen(2, 3, 3000), Algorithm::Columns(_)), "almost all phases have no taps");
    }
}
