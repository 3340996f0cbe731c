//! Reads a record: a file becomes lines.

use super::file::FORMAT;
use super::line::Line;
use super::parts::Record;
use super::placing::Placing;
use crate::error::{Error, Fault, at_caller, refuse};
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

/// A line may have so many bytes.
const MOST_LINE: u64 = 64 << 20;

impl Record {
    /// Reads a record. Lines that are damaged are left out, and counted.
    ///
    /// ```
    /// assert!(kiln::record::Record::open("no/such/file").is_err());
    /// ```
    ///
    /// # Errors
    /// A file that cannot be read, or that is no record.
    #[track_caller]
    pub fn open(path: impl AsRef<Path>) -> Result<Record, Error> {
        let path = path.as_ref();
        let failed = |why| Fault::Failed(format!("{}: {why}", path.display()));
        let file = File::open(path).map_err(failed);
        at_caller("record", file.and_then(|file| read(BufReader::new(file))))
    }

    /// The same, of a record in memory.
    ///
    /// ```
    /// let text = r#"{"kiln":{"format":3,"program":"p"}}"#;
    /// assert_eq!(kiln::record::Record::parse(text.as_bytes())?.program, "p");
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// Bytes that are no record.
    #[track_caller]
    pub fn parse(bytes: &[u8]) -> Result<Record, Error> {
        at_caller("record", read(bytes))
    }
}

fn read(mut from: impl BufRead) -> Result<Record, Fault> {
    let mut text = Vec::new();
    if next(&mut from, &mut text)? == 0 {
        return refuse!("no record of kiln: it is empty");
    }
    let mut placing = Placing::of(program(&text)?);
    while next(&mut from, &mut text)? > 0 {
        match serde_json::from_slice::<Line>(&text) {
            Ok(line) => placing.add(line),
            Err(_) => placing.damaged(text.len()),
        }
    }
    Ok(placing.record())
}

/// Reads one line; gives its length.
fn next(from: &mut impl BufRead, text: &mut Vec<u8>) -> Result<usize, Fault> {
    text.clear();
    let read = from.by_ref().take(MOST_LINE).read_until(b'\n', text);
    let read = read.map_err(|why| Fault::Failed(why.to_string()))?;
    if read as u64 == MOST_LINE && text.last() != Some(&b'\n') {
        return refuse!("a line has more than {MOST_LINE} bytes");
    }
    Ok(read)
}

/// The program, of a first line.
fn program(line: &[u8]) -> Result<String, Fault> {
    match serde_json::from_slice(line) {
        Ok(Line::Kiln { format: FORMAT, program }) => Ok(program),
        Ok(Line::Kiln { format, .. }) => {
            refuse!("a record of format {format}, this kiln reads {FORMAT}")
        }
        _ => refuse!("no record of kiln"),
    }
}
