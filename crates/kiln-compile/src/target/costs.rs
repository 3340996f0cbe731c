//! The constants of all cost models, on one page, each with its source: what things cost on a kind of processor.
//!
//! Between kernels (`schedule`) the unit is the nanosecond, inside of a kernel (`optimize`) the *cycle*: the time in which
//! a unit for arithmetic starts one operation on a vector. Only ratios matter: a choice compares two prices.
//!
//! `kiln calibrate` measures those that are said to be measured, and prints them beside the values here. It changes
//! nothing: the values are reviewed by people, because they decide how kernels look and in which order they add up.

use std::fmt;
use std::hash::{Hash, Hasher};

/// Nanoseconds of a microsecond: prices are shown in those.
pub(crate) const NS_PER_US: f64 = 1e3;

/// The shortest row that a loop is split into: one vector.
pub(crate) const SHORTEST_ROW: i64 = 16;

/// Where a number is from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Source {
    /// `kiln calibrate` measures it.
    Measured,
    /// A manual says so.
    Manual(&'static str),
    /// The value with which the programs of a benchmark ran fastest.
    Fitted(&'static str),
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::Measured => f.write_str("kiln calibrate"),
            Source::Manual(title) => f.write_str(title),
            Source::Fitted(benchmark) => write!(f, "fitted to {benchmark}"),
        }
    }
}

/// One number of a description, for people.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// The field's name.
    pub name: &'static str,
    /// What it is.
    pub what: &'static str,
    /// The value.
    pub value: f64,
    /// Where that is from.
    pub source: Source,
}

/// A field's type: prices are `f64`, counts are `usize`.
trait Number: Copy {
    fn as_f64(self) -> f64;
}

impl Number for f64 {
    fn as_f64(self) -> f64 {
        self
    }
}

impl Number for usize {
    fn as_f64(self) -> f64 {
        self as f64
    }
}

