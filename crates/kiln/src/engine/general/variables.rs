//! Which numbers of a graph vary, and how they depend on each other.
//!
//! Guessed from the graphs that have been seen. If `n` was 5, 6 and 9 and another number 20, 24 and 36, then that is `4*n`.
//! Each number of each later graph is compared with the guess, so a wrong one finds no graph and changes no result.

use super::form::Form;
use rustc_hash::FxHashMap;

/// What is known of the numbers of graphs that differ in nothing else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Variables {
    /// By variable, the number that is it.
    at: Vec<usize>,
    /// By number, its form.
    of: Vec<u32>,
    /// Each form once.
    forms: Vec<Form>,
}

/// Stands for the form of numbers that are free, until that has its place.
const FREE: u32 = u32::MAX;

impl Variables {
    /// Of these lists of numbers. Those from `starts` on need not depend on the others; of them `free` says which are given
    /// at launch in any case.
    pub(super) fn of(seen: &[&[i64]], starts: usize, free: &[bool]) -> Variables {
        let column = |at: usize| seen.iter().map(|numbers| numbers[at]).collect::<Vec<i64>>();
        let mut first: FxHashMap<Vec<i64>, usize> = FxHashMap::default();
        let mut columns: Vec<(Vec<i64>, usize)> = Vec::new();
        let mut of = Vec::with_capacity(seen[0].len());
        for at in 0..seen[0].len() {
            if at >= starts && free[at - starts] {
                of.push(FREE);
                continue;
            }
            let column = column(at);
            let next = columns.len();
            let known = *first.entry(column.clone()).or_insert(next);
            if known == next {
                columns.push((column, at));
            }
            of.push(known as u32);
        }
        let mut variables: Vec<usize> = Vec::new();
        let mut forms = vec![Form::Free; columns.len()];
        let mut order: Vec<usize> = (0..columns.len()).collect();
        let sums = sums(&columns, &first);
        // the least of numbers that depend on each other is the variable; a sum comes after what it is of
        order.sort_by_key(|&c| {
            let (column, at) = &columns[c];
            let last = sums[c].map(|_| column.iter().max());
            (*at >= starts, last, spread(column), column[0], c)
        });
        for c in order {
            let (column, at) = &columns[c];
            let known: Vec<&[i64]> = variables.iter().map(|&v: &usize| &columns[v].0[..]).collect();
            let sum = || sums[c].and_then(|[a, b]| forms[a].plus(&forms[b]));
            forms[c] = match form(column, &known).or_else(sum) {
                Some(form) => form,
                None if *at >= starts => Form::Free,
                None => {
                    variables.push(c);
                    Form::line(variables.len() - 1, 1, 0)
                }
            };
        }
        let at = variables.into_iter().map(|c| columns[c].1).collect();
        let free = forms.len() as u32;
        forms.push(Form::Free);
        of.iter_mut().filter(|f| **f == FREE).for_each(|f| *f = free);
        Variables { at, of, forms }
    }

    /// Variables that are the numbers `at`, where all numbers have these forms.
    pub(super) fn with(at: Vec<usize>, all: &[Form]) -> Variables {
        let (mut known, mut forms) = (FxHashMap::default(), Vec::new());
        let number = |form: &Form| {
            *known.entry(form.clone()).or_insert_with(|| {
                forms.push(form.clone());
                forms.len() as u32 - 1
            })
        };
        let of = all.iter().map(number).collect();
        Variables { at, of, forms }
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.at.len()
    }

    /// The values of the variables in a graph with these numbers; none if its numbers do not depend on them in this way.
    pub(super) fn point(&self, numbers: &[i64]) -> Option<Vec<i64>> {
        if numbers.len() != self.of.len() {
            return None;
        }
        let point: Vec<i64> = self.at.iter().map(|&at| numbers[at]).collect();
        let values: Vec<Option<i64>> = self.forms.iter().map(|form| form.at(&point)).collect();
        let mut all = self.of.iter().zip(numbers);
        let is_as_guessed = |(&f, &n): (&u32, &i64)| {
            values[f as usize] == Some(n) || self.forms[f as usize] == Form::Free
        };
        all.all(is_as_guessed).then_some(point)
    }

