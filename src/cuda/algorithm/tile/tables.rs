//! From a layout to what the tile kernels are told: the tables of passes, chunks, runs, stretches and slabs, and the
//! parameters.

use std::ops::Range;

use bytemuck::{Zeroable, cast_slice};
use conv_transpose_kernels::{
    Divisor,
    tile::{
        BARE_WRITERS, Chunk, HALVES, JOINED_ROW_TAPS, MOST_NEIGHBOURS, OutputPlace, Packing, Pass, ROW_TAPS, Run, Slab,
        Stretch, Tiling,
    },
};

use super::{
    groups::Group,
    halves::{halved, slabs},
    layout::{Layout, Shared},
    turns::Turns,
    walk::Walk,
};
use crate::{Axis, Problem};

/// Everything that a tile kernel and its packing take, besides the tensors.
#[derive(Clone)]
pub(super) struct Tables {
    /// Passes, each with its places, then chunks, then runs, then stretches: rows of four words.
    pub(super) rows: Vec<[u32; 4]>,
    /// The slabs of a stage, for each of the phases that share the columns.
    pub(super) slabs: Vec<Slab>,
    pub(super) shared: Shared,
    /// The most slabs of a chunk.
    chunk_slabs: u32,
    /// The most slabs of a stage that a pass multiplies.
    pass_slabs: u32,
    /// Words from one block of channels of a run to the next, or from one box of taps to the next.
    block_words: u32,
    /// The kinds of runs, a bit for each.
    run_kinds: u32,
    first_chunk_row: u32,
    first_run_row: u32,
    first_stretch_row: u32,
}

/// What a run takes together.
struct Box {
    /// Blocks of channels.
    blocks: Range<u32>,
    /// Its first taps along z, y and x, and as many more where it walks; pairs of taps along the axis where these are
    /// paired.
    steps: Vec<Taps>,
    /// How the slots are halved, if they are: an index of [`HALVES`].
    halved: Option<usize>,
}

/// Along z, y and x.
type Taps = [Range<usize>; 3];

impl Box {
    fn slabs(&self) -> u32 {
        self.rounds() * slabs(&self.steps[0], self.halved)
    }

    /// Blocks of channels, or steps of its walk in place of them.
    fn rounds(&self) -> u32 {
        self.blocks.len() as u32 * self.steps.len() as u32
    }

    /// The kind of the run, where slots are neighbours along an axis.
    fn kind(&self, row_axis: usize) -> u16 {
        let taps = &self.steps[0];
        let row_taps = if row_axis < 2 { taps[row_axis].len() } else { 1 };
        self.halved.map_or(Run::whole(taps[2].len() as u16, row_taps as u16), |way| Run::halved(way as u16))
    }

    /// The halves that take a number of the neighbouring taps, or the only one.
    fn takers(&self, neighbour: usize) -> Vec<usize> {
        let takes = |half: usize| self.halved.map_or(half == 0, |way| HALVES[way][half] >> neighbour & 1 == 1);
        (0..2).filter(|&half| takes(half)).collect()
    }
}

/// The tables in the making.
struct Builder<'a> {
    problem: &'a Problem<3>,
    layout: &'a Layout,
    walk: Option<Walk>,
    passes: Vec<[u32; 4]>,
    chunks: Vec<Chunk>,
    runs: Vec<Run>,
    slabs: Vec<Slab>,
    chunk_slabs: u32,
    pass_slabs: u32,
    stage_chunks: u32,
}

impl Tables {
    /// The tables of a layout; `None` if it needs more than that much shared memory.
    pub(super) fn new(problem: &Problem<3>, layout: &Layout, shared_bytes: u32) -> Option<Self> {
        Self::with_walk(problem, layout, Walk::of(layout, |walk| runs(layout, walk)), shared_bytes)
    }

