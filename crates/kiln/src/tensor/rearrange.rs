//! Axes by names: `"b (h w) c -> b c h w"`.

use super::Tensor;
use crate::error::{Fault, refuse};
use kiln_ir::arg::{Axes, Shape};

/// A named axis, one of length 1, or all that have no name.
#[derive(Clone, PartialEq, Debug)]
enum Name {
    Axis(String),
    One,
    Rest,
}

/// One side of a pattern: names, in groups that are one axis each.
type Side = Vec<Vec<Name>>;

fn name(word: &str) -> Result<Name, Fault> {
    match word {
        "..." => Ok(Name::Rest),
        "1" => Ok(Name::One),
        _ if word.chars().all(|c| c.is_alphanumeric() || c == '_') => {
            Ok(Name::Axis(word.to_owned()))
        }
        _ => refuse!("{word:?} is no name of an axis"),
    }
}

fn side(text: &str) -> Result<Side, Fault> {
    let spaced = text.replace('(', " ( ").replace(')', " ) ");
    let (mut groups, mut open): (Side, Option<Vec<Name>>) = (Vec::new(), None);
    for word in spaced.split_whitespace() {
        match (word, open.take()) {
            ("(", None) => open = Some(Vec::new()),
            // an axis of length 1 beside it tells `(...)`, which is one axis, from `...`
            (")", Some(group)) if group == [Name::Rest] => groups.push(vec![Name::Rest, Name::One]),
            (")", Some(group)) => groups.push(group),
            ("(" | ")", _) => return refuse!("brackets do not match in {text:?}"),
            (word, Some(mut group)) => {
                group.push(name(word)?);
                open = Some(group);
            }
            (word, None) => groups.push(vec![name(word)?]),
        }
    }
    match open {
        Some(_) => refuse!("a bracket is open in {text:?}"),
        None => Ok(groups),
    }
}

/// The names of a side in order; none twice.
fn flat(side: &Side) -> Result<Vec<&Name>, Fault> {
    let names: Vec<&Name> = side.iter().flatten().filter(|n| **n != Name::One).collect();
    match names.iter().enumerate().find(|(i, n)| names[..*i].contains(n)) {
        Some((_, twice)) => refuse!("{twice:?} stands twice on one side"),
        None => Ok(names),
    }
}

/// Both sides of a pattern, and the lengths that are given.
struct Pattern<'a> {
    from: Side,
    to: Side,
    given: &'a [(&'a str, usize)],
}

