//! The output as several threads write it: each its own elements, which do not lie in one piece.

use std::marker::PhantomData;

/// A slice that is handed out in pieces which the callers know to be disjoint.
pub(super) struct SharedOutput<'a> {
    first: *mut f32,
    len: usize,
    owner: PhantomData<&'a mut [f32]>,
}

// SAFETY: it only hands out pieces whose users promise that nobody else has them at the same time.
unsafe impl Sync for SharedOutput<'_> {}

impl<'a> SharedOutput<'a> {
    pub fn new(slice: &'a mut [f32]) -> Self {
        Self { first: slice.as_mut_ptr(), len: slice.len(), owner: PhantomData }
    }

    /// The `len` elements from `start` on.
    ///
    /// # Safety
    /// No other piece that overlaps this one may be in use at the same time.
    ///
    /// # Panics
    /// If the piece does not lie within the slice.
    #[expect(clippy::mut_from_ref, reason = "handing out disjoint parts is what this type is for")]
    pub unsafe fn piece(&self, start: usize, len: usize) -> &mut [f32] {
        assert!(start <= self.len && len <= self.len - start, "a piece lies within the output");
        // SAFETY: within the slice, as just checked; not aliased, as the caller promises.
        unsafe { std::slice::from_raw_parts_mut(self.first.add(start), len) }
    }
}
