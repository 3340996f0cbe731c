//! For general schedules: numbers as polynomials of the lengths that vary.
//!
//! A polynomial of degree 2 in a variable is known by its values at three points. (Newton's divided differences.)

use rustc_hash::FxHashMap;

/// Where schedules are made: some combinations of three values of each length that varies.
///
/// For two lengths they are all nine. More lengths have all combinations of their first two values, which are the ends. A
/// third value comes only with first ones of the others, or one second: enough for polynomials whose terms have no more
/// than degree 3 or no squares. (Lagrange interpolation on a lower set, Dyn and Floater, 2014.)
#[derive(Clone, Debug)]
pub struct Grid {
    values: Vec<[i64; 3]>,
    /// By point, which of its three values each length has. It is also the exponent of the point's term.
    exponents: Vec<Vec<usize>>,
    /// Points that differ in one length only, in the order of its values: that length, and the points.
    lines: Vec<(usize, Vec<usize>)>,
}

impl Grid {
    /// Of these values of each length, which differ: two ends, and one between them.
    pub fn new(values: Vec<[i64; 3]>) -> Grid {
        let exponents = exponents(values.len());
        let place: FxHashMap<&[usize], usize> =
            exponents.iter().enumerate().map(|(at, e)| (&e[..], at)).collect();
        let line = |length: usize, first: &[usize]| {
            let mut with = first.to_vec();
            let mut point = |value: usize| {
                with[length] = value;
                place.get(&with[..]).copied()
            };
            (length, (0..3).map_while(&mut point).collect())
        };
        let firsts = |length: usize| exponents.iter().filter(move |e| e[length] == 0);
        let lines = (0..values.len())
            .flat_map(|length| firsts(length).map(move |first| line(length, first)))
            .collect();
        Grid { lines, values, exponents }
    }

    /// The combinations of values; those of the last length change fastest.
    pub fn points(&self) -> impl Iterator<Item = Vec<i64>> + '_ {
        let point = |e: &Vec<usize>| e.iter().zip(&self.values).map(|(&e, v)| v[e]).collect();
        self.exponents.iter().map(point)
    }

    /// Whether a point lies between the least and the largest values.
    pub fn holds(&self, point: &[i64]) -> bool {
        let between = |(values, n): (&[i64; 3], &i64)| {
            values.iter().any(|v| v <= n) && values.iter().any(|v| v >= n)
        };
        point.len() == self.values.len() && self.values.iter().zip(point).all(between)
    }

    /// What the coefficients of a polynomial are multiplied by at a point, in the order of [`Grid::points`].
    pub(super) fn basis(&self, point: &[i64]) -> Vec<i128> {
        let powers = |(&[a, b, _], &n): (&[i64; 3], &i64)| {
            let [from_a, from_b] = [a, b].map(|value| i128::from(n) - i128::from(value));
            [1, from_a, from_a * from_b]
        };
        let powers: Vec<[i128; 3]> = self.values.iter().zip(point).map(powers).collect();
        // what overflows is too large for any coefficient but 0
        let term = |e: &Vec<usize>| {
            e.iter().zip(&powers).fold(1i128, |product, (&e, own)| product.saturating_mul(own[e]))
        };
        self.exponents.iter().map(term).collect()
    }
}

/// The exponents of the terms of polynomials of so many lengths.
fn exponents(lengths: usize) -> Vec<Vec<usize>> {
    let longer = |all: Vec<Vec<usize>>, _| {
        let with = |e: &Vec<usize>| [0, 1, 2].map(|own| [&e[..], &[own]].concat());
        all.iter().flat_map(with).filter(|e| is_term(e, lengths)).collect()
    };
    (0..lengths).fold(vec![Vec::new()], longer)
}

/// Whether polynomials of so many lengths have terms with these exponents of the first of them.
fn is_term(exponents: &[usize], lengths: usize) -> bool {
    lengths <= 2 || exponents.iter().sum::<usize>() <= 3 || exponents.iter().all(|&e| e <= 1)
}

/// A polynomial of degree at most 2 in each variable, with whole coefficients: one for each point of a grid.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Polynomial(Vec<i128>);

