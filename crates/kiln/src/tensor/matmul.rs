//! Matrix products: one multiplication over expanded operands, one sum.

use super::Tensor;
use super::broadcast::{broadcast_shapes, one_device};
use super::elementwise::like;
use super::reduce::wide_sum;
use crate::error::{Fault, refuse};
use crate::origin::outermost;
use kiln_ir::arg::{Axes, Function, Shape};
use kiln_ir::{DType, UOp, function};

/// The dtype of a sum of products and the one that it is accumulated in. Operands are widened before they multiply,
/// so that products of narrow floats are exact.
pub(super) fn product_dtypes(a: &Tensor, b: &Tensor) -> (DType, DType) {
    let dtype = a.common_dtype(b).sum_dtype();
    (dtype, dtype.accumulator())
}

impl Tensor {
    /// The matrix product over the last axis of this and the last but one of `other`. Leading axes broadcast; an
    /// operand of one axis is a row on the left and a column on the right, as in NumPy. Small integers widen as in
    /// [`sum`](Tensor::sum); narrow floats are accumulated in f32.
    ///
    /// ```
    /// let a = kiln::Tensor::from([[1, 2], [3, 4]]);
    /// assert_eq!(a.matmul(&a).to_vec::<i32>()?, [7, 10, 15, 22]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// Scalars, inner lengths that differ, leading axes that do not broadcast, other devices.
    #[must_use]
    #[track_caller]
    pub fn matmul(&self, other: &Tensor) -> Tensor {
        self.lift("matmul", narrowed(self, other, None, None))
    }

    /// As [`matmul`](Tensor::matmul), with the sums rounded to `dtype` once: narrow floats add up in f32 and may stay there.
    ///
    /// ```
    /// use kiln::{DType, Tensor};
    /// let a = Tensor::ones_with([2, 2], DType::BF16);
    /// assert_eq!(a.matmul_with(&a, DType::F32).to_vec::<f32>()?, [2.0; 4]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`matmul`](Tensor::matmul).
    #[must_use]
    #[track_caller]
    pub fn matmul_with(&self, other: &Tensor, dtype: DType) -> Tensor {
        self.lift("matmul_with", narrowed(self, other, None, Some(dtype)))
    }

    /// The product without the terms that `counts`, of `[rows, columns, terms]` or what broadcasts to that, is false for:
    /// whatever they would be, infinite or NaN, they are left out.
    #[track_caller]
    pub(super) fn matmul_where(&self, other: &Tensor, counts: &Tensor) -> Tensor {
        self.lift("matmul", narrowed(self, other, Some(counts), None))
    }

    /// The product in the operands' own dtype, under [`autocast`](crate::autocast) too.
    #[track_caller]
    pub(crate) fn times(&self, other: &Tensor) -> Tensor {
        self.lift("matmul", product(self, other, None, None))
    }

    /// Same as [`matmul`](Tensor::matmul).
    ///
    /// ```
    /// let a = kiln::Tensor::from([1, 2]);
    /// assert_eq!(a.dot(&a).item::<i32>()?, 5);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`matmul`](Tensor::matmul).
    #[must_use]
    #[track_caller]
    pub fn dot(&self, other: &Tensor) -> Tensor {
        self.lift("dot", narrowed(self, other, None, None))
    }

    /// `self * weight + bias` as a linear layer has it; `weight` is `[inputs, outputs]`.
    ///
    /// ```
    /// use kiln::Tensor;
    /// let y = Tensor::ones([1, 2]).linear(&Tensor::ones([2, 3]), Some(&Tensor::ones([3])));
    /// assert_eq!(y.to_vec::<f32>()?, [3.0, 3.0, 3.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`matmul`](Tensor::matmul); a bias that does not broadcast.
    #[must_use]
    #[track_caller]
    pub fn linear(&self, weight: &Tensor, bias: Option<&Tensor>) -> Tensor {
        let _method = outermost("linear");
        let y = self.matmul(weight);
        match bias.map(Tensor::factor) {
            Some(Ok(bias)) => y.add(bias),
            _ => y,
        }
    }
}

/// One operand as a stack of matrices.
struct Matrices {
    node: UOp,
    batch: Shape,
    rows: usize,
    columns: usize,
}