impl Pattern<'_> {
    fn new<'a>(text: &str, given: &'a [(&'a str, usize)]) -> Result<Pattern<'a>, Fault> {
        let Some((from, to)) = text.split_once("->") else {
            return refuse!("no -> in {text:?}");
        };
        let (from, to) = (side(from)?, side(to)?);
        let (mut left, mut right) = (flat(&from)?, flat(&to)?);
        for names in [&mut left, &mut right] {
            names.sort_by_key(|n| format!("{n:?}"));
        }
        if left != right {
            return refuse!("both sides of {text:?} must name the same axes");
        }
        if let Some((unknown, _)) =
            given.iter().find(|(n, _)| !left.contains(&&Name::Axis((*n).to_owned())))
        {
            return refuse!("{unknown:?} is no axis of {text:?}");
        }
        if from.iter().any(|group| group.len() > 1 && group.contains(&Name::Rest)) {
            return refuse!("... stands in brackets on the left of {text:?}");
        }
        Ok(Pattern { from, to, given })
    }

    fn length(&self, name: &Name) -> Option<usize> {
        match name {
            Name::One => Some(1),
            Name::Axis(name) => self.given.iter().find(|(n, _)| n == name).map(|(_, len)| *len),
            Name::Rest => None,
        }
    }

    /// The lengths of the names in a group that is an axis of `n`; one may be open.
    fn divided(&self, group: &[Name], n: usize) -> Result<Vec<usize>, Fault> {
        let lengths: Vec<Option<usize>> = group.iter().map(|name| self.length(name)).collect();
        let open = lengths.iter().filter(|len| len.is_none()).count();
        let known = lengths.iter().flatten().try_fold(1usize, |all, &len| all.checked_mul(len));
        let fits = |known: &usize| {
            if open == 0 { *known == n } else { *known != 0 && n.is_multiple_of(*known) }
        };
        match known.filter(fits) {
            Some(known) if open <= 1 => {
                Ok(lengths.into_iter().map(|len| len.unwrap_or(n / known.max(1))).collect())
            }
            Some(_) => refuse!("an axis of {n} does not say how long each of {group:?} is"),
            None => refuse!("an axis of {n} cannot be {group:?}, of which {lengths:?} are given"),
        }
    }

    /// Every axis of `shape` as the left side names it, with its length; those without a name together.
    fn named(&self, shape: &[usize]) -> Result<Vec<(Name, Shape)>, Fault> {
        let rest = self.from.iter().position(|group| group.contains(&Name::Rest));
        let groups = self.from.len() - usize::from(rest.is_some());
        let Some(more) =
            shape.len().checked_sub(groups).filter(|&more| rest.is_some() || more == 0)
        else {
            return refuse!("{groups} axes are named, but {shape:?} has {}", shape.len());
        };
        let mut axes = Vec::new();
        let mut at = 0;
        for (i, group) in self.from.iter().enumerate() {
            let width = if Some(i) == rest { more } else { 1 };
            let lengths = &shape[at..at + width];
            at += width;
            if Some(i) == rest {
                axes.push((Name::Rest, lengths.into()));
                continue;
            }
            let parts = self.divided(group, lengths[0])?;
            axes.extend(
                group.iter().cloned().zip(parts.into_iter().map(|n| Shape::from_slice(&[n]))),
            );
        }
        Ok(axes)
    }
}

/// Where the axes that a name stands for begin, and their lengths.
fn find<'a>(axes: &'a [(Name, Shape)], name: &Name) -> (usize, &'a [usize]) {
    let at = axes.iter().position(|(n, _)| n == name).expect("both sides have the same names");
    (axes[..at].iter().map(|(_, lengths)| lengths.len()).sum(), &axes[at].1)
}

impl Tensor {
    /// The axes in another order, split and joined, by names: what stands in brackets is one axis, `...` all that have no
    /// name, `1` an axis of one element. `lengths` says how long the parts of an axis are; one of its parts may be left out.
    /// A view.
    ///
    /// ```
    /// let t = kiln::Tensor::zeros([2, 12, 3]);
    /// assert_eq!(t.rearrange("b (h w) c -> b c h w", &[("w", 4)]).shape(), [2, 3, 3, 4]);
    /// assert_eq!(t.rearrange("... c -> c (...)", &[]).shape(), [3, 24]);
    /// ```
    ///
    /// # Errors
    /// A pattern that names other axes on the right or some twice, or that does not fit the shape.
    #[must_use]
    #[track_caller]
    pub fn rearrange(&self, pattern: &str, lengths: &[(&str, usize)]) -> Tensor {
        self.alias("rearrange", |v| {
            let pattern = Pattern::new(pattern, lengths)?;
            let axes = pattern.named(v.shape())?;
            let split: Shape = axes.iter().flat_map(|(_, lengths)| lengths).copied().collect();
            let named = pattern.to.iter().flatten().filter(|n| **n != Name::One);
            let order: Axes = named
                .flat_map(|n| {
                    let (at, lengths) = find(&axes, n);
                    at..at + lengths.len()
                })
                .collect();
            // axes of length 1 that the right side leaves out go last, where a reshape drops them
            let left_out = (0..split.len()).filter(|i| !order.contains(i));
            let all: Axes = order.iter().copied().chain(left_out).collect();
            Ok(v.reshape(split).permute(all).reshape(joined(&pattern.to, &axes)))
        })
    }
}

/// The shape of a side: the product of each group, or all lengths of `...` that stands alone.
fn joined(side: &Side, axes: &[(Name, Shape)]) -> Shape {
    let lengths = |name: &Name| if *name == Name::One { &[1][..] } else { find(axes, name).1 };
    let group = |group: &Vec<Name>| match group.as_slice() {
        [Name::Rest] => lengths(&Name::Rest).to_vec(),
        names => vec![names.iter().flat_map(lengths).product()],
    };
    side.iter().flat_map(group).collect()
}
