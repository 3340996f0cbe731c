//! Programs as data: lines over numbered variables.

use kiln::DType;

/// How often a function is called: the first call records it, later ones replay that.
pub(super) const CALLS: usize = 3;

/// A variable's number; it is printed as `v7`.
pub(super) type Var = usize;

/// A number, as a program writes it down or as an element holds it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Num {
    Int(i64),
    Float(f64),
}

/// What picks elements of one axis.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Ix {
    At(i64),
    Slice(Option<i64>, Option<i64>, i64),
    Ellipsis,
    NewAxis,
    /// Positions or a mask.
    Tensor(Box<Expr>),
    List(Vec<i64>),
}

/// Where data comes from.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Make {
    Zeros,
    Ones,
    Empty,
    Full(Num),
    Arange,
    From(Vec<Num>),
}

/// What aliases.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum View {
    Get(Vec<Ix>),
    Reshape(Vec<usize>),
    Permute(Vec<usize>),
    Flip(usize),
    Expand(Vec<usize>),
    Bitcast(DType),
    Detach,
    Clone,
    /// `to` the device where it is.
    Here,
}

/// Values of one tensor.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Unary {
    Copy,
    /// `to` another device, so many times. Where there is only one, a copy.
    Hop(usize),
    Contiguous,
    Neg,
    Abs,
    Cast(DType),
}

/// Values of two.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Binary {
    Add,
    Sub,
    Mul,
    Maximum,
    Minimum,
}

/// Values along one axis.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Fold {
    Sum,
    Max,
    Min,
    CumSum,
}

/// Methods of one tensor and operands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Call {
    Lt,
    Eq,
    Ge,
    /// `mask.where_(a, b)`
    Where,
    MaskedFill,
    MaskedSelect,
    NonZero,
    Gather(usize),
    IndexSelect(usize),
    Take,
    Scatter(usize),
    /// `scatter_reduce`, with or without what was there.
    ScatterReduce(usize, Reduce, bool),
    IndexAdd(usize),
}

/// How values that land on one element are combined.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Reduce {
    Sum,
    Prod,
    Amin,
    Amax,
}

/// A tensor; a number only where an operand or a written value stands.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Expr {
    Var(Var),
    Num(Num),
    Make(Make, Vec<usize>, DType),
    View(Box<Expr>, View),
    Unary(Unary, Box<Expr>),
    Binary(Binary, Box<Expr>, Box<Expr>),
    Fold(Fold, usize, Box<Expr>),
    Cat(usize, Vec<Expr>),
    Call(Call, Vec<Expr>),
    /// Of `(seen * seen * by).sum(..)` for a copy of `x`, if `seen` is `x` through views: `x`, the views, `by`.
    Gradient(Box<Expr>, Vec<View>, Box<Expr>),
}

/// How something is written.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum How {
    Set(Vec<Ix>),
    TrySet(Vec<Ix>),
    Assign,
    TryAssign,
    /// Rust's `+=`.
    Operator(Binary),
    /// `add_assign`, through a shared reference.
    Method(Binary),
}

/// One line.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Line {
    Let(Var, Expr),
    Write(Expr, How, Expr),
    /// `try_set` or `try_assign` of what does not fit: an error, and nothing changes.
    Refused(Expr, How, Expr),
    Realize(Vec<Expr>),
    Read(Expr),
    Drop(Var),
    /// A function that writes and returns something, called a few times. The variable is what the last call returns.
    Jitted(Var, Vec<Line>, Box<Expr>),
}

impl Expr {
    pub(super) fn view(self, view: View) -> Expr {
        Expr::View(Box::new(self), view)
    }

    /// The expressions inside this one.
    pub(super) fn children(&self) -> Vec<&Expr> {
        match self {
            Expr::Var(_) | Expr::Num(_) | Expr::Make(..) => Vec::new(),
            Expr::View(x, View::Get(index)) => {
                let indices = index.iter().filter_map(|ix| match ix {
                    Ix::Tensor(expr) => Some(&**expr),
                    _ => None,
                });
                std::iter::once(&**x).chain(indices).collect()
            }
            Expr::View(x, _) | Expr::Unary(_, x) | Expr::Fold(_, _, x) => vec![x],
            Expr::Binary(_, x, y) | Expr::Gradient(x, _, y) => vec![x, y],
            Expr::Cat(_, xs) | Expr::Call(_, xs) => xs.iter().collect(),
        }
    }

    /// The same, mutable.
    pub(super) fn children_mut(&mut self) -> Vec<&mut Expr> {
        match self {
            Expr::Var(_) | Expr::Num(_) | Expr::Make(..) => Vec::new(),
            Expr::View(x, View::Get(index)) => {
                std::iter::once(&mut **x).chain(tensors_mut(index)).collect()
            }
            Expr::View(x, _) | Expr::Unary(_, x) | Expr::Fold(_, _, x) => vec![x],
            Expr::Binary(_, x, y) | Expr::Gradient(x, _, y) => vec![x, y],
            Expr::Cat(_, xs) | Expr::Call(_, xs) => xs.iter_mut().collect(),
        }
    }
}

/// The tensors among indices.
fn tensors_mut(index: &mut [Ix]) -> impl Iterator<Item = &mut Expr> {
    index.iter_mut().filter_map(|ix| match ix {
        Ix::Tensor(expr) => Some(&mut **expr),
        _ => None,
    })
}

impl Line {
    /// The expressions of the line.
    pub(super) fn exprs_mut(&mut self) -> Vec<&mut Expr> {
        match self {
            Line::Let(_, x) | Line::Read(x) => vec![x],
            Line::Write(x, How::Set(index) | How::TrySet(index), y)
            | Line::Refused(x, How::Set(index) | How::TrySet(index), y) => {
                [x, y].into_iter().chain(tensors_mut(index)).collect()
            }
            Line::Write(x, _, y) | Line::Refused(x, _, y) => vec![x, y],
            Line::Realize(xs) => xs.iter_mut().collect(),
            Line::Drop(_) => Vec::new(),
            Line::Jitted(_, lines, result) => {
                lines.iter_mut().flat_map(Line::exprs_mut).chain([&mut **result]).collect()
            }
        }
    }

    /// The lines that run, one after the other.
    pub(super) fn steps(&self) -> Vec<Line> {
        let Line::Jitted(var, lines, result) = self else { return vec![self.clone()] };
        let one_call = lines.iter().cloned().chain([Line::Let(*var, (**result).clone())]);
        let one_call: Vec<Line> = one_call.collect();
        (0..CALLS).flat_map(|_| one_call.clone()).collect()
    }
}
