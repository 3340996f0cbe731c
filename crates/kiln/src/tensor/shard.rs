//! Tensors on several devices.

use super::Tensor;
use super::compute;
use super::shape_args;
use crate::device::{ALONG, Device};
use crate::error::{Error, Fault, at_caller, refuse};
use kiln_ir::UOp;

/// A device, or its name.
pub trait DeviceArg {
    #[doc(hidden)]
    fn device_name(&self) -> &str;
}

impl DeviceArg for Device {
    fn device_name(&self) -> &str {
        self.name()
    }
}

impl DeviceArg for str {
    fn device_name(&self) -> &str {
        self
    }
}

impl DeviceArg for String {
    fn device_name(&self) -> &str {
        self
    }
}

impl<T: DeviceArg + ?Sized> DeviceArg for &T {
    fn device_name(&self) -> &str {
        T::device_name(self)
    }
}

/// Tensors on several devices. Such a tensor means what the same tensor means on one device: every method takes it. Its
/// [`device`](Tensor::device) is the set of its devices, such as `CPU+CPU:1`, and operands must be on the same set.
impl Tensor {
    /// The same value on several devices: split along `axis`, or, if that is `None`, the whole of it on each
    /// (replicated). The parts are as long as each other, or one longer. As [`to`](Tensor::to), it is lazy, and gradients
    /// go back.
    ///
    /// Each device computes with its own part as far as an operation allows. A sum over the axis is an all-reduce. An
    /// operation that needs more than parts (a sort along the axis, a reversal of it, a write to some elements) gets the
    /// whole value on each device.
    ///
    /// ```
    /// use kiln::Tensor;
    /// let devices = ["CPU", "CPU:1"];
    /// let x = Tensor::arange(6).reshape([3, 2]).shard(&devices, 0);
    /// let w = Tensor::ones([2, 2]).cast(kiln::DType::I32).shard(&devices, None);
    /// let y = x.matmul(&w);
    /// assert_eq!(y.to_vec::<i32>()?, [1, 1, 5, 5, 9, 9]);
    /// let parts = y.shards()?;
    /// assert_eq!((parts[0].shape(), parts[1].shape()), (&[1, 2][..], &[2, 2][..]));
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// An axis that is not there; no device, one twice, one that does not exist; a file.
    #[must_use]
    #[track_caller]
    pub fn shard<D: DeviceArg>(
        &self,
        devices: impl IntoIterator<Item = D>,
        axis: impl Into<Option<isize>>,
    ) -> Tensor {
        match self.on_set(devices, axis.into()) {
            Ok((node, device)) => Tensor::from_node(node, &device),
            Err(fault) => Tensor::broken(fault.at("shard")),
        }
    }

    fn on_set<D: DeviceArg>(
        &self,
        devices: impl IntoIterator<Item = D>,
        axis: Option<isize>,
    ) -> Result<(UOp, Device), Fault> {
        let devices: Vec<Device> = devices
            .into_iter()
            .map(|d| Device::named(d.device_name()))
            .collect::<Result<_, Fault>>()?;
        let axis = axis.map(|axis| shape_args::axis(axis as i64, self.ndim())).transpose()?;
        let set = match &devices[..] {
            [] => return refuse!("no devices"),
            [one] => one.clone(),
            several => {
                let names: Vec<&str> = several.iter().map(Device::name).collect();
                Device::named(&names.join("+"))?
            }
        };
        let whole = self.moved(&set)?;
        let to = match axis {
            _ if devices.len() == 1 => return Ok((whole, set)),
            Some(axis) => format!("{set}{ALONG}{axis}"),
            None => format!("{set}{ALONG}*"),
        };
        compute::check(&set)?;
        let value = compute::placed(&self.value()?, self.device());
        Ok((value.on_device(to.into()), set))
    }

    /// The parts of a tensor on several devices, each a tensor on its own; they are computed if they are not. Of a tensor on
    /// one device it is the only part.
    ///
    /// # Errors
    /// As [`realize`](Tensor::realize).
    #[track_caller]
    pub fn shards(&self) -> Result<Vec<Tensor>, Error> {
        let Some(devices) = self.device().members() else { return Ok(vec![self.clone()]) };
        let value = at_caller("shards", self.value().map_err(Fault::from))?;
        let parts = at_caller("shards", compute::shards(&value, self.device()))?;
        Ok(parts.into_iter().zip(&devices).map(|(part, on)| Tensor::from_node(part, on)).collect())
    }
}
