//! How a number of a graph depends on variables, and arithmetic with that.

use smallvec::SmallVec;

/// How a number depends on variables.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Form {
    Fixed(i64),
    /// A product of variables, times a constant, plus a constant.
    Product {
        times: i64,
        of: SmallVec<[usize; 2]>,
        plus: i64,
    },
    /// Any value: a start that is given at launch.
    Free,
}

impl Form {
    /// `times * v + plus`.
    pub(super) fn line(v: usize, times: i64, plus: i64) -> Form {
        Form::Product { times, of: SmallVec::from_slice(&[v]), plus }
    }

    /// Its value, given those of the variables.
    pub(super) fn at(&self, point: &[i64]) -> Option<i64> {
        match self {
            Form::Fixed(n) => Some(*n),
            Form::Free => Some(0),
            Form::Product { times, of, plus } => {
                let product = of.iter().try_fold(*times, |n, &v| n.checked_mul(point[v]));
                product?.checked_add(*plus)
            }
        }
    }

    /// Whether it has more than one value.
    pub(super) fn varies(&self) -> bool {
        !matches!(self, Form::Fixed(_))
    }

    /// The sum, if it is a form.
    pub(super) fn plus(&self, other: &Form) -> Option<Form> {
        use Form::{Fixed, Product};
        match (self, other) {
            (Fixed(a), Fixed(b)) => Some(Fixed(a.checked_add(*b)?)),
            (Product { times, of, plus }, Fixed(n)) | (Fixed(n), Product { times, of, plus }) => {
                let plus = plus.checked_add(*n)?;
                Some(Product { times: *times, of: of.clone(), plus })
            }
            (Product { times, of, plus }, Product { times: t, of: others, plus: p }) => {
                let (times, plus) = (times.checked_add(*t)?, plus.checked_add(*p)?);
                let sum =
                    if times == 0 { Fixed(plus) } else { Product { times, of: of.clone(), plus } };
                (of == others).then_some(sum)
            }
            _ => None,
        }
    }

    /// The product, if it is a form.
    pub(super) fn times(&self, other: &Form) -> Option<Form> {
        use Form::{Fixed, Product};
        match (self, other) {
            (Fixed(a), Fixed(b)) => Some(Fixed(a.checked_mul(*b)?)),
            (Product { .. }, Fixed(0)) | (Fixed(0), Product { .. }) => Some(Fixed(0)),
            (Product { times, of, plus }, Fixed(n)) | (Fixed(n), Product { times, of, plus }) => {
                let (times, plus) = (times.checked_mul(*n)?, plus.checked_mul(*n)?);
                Some(Product { times, of: of.clone(), plus })
            }
            (Product { times, of, plus: 0 }, Product { times: t, of: others, plus: 0 }) => {
                let mut all: SmallVec<[usize; 2]> = of.iter().chain(others).copied().collect();
                all.sort_unstable();
                Some(Product { times: times.checked_mul(*t)?, of: all, plus: 0 })
            }
            _ => None,
        }
    }

    /// The quotient, if it has no rest at any value and is a form.
    pub(super) fn over(&self, other: &Form) -> Option<Form> {
        use Form::{Fixed, Product};
        let whole = |a: i64, b: i64| (a.checked_rem(b)? == 0).then(|| a / b);
        match (self, other) {
            (Fixed(a), Fixed(b)) => Some(Fixed(whole(*a, *b)?)),
            (Product { times, of, plus }, Fixed(n)) => {
                Some(Product { times: whole(*times, *n)?, of: of.clone(), plus: whole(*plus, *n)? })
            }
            (Product { times, of, plus }, Product { times: t, of: others, plus: p }) => {
                let quotient = whole(*times, *t)?;
                if of == others {
                    return (p.checked_mul(quotient)? == *plus).then_some(Fixed(quotient));
                }
                let mut rest = of.clone();
                for v in others {
                    rest.remove(rest.iter().position(|o| o == v)?);
                }
                (*plus == 0 && *p == 0).then_some(Product { times: quotient, of: rest, plus: 0 })
            }
            _ => None,
        }
    }

    /// The number with the other sign.
    pub(super) fn negative(&self) -> Option<Form> {
        self.times(&Form::Fixed(-1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_agrees_with_that_of_values() {
        let line = Form::line;
        let all = [
            Form::Fixed(0),
            Form::Fixed(6),
            Form::Fixed(-2),
            line(0, 1, 0),
            line(0, 6, -12),
            line(0, 3, 0),
            line(1, 2, 0),
            line(0, 3, 0).times(&line(1, 4, 0)).expect("a product"),
        ];
        let point = [7, 10];
        let value = |form: &Form| form.at(&point).expect("small");
        let mut made = 0;
        for (a, b) in all.iter().flat_map(|a| all.iter().map(move |b| (a, b))) {
            let results = [
                (a.plus(b), value(a) + value(b)),
                (a.times(b), value(a) * value(b)),
                (a.over(b), value(a).checked_div(value(b)).unwrap_or(0)),
            ];
            for (form, wanted) in results {
                assert!(form.as_ref().is_none_or(|form| value(form) == wanted), "{a:?} {b:?}");
                made += usize::from(form.is_some());
            }
        }
        assert!(made > 90, "{made} forms");
    }
}
