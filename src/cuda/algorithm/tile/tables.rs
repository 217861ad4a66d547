//! From a layout to what the tile kernels are told: the tables of passes, chunks, runs and slabs, and the parameters.

use std::collections::BTreeMap;

use bytemuck::Zeroable;
use conv_transpose_kernels::{
    Divisor,
    tile::{Chunk, MOST_SLOTS, Packing, Pass, Run, Slab, Tiling},
};

use super::layout::{Layout, PassPhases, Shared, reads};
use crate::Problem;

/// Everything that a tile kernel and its packing take, besides the tensors.
pub(super) struct Tables {
    pub(super) passes: Vec<Pass>,
    pub(super) chunks: Vec<Chunk>,
    pub(super) runs: Vec<Run>,
    /// The slabs of a stage.
    pub(super) slabs: Vec<Slab>,
    pub(super) input_ring: u32,
    pub(super) shared: Shared,
    /// The most slabs of a chunk.
    chunk_slabs: u32,
}

/// A product: a fragment of the input, a slot, and a kernel element.
struct Product {
    /// Products whose slabs are used by each other's fragments only have the same one.
    cluster: [i64; 4],
    /// Where the fragment begins: channel block, then z, y, x from the origin of the pass.
    fragment: [i64; 4],
    slot: usize,
    /// Kernel element and channel.
    slab: (u32, u32),
}

impl Tables {
    pub(super) fn new(problem: &Problem<3>, layout: &Layout) -> Self {
        let mut tables = Self {
            passes: Vec::new(),
            chunks: Vec::new(),
            runs: Vec::new(),
            slabs: Vec::new(),
            input_ring: 2,
            shared: layout.shared(0, 0),
            chunk_slabs: 0,
        };
        for pass in 0..layout.passes() {
            tables.add_pass(problem, layout, &layout.pass(pass));
        }
        tables.shared = layout.shared(tables.input_ring, tables.chunk_slabs);
        tables
    }

    fn add_pass(&mut self, problem: &Problem<3>, layout: &Layout, phases: &PassPhases) {
        let origin = origin(problem, layout, phases);
        let mut pass = Pass {
            origin: origin.map(|origin| origin as i32),
            first_chunk: self.chunks.len() as u32,
            first_slab: self.slabs.len() as u32,
            ..Pass::zeroed()
        };
        let mut clusters: BTreeMap<[i64; 4], Vec<Product>> = BTreeMap::new();
        for slot in 0..layout.cut.variant.slots as usize {
            if let Some(place) = slot_place(problem, layout, phases, slot) {
                pass.slots[slot] = place;
                products(problem, layout, phases, origin, slot, &mut |product| {
                    clusters.entry(product.cluster).or_default().push(product);
                });
            }
        }
        self.add_chunks(layout, pass.first_slab, clusters.into_values());
        pass.chunks = self.chunks.len() as u32 - pass.first_chunk;
        if pass.chunks == 1 {
            self.input_ring = 3;
        }
        self.passes.push(pass);
    }

    /// Gathers clusters to chunks.
    fn add_chunks(&mut self, layout: &Layout, first_slab: u32, clusters: impl Iterator<Item = Vec<Product>>) {
        let mut since_promotion = 0;
        let mut open = OpenChunk::default();
        for cluster in clusters {
            let slabs = distinct_slabs(&cluster);
            if !open.slabs.is_empty() && open.slabs.len() + slabs.len() > layout.chunk_slabs() as usize {
                self.close_chunk(layout, first_slab, std::mem::take(&mut open), &mut since_promotion);
            }
            open.products.extend(cluster);
            open.slabs.extend(slabs);
        }
        if !open.slabs.is_empty() {
            self.close_chunk(layout, first_slab, open, &mut since_promotion);
        }
    }

    fn close_chunk(&mut self, layout: &Layout, first_slab: u32, open: OpenChunk, since_promotion: &mut u32) {
        let count = open.slabs.len() as u32;
        self.chunk_slabs = self.chunk_slabs.max(count);
        *since_promotion += count;
        let promotes = layout.cut.variant.split && layout.promotes(*since_promotion);
        if promotes {
            *since_promotion = 0;
        }
        let runs = open.runs(layout);
        self.chunks.push(Chunk {
            first_run: self.runs.len() as u32,
            runs: runs.len() as u32,
            first_slab: self.slabs.len() as u32 - first_slab,
            slabs: count | if promotes { Chunk::PROMOTE } else { 0 },
        });
        self.runs.extend(runs);
        self.slabs.extend(open.slabs.iter().map(|&(tap, channel)| Slab { tap, channel, padding: [0; 2] }));
    }

