//! The algorithms of the CUDA backend as engines.

use std::{marker::PhantomData, sync::OnceLock};

use conv_transpose::{
    ConvTranspose, Tensor,
    cuda::{CudaError, Device, Options, Plan},
};
use cust::stream::{Stream, StreamFlags};

use super::{
    Computes,
    kind::{self, Kind},
    poisoned,
};
use crate::geometries::Stop;

/// One algorithm on the first GPU.
pub struct Cuda<A> {
    device: Device,
    stream: Stream,
    algorithm: PhantomData<A>,
}

/// The tile kernels, and the one that sums up their columns.
pub type Col2im = Cuda<kind::Col2im>;
/// The direct kernels.
pub type Direct = Cuda<kind::Direct>;
/// The gather kernels.
pub type Gather = Cuda<kind::Gather>;
/// The scatter kernels.
pub type Scatter = Cuda<kind::Scatter>;
/// The tile kernels.
pub type Tile = Cuda<kind::Tile>;

impl<A: Kind> Computes for Cuda<A> {
    const NAME: &'static str = A::CUDA;
    const ROUNDOFF: f64 = A::ROUNDOFF;
    const REPEATABLE: bool = A::REPEATABLE;
    const NEEDS_GPU: bool = true;

    fn start() -> Result<Self, String> {
        let device = shared_device().map_err(|error| error.to_string())?;
        device.make_current().map_err(|error| error.to_string())?;
        let stream = Stream::new(StreamFlags::NON_BLOCKING, None).map_err(|error| error.to_string())?;
        Ok(Self { device, stream, algorithm: PhantomData })
    }

    fn forward<const D: usize>(
        &self,
        layer: &ConvTranspose<D>,
        input: &Tensor<f32, D>,
        weight: &Tensor<f32, D>,
        bias: Option<&[f32]>,
    ) -> Result<Vec<f32>, Stop> {
        // To compile kernels for each of so many layers would take hours.
        let options = Options::default().algorithm(A::ALGORITHM).specialised(false);
        let plan = Plan::new(&self.device, layer, input.shape(), options)?;
        let [input, weight] = [self.device.upload(input)?, self.device.upload(weight)?];
        let bias = bias.map(|bias| self.device.upload_slice(bias)).transpose().map_err(conv_transpose::Error::from)?;
        let mut output = self.device.upload(&poisoned(plan.output_shape()))?;
        plan.forward(&self.stream, &input, &weight, bias.as_deref(), &mut output)?;
        Ok(output.download(&self.stream)?.into_vec())
    }
}

/// One device for all tests of a process: loading the kernels takes a while.
fn shared_device() -> Result<Device, CudaError> {
    static DEVICE: OnceLock<Result<Device, CudaError>> = OnceLock::new();
    DEVICE.get_or_init(|| Device::new(0)).clone()
}
