//! Programs as Rust: every failure is a test that can be pasted.

use super::jitted::used;
use super::machine::Machine;
use super::program::{Binary, CALLS, Call, Expr, Fold, How, Ix, Line, Make, Num, Unary, Var, View};
use kiln::DType;
use std::fmt;

impl fmt::Display for Num {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Num::Int(i) => write!(f, "{i}"),
            Num::Float(x) => write!(f, "{x:?}"),
        }
    }
}

impl fmt::Display for Ix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let end = |x: &Option<i64>| x.map_or(String::new(), |x| x.to_string());
        match self {
            Ix::At(i) => write!(f, "{i}"),
            Ix::Slice(a, b, 1) => write!(f, "{}..{}", end(a), end(b)),
            Ix::Slice(a, b, step) => write!(f, "{}..{};{step}", end(a), end(b)),
            Ix::Ellipsis => write!(f, "..."),
            Ix::NewAxis => write!(f, "NewAxis"),
            Ix::Tensor(expr) => write!(f, "{}", lent(expr)),
            Ix::List(at) => write!(f, "{at:?}"),
        }
    }
}

fn list<T: fmt::Display>(items: &[T]) -> String {
    items.iter().map(T::to_string).collect::<Vec<_>>().join(", ")
}

fn dtype(dtype: DType) -> String {
    format!("DType::{}", dtype.to_string().to_uppercase())
}

fn made(make: &Make, shape: &[usize], of: DType) -> String {
    let name = match make {
        Make::Zeros => "zeros",
        Make::Ones => "ones",
        Make::Empty => "empty",
        Make::Full(x) => {
            return format!("Tensor::full_with({}, {x}, {})", shaped(shape), dtype(of));
        }
        Make::Arange => return format!("Tensor::arange_with({}, {})", shape[0], dtype(of)),
        Make::From(data) => {
            let data: Vec<String> = data.iter().map(|x| literal(x.cast(of), of)).collect();
            return format!(
                "Tensor::from_vec::<{of}>(vec![{}], {})",
                data.join(", "),
                shaped(shape)
            );
        }
    };
    format!("Tensor::{name}_with({}, {})", shaped(shape), dtype(of))
}

/// An element of a dtype.
fn literal(x: Num, dtype: DType) -> String {
    if dtype == DType::Bool { (x != Num::Int(0)).to_string() } else { x.to_string() }
}

/// The empty list has no type.
fn shaped(shape: &[usize]) -> String {
    if shape.is_empty() { "()".to_owned() } else { format!("{shape:?}") }
}

impl fmt::Display for View {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            View::Get(index) => write!(f, "get(s![{}])", list(index)),
            View::Reshape(shape) => write!(f, "reshape({})", shaped(shape)),
            View::Permute(axes) => write!(f, "permute({axes:?})"),
            View::Flip(axis) => write!(f, "flip({axis})"),
            View::Expand(shape) => write!(f, "expand({})", shaped(shape)),
            View::Bitcast(to) => write!(f, "bitcast({})", dtype(*to)),
            View::Detach => write!(f, "detach()"),
            View::Clone => write!(f, "clone()"),
            View::Here => write!(f, "to(kiln::Device::default_device())"),
        }
    }
}

impl fmt::Display for Unary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unary::Copy => write!(f, "copy()"),
            Unary::Hop(times) => write!(f, "copy(/* {times} devices on */)"),
            Unary::Contiguous => write!(f, "contiguous()"),
            Unary::Neg => write!(f, "neg()"),
            Unary::Abs => write!(f, "abs()"),
            Unary::Cast(to) => write!(f, "cast({})", dtype(*to)),
        }
    }
}

