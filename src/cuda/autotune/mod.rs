//! Plans by measurement: the fastest of all ways to compute a problem on a device, found once and remembered.

mod case;
mod file;
mod gpu;
mod search;

use std::{collections::BTreeMap, fmt, path::Path, time::Duration};

use super::{
    algorithm::{self, Way},
    device::Device,
    plan::{Options, Plan},
};
use crate::{ConvTranspose, Error, Problem, Shape};
use case::{Case, Choice, Gpu};
pub use file::AutotuneFileError;
use gpu::GpuBench;
use search::Step;

/// How long a search may take unless something else is said.
const TIME_LIMIT: Duration = Duration::from_secs(2);

/// Makes plans by measuring where [`Plan::new`] relies on a model of the GPU, and remembers what was the fastest.
///
/// ```no_run
/// use std::{path::Path, time::Duration};
///
/// use conv_transpose::{ConvTranspose2d, Shape, cuda::{Autotune, Device, Options}};
///
/// let path = Path::new("autotune.json");
/// let autotune = if path.exists() { Autotune::load(path)? } else { Autotune::new() };
/// let mut autotune = autotune.time_limit(Duration::from_secs(1));
///
/// let device = Device::new(0)?;
/// let layer = ConvTranspose2d::builder(64, 32, [4, 4]).stride([2, 2]).padding([1, 1]).build()?;
/// let plan = autotune.plan(&device, &layer, Shape::batched(8, 64, [28, 28]), Options::default())?;
/// println!("{}", plan.describe());
/// autotune.save(path)?;
/// # Ok::<(), conv_transpose::Error>(())
/// ```
///
/// # What is measured
/// The choice of [`Plan::new`] first, so that there always is an answer; then, as long as there is time, other ways to
/// cut the problem for the same algorithm, and every other algorithm that the options allow, but those with much memory
/// for themselves where they are not expected to pay. ([`Algorithm::Auto`](super::Algorithm::Auto) allows those that
/// are bitwise repeatable.) A candidate is launched once and, unless it is far slower than the best so far, a few times
/// more; its median counts: of [`Plan::forward_packed`], that is without the packing of the weight, on tensors that are
/// not in the GPU's caches. Other work on the GPU disturbs the measurement.
///
/// The tensors are scratch memory of the problem's shapes, filled with zeros, which is freed when the plan is there.
///
/// # What is remembered
/// A decision holds for one problem, precision and [`Options`], on devices of the same name, compute capability and
/// number of multiprocessors, and for the very kernels that were measured. The next plan for such a case measures
/// nothing and always is the same one. Of two ways that are about as fast, two searches may find either, and they may
/// round differently; a file makes the decision the same for every run.
#[derive(Default)]
pub struct Autotune {
    time_limit: Option<Duration>,
    decisions: BTreeMap<Case, Choice>,
    progress: Option<Listener>,
}

/// Who hears of the progress of a search.
type Listener = Box<dyn FnMut(&Progress<'_>) + Send>;

/// How far a search is: told after each candidate.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Progress<'a> {
    /// The candidate, as [`Plan::describe`] says it.
    pub candidate: &'a str,
    /// The time of a launch of it.
    pub time: Duration,
    /// The shortest time of a launch so far.
    pub best: Duration,
    /// Number of candidates that were measured.
    pub measured: usize,
    /// Number of candidates in all; the time limit may come before.
    pub candidates: usize,
}

impl Autotune {
    /// Nothing is known yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// How long a search may take: two seconds unless this is called. The limit is looked at between launches, so a
    /// search may take longer by a candidate. Loading kernels counts; [`Device::warm_up`] does it beforehand.
    #[must_use]
    pub fn time_limit(mut self, limit: Duration) -> Self {
        self.time_limit = Some(limit);
        self
    }

