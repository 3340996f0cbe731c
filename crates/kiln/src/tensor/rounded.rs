//! Sums, products and softmax in a dtype of one's own, and products of several matrices.

use super::{AxesArg, Tensor};
use crate::DType;
use crate::origin::outermost;
use std::borrow::Borrow;

/// Methods that first bring the elements to a dtype, as PyTorch's argument `dtype` does.
impl Tensor {
    /// As [`sum`](Tensor::sum), of the elements in another dtype, which is that of the result.
    ///
    /// ```
    /// use kiln::{DType, Tensor};
    /// let t = Tensor::from([1u8, 2, 3]);
    /// assert_eq!(t.sum_with(.., DType::F64).dtype(), DType::F64);
    /// ```
    ///
    /// # Errors
    /// As [`sum`](Tensor::sum).
    #[must_use]
    #[track_caller]
    pub fn sum_with(&self, axes: impl AxesArg, dtype: DType) -> Tensor {
        let _method = outermost("sum_with");
        self.cast(dtype).sum(axes).cast(dtype)
    }

    /// As [`prod`](Tensor::prod), of the elements in another dtype, which is that of the result.
    ///
    /// ```
    /// use kiln::{DType, Tensor};
    /// let t = Tensor::from([1u8, 2, 3]);
    /// assert_eq!(t.prod_with(.., DType::F64).dtype(), DType::F64);
    /// ```
    ///
    /// # Errors
    /// As [`prod`](Tensor::prod).
    #[must_use]
    #[track_caller]
    pub fn prod_with(&self, axes: impl AxesArg, dtype: DType) -> Tensor {
        let _method = outermost("prod_with");
        self.cast(dtype).prod(axes).cast(dtype)
    }

    /// As [`mean`](Tensor::mean), of the elements in another dtype, which is that of the result.
    ///
    /// ```
    /// use kiln::{DType, Tensor};
    /// let t = Tensor::from([1u8, 2, 3]);
    /// assert_eq!(t.mean_with(.., DType::F64).dtype(), DType::F64);
    /// ```
    ///
    /// # Errors
    /// As [`mean`](Tensor::mean).
    #[must_use]
    #[track_caller]
    pub fn mean_with(&self, axes: impl AxesArg, dtype: DType) -> Tensor {
        let _method = outermost("mean_with");
        self.cast(dtype).mean(axes).cast(dtype)
    }

    /// As [`softmax`](Tensor::softmax), of the elements in another dtype, which is that of the result.
    ///
    /// ```
    /// use kiln::{DType, Tensor};
    /// let t = Tensor::zeros([2]);
    /// assert_eq!(t.softmax_with(0, DType::F64).dtype(), DType::F64);
    /// ```
    ///
    /// # Errors
    /// As [`softmax`](Tensor::softmax).
    #[must_use]
    #[track_caller]
    pub fn softmax_with(&self, axes: impl AxesArg, dtype: DType) -> Tensor {
        let _method = outermost("softmax_with");
        self.cast(dtype).softmax(axes).cast(dtype)
    }

    /// As [`log_softmax`](Tensor::log_softmax), of the elements in another dtype, which is that of the result.
    ///
    /// ```
    /// use kiln::{DType, Tensor};
    /// let t = Tensor::zeros([2]);
    /// assert_eq!(t.log_softmax_with(0, DType::F64).dtype(), DType::F64);
    /// ```
    ///
    /// # Errors
    /// As [`log_softmax`](Tensor::log_softmax).
    #[must_use]
    #[track_caller]
    pub fn log_softmax_with(&self, axes: impl AxesArg, dtype: DType) -> Tensor {
        let _method = outermost("log_softmax_with");
        self.cast(dtype).log_softmax(axes).cast(dtype)
    }
}

/// Products.
impl Tensor {
    /// The sum of the products of two vectors: [`dot`](Tensor::dot), of numbers that are real.
    ///
    /// ```
    /// use kiln::Tensor;
    /// let t = Tensor::from([1, 2, 3]);
    /// assert_eq!(t.vdot(&t).item::<i32>()?, 14);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`dot`](Tensor::dot).
    #[must_use]
    #[track_caller]
    pub fn vdot(&self, other: &Tensor) -> Tensor {
        let _method = outermost("vdot");
        self.dot(other)
    }

    /// [`multi_dot`](Tensor::multi_dot) of matrices alone.
    ///
    /// ```
    /// use kiln::Tensor;
    /// let [a, b, c] = [[2, 9], [9, 1], [1, 4]].map(|shape| Tensor::ones(shape));
    /// assert_eq!(Tensor::chain_matmul([&a, &b, &c]).to_vec::<f32>()?, [9.0; 8]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// No matrix, other than two axes, inner lengths that differ, other devices.
    #[must_use]
    #[track_caller]
    pub fn chain_matmul<T: Borrow<Tensor>>(matrices: impl IntoIterator<Item = T>) -> Tensor {
        let _method = outermost("chain_matmul");
        let all: Vec<Tensor> = matrices.into_iter().map(|m| m.borrow().clone()).collect();
        if let Some(broken) = all.iter().find(|m| m.error().is_some()) {
            return broken.clone();
        }
        match all.iter().find(|m| m.ndim() != 2) {
            Some(other) => {
                other.refused("chain_matmul", format!("{:?} is no matrix", other.shape()).into())
            }
            None if all.is_empty() => {
                Tensor::zeros(()).refused("chain_matmul", "no matrices".into())
            }
            None => Tensor::multi_dot(&all),
        }
    }
}
