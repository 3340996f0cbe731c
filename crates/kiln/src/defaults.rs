//! The dtype that new tensors have if they are told none. (The device is in `device`.)

use crate::error::{Error, Fault, at_caller, refuse};
use crate::scoped;
use kiln_ir::DType;
use kiln_ir::dtype::Weak;
use std::sync::OnceLock;
use std::sync::RwLock;

static FLOAT: RwLock<Option<DType>> = RwLock::new(None);

/// The dtype of new float tensors without a dtype of their own, and of floats computed from integers. The first of these
/// decides: [`with`](crate::with) and `DEFAULT_FLOAT`, [`set_default_float`], the environment, F32. Literals of arrays stay
/// F64, as they are in Rust.
///
/// ```
/// use kiln::{DType, Tensor};
/// assert_eq!(kiln::default_float(), DType::F32);
/// let mean = kiln::with([("DEFAULT_FLOAT", "bf16")], || Tensor::from([1, 2]).mean(..))?;
/// assert_eq!(mean.dtype(), DType::BF16);
/// # Ok::<(), kiln::Error>(())
/// ```
pub fn default_float() -> DType {
    static OF_PROCESS: OnceLock<DType> = OnceLock::new();
    let scoped = scoped::scoped("DEFAULT_FLOAT", |name| float(name).unwrap_or(DType::F32));
    let set = || *FLOAT.read().expect("default lock");
    scoped.or_else(set).unwrap_or_else(|| *OF_PROCESS.get_or_init(of_process))
}

/// Sets the [`default_float`] of the process.
///
/// ```
/// kiln::set_default_float(kiln::DType::F32)?;
/// # Ok::<(), kiln::Error>(())
/// ```
///
/// # Errors
/// A dtype that is not a float.
#[track_caller]
pub fn set_default_float(dtype: DType) -> Result<(), Error> {
    let float: Result<(), Fault> = match dtype.is_float() {
        true => Ok(()),
        false => refuse!("wants a float, not {dtype}"),
    };
    at_caller("set_default_float", float)?;
    *FLOAT.write().expect("default lock") = Some(dtype);
    Ok(())
}

fn float(name: &str) -> Option<DType> {
    name.parse().ok().filter(|dtype: &DType| dtype.is_float())
}

fn of_process() -> DType {
    let Some(name) = std::env::var("DEFAULT_FLOAT").ok().filter(|name| !name.is_empty()) else {
        return DType::F32;
    };
    float(&name).unwrap_or_else(|| {
        kiln_runtime::warnings::warn_once(format!("DEFAULT_FLOAT={name} is no float; ignored"));
        DType::F32
    })
}

/// The float that a dtype is computed in.
pub(crate) trait OrFloat {
    /// This dtype, if it is a float, else the default one.
    fn or_float(self) -> DType;

    /// The dtype that elements of this one meet a number in.
    fn beside(self, number: Weak) -> DType;
}

impl OrFloat for DType {
    fn or_float(self) -> DType {
        if self.is_float() { self } else { default_float() }
    }

    fn beside(self, number: Weak) -> DType {
        match number {
            Weak::Float => self.or_float(),
            _ => self.promote_weak(number),
        }
    }
}
