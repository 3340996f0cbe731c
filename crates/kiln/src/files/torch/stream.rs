//! The bytes of a pickle. Whoever reads one knows where it starts and not where it ends.

use crate::files::part::Part;

/// How much is read at once.
const CHUNK: usize = 1 << 16;

/// Bytes of a part, from a place on.
pub(super) struct Stream<'a> {
    part: &'a Part<'a>,
    /// Bytes that were read, and how many of them were taken.
    chunk: Vec<u8>,
    taken: usize,
    /// Where the next chunk starts.
    next: usize,
}

impl<'a> Stream<'a> {
    pub(super) fn new(part: &'a Part<'a>) -> Stream<'a> {
        Stream { part, chunk: Vec::new(), taken: 0, next: 0 }
    }

    /// The place of the next byte.
    pub(super) fn at(&self) -> usize {
        self.next - (self.chunk.len() - self.taken)
    }

    /// The next `n` bytes.
    pub(super) fn take(&mut self, n: usize) -> Result<&[u8], String> {
        if self.chunk.len() - self.taken < n {
            self.read(n)?;
        }
        let start = self.taken;
        self.taken += n;
        Ok(&self.chunk[start..self.taken])
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], String> {
        Ok(self.take(N)?.try_into().expect("as many bytes"))
    }

    /// Leaves out `n` bytes, which are not read.
    pub(super) fn skip(&mut self, n: usize) -> Result<(), String> {
        let to = self.at().checked_add(n).filter(|&to| to <= self.part.len());
        self.next = to.ok_or("it ends too early")?;
        (self.chunk, self.taken) = (Vec::new(), 0);
        Ok(())
    }

    /// The bytes up to the end of the line.
    pub(super) fn line(&mut self) -> Result<String, String> {
        let mut line = Vec::new();
        loop {
            match self.array()? {
                [b'\n'] => return String::from_utf8(line).map_err(|e| e.to_string()),
                [byte] => line.push(byte),
            }
        }
    }

    /// Reads until `n` bytes can be taken.
    fn read(&mut self, n: usize) -> Result<(), String> {
        let at = self.at();
        let left = self.part.len() - at;
        if n > left {
            return Err("it ends too early".to_owned());
        }
        let len = n.max(CHUNK).min(left);
        self.chunk = self.part.bytes(at, len).map_err(|_| "it cannot be read".to_owned())?;
        (self.taken, self.next) = (0, at + len);
        Ok(())
    }
}
