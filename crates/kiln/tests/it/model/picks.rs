//! Random indices that are tensors, lists and masks, and methods that take them.

use super::eager::Handle;
use super::generate::Generator;
use super::program::{Binary, Call, Expr, Ix, Make, Num, Reduce, Unary, View};
use kiln::DType;

/// Tensors and lists pick of axes of at least this length.
const SHORTEST_PICKED: usize = 1;

impl Generator {
    /// Indices with a tensor, list or mask among them.
    pub(super) fn advanced(&mut self, of: &Handle) -> Option<Vec<Ix>> {
        let shape = of.shape.clone();
        if !shape.is_empty() && self.rng.one_in(4) {
            return self.mask(&shape).map(|mask| vec![Ix::Tensor(Box::new(mask))]);
        }
        let mut index = self.index(&shape);
        index.retain(|ix| !matches!(ix, Ix::Ellipsis));
        let common = if self.rng.one_in(3) {
            vec![2, 1 + self.rng.below(2)]
        } else {
            vec![1 + self.rng.below(4)]
        };
        let axes: Vec<usize> = (0..index.len()).filter(|&i| index[i] != Ix::NewAxis).collect();
        for (axis, &at) in axes.iter().enumerate() {
            if shape[axis] >= SHORTEST_PICKED && (at == axes[axes.len() - 1] || self.rng.one_in(2))
            {
                index[at] = match common.len() == 1 && self.rng.one_in(3) {
                    true => Ix::List((0..common[0]).map(|_| self.position(shape[axis])).collect()),
                    false => Ix::Tensor(Box::new(self.positions(&common, shape[axis]))),
                };
            }
        }
        Some(index)
    }

    fn position(&mut self, n: usize) -> i64 {
        let i = self.rng.below(n) as i64;
        if self.rng.one_in(5) { i - n as i64 } else { i }
    }

    /// Integers that are positions of an axis of length `n`: known, or computed from what is there.
    fn positions(&mut self, shape: &[usize], n: usize) -> Expr {
        let computed = self.rng.one_in(3).then(|| self.var()).flatten();
        let fits = computed.and_then(|var| self.fitted(var, shape));
        let known = self.handle_shape(fits.as_ref()).as_deref() == Some(shape);
        let Some(fits) = fits.filter(|_| known) else {
            let dtype = self.rng.pick(&[DType::I32, DType::I32, DType::I64, DType::I16]);
            let all = (0..shape.iter().product()).map(|_| Num::Int(self.position(n))).collect();
            return Expr::Make(Make::From(all), shape.to_vec(), dtype);
        };
        let cast = Expr::Unary(Unary::Cast(DType::I32), Box::new(fits));
        let bound =
            |op, x, limit: i64| Expr::Binary(op, Box::new(x), Box::new(Expr::Num(Num::Int(limit))));
        bound(Binary::Minimum, bound(Binary::Maximum, cast, -(n as i64)), n as i64 - 1)
    }

    fn handle_shape(&self, expr: Option<&Expr>) -> Option<Vec<usize>> {
        self.handle(expr?).map(|h| h.shape)
    }

    /// Bools of a shape: known, or where something is less than something.
    fn mask(&mut self, shape: &[usize]) -> Option<Expr> {
        let var = self.var()?;
        let fits = self.fitted(var, shape).filter(|_| !self.rng.one_in(3));
        let dtype = fits.as_ref().and_then(|x| self.handle(x)).filter(|h| h.shape == shape);
        Some(match (fits, dtype) {
            (Some(fits), Some(handle)) => {
                let test = self.rng.pick(&[Call::Lt, Call::Ge, Call::Eq]);
                Expr::Call(test, vec![fits, Expr::Num(self.number(handle.dtype))])
            }
            _ => {
                let n = shape.iter().product();
                let all = (0..n).map(|_| Num::Int(self.rng.below(2) as i64)).collect();
                Expr::Make(Make::From(all), shape.to_vec(), DType::Bool)
            }
        })
    }

    /// A method with a condition or positions.
    pub(super) fn called(&mut self, x: Expr, of: &Handle) -> Option<Expr> {
        let shape = of.shape.clone();
        let which = self.rng.below(13);
        if which == 0 {
            return self.advanced(of).map(|index| x.view(View::Get(index)));
        }
        if which < 6 {
            return self.with_condition(x, of, which);
        }
        let axis = self.rng.below(shape.len().max(1));
        let n = *shape.get(axis).filter(|&&n| n >= SHORTEST_PICKED && of.numel() > 0)?;
        let several = vec![1 + self.rng.below(4)];
        if which == 6 {
            let at = self.positions(&several, shape.iter().product());
            return Some(Expr::Call(Call::Take, vec![x, at]));
        }
        if which < 9 {
            let at = self.positions(&several, n);
            let name = if which == 7 { Call::IndexSelect(axis) } else { Call::IndexAdd(axis) };
            let value = (which == 8).then(|| self.landing(of, axis, several[0])).flatten();
            return Some(Expr::Call(name, [x, at].into_iter().chain(value).collect()));
        }
        let mut lengths: Vec<usize> = shape.iter().map(|&n| n.min(1 + self.rng.below(4))).collect();
        lengths[axis] = 1 + self.rng.below(4);
        let at = self.positions(&lengths, n);
        let index = self.handle(&at)?;
        let value = match self.rng.one_in(3) {
            true => Expr::Num(self.number(of.dtype)),
            false => self.made_as(&index.shape, of.dtype),
        };
        let reduce = self.rng.pick(&[Reduce::Sum, Reduce::Prod, Reduce::Amin, Reduce::Amax]);
        Some(match which {
            9 => Expr::Call(Call::Gather(axis), vec![x, at]),
            10 => Expr::Call(Call::Scatter(axis), vec![x, at, value]),
            _ => {
                let name = Call::ScatterReduce(axis, reduce, self.rng.one_in(2));
                Expr::Call(name, vec![x, at, value])
            }
        })
    }

    /// What `index_add` adds.
    fn landing(&mut self, of: &Handle, axis: usize, n: usize) -> Option<Expr> {
        let mut shape = of.shape.clone();
        shape[axis] = n;
        Some(match self.rng.one_in(3) {
            true => Expr::Num(self.number(of.dtype)),
            false => self.made_as(&shape, of.dtype),
        })
    }

    fn with_condition(&mut self, x: Expr, of: &Handle, which: usize) -> Option<Expr> {
        let mask = self.mask(&of.shape)?;
        let number = Expr::Num(self.number(of.dtype));
        Some(match which {
            1 => Expr::Call(Call::MaskedFill, vec![x, mask, number]),
            2 => Expr::Call(Call::MaskedSelect, vec![x, mask]),
            3 => Expr::Call(Call::Where, vec![mask, x, self.operand(of)?]),
            4 => Expr::Call(Call::NonZero, vec![x]),
            _ => {
                let test = self.rng.pick(&[Call::Lt, Call::Ge, Call::Eq]);
                Expr::Call(test, vec![x, self.operand(of)?])
            }
        })
    }
}