    /// Those whose runs walk so, if they walk.
    fn with_walk(problem: &Problem<3>, layout: &Layout, walk: Option<Walk>, shared_bytes: u32) -> Option<Self> {
        let mut builder = Builder {
            problem,
            layout,
            walk,
            passes: Vec::new(),
            chunks: Vec::new(),
            runs: Vec::new(),
            slabs: Vec::new(),
            chunk_slabs: 0,
            pass_slabs: 0,
            stage_chunks: 0,
        };
        for pass in layout.pass_order() {
            builder.add_pass(layout.pass(pass));
        }
        let run_kinds = builder.runs.iter().fold(0, |kinds, run| kinds | run_kinds(run));
        // Kernels load the entries that would follow before they know whether there are any.
        builder.chunks.push(Chunk::zeroed());
        builder.runs.push(Run::zeroed());
        let shared = layout.shared(builder.chunk_slabs, builder.stage_chunks, shared_bytes)?;
        let (chunk_rows, run_rows) = (cast_slice(&builder.chunks), cast_slice(&builder.runs));
        let stretches = if layout.writes_bare_rows { layout.stretches() } else { Vec::new() };
        let first_run_row = builder.passes.len() + chunk_rows.len();
        Some(Self {
            first_chunk_row: builder.passes.len() as u32,
            first_run_row: first_run_row as u32,
            first_stretch_row: (first_run_row + run_rows.len()) as u32,
            rows: [&builder.passes, chunk_rows, run_rows, cast_slice(&stretches)].concat(),
            slabs: builder.slabs,
            shared,
            chunk_slabs: builder.chunk_slabs,
            pass_slabs: builder.pass_slabs,
            block_words: walk.map_or(layout.cut.block_words() * layout.channel_words, |walk| walk.words(layout)),
            run_kinds,
        })
    }