    /// The largest value of each variable in graphs with these numbers.
    pub(super) fn largest<'a>(&self, all: impl Iterator<Item = &'a [i64]> + Clone) -> Vec<i64> {
        let largest = |&at: &usize| all.clone().map(|numbers| numbers[at]).max().unwrap_or(0);
        self.at.iter().map(largest).collect()
    }

    /// All numbers of the graph with these values of the variables; none if one would be negative.
    pub(super) fn numbers(&self, point: &[i64]) -> Option<Vec<usize>> {
        let values = self.forms.iter().map(|form| form.at(point)?.try_into().ok());
        let values: Vec<usize> = values.collect::<Option<_>>()?;
        Some(self.of.iter().map(|&f| values[f as usize]).collect())
    }

    /// Those of a graph's numbers that vary.
    pub(super) fn varying(&self, numbers: &[i64]) -> Vec<i64> {
        let varies = |(f, _): &(&u32, &i64)| matches!(self.forms[**f as usize], Form::Sum { .. });
        let mut all: Vec<i64> =
            self.of.iter().zip(numbers).filter(varies).map(|(_, n)| *n).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Whether the number is given at launch.
    pub(super) fn is_free(&self, number: usize) -> bool {
        self.forms[self.of[number] as usize] == Form::Free
    }

    /// The numbers that are the same in all graphs.
    pub(super) fn fixed(&self) -> impl Iterator<Item = i64> + '_ {
        self.forms.iter().filter_map(|form| match form {
            Form::Fixed(n) => Some(*n),
            _ => None,
        })
    }
}

/// More columns than this are not compared in pairs.
const MOST_COMPARED: usize = 256;

/// By column: two others that it is the sum of in each graph. Example: the rows of two tensors, and of both joined.
fn sums(
    columns: &[(Vec<i64>, usize)],
    place: &FxHashMap<Vec<i64>, usize>,
) -> Vec<Option<[usize; 2]>> {
    let mut found = vec![None; columns.len()];
    let varies = |c: &usize| spread(&columns[*c].0) > 0 && columns[*c].0.iter().all(|&n| n > 0);
    let varying: Vec<usize> = (0..columns.len()).filter(varies).take(MOST_COMPARED).collect();
    for (i, &a) in varying.iter().enumerate() {
        for &b in &varying[..i] {
            let add = |(x, y): (&i64, &i64)| x.checked_add(*y);
            let sum: Option<Vec<i64>> = columns[a].0.iter().zip(&columns[b].0).map(add).collect();
            if let Some(&c) = sum.and_then(|sum| place.get(&sum)) {
                found[c].get_or_insert([a, b]);
            }
        }
    }
    found
}

/// How far apart the numbers are.
fn spread(column: &[i64]) -> u64 {
    let (least, most) = (column.iter().min(), column.iter().max());
    most.zip(least).map_or(0, |(most, least)| most.abs_diff(*least))
}

/// The form of numbers, given the numbers of each variable that is known. Products come before sums: of two sightings,
/// any two numbers are the ends of a line.
fn form(ys: &[i64], known: &[&[i64]]) -> Option<Form> {
    if ys.iter().all(|y| *y == ys[0]) {
        return Some(Form::Fixed(ys[0]));
    }
    let product = |of: &[usize]| {
        let xs =
            (0..ys.len()).map(|i| of.iter().try_fold(1i64, |n, &v| n.checked_mul(known[v][i])));
        let times = multiple(&xs.collect::<Option<Vec<i64>>>()?, ys)?;
        Some(Form::product(times, of))
    };
    let single = (0..known.len()).find_map(|v| product(&[v]));
    let shifted = || {
        let by = |v: usize| sum(known[v], ys).map(|plus| (v, plus));
        let (v, plus) = (0..known.len()).find_map(by)?;
        Some(Form::line(v, 1, plus))
    };
    let pairs = || (0..known.len()).flat_map(|a| (a..known.len()).map(move |b| [a, b]));
    let line = || {
        let by = |v: usize| line(known[v], ys).map(|(times, plus)| (v, times, plus));
        let (v, times, plus) = (0..known.len()).find_map(by)?;
        Some(Form::line(v, times, plus))
    };
    single.or_else(shifted).or_else(|| pairs().find_map(|pair| product(&pair))).or_else(line)
}

