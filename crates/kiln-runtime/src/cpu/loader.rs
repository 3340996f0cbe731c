//! Loads a relocatable object: places its sections in memory, resolves what it calls, makes the code executable.
//!
//! No page is ever writable and executable at once: everything is written first, then each group of pages gets its
//! final protection. The object's bytes come from a compiler or from our own cache. So they are checked for damage
//! (every offset is bounds-checked), not for malice: whoever can choose the code can run it.

use super::lines::Lines;
use super::reloc::{self, Refers};
use super::symbols;
use crate::error::{Error, Result};
use memmap2::{MmapMut, MmapRaw};
use object::read::{Object, ObjectSection, ObjectSymbol, SymbolIndex};
use object::{RelocationFlags, RelocationTarget, SectionFlags, SectionIndex, SymbolSection};
use rustc_hash::FxHashMap;
use std::ops::Range;

/// The symbol that a kernel's source defines.
const ENTRY: &str = "kiln_entry";

/// The C type of a kernel: buffers by slot, scalars by slot, scratch, and the part of the `Thread` range.
pub(super) type Entry = unsafe extern "C" fn(*const *mut u8, *const i64, *mut u8, lo: i64, hi: i64);

/// Loaded code.
pub(super) struct Code {
    map: MmapRaw,
    entry: usize,
    /// The instructions, without the stubs.
    text: Range<usize>,
    lines: Option<Lines>,
}

/// What a section needs; each access has pages of its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Access {
    Execute,
    Read,
    Write,
}

const ACCESSES: [Access; 3] = [Access::Execute, Access::Read, Access::Write];

/// Offsets of sections in the mapping.
type Placed = FxHashMap<SectionIndex, usize>;

struct Relocation {
    section: SectionIndex,
    offset: u64,
    kind: reloc::Kind,
    target: RelocationTarget,
    addend: i64,
}

/// Where everything goes, as offsets from the start of the mapping.
struct Layout {
    sections: Placed,
    groups: [Range<usize>; 3],
    text: Range<usize>,
    /// Jumps to functions outside, which a 32-bit distance may not reach.
    stubs: FxHashMap<SymbolIndex, usize>,
    /// Cells that hold an address.
    slots: FxHashMap<SymbolIndex, usize>,
}

/// The instructions of one stub, then the address that it jumps to.
#[cfg(not(target_arch = "aarch64"))]
const STUB: &[u8] = &[0xff, 0x25, 0x02, 0, 0, 0, 0x66, 0x90];
#[cfg(target_arch = "aarch64")]
const STUB: &[u8] = &[0x50, 0, 0, 0x58, 0, 0x02, 0x1f, 0xd6];
const STUB_BYTES: usize = STUB.len() + 8;

/// Sections may not ask for more; real ones ask for 64.
const MOST_ALIGN: u64 = 4096;

impl Code {
    /// Loads an object that defines `kiln_entry`.
    pub(super) fn load(bytes: &[u8]) -> Result<Code> {
        let file = object::File::parse(bytes).map_err(load_error)?;
        let relocations = relocations(&file)?;
        let layout = layout(&file, &relocations)?;
        let mut map = MmapMut::map_anon(layout.groups[2].end.max(1)).map_err(load_error)?;
        fill(&file, &layout, &mut map)?;
        relocate(&file, &layout, &relocations, &mut map)?;
        let entry = find_entry(&file, &layout)?;
        let lines = Lines::read(&file, |relocation| in_text(&file, &layout, relocation));
        let map = MmapRaw::from(map);
        protect(&map, &layout)?;
        Ok(Code { map, entry, text: layout.text, lines })
    }

    /// The function. It lives as long as `self`.
    pub(super) fn entry(&self) -> Entry {
        let address = self.map.as_ptr().wrapping_add(self.entry);
        // SAFETY: `find_entry` found a function there; kernels have this type by construction of their source.
        unsafe { std::mem::transmute::<*const u8, Entry>(address) }
    }

    /// About how much memory it takes: pages, and what the system knows of them.
    pub(super) fn size(&self) -> usize {
        const OF_A_MAPPING: usize = 1024;
        self.map.len() + OF_A_MAPPING + self.lines.as_ref().map_or(0, Lines::size)
    }

    /// The lines of the instructions, if the object tells.
    pub(super) fn lines(&self) -> Option<&Lines> {
        self.lines.as_ref()
    }

    /// The bytes of the instructions.
    pub(super) fn text(&self) -> &[u8] {
        // SAFETY: within the mapping, which is readable and no longer changes.
        unsafe {
            std::slice::from_raw_parts(self.map.as_ptr().add(self.text.start), self.text.len())
        }
    }
}

fn load_error(why: impl ToString) -> Error {
    Error::Load(why.to_string())
}