impl Binary {
    fn name(self) -> &'static str {
        match self {
            Binary::Add => "add",
            Binary::Sub => "sub",
            Binary::Mul => "mul",
            Binary::Maximum => "maximum",
            Binary::Minimum => "minimum",
        }
    }

    fn sign(self) -> &'static str {
        match self {
            Binary::Add => "+",
            Binary::Sub => "-",
            Binary::Mul => "*",
            Binary::Maximum | Binary::Minimum => unreachable!("no operators"),
        }
    }
}

impl Fold {
    fn name(self) -> &'static str {
        match self {
            Fold::Sum => "sum",
            Fold::Max => "max",
            Fold::Min => "min",
            Fold::CumSum => "cumsum",
        }
    }
}

/// As an argument: variables are lent.
fn lent(expr: &Expr) -> String {
    if let Expr::Var(_) = expr { format!("&{expr}") } else { expr.to_string() }
}

fn all_lent(exprs: &[Expr]) -> String {
    let each = |x: &Expr| format!("&{x}");
    exprs.iter().map(each).collect::<Vec<_>>().join(", ")
}

impl fmt::Display for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Expr::Var(var) => write!(f, "v{var}"),
            Expr::Num(n) => write!(f, "{n}"),
            Expr::Make(make, shape, dtype) => write!(f, "{}", made(make, shape, *dtype)),
            Expr::View(x, view) => write!(f, "{x}.{view}"),
            Expr::Unary(op, x) => write!(f, "{x}.{op}"),
            Expr::Binary(op, x, y) => write!(f, "{x}.{}({})", op.name(), lent(y)),
            Expr::Fold(op, axis, x) => write!(f, "{x}.{}({axis})", op.name()),
            Expr::Cat(axis, xs) => write!(f, "Tensor::cat([{}], {axis})", all_lent(xs)),
            Expr::Call(name, args) => called(f, *name, args),
            Expr::Gradient(x, views, by) => {
                let views: String = views.iter().map(|view| format!(".{view}")).collect();
                let loss = format!("(x{views}.square() * {}).sum(..)", lent(by));
                let x = format!("let x = {x}.copy().set_requires_grad(true)");
                write!(f, "{{ {x}; {loss}.gradient([&x]).unwrap().remove(0) }}")
            }
        }
    }
}

fn called(f: &mut fmt::Formatter<'_>, name: Call, args: &[Expr]) -> fmt::Result {
    let rest = args[1..].iter().map(|x| match x {
        Expr::Num(n) => n.to_string(),
        x => format!("&{x}"),
    });
    let rest = rest.collect::<Vec<_>>().join(", ");
    let x = &args[0];
    match name {
        Call::Lt => write!(f, "{x}.lt({rest})"),
        Call::Eq => write!(f, "{x}.eq({rest})"),
        Call::Ge => write!(f, "{x}.ge({rest})"),
        Call::Where => write!(f, "{x}.where_({rest})"),
        Call::MaskedFill => write!(f, "{x}.masked_fill({rest})"),
        Call::MaskedSelect => write!(f, "{x}.masked_select({rest})"),
        Call::NonZero => write!(f, "{x}.nonzero()"),
        Call::Gather(axis) => write!(f, "{x}.gather({axis}, {rest})"),
        Call::IndexSelect(axis) => write!(f, "{x}.index_select({axis}, {rest})"),
        Call::Take => write!(f, "{x}.take({rest})"),
        Call::Scatter(axis) => write!(f, "{x}.scatter({axis}, {rest})"),
        Call::ScatterReduce(axis, reduce, with_self) => {
            let name = format!("{reduce:?}").to_lowercase();
            write!(f, "{x}.scatter_reduce({axis}, {rest}, {name:?}, {with_self})")
        }
        Call::IndexAdd(axis) => write!(f, "{x}.index_add({axis}, {rest})"),
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Line::Let(var, Expr::Var(other)) => write!(f, "let mut v{var} = v{other}.clone();"),
            Line::Let(var, expr) => write!(f, "let mut v{var} = {expr};"),
            Line::Write(target, how, value) => written(f, target, how, value),
            Line::Refused(target, How::TrySet(index), value) => {
                write!(f, "{target}.try_set(s![{}], {}).unwrap_err();", list(index), lent(value))
            }
            Line::Refused(target, _, value) => {
                write!(f, "{target}.try_assign({}).err().unwrap();", lent(value))
            }
            Line::Realize(exprs) => match exprs.as_slice() {
                [expr] => write!(f, "{expr}.realize().unwrap();"),
                exprs => write!(f, "kiln::realize([{}]).unwrap();", all_lent(exprs)),
            },
            Line::Read(expr) => write!(f, "{expr}"),
            Line::Drop(var) => write!(f, "drop(v{var});"),
            Line::Jitted(var, lines, result) => jitted(f, *var, lines, result),
        }
    }
}

