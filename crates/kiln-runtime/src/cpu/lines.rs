//! Source lines of instructions: the line table that a compiler writes into an object for debuggers.

use gimli::{DebugLine, DebugLineOffset, EndianSlice, RelocateReader, RunTimeEndian};
use object::Relocation;
use object::read::{Object, ObjectSection};
use rustc_hash::FxHashMap;

/// The section that has the table.
const SECTION: &str = ".debug_line";

/// The lines of code, by offset in it.
pub(super) struct Lines {
    /// Where instructions of another line begin, in order; none where they are of no line.
    starts: Vec<(u64, Option<u32>)>,
}

/// What the relocations of the table put into it, by their places.
#[derive(Debug, Clone, Copy)]
struct Moved<'a>(&'a FxHashMap<usize, u64>);

impl gimli::Relocate<usize> for Moved<'_> {
    fn relocate_address(&self, offset: usize, value: u64) -> gimli::Result<u64> {
        Ok(self.0.get(&offset).copied().unwrap_or(value))
    }

    fn relocate_offset(&self, _: usize, value: usize) -> gimli::Result<usize> {
        Ok(value)
    }
}

impl Lines {
    /// The table of an object, if it has one that can be read. `offset` is the place in the code that a relocation refers
    /// to, if it is there.
    pub(super) fn read(
        file: &object::File<'_>,
        offset: impl Fn(&Relocation) -> Option<u64>,
    ) -> Option<Lines> {
        let section = file.section_by_name(SECTION)?;
        let moved = section.relocations();
        let moved = moved.filter_map(|(at, r)| Some((at as usize, offset(&r)?))).collect();
        let starts = starts(section.data().ok()?, file.is_little_endian(), &moved);
        starts.ok().map(|starts| Lines { starts })
    }

    /// The line of the instruction at this offset.
    pub(super) fn of(&self, at: usize) -> Option<u32> {
        let after = self.starts.partition_point(|(start, _)| *start <= at as u64);
        self.starts[..after].last().and_then(|(_, line)| *line)
    }

    /// About how much memory it takes.
    pub(super) fn size(&self) -> usize {
        size_of_val(&*self.starts)
    }
}

fn starts(
    table: &[u8],
    is_little: bool,
    moved: &FxHashMap<usize, u64>,
) -> gimli::Result<Vec<(u64, Option<u32>)>> {
    let endian = if is_little { RunTimeEndian::Little } else { RunTimeEndian::Big };
    let reader = RelocateReader::new(EndianSlice::new(table, endian), Moved(moved));
    let program = DebugLine::from(reader).program(DebugLineOffset(0), 8, None, None)?;
    let (mut rows, mut starts) = (program.rows(), Vec::new());
    while let Some((_, row)) = rows.next_row()? {
        let line = row.line().filter(|_| !row.end_sequence());
        starts.push((row.address(), line.and_then(|line| u32::try_from(line.get()).ok())));
    }
    // where a section of code ends, another one may begin
    starts.sort_by_key(|(start, line)| (*start, line.is_some()));
    Ok(starts)
}