/// What a section needs at run time; none if it is not loaded. Unwind tables are left out: nothing unwinds.
fn access<'a>(section: &impl ObjectSection<'a>) -> Option<Access> {
    let SectionFlags::Elf { sh_flags } = section.flags() else { return None };
    let has = |flag: u32| sh_flags & u64::from(flag) != 0;
    if !has(object::elf::SHF_ALLOC) || section.name() == Ok(".eh_frame") || section.size() == 0 {
        None
    } else if has(object::elf::SHF_EXECINSTR) {
        Some(Access::Execute)
    } else if has(object::elf::SHF_WRITE) {
        Some(Access::Write)
    } else {
        Some(Access::Read)
    }
}

fn relocations(file: &object::File<'_>) -> Result<Vec<Relocation>> {
    let mut all = Vec::new();
    for section in file.sections().filter(|section| access(section).is_some()) {
        for (offset, relocation) in section.relocations() {
            let RelocationFlags::Elf { r_type } = relocation.flags() else {
                return Err(load_error("not an ELF object"));
            };
            let kind = reloc::kind(r_type)
                .ok_or_else(|| load_error(format!("relocation type {r_type} is not supported")))?;
            let (target, addend) = (relocation.target(), relocation.addend());
            all.push(Relocation { section: section.index(), offset, kind, target, addend });
        }
    }
    Ok(all)
}

fn layout(file: &object::File<'_>, relocations: &[Relocation]) -> Result<Layout> {
    let mut layout = Layout {
        sections: Placed::default(),
        groups: [0..0, 0..0, 0..0],
        text: 0..0,
        stubs: FxHashMap::default(),
        slots: FxHashMap::default(),
    };
    let page = page_size();
    let mut end = 0;
    for (group, wanted) in ACCESSES.into_iter().enumerate() {
        let start = end;
        for section in file.sections().filter(|section| access(section) == Some(wanted)) {
            end = place(&mut layout.sections, &section, end)?;
        }
        match wanted {
            Access::Execute => {
                layout.text = start..end;
                end = add_stubs(&mut layout.stubs, file, relocations, end)?;
            }
            Access::Read => end = add_slots(&mut layout.slots, relocations, end),
            Access::Write => {}
        }
        end = end.next_multiple_of(page);
        layout.groups[group] = start..end;
    }
    Ok(layout)
}

fn place<'a>(placed: &mut Placed, section: &impl ObjectSection<'a>, end: usize) -> Result<usize> {
    if section.align() > MOST_ALIGN || section.size() > isize::MAX as u64 / 4 {
        return Err(load_error("a section of absurd size or alignment"));
    }
    let start = end.next_multiple_of(section.align().max(1) as usize);
    placed.insert(section.index(), start);
    Ok(start + section.size() as usize)
}

fn add_stubs(
    stubs: &mut FxHashMap<SymbolIndex, usize>,
    file: &object::File<'_>,
    relocations: &[Relocation],
    end: usize,
) -> Result<usize> {
    let mut end = end.next_multiple_of(STUB_BYTES);
    for relocation in relocations.iter().filter(|r| r.kind.refers == Refers::Function) {
        let RelocationTarget::Symbol(index) = relocation.target else { continue };
        if file.symbol_by_index(index).map_err(load_error)?.is_undefined() {
            stubs.entry(index).or_insert_with(|| bump(&mut end, STUB_BYTES));
        }
    }
    Ok(end)
}

fn add_slots(
    slots: &mut FxHashMap<SymbolIndex, usize>,
    relocations: &[Relocation],
    end: usize,
) -> usize {
    let mut end = end.next_multiple_of(8);
    for relocation in relocations.iter().filter(|r| r.kind.refers == Refers::Slot) {
        if let RelocationTarget::Symbol(index) = relocation.target {
            slots.entry(index).or_insert_with(|| bump(&mut end, 8));
        }
    }
    end
}

/// Takes `bytes` at the end; returns where they start.
fn bump(end: &mut usize, bytes: usize) -> usize {
    *end += bytes;
    *end - bytes
}

/// Writes the contents of sections, stubs and slots.
fn fill(file: &object::File<'_>, layout: &Layout, map: &mut MmapMut) -> Result<()> {
    for (&index, &start) in &layout.sections {
        let section = file.section_by_index(index).map_err(load_error)?;
        let data = section.data().map_err(load_error)?;
        map[start..start + data.len()].copy_from_slice(data);
    }
    let base = map.as_ptr() as u64;
    for (&index, &start) in &layout.stubs {
        let target = symbol_address(file, layout, base, index)?;
        map[start..start + STUB.len()].copy_from_slice(STUB);
        map[start + STUB.len()..start + STUB_BYTES].copy_from_slice(&target.to_le_bytes());
    }
    for (&index, &start) in &layout.slots {
        let target = symbol_address(file, layout, base, index)?;
        map[start..start + 8].copy_from_slice(&target.to_le_bytes());
    }
    Ok(())
}

