//! Functions that are recorded once and replayed: the Rust code of a step runs on its first call, and later calls go
//! straight to the kernels.
//!
//! A call is replayed if its key is that of an earlier one. The key holds all that a function without captures can depend
//! on, so a replay means what running the function means. What a replay could not do again (reading a value, say) is found
//! while the function is recorded, and then the function runs each time.

/// What a function takes.
mod arguments;
/// One call.
mod call;
/// Functions of so many arguments.
mod function;
/// Numbers that differ from call to call.
pub(crate) mod numbers;
/// A recorded call, and how it is replayed.
mod recorded;
/// What a function gives.
mod returned;
/// Steps of optimizers.
pub(crate) mod step;
/// Arguments that are no tensors.
mod value;

pub use arguments::Argument;
pub use function::{Compile, Own, Ref};
pub use returned::Returned;
pub use value::Value;

/// A function that is recorded on its first call and replayed afterwards: what it computes, without running its Rust code.
///
/// `f` captures nothing; that is checked when the program is compiled. All that it depends on is an argument: by reference
/// what holds tensors (a tensor, a [`Module`](crate::nn::Module), an optimizer of [`optim`](crate::optim), or a tuple or
/// `Vec` of modules), by value what is no tensor (a number, a string, or a tuple or `Vec` of these). It returns tensors,
/// numbers, and tuples, `Option`s, `Vec`s and `Result`s of these. What it has written and what it returns is computed
/// before the call returns.
///
/// ```
/// use kiln::{Tensor, nn::Linear, optim::SGD};
/// let step = kiln::jit(|net: &Linear, opt: &SGD, x: &Tensor| -> Result<Tensor, kiln::Error> {
///     opt.zero_grad();
///     let loss = net.forward(x).square().mean(..);
///     loss.backward()?;
///     opt.step()?;
///     Ok(loss)
/// });
/// let net = Linear::new(3, 2);
/// let opt = SGD::new([&net.weight], 0.1);
/// let mut last = f32::INFINITY;
/// for _ in 0..4 {
///     let loss = step(&net, &opt, &Tensor::ones([8, 3]))?.item::<f32>()?;
///     assert!(loss < last);
///     last = loss;
/// }
/// # Ok::<(), kiln::Error>(())
/// ```
///
/// A call is replayed if everything but the data is as it was: values bit for bit; of each tensor its dtype, device, shape
/// and view, which of them share a storage, whether it wants a gradient and has one; settings and scopes such as
/// [`no_grad`](crate::no_grad). Random numbers go on as they would without `jit`, and so do the steps and rates of
/// optimizers.
///
/// A replay runs the kernels of the call that it replays. Without `jit` a call may by then use kernels for many lengths, if
/// other lengths ran in between. They may sum in another order, so the last bits may differ.
///
/// A call is never replayed if the function
///
/// - reads a value (`item`, `to_vec`), or starts a thread that, before the function returns, reads one computed from an argument;
/// - is given a tensor with a gradient's history or an error, or returns an error, or what a gradient goes through;
/// - uses a tensor that is no argument (a static, say) or that another thread made meanwhile, a file or several devices.
///
/// `DEBUG=1` says why, and `JIT=0` replays nothing. Of one function 64 kinds of calls are remembered at most. What else a
/// function does, such as printing, happens on calls that are not replayed.
///
/// A function that captures something does not compile:
///
/// ```compile_fail
/// let scale = kiln::Tensor::from(2.0f32);
/// let f = kiln::jit(move |x: &kiln::Tensor| x * &scale);
/// f(&kiln::Tensor::ones([2]));
/// ```
///
/// ```compile_fail
/// let scale = 2.0;
/// let f = kiln::jit(move |x: &kiln::Tensor| x * scale);
/// f(&kiln::Tensor::ones([2]));
/// ```
pub fn jit<M, F: Compile<M>>(f: F) -> F::Compiled {
    f.compile()
}