    /// The parameters of the tile kernel, whose blocks share jobs out by turns, and take some cycles. Whether it waits for
    /// the launch before it, beside which it may begin, and whether one team stores after the other.
    pub(super) fn tiling(
        &self,
        problem: &Problem<3>,
        layout: &Layout,
        Turns { workers, turn, are_apart }: Turns,
        cycles: f64,
        awaits: bool,
        in_turn: bool,
    ) -> Tiling {
        let axes = problem.axes();
        let divisor = |value: u32| Divisor::new(value.into());
        let jobs = layout.jobs(problem.groups()) as u32;
        let [box_n, box_z, box_y, box_x] = layout.cut.extents;
        let [_, tiles_z, tiles_y, tiles_x] = layout.tiles;
        let passes = layout.passes() as u32;
        let output_plane: usize = axes.iter().map(|axis| axis.output).product();
        let stretches: &[Stretch] = cast_slice(&self.rows[self.first_stretch_row as usize..]);
        let bare_stretches = stretches.len() as u32;
        let bare_lanes = layout.bare_lanes(stretches, workers.max(1) * BARE_WRITERS, cycles);
        let parts_of_plane = bare_stretches.div_ceil(bare_lanes);
        Tiling {
            channel_tiles: divisor(layout.channel_tiles),
            passes: divisor(passes),
            pass_jobs: divisor(if are_apart { jobs / passes } else { 1 }),
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
            segments: divisor(layout.segments()),
            lines: divisor(layout.lines()),
            tiled_channels: divisor(layout.channel_tiles * layout.tile_channels),
            line_period: divisor(layout.line_period()),
            line_phases: divisor(layout.line_phases),
            longest_line: divisor(layout.longest_line()),
            columns_x: divisor(layout.cut.phases[2]),
            line_words: if line_gaps(layout) == 0 { [0; 2] } else { line_words(&layout.groups[2][0]) },
            column_phases: divisor(layout.block_phases()),
            workers: divisor(workers),
            parts_of_plane: divisor(parts_of_plane),
            out_channels: Divisor::new(problem.out_channels() as u64),
            input_plane: layout.input.plane() as u64,
            output_plane: output_plane as u64,
            input_sample: layout.input.sample() as u64,
            output_sample: (output_plane * problem.out_channels()) as u64,
            in_channels: (layout.input.channels * layout.input.groups) as u64,
            first: layout.region.first,
            tile: layout.tile,
            positions: box_n * box_z * box_y * box_x,
            step_z: layout.cut.step(0),
            step_y: layout.cut.step(1),
            batch: problem.batch() as u32,
            input: layout.input.extents.map(|extent| extent as u32),
            output: axes.map(|axis| axis.output as u32),
            stride: axes.map(|axis| axis.stride as u32),
            lead: layout.region.lead,
            in_per_share: layout.cut.in_words(&layout.input, problem) as u32,
            out_per_group: problem.out_channels_per_group() as u32,
            pitch: layout.pitch,
            channel_words: layout.channel_words,
            copy_words: layout.copy_words,
            copies: layout.copies(),
            tile_channels: layout.tile_channels,
            close_channels: layout.close_channels(),
            used_blocks: layout.used_blocks(),
            stage_channels: layout.cut.stage_words(),
            stages: layout.stages,
            stage_slabs: self.stage_slabs(layout),
            input_ring: self.shared.input_ring,
            weight_ring: self.shared.weight_ring,
            input_bytes: self.shared.input_bytes,
            weight_bytes: self.chunk_slabs * layout.slab_bytes(),
            offsets_start: self.shared.offsets_start,
            row_step: 4 * layout.row_words(),
            block_bytes: 4 * self.block_words,
            input_start: self.shared.input_start,
            weight_start: self.shared.weight_start,
            lines_start: self.shared.lines_start,
            line_tables: self.shared.line_tables,
            bias_start: self.shared.bias_start,
            bias_words: self.shared.bias_words,
            output_start: self.shared.output_start,
            output_bytes: self.shared.output_bytes,
            places: layout.places,
            slice_blocks: divisor(layout.slice_blocks()),
            slices: layout.slices(),
            slice_channels: layout.slice_channels(),
            close_phases: if layout.cut.close { layout.cut.column_phases() } else { 0 },
            halves: layout.cut.halves,
            row_lines: layout.row_lines(),
            staged_channel_words: layout.staged_channel_words(),
            line_gaps: line_gaps(layout),
            line_lanes: layout.line_lanes(),
            line_crews: layout.line_crews(),
            line_reach: layout.line_reach(),
            line_slots: layout.line_slots,
            staged_between_rows: layout.staged_between_rows(),
            margins: layout.margins(),
            line_end: if layout.has_margins() { layout.line_end() as u32 } else { 0 },
            line_words_at_once: layout.line_words_at_once(),
            run_kinds: self.run_kinds,
            held: layout.held(),
            direct_words: layout.direct_words(),
            row_words: layout.staged_row_words(),
            pass_rows: (size_of::<Pass>() / 16) as u32 + layout.places,
            first_chunk_row: self.first_chunk_row,
            first_run_row: self.first_run_row,
            jobs,
            turn,
            rounds: jobs.div_ceil(workers.max(1)),
            boxed_words: if self.shared.boxed { layout.boxed_words() } else { 0 },
            box_bytes: if layout.in_boxes { layout.stage_bytes() } else { 0 },
            merged_axes: layout.merged_axes,
            partners: layout.cut.partners,
            products_start: self.shared.products_start,
            table_rows: self.rows.len() as u32,
            input_header: layout.input.header as u32,
            bare_stretches,
            first_stretch_row: self.first_stretch_row,
            bare_parts: layout.planes() as u32 * parts_of_plane,
            bare_lanes,
            bare_start: self.shared.bare_start,
            awaits: awaits.into(),
            promotion_stages: layout.promotion_stages(self.pass_slabs),
            second_half: 4 * layout.half_fragment_words(),
            in_turn: in_turn.into(),
            short_lines: layout.has_short_lines().into(),
        }
    }

