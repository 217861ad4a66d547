//! From a layout to what the tile kernels are told: the tables of passes, chunks, runs and slabs, and the parameters.

use std::{collections::BTreeMap, ops::Range};

use bytemuck::Zeroable;
use conv_transpose_kernels::{
    Divisor,
    tile::{Chunk, MOST_SLOTS, MOST_TAPS, Packing, Pass, Run, Slab, Tiling, WEIGHT_RING},
};

use super::layout::{Layout, PassPhases, Shared, reads};
use crate::{Phase, Problem};

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

/// Inputs that have to be kept for the weight ring to be refilled as soon as a slot of it is empty, with that many chunks per stage: the
/// input of a stage is overwritten when its last chunk has left the ring.
pub(super) fn input_ring(chunks: u32) -> u32 {
    if chunks == 0 { 0 } else { 1 + (WEIGHT_RING - 1).div_ceil(chunks) }
}

/// A kernel element, and the first channel of a block of eight.
type SlabKey = (u32, u32);

/// What is not divided between chunks.
trait Work: Sized {
    /// The slabs that it needs, in the order in which they are staged.
    fn slabs(&self) -> Vec<SlabKey>;
    /// The steps of a chunk in order, as runs of one step.
    fn steps(layout: &Layout, chunk: &OpenChunk<Self>) -> Vec<Run>;
}

/// A chunk in the making, with its slabs in the order in which they are staged.
struct OpenChunk<W> {
    work: Vec<W>,
    slabs: Vec<SlabKey>,
}

impl<W> Default for OpenChunk<W> {
    fn default() -> Self {
        Self { work: Vec::new(), slabs: Vec::new() }
    }
}

impl Tables {
    pub(super) fn new(problem: &Problem<3>, layout: &Layout) -> Self {
        let mut tables = Self {
            passes: Vec::new(),
            chunks: Vec::new(),
            runs: Vec::new(),
            slabs: Vec::new(),
            input_ring: 0,
            shared: layout.shared(0, 0),
            chunk_slabs: 0,
        };
        for pass in 0..layout.passes() {
            tables.add_pass(problem, layout, &layout.pass(pass));
        }
        // Kernels load the first chunk of a pass before they know whether it has one.
        tables.chunks.push(Chunk::zeroed());
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
        for slot in 0..layout.cut.variant.slots as usize {
            if let Some(place) = slot_place(problem, layout, phases, slot) {
                pass.slots[slot] = place;
            }
        }
        if layout.cut.is_dense() {
            self.add_chunks(layout, pass.first_slab, columns(problem, layout, phases, origin).into_iter());
        } else {
            self.add_chunks(layout, pass.first_slab, clusters(problem, layout, phases, origin).into_values());
        }
        pass.chunks = self.chunks.len() as u32 - pass.first_chunk;
        self.input_ring = self.input_ring.max(input_ring(pass.chunks));
        self.passes.push(pass);
    }

    /// Gathers work to chunks.
    fn add_chunks<W: Work>(&mut self, layout: &Layout, first_slab: u32, work: impl Iterator<Item = W>) {
        let mut since_promotion = 0;
        let mut open = OpenChunk::default();
        for work in work {
            let slabs = work.slabs();
            if !open.slabs.is_empty() && open.slabs.len() + slabs.len() > layout.chunk_slabs() as usize {
                self.close_chunk(layout, first_slab, std::mem::take(&mut open), &mut since_promotion);
            }
            open.slabs.extend(slabs);
            open.work.push(work);
        }
        if !open.slabs.is_empty() {
            self.close_chunk(layout, first_slab, open, &mut since_promotion);
            // The next stage begins anew.
            if let Some(last) = self.chunks.last_mut().filter(|_| layout.cut.variant.split) {
                last.slabs |= Chunk::PROMOTE;
            }
        }
    }