fn jitted(f: &mut fmt::Formatter<'_>, var: Var, lines: &[Line], result: &Expr) -> fmt::Result {
    let vars = used(lines, result);
    let names = |name: fn(Var) -> String| vars.iter().copied().map(name).collect::<String>();
    let (own, given) = (names(|v| format!("mut v{v}, ")), names(|v| format!("v{v}.clone(), ")));
    let vars = format!("let [{own}] = <[Tensor; {}]>::try_from(t.clone()).unwrap()", vars.len());
    let lines: String = lines.iter().map(|line| format!("{line} ")).collect();
    let f_of = format!("kiln::jit(|t: &Vec<Tensor>| {{ {vars}; {lines}{} }})", owned(result));
    let call = format!("f(&vec![{given}])");
    let first = format!("(1..{CALLS}).for_each(|_| drop({call}))");
    write!(f, "let mut v{var} = {{ let f = {f_of}; {first}; {call} }};")
}

/// As a value of its own: a variable is cloned.
fn owned(expr: &Expr) -> String {
    if let Expr::Var(_) = expr { format!("{expr}.clone()") } else { expr.to_string() }
}

fn written(f: &mut fmt::Formatter<'_>, target: &Expr, how: &How, value: &Expr) -> fmt::Result {
    let lent = lent(value);
    match (how, target) {
        (How::Set(index), _) => write!(f, "{target}.set(s![{}], {lent});", list(index)),
        (How::TrySet(index), _) => {
            write!(f, "{target}.try_set(s![{}], {lent}).unwrap();", list(index))
        }
        (How::Assign, _) => write!(f, "{target}.assign({lent});"),
        (How::TryAssign, _) => write!(f, "{target}.try_assign({lent}).unwrap();"),
        (How::Operator(op), Expr::Var(_)) => write!(f, "{target} {}= {lent};", op.sign()),
        (How::Operator(op), _) => write!(f, "*&mut {target} {}= {lent};", op.sign()),
        (How::Method(op), _) => write!(f, "{target}.{}_assign({lent});", op.name()),
    }
}

/// The program as a test, with what the reads are meant to give.
pub(super) fn test(name: &str, lines: &[Line]) -> String {
    let mut text = format!(
        "#[test]\n#[allow(unused_mut, unused_imports)]\nfn {name}() {{\n    \
         use kiln::{{DType, Tensor, s}};\n    use std::ops::{{AddAssign, MulAssign, SubAssign}};\n"
    );
    let mut machine = Machine::default();
    for line in lines {
        let read = machine.run(line);
        let printed = match (line, read) {
            (Line::Read(expr), Some(bytes)) => {
                let dtype = machine.tensor(expr).expect("just read").dtype;
                let chunks = bytes.chunks(dtype.size());
                let wanted: Vec<String> =
                    chunks.map(|b| literal(Num::decode(dtype, b), dtype)).collect();
                let wanted = wanted.join(", ");
                format!("assert_eq!({expr}.to_vec::<{dtype}>().unwrap(), [{wanted}]);")
            }
            (line, _) => line.to_string(),
        };
        text += &format!("    {printed}\n");
    }
    text + "}\n"
}