    /// The parameters of packing.
    pub(super) fn packing(&self, problem: &Problem<3>, layout: &Layout) -> Packing {
        let columns = layout.cut.variant.columns;
        Packing {
            stage_slabs: Divisor::new(self.stage_slabs(layout).into()),
            stages: Divisor::new(layout.stages.into()),
            channel_tiles: Divisor::new(layout.channel_tiles.into()),
            slab_words: Divisor::new(u64::from(8 * columns)),
            column_phases: Divisor::new(layout.cut.column_phases().into()),
            in_channels: problem.in_channels() as u64,
            close_channels: layout.close_channels(),
            pair_distance: layout.cut.pair_distance(),
            in_per_share: layout.cut.in_channels(problem) as u32,
            out_per_group: problem.out_channels_per_group() as u32,
            stage_channels: layout.cut.stage_channels(),
            taps: problem.taps() as u32,
            tile_channels: layout.tile_channels,
            words: self.packed_slabs(problem, layout) as u32 * 8 * columns,
        }
    }

    /// Slabs of a stage.
    fn stage_slabs(&self, layout: &Layout) -> u32 {
        self.slabs.len() as u32 / layout.cut.column_phases()
    }

    /// Slabs of the packed weight.
    pub(super) fn packed_slabs(&self, problem: &Problem<3>, layout: &Layout) -> u64 {
        let tiles = problem.groups() as u64 * u64::from(layout.cut.partners * layout.channel_tiles);
        tiles * u64::from(layout.stages) * u64::from(self.stage_slabs(layout))
    }
}

