//! Products by `wgmma`, on compute capability 9.0 only: four warps together, asynchronously, weights straight from
//! shared memory.
//!
//! The accumulators are registers of fixed names, declared once per kernel: passed as operands in and out of each
//! product, the compiler would copy them, and a copy has to wait for the product. The matrix that comes from registers
//! is passed as operands; it must stay as it is until the products are waited for.

use core::arch::asm;

use cuda_std::{async_copy, hint, mbarrier::Mbarrier, shared::SharedPtr, tensor_core, warp};

use super::Product;
use crate::unrolled::unrolled;

/// Arrivals that make staged weights complete: that of the thread that starts the copy.
pub(crate) const WEIGHT_ARRIVALS: u32 = 1;

/// Starts to copy weights to shared memory, by one thread at once, and arrives at the barrier when they are there.
///
/// # Safety
/// As [`async_copy::copy_bulk`]; all lanes of a warp come here together.
#[cfg_attr(gpu, inline(always))]
pub(crate) unsafe fn stage_weights(target: SharedPtr<u8>, source: *const f32, bytes: u32, full: Mbarrier) {
    if warp::lane_id() == 0 {
        // SAFETY: the caller's promise.
        unsafe {
            full.arrive_expect(bytes);
            async_copy::copy_bulk(target, source.cast(), bytes, full);
        }
    }
}

/// The descriptor's upper half: eight columns further on are 256 bytes, in units of 16.
const COLUMN_STRIDE: u32 = 256 / 16;

/// In the descriptor's lower half, above the address: four channels further on are 128 bytes.
const CHANNEL_STRIDE: u32 = (128 / 16) << 16;

/// The part of an address in shared memory that says where it lies there: in a cluster, the upper part says which
/// block's it is.
const WITHIN_BLOCK: u32 = 0x3_ffff;

/// The product so far, in registers: number `part` of eight columns, `block`, of a slot is `sum{slot}_{block}_{part}`.
///
/// Setting the registers to zero between products would make the compiler wait for each of them. So the first product
/// of a slot that was emptied overwrites its registers instead of adding to them.
pub(crate) struct Accumulators<const BLOCKS: usize, const SLOTS: usize> {
    /// Whether all slots have a product.
    filled: bool,
}

/// A slab in shared memory: the lower half of its descriptor, which is the address in units of 16 bytes and more.
#[derive(Clone, Copy)]
pub(crate) struct Weights(u32);

impl Weights {
    /// The slab that begins at an address.
    #[cfg_attr(gpu, inline(always))]
    pub(crate) fn at(address: SharedPtr<u8>) -> Self {
        Self((address.address() & WITHIN_BLOCK) / 16 + CHANNEL_STRIDE)
    }

    /// The slab that many times 16 bytes further on, found once for all lanes: the compiler then keeps it in a register
    /// for the warp, which is where the tensor cores want it, and the slabs that follow as well.
    ///
    /// # Safety
    /// All lanes of the warp come here together, with the same slab.
    #[cfg_attr(gpu, inline(always))]
    pub(crate) unsafe fn slab(self, units: u32) -> Self {
        // SAFETY: the caller's promise.
        Self(unsafe { warp::warp_shuffle_idx(u32::MAX, self.0 + units, 0) })
    }

    /// The slab that many times 16 bytes further on.
    #[cfg_attr(gpu, inline(always))]
    pub(crate) fn add(self, units: u32) -> Self {
        Self(self.0 + units)
    }
}

/// Positions in shared memory, 16 channels of each as `f16`, of which eight take so many bytes: the lower half of the
/// descriptor, as of [`Weights`].
#[derive(Clone, Copy)]
pub(crate) struct Positions<const EIGHT_BYTES: u32>(u32);

impl<const EIGHT_BYTES: u32> Positions<EIGHT_BYTES> {
    /// The positions that begin at an address: eight channels of one are 16 bytes, the next one follows, unless there is
    /// something between each eight, and the other eight channels are so many bytes further on.
    #[cfg_attr(gpu, inline(always))]
    pub(crate) fn at(address: SharedPtr<u8>, half_bytes: u32) -> Self {
        Self((address.address() & WITHIN_BLOCK) / 16 + (half_bytes / 16 << 16))
    }

