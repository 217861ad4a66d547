//! What a launch reports when a kernel goes wrong.

use core::fmt;
use core::panic::Location;
use std::string::String;

use super::dim3::Dim3;
use super::shadow::Access;

/// A mistake of a kernel, and where it happened; the launch ended there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The kernel's name.
    pub kernel: String,
    /// The thread that made the mistake; none where the launch itself was refused.
    pub thread: Option<Thread>,
    /// The call in the kernel's source; not known for a panic, which prints it itself.
    pub location: Option<&'static Location<'static>>,
    /// The mistake.
    pub kind: FaultKind,
}

/// A thread of a grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thread {
    /// The position of its block.
    pub block: Dim3,
    /// Its position in the block.
    pub thread: Dim3,
}

/// A place in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The name of the buffer, or of the array in shared memory.
    pub buffer: String,
    /// The distance from its start in bytes; for an access out of bounds it may be negative.
    pub offset: i64,
    /// Whether it is in shared memory.
    pub shared: bool,
}

/// What went wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FaultKind {
    /// An access that lies, at least in part, outside of every buffer that it could mean.
    OutOfBounds {
        /// What the access does.
        access: Access,
        /// Its size.
        bytes: usize,
        /// The address, of global or of shared memory.
        address: u64,
        /// The buffer nearby, if there is one, and its size in bytes.
        near: Option<(Place, usize)>,
    },
    /// A write to a buffer that was registered as read-only.
    ReadOnly {
        /// What the access does.
        access: Access,
        /// Where.
        place: Place,
    },
    /// An access at an address that is not a multiple of its size.
    Misaligned {
        /// What the access does.
        access: Access,
        /// Its size.
        bytes: usize,
        /// Where.
        place: Place,
    },
    /// A read of memory that nothing has written.
    Uninitialised {
        /// What the access does.
        access: Access,
        /// The first such byte or word.
        place: Place,
    },
    /// Two accesses to the same memory, at least one of them a write, that nothing orders.
    Race {
        /// The later one.
        access: Access,
        /// The earlier one.
        earlier: Access,
        /// A thread that made the earlier one, where it is in the same block.
        other_thread: Option<Dim3>,
        /// The block of the earlier one.
        other_block: Dim3,
        /// Where.
        place: Place,
    },
    /// Memory that is written, and loaded as if it were constant, in one launch.
    NotConstant {
        /// The later one of the two accesses.
        access: Access,
        /// Where.
        place: Place,
    },
    /// An access to shared memory that an asynchronous copy is to fill, before the copy was waited for: by the thread
    /// that has started it, or at the memory barrier that completes it.
    CopyPending {
        /// What the access does; for another copy, a write.
        access: Access,
        /// The thread that has started the copy.
        copying_thread: Dim3,
        /// Where.
        place: Place,
    },
    /// A thread waits at a barrier that another one does not come to.
    Barrier {
        /// The other thread of the block.
        other: Dim3,
        /// What that thread does instead.
        instead: Instead,
    },
    /// A warp uses a named barrier of its block wrongly, or waits at it for ever.
    NamedBarrier {
        /// The barrier's number.
        barrier: u32,
        /// What is wrong.
        problem: NamedBarrierProblem,
    },
    /// A thread uses a memory barrier wrongly, or waits at it for ever.
    Mbarrier {
        /// Where the barrier is.
        place: Place,
        /// What is wrong.
        problem: MbarrierProblem,
    },
    /// A thread accesses the shared memory of another block of its cluster that is not there.
    Cluster {
        /// The number of that block in the cluster.
        rank: u32,
        /// What is wrong.
        problem: ClusterProblem,
    },
    /// A bulk copy whose size is no multiple of 16.
    BulkSize {
        /// That size.
        bytes: u32,
    },
    /// A lane takes part in an operation of its warp that cannot happen.
    Warp {
        /// The mask of lanes that are to take part.
        mask: u32,
        /// What is wrong.
        problem: WarpProblem,
    },
    /// A thread made more accesses and synchronisations than the limit.
    StepLimit {
        /// The limit.
        steps: u64,
    },
    /// The kernel panicked.
    Panic {
        /// With this message.
        message: String,
    },
    /// The kernel called `trap`.
    Trap,
    /// Static arrays want more shared memory than there is.
    SharedMemory {
        /// The array that does not fit.
        array: &'static str,
        /// The bytes that all of them together would need.
        bytes: usize,
    },
    /// The launch is impossible; no thread ran.
    Refused {
        /// Why.
        reason: String,
    },
}

