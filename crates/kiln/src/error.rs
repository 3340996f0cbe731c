//! The one error type, and how a check deep inside becomes an error at the caller's line.

use crate::origin;
use std::fmt;
use std::panic::Location;
use std::sync::Arc;

/// A value, or an [`Error`] of this crate unless another error is named.
///
/// ```
/// fn mean(x: &kiln::Tensor) -> kiln::Result<f32> {
///     x.mean(..).item::<f32>()
/// }
/// assert_eq!(mean(&kiln::Tensor::from([1.0f32, 3.0]))?, 2.0);
/// # Ok::<(), kiln::Error>(())
/// ```
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong: the operation, why, and the line of the program that asked for it.
///
/// ```
/// let bad = kiln::Tensor::zeros([2, 3]).matmul(&kiln::Tensor::zeros([4, 5]));
/// assert!(bad.error().expect("shapes differ").to_string().starts_with("matmul: inner dimensions differ"));
/// ```
#[derive(Clone)]
pub struct Error(Arc<Inner>);

#[derive(PartialEq, Eq)]
struct Inner {
    op: &'static str,
    kind: Kind,
    at: &'static Location<'static>,
}

/// What kind of error it is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The program asked for something that has no meaning.
    Invalid,
    /// A device, compiler or file failed.
    Failed,
}

/// Errors are equal if they say the same of the same line.
impl PartialEq for Error {
    fn eq(&self, other: &Error) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || *self.0 == *other.0
    }
}

impl Eq for Error {}

/// Who is to blame; messages differ in nothing else.
#[derive(PartialEq, Eq)]
enum Kind {
    /// The program asked for something that has no meaning.
    Invalid(String),
    /// A device, compiler or file failed.
    Failed(String),
}

impl Error {
    /// An invalid use of `op`, at the caller's line. `KILN_PANIC=1` panics here instead.
    #[track_caller]
    pub(crate) fn invalid(op: &'static str, why: impl Into<String>) -> Error {
        let kind = Kind::Invalid(why.into());
        let error = Error(Arc::new(Inner { op, kind, at: origin::caller() }));
        if crate::scoped::text("KILN_PANIC").is_some_and(|v| v == "1") {
            panic!("{error}");
        }
        error
    }

    /// A failure of the machine while `op` ran, at the caller's line.
    #[track_caller]
    pub(crate) fn failed(op: &'static str, why: impl Into<String>) -> Error {
        let kind = Kind::Failed(why.into());
        Error(Arc::new(Inner { op, kind, at: origin::caller() }))
    }

    /// Whether the program is wrong or the machine failed.
    ///
    /// ```
    /// let error = kiln::Tensor::zeros([2]).reshape([3]).error().expect("no such shape");
    /// assert_eq!(error.kind(), kiln::ErrorKind::Invalid);
    /// ```
    pub fn kind(&self) -> ErrorKind {
        match self.0.kind {
            Kind::Invalid(_) => ErrorKind::Invalid,
            Kind::Failed(_) => ErrorKind::Failed,
        }
    }

    /// The name of the operation.
    ///
    /// ```
    /// let error = kiln::Tensor::zeros([2]).reshape([3]).error().expect("no such shape");
    /// assert_eq!(error.op(), "reshape");
    /// ```
    pub fn op(&self) -> &'static str {
        self.0.op
    }

    /// The line of the program that asked for it.
    ///
    /// ```
    /// let error = kiln::Tensor::zeros([2]).reshape([3]).error().expect("no such shape");
    /// assert!(error.location().line() > 0);
    /// ```
    pub fn location(&self) -> &'static Location<'static> {
        self.0.at
    }

    /// What went wrong, without the operation and the line: for messages to people who did not write the program.
    ///
    /// ```
    /// let error = kiln::Device::parse("?").expect_err("no name");
    /// assert!(error.why().starts_with("\"?\" does not name a device"));
    /// ```
    pub fn why(&self) -> &str {
        match &self.0.kind {
            Kind::Invalid(why) | Kind::Failed(why) => why,
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Carried(error) => error.fmt(f),
            Fault::New(why) | Fault::Failed(why) => f.write_str(why),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = self.0.at;
        write!(f, "{}: {} at {}:{}", self.0.op, self.why(), at.file(), at.line())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Error({self})")
    }
}

impl std::error::Error for Error {}

/// Why a check refused, before it is known whose line it was: either an operand carried an error already, which is
/// kept, or there is a new reason, which [`Fault::at`] turns into an error at the caller's line.
#[derive(Clone, Debug)]
pub(crate) enum Fault {
    Carried(Error),
    New(String),
    /// It makes sense, but the machine failed.
    Failed(String),
}

impl Fault {
    /// The error that the caller sees.
    #[track_caller]
    pub(crate) fn at(self, op: &'static str) -> Error {
        let op = origin::running().unwrap_or(op); // a method that is made of others is the one that was called
        match self {
            Fault::Carried(error) => error,
            Fault::New(why) => Error::invalid(op, why),
            Fault::Failed(why) => Error::failed(op, why),
        }
    }
}

/// Which method the program called, and where: for what only computing can show to be wrong.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Caller {
    op: &'static str,
    at: &'static Location<'static>,
}

impl Caller {
    #[track_caller]
    pub(crate) fn of(op: &'static str) -> Caller {
        Caller { op, at: origin::caller() }
    }
}

impl fmt::Display for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` at {}:{}", self.op, self.at.file(), self.at.line())
    }
}

/// The result as the caller sees it. (In a closure the caller's line would be lost: a closure is its own caller.)
#[track_caller]
pub(crate) fn at_caller<T>(op: &'static str, result: Result<T, Fault>) -> Result<T, Error> {
    match result {
        Ok(value) => Ok(value),
        Err(fault) => Err(fault.at(op)),
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Fault {
        Fault::Carried(error)
    }
}

impl From<String> for Fault {
    fn from(why: String) -> Fault {
        Fault::New(why)
    }
}

impl From<&str> for Fault {
    fn from(why: &str) -> Fault {
        Fault::New(why.to_owned())
    }
}

/// A new [`Fault`] as an `Err`, from a format string.
macro_rules! refuse {
    ($($arg:tt)*) => { Err($crate::error::Fault::New(format!($($arg)*))) };
}
pub(crate) use refuse;