macro_rules! costs {
    ($($(#[doc = $doc:literal])+ $name:ident: $t:ty = $value:expr, $source:expr;)*) => {
        /// What things cost on a kind of processor. See the module's head for units.
        #[derive(Clone, Copy, Debug)]
        pub struct Costs { $($(#[doc = $doc])+ pub $name: $t,)* }

        impl Costs {
            /// A processor of the years after 2015 with vectors, out-of-order execution and three levels of caches.
            pub const CPU: Costs = Costs { $($name: $value,)* };

            /// The values of all fields.
            fn values(&self) -> impl Iterator<Item = f64> {
                [$(self.$name.as_f64(),)*].into_iter()
            }

            /// All fields, in the order of this page.
            pub fn rows(&self) -> Vec<Row> {
                vec![$(Row {
                    name: stringify!($name),
                    what: concat!($($doc),+).trim(),
                    value: self.$name.as_f64(),
                    source: $source,
                },)*]
            }
        }
    };
}

const BENCH: Source = Source::Fitted("kiln-bench");
const RESNET: Source = Source::Fitted("the layers of ResNet-18 in kiln-bench");
const MODELS: Source = Source::Fitted("training steps of the models in kiln-bench");
const OPTIMIZATION: Source = Source::Manual("Fog, Optimizing software in C++, 2023");
const TABLES: Source = Source::Manual("Fog, Instruction tables, 2022, Zen 3 and Skylake");

const GROUPS: Source = Source::Manual("NVIDIA, CUDA C++ Best Practices Guide 12.6, 11.3");
const COALESCING: Source =
    Source::Manual("NVIDIA, CUDA C++ Best Practices Guide, Coalesced Access to Global Memory");
const BANKS: Source =
    Source::Manual("NVIDIA, CUDA C++ Best Practices Guide, Shared Memory and Memory Banks");
const BARRIERS: Source =
    Source::Manual("NVIDIA, CUDA C++ Programming Guide, Synchronization Instruction, 7.x");
const SIMT: Source = Source::Manual("NVIDIA, CUDA C++ Programming Guide, SIMT Architecture");
const PANELS: Source =
    Source::Manual("NVIDIA, CUDA C++ Programming Guide, Shared Memory: the tiled product");

costs! {
    /// Nanoseconds of one arithmetic operation on one element, in vectors.
    operation_ns: f64 = 0.02, Source::Measured;
    /// Nanoseconds to read or write one byte of memory that is mostly in a cache.
    byte_ns: f64 = 0.04, Source::Measured;
    /// Nanoseconds to read one byte again that is in the second cache, or the last.
    near_byte_ns: f64 = 0.01, Source::Measured;
    /// How many reads a write costs: it brings its line into the cache before it changes it.
    write: f64 = 2.0, Source::Measured;
    /// Nanoseconds to find and read an element whose address divides a loop by a short row: lanes are read one by one.
    divided_ns: f64 = 0.8, Source::Fitted("cargo bench -p kiln --bench between");
    /// Nanoseconds to start one more kernel on several threads: 2000 right after another one, 12000 after a rest.
    launch_ns: f64 = 3000.0, Source::Measured;
    /// Arithmetic operations and accesses of a kernel below which starting threads costs more than it saves.
    thread_work: usize = 1 << 16, BENCH;
    /// Blocks of a loop for each thread, where it is not shared iteration by iteration: late threads do fewer.
    thread_blocks: usize = 8, Source::Fitted("cargo bench -p kiln --bench regret");

    /// Work-items of a group, at most: enough to hide the latency of memory.
    group_items: usize = 256, GROUPS;
    /// Outputs that an item computes along a loop where it reads an operand again: sixteen sums fit its registers.
    group_tile: usize = 4, GROUPS;
    /// Outputs below which the items of a group reduce together: with more, each item has an output of its own.
    group_outputs: usize = 4096, GROUPS;
    /// Neighbouring work-items that share lines of memory, at least.
    group_least: usize = 16, GROUPS;
    /// Terms of a reduction whose operands a group shares at a time.
    group_terms: usize = 16, PANELS;
    /// The factor by which a tile may lengthen a loop, at most.
    group_padding: f64 = 1.25, Source::Fitted("products of 33 to 110 that INTERP counts");
    /// Reads of scratch that take as long as a barrier: 16 items come to one in a cycle, and 32 read.
    group_barrier: usize = 2, BARRIERS;
    /// Items that execute a step at the same time.
    group_neighbours: usize = 32, SIMT;
    /// Bytes of memory that such neighbours access together.
    group_line: usize = 32, COALESCING;
    /// Banks of a group's scratch: each gives one word at a time.
    group_banks: usize = 32, BANKS;
    /// Bytes of a word of a bank.
    group_bank_bytes: usize = 4, BANKS;

    /// Independent iterations below which a kernel does not fill the threads of a larger machine.
    parallel: f64 = 16.0, BENCH;
    /// The factor for too little parallelism: other threads wait, at least one.
    serial: f64 = 2.0, BENCH;
    /// The factor for a long reduction inside another's loop, or in loops that run in order: it cannot be tiled over registers.
    nested: f64 = 4.0, BENCH;
    /// Reductions up to this length are unrolled anywhere, and lose nothing by nesting.
    short_reduction: usize = 9, BENCH;
    /// The factor for a sum inside a sum: both become one reduction, whose tile reads each operand for several results.
    merged_sums: f64 = 0.5, BENCH;
    /// The factor for two sums of products beside each other, on both: they share registers and caches.
    sums_beside: f64 = 1.02, RESNET;
    /// The factor for a sum of products of which several values are stored, an optimizer's step, and whose vectors are no
    /// neighbours in memory. Each element is then an operation of its own, and code for many of them leaves no room for tiles.
    sums_apart: f64 = 2.0, MODELS;
    /// The factor for a sum of products whose results go elsewhere in short rows, as in a pixel shuffle: loops over the places then
    /// divide its indices, so no operand is read evenly, and there are no vectors for a tile.
    sums_divided: f64 = 4.0, MODELS;
    /// Products of one sum that a kernel tiles at once.
    products_together: usize = 4, MODELS;
    /// Axes that are shorter do not make vectors.
    short_row: usize = 8, MODELS;
    /// Elements of a value that is small enough to be in a register or the first cache when it is used again.
    few_elements: f64 = 1024.0, BENCH;
    /// Uses of each element of such a value from which on it counts as small.
    many_uses: f64 = 16.0, BENCH;
    /// The factor on the price of such a use.
    use_again: f64 = 0.1, BENCH;
    /// The largest price of an element, in nanoseconds.
    most_ns: f64 = 1e6, BENCH;
    /// Rows between two nests of a kernel that wait in a cache, as the scheduler assumes.
    chained_rows: f64 = 32.0, BENCH;

    /// Elements of a reduction to few results from which on a second kernel pays.
    split_elements: usize = 1 << 19, BENCH;
    /// Results below which that holds.
    split_results: usize = 16, BENCH;
    /// The same elements if the outermost axis is reduced: threads that share results each read a part of every row.
    split_across_elements: usize = 1 << 20, BENCH;
    /// The same results if the outermost axis is reduced.
    split_across_results: usize = 128, BENCH;
    /// The same results for sums of products: fewer make too few tiles.
    split_products: usize = 1024, RESNET;
    /// Uses of each element of a factor in such a product, at least.
    split_uses: usize = 8, RESNET;
    /// Blocks of such a reduction, at least.
    split_least_blocks: usize = 32, BENCH;
    /// Blocks of such a reduction, at most.
    split_most_blocks: usize = 64, BENCH;

    /// How many times as much as a kernel for the same numbers a kernel for many numbers may cost.
    general_times: f64 = 1.6, Source::Fitted("cargo bench -p kiln --bench lengths");
    /// So many more do not count: a compilation takes as long as hundreds of such launches.
    general_more: f64 = 150_000.0, Source::Fitted("cargo bench -p kiln --bench lengths");

    /// The part of a cache in which a kernel finds again what it has read or written.
    cache_used: f64 = 0.75, Source::Fitted("cargo bench -p kiln --bench lengths");

    /// Instructions, as a program counts them, in the time of an operation on a vector. A processor starts two of these operations in
    /// a clock cycle, and about three instructions.
    instructions_at_once: f64 = 1.5, Source::Fitted("cargo bench -p kiln --bench lengths");

    /// Cycles until the result of a multiply-add can be used.
    latency: f64 = 4.0, TABLES;
    /// Operations that a processor starts while one addition waits for the one before: two units, four cycles.
    in_flight: usize = 8, TABLES;
    /// Vector registers from which on there are enough for tiles.
    registers_for_tiles: usize = 16, BENCH;
    /// Cycles of an operation on a vector of more than eight lanes: many processors do it in two halves.
    wide: f64 = 1.5, BENCH;
    /// Lanes from which on a vector is wide.
    wide_lanes: usize = 16, BENCH;
    /// Lanes of the narrowest vector that is tried.
    least_lanes: usize = 4, BENCH;
    /// The price that a load adds to a step.
    load: f64 = 0.25, BENCH;
    /// The price of a load in a sum along its own loop.
    load_in_a_row: f64 = 0.5, BENCH;
    /// The price that a cache line adds to the step that reads it first.
    new_line: f64 = 0.1, RESNET;
    /// The price of a load whose address is computed each time.
    address: f64 = 1.0, Source::Fitted("cargo bench -p kiln --bench lengths");
    /// How many addresses of rows stay in registers: the others are computed each time.
    addresses: f64 = 6.0, Source::Fitted("cargo bench -p kiln --bench lengths");
    /// The price of a predicated load, and once more if the predicate is its own.
    gate: f64 = 0.12, RESNET;
    /// The price of a predicated load beside vectors that are not wide, in a loop too short to be divided where the
    /// predicate changes.
    gate_in_short_loop: f64 = 1.2, RESNET;
    /// The price of a predicate that is not the same for all lanes.
    gate_of_lanes: f64 = 1.0, RESNET;
    /// The price of a load or store of one lane of a vector.
    element: f64 = 1.2, BENCH;
    /// The price per lane of a predicated vector without masked loads.
    gated_element: f64 = 3.0, BENCH;
    /// The factor for a predicated vector with masked loads.
    masked: f64 = 1.3, BENCH;
    /// The price of a scalar that all lanes share.
    broadcast: f64 = 0.5, BENCH;
    /// The price of combining the lanes of a reduction whose own loop is a vector: each result waits for its lanes alone.
    horizontal: f64 = 20.0, BENCH;
    /// The price of adding the upper half of a vector to the lower one: a shuffle and an addition.
    half_added: f64 = 2.0, OPTIMIZATION;
    /// The same of two vectors at once, whose halves two shuffles bring together.
    halves_added: f64 = 3.0, OPTIMIZATION;
    /// The price of combining the lanes of a vector at the end of a loop.
    horizontal_of_loop: f64 = 16.0, BENCH;
    /// The price that a vector along a reduction adds to that of one along outputs.
    along_reduction: f64 = 0.5, BENCH;

    /// The price of copying an element in vectors.
    copy: f64 = 0.4, BENCH;
    /// The price of copying an element in predicated vectors.
    gated_copy: f64 = 1.2, RESNET;
    /// The price of copying elements one by one across their memory, for each.
    transpose: f64 = 1.6, BENCH;
    /// The price of a line from the second cache.
    second_line: f64 = 2.0, BENCH;
    /// The price of a line from the last cache or from memory.
    far_line: f64 = 8.0, RESNET;
    /// The price of a line that results of a tile are stored to one by one, from the second cache. Stores are done in
    /// order: nothing hides it.
    second_result: f64 = 8.0, RESNET;
    /// The same from the last cache or from memory.
    far_result: f64 = 40.0, RESNET;
    /// The price of a line that is read contiguously.
    line_in_a_row: f64 = 0.7, RESNET;
    /// The price that a line of a tile's panel in the second cache adds to a step.
    panel_line: f64 = 0.1, RESNET;
    /// Cycles in which such a line comes to the first cache: 32 bytes in a clock cycle, in which two units start an operation. As
    /// many as operations on vectors of eight lanes; wide ones count as more.
    panel_line_time: f64 = 4.0, RESNET;
    /// How many times as long a line of a panel takes from the last cache, if all of the panel is read in order.
    far_panel_line: f64 = 1.5, RESNET;
    /// The price that a line from the second cache adds to a step of an inner product.
    second_line_in_a_row: f64 = 0.5, BENCH;
    /// Ways of a cache: how many lines it holds whose addresses differ by a multiple of the size of a way.
    ways: usize = 8, OPTIMIZATION;
    /// Bytes of a page of memory.
    page_bytes: f64 = 4096.0, OPTIMIZATION;
    /// Pages whose places a core finds at once: entries of the first translation lookaside buffer (TLB), 64 to 96.
    near_pages: f64 = 64.0, TABLES;
    /// The price of a page that is in the second such buffer: 7 clock cycles.
    far_page: f64 = 14.0, BENCH;
    /// Data that are read again may fill one part in this many of a cache, while other data pass.
    cache_share: usize = 4, BENCH;

    /// The usual length of those that a kernel is for, as a part of the way from the least to the largest on a logarithmic scale.
    /// The largest is four to eight times the longest that has been seen (`optimize/general`).
    usual_launch: f64 = 0.6, BENCH;
    /// The same of a shorter one.
    short_launch: f64 = 0.4, BENCH;
    /// The same of a longer one.
    long_launch: f64 = 0.8, BENCH;

    /// The factor for tiles whose rows do not divide their loop.
    ragged_rows: f64 = 1.1, BENCH;
    /// The same for blocks of rows between two nests.
    ragged_blocks: f64 = 1.05, BENCH;
    /// The overhead of a block, in rows.
    block: f64 = 2.0, BENCH;
    /// The factor for threads that copy the same operands.
    copies_of_all: f64 = 1.1, BENCH;
    /// Rows that one nest computes before the next nest, at most.
    most_rows: usize = 64, BENCH;
    /// Iterations of a loop beside a tile that share a panel because their windows overlap, at most.
    overlapping_rows: usize = 4, RESNET;
    /// Iterations of a reduction's block, at least.
    least_depth: usize = 32, BENCH;

    /// Vectors of a tile along its lanes, at most.
    most_across: usize = 8, BENCH;
    /// Iterations of one loop in such a tile, at most.
    most_tiled: usize = 4, BENCH;
    /// A filter stays in registers for at least so many sums of its lanes. For 28 of them, the sums of two rows of 14, a
    /// convolution of 3 x 3 took 8 us instead of 14.
    sums_for_registers: usize = 16, BENCH;
    /// A filter that is copied is for at least so many. For 28 a convolution of 5 x 5 took 60 us instead of 52, for 56 it took 70
    /// instead of 80.
    sums_for_copy: usize = 48, BENCH;
    /// At most so many iterations of one loop pass by before the next channels.
    most_passing: usize = 64, BENCH;
    /// Vectors that are unrolled at most, to share what varies over lanes only.
    most_written_out: usize = 8, BENCH;
    /// Reductions of at most this many iterations are unrolled whole.
    unroll_whole: usize = 5, BENCH;
    /// The most terms of a reduction that are unrolled, in all of its loops together. If there are more, LLVM keeps values in memory:
    /// with 4 x 3 x 3 terms for each of 7 rows, 267 instructions used the stack; with 3 x 3, 2 did.
    most_unrolled: usize = 32, BENCH;
    /// Steps that must be left of a loop, or unrolling it does not pay.
    fewest_steps: usize = 8, BENCH;

    /// Bytes that a step of a reduction across rows should read contiguously.
    run_bytes: usize = 1024, BENCH;
    /// Bytes of each row that a thread should read: with fewer, threads fetch the same cache lines.
    thread_run_bytes: usize = 256, BENCH;
    /// Bytes of a thread's part of a row from which on sums carried in scratch pay, if its rows come from memory.
    long_row_bytes: usize = 1024, BENCH;
    /// The same, if they come from a cache: a page.
    cached_row_bytes: usize = 4096, OPTIMIZATION;
    /// Rows that are read at a time with carried sums.
    rows_at_a_time: usize = 8, BENCH;
    /// Rows that such a reduction must have.
    many_rows: usize = 64, BENCH;
    /// Vectors side by side in a step over carried sums.
    side_by_side: usize = 4, BENCH;

    /// Side of the square that a transpose handles at a time, at most.
    transposed_side: usize = 16, BENCH;
    /// The overhead of a block of a transpose, in iterations.
    transposed_block: f64 = 4.0, Source::Fitted("cargo bench -p kiln --bench regret");
    /// Lanes that are loaded or stored one by one, at most.
    most_apart: usize = 1024, BENCH;
    /// Pages whose addresses a processor keeps at hand (TLB).
    pages: usize = 256, BENCH;

    /// Cycles in which a matrix unit multiplies two matrices.
    matrix_product: f64 = 24.0, Source::Manual("Intel, Optimization reference manual, 2024, AMX");
    /// Cycles in which it loads a matrix from the second cache.
    matrix_load: f64 = 16.0, Source::Manual("Intel, Optimization reference manual, 2024, AMX");
    /// The price per result of storing it to scratch and reading it again.
    through_scratch: f64 = 0.2, BENCH;

    /// Nodes of code for an access: itself, and its index.
    access_nodes: usize = 2, Source::Manual("this program's own text");
}

/// What follows from the numbers.
impl Costs {
    /// Cycles of an operation on a vector of so many lanes.
    pub(crate) fn width(&self, lanes: usize) -> f64 {
        if lanes < self.wide_lanes { 1.0 } else { self.wide }
    }

    /// Lanes worth trying for a loop of `n`: powers of two that divide it, or, if masks are cheap, any.
    pub(crate) fn widths(
        &self,
        n: usize,
        most: usize,
        masks: bool,
    ) -> impl Iterator<Item = usize> + use<> {
        let least = self.least_lanes;
        // a loop that is no longer than the narrowest vector is not worth a mask
        let fits = move |by: &usize| n.is_multiple_of(*by) || masks && n > least && n > *by / 2;
        let powers = std::iter::successors(Some(least), |by| Some(2 * by));
        powers.take_while(move |&by| by <= most && n > 0).filter(fits)
    }

    /// Cycles to copy an element, as one of a row in memory or across it.
    pub(crate) fn copy(&self, in_a_row: bool) -> f64 {
        if in_a_row { self.copy } else { self.transpose }
    }
}

/// By value: two descriptions with the same numbers are the same.
impl PartialEq for Costs {
    fn eq(&self, other: &Costs) -> bool {
        self.values().map(f64::to_bits).eq(other.values().map(f64::to_bits))
    }
}

impl Eq for Costs {}

impl Hash for Costs {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.values().for_each(|value| value.to_bits().hash(state));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_says_what_it_is() {
        let rows = Costs::CPU.rows();
        assert!(rows.iter().all(|row| row.what.ends_with('.') && row.value > 0.0));
        let longest = rows.iter().map(|row| row.name.len()).max();
        assert!(longest < Some(24), "{longest:?}");
    }

    #[test]
    fn descriptions_are_compared_by_value() {
        let dearer = Costs { launch_ns: 1e9, ..Costs::CPU };
        assert!(dearer != Costs::CPU && dearer == Costs { launch_ns: 1e9, ..dearer });
    }
}
