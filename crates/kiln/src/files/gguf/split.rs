//! Models in several files, `name-00001-of-00003.gguf` and so on. Each says which part it is, and of how many; the first has
//! the metadata.

use super::model::Gguf;
use super::value::GgufValue;
use crate::error::Fault;
use std::collections::BTreeMap;
use std::path::Path;

const NUMBER: &str = "split.no";
const COUNT: &str = "split.count";
const TENSORS: &str = "split.tensors.count";

/// What reads one file.
type One<'a> = dyn Fn(&Path) -> Result<Gguf, Fault> + 'a;

/// Which of how many parts a file is, counted from 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Part {
    number: u16,
    count: u16,
}

fn fact<N: TryFrom<i64>>(metadata: &BTreeMap<String, GgufValue>, name: &str) -> Option<N> {
    N::try_from(metadata.get(name)?.as_i64()?).ok()
}

impl Part {
    /// What the metadata says, of a file that is not alone.
    pub(super) fn of(metadata: &BTreeMap<String, GgufValue>) -> Option<Part> {
        let count = fact(metadata, COUNT).filter(|&count| count > 1)?;
        Some(Part { number: fact(metadata, NUMBER)?, count })
    }

    /// How the name of its file ends.
    fn ending(self) -> String {
        format!("-{:05}-of-{:05}.gguf", u32::from(self.number) + 1, self.count)
    }

    /// All parts together, of which `path` is this one; `one` reads a file.
    pub(super) fn whole(self, path: &Path, one: &One<'_>) -> Result<Gguf, Fault> {
        let fault = |why: String| Fault::New(format!("{}: {why}", path.display()));
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let Some(stem) = name.strip_suffix(&self.ending()) else {
            return Err(fault(format!("its name does not end with {:?}", self.ending())));
        };
        let parts = (0..self.count).map(|number| {
            let part = Part { number, ..self };
            part.read(&path.with_file_name(format!("{stem}{}", part.ending())), one)
        });
        let whole = parts.reduce(|all, next| joined(all?, next?)).expect("more than one")?;
        let wanted = fact(&whole.metadata, TENSORS).unwrap_or(whole.tensors.len());
        if wanted != whole.tensors.len() {
            return Err(fault(format!("{} tensors of {wanted}", whole.tensors.len())));
        }
        Ok(without_parts(whole))
    }

    /// The file, which has to be this part.
    fn read(self, path: &Path, one: &One<'_>) -> Result<Gguf, Fault> {
        let found = one(path)?;
        match Part::of(&found.metadata) {
            Some(part) if part == self => Ok(found),
            part => Err(Fault::New(format!("{}: it says {part:?}", path.display()))),
        }
    }
}

/// The metadata of the first, and the tensors of both.
fn joined(mut all: Gguf, next: Gguf) -> Result<Gguf, Fault> {
    for (name, tensor) in next.tensors {
        if all.tensors.insert(name.clone(), tensor).is_some() {
            return Err(Fault::New(format!("two tensors of the parts are named {name:?}")));
        }
    }
    Ok(all)
}

/// What is whole is no part any more.
fn without_parts(mut whole: Gguf) -> Gguf {
    for name in [NUMBER, COUNT, TENSORS] {
        whole.metadata.remove(name);
    }
    whole
}
