//! For general schedules: numbers as polynomials of the lengths that vary.
//!
//! A polynomial of degree 2 in a variable is known by its values at three points. (Newton's divided differences.)

/// For each length that varies, the three values at which schedules are made, in any order. They differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grid(pub Vec<[i64; 3]>);

impl Grid {
    /// All combinations of values; those of the last length change fastest.
    pub fn points(&self) -> Vec<Vec<i64>> {
        let longer = |points: Vec<Vec<i64>>, values: &[i64; 3]| {
            let with = |point: &Vec<i64>| values.map(|value| [&point[..], &[value]].concat());
            points.iter().flat_map(with).collect()
        };
        self.0.iter().fold(vec![Vec::new()], longer)
    }

    /// Whether a point lies between the least and the largest values.
    pub fn holds(&self, point: &[i64]) -> bool {
        let between = |(values, n): (&[i64; 3], &i64)| {
            values.iter().any(|v| v <= n) && values.iter().any(|v| v >= n)
        };
        point.len() == self.0.len() && self.0.iter().zip(point).all(between)
    }

    /// What the coefficients of a polynomial are multiplied by at a point, in the order of [`Grid::points`].
    pub(super) fn basis(&self, point: &[i64]) -> Vec<i128> {
        let longer = |basis: Vec<i128>, (&[a, b, _], &n): (&[i64; 3], &i64)| {
            let [from_a, from_b] = [a, b].map(|value| i128::from(n) - i128::from(value));
            let own = [1, from_a, from_a * from_b];
            basis.iter().flat_map(|&factor| own.map(|own| factor * own)).collect()
        };
        self.0.iter().zip(point).fold(vec![1], longer)
    }
}

/// A polynomial of degree at most 2 in each variable, with whole coefficients.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Polynomial(Vec<i128>);

impl Polynomial {
    /// The polynomial that has these values at the points of the grid. None if its coefficients are not whole, as those
    /// of a number that was rounded.
    pub(super) fn through(grid: &Grid, values: &[i64]) -> Option<Polynomial> {
        let mut all: Vec<i128> = values.iter().map(|&v| v.into()).collect();
        let mut distance = all.len();
        for nodes in &grid.0 {
            distance /= 3;
            for start in (0..all.len()).filter(|i| (i / distance).is_multiple_of(3)) {
                let at = [start, start + distance, start + 2 * distance];
                let differences = divided(nodes.map(i128::from), at.map(|i| all[i]))?;
                at.iter().zip(differences).for_each(|(&i, d)| all[i] = d);
            }
        }
        Some(Polynomial(all))
    }

    /// Its value, given the [`Grid::basis`] of a point.
    pub(super) fn at(&self, basis: &[i128]) -> Option<i64> {
        let add = |sum: i128, (c, b): (&i128, &i128)| sum.checked_add(c.checked_mul(*b)?);
        self.0.iter().zip(basis).try_fold(0, add)?.try_into().ok()
    }
}

/// The divided differences of orders 0 to 2, if they are whole.
fn divided([x, y, z]: [i128; 3], [at_x, at_y, at_z]: [i128; 3]) -> Option<[i128; 3]> {
    let whole = |a: i128, b: i128| (a % b == 0).then(|| a / b);
    let (first, second) = (whole(at_y - at_x, y - x)?, whole(at_z - at_y, z - y)?);
    Some([at_x, first, whole(second - first, z - x)?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_polynomial_is_known_by_its_values_on_the_grid() {
        let grid = Grid(vec![[3, 101, 14], [2, 79, 9]]);
        let f = |p: &[i64]| 5 * p[0] * p[0] * p[1] - 7 * p[0] * p[1] + p[1] * p[1] + 12;
        let values: Vec<i64> = grid.points().iter().map(|p| f(p)).collect();
        let found = Polynomial::through(&grid, &values).expect("whole coefficients");
        for point in [[3, 2], [50, 41], [101, 79], [4, 2]] {
            assert_eq!(found.at(&grid.basis(&point)), Some(f(&point)), "{point:?}");
        }
        assert!(grid.holds(&[3, 79]) && !grid.holds(&[102, 9]) && !grid.holds(&[50, 1]));
    }

    #[test]
    fn what_is_rounded_is_no_polynomial() {
        let grid = Grid(vec![[3, 101, 14]]);
        for f in [|n: i64| n / 2, |n| n / 16, |n| (n + 7) / 8 * 8, |n| (n - 1) / 2 * 5] {
            let values: Vec<i64> = grid.points().iter().map(|p| f(p[0])).collect();
            assert_eq!(Polynomial::through(&grid, &values), None, "{values:?}");
        }
    }
}
