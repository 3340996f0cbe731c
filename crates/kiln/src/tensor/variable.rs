//! Numbers that a program says will vary.

use super::length::Length;
use super::shape_args::Int;
use kiln_ir::uop;

/// A number that will be another one the next time: how many tokens there are so far, the rows of a batch.
///
/// A graph whose lengths come from a variable gets a schedule for all of its values at once. With another value it is
/// neither scheduled nor compiled again. The results are those that plain numbers give.
///
/// ```
/// use kiln::{Tensor, Variable, s};
/// let length = Variable::new("length", 1, 1024);
/// let x = Tensor::arange(100);
/// for n in [10, 20, 30] {
///     let sum = x.get(s![..length.bind(n)]).sum(..).item::<i32>()?;
///     assert_eq!(sum, n * (n - 1) / 2);
/// }
/// # Ok::<(), kiln::Error>(())
/// ```
///
/// A variable without a value is no length:
///
/// ```compile_fail
/// kiln::Tensor::zeros(kiln::Variable::new("n", 1, 8));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variable {
    id: uop::VariableId,
    min: i64,
    max: i64,
}

impl Variable {
    /// A variable with its smallest and its largest value. Two of one name and bounds are one.
    ///
    /// The bounds are what the schedule is made for: choose the largest value that will come.
    ///
    /// ```
    /// let rows = kiln::Variable::new("rows", 1, 64);
    /// assert_eq!(usize::from(rows.bind(8)), 8);
    /// ```
    pub fn new(name: &str, min: impl Int, max: impl Int) -> Variable {
        let (min, max) = (min.as_i64(), max.as_i64());
        let id = uop::VariableId::of(&uop::Variable { name: name.into(), min, max });
        Variable { id, min, max }
    }

    /// The number `n`, as a value of the variable. Where it is outside of the bounds, each operation that gets it gives a
    /// tensor that carries the error.
    ///
    /// ```
    /// use kiln::{Tensor, Variable};
    /// let rows = Variable::new("rows", 1, 64);
    /// assert_eq!(Tensor::zeros((rows.bind(5), 2)).shape(), [5, 2]);
    /// assert!(Tensor::zeros(rows.bind(65)).error().is_some());
    /// ```
    #[track_caller]
    pub fn bind(&self, n: impl Int) -> Length {
        let n = n.as_i64();
        Length::bound(self.id, n, !(self.min..=self.max).contains(&n))
    }
}