impl Builder<'_> {
    fn stage_slabs(&self) -> u32 {
        self.slabs.len() as u32 / self.layout.cut.column_phases()
    }

    fn add_pass(&mut self, groups: [&Group; 3]) {
        let origin = self.origin(groups);
        let (first_chunk, first_run) = (self.chunks.len() as u32, self.runs.len() as u32);
        let first_slab = self.stage_slabs();
        let boxes = boxes(self.layout, groups, self.walk);
        self.add_chunks(groups, origin, first_slab, boxes);
        self.pass_slabs = self.pass_slabs.max(self.stage_slabs() - first_slab);
        let chunks = self.chunks.len() as u32 - first_chunk;
        self.stage_chunks = self.stage_chunks.max(chunks);
        let origin = origin.map(|origin| origin as i32);
        let first_slabs = self.chunks.get(first_chunk as usize).map_or(0, |chunk| chunk.slabs);
        let pass = Pass { origin, chunks, first_chunk, first_run, first_slab, first_slabs };
        self.passes.extend_from_slice(cast_slice(&[pass]));
        let places = self.places(groups);
        self.passes.extend_from_slice(cast_slice(&places));
    }

    /// The input position where the staged rows of a pass begin, for a tile at the origin.
    fn origin(&self, groups: [&Group; 3]) -> [i64; 3] {
        let words = i64::from(self.layout.copy_words);
        [groups[0].first, groups[1].first, groups[2].first.div_euclid(words) * words]
    }

    /// What a pass writes for each row of positions: by row, then by phase along z and y, and along x if lines are no
    /// stretches of rows.
    fn places(&self, groups: [&Group; 3]) -> Vec<OutputPlace> {
        let layout = self.layout;
        let [z, y, x] =
            [0, 1, 2].map(|axis| layout.groups[axis].iter().map(|group| group.written.len()).max().unwrap_or(1));
        let x = if layout.has_all_phases_in_lines() { 1 } else { x };
        let place = |number: usize| {
            let (row, numbers) = (number / (z * y * x), [number / (y * x) % z, number / x % y, number % x]);
            self.place(groups, row, numbers)
        };
        (0..layout.places as usize).map(place).collect()
    }

    /// What a row writes for one of the written phases of each axis, or for all of those along x.
    fn place(&self, groups: [&Group; 3], row: usize, numbers: [usize; 3]) -> OutputPlace {
        let (layout, cut) = (self.layout, &self.layout.cut);
        let mut place = OutputPlace { origin: [0; 3], source: 0 };
        let mut bias_only = false;
        let mut line = 0;
        for axis in 0..3 {
            let Some(&phase) = groups[axis].written.get(numbers[axis]) else {
                return OutputPlace { source: OutputPlace::NONE, ..place };
            };
            place.origin[axis] = phase as u32;
            if axis == 2 && layout.has_all_phases_in_lines() {
                bias_only |= groups[axis].computed.is_empty();
                continue;
            }
            let column = groups[axis].computed.iter().position(|&computed| computed == phase);
            bias_only |= column.is_none();
            line = line * cut.computed_phases()[axis] + column.unwrap_or(0) as u32;
        }
        let axis = cut.row_axis;
        let Axis { stride, output, .. } = self.problem.axes()[axis];
        let origin = u64::from(place.origin[axis]) + row as u64 * u64::from(cut.row_distance()) * stride as u64;
        if origin >= output as u64 + u64::from(layout.region.lead[axis]) {
            return OutputPlace { source: OutputPlace::NONE, ..place };
        }
        place.origin[axis] = origin as u32;
        let source = row as u32 * layout.staged_row_words() + line * layout.line_distance();
        place.source = if bias_only { OutputPlace::BIAS } else { source };
        place
    }

    /// Gathers runs to chunks.
    fn add_chunks(&mut self, groups: [&Group; 3], origin: [i64; 3], first_slab: u32, boxes: Vec<Box>) {
        let (layout, first_run) = (self.layout, self.runs.len());
        let mut since_promotion = 0;
        let mut open: Option<Chunk> = None;
        for run in boxes {
            let count = run.slabs();
            if let Some(chunk) = open.take_if(|chunk| chunk.slabs + count > layout.chunk_slabs()) {
                self.close(chunk, &mut since_promotion);
            }
            let first_slab = self.stage_slabs() - first_slab;
            let chunk = open.get_or_insert(Chunk { first_slab, ..Chunk::zeroed() });
            let staged = chunk.slabs;
            chunk.slabs += count;
            self.add_run(groups, origin, &run, staged);
        }
        if let Some(chunk) = open {
            self.close(chunk, &mut since_promotion);
        }
        // The next stage begins anew.
        if let Some(last) = self.runs[first_run..].last_mut() {
            last.flags |= Run::ENDS_STAGE | if layout.cut.variant.split { Run::PROMOTES } else { 0 };
        }
    }

    /// Ends a chunk with the last run.
    fn close(&mut self, chunk: Chunk, since_promotion: &mut u32) {
        self.chunk_slabs = self.chunk_slabs.max(chunk.slabs);
        self.chunks.push(chunk);
        *since_promotion += chunk.slabs;
        let promotes = self.layout.cut.variant.split && self.layout.promotes(*since_promotion);
        if promotes {
            *since_promotion = 0;
        }
        if let Some(last) = self.runs.last_mut() {
            last.flags |= Run::ENDS_CHUNK | if promotes { Run::PROMOTES } else { 0 };
        }
    }

    /// A run, and the slabs that it multiplies: by tap along x, then by tap along the axis of rows.
    fn add_run(&mut self, groups: [&Group; 3], origin: [i64; 3], run: &Box, staged: u32) {
        let layout = self.layout;
        let row_axis = layout.cut.row_axis;
        let shift = |axis: usize, tap: usize| {
            let tap = if layout.cut.taps_paired_along == Some(axis) { first_of_pair(groups[axis], tap) } else { tap };
            groups[axis].first + (tap * groups[axis].step) as i64 - origin[axis]
        };
        let [z, y, x] = [0, 1, 2].map(|axis| shift(axis, run.steps[0][axis].start));
        let word = ((z * i64::from(layout.halo[1])) + y) * i64::from(layout.pitch) + x;
        let block_words = i64::from(run.blocks.start * layout.cut.block_words() * layout.channel_words);
        self.runs.push(Run {
            offset: 4 * (word + block_words) as u32,
            first_slab: staged * layout.slab_bytes() / 16,
            kind: run.kind(row_axis),
            blocks: run.rounds() as u16,
            flags: if layout.has_pairs() && x % 2 == 0 { Run::ALIGNED } else { 0 },
        });
        for block in run.blocks.clone() {
            for taps in &run.steps {
                self.add_slabs(groups, run, taps, block);
            }
        }
    }

    /// Those of some of its taps and a block of channels.
    fn add_slabs(&mut self, groups: [&Group; 3], run: &Box, [z, y, x]: &Taps, block: u32) {
        for (neighbour, tap_x) in x.clone().enumerate() {
            for half in run.takers(neighbour) {
                for tap_z in z.clone() {
                    for tap_y in y.clone() {
                        self.add_slab(groups, [tap_z, tap_y, tap_x], half, block);
                    }
                }
            }
        }
    }

    /// A slab of a block of channels: for each of the phases that share the columns in a half, the kernel element by
    /// which it uses some input position, or two of them.
    fn add_slab(&mut self, groups: [&Group; 3], taps: [usize; 3], half: usize, block: u32) {
        let cut = &self.layout.cut;
        let channel = cut.block_channels() * block;
        let halves = match cut.taps_paired_along {
            None => [(Some(taps), channel), (Some(taps), channel + 8)],
            Some(axis) => pair(groups[axis], taps[axis]).map(|tap| (tap.map(|tap| with(taps, axis, tap)), channel)),
        };
        let [z, y, x] = cut.phases.map(|phases| phases as usize);
        for number in 0..z * y * x {
            let columns = [number / (y * x), number / x % y, half * x + number % x];
            let element = |shifts| self.kernel_element(groups, shifts, columns);
            let taps = halves.map(|(shifts, _)| shifts.and_then(element).unwrap_or(Slab::NO_TAP));
            self.slabs.push(Slab { taps, channels: halves.map(|(_, channel)| channel) });
        }
    }

    /// The kernel element by which some phases use an input position, if they do.
    fn kernel_element(&self, groups: [&Group; 3], shifts: [usize; 3], columns: [usize; 3]) -> Option<u32> {
        let axes = self.problem.axes();
        let mut element = 0;
        for axis in 0..3 {
            let phase = &self.layout.phases[axis][*groups[axis].computed.get(columns[axis])?];
            let tap = groups[axis].tap(&axes[axis], phase, shifts[axis])?;
            element = element * axes[axis].kernel + phase.first_tap + tap * axes[axis].tap_step();
        }
        Some(element as u32)
    }
}

