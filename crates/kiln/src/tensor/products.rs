//! Products of vectors and matrices that are made of [`Tensor::matmul`] and of elementwise ones.

use super::Tensor;
use super::shape_args::{AxesArg, Int, axes_in_order};
use crate::element::Operand;
use crate::error::{Fault, refuse};
use crate::origin::outermost;

/// Matrices.
impl Tensor {
    /// The product of two matrices: [`matmul`](Tensor::matmul) of two axes each.
    ///
    /// ```
    /// let a = kiln::Tensor::from([[1, 2], [3, 4]]);
    /// assert_eq!(a.mm(&a).to_vec::<i32>()?, [7, 10, 15, 22]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// Other than two axes; as [`matmul`](Tensor::matmul).
    #[must_use]
    #[track_caller]
    pub fn mm(&self, other: &Tensor) -> Tensor {
        self.ranked_product("mm", other, [2, 2])
    }

    /// The products of two stacks of matrices: [`matmul`](Tensor::matmul) of three axes each.
    ///
    /// ```
    /// use kiln::Tensor;
    /// assert_eq!(Tensor::ones([2, 3, 4]).bmm(&Tensor::ones([2, 4, 5])).shape(), [2, 3, 5]);
    /// ```
    ///
    /// # Errors
    /// Other than three axes, stacks of different heights; as [`matmul`](Tensor::matmul).
    #[must_use]
    #[track_caller]
    pub fn bmm(&self, other: &Tensor) -> Tensor {
        let _method = outermost("bmm");
        if let ([a, _, _], [b, _, _]) = (self.shape(), other.shape())
            && a != b
        {
            let why = format!("stacks differ, lhs {:?}, rhs {:?}", self.shape(), other.shape());
            return self.refused("bmm", why.into());
        }
        self.ranked_product("bmm", other, [3, 3])
    }

    /// The product of a matrix and a vector: [`matmul`](Tensor::matmul) of two axes and one.
    ///
    /// ```
    /// use kiln::Tensor;
    /// let y = Tensor::from([[1, 2], [3, 4]]).mv(&Tensor::from([1, 1]));
    /// assert_eq!(y.to_vec::<i32>()?, [3, 7]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// Other axes; as [`matmul`](Tensor::matmul).
    #[must_use]
    #[track_caller]
    pub fn mv(&self, other: &Tensor) -> Tensor {
        self.ranked_product("mv", other, [2, 1])
    }

    #[track_caller]
    fn ranked_product(&self, op: &'static str, other: &Tensor, ranks: [usize; 2]) -> Tensor {
        let _method = outermost(op);
        let (a, b) = (self.shape(), other.shape());
        if [a.len(), b.len()] != ranks && Tensor::all_valid([self, other]).is_ok() {
            let why = format!("wants {} and {} axes, lhs {a:?}, rhs {b:?}", ranks[0], ranks[1]);
            return Tensor::broken(Fault::New(why).at(op));
        }
        self.matmul(other)
    }

    /// `beta * self + alpha * (a @ b)`.
    ///
    /// ```
    /// use kiln::Tensor;
    /// let a = Tensor::from([[1.0, 2.0], [3.0, 4.0]]);
    /// assert_eq!(Tensor::eye_with(2, kiln::DType::F64).addmm(&a, &a, 1.0, 0.5).to_vec::<f64>()?, [4.5, 5.0, 7.5, 12.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`mm`](Tensor::mm); a sum that does not broadcast.
    #[must_use]
    #[track_caller]
    pub fn addmm(&self, a: &Tensor, b: &Tensor, beta: impl Operand, alpha: impl Operand) -> Tensor {
        let _method = outermost("addmm");
        self.mul(beta).add(a.mm(b).mul(alpha))
    }

    /// The sum of the diagonal of a matrix.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::from([[1, 2], [3, 4]]).trace().item::<i32>()?, 5);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// Other than two axes.
    #[must_use]
    #[track_caller]
    pub fn trace(&self) -> Tensor {
        let _method = outermost("trace");
        match self.ndim() {
            2 => self.diagonal(0, 0, 1).sum(0),
            _ => {
                let why = format!("wants two axes, not {:?}", self.shape());
                self.refused("trace", why.into())
            }
        }
    }