impl Matrices {
    /// An operand of one axis is the matrix that `vector` says.
    fn new(node: UOp, vector: fn(usize) -> [usize; 2]) -> Matrices {
        let shape = match node.shape()[..] {
            [n] => Shape::from_slice(&vector(n)),
            _ => Shape::from_slice(node.shape()),
        };
        let (batch, matrix) = shape.split_at(shape.len() - 2);
        let (batch, rows, columns) = (Shape::from_slice(batch), matrix[0], matrix[1]);
        Matrices { node: node.reshape(shape), batch, rows, columns }
    }

    /// Rows and columns exchanged.
    fn transposed(self) -> Matrices {
        let rank = self.node.shape().len();
        let mut axes: Axes = (0..rank).collect();
        axes.swap(rank - 2, rank - 1);
        let node = self.node.permute(axes);
        Matrices { node, rows: self.columns, columns: self.rows, ..self }
    }

    /// The stack with an axis of length 1 at `at` of the last three, broadcast to `shape`.
    fn spread(&self, at: usize, shape: &[usize]) -> UOp {
        let mut own = Shape::from_slice(self.node.shape());
        let rank = own.len();
        own.insert(rank - 2 + at, 1);
        self.node.reshape(own).broadcast_to(shape)
    }
}

/// The product of the operands as [`autocast`](crate::autocast) wants them.
fn narrowed(
    lhs: &Tensor,
    rhs: &Tensor,
    counts: Option<&Tensor>,
    result: Option<DType>,
) -> Result<UOp, Fault> {
    product(&lhs.factor()?, &rhs.factor()?, counts, result)
}

fn product(
    lhs: &Tensor,
    rhs: &Tensor,
    counts: Option<&Tensor>,
    result: Option<DType>,
) -> Result<UOp, Fault> {
    Tensor::all_valid([lhs, rhs].into_iter().chain(counts))?;
    one_device([lhs, rhs])?;
    let (a, b) = (lhs.shape(), rhs.shape());
    let (Some(&inner), Some(&last)) = (a.last(), b.last()) else {
        return refuse!("wants at least one axis, lhs {a:?}, rhs {b:?}");
    };
    if inner != (if b.len() == 1 { last } else { b[b.len() - 2] }) {
        return refuse!("inner dimensions differ, lhs {a:?}, rhs {b:?}");
    }
    let (dtype, wide) = product_dtypes(lhs, rhs);
    let (x, w) = (lhs.value()?.cast(wide), rhs.value()?.cast(wide));
    let Ok(shape) = product_shape(&x, &w) else {
        return refuse!("leading axes do not broadcast, lhs {a:?}, rhs {b:?}");
    };
    let sums = match counts {
        None => UOp::composite(&MATMUL, [x, w], Axes::new(), wide, shape),
        Some(counts) => sums(&x, &w, Some(&counts.value()?), shape),
    };
    Ok(sums.cast(result.unwrap_or(dtype)))
}

static MATMUL: Function = function!("matmul", |product, srcs| {
    sums(&srcs[0], &srcs[1], None, product.shape().clone())
});

/// The shape of a product of nodes whose inner lengths are equal.
fn product_shape(x: &UOp, w: &UOp) -> Result<Shape, Fault> {
    let (a, b) = (x.shape(), w.shape());
    let leading = |shape: &Shape| Shape::from_slice(&shape[..shape.len().saturating_sub(2)]);
    let mut shape = broadcast_shapes(&leading(a), &leading(b))?;
    shape.extend((a.len() > 1).then(|| a[a.len() - 2]));
    shape.extend((b.len() > 1).then(|| b[b.len() - 1]));
    Ok(shape)
}

/// One multiplication over expanded operands, and one sum.
fn sums(x: &UOp, w: &UOp, counts: Option<&UOp>, shape: Shape) -> UOp {
    let x = Matrices::new(x.clone(), |n| [1, n]);
    let w = Matrices::new(w.clone(), |n| [n, 1]).transposed();
    let mut spread = broadcast_shapes(&x.batch, &w.batch).expect("the product has a shape");
    spread.extend_from_slice(&[x.rows, w.rows, x.columns]);
    let mut products = x.spread(1, &spread) * w.spread(0, &spread);
    if let Some(counts) = counts {
        products = counts.broadcast_to(&spread).where_(&products, &like(&products, 0));
    }
    wide_sum(&products, &Axes::from_slice(&[spread.len() - 1])).reshape(shape)
}
