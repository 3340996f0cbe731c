//! Printing as NumPy does: as few digits as tell the numbers apart, columns aligned, long axes abridged. `{:.2}` is two
//! digits after the point.

use super::Tensor;
use super::compute;
use crate::element::Element;
use crate::error::Fault;
use kiln_ir::{DType, eval};
use std::fmt;
use std::slice::Iter;

/// Past this many elements only the ends of each axis are printed.
const ABRIDGED_FROM: usize = 1000;
/// How many elements of an abridged axis are printed at each end.
const EDGE: usize = 3;
/// Characters of a line.
const WIDTH: usize = 75;
/// Digits after the point.
const PRECISION: usize = 8;

impl fmt::Display for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match texts(self, f.precision()) {
            Ok(texts) => f.write_str(&layout(&texts, self.shape())),
            // whose line this is, the standard library does not say
            Err(fault) => write!(f, "<{fault}>"),
        }
    }
}

/// Dtype, shape and elements; so it computes the tensor. Or the error.
impl fmt::Debug for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.error() {
            Some(error) => write!(f, "Tensor({error})"),
            None => {
                write!(f, "Tensor({:?}, {}, {}", self.shape(), self.dtype(), self.device())?;
                f.write_str(if self.ndim() > 1 { ",\n" } else { ", " })?;
                fmt::Display::fmt(self, f)?;
                f.write_str(")")
            }
        }
    }
}

/// Every element that is printed as text, in row-major order; floats with so many digits after the point if that is said.
fn texts(t: &Tensor, digits: Option<usize>) -> Result<Vec<String>, Fault> {
    let bytes = compute::read_at(&t.value()?, t.device(), &printed(t.shape()))?;
    Ok(match t.dtype() {
        DType::F32 => floats(&decoded::<f32>(&bytes), digits),
        DType::F64 => floats(&decoded::<f64>(&bytes), digits),
        DType::F16 => floats(&decoded::<half::f16>(&bytes), digits),
        DType::BF16 => floats(&decoded::<half::bf16>(&bytes), digits),
        DType::Bool => {
            plain(&decoded::<bool>(&bytes), |b| (if *b { "True" } else { "False" }).into())
        }
        DType::I8 => plain(&decoded::<i8>(&bytes), i8::to_string),
        DType::I16 => plain(&decoded::<i16>(&bytes), i16::to_string),
        DType::I32 => plain(&decoded::<i32>(&bytes), i32::to_string),
        DType::I64 => plain(&decoded::<i64>(&bytes), i64::to_string),
        DType::U8 => plain(&decoded::<u8>(&bytes), u8::to_string),
        DType::U16 => plain(&decoded::<u16>(&bytes), u16::to_string),
        DType::U32 => plain(&decoded::<u32>(&bytes), u32::to_string),
        DType::U64 => plain(&decoded::<u64>(&bytes), u64::to_string),
        of => {
            let number = |&bits: &u8| eval::from_bits(bits.into(), of).as_f64();
            floats(&bytes.iter().map(number).collect::<Vec<f64>>(), digits)
        }
    })
}

fn decoded<T: Element>(bytes: &[u8]) -> Vec<T> {
    bytes.chunks_exact(T::DTYPE.size()).map(T::decode).collect()
}

fn plain<T>(data: &[T], text: impl Fn(&T) -> String) -> Vec<String> {
    data.iter().map(text).collect()
}

/// A float, and the shortest decimal number that tells it apart from others of its type.
trait Float: Copy {
    fn wide(self) -> f64;
    fn decimal(self) -> f64;
}
impl Float for f32 {
    fn wide(self) -> f64 {
        self as f64
    }
    fn decimal(self) -> f64 {
        self.to_string().parse().expect("a number that was just printed")
    }
}
impl Float for f64 {
    fn wide(self) -> f64 {
        self
    }
    fn decimal(self) -> f64 {
        self
    }
}
impl Float for half::f16 {
    fn wide(self) -> f64 {
        self.to_f64()
    }
    fn decimal(self) -> f64 {
        shortest(self.to_f64(), |x| half::f16::from_f64(x) == self)
    }
}
impl Float for half::bf16 {
    fn wide(self) -> f64 {
        self.to_f64()
    }
    fn decimal(self) -> f64 {
        shortest(self.to_f64(), |x| half::bf16::from_f64(x) == self)
    }
}

/// `x` with as few digits as `is_same` needs.
fn shortest(x: f64, is_same: impl Fn(f64) -> bool) -> f64 {
    let rounded = |digits: usize| format!("{x:.digits$e}").parse().expect("a number just printed");
    (0..8).map(rounded).find(|&y| is_same(y)).unwrap_or(x)
}

fn floats<T: Float>(data: &[T], digits: Option<usize>) -> Vec<String> {
    if let Some(digits) = digits {
        let text = |x: &T| match x.wide() {
            wide if wide.is_finite() => format!("{wide:.digits$}"),
            wide => not_finite(wide),
        };
        return data.iter().map(text).collect();
    }
    let sizes = || data.iter().map(|x| x.wide().abs()).filter(|x| x.is_finite() && *x != 0.0);
    let (min, max) = (sizes().fold(f64::INFINITY, f64::min), sizes().fold(0.0, f64::max));
    let scientific = max >= 1e8 || min < 1e-4 || (max > 0.0 && max / min > 1000.0);
    let format = if scientific && max > 0.0 { exponential::<T> } else { positional::<T> };
    let halves: Vec<(String, String)> = data.iter().map(|x| format(*x)).collect();
    let digits = halves.iter().map(|(_, fraction)| fraction_digits(fraction)).max().unwrap_or(0);
    let pad = |x: &T| {
        let (whole, fraction) = format(*x);
        match x.wide().is_finite() {
            true => whole + "." + &padded(&fraction, digits, scientific && max > 0.0),
            false => whole,
        }
    };
    data.iter().map(pad).collect()
}

