//! The primitives' bodies on the host without the emulator: there is no launch, so each of them panics. The emulator's
//! bodies have the same names.

/// A position or an extent along the three axes of a grid or a block.
pub(crate) struct Axes {
    pub(crate) x: u32,
    pub(crate) y: u32,
    pub(crate) z: u32,
}

#[cold]
#[track_caller]
fn outside_a_launch() -> ! {
    panic!("device code called outside a kernel launch")
}

pub(crate) fn thread_idx() -> Axes {
    outside_a_launch()
}

pub(crate) fn block_idx() -> Axes {
    outside_a_launch()
}

pub(crate) fn block_dim() -> Axes {
    outside_a_launch()
}

pub(crate) fn grid_dim() -> Axes {
    outside_a_launch()
}

pub(crate) fn sync_threads() {
    outside_a_launch()
}

/// Waits at a barrier of the block until so many threads have come.
pub(crate) fn sync_named(_barrier: u32, _threads: u32) {
    outside_a_launch()
}

/// Comes to a barrier of the block without waiting.
pub(crate) fn arrive_named(_barrier: u32, _threads: u32) {
    outside_a_launch()
}

/// Waits for all threads of the cluster.
pub(crate) fn sync_cluster() {
    outside_a_launch()
}

pub(crate) fn trap() -> ! {
    outside_a_launch()
}

pub(crate) fn lane_id() -> u32 {
    outside_a_launch()
}

pub(crate) fn sync_warp(_mask: u32) {
    outside_a_launch()
}

/// The lanes of `mask` whose predicate holds, as a bit mask.
pub(crate) fn ballot(_mask: u32, _predicate: bool) -> u32 {
    outside_a_launch()
}

/// Passes `bits` in, and returns the bits that the lane `source` passed in.
pub(crate) fn read_lane(_mask: u32, _bits: u32, _source: u32) -> u32 {
    outside_a_launch()
}

/// Passes `value` in, and returns the largest one of the lanes of `mask`.
pub(crate) fn maximum(_mask: u32, _value: u32) -> u32 {
    outside_a_launch()
}

/// Adds the product of the matrices whose elements the lanes of the warp hold to the accumulators.
pub(crate) fn multiply_tf32(_accumulators: &mut [f32; 4], _a: [f32; 4], _b: [f32; 2]) {
    outside_a_launch()
}

/// [`multiply_tf32`] for operands in half precision, two elements in a word.
pub(crate) fn multiply_f16(_accumulators: &mut [f32; 4], _a: [u32; 4], _b: [u32; 2]) {
    outside_a_launch()
}

/// Starts a copy to shared memory; one that is not valid writes zeros.
pub(crate) fn start_copy<const WORDS: usize>(_target: u32, _source: *const [u32; WORDS], _valid: bool) {
    outside_a_launch()
}

pub(crate) fn commit_copies() {
    outside_a_launch()
}

/// Waits for the thread's groups of copies, all but the `pending` newest ones.
pub(crate) fn wait_for_copies(_pending: u32) {
    outside_a_launch()
}

/// Starts a bulk copy to shared memory, which is complete by the barrier at that address.
pub(crate) fn copy_bulk(_target: u32, _source: *const u8, _bytes: u32, _barrier: u32) {
    outside_a_launch()
}

/// Makes a memory barrier that expects so many arrivals in each phase.
pub(crate) fn init_mbarrier(_barrier: u32, _arrivals: u32) {
    outside_a_launch()
}

/// Comes to a memory barrier, whose phase is also to wait for so many bytes of bulk copies.
pub(crate) fn arrive_mbarrier(_barrier: u32, _bytes: u32) {
    outside_a_launch()
}

/// Comes to a memory barrier when the thread's copies are complete.
pub(crate) fn arrive_mbarrier_after_copies(_barrier: u32) {
    outside_a_launch()
}

/// Waits until the phase of that parity is complete.
pub(crate) fn wait_at_mbarrier(_barrier: u32, _parity: u32) {
    outside_a_launch()
}

/// The shared-memory address of a static array; `name` is the same for every thread, and unique.
pub fn shared_array(_name: &'static str, _bytes: usize, _align: usize) -> u32 {
    outside_a_launch()
}

/// The shared-memory address of the part whose size the launch gives.
pub(crate) fn dynamic_shared() -> u32 {
    outside_a_launch()
}

pub(crate) fn load_shared<T: Copy>(_address: u32) -> T {
    outside_a_launch()
}

pub(crate) fn store_shared<T: Copy>(_address: u32, _value: T) {
    outside_a_launch()
}

/// Reads from the shared memory of the cluster's block of that rank.
pub(crate) fn load_in_cluster(_address: u32, _rank: u32) -> [f32; 4] {
    outside_a_launch()
}

/// Writes to the shared memory of the cluster's block of that rank.
pub(crate) fn store_in_cluster(_address: u32, _rank: u32, _value: [f32; 4]) {
    outside_a_launch()
}

pub(crate) fn load<T: Copy>(_source: *const T) -> T {
    outside_a_launch()
}

pub(crate) fn load_readonly<T: Copy>(_source: *const T) -> T {
    outside_a_launch()
}

pub(crate) fn store<T: Copy>(_target: *mut T, _value: T) {
    outside_a_launch()
}

pub(crate) fn atomic_add_f32(_target: *mut f32, _value: f32) {
    outside_a_launch()
}

pub(crate) fn atomic_add_u32(_target: *mut u32, _value: u32) {
    outside_a_launch()
}