/// The first of the two taps of a pair of a group, whose input positions are neighbours. Of an odd number, the last
/// pair has the last two, one of which the pair before has multiplied.
fn first_of_pair(group: &Group, pair: usize) -> usize {
    (2 * pair).min(group.taps - 2)
}

/// The taps of a pair that it multiplies.
fn pair(group: &Group, pair: usize) -> [Option<usize>; 2] {
    let first = first_of_pair(group, pair);
    [(first == 2 * pair).then_some(first), Some(first + 1)]
}

/// Some taps, but another one along an axis.
fn with(mut taps: [usize; 3], axis: usize, tap: usize) -> [usize; 3] {
    taps[axis] = tap;
    taps
}

/// The bits for the kind of a run, and for whether it is aligned, and has an odd number of blocks.
fn run_kinds(run: &Run) -> u32 {
    let aligned = if run.flags & Run::ALIGNED != 0 { Run::SOME_ALIGNED } else { Run::SOME_UNALIGNED };
    1 << run.kind | aligned | if run.blocks % 2 == 1 { Run::SOME_ODD } else { 0 }
}

/// Of the computed phases of a group along x, which of a position's words of a line each one is: a byte for each.
fn line_words(group: &Group) -> [u64; 2] {
    let mut words = [0; 2];
    for (number, phase) in group.computed.iter().enumerate() {
        let word = group.written.iter().position(|written| written == phase).unwrap_or(0) as u64;
        words[number / 8] |= word << (number % 8 * 8);
    }
    words
}

/// Of the words that a line has for each position, a bit for those that have no taps.
fn line_gaps(layout: &Layout) -> u32 {
    let group = &layout.groups[2][0];
    if !layout.has_whole_rows() || group.computed.is_empty() {
        return 0;
    }
    let gaps = group.written.iter().enumerate().filter(|(_, phase)| !group.computed.contains(phase));
    gaps.fold(0, |gaps, (number, _)| gaps | 1 << number)
}