impl Polynomial {
    /// The polynomial that has these values at the points of the grid. None if its coefficients are not whole, as those
    /// of a number that was rounded.
    pub(super) fn through(grid: &Grid, values: &[i64]) -> Option<Polynomial> {
        let mut all: Vec<i128> = values.iter().map(|&v| v.into()).collect();
        for (length, points) in &grid.lines {
            let nodes = grid.values[*length].map(i128::from);
            divide(&nodes, points, &mut all)?;
        }
        Some(Polynomial(all))
    }

    /// Its value, given the [`Grid::basis`] of a point.
    pub(super) fn at(&self, basis: &[i128]) -> Option<i64> {
        let add = |sum: i128, (c, b): (&i128, &i128)| sum.checked_add(c.checked_mul(*b)?);
        self.0.iter().zip(basis).try_fold(0, add)?.try_into().ok()
    }
}

/// Replaces the values at `points`, which lie at the first of these nodes, by their divided differences, if those are whole.
fn divide(nodes: &[i128], points: &[usize], values: &mut [i128]) -> Option<()> {
    for order in 1..points.len() {
        for at in (order..points.len()).rev() {
            let rise = values[points[at]] - values[points[at - 1]];
            let run = nodes[at] - nodes[at - order];
            values[points[at]] = (rise % run == 0).then(|| rise / run)?;
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_polynomial_is_known_by_its_values_on_the_grid() {
        let grid = Grid::new(vec![[3, 101, 14], [2, 79, 9]]);
        let f = |p: &[i64]| 5 * p[0] * p[0] * p[1] - 7 * p[0] * p[1] + p[1] * p[1] + 12;
        let values: Vec<i64> = grid.points().map(|p| f(&p)).collect();
        let found = Polynomial::through(&grid, &values).expect("whole coefficients");
        for point in [[3, 2], [50, 41], [101, 79], [4, 2]] {
            assert_eq!(found.at(&grid.basis(&point)), Some(f(&point)), "{point:?}");
        }
        assert!(grid.holds(&[3, 79]) && !grid.holds(&[102, 9]) && !grid.holds(&[50, 1]));
    }

    #[test]
    fn many_lengths_have_fewer_points_than_combinations() {
        let values = [[3, 101, 14], [2, 79, 9], [4, 97, 11], [2, 53, 20], [5, 47, 6]];
        let count = |lengths: usize| Grid::new(values[..lengths].to_vec()).points().count();
        assert_eq!([1, 2, 3, 4, 5].map(count), [3, 9, 17, 32, 57]);
        let grid = Grid::new(values.to_vec());
        let f = |p: &[i64]| {
            5 * p.iter().product::<i64>() - 7 * p[0] * p[0] * p[4] + p[2] * p[2] - p[1] * p[3] + 8
        };
        let polynomial = |f: &dyn Fn(&[i64]) -> i64| {
            let values: Vec<i64> = grid.points().map(|p| f(&p)).collect();
            Polynomial::through(&grid, &values).expect("whole coefficients")
        };
        let (found, others) = (polynomial(&f), polynomial(&|p| p[0] * p[0] * p[1] * p[2]));
        for point in [[3, 2, 4, 2, 5], [50, 41, 7, 52, 46], [101, 79, 97, 53, 47], [4; 5]] {
            assert_eq!(found.at(&grid.basis(&point)), Some(f(&point)), "{point:?}");
        }
        // one that has other terms is found out at one more point
        assert_ne!(others.at(&grid.basis(&[14, 9, 11, 20, 6])), Some(14 * 14 * 9 * 11));
    }

    #[test]
    fn what_is_rounded_is_no_polynomial() {
        let grid = Grid::new(vec![[3, 101, 14]]);
        for f in [|n: i64| n / 2, |n| n / 16, |n| (n + 7) / 8 * 8, |n| (n - 1) / 2 * 5] {
            let values: Vec<i64> = grid.points().map(|p| f(p[0])).collect();
            assert_eq!(Polynomial::through(&grid, &values), None, "{values:?}");
        }
    }
}
