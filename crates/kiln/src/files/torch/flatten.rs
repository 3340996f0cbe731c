//! Tensors of nested dictionaries and lists, by the keys that lead to them.

use super::values::{Id, Loaded, Value};
use std::collections::BTreeSet;

/// Deeper nesting is taken for damage.
const MOST_DEEP: usize = 200;

/// How many bytes of names, and how many values, a byte of the pickle can stand for: values may be there several times.
const MOST_GROWTH: usize = 64;

/// So many more are always allowed.
const ANYWAY: usize = 1 << 16;

/// The names of tensors, and which tensors they are. `len` is the size of the pickle.
pub(super) fn flatten(loaded: &Loaded, len: usize) -> Result<Vec<(String, usize)>, String> {
    let budget = len.saturating_mul(MOST_GROWTH).saturating_add(ANYWAY);
    let mut walk =
        Walk { values: &loaded.values, found: Vec::new(), names: BTreeSet::new(), budget };
    walk.visit(loaded.root, String::new(), 0)?;
    Ok(walk.found)
}

struct Walk<'a> {
    values: &'a [Value],
    found: Vec<(String, usize)>,
    names: BTreeSet<String>,
    budget: usize,
}

impl Walk<'_> {
    fn visit(&mut self, id: Id, name: String, depth: usize) -> Result<(), String> {
        self.charge(name.len())?;
        if depth == MOST_DEEP {
            return Err("it is nested too deeply, or contains itself".to_owned());
        }
        match &self.values[id] {
            Value::Tensor(at) if self.names.insert(name.clone()) => {
                self.found.push((name, *at));
                Ok(())
            }
            Value::Tensor(_) => Err(format!("two tensors are named {name:?}")),
            Value::Dict(pairs) => {
                let mut entries = self.entries(pairs, &name)?.into_iter();
                entries.try_for_each(|(name, value)| self.visit(value, name, depth + 1))
            }
            Value::List(ids) | Value::Tuple(ids) => {
                let mut ids = ids.iter().enumerate();
                ids.try_for_each(|(i, &id)| self.visit(id, join(&name, &i.to_string()), depth + 1))
            }
            _ => Ok(()),
        }
    }

    /// Takes one step and so many bytes from the budget.
    fn charge(&mut self, bytes: usize) -> Result<(), String> {
        let left = self.budget.checked_sub(1 + bytes);
        self.budget = left.ok_or("it has more names than its file justifies")?;
        Ok(())
    }

    /// The entries of a dictionary, with names: a key that is set again has the later value.
    fn entries(&mut self, pairs: &[(Id, Id)], name: &str) -> Result<Vec<(String, Id)>, String> {
        let (mut seen, mut entries) = (BTreeSet::new(), Vec::new());
        for &(key, value) in pairs.iter().rev() {
            let name = join(name, &self.key(key)?);
            self.charge(name.len())?;
            if seen.insert(name.clone()) {
                entries.push((name, value));
            }
        }
        entries.reverse();
        Ok(entries)
    }

    fn key(&self, id: Id) -> Result<String, String> {
        match &self.values[id] {
            Value::Text(text) => Ok(text.clone()),
            Value::Int(n) => Ok(n.to_string()),
            other => Err(format!("a key is {other:?}, which is neither text nor a number")),
        }
    }
}

fn join(prefix: &str, key: &str) -> String {
    if prefix.is_empty() { key.to_owned() } else { format!("{prefix}.{key}") }
}