    /// Who is to hear of the progress of searches, such as a progress bar. A plan that needs no search tells nothing.
    #[must_use]
    pub fn on_progress(mut self, listener: impl FnMut(&Progress<'_>) + Send + 'static) -> Self {
        self.progress = Some(Box::new(listener));
        self
    }

    /// As [`Plan::new`], with what is the fastest by measurement: now, or before for the same case. Candidates are
    /// measured as they are. If the options allow it, the fastest one is compiled for the plan, and the choice of
    /// [`Plan::new`] as well, since some gain more from that than others; the faster one of these two is taken,
    /// whatever time is left.
    ///
    /// # Errors
    /// As [`Plan::new`]; [`CudaError::OutOfMemory`](super::CudaError::OutOfMemory) if the scratch memory does not fit
    /// beside what the program has allocated, and [`CudaError::Driver`](super::CudaError::Driver) if a launch fails.
    /// Nothing is remembered then. A candidate that there is no memory for is left out.
    pub fn plan<const D: usize>(
        &mut self,
        device: &Device,
        layer: &ConvTranspose<D>,
        input: Shape<D>,
        options: Options,
    ) -> Result<Plan<D>, Error> {
        let (problem, task) = Plan::task(device, layer, input, options)?;
        let mut ways = algorithm::ways(options.algorithm, &task)?;
        let case = Case::new(Gpu::of(device), options, &task);
        if let Some(index) = self.known(&case, &ways).or_else(|| only_way(&problem, &ways)) {
            return Plan::prepared(device, problem, ways.swap_remove(index), options.patience());
        }
        let plan = self.fastest(device, problem, ways, !options.generic)?;
        self.decisions.insert(case, Choice::of(plan.algorithm(), &plan.describe()));
        Ok(plan)
    }

    /// Number of decisions that it knows.
    pub fn len(&self) -> usize {
        self.decisions.len()
    }

    /// Whether it knows no decisions.
    pub fn is_empty(&self) -> bool {
        self.decisions.is_empty()
    }

    /// Writes all decisions to a file, in the place of what is there.
    ///
    /// # Errors
    /// [`AutotuneFileError::Write`].
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), Error> {
        Ok(file::save(path.as_ref(), &self.decisions)?)
    }

    /// Knows the decisions in a file. Those of another version of the library or of other kernels are outdated and left
    /// out; those of other devices are kept, so that machines can share a file.
    ///
    /// A decision names an algorithm and a way to use its kernels. It is looked up among those that there are for the
    /// problem, and if it is not there, the problem is measured anew: a file can make a plan slow, but never wrong.
    ///
    /// # Errors
    /// [`AutotuneFileError`]: the file cannot be read, is damaged, or is something else.
    pub fn load(path: impl AsRef<Path>) -> Result<Self, Error> {
        Ok(Self { decisions: file::load(path.as_ref())?, ..Self::default() })
    }

    /// Which of the ways was decided on, if it still is one.
    fn known(&self, case: &Case, ways: &[Way]) -> Option<usize> {
        self.decisions.get(case)?.find(ways)
    }

    /// The plan of the fastest way, `specialised` or not.
    fn fastest<const D: usize>(
        &mut self,
        device: &Device,
        problem: Problem<D>,
        ways: Vec<Way>,
        specialised: bool,
    ) -> Result<Plan<D>, Error> {
        let choice_of_the_model = ways.first().cloned();
        let _entered = device.enter()?;
        let mut bench = GpuBench::new(device, problem)?;
        let candidates = ways.len();
        let tell = |Step { ready: (plan, _), time, best, measured }: Step<'_, (Plan<D>, _)>| {
            if let Some(listener) = &mut self.progress {
                listener(&Progress { candidate: &plan.describe(), time, best, measured, candidates });
            }
        };
        let best = search::fastest(&mut bench, ways, self.time_limit.unwrap_or(TIME_LIMIT), tell)?;
        let (plan, _) = best.expect("the choice of the model is measured in any case");
        if !specialised {
            return Ok(plan);
        }
        let described = plan.describe();
        let mut finalists = vec![plan.into_way()];
        finalists.extend(choice_of_the_model.filter(|(_, recipe)| recipe.describe() != described));
        bench.specialised = true;
        let best = search::fastest(&mut bench, finalists, Duration::MAX, |_| ())?;
        let (plan, _) = best.expect("there is a finalist");
        Ok(plan)
    }
}

impl fmt::Debug for Autotune {
    /// Without the listener, which has nothing to show.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { time_limit, decisions, .. } = self;
        f.debug_struct("Autotune").field("time_limit", time_limit).field("decisions", decisions).finish_non_exhaustive()
    }
}

/// The first way, if it is the only one, or if there is nothing to compute.
fn only_way<const D: usize>(problem: &Problem<D>, ways: &[Way]) -> Option<usize> {
    (ways.len() == 1 || problem.output_shape().len() == 0).then_some(0)
}
