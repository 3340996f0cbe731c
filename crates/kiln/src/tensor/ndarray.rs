//! To and from the arrays of the crate `ndarray`.

use super::Tensor;
use crate::element::Element;
use crate::error::{Error, Fault, at_caller};
use ndarray::{ArrayBase, ArrayD, Data, Dimension, IxDyn};

/// New storage with the values of an array, whatever its layout.
///
/// ```
/// let t = kiln::Tensor::from(ndarray::array![[1.0f32, 2.0], [3.0, 4.0]].t());
/// assert_eq!(t.to_vec::<f32>()?, [1.0, 3.0, 2.0, 4.0]);
/// # Ok::<(), kiln::Error>(())
/// ```
impl<S: Data<Elem: Element + Clone>, D: Dimension> From<ArrayBase<S, D>> for Tensor {
    #[track_caller]
    fn from(array: ArrayBase<S, D>) -> Tensor {
        let shape = array.shape().to_vec();
        Tensor::from_vec(array.iter().cloned().collect(), shape)
    }
}

/// The elements as an array.
///
/// # Errors
/// As [`Tensor::to_vec`].
///
/// ```
/// let t = kiln::Tensor::from([[1, 2], [3, 4]]);
/// let array = ndarray::ArrayD::<i32>::try_from(&t)?;
/// assert_eq!(array[[1, 0]], 3);
/// # Ok::<(), kiln::Error>(())
/// ```
impl<T: Element> TryFrom<&Tensor> for ArrayD<T> {
    type Error = Error;

    #[track_caller]
    fn try_from(t: &Tensor) -> Result<ArrayD<T>, Error> {
        let array = t.read_as::<T>().and_then(|numbers| {
            let array = ArrayD::from_shape_vec(IxDyn(t.shape()), numbers);
            array.map_err(|why| Fault::from(why.to_string()))
        });
        at_caller("to_ndarray", array)
    }
}
