//! Positions and extents along three axes.

use core::fmt;

/// A position or an extent along the three axes of a grid or a block. Made from a number, a pair or a triple; axes that
/// are left out have extent 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Dim3 {
    /// Along the axis on which neighbouring threads share a warp.
    pub x: u32,
    /// Along the second axis.
    pub y: u32,
    /// Along the third axis.
    pub z: u32,
}

impl Dim3 {
    pub(super) const ORIGIN: Self = Self { x: 0, y: 0, z: 0 };

    /// The number of positions within this extent, where it fits in 32 bits.
    pub(super) fn count(self) -> Option<u32> {
        self.x.checked_mul(self.y)?.checked_mul(self.z)
    }

    /// Position number `index` within this extent, counting along x first, then y, then z.
    pub(super) fn position(self, index: u32) -> Self {
        let (row, x) = (index / self.x, index % self.x);
        Self { x, y: row % self.y, z: row / self.y }
    }
}

impl From<u32> for Dim3 {
    fn from(x: u32) -> Self {
        Self { x, y: 1, z: 1 }
    }
}

impl From<(u32, u32)> for Dim3 {
    fn from((x, y): (u32, u32)) -> Self {
        Self { x, y, z: 1 }
    }
}

impl From<(u32, u32, u32)> for Dim3 {
    fn from((x, y, z): (u32, u32, u32)) -> Self {
        Self { x, y, z }
    }
}

impl fmt::Display for Dim3 {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "({}, {}, {})", self.x, self.y, self.z)
    }
}
