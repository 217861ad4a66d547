//! The shared memory of a block: the static arrays, as the kernel comes upon them, and the dynamic part.

use std::borrow::ToOwned;
use std::vec;
use std::vec::Vec;

use super::fault::{FaultKind, Place};
use super::memory::Violation;
use super::order::Actor;
use super::shadow::{Access, Objection, Shadow};
use crate::shared::DYNAMIC_ALIGN;

/// The most static shared memory of a kernel; more has to be dynamic.
const STATIC_LIMIT: usize = 48 * 1024;

/// Where the dynamic part lies: beyond all arrays.
const DYNAMIC_START: u32 = 1 << 24;
const _: () = assert!(DYNAMIC_START.is_multiple_of(DYNAMIC_ALIGN));

/// The distance between arrays, so that an access just out of bounds does not hit the next one.
const MARGIN: usize = 1024;

/// The size of a memory barrier.
const BARRIER_BYTES: usize = 8;

struct Region {
    name: &'static str,
    start: u32,
    content: Vec<u8>,
    shadow: Shadow,
}

impl Region {
    fn new(name: &'static str, start: u32, bytes: usize) -> Self {
        Self { name, start, content: vec![0; bytes], shadow: Shadow::new(bytes, false) }
    }

    fn place(&self, offset: i64) -> Place {
        Place { buffer: self.name.to_owned(), offset, shared: true }
    }

    fn objection(&self, access: Access, objection: Objection) -> Violation {
        Violation::Objection { access, place: self.place(objection.offset as i64), objection }
    }

    fn contains(&self, address: u32, bytes: usize) -> bool {
        address.checked_sub(self.start).is_some_and(|offset| offset as usize + bytes <= self.content.len())
    }

    fn distance(&self, address: u32) -> u32 {
        let end = self.start + self.content.len() as u32;
        self.start.saturating_sub(address).max(address.saturating_sub(end))
    }
}

/// Where in shared memory a copy goes: the number of the region, and the offset in it.
#[derive(Clone, Copy)]
pub(super) struct Target {
    region: usize,
    offset: usize,
}

/// All shared memory of a block. Blocks run one after another, and use the same, but for those of a cluster.
pub(super) struct Shared {
    regions: Vec<Region>,
    static_bytes: usize,
    next_start: usize,
}

impl Shared {
    pub(super) fn new(dynamic_bytes: usize) -> Self {
        let dynamic = Region::new("dynamic", DYNAMIC_START, dynamic_bytes);
        Self { regions: vec![dynamic], static_bytes: 0, next_start: MARGIN }
    }

    pub(super) const fn dynamic_start() -> u32 {
        DYNAMIC_START
    }

    pub(super) fn begin_block(&mut self) {
        self.regions.iter_mut().for_each(|region| region.shadow.forget());
    }

    /// The dynamic part comes first, the arrays follow.
    fn arrays(&self) -> impl Iterator<Item = &Region> {
        self.regions.iter().skip(1)
    }

    /// The address of a static array, if it exists.
    pub(super) fn known_array(&self, name: &'static str) -> Option<u32> {
        self.arrays().find(|region| region.name == name).map(|region| region.start)
    }

    /// The address of a static array, which exists from now on.
    pub(super) fn place_array(&mut self, name: &'static str, bytes: usize, align: usize) -> Result<u32, FaultKind> {
        let start = self.next_start.next_multiple_of(align);
        self.static_bytes = self.static_bytes.next_multiple_of(align) + bytes;
        if self.static_bytes > STATIC_LIMIT {
            return Err(FaultKind::SharedMemory { array: name, bytes: self.static_bytes });
        }
        self.next_start = start + bytes + MARGIN;
        self.regions.push(Region::new(name, start as u32, bytes));
        Ok(start as u32)
    }

    /// Checks an access, and yields the bytes to make it with.
    pub(super) fn access(
        &mut self,
        access: Access,
        actor: &Actor<'_>,
        address: u32,
        bytes: usize,
    ) -> Result<&mut [u8], Violation> {
        let Target { region, offset } = self.locate(access, address, bytes)?;
        let region = &mut self.regions[region];
        region.shadow.access(access, actor, offset, bytes).map_err(|objection| region.objection(access, objection))?;
        Ok(&mut region.content[offset..offset + bytes])
    }

    /// Checks the target of a copy, and keeps everybody from it until the copy fills it.
    pub(super) fn reserve(&mut self, actor: &Actor<'_>, address: u32, bytes: usize) -> Result<Target, Violation> {
        let target = self.locate(Access::Write, address, bytes)?;
        let region = &mut self.regions[target.region];
        let reserved = region.shadow.reserve(actor, target.offset, bytes);
        reserved.map_err(|objection| region.objection(Access::Write, objection))?;
        Ok(target)
    }

    /// Makes a memory barrier, which nothing else may access from now on.
    pub(super) fn make_barrier(&mut self, actor: &Actor<'_>, address: u32) -> Result<(), Violation> {
        let Target { region, offset } = self.locate(Access::Write, address, BARRIER_BYTES)?;
        let region = &mut self.regions[region];
        let made = region.shadow.make_barrier(actor, offset, BARRIER_BYTES);
        made.map_err(|objection| region.objection(Access::Write, objection))
    }

    /// Checks that the memory barrier, which there is, was made before the actor uses it.
    pub(super) fn use_barrier(&mut self, actor: &Actor<'_>, address: u32) -> Result<(), Violation> {
        let Target { region, offset } = self.locate(Access::Atomic, address, BARRIER_BYTES)?;
        let region = &mut self.regions[region];
        let used = region.shadow.use_barrier(actor, offset, BARRIER_BYTES);
        used.map_err(|objection| region.objection(Access::Atomic, objection))
    }

    /// The place of a memory barrier, if there can be one.
    pub(super) fn barrier_place(&self, address: u32) -> Result<Place, Violation> {
        let Target { region, offset } = self.locate(Access::Atomic, address, BARRIER_BYTES)?;
        Ok(self.regions[region].place(offset as i64))
    }

    /// Writes the data of a copy to the target that was reserved for it.
    pub(super) fn fill(&mut self, actor: &Actor<'_>, Target { region, offset }: Target, data: &[u8]) {
        let region = &mut self.regions[region];
        region.shadow.fill(actor, offset, data.len());
        region.content[offset..offset + data.len()].copy_from_slice(data);
    }

    /// The place of an access, which is in bounds and aligned.
    #[inline]
    fn locate(&self, access: Access, address: u32, bytes: usize) -> Result<Target, Violation> {
        let Some(index) = self.regions.iter().position(|region| region.contains(address, bytes)) else {
            let near = self.near(address);
            return Err(FaultKind::OutOfBounds { access, bytes, address: address.into(), near }.into());
        };
        let region = &self.regions[index];
        let offset = (address - region.start) as usize;
        if !(address as usize).is_multiple_of(bytes.next_power_of_two()) {
            return Err(FaultKind::Misaligned { access, bytes, place: region.place(offset as i64) }.into());
        }
        Ok(Target { region: index, offset })
    }

    fn near(&self, address: u32) -> Option<(Place, usize)> {
        let nearest = self.regions.iter().min_by_key(|region| region.distance(address))?;
        let offset = i64::from(address) - i64::from(nearest.start);
        (nearest.distance(address) < MARGIN as u32).then(|| (nearest.place(offset), nearest.content.len()))
    }
}