    /// Those that many times 16 bytes further on, which are as many positions if there is nothing between them; found
    /// once for all lanes: see [`Weights::slab`].
    ///
    /// # Safety
    /// All lanes of the warp come here together, with the same number.
    #[cfg_attr(gpu, inline(always))]
    pub(crate) unsafe fn from(self, units: u32) -> Self {
        // SAFETY: the caller's promise.
        Self(unsafe { warp::warp_shuffle_idx(u32::MAX, self.0 + units, 0) })
    }

    /// Those that many times 16 bytes further on.
    #[cfg_attr(gpu, inline(always))]
    pub(crate) fn add(self, units: u32) -> Self {
        Self(self.0 + units)
    }
}

/// The names of the registers of some blocks of eight columns.
macro_rules! registers {
    ($first:literal $($block:literal)*) => {
        concat!(registers!(@ $first), $(", ", registers!(@ $block)),*)
    };
    (@ $block:literal) => {
        concat!(
            "sum{slot}_", $block, "_0, sum{slot}_", $block, "_1, sum{slot}_", $block, "_2, sum{slot}_", $block, "_3"
        )
    };
}

/// The instruction for `$shape` and the type of the factors, on some blocks of eight columns.
macro_rules! product {
    ($slot:expr, true, $add:ident, $rows:ident, $slab:ident, $shape:literal, $($block:literal)+) => {
        product!(@ $slot, $add, $rows, $slab, concat!($shape, "k16.f32.f16.f16"), ", 0", $($block)+)
    };
    ($slot:expr, false, $add:ident, $rows:ident, $slab:ident, $shape:literal, $($block:literal)+) => {
        product!(@ $slot, $add, $rows, $slab, concat!($shape, "k8.f32.tf32.tf32"), "", $($block)+)
    };
    (@ $slot:expr, $add:ident, $rows:ident, $slab:ident, $instruction:expr, $not_transposed:literal, $($block:literal)+) => {
        asm!(
            "{{",
            ".reg .b64 weights;",
            ".reg .pred add;",
            "mov.b64 weights, {{{low}, {high}}};",
            "setp.ne.b32 add, {add}, 0;",
            concat!(
                "wgmma.mma_async.sync.aligned.", $instruction, " {{", registers!($($block)+),
                "}}, {{{a}, {b}, {c}, {d}}}, weights, add, 1, 1", $not_transposed, ";"
            ),
            "}}",
            slot = const $slot,
            add = in(reg32) $add,
            low = in(reg32) $slab.0,
            high = const COLUMN_STRIDE,
            a = in(reg32) $rows[0].to_bits(),
            b = in(reg32) $rows[1].to_bits(),
            c = in(reg32) $rows[2].to_bits(),
            d = in(reg32) $rows[3].to_bits(),
            options(nostack, preserves_flags)
        )
    };
}

/// The instruction for `$shape`, of weights and positions in shared memory, on some blocks of eight positions.
macro_rules! product_of_weights {
    ($slot:expr, $add:ident, $slab:ident, $positions:ident, $shape:literal, $($block:literal)+) => {
        asm!(
            "{{",
            ".reg .b64 weights, positions;",
            ".reg .pred add;",
            "mov.b64 weights, {{{weights}, {column_stride}}};",
            "mov.b64 positions, {{{positions}, {position_stride}}};",
            "setp.ne.b32 add, {add}, 0;",
            concat!(
                "wgmma.mma_async.sync.aligned.", $shape, "k16.f32.f16.f16 {{", registers!($($block)+),
                "}}, weights, positions, add, 1, 1, 0, 0;"
            ),
            "}}",
            slot = const $slot,
            add = in(reg32) $add,
            weights = in(reg32) $slab.0,
            column_stride = const COLUMN_STRIDE * SLOTS as u32,
            positions = in(reg32) $positions.0,
            // The upper half of the descriptor: how far eight positions further on are, in units of 16 bytes.
            position_stride = const EIGHT_BYTES / 16,
            options(nostack, preserves_flags)
        )
    };
}

impl<const BLOCKS: usize, const SLOTS: usize> Accumulators<BLOCKS, SLOTS> {
    /// Declares the registers. Once per kernel.
    ///
    /// # Safety
    /// Not in a loop, and not twice in a kernel: the declaration must not be copied.
    #[cfg_attr(gpu, inline(always))]
    pub(crate) unsafe fn new() -> Self {
        unrolled!(SLOT in 0..SLOTS, at most 8 => {
            unrolled!(BLOCK in 0..BLOCKS, at most 32 => {
                // SAFETY: declares registers that have no other name.
                unsafe {
                    asm!(
                        ".reg .f32 sum{slot}_{block}_<4>;",
                        slot = const SLOT,
                        block = const BLOCK,
                        options(nostack, preserves_flags)
                    );
                }
            });
        });
        Self { filled: false }
    }

