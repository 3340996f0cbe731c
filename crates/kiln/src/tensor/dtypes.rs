//! The element type: short names for casts, and sizes.

use super::Tensor;
use kiln_ir::DType;

/// Casts by their PyTorch names.
impl Tensor {
    /// [`cast`](Tensor::cast) to F32.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::from([0, 1]).float().dtype(), kiln::DType::F32);
    /// ```
    #[must_use]
    #[track_caller]
    pub fn float(&self) -> Tensor {
        self.cast(DType::F32)
    }

    /// [`cast`](Tensor::cast) to F64.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::from([0, 1]).double().dtype(), kiln::DType::F64);
    /// ```
    #[must_use]
    #[track_caller]
    pub fn double(&self) -> Tensor {
        self.cast(DType::F64)
    }

    /// [`cast`](Tensor::cast) to F16.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::from([0, 1]).half().dtype(), kiln::DType::F16);
    /// ```
    #[must_use]
    #[track_caller]
    pub fn half(&self) -> Tensor {
        self.cast(DType::F16)
    }

    /// [`cast`](Tensor::cast) to BF16.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::from([0, 1]).bfloat16().dtype(), kiln::DType::BF16);
    /// ```
    #[must_use]
    #[track_caller]
    pub fn bfloat16(&self) -> Tensor {
        self.cast(DType::BF16)
    }

    /// [`cast`](Tensor::cast) to I32.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::from([0, 1]).int().dtype(), kiln::DType::I32);
    /// ```
    #[must_use]
    #[track_caller]
    pub fn int(&self) -> Tensor {
        self.cast(DType::I32)
    }

    /// [`cast`](Tensor::cast) to I64.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::from([0, 1]).long().dtype(), kiln::DType::I64);
    /// ```
    #[must_use]
    #[track_caller]
    pub fn long(&self) -> Tensor {
        self.cast(DType::I64)
    }

    /// [`cast`](Tensor::cast) to I16.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::from([0, 1]).short().dtype(), kiln::DType::I16);
    /// ```
    #[must_use]
    #[track_caller]
    pub fn short(&self) -> Tensor {
        self.cast(DType::I16)
    }

    /// [`cast`](Tensor::cast) to I8.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::from([0, 1]).char().dtype(), kiln::DType::I8);
    /// ```
    #[must_use]
    #[track_caller]
    pub fn char(&self) -> Tensor {
        self.cast(DType::I8)
    }

    /// [`cast`](Tensor::cast) to U8.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::from([0, 1]).byte().dtype(), kiln::DType::U8);
    /// ```
    #[must_use]
    #[track_caller]
    pub fn byte(&self) -> Tensor {
        self.cast(DType::U8)
    }

    /// [`cast`](Tensor::cast) to Bool.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::from([0, 1]).bool().dtype(), kiln::DType::Bool);
    /// ```
    #[must_use]
    #[track_caller]
    pub fn bool(&self) -> Tensor {
        self.cast(DType::Bool)
    }
}

/// Sizes.
impl Tensor {
    /// The size of an element in bytes.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::zeros([2]).element_size(), 4);
    /// ```
    pub fn element_size(&self) -> usize {
        self.dtype().size()
    }

    /// The size of all elements in bytes.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::zeros([2, 3]).nbytes(), 24);
    /// ```
    pub fn nbytes(&self) -> usize {
        self.numel() * self.element_size()
    }

    /// Whether the elements are floats.
    ///
    /// ```
    /// assert!(kiln::Tensor::zeros([2]).is_floating_point());
    /// ```
    pub fn is_floating_point(&self) -> bool {
        self.dtype().is_float()
    }
}
