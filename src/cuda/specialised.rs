//! Specialised kernels: compiled for one layer, with what its launch passes by value written into the PTX as constants.
//!
//! The kernels take any layer; strides, extents, the kinds of runs that there are come as parameters. Where these are
//! constants, the driver's compiler leaves out what the layer does not need, two thirds of the instructions of a tile
//! kernel, and folds addresses. The values are those that a launch passes, so the results are the same, to the bit; and
//! so a plan can compute with the general kernels while the driver compiles.

mod constants;
mod reachable;

use std::{
    collections::HashMap,
    mem,
    panic::{self, AssertUnwindSafe},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak},
    thread::{self, JoinHandle},
    time::Duration,
};

use constants::{with_constants, with_least_blocks};
use reachable::reachable;

use super::{
    context::BesideCaptures,
    device::Device,
    error::CudaError,
    module::{Kernel, Module},
};

/// Bytes of registers that a thread may keep in memory: what it needs once for each job. More of them are in the way of
/// products.
const MOST_LOCAL_BYTES: u32 = 32;

/// A kernel that is compiled for the values of its first parameters, on a thread of its own, and stays loaded as long
/// as somebody has this.
#[derive(Debug)]
pub(super) struct Specialised {
    compilation: Arc<Compilation>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Compilation {
    /// Keeps the context alive.
    device: Device,
    case: Case,
    architecture: &'static str,
    ptx: &'static str,
    outcome: Mutex<Outcome>,
    finished: Condvar,
}

#[derive(Debug, Default)]
enum Outcome {
    #[default]
    UnderWay,
    Done(Result<Compiled, CudaError>),
    /// Which whoever waits has to hear of.
    Panic,
}

/// What a kernel is compiled for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Case {
    kernel: &'static str,
    values: Vec<Box<[u8]>>,
    shared_bytes: u32,
    least_blocks: u32,
}

/// A module, and the kernel in it.
#[derive(Debug)]
struct Compiled {
    module: Module,
    kernel: Kernel,
    goes_on: bool,
}

/// Those that are compiled, or about to be.
#[derive(Debug, Default)]
pub(super) struct Cache(Mutex<HashMap<Case, Weak<Specialised>>>);

impl Specialised {
    /// Begins to compile.
    fn new(compilation: Compilation) -> Self {
        let compilation = Arc::new(compilation);
        let theirs = compilation.clone();
        let thread =
            thread::Builder::new().name("compile a kernel".to_owned()).spawn(move || theirs.run_on_thread()).ok();
        if thread.is_none() {
            compilation.run();
        }
        Self { compilation, thread }
    }

    /// How many parameters of the general kernel it does not have: those that it was compiled for.
    pub(super) fn constants(&self) -> usize {
        self.compilation.case.values.len()
    }

    /// The kernel, if it has been compiled by now.
    pub(super) fn kernel(&self) -> Option<Kernel> {
        match &*self.compilation.lock() {
            Outcome::Done(Ok(compiled)) => Some(compiled.kernel),
            _ => None,
        }
    }

    /// Whether it has been compiled by now, and goes on while products are under way, as it does unless registers are
    /// not enough. Only then it takes in what general kernels do not.
    pub(super) fn goes_on(&self) -> bool {
        matches!(&*self.compilation.lock(), Outcome::Done(Ok(Compiled { goes_on: true, .. })))
    }

    /// Waits for the kernel, but no longer than for some time.
    pub(super) fn wait(&self, at_most: Duration) -> Option<Result<Kernel, CudaError>> {
        let Compilation { finished, .. } = &*self.compilation;
        let under_way = |outcome: &mut Outcome| matches!(outcome, Outcome::UnderWay);
        let outcome = finished.wait_timeout_while(self.compilation.lock(), at_most, under_way);
        let (outcome, _) = outcome.unwrap_or_else(PoisonError::into_inner);
        match &*outcome {
            Outcome::UnderWay => None,
            Outcome::Done(result) => Some(result.as_ref().map(|compiled| compiled.kernel).map_err(CudaError::clone)),
            Outcome::Panic => panic!("the thread that compiled a kernel panicked"),
        }
    }
}

impl Drop for Specialised {
    fn drop(&mut self) {
        // Nobody compiles when the program ends, or when a context ends that was lent.
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        let outcome = mem::take(&mut *self.compilation.lock());
        let Outcome::Done(Ok(compiled)) = outcome else { return };
        if let Ok(_entered) = self.compilation.device.enter_to_unload() {
            compiled.module.unload();
        }
    }
}

impl Compilation {
    /// On a thread of its own, whose loading of modules is no concern of what others capture meanwhile.
    fn run_on_thread(&self) {
        let _beside = BesideCaptures::begin();
        self.run();
    }

    fn run(&self) {
        let outcome = panic::catch_unwind(AssertUnwindSafe(|| self.compiled()));
        *self.lock() = outcome.map_or(Outcome::Panic, Outcome::Done);
        self.finished.notify_all();
    }

    fn compiled(&self) -> Result<Compiled, CudaError> {
        let _entered = self.device.enter()?;
        let text = self.text(true);
        let (module, kernel, local_bytes) = self.ready(&text)?;
        if local_bytes <= MOST_LOCAL_BYTES {
            return Ok(Compiled { module, kernel, goes_on: true });
        }
        // Registers are not enough to go on while products are under way. Kernels that have none under way are as they
        // were.
        let waiting = self.text(false);
        if waiting == text {
            return Ok(Compiled { module, kernel, goes_on: true });
        }
        module.unload();
        let (module, kernel, _) = self.ready(&waiting)?;
        Ok(Compiled { module, kernel, goes_on: false })
    }

    /// The kernel's PTX with its values. It may go on while products are under way.
    fn text(&self, goes_on: bool) -> String {
        let Case { kernel, values, least_blocks, .. } = &self.case;
        with_least_blocks(with_constants(self.ptx, kernel, values, goes_on), *least_blocks)
    }

    /// The kernel of a text, ready for its launches, and how many bytes of its registers a thread keeps in memory.
    fn ready(&self, text: &str) -> Result<(Module, Kernel, u32), CudaError> {
        let module = Module::load(self.architecture, self.case.kernel, &reachable(text))?;
        let ready = || {
            let kernel = module.kernel(self.case.kernel)?;
            kernel.allow_shared_bytes(self.case.shared_bytes)?;
            Ok((kernel, kernel.local_bytes()?))
        };
        match ready() {
            Ok((kernel, local_bytes)) => Ok((module, kernel, local_bytes)),
            Err(error) => {
                module.unload();
                Err(error)
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Outcome> {
        self.outcome.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Cache {
    /// The kernel of a launch for some values, which is compiled from the PTX of `architecture` unless somebody has it.
    pub(super) fn get(
        &self,
        device: &Device,
        (architecture, kernel, ptx): (&'static str, &'static str, &'static str),
        values: &[&[u8]],
        (shared_bytes, least_blocks): (u32, u32),
    ) -> Arc<Specialised> {
        let values = values.iter().map(|&value| value.into()).collect();
        let case = Case { kernel, values, shared_bytes, least_blocks };
        let mut cache = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(specialised) = cache.get(&case).and_then(Weak::upgrade) {
            return specialised;
        }
        cache.retain(|_, kernel| kernel.strong_count() > 0);
        let (outcome, finished) = Default::default();
        let compilation =
            Compilation { device: device.clone(), case: case.clone(), architecture, ptx, outcome, finished };
        let specialised = Arc::new(Specialised::new(compilation));
        cache.insert(case, Arc::downgrade(&specialised));
        specialised
    }
}
