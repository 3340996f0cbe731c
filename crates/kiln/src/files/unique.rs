//! JSON objects in which no name stands twice. (A map would keep one of the two, and which one differs among readers.)

use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};
use std::collections::HashSet;
use std::fmt::{self, Formatter};
use std::marker::PhantomData;

/// The names of an object with their values, in order.
pub(crate) struct Unique<V>(pub(crate) Vec<(String, V)>);

impl<V> Default for Unique<V> {
    fn default() -> Unique<V> {
        Unique(Vec::new())
    }
}

impl<'de, V: Deserialize<'de>> Deserialize<'de> for Unique<V> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Unique<V>, D::Error> {
        from.deserialize_map(Pairs(PhantomData))
    }
}

struct Pairs<V>(PhantomData<V>);

impl<'de, V: Deserialize<'de>> Visitor<'de> for Pairs<V> {
    type Value = Unique<V>;

    fn expecting(&self, to: &mut Formatter<'_>) -> fmt::Result {
        to.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Unique<V>, A::Error> {
        let (mut pairs, mut names) = (Vec::new(), Names::default());
        while let Some(name) = map.next_key::<String>()? {
            names.add(&name)?;
            pairs.push((name, map.next_value()?));
        }
        Ok(Unique(pairs))
    }
}

/// The names of an object so far.
#[derive(Default)]
pub(crate) struct Names(HashSet<String>);

impl Names {
    /// One more name, or why there is none such.
    pub(crate) fn add<E: Error>(&mut self, name: &str) -> Result<(), E> {
        match self.0.insert(name.to_owned()) {
            true => Ok(()),
            false => Err(E::custom(format!("the name {name:?} stands twice"))),
        }
    }
}
