//! Relocations: how an address is written into code. Plain arithmetic on bytes; nothing here touches memory that is
//! mapped.

/// What the address in a relocation refers to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Refers {
    /// To the symbol itself.
    Symbol,
    /// To a function, which may be reached by way of a stub.
    Function,
    /// To a slot that holds the symbol's address.
    Slot,
}

/// A relocation type of the host's architecture.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Kind {
    pub(super) refers: Refers,
    write: Write,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Write {
    Abs64,
    Abs32,
    Signed32,
    Rel64,
    Rel32,
    /// AArch64: a branch of 26 bits, in words.
    Branch26,
    /// AArch64: the distance in pages, split over an `adrp`.
    Page21,
    /// AArch64: the low 12 bits in units of `1 << n`.
    Low12(u32),
}

/// The meaning of a type number; none if code for kernels has no business using it.
pub(super) fn kind(number: u32) -> Option<Kind> {
    let of = |refers, write| Some(Kind { refers, write });
    if cfg!(target_arch = "aarch64") { aarch64(number, of) } else { x86_64(number, of) }
}

fn x86_64(number: u32, of: impl Fn(Refers, Write) -> Option<Kind>) -> Option<Kind> {
    match number {
        1 => of(Refers::Symbol, Write::Abs64),
        // A plain 32-bit distance is also what older assemblers write for a call.
        2 | 4 => of(Refers::Function, Write::Rel32),
        9 | 41 | 42 => of(Refers::Slot, Write::Rel32),
        10 => of(Refers::Symbol, Write::Abs32),
        11 => of(Refers::Symbol, Write::Signed32),
        24 => of(Refers::Symbol, Write::Rel64),
        _ => None,
    }
}

/// Written from the ABI document; not yet run on such a processor.
fn aarch64(number: u32, of: impl Fn(Refers, Write) -> Option<Kind>) -> Option<Kind> {
    match number {
        257 => of(Refers::Symbol, Write::Abs64),
        260 => of(Refers::Symbol, Write::Rel64),
        261 => of(Refers::Symbol, Write::Rel32),
        275 => of(Refers::Symbol, Write::Page21),
        277 | 278 => of(Refers::Symbol, Write::Low12(0)),
        284 => of(Refers::Symbol, Write::Low12(1)),
        285 => of(Refers::Symbol, Write::Low12(2)),
        286 => of(Refers::Symbol, Write::Low12(3)),
        299 => of(Refers::Symbol, Write::Low12(4)),
        282 | 283 => of(Refers::Function, Write::Branch26),
        311 => of(Refers::Slot, Write::Page21),
        312 => of(Refers::Slot, Write::Low12(3)),
        _ => None,
    }
}

/// Writes `target` (addend included) at the start of `bytes`, which will run at address `place`.
pub(super) fn write(kind: Kind, bytes: &mut [u8], place: u64, target: u64) -> Result<(), String> {
    let distance = target.wrapping_sub(place) as i64;
    let far = || format!("address {target:#x} is too far from {place:#x}");
    match kind.write {
        Write::Abs64 => put(bytes, target.to_le_bytes()),
        Write::Rel64 => put(bytes, distance.to_le_bytes()),
        Write::Abs32 => put(bytes, u32::try_from(target).map_err(|_| far())?.to_le_bytes()),
        Write::Signed32 => {
            put(bytes, i32::try_from(target as i64).map_err(|_| far())?.to_le_bytes())
        }
        Write::Rel32 => put(bytes, i32::try_from(distance).map_err(|_| far())?.to_le_bytes()),
        Write::Branch26 => {
            let words = signed_field(distance >> 2, 26).ok_or_else(far)?;
            patch(bytes, 0x03ff_ffff, words)
        }
        Write::Page21 => {
            let pages = ((target >> 12) as i64).wrapping_sub((place >> 12) as i64);
            let pages = signed_field(pages, 21).ok_or_else(far)?;
            patch(bytes, 0x60ff_ffe0, (pages & 3) << 29 | (pages >> 2) << 5)
        }
        Write::Low12(shift) => patch(bytes, 0x003f_fc00, (target as u32 & 0xfff) >> shift << 10),
    }
}

/// The low `bits` of a number that fits them as a signed one.
fn signed_field(value: i64, bits: u32) -> Option<u32> {
    let half = 1i64 << (bits - 1);
    (-half..half).contains(&value).then_some(value as u32 & ((1 << bits) - 1))
}

fn put<const N: usize>(bytes: &mut [u8], value: [u8; N]) -> Result<(), String> {
    let field = bytes.get_mut(..N).ok_or("a relocation past the end of its section")?;
    field.copy_from_slice(&value);
    Ok(())
}

/// Replaces the bits of an instruction that the mask covers.
fn patch(bytes: &mut [u8], mask: u32, value: u32) -> Result<(), String> {
    let field = bytes.first_chunk().ok_or("a relocation past the end of its section")?;
    let old = u32::from_le_bytes(*field);
    put(bytes, (old & !mask | value & mask).to_le_bytes())
}