    /// A square matrix, or a stack of them, multiplied by itself so that it stands there `n` times; the identity for 0.
    ///
    /// ```
    /// let a = kiln::Tensor::from([[1, 1], [0, 1]]);
    /// assert_eq!(a.matrix_power(5).to_vec::<i32>()?, [1, 5, 0, 1]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// Matrices that are not square.
    #[must_use]
    #[track_caller]
    pub fn matrix_power(&self, mut n: usize) -> Tensor {
        let _method = outermost("matrix_power");
        let [.., rows, columns] = *self.shape() else {
            return self.refused(
                "matrix_power",
                format!("wants square matrices, not {:?}", self.shape()).into(),
            );
        };
        if rows != columns {
            return self.refused(
                "matrix_power",
                format!("wants square matrices, not {:?}", self.shape()).into(),
            );
        }
        let (mut square, mut result) = (self.clone(), None::<Tensor>);
        while n > 0 {
            if n % 2 == 1 {
                result = Some(result.map_or_else(|| square.clone(), |r| r.matmul(&square)));
            }
            n /= 2;
            if n > 0 {
                square = square.matmul(&square);
            }
        }
        match result {
            Some(result) => result.copy(),
            None => {
                Tensor::eye_with(rows, (self.dtype(), self.device())).expand(self.shape()).copy()
            }
        }
    }
}

/// Vectors.
impl Tensor {
    /// Each element of this times each of `other`, of one axis each.
    ///
    /// ```
    /// use kiln::Tensor;
    /// let t = Tensor::from([1, 2]).outer(&Tensor::from([3, 4]));
    /// assert_eq!(t.to_vec::<i32>()?, [3, 4, 6, 8]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// Other than one axis, other devices.
    #[must_use]
    #[track_caller]
    pub fn outer(&self, other: &Tensor) -> Tensor {
        let _method = outermost("outer");
        match (self.ndim(), other.ndim()) {
            (1, 1) => self.unsqueeze(1).mul(other),
            _ => {
                let why =
                    format!("wants one axis each, lhs {:?}, rhs {:?}", self.shape(), other.shape());
                self.refused("outer", why.into())
            }
        }
    }

    /// Sums of products over the last axes of both.
    ///
    /// ```
    /// use kiln::Tensor;
    /// assert_eq!(Tensor::ones([2, 3]).inner(&Tensor::ones([4, 3])).shape(), [2, 4]);
    /// ```
    ///
    /// # Errors
    /// Last axes that differ, other devices.
    #[must_use]
    #[track_caller]
    pub fn inner(&self, other: &Tensor) -> Tensor {
        let _method = outermost("inner");
        match self.ndim() == 0 || other.ndim() == 0 {
            true => self.mul(other),
            false => self.tensordot(other, -1, -1),
        }
    }

    /// The vector at right angles to both, along an axis of three elements.
    ///
    /// ```
    /// use kiln::Tensor;
    /// let z = Tensor::from([1, 0, 0]).cross(&Tensor::from([0, 1, 0]), 0);
    /// assert_eq!(z.to_vec::<i32>()?, [0, 0, 1]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// An axis that is not there or has not three elements; shapes that do not broadcast.
    #[must_use]
    #[track_caller]
    pub fn cross(&self, other: &Tensor, axis: impl Int) -> Tensor {
        let _method = outermost("cross");
        let axis = axis.as_i64();
        for t in [self, other] {
            match t.axis_length(axis) {
                Ok((_, 3)) => {}
                Ok((_, n)) => {
                    return Tensor::broken(
                        Fault::New(format!("axis {axis} has {n} elements, not 3")).at("cross"),
                    );
                }
                Err(fault) => return Tensor::broken(fault.at("cross")),
            }
        }
        let (x, y, dtype) = self.widened(other);
        let one = x.roll(-1, axis).mul(y.roll(1, axis));
        one.sub(x.roll(1, axis).mul(y.roll(-1, axis))).cast(dtype)
    }

