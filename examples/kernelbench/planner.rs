//! Where plans come from: the library's model, or a search for the fastest that shows how far it is.

use std::time::Duration;

use anyhow::Result;
use conv_transpose::{
    ConvTranspose, Error, Shape,
    cuda::{Autotune, Device, Options, Plan},
};
use indicatif::ProgressBar;

use crate::arguments::Arguments;

/// Makes plans.
pub enum Planner {
    /// By the library's model.
    Model,
    /// By measurement.
    Autotune(Autotune),
}

impl Planner {
    /// As the arguments say. Searches tell `bar` how far they are, in its prefix.
    pub fn new(arguments: &Arguments, bar: &ProgressBar) -> Result<Self> {
        let Some(seconds) = arguments.autotune else { return Ok(Self::Model) };
        let known = match &arguments.autotune_file {
            Some(path) if path.exists() => Autotune::load(path)?,
            _ => Autotune::new(),
        };
        let bar = bar.clone();
        let autotune = known.time_limit(Duration::try_from_secs_f64(seconds)?).on_progress(move |progress| {
            bar.set_prefix(format!("plan {} of {}, ", progress.measured, progress.candidates));
            bar.tick();
        });
        Ok(Self::Autotune(autotune))
    }

    pub fn plan<const D: usize>(
        &mut self,
        device: &Device,
        layer: &ConvTranspose<D>,
        input: Shape<D>,
        options: Options,
    ) -> Result<Plan<D>, Error> {
        match self {
            Self::Model => Plan::new(device, layer, input, options),
            Self::Autotune(autotune) => autotune.plan(device, layer, input, options),
        }
    }

    /// Writes what is known into the file that was named.
    pub fn save(&self, arguments: &Arguments) -> Result<()> {
        if let (Self::Autotune(autotune), Some(path)) = (self, &arguments.autotune_file) {
            autotune.save(path)?;
        }
        Ok(())
    }
}