/// The digits before an exponent.
fn fraction_digits(fraction: &str) -> usize {
    fraction.find('e').unwrap_or(fraction.len())
}

/// The fraction with as many digits as the longest: spaces after a plain number, zeros before an exponent.
fn padded(fraction: &str, digits: usize, scientific: bool) -> String {
    let (mantissa, exponent) = fraction.split_at(fraction_digits(fraction));
    let fill = if scientific { "0" } else { " " };
    format!("{mantissa}{}{exponent}", fill.repeat(digits.saturating_sub(mantissa.len())))
}

/// What is before and after the point.
fn positional<T: Float>(x: T) -> (String, String) {
    if !x.wide().is_finite() {
        return (not_finite(x.wide()), String::new());
    }
    let shortest = x.decimal().to_string();
    let fraction = shortest.split_once('.').map_or(0, |(_, f)| f.len());
    let text = if fraction > PRECISION { format!("{:.PRECISION$}", x.wide()) } else { shortest };
    let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
    (whole.to_owned(), fraction.trim_end_matches('0').to_owned())
}

/// What is before the point, and after it with an exponent of two digits or more.
fn exponential<T: Float>(x: T) -> (String, String) {
    if !x.wide().is_finite() {
        return (not_finite(x.wide()), String::new());
    }
    let shortest = format!("{:e}", x.decimal());
    let fraction = shortest.split(['.', 'e']).nth(1).map_or(0, str::len);
    let long = shortest.contains('.') && fraction > PRECISION;
    let text = if long { format!("{:.PRECISION$e}", x.wide()) } else { shortest };
    let (mantissa, exponent) = text.split_once('e').expect("an exponent");
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let (sign, size) = exponent.strip_prefix('-').map_or(('+', exponent), |e| ('-', e));
    (whole.to_owned(), format!("{}e{sign}{size:0>2}", fraction.trim_end_matches('0')))
}

fn not_finite(x: f64) -> String {
    let text = if x.is_nan() {
        "nan"
    } else if x > 0.0 {
        "inf"
    } else {
        "-inf"
    };
    text.to_owned()
}

/// The positions along an axis that are printed; `None` stands for the gap.
fn along(n: usize, abridged: bool) -> Vec<Option<usize>> {
    if !abridged || n <= 2 * EDGE {
        return (0..n).map(Some).collect();
    }
    (0..EDGE).map(Some).chain([None]).chain((n - EDGE..n).map(Some)).collect()
}

fn is_abridged(shape: &[usize]) -> bool {
    shape.iter().product::<usize>() > ABRIDGED_FROM
}

/// The row-major positions of everything that is printed.
fn printed(shape: &[usize]) -> Vec<usize> {
    let abridged = is_abridged(shape);
    shape.iter().fold(vec![0], |outer, &n| {
        let inner = along(n, abridged);
        let under = |o: usize| inner.iter().flatten().map(move |i| o * n + i).collect::<Vec<_>>();
        outer.into_iter().flat_map(under).collect()
    })
}

fn layout(texts: &[String], shape: &[usize]) -> String {
    if shape.is_empty() {
        return texts[0].trim_end().to_owned();
    }
    let width = texts.iter().map(String::len).max().unwrap_or(0);
    let mut out = String::new();
    axis(&mut texts.iter(), shape, width, is_abridged(shape), 1, &mut out);
    out
}

/// One axis in brackets; the depth of recursion is the rank.
fn axis(
    texts: &mut Iter<'_, String>,
    shape: &[usize],
    width: usize,
    abridged: bool,
    depth: usize,
    out: &mut String,
) {
    let (n, inner) = (shape[0], &shape[1..]);
    out.push('[');
    if inner.is_empty() {
        row(texts, n, width, abridged, depth, out);
    } else {
        for (k, i) in along(n, abridged).into_iter().enumerate() {
            if k > 0 {
                out.push_str(&"\n".repeat(inner.len()));
                out.push_str(&" ".repeat(depth));
            }
            match i {
                Some(_) => axis(texts, inner, width, abridged, depth + 1, out),
                None => out.push_str("..."),
            }
        }
    }
    out.push(']');
}

/// The elements of the last axis, broken into lines.
fn row(
    texts: &mut Iter<'_, String>,
    n: usize,
    width: usize,
    abridged: bool,
    depth: usize,
    out: &mut String,
) {
    let mut column = depth;
    for (k, i) in along(n, abridged).into_iter().enumerate() {
        let text = i.and_then(|_| texts.next());
        let text = text.map_or_else(|| "...".to_owned(), |text| format!("{text:>width$}"));
        if k > 0 && column + 1 + text.len() + depth > WIDTH {
            out.push('\n');
            out.push_str(&" ".repeat(depth));
            column = depth;
        } else if k > 0 {
            out.push(' ');
            column += 1;
        }
        column += text.len();
        out.push_str(&text);
    }
}