/// What a thread does that others wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Instead {
    /// It has returned.
    Returned,
    /// It waits at this other call.
    Waits(&'static Location<'static>),
}

/// What is wrong with the use of a named barrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NamedBarrierProblem {
    /// The numbers are 1 to 15.
    NoSuchBarrier,
    /// The number of threads is not a multiple of 32, or zero.
    NotWholeWarps {
        /// That number.
        threads: u32,
    },
    /// Others that came since the barrier last opened gave another number of threads.
    OtherCount {
        /// The number that this warp gives.
        threads: u32,
        /// The number that they gave.
        others: u32,
    },
    /// The warp has come before, and the barrier has not opened since.
    CameTwice,
    /// Too few come.
    Stuck {
        /// The number of threads that have come.
        came: u32,
        /// The number that the barrier is to open at.
        threads: u32,
    },
}

/// What is wrong with the use of a memory barrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MbarrierProblem {
    /// No barrier was made there.
    NotInitialised,
    /// No barrier can expect this number of arrivals.
    Arrivals {
        /// That number.
        arrivals: u32,
    },
    /// More arrivals come in a phase than it expects.
    TooManyArrivals {
        /// The number that it expects.
        expected: u32,
    },
    /// No phase can expect this number of bytes.
    Bytes {
        /// The bytes that are still to be copied; below zero, those that were copied but not expected.
        bytes: i64,
    },
    /// The parity of a phase is 0 or 1.
    NoSuchParity {
        /// What was given for one.
        parity: u32,
    },
    /// Something that is no operation of a barrier accesses it.
    Accessed {
        /// What the access does; for the initialisation of what is a barrier already, a write.
        access: Access,
    },
    /// Too few arrivals or bytes come.
    Stuck {
        /// The number of arrivals that are missing.
        arrivals: u32,
        /// The bytes that are still to be copied; below zero, those that were copied but not expected.
        bytes: i64,
    },
}

/// Why the shared memory of another block of the cluster is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClusterProblem {
    /// The cluster has no such block.
    NoSuchBlock {
        /// The number of blocks that it has.
        blocks: u32,
    },
    /// The block may not have begun, because the cluster's barrier has not opened yet.
    NotBegun,
    /// The block has ended, or ends without waiting at the cluster's barrier after the access.
    Ended,
}

/// Why an operation of a warp cannot happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WarpProblem {
    /// The lane that calls is not in its own mask.
    CallerNotInMask,
    /// The mask has lanes that the warp does not have, because the block ends before.
    NoSuchLanes {
        /// Those lanes.
        lanes: u32,
    },
    /// Lanes of the mask do not come.
    MissingLanes {
        /// Those lanes.
        lanes: u32,
        /// What the first of them does.
        instead: Instead,
    },
    /// The lane that is read does not take part.
    SourceNotInMask {
        /// That lane.
        lane: u32,
    },
}

impl core::error::Error for Fault {}