/// `ys = times * xs`.
fn multiple(xs: &[i64], ys: &[i64]) -> Option<i64> {
    let times = (ys[0].checked_rem(xs[0])? == 0).then(|| ys[0] / xs[0])?;
    xs.iter().zip(ys).all(|(x, y)| x.checked_mul(times) == Some(*y)).then_some(times)
}

/// `ys = xs + plus`.
fn sum(xs: &[i64], ys: &[i64]) -> Option<i64> {
    let plus = ys[0].checked_sub(xs[0])?;
    xs.iter().zip(ys).all(|(x, y)| x.checked_add(plus) == Some(*y)).then_some(plus)
}

/// `ys = times * xs + plus`, if more than two points say so.
fn line(xs: &[i64], ys: &[i64]) -> Option<(i64, i64)> {
    let other = xs.iter().position(|x| *x != xs[0])?;
    let third = xs.iter().any(|x| *x != xs[0] && *x != xs[other]);
    let (run, rise) = (xs[other].checked_sub(xs[0])?, ys[other].checked_sub(ys[0])?);
    let times = (third && rise.checked_rem(run)? == 0).then(|| rise / run)?;
    let plus = ys[0].checked_sub(xs[0].checked_mul(times)?)?;
    let holds = |(x, y): (&i64, &i64)| x.checked_mul(times)?.checked_add(plus).map(|n| n == *y);
    xs.iter().zip(ys).all(|pair| holds(pair) == Some(true)).then_some((times, plus))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_depend_on_each_other_are_one_variable() {
        let graph = |n: i64, p: i64| vec![7, 4 * n, n, n + 1, n * n, 12 * n * n, p, n - 2];
        let seen: Vec<Vec<i64>> = [(5, 3), (6, 9), (9, 4)].map(|(n, p)| graph(n, p)).into();
        let seen: Vec<&[i64]> = seen.iter().map(|g| &g[..]).collect();
        let variables = Variables::of(&seen, 6, &[false; 2]);
        assert_eq!(variables.count(), 1, "{variables:?}");
        assert_eq!(variables.point(&graph(100, 50)), Some(vec![100]));
        assert!(variables.is_free(6) && !variables.is_free(7));
        let mut wrong = graph(100, 50);
        wrong[4] += 1;
        assert_eq!(variables.point(&wrong), None);
        let numbers = variables.numbers(&[10]).expect("none is negative");
        assert_eq!(numbers, [7, 40, 10, 11, 100, 1200, 0, 8]);
        assert_eq!(variables.numbers(&[1]), None);
    }

    #[test]
    fn lengths_of_what_is_joined_are_sums() {
        let graph = |[a, b, c]: [i64; 3]| vec![a + b + c, a, b + c, 4 * b, b, a + b, c, 7 * c];
        let seen = [[30, 10, 5], [12, 29, 9], [20, 18, 6], [25, 11, 31]].map(graph);
        let seen: Vec<&[i64]> = seen.iter().map(|g| &g[..]).collect();
        let variables = Variables::of(&seen, 8, &[]);
        assert_eq!(variables.count(), 3, "{variables:?}");
        let mut point = variables.point(&graph([100, 50, 2])).expect("fits");
        point.sort_unstable();
        assert_eq!(point, [2, 50, 100]);
        assert_eq!(variables.point(&[152, 100, 53, 200, 50, 150, 2, 14]), None);
    }

    #[test]
    fn numbers_from_the_ends_of_their_range() {
        let ends = [vec![5, i64::MIN, 3], vec![6, i64::MAX, -1], vec![9, 0, i64::MIN]];
        let seen: Vec<&[i64]> = ends.iter().map(|g| &g[..]).collect();
        let variables = Variables::of(&seen, 1, &[false; 2]);
        assert!(variables.is_free(1) && variables.is_free(2));
    }

    #[test]
    fn independent_lengths_and_their_products() {
        let graph = |n: i64, b: i64| vec![b, n, b * n, 3 * b * n, n + 5, b * b];
        let seen: Vec<Vec<i64>> = [(50, 2), (64, 3), (90, 8)].map(|(n, b)| graph(n, b)).into();
        let seen: Vec<&[i64]> = seen.iter().map(|g| &g[..]).collect();
        let variables = Variables::of(&seen, 6, &[]);
        assert_eq!(variables.count(), 2, "{variables:?}");
        assert_eq!(variables.point(&graph(77, 5)), Some(vec![5, 77]));
    }
}