/// The taps of a pass as runs take them: of as many blocks of channels as a chunk has room for, or in as many steps.
fn boxes(layout: &Layout, groups: [&Group; 3], walk: Option<Walk>) -> Vec<Box> {
    let ranges = [0, 1, 2].map(|axis| ranges(layout, axis, groups[axis]));
    // What runs walk along goes innermost.
    let [outer, inner, innermost] = [[1, 2, 0], [0, 2, 1], [0, 1, 2]][walk.map_or(2, |walk| walk.axis)];
    let mut boxes = Vec::new();
    for first in &ranges[outer] {
        for second in &ranges[inner] {
            let begun = boxes.len();
            for third in &ranges[innermost] {
                let mut taps = [0..0, 0..0, 0..0];
                (taps[outer], taps[inner], taps[innermost]) = (first.clone(), second.clone(), third.clone());
                let halved = halved(layout, groups[2], &taps[2]);
                match boxes[begun..].last_mut() {
                    Some(run) if walks_on(layout, groups, walk, run, &taps, halved) => run.steps.push(taps),
                    _ => boxes.extend(of_blocks(layout, &taps, halved)),
                }
            }
        }
    }
    boxes
}

/// Whether some taps are the next ones on the walk of a run, which has room for them in its chunk.
fn walks_on(
    layout: &Layout,
    groups: [&Group; 3],
    walk: Option<Walk>,
    run: &Box,
    taps: &Taps,
    halved: Option<usize>,
) -> bool {
    let leads = |walk: Walk| walk.leads(groups[walk.axis], [&run.steps[0][walk.axis], &taps[walk.axis]]);
    let has_room = || run.slabs() + slabs(taps, halved) <= layout.chunk_slabs();
    run.halved == halved && walk.is_some_and(leads) && has_room()
}

/// Some taps of all blocks of channels, as many at a time as a chunk has room for.
fn of_blocks(layout: &Layout, taps: &Taps, halved: Option<usize>) -> impl Iterator<Item = Box> {
    let (blocks, all) = (run_blocks(layout, slabs(taps, halved)), layout.cut.stage_blocks);
    let ranges = (0..all).step_by(blocks as usize).map(move |first| first..(first + blocks).min(all));
    ranges.map(move |blocks| Box { blocks, steps: vec![taps.clone()], halved })
}

/// How many runs there are in all passes.
fn runs(layout: &Layout, walk: Option<Walk>) -> usize {
    (0..layout.passes()).map(|pass| boxes(layout, layout.pass(pass), walk).len()).sum()
}

/// Blocks of channels that a run takes at most which has some slabs for each.
fn run_blocks(layout: &Layout, slabs: u32) -> u32 {
    (layout.chunk_slabs() / slabs.max(1)).clamp(1, layout.cut.stage_blocks)
}

/// The taps of a group as runs take them along an axis; pairs, one by one, where they are paired.
pub(super) fn ranges(layout: &Layout, axis: usize, group: &Group) -> Vec<Range<usize>> {
    let row_taps = row_taps(layout);
    if layout.cut.taps_paired_along == Some(axis) {
        together(group.taps.div_ceil(2), 1)
    } else if axis == 2 && layout.has_pairs() && group.step == 1 {
        let most = (layout.run_slabs() / row_taps / layout.cut.halves).clamp(1, MOST_NEIGHBOURS) as usize;
        neighbours(group.taps, begins_even(layout, group), most)
    } else if axis == layout.cut.row_axis && group.step == layout.cut.distance_of_row_taps() as usize {
        together(group.taps, row_taps as usize)
    } else {
        together(group.taps, 1)
    }
}

/// Taps along the axis of rows that runs take together, where there are so many.
fn row_taps(layout: &Layout) -> u32 {
    let cut = &layout.cut;
    let taps = if cut.joined_rows == 1 { ROW_TAPS } else { JOINED_ROW_TAPS };
    if cut.row_axis < 2 && cut.halves == 1 && layout.run_slabs() >= taps { taps } else { 1 }
}