    /// The parameters of the tile kernel for that many blocks.
    pub(super) fn tiling(&self, problem: &Problem<3>, layout: &Layout, workers: u32) -> Tiling {
        let axes = problem.axes();
        let divisor = |value: u32| Divisor::new(value.into());
        let [box_n, box_z, box_y, box_x] = layout.cut.extents;
        let [_, tiles_z, tiles_y, tiles_x] = layout.tiles;
        let input_plane: usize = axes.iter().map(|axis| axis.input).product();
        let output_plane: usize = axes.iter().map(|axis| axis.output).product();
        let pass_rows = size_of_val(&*self.passes) / 16;
        Tiling {
            channel_tiles: divisor(layout.channel_tiles),
            passes: Divisor::new(layout.passes() as u64),
            groups: Divisor::new(problem.groups() as u64),
            tiles_x: divisor(tiles_x),
            tiles_y: divisor(tiles_y),
            tiles_z: divisor(tiles_z),
            box_x: divisor(box_x),
            box_y: divisor(box_y),
            box_z: divisor(box_z),
            halo_x: divisor(layout.pitch / layout.copy_words),
            halo_y: divisor(layout.halo[1]),
            halo_z: divisor(layout.halo[0]),
            interleaved: divisor(layout.cut.phases[2]),
            workers,
            jobs: layout.jobs(problem.groups()) as u32,
            input_plane: input_plane as u64,
            output_plane: output_plane as u64,
            input_sample: (input_plane * problem.in_channels()) as u64,
            output_sample: (output_plane * problem.out_channels()) as u64,
            tile: layout.tile,
            positions: box_n * box_z * box_y * box_x,
            step_z: layout.cut.step(0),
            step_y: layout.cut.step(1),
            batch: problem.batch() as u32,
            input: axes.map(|axis| axis.input as u32),
            output: axes.map(|axis| axis.output as u32),
            stride: axes.map(|axis| axis.stride as u32),
            in_per_group: problem.in_channels_per_group() as u32,
            out_per_group: problem.out_channels_per_group() as u32,
            pitch: layout.pitch,
            channel_words: layout.channel_words,
            copy_words: layout.copy_words,
            copies: layout.copies(),
            tile_channels: layout.cut.variant.channels,
            stage_channels: 8 * layout.cut.stage_blocks,
            stages: layout.stages,
            stage_slabs: self.slabs.len() as u32,
            input_ring: self.input_ring,
            input_bytes: self.shared.input_bytes,
            weight_bytes: self.chunk_slabs * layout.slab_bytes(),
            input_start: self.shared.input_start,
            weight_start: self.shared.weight_start,
            output_start: self.shared.output_start,
            first_chunk_row: pass_rows as u32,
            first_run_row: (pass_rows + self.chunks.len()) as u32,
            padding: 0,
        }
    }

    /// The parameters of packing.
    pub(super) fn packing(&self, problem: &Problem<3>, layout: &Layout) -> Packing {
        let tile_channels = layout.cut.variant.channels;
        Packing {
            stage_slabs: Divisor::new(self.slabs.len() as u64),
            stages: Divisor::new(layout.stages.into()),
            channel_tiles: Divisor::new(layout.channel_tiles.into()),
            slab_words: Divisor::new(u64::from(8 * tile_channels)),
            in_per_group: problem.in_channels_per_group() as u32,
            out_per_group: problem.out_channels_per_group() as u32,
            stage_channels: 8 * layout.cut.stage_blocks,
            taps: problem.axes().iter().map(|axis| axis.kernel as u32).product(),
            tile_channels,
            words: self.packed_slabs(problem, layout) as u32 * 8 * tile_channels,
        }
    }

    /// Slabs of the packed weight.
    pub(super) fn packed_slabs(&self, problem: &Problem<3>, layout: &Layout) -> u64 {
        problem.groups() as u64 * u64::from(layout.channel_tiles) * u64::from(layout.stages) * self.slabs.len() as u64
    }
}

/// The input position where the staged rows of a pass begin, for a tile at the origin.
fn origin(problem: &Problem<3>, layout: &Layout, pass: &PassPhases) -> [i64; 3] {
    let axes = problem.axes();
    let first = |axis: usize| reads(&axes[axis], layout.phases_of(pass, axis)).map_or(0, |(first, _)| first);
    let words = i64::from(layout.copy_words);
    [first(0), first(1), first(2).div_euclid(words) * words]
}

/// The phases of a slot along each axis, and the number of its row. Phases along x are the fastest.
fn slot_phases(layout: &Layout, pass: &PassPhases, slot: usize) -> Option<([usize; 3], usize)> {
    let [z, y, x] = layout.cut.phases.map(|phases| phases as usize);
    let (row, within) = (slot / (x * y * z), [slot / x / y % z, slot / x % y, slot % x]);
    let phases = [0, 1, 2].map(|axis| pass.first[axis] + within[axis]);
    let exists = row < layout.cut.rows() as usize && (0..3).all(|axis| phases[axis] < layout.phases[axis].len());
    exists.then_some((phases, row))
}

/// How far a row of slots is displaced along its axis.
fn displacement(layout: &Layout, row: usize) -> i64 {
    let distance = if layout.cut.row_axis == 2 { layout.cut.extents[3] } else { 1 };
    row as i64 * i64::from(distance)
}