    /// Each element of this times all of `other`, in its place.
    ///
    /// ```
    /// use kiln::Tensor;
    /// let t = Tensor::from([1, 10]).kron(&Tensor::from([2, 3]));
    /// assert_eq!(t.to_vec::<i32>()?, [2, 3, 20, 30]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// Other devices; more elements than memory could hold.
    #[must_use]
    #[track_caller]
    pub fn kron(&self, other: &Tensor) -> Tensor {
        let _method = outermost("kron");
        let rank = self.ndim().max(other.ndim());
        let filled = |t: &Tensor| -> Vec<usize> {
            std::iter::repeat_n(1, rank - t.ndim()).chain(t.shape().iter().copied()).collect()
        };
        let (a, b) = (filled(self), filled(other));
        let columns: Vec<usize> = a.iter().flat_map(|&n| [n, 1]).collect();
        let rows: Vec<usize> = b.iter().flat_map(|&n| [1, n]).collect();
        let shape: Vec<usize> = a.iter().zip(&b).map(|(m, n)| m.saturating_mul(*n)).collect();
        self.reshape(columns).mul(other.reshape(rows)).reshape(shape)
    }

    /// Sums of products over axes of this and as many of `other`, in order; the axes that are left are those of this, then
    /// those of `other`.
    ///
    /// ```
    /// use kiln::Tensor;
    /// let t = Tensor::ones([2, 3, 4]).tensordot(&Tensor::ones([4, 3, 5]), [1, 2], [1, 0]);
    /// assert_eq!(t.shape(), [2, 5]);
    /// ```
    ///
    /// # Errors
    /// Axes that are not there or are named twice; different numbers of them, or lengths; other devices.
    #[must_use]
    #[track_caller]
    pub fn tensordot(&self, other: &Tensor, axes: impl AxesArg, others: impl AxesArg) -> Tensor {
        let _method = outermost("tensordot");
        let matched = || -> Result<_, Fault> {
            Tensor::all_valid([self, other])?;
            let a = axes_in_order(axes, self.ndim())?;
            let b = axes_in_order(others, other.ndim())?;
            let lengths =
                |t: &Tensor, axes: &[usize]| axes.iter().map(|&i| t.shape()[i]).collect::<Vec<_>>();
            let (m, n) = (lengths(self, &a), lengths(other, &b));
            if m != n {
                return refuse!(
                    "axes {a:?} of {:?} and {b:?} of {:?} differ",
                    self.shape(),
                    other.shape()
                );
            }
            Ok((a, b, m.iter().product::<usize>()))
        };
        let (a, b, inner) = match matched() {
            Ok(matched) => matched,
            Err(fault) => return Tensor::broken(fault.at("tensordot")),
        };
        let rest = |t: &Tensor, axes: &[usize]| {
            (0..t.ndim()).filter(|i| !axes.contains(i)).collect::<Vec<_>>()
        };
        let (rows, columns) = (rest(self, &a), rest(other, &b));
        let lengths =
            |t: &Tensor, axes: &[usize]| axes.iter().map(|&i| t.shape()[i]).collect::<Vec<_>>();
        let (m, n) = (lengths(self, &rows), lengths(other, &columns));
        let left = self.permute([rows, a.to_vec()].concat()).reshape([m.iter().product(), inner]);
        let right =
            other.permute([b.to_vec(), columns].concat()).reshape([inner, n.iter().product()]);
        left.matmul(&right).reshape([m, n].concat())
    }

    /// The `p`-norm of the distance between each row of this, `[.., m, size]`, and each of `other`, `[.., n, size]`.
    ///
    /// ```
    /// use kiln::Tensor;
    /// let d = Tensor::from([[0.0f32, 0.0]]).cdist(&Tensor::from([[3.0f32, 4.0]]), 2.0);
    /// assert_eq!(d.to_vec::<f32>()?, [5.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// Fewer than two axes, rows of different sizes, other devices.
    #[must_use]
    #[track_caller]
    pub fn cdist(&self, other: &Tensor, p: f64) -> Tensor {
        let _method = outermost("cdist");
        if self.ndim() < 2 || other.ndim() < 2 || self.shape().last() != other.shape().last() {
            let why =
                format!("wants rows of one size, lhs {:?}, rhs {:?}", self.shape(), other.shape());
            return self.refused("cdist", why.into());
        }
        self.unsqueeze(-2).sub(other.unsqueeze(-3)).norm(p, -1)
    }
}