    /// Makes the tensor cores wait for the registers that were written since the last product.
    ///
    /// # Safety
    /// All threads of the warp group come here together.
    #[cfg_attr(gpu, inline(always))]
    pub(crate) unsafe fn begin_batch(&mut self) {
        // SAFETY: the caller's promise.
        unsafe { tensor_core::warpgroup_arrive() };
    }

    /// Adds the product of 16 rows of each warp by the channels of a slab, `F16` or TF32; a slot that is not `filled`
    /// is overwritten.
    ///
    /// # Safety
    /// Between `begin_batch` and `end_batch`; all threads of the warp group come here together. Nobody is writing to
    /// the slab, and what was written is visible to the asynchronous proxy.
    #[cfg_attr(gpu, inline(always))]
    pub(crate) unsafe fn add_product<const SLOT: usize, const F16: bool>(
        &mut self,
        rows: [f32; 4],
        slab: Weights,
        filled: bool,
    ) {
        let add = u32::from(filled);
        macro_rules! products {
            ($f16:tt) => {
                match BLOCKS {
                    1 => product!(SLOT, $f16, add, rows, slab, "m64n8", 0),
                    2 => product!(SLOT, $f16, add, rows, slab, "m64n16", 0 1),
                    3 => product!(SLOT, $f16, add, rows, slab, "m64n24", 0 1 2),
                    4 => product!(SLOT, $f16, add, rows, slab, "m64n32", 0 1 2 3),
                    6 => product!(SLOT, $f16, add, rows, slab, "m64n48", 0 1 2 3 4 5),
                    8 => product!(SLOT, $f16, add, rows, slab, "m64n64", 0 1 2 3 4 5 6 7),
                    12 => product!(SLOT, $f16, add, rows, slab, "m64n96", 0 1 2 3 4 5 6 7 8 9 10 11),
                    16 => product!(SLOT, $f16, add, rows, slab, "m64n128", 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15),
                    _ => cuda_std::trap(),
                }
            };
        }
        // SAFETY: the caller's promise.
        unsafe { if F16 { products!(true) } else { products!(false) } }
    }

    /// Adds the product of 64 columns of a slab of 16 channels as `f16`, which are the rows here, by positions, which
    /// are the columns; a slot that is not `filled` is overwritten. The slots take turns: each has eight rows, then the
    /// next one has.
    ///
    /// # Safety
    /// As [`add_product`](Self::add_product), for the positions as well.
    #[cfg_attr(gpu, inline(always))]
    pub(crate) unsafe fn add_product_of_weights<const SLOT: usize, const EIGHT_BYTES: u32>(
        &mut self,
        slab: Weights,
        positions: Positions<EIGHT_BYTES>,
        filled: bool,
    ) {
        let add = u32::from(filled);
        // SAFETY: the caller's promise.
        unsafe {
            match BLOCKS {
                8 => product_of_weights!(SLOT, add, slab, positions, "m64n64", 0 1 2 3 4 5 6 7),
                16 => product_of_weights!(SLOT, add, slab, positions, "m64n128", 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15),
                18 => product_of_weights!(
                    SLOT, add, slab, positions, "m64n144",
                    0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17
                ),
                20 => product_of_weights!(
                    SLOT, add, slab, positions, "m64n160",
                    0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19
                ),
                24 => product_of_weights!(
                    SLOT, add, slab, positions, "m64n192",
                    0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23
                ),
                28 => product_of_weights!(
                    SLOT, add, slab, positions, "m64n224",
                    0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27
                ),
                30 => product_of_weights!(
                    SLOT, add, slab, positions, "m64n240",
                    0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29
                ),
                32 => product_of_weights!(
                    SLOT, add, slab, positions, "m64n256",
                    0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31
                ),
                _ => cuda_std::trap(),
            }
        }
    }

