//! Jobs: blocks that stay share the jobs of a layer out among them. Each takes every so many, as many as there are blocks.

use cuda_std::thread;

/// The jobs of this block, of which the next one has that number.
pub(crate) struct Jobs(u32);

impl Jobs {
    /// All of them.
    #[cfg_attr(gpu, inline(always))]
    pub(crate) fn all() -> Self {
        Self(thread::block_idx_x())
    }

    /// The number of the next one, of so many jobs, which so many blocks have.
    #[cfg_attr(gpu, inline(always))]
    pub(crate) fn next(&mut self, jobs: u32, blocks: u32) -> Option<u32> {
        let number = self.0;
        self.0 += blocks;
        if number < jobs { Some(number) } else { None }
    }
}