/// Whether the lanes' positions begin at even words for the first tap of a group along x.
pub(super) fn begins_even(layout: &Layout, group: &Group) -> bool {
    layout.copy_words == 1 || group.first.rem_euclid(2) == 0
}

/// So many taps at a time, and what is left each by itself.
fn together(taps: usize, at_a_time: usize) -> Vec<Range<usize>> {
    let all = taps / at_a_time * at_a_time;
    let ranges = (0..all).step_by(at_a_time).map(|first| first..first + at_a_time);
    ranges.chain((all..taps).map(|tap| tap..tap + 1)).collect()
}

/// Taps along x, up to `most` at a time. Loads are cheaper where these begin at even words, so that most do: `is_even`
/// says whether the first tap is at one.
fn neighbours(taps: usize, mut is_even: bool, most: usize) -> Vec<Range<usize>> {
    let mut ranges = Vec::new();
    let mut first = 0;
    while first < taps {
        let left = taps - first;
        let count = if left == 3 || !is_even { left.min(3) } else { left.min(2) }.min(most);
        ranges.push(first..first + count);
        is_even ^= count % 2 == 1;
        first += count;
    }
    ranges
}

#[cfg(test)]
mod tests {
    use super::{
        super::choice::{self, Part},
        *,
    };
    use crate::{
        ConvTranspose3d, Precision, Shape,
        cuda::algorithm::{Target, Task},
    };

    /// A layer, and the cheapest ways to divide it into tiles in which a stage has one block of channels.
    fn parts(kernel: [usize; 3], stride: usize, dilation: usize, precision: Precision) -> (Problem<3>, Vec<Part>) {
        let builder = ConvTranspose3d::builder(64, 48, kernel).stride([stride; 3]).dilation([dilation; 3]);
        let problem = builder.build().unwrap().problem(Shape::batched(2, 64, [9, 12, 40])).unwrap().to_compute();
        let task = Task::new(problem, precision, Target::EMULATED);
        let mut parts = choice::several(&task, &choice::candidates(&task, None).unwrap(), 200);
        parts.retain(|part| part.layout.cut.stage_blocks == 1);
        (problem, parts)
    }

    fn runs_of(tables: &Tables) -> &[Run] {
        cast_slice(&tables.rows[tables.first_run_row as usize..tables.first_stretch_row as usize - 1])
    }

    /// What all steps of all runs read: from where, as which kind, and whether at even words.
    fn steps_of(tables: &Tables) -> Vec<(u32, u16, u32)> {
        let steps = |run: &Run| {
            let Run { offset, kind, blocks, flags, .. } = *run;
            (0..u32::from(blocks)).map(move |step| (offset + 4 * step * tables.block_words, kind, flags & Run::ALIGNED))
        };
        let mut steps: Vec<_> = runs_of(tables).iter().flat_map(steps).collect();
        steps.sort_unstable();
        steps
    }

    #[test]
    fn walks_read_what_single_runs_would() {
        let (mut walks, mut longest) = (0, 0);
        let layers = [
            ([3; 3], 1, 1),
            ([4; 3], 2, 1),
            ([1, 1, 7], 1, 1),
            ([3, 1, 5], 1, 2),
            ([5, 2, 3], 1, 3),
            ([1, 8, 3], 1, 1),
        ];
        for (kernel, stride, dilation) in layers {
            for precision in [Precision::F32, Precision::Tf32] {
                let (problem, parts) = parts(kernel, stride, dilation, precision);
                for Part { layout, tables, .. } in &parts {
                    let single = Tables::with_walk(&problem, layout, None, u32::MAX).unwrap();
                    assert_eq!(steps_of(tables), steps_of(&single), "{layout}");
                    assert!(tables.chunk_slabs <= single.chunk_slabs.max(layout.chunk_slabs()), "{layout}");
                    walks += usize::from(runs_of(tables).len() < runs_of(&single).len());
                    longest = longest.max(runs_of(tables).iter().map(|run| run.blocks).max().unwrap_or(0));
                }
            }
        }
        assert!(walks > 100 && longest >= 3, "{walks} layouts with walks, of up to {longest} steps");
    }
}