impl fmt::Display for Fault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "kernel `{}`", self.kernel)?;
        if let Some(Thread { block, thread }) = self.thread {
            write!(formatter, ", block {block}, thread {thread}")?;
        }
        if let Some(location) = self.location {
            write!(formatter, ", at {location}")?;
        }
        write!(formatter, ":\n  {}", self.kind)
    }
}

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OutOfBounds { access, bytes, address, near } => {
                write!(f, "out of bounds: {access} of {bytes} bytes ")?;
                match near {
                    Some((place, extent)) => write!(f, "at {place}, which has {extent} bytes"),
                    None => write!(f, "at address {address:#x}, near no buffer"),
                }
            }
            Self::ReadOnly { access, place } => write!(f, "{access} at {place}, which is read-only"),
            Self::Misaligned { access, bytes, place } => {
                write!(f, "misaligned: {access} of {bytes} bytes at {place}, whose address is no multiple of {bytes}")
            }
            Self::Uninitialised { access, place } => write!(f, "{access} at {place}, which nothing has written"),
            Self::Race { access, earlier, other_thread, other_block, place } => {
                write!(f, "race: {access} at {place}, and {earlier} by ")?;
                match other_thread {
                    Some(thread) => write!(f, "thread {thread} of the same block, which nothing orders"),
                    None => write!(f, "block {other_block}, which nothing orders"),
                }
            }
            Self::NotConstant { access, place } => {
                write!(f, "{access} at {place}: the launch both writes this and loads it as read-only")
            }
            Self::CopyPending { access, copying_thread, place } => {
                write!(
                    f,
                    "{access} at {place}, which thread {copying_thread} is copying to: the copy was not waited for"
                )
            }
            Self::Barrier { other, instead } => write!(f, "waits at a barrier, but thread {other} {instead}"),
            Self::NamedBarrier { barrier, problem } => write!(f, "named barrier {barrier}: {problem}"),
            Self::Mbarrier { place, problem } => write!(f, "memory barrier at {place}: {problem}"),
            Self::Cluster { rank, problem } => write!(f, "shared memory of block {rank} of the cluster: {problem}"),
            Self::BulkSize { bytes } => write!(f, "a bulk copy of {bytes} bytes, which is no multiple of 16"),
            Self::Warp { mask, problem } => write!(f, "warp operation with mask {mask:#010x}: {problem}"),
            Self::StepLimit { steps } => write!(f, "still running after {steps} steps"),
            Self::Panic { message } => write!(f, "panicked: {message}"),
            Self::Trap => write!(f, "trap"),
            Self::SharedMemory { array, bytes } => {
                write!(f, "static shared memory is full: with `{array}` the kernel needs {bytes} bytes")
            }
            Self::Refused { reason } => write!(f, "launch refused: {reason}"),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let memory = if self.shared { "shared memory" } else { "buffer" };
        write!(formatter, "offset {} of {memory} `{}`", self.offset, self.buffer)
    }
}

impl fmt::Display for Access {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Read => "read",
            Self::ReadOnlyLoad => "read-only load",
            Self::Write => "write",
            Self::Atomic => "atomic access",
        })
    }
}

impl fmt::Display for Instead {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Returned => write!(formatter, "has returned"),
            Self::Waits(location) => write!(formatter, "waits at {location}"),
        }
    }
}

impl fmt::Display for NamedBarrierProblem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSuchBarrier => write!(formatter, "the numbers are 1 to 15"),
            Self::NotWholeWarps { threads } => write!(formatter, "{threads} threads are not a number of whole warps"),
            Self::OtherCount { threads, others } => {
                write!(formatter, "comes as one of {threads} threads, but others came as some of {others}")
            }
            Self::CameTwice => write!(formatter, "the warp comes again before it has opened"),
            Self::Stuck { came, threads } => write!(formatter, "waits for ever: {came} threads of {threads} have come"),
        }
    }
}

impl fmt::Display for MbarrierProblem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotInitialised => write!(formatter, "it was not initialised"),
            Self::Arrivals { arrivals } => write!(formatter, "no barrier can expect {arrivals} arrivals"),
            Self::TooManyArrivals { expected } => {
                write!(formatter, "one arrival more than the {expected} that the phase expects")
            }
            Self::Bytes { bytes } => write!(formatter, "no phase can expect {bytes} bytes"),
            Self::NoSuchParity { parity } => write!(formatter, "no phase has parity {parity}"),
            Self::Accessed { access } => write!(formatter, "{access} by something else than its own operations"),
            Self::Stuck { arrivals, bytes } => {
                write!(formatter, "waits for ever: {arrivals} arrivals and {bytes} bytes have not come")
            }
        }
    }
}

impl fmt::Display for ClusterProblem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSuchBlock { blocks } => write!(formatter, "the cluster has {blocks} blocks"),
            Self::NotBegun => {
                write!(formatter, "the block may not have begun: the cluster's barrier has not opened yet")
            }
            Self::Ended => {
                write!(formatter, "the block does not wait for this at the cluster's barrier before it ends")
            }
        }
    }
}

impl fmt::Display for WarpProblem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CallerNotInMask => write!(formatter, "the calling lane is not in it"),
            Self::NoSuchLanes { lanes } => write!(formatter, "the block has no lanes {lanes:#010x} in this warp"),
            Self::MissingLanes { lanes, instead } => {
                write!(formatter, "lanes {lanes:#010x} do not come: lane {} {instead}", lanes.trailing_zeros())
            }
            Self::SourceNotInMask { lane } => write!(formatter, "reads lane {lane}, which does not take part"),
        }
    }
}
