//! How a number of a graph depends on variables, and arithmetic with that.

use smallvec::SmallVec;

/// How a number depends on variables.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Form {
    Fixed(i64),
    /// A polynomial: products of variables, in order and each once, and a constant. Example: `4*n*m + n + 1`.
    Sum {
        terms: Terms,
        plus: i64,
    },
    /// Any value: a start that is given at launch.
    Free,
}

/// The terms of a polynomial.
type Terms = SmallVec<[Term; 1]>;

/// A product of variables, which are in order, times a constant that is not 0.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Term {
    of: SmallVec<[usize; 2]>,
    times: i64,
}

/// More terms than this are no form: those of a product of sums are as many as those of both, multiplied.
const MOST_TERMS: usize = 16;

impl Form {
    /// `times` of a product of variables.
    pub(super) fn product(times: i64, of: &[usize]) -> Form {
        let mut of = SmallVec::from_slice(of);
        of.sort_unstable();
        Form::Sum { terms: SmallVec::from_iter([Term { of, times }]), plus: 0 }
    }

    /// `times * v + plus`.
    pub(super) fn line(v: usize, times: i64, plus: i64) -> Form {
        match times {
            0 => Form::Fixed(plus),
            _ => {
                Form::Sum { terms: SmallVec::from_iter([Term { of: [v][..].into(), times }]), plus }
            }
        }
    }

    /// Its value, given those of the variables.
    pub(super) fn at(&self, point: &[i64]) -> Option<i64> {
        match self {
            Form::Fixed(n) => Some(*n),
            Form::Free => Some(0),
            Form::Sum { terms, plus } => {
                terms.iter().try_fold(*plus, |sum, term| sum.checked_add(term.at(point)?))
            }
        }
    }

    /// Whether it has more than one value.
    pub(super) fn varies(&self) -> bool {
        !matches!(self, Form::Fixed(_))
    }

    /// The terms and the constant of a polynomial.
    fn parts(&self) -> Option<(&[Term], i64)> {
        match self {
            Form::Fixed(n) => Some((&[], *n)),
            Form::Sum { terms, plus } => Some((terms, *plus)),
            Form::Free => None,
        }
    }

    /// The sum of these terms, in any order, and a constant.
    fn sum(terms: impl IntoIterator<Item = Term>, plus: i64) -> Option<Form> {
        let mut all = Terms::new();
        for term in terms {
            match all.binary_search_by(|known| known.of.cmp(&term.of)) {
                Ok(at) => all[at].times = all[at].times.checked_add(term.times)?,
                Err(at) => all.insert(at, term),
            }
        }
        all.retain(|term| term.times != 0);
        match all.len() {
            0 => Some(Form::Fixed(plus)),
            n => (n <= MOST_TERMS).then_some(Form::Sum { terms: all, plus }),
        }
    }

    /// The sum, if it is a form.
    pub(super) fn plus(&self, other: &Form) -> Option<Form> {
        let ((a, plus), (b, more)) = (self.parts()?, other.parts()?);
        Form::sum(a.iter().chain(b).cloned(), plus.checked_add(more)?)
    }

    /// The product, if it is a form.
    pub(super) fn times(&self, other: &Form) -> Option<Form> {
        let ((a, plus), (b, more)) = (self.parts()?, other.parts()?);
        let of_terms = a.iter().flat_map(|x| b.iter().map(|y| x.times(y)));
        let of_plus = b.iter().map(|y| y.scaled(plus)).chain(a.iter().map(|x| x.scaled(more)));
        let terms: Option<Vec<Term>> = of_terms.chain(of_plus).collect();
        Form::sum(terms?, plus.checked_mul(more)?)
    }

    /// The quotient, if it has no rest at any value and is a form.
    pub(super) fn over(&self, other: &Form) -> Option<Form> {
        let ((a, plus), (b, more)) = (self.parts()?, other.parts()?);
        match (a, b) {
            (_, []) => {
                let terms: Option<Vec<Term>> = a.iter().map(|term| term.over(more)).collect();
                Form::sum(terms?, whole(plus, more)?)
            }
            (_, [by]) if plus == 0 && more == 0 => {
                let quotient = |term: &Term| term.over(by.times)?.without(&by.of);
                let all: Vec<Term> = a.iter().map(quotient).collect::<Option<_>>()?;
                let (constants, terms): (Vec<Term>, Vec<Term>) =
                    all.into_iter().partition(|term| term.of.is_empty());
                Form::sum(terms, constants.first().map_or(0, |term| term.times))
            }
            ([first, ..], [by, ..]) => {
                let quotient = Form::Fixed(whole(first.times, by.times)?);
                (other.times(&quotient)? == *self).then_some(quotient)
            }
            ([], _) => (plus == 0).then_some(Form::Fixed(0)),
        }
    }

    /// The number with the other sign.
    pub(super) fn negative(&self) -> Option<Form> {
        self.times(&Form::Fixed(-1))
    }
}

impl Term {
    fn at(&self, point: &[i64]) -> Option<i64> {
        self.of.iter().try_fold(self.times, |n, &v| n.checked_mul(point[v]))
    }

    fn scaled(&self, by: i64) -> Option<Term> {
        Some(Term { of: self.of.clone(), times: self.times.checked_mul(by)? })
    }

    fn times(&self, other: &Term) -> Option<Term> {
        let mut of: SmallVec<[usize; 2]> = self.of.iter().chain(&other.of).copied().collect();
        of.sort_unstable();
        Some(Term { of, times: self.times.checked_mul(other.times)? })
    }

    fn over(&self, by: i64) -> Option<Term> {
        Some(Term { of: self.of.clone(), times: whole(self.times, by)? })
    }

    /// Without some of its variables, if it has them.
    fn without(mut self, variables: &[usize]) -> Option<Term> {
        for v in variables {
            let at = self.of.iter().position(|own| own == v)?;
            self.of.remove(at);
        }
        Some(self)
    }
}

fn whole(a: i64, b: i64) -> Option<i64> {
    (a.checked_rem(b)? == 0).then(|| a / b)
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
            Form::product(12, &[1, 0]),
            line(0, 1, 0).plus(&line(1, 1, 0)).expect("a sum"),
            line(0, 2, 4).plus(&line(1, -2, 3)).expect("a sum"),
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
        assert!(made > 240, "{made} forms");
    }
}