    /// Multiplies all sums, which are complete, by a factor.
    ///
    /// # Safety
    /// All products have been waited for.
    #[cfg_attr(gpu, inline(always))]
    pub(crate) unsafe fn scale(&mut self, [first, second]: [f32; 2]) {
        unrolled!(SLOT in 0..SLOTS, at most 8 => {
            unrolled!(BLOCK in 0..BLOCKS, at most 16 => {
                // SAFETY: the registers were declared by `new`, and no product is under way.
                unsafe {
                    asm!(
                        "mul.f32 sum{slot}_{block}_0, sum{slot}_{block}_0, {first};",
                        "mul.f32 sum{slot}_{block}_1, sum{slot}_{block}_1, {first};",
                        "mul.f32 sum{slot}_{block}_2, sum{slot}_{block}_2, {second};",
                        "mul.f32 sum{slot}_{block}_3, sum{slot}_{block}_3, {second};",
                        slot = const SLOT,
                        block = const BLOCK,
                        first = in(reg32) first,
                        second = in(reg32) second,
                        options(nostack, preserves_flags)
                    );
                }
            });
        });
    }

    /// Ends the batch of products since `begin_batch`.
    ///
    /// # Safety
    /// All threads of the warp group come here together.
    #[cfg_attr(gpu, inline(always))]
    pub(crate) unsafe fn end_batch(&mut self) {
        // SAFETY: the caller's promise.
        unsafe { tensor_core::warpgroup_commit() };
    }

    /// Waits until at most `PENDING` batches are not complete.
    ///
    /// # Safety
    /// All threads of the warp group come here together.
    #[cfg_attr(gpu, inline(always))]
    pub(crate) unsafe fn wait<const PENDING: u32>(&mut self) {
        // SAFETY: the caller's promise.
        unsafe { tensor_core::warpgroup_wait::<PENDING>() };
    }

    /// Waits for all products, in a kernel for any layer: whatever kind of run may follow has registers of its own, and
    /// there are not enough to go on meanwhile. In a kernel that is compiled for its layer this goes; who compiles it
    /// knows the line by its comment.
    ///
    /// # Safety
    /// All threads of the warp group come here together.
    #[cfg_attr(gpu, inline(always))]
    pub(crate) unsafe fn wait_unless_specialised(&mut self) {
        // SAFETY: the caller's promise.
        unsafe { asm!("wgmma.wait_group.sync.aligned 0; //! unless specialised", options(nostack, preserves_flags)) };
    }

    /// As [`wait`](Self::wait), in a kernel that is compiled for its layer. In others it is a comment.
    ///
    /// # Safety
    /// All threads of the warp group come here together.
    #[cfg_attr(gpu, inline(always))]
    pub(crate) unsafe fn wait_if_specialised<const PENDING: u32>(&mut self) {
        // SAFETY: the caller's promise.
        unsafe {
            asm!(
                "//! if specialised: wgmma.wait_group.sync.aligned {pending};",
                pending = const PENDING,
                options(nostack, preserves_flags)
            );
        }
    }

    /// Begins anew.
    #[cfg_attr(gpu, inline(always))]
    pub(crate) fn empty(&mut self) {
        self.filled = false;
    }

    /// Whether no slot has a product.
    #[cfg_attr(gpu, inline(always))]
    pub(crate) fn are_empty(&self) -> bool {
        !self.filled
    }

    /// Notes that all slots have a product. The compiler need not know: it would make a copy of the loop for the time
    /// after the first product.
    #[cfg_attr(gpu, inline(always))]
    pub(crate) fn fill(&mut self) {
        self.filled = hint::opaque(1) != 0;
    }
}

impl<const BLOCKS: usize, const SLOTS: usize> Product<BLOCKS, SLOTS> for Accumulators<BLOCKS, SLOTS> {
    #[cfg_attr(gpu, inline(always))]
    unsafe fn values<const SLOT: usize, const BLOCK: usize>(&self) -> [f32; 4] {
        let (a, b, c, d);
        // SAFETY: the registers were declared by `new`.
        unsafe {
            asm!(
                "mov.f32 {a}, sum{slot}_{block}_0;",
                "mov.f32 {b}, sum{slot}_{block}_1;",
                "mov.f32 {c}, sum{slot}_{block}_2;",
                "mov.f32 {d}, sum{slot}_{block}_3;",
                slot = const SLOT,
                block = const BLOCK,
                a = out(reg32) a,
                b = out(reg32) b,
                c = out(reg32) c,
                d = out(reg32) d,
                options(nostack, preserves_flags)
            );
        }
        [a, b, c, d]
    }
}