    fn close_chunk<W: Work>(
        &mut self,
        layout: &Layout,
        first_slab: u32,
        open: OpenChunk<W>,
        since_promotion: &mut u32,
    ) {
        let count = open.slabs.len() as u32;
        self.chunk_slabs = self.chunk_slabs.max(count);
        *since_promotion += count;
        let promotes = layout.cut.variant.split && layout.promotes(*since_promotion);
        if promotes {
            *since_promotion = 0;
        }
        let runs = runs(W::steps(layout, &open));
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
            workers: divisor(workers),
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

/// The step of a dense run: neighbouring taps of the row axis, at one place along the other axes.
struct Column {
    /// Where the first fragment begins: channel block, z, y, x.
    fragment: [i64; 4],
    /// The distance of fragments, in words.
    row_words: u32,
    /// By the distance of the fragment from the slot.
    slabs: Vec<SlabKey>,
}

impl Work for Column {
    fn slabs(&self) -> Vec<SlabKey> {
        self.slabs.clone()
    }

    fn steps(layout: &Layout, chunk: &OpenChunk<Self>) -> Vec<Run> {
        let units = layout.slab_bytes() / 16;
        let mut staged = 0;
        let step = |column: &Self| {
            let first_slab = staged * units;
            staged += column.slabs.len() as u32;
            Run {
                offset: fragment_offset(layout, column.fragment),
                steps: 1,
                taps: column.slabs.len() as u32,
                row_step: 4 * column.row_words,
                first_slab,
                ..Run::zeroed()
            }
        };
        chunk.work.iter().map(step).collect()
    }
}

/// The columns of a pass whose slots are rows, in the order in which they make long runs: those along x in a row.
fn columns(problem: &Problem<3>, layout: &Layout, pass: &PassPhases, origin: [i64; 3]) -> Vec<Column> {
    let axes = problem.axes();
    let row_axis = layout.cut.row_axis;
    let phases = [0, 1, 2].map(|axis| layout.phases[axis][pass.first[axis]]);
    let groups = tap_groups(phases[row_axis].taps, row_axis < 2 && axes[row_axis].input_step() == 1);
    let row_words = match row_axis {
        0 => layout.halo[1] * layout.pitch,
        1 => layout.pitch,
        _ => layout.cut.extents[3],
    };
    // The row axis is walked through by groups, and x is the innermost.
    let others = [0, 1, 2].map(|axis| if axis == row_axis { 1 } else { phases[axis].taps });
    let mut columns = Vec::new();
    for block in 0..layout.cut.stage_blocks {
        for z in 0..others[0] {
            for y in 0..others[1] {
                for group in &groups {
                    for x in 0..others[2] {
                        let slabs = group.clone().rev().map(|tap| {
                            let mut taps = [z, y, x];
                            taps[row_axis] = tap;
                            (kernel_element(problem, &phases, taps), 8 * block)
                        });
                        let mut taps = [z, y, x];
                        taps[row_axis] = group.end - 1;
                        let [z, y, x] = shift(problem, &phases, taps, origin);
                        let fragment = [i64::from(block), z, y, x];
                        columns.push(Column { fragment, row_words, slabs: slabs.collect() });
                    }
                }
            }
        }
    }
    columns
}

/// Taps in groups, as even as possible, of up to as many as a dense run takes; each by itself if they are not neighbours.
pub(super) fn tap_groups(taps: usize, neighbours: bool) -> Vec<Range<usize>> {
    let groups = if neighbours { taps.div_ceil(MOST_TAPS as usize) } else { taps };
    (0..groups).map(|group| taps * group / groups..taps * (group + 1) / groups).collect()
}

/// The kernel element of some phases' taps.
fn kernel_element(problem: &Problem<3>, phases: &[Phase; 3], taps: [usize; 3]) -> u32 {
    let axes = problem.axes();
    let [z, y, x] = [0, 1, 2].map(|axis| phases[axis].first_tap + taps[axis] * axes[axis].tap_step());
    ((z * axes[1].kernel + y) * axes[2].kernel + x) as u32
}

/// Where some phases' taps read for position 0, from the origin of the pass.
fn shift(problem: &Problem<3>, phases: &[Phase; 3], taps: [usize; 3], origin: [i64; 3]) -> [i64; 3] {
    let axes = problem.axes();
    [0, 1, 2].map(|axis| phases[axis].first_input as i64 - (taps[axis] * axes[axis].input_step()) as i64 - origin[axis])
}

/// A product of a sparse run: a fragment of the input, a slot, and a kernel element.
struct Product {
    /// Where the fragment begins: channel block, then z, y, x from the origin of the pass.
    fragment: [i64; 4],
    slot: usize,
    slab: SlabKey,
}

/// Products whose slabs nothing else needs.
type Cluster = Vec<Product>;

impl Work for Cluster {
    fn slabs(&self) -> Vec<SlabKey> {
        let mut slabs: Vec<SlabKey> = self.iter().map(|product| product.slab).collect();
        slabs.sort_unstable();
        slabs.dedup();
        slabs
    }

    fn steps(layout: &Layout, chunk: &OpenChunk<Self>) -> Vec<Run> {
        let units = layout.slab_bytes() / 16;
        let places: BTreeMap<_, _> = chunk.slabs.iter().zip((0..).step_by(units as usize)).collect();
        let mut steps: BTreeMap<[i64; 4], Run> = BTreeMap::new();
        for product in chunk.work.iter().flatten() {
            let step = steps.entry(product.fragment).or_insert_with(|| Run {
                offset: fragment_offset(layout, product.fragment),
                steps: 1,
                slabs: [Run::NO_SLAB; MOST_SLOTS],
                ..Run::zeroed()
            });
            step.slabs[product.slot] = places[&product.slab] as u16;
        }
        steps.into_values().collect()
    }
}

/// The products of a pass, by what they share slabs in: the shift along all axes, without that of rows that are neighbours.
fn clusters(problem: &Problem<3>, layout: &Layout, pass: &PassPhases, origin: [i64; 3]) -> BTreeMap<[i64; 4], Cluster> {
    let row_axis = layout.cut.row_axis;
    let mut clusters: BTreeMap<[i64; 4], Cluster> = BTreeMap::new();
    for slot in 0..layout.cut.variant.slots as usize {
        let Some((phases, row)) = slot_phases(layout, pass, slot) else { continue };
        let phases = [0, 1, 2].map(|axis| layout.phases[axis][phases[axis]]);
        for block in 0..layout.cut.stage_blocks {
            for_each_tap(phases.map(|phase| phase.taps), |taps| {
                let mut cluster = shift(problem, &phases, taps, origin);
                let mut fragment = cluster;
                fragment[row_axis] += displacement(layout, row);
                if row_axis < 2 {
                    cluster[row_axis] = 0;
                }
                let [[cz, cy, cx], [z, y, x]] = [cluster, fragment];
                let block_first = i64::from(block);
                clusters.entry([block_first, cz, cy, cx]).or_default().push(Product {
                    fragment: [block_first, z, y, x],
                    slot,
                    slab: (kernel_element(problem, &phases, taps), 8 * block),
                });
            });
        }
    }
    clusters
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

/// Gathers steps in equal distances to runs.
fn runs(steps: Vec<Run>) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for step in steps {
        let longer = runs.last().and_then(|run| extended(run, &step));
        match (longer, runs.last_mut()) {
            (Some(longer), Some(last)) => *last = longer,
            _ => runs.push(step),
        }
    }
    runs
}

/// A run with one more step, if that goes on in the same way.
fn extended(run: &Run, step: &Run) -> Option<Run> {
    if (run.taps, run.row_step) != (step.taps, step.row_step) {
        return None;
    }
    let steps_so_far = run.steps as i32 - 1;
    let offset_step = step.offset as i32 - run.offset as i32 - steps_so_far * run.offset_step;
    let slab_step = slab_distance(run, step)? - steps_so_far * run.slab_step;
    let goes_on = run.steps == 1 || (offset_step, slab_step) == (run.offset_step, run.slab_step);
    goes_on.then_some(Run { offset_step, slab_step, steps: run.steps + 1, ..*run })
}

/// How far the slabs of a step lie behind the first ones of a run, if they belong to the same slots and all lie equally far.
fn slab_distance(run: &Run, step: &Run) -> Option<i32> {
    if run.taps > 0 {
        return Some(step.first_slab as i32 - run.first_slab as i32);
    }
    let mut distances = run.slabs.iter().zip(&step.slabs).filter_map(|(&first, &slab)| match (first, slab) {
        (Run::NO_SLAB, Run::NO_SLAB) => None,
        (Run::NO_SLAB, _) | (_, Run::NO_SLAB) => Some(None),
        (first, slab) => Some(Some(i32::from(slab) - i32::from(first))),
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