fn relocate(
    file: &object::File<'_>,
    layout: &Layout,
    relocations: &[Relocation],
    map: &mut MmapMut,
) -> Result<()> {
    let base = map.as_ptr() as u64;
    for relocation in relocations {
        let target = target(file, layout, base, relocation)?.wrapping_add(relocation.addend as u64);
        let section = file.section_by_index(relocation.section).map_err(load_error)?;
        if relocation.offset > section.size() {
            return Err(load_error("a relocation past the end of its section"));
        }
        let start = layout.sections[&relocation.section];
        let at = start + relocation.offset as usize;
        let bytes = &mut map[at..start + section.size() as usize];
        reloc::write(relocation.kind, bytes, base + at as u64, target).map_err(load_error)?;
    }
    Ok(())
}

/// The address that a relocation refers to, without its addend.
fn target(
    file: &object::File<'_>,
    layout: &Layout,
    base: u64,
    relocation: &Relocation,
) -> Result<u64> {
    match relocation.target {
        RelocationTarget::Symbol(index) => {
            let aside = match relocation.kind.refers {
                Refers::Symbol => None,
                Refers::Function => layout.stubs.get(&index),
                Refers::Slot => layout.slots.get(&index),
            };
            aside.map_or_else(
                || symbol_address(file, layout, base, index),
                |offset| Ok(base + *offset as u64),
            )
        }
        RelocationTarget::Section(index) => section_address(layout, base, index),
        RelocationTarget::Absolute => Ok(0),
        _ => Err(load_error("an unknown relocation target")),
    }
}

fn section_address(layout: &Layout, base: u64, index: SectionIndex) -> Result<u64> {
    let offset = layout.sections.get(&index);
    offset.map(|o| base + *o as u64).ok_or_else(|| load_error("an address in a section not loaded"))
}

fn symbol_address(
    file: &object::File<'_>,
    layout: &Layout,
    base: u64,
    index: SymbolIndex,
) -> Result<u64> {
    let symbol = file.symbol_by_index(index).map_err(load_error)?;
    match symbol.section() {
        SymbolSection::Section(index) => {
            Ok(section_address(layout, base, index)?.wrapping_add(symbol.address()))
        }
        SymbolSection::Absolute => Ok(symbol.address()),
        _ => {
            let name = symbol.name().map_err(load_error)?;
            let address = symbols::resolve(name).ok_or_else(|| {
                load_error(format!("it calls `{name}`, which kiln does not provide"))
            })?;
            Ok(address as u64)
        }
    }
}

/// The offset of the entry in the mapping.
fn find_entry(file: &object::File<'_>, layout: &Layout) -> Result<usize> {
    let symbol = file
        .symbols()
        .find(|symbol| symbol.name() == Ok(ENTRY) && !symbol.is_undefined())
        .ok_or_else(|| load_error(format!("it does not define `{ENTRY}`")))?;
    let offset = symbol_address(file, layout, 0, symbol.index())? as usize;
    match layout.text.contains(&offset) {
        true => Ok(offset),
        false => Err(load_error(format!("`{ENTRY}` is not a function"))),
    }
}

/// The offset in `text` that a relocation refers to.
fn in_text(
    file: &object::File<'_>,
    layout: &Layout,
    relocation: &object::Relocation,
) -> Option<u64> {
    let RelocationTarget::Symbol(index) = relocation.target() else { return None };
    let symbol = symbol_address(file, layout, 0, index).ok()?;
    symbol.checked_add_signed(relocation.addend())?.checked_sub(layout.text.start as u64)
}

/// Gives each group of pages its final protection.
fn protect(map: &MmapRaw, layout: &Layout) -> Result<()> {
    for (access, range) in ACCESSES.into_iter().zip(&layout.groups) {
        let flags = match access {
            Access::Execute => libc::PROT_READ | libc::PROT_EXEC,
            Access::Read => libc::PROT_READ,
            Access::Write => libc::PROT_READ | libc::PROT_WRITE,
        };
        if range.is_empty() {
            continue;
        }
        // SAFETY: whole pages of our own mapping; no Rust reference into it exists.
        let status =
            unsafe { libc::mprotect(map.as_mut_ptr().add(range.start).cast(), range.len(), flags) };
        if status != 0 {
            return Err(load_error(std::io::Error::last_os_error()));
        }
    }
    flush_instructions(map);
    Ok(())
}

/// Processors with separate instruction caches must be told of new code.
#[cfg(target_arch = "aarch64")]
fn flush_instructions(map: &MmapRaw) {
    unsafe extern "C" {
        fn __clear_cache(start: *mut libc::c_void, end: *mut libc::c_void);
    }
    // SAFETY: the bounds of our own mapping.
    unsafe { __clear_cache(map.as_mut_ptr().cast(), map.as_mut_ptr().add(map.len()).cast()) }
}

#[cfg(not(target_arch = "aarch64"))]
fn flush_instructions(_: &MmapRaw) {}

fn page_size() -> usize {
    // SAFETY: asks for a constant.
    let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(size).unwrap_or(4096).max(4096)
}
