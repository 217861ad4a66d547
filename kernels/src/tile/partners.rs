//! Partners: neighbouring blocks that compute the same tile, each over a share of a group's input channels, where tiles
//! are too few for all multiprocessors.
//!
//! They are a cluster. When all have their product, each leaves it in its shared memory, adds up a part of everybody's,
//! in the order of the shares, and brings that to the one that stores it: the first partner stores what is the first
//! team's, the second one what is the second team's. Limits: on compute capability 9.0 only; a block has one job then,
//! with a product.

use cuda_std::{
    cluster, hint,
    shared::{SharedPtr, dynamic_shared_mem},
    thread,
};

use super::{
    TEAM_THREADS, TEAMS,
    multiply::{Accumulators, Product, Sums},
    parameters::Tiling,
    store::Target,
};
use crate::unrolled::unrolled;

/// The most partners: as many blocks as every device has room for in a cluster.
pub const MOST_PARTNERS: u32 = 8;

/// Whether the device has clusters, which the emulator does.
const EXIST: bool = cfg!(any(cuda_arch = "sm_90a", not(gpu)));

/// The named barrier of both teams.
const TEAMS_END: u32 = 3;

/// Bytes that a product takes in shared memory, if threads have so many blocks of eight columns of all slots together.
pub const fn product_bytes(blocks: u32) -> u32 {
    blocks * TEAMS * TEAM_THREADS * size_of::<[f32; 4]>() as u32
}

/// The number of this block among its partners, which is known beforehand if there are no others.
#[cfg_attr(gpu, inline(always))]
pub(super) fn partner(t: &Tiling) -> u32 {
    thread::block_idx_x() & (t.partners - 1)
}

/// Whether a kernel may have partners: not the one with so many blocks of eight columns whose sums are ordinary
/// registers already, for want of predicates.
pub(super) const fn may_have_partners(blocks: usize, split: bool) -> bool {
    EXIST && !(split && blocks == 3)
}

/// Stores the product of the team, if there is one, or the sum of the partners' products. There is one if there are
/// partners.
///
/// # Safety
/// As [`Target::store`]; all partners come here together, and their rings are not needed any more.
#[cfg_attr(gpu, inline(always))]
pub(super) unsafe fn store<const BLOCKS: usize, const SLOTS: usize>(
    target: &Target,
    product: &Accumulators<BLOCKS, SLOTS>,
    has_product: bool,
) {
    let t = target.t;
    // SAFETY: the caller's promise.
    unsafe {
        if const { may_have_partners(BLOCKS, false) } && t.partners > 1 {
            add_up(t, product);
            if partner(t) != team() {
                return;
            }
        }
        target.store(&Sum { product, t }, has_product);
    }
}

/// The same for sums, which are overwritten by those of all partners.
///
/// # Safety
/// As [`store`].
#[cfg_attr(gpu, inline(always))]
pub(super) unsafe fn store_sums<const BLOCKS: usize, const SLOTS: usize>(
    target: &Target,
    sums: &mut Sums<BLOCKS, SLOTS>,
    has_product: bool,
) {
    let t = target.t;
    // SAFETY: the caller's promise; each thread reads what is its own, which is complete.
    unsafe {
        if const { may_have_partners(BLOCKS, true) } && t.partners > 1 {
            add_up(t, sums);
            if partner(t) != team() {
                return;
            }
            sums.set(|slot, block| of_thread(t).add(distance::<BLOCKS>(slot, block)).load());
        }
        target.store(sums, has_product);
    }
}

/// A product, or, if there are partners, the sum of theirs in the shared memory of the one that stores it.
struct Sum<'a, const BLOCKS: usize, const SLOTS: usize> {
    product: &'a Accumulators<BLOCKS, SLOTS>,
    t: &'a Tiling,
}

impl<const BLOCKS: usize, const SLOTS: usize> Product<BLOCKS, SLOTS> for Sum<'_, BLOCKS, SLOTS> {
    #[cfg_attr(gpu, inline(always))]
    unsafe fn values<const SLOT: usize, const BLOCK: usize>(&self) -> [f32; 4] {
        // SAFETY: the caller's promise; each thread reads what is its own, which is complete.
        unsafe {
            let own = self.product.values::<SLOT, BLOCK>();
            if !EXIST {
                return own;
            }
            of_thread(self.t).add(distance::<BLOCKS>(SLOT, BLOCK)).load_if(self.t.partners > 1, own)
        }
    }
}

/// Adds up the products of the partners: what a team has, in the shared memory of the partner of its number.
///
/// # Safety
/// As [`store`].
#[cfg_attr(gpu, inline(always))]
unsafe fn add_up<const BLOCKS: usize, const SLOTS: usize>(t: &Tiling, product: &impl Product<BLOCKS, SLOTS>) {
    let own = of_thread(t);
    // Every other partner works for the same team, with both of its own.
    let (owner, worker) = (partner(t) % TEAMS, partner(t) / TEAMS * TEAMS + team());
    // The place of the thread of the same number in that team.
    let owned = own.add(owner.wrapping_sub(team()).wrapping_mul(TEAM_THREADS));
    // SAFETY: the caller's promise: both teams come here, so nobody needs the rings any more, nor this place. Each part
    // of it is added up, and overwritten, by one partner, when all have written theirs. A block does not end before all
    // have come to the second barrier.
    unsafe {
        thread::sync_named(TEAMS_END, TEAMS * TEAM_THREADS);
        unrolled!(SLOT in 0..SLOTS, at most 8 => {
            unrolled!(BLOCK in 0..BLOCKS, at most 16 => {
                own.add(distance::<BLOCKS>(SLOT, BLOCK)).store(product.values::<SLOT, BLOCK>());
            });
        });
        cluster::sync_cluster();
        let mut part = worker;
        while part < const { (BLOCKS * SLOTS) as u32 } {
            let place = owned.add(part * TEAMS * TEAM_THREADS);
            let mut sum = [0.0; 4];
            unrolled!(PARTNER in 0..{ MOST_PARTNERS as usize }, at most 8 => {
                if (PARTNER as u32) < t.partners {
                    let [a, b, c, d] = cluster::load(place, PARTNER as u32);
                    sum = [sum[0] + a, sum[1] + b, sum[2] + c, sum[3] + d];
                }
            });
            cluster::store(place, owner, sum);
            part += t.partners;
        }
        cluster::sync_cluster();
    }
}

/// The number of this thread's team.
#[cfg_attr(gpu, inline(always))]
fn team() -> u32 {
    hint::opaque(thread::thread_idx_x()) / TEAM_THREADS
}

/// Where the first values of this thread are: a slot's of a block of columns, which all threads have side by side.
#[cfg_attr(gpu, inline(always))]
fn of_thread(t: &Tiling) -> SharedPtr<[f32; 4]> {
    dynamic_shared_mem::<[f32; 4]>().add(t.products_start / 16 + hint::opaque(thread::thread_idx_x()))
}

/// How far from there those of a slot and a block of columns are.
#[cfg_attr(gpu, inline(always))]
fn distance<const BLOCKS: usize>(slot: usize, block: usize) -> u32 {
    (slot * BLOCKS + block) as u32 * TEAMS * TEAM_THREADS
}