/// The output position of a slot's position 0, and that it is used.
fn slot_place(problem: &Problem<3>, layout: &Layout, pass: &PassPhases, slot: usize) -> Option<[u32; 4]> {
    let (phases, row) = slot_phases(layout, pass, slot)?;
    let mut place = phases.map(|phase| phase as u32);
    let axis = layout.cut.row_axis;
    place[axis] += displacement(layout, row) as u32 * problem.axes()[axis].stride as u32;
    Some([place[0], place[1], place[2], 1])
}

/// Calls `add` for each product of a slot.
fn products(
    problem: &Problem<3>,
    layout: &Layout,
    pass: &PassPhases,
    origin: [i64; 3],
    slot: usize,
    add: &mut impl FnMut(Product),
) {
    let Some((phases, row)) = slot_phases(layout, pass, slot) else { return };
    let axes = problem.axes();
    let phases = [0, 1, 2].map(|axis| layout.phases[axis][phases[axis]]);
    let row_axis = layout.cut.row_axis;
    for block in 0..layout.cut.stage_blocks {
        for_each_tap(phases.map(|phase| phase.taps), |taps| {
            let kernel = [0, 1, 2].map(|axis| phases[axis].first_tap + taps[axis] * axes[axis].tap_step());
            let shift = [0, 1, 2].map(|axis| {
                phases[axis].first_input as i64 - (taps[axis] * axes[axis].input_step()) as i64 - origin[axis]
            });
            let (mut fragment, mut cluster) = (shift, shift);
            fragment[row_axis] += displacement(layout, row);
            if row_axis < 2 {
                cluster[row_axis] = 0;
            }
            let block_first = |[z, y, x]: [i64; 3]| [i64::from(block), z, y, x];
            let tap = (kernel[0] * axes[1].kernel + kernel[1]) * axes[2].kernel + kernel[2];
            let slab = (tap as u32, 8 * block);
            add(Product { cluster: block_first(cluster), fragment: block_first(fragment), slot, slab });
        });
    }
}

fn for_each_tap(counts: [usize; 3], mut body: impl FnMut([usize; 3])) {
    for z in 0..counts[0] {
        for y in 0..counts[1] {
            for x in 0..counts[2] {
                body([z, y, x]);
            }
        }
    }
}

fn distinct_slabs(cluster: &[Product]) -> Vec<(u32, u32)> {
    let mut slabs: Vec<_> = cluster.iter().map(|product| product.slab).collect();
    slabs.sort_unstable();
    slabs.dedup();
    slabs
}

/// A chunk in the making: products, and slabs in the order in which they are staged.
#[derive(Default)]
struct OpenChunk {
    products: Vec<Product>,
    slabs: Vec<(u32, u32)>,
}

impl OpenChunk {
    /// The steps, one for each fragment, those along x in a row; gathered to runs.
    fn runs(&self, layout: &Layout) -> Vec<Run> {
        let units = layout.slab_bytes() / 16;
        let places = self.slabs.iter().enumerate().map(|(number, slab)| (slab, number as u32 * units));
        let places: BTreeMap<_, _> = places.collect();
        let mut steps: BTreeMap<[i64; 4], Run> = BTreeMap::new();
        for product in &self.products {
            let step = steps.entry(product.fragment).or_insert_with(|| Run {
                offset: fragment_offset(layout, product.fragment),
                steps: 1,
                slabs: [Run::NO_SLAB; MOST_SLOTS],
                ..Run::zeroed()
            });
            step.slabs[product.slot] = places[&product.slab] as u16;
        }
        let mut runs = Vec::new();
        for step in steps.into_values() {
            append(&mut runs, step);
        }
        runs
    }
}

/// Appends a step to the runs of a chunk: to the last run, if it goes on like that.
fn append(runs: &mut Vec<Run>, step: Run) {
    if let Some(run) = runs.last_mut()
        && let Some(slab_step) = slab_step(run, &step)
    {
        let offset_step = step.offset as i32 - (run.offset as i32 + (run.steps as i32 - 1) * run.offset_step);
        if run.steps == 1 || (offset_step, slab_step) == (run.offset_step, run.slab_step) {
            *run = Run { offset_step, slab_step, steps: run.steps + 1, ..*run };
            return;
        }
    }
    runs.push(step);
}

/// How far the slabs of a step lie behind those of the last step of a run, if they belong to the same slots and all lie equally far.
fn slab_step(run: &Run, step: &Run) -> Option<i32> {
    let mut distances = run.slabs.iter().zip(&step.slabs).filter_map(|(&first, &slab)| match (first, slab) {
        (Run::NO_SLAB, Run::NO_SLAB) => None,
        (Run::NO_SLAB, _) | (_, Run::NO_SLAB) => Some(None),
        (first, slab) => Some(Some(i32::from(slab) - i32::from(first) - (run.steps as i32 - 1) * run.slab_step)),
    });
    let distance = distances.next()??;
    distances.all(|other| other == Some(distance)).then_some(distance)
}

/// Where a fragment begins in the staged input, in bytes.
fn fragment_offset(layout: &Layout, [block, z, y, x]: [i64; 4]) -> u32 {
    let rows = z * i64::from(layout.halo[1]) + y;
    let word = block * 8 * i64::from(layout.channel_words) + rows * i64::from(layout.pitch) + x;
    4 * word as u32
}
