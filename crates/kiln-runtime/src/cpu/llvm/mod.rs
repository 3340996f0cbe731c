//! LLVM in this process: the text of IR in, an object in memory out.
//!
//! Everything that LLVM reports is returned as an error, fatal errors included. A wrong address or a failed assertion is
//! not reported and cannot be caught, so renderers write only IR accepted by the verifier.

mod apart;
mod api;
mod disassemble;
mod find;
mod lines;
mod room;

use super::compiler::{Compiler, Instruction, file_identity};
use super::config::CpuConfig;
use crate::error::{Error, Result};
use api::{Api, Message, Ref};
use std::ffi::{CStr, CString, c_void};
use std::path::PathBuf;
use std::ptr::null_mut;
use std::sync::OnceLock;

/// Kernels come out of our own optimizer with their loops in order and their vectors explicit. What is left for LLVM
/// is to put variables into registers, to clean up, and to move out of loops what they need not repeat; its code
/// generator reduces the strength of addresses anyway. Measured on a register tile of 14 x 32: half the time of
/// `default<O2>`, code within 5 % of its speed; without `gvn`, or with rotated loops, up to half the speed is lost.
const PASSES: &CStr =
    c"function(sroa,early-cse<memssa>,instcombine<no-verify-fixpoint>,simplifycfg,\
loop-mssa(licm),gvn)";
/// The same for releases that do not know the parameter.
const PASSES_OLD: &CStr =
    c"function(sroa,early-cse<memssa>,instcombine,simplifycfg,loop-mssa(licm),gvn)";
/// `no-verify-fixpoint` came with this release.
const NEW_PASSES_SINCE: u32 = 18;

const LEVEL_DEFAULT: i32 = 2;
const RELOC_PIC: i32 = 2;
const CODE_MODEL_DEFAULT: i32 = 0;
const VERIFY_RETURN_STATUS: i32 = 2;
const OBJECT_FILE: i32 = 1;
const SEVERITY_ERROR: i32 = 0;

/// A library that was found. It is opened when something must be compiled.
pub(super) struct Llvm {
    path: PathBuf,
    identity: String,
    opened: OnceLock<Result<&'static Opened, String>>,
}

/// An open library and what it says about this processor.
struct Opened {
    api: Api,
    triple: CString,
    cpu: CString,
    features: CString,
}

/// Every library that may be used, best first.
pub(super) fn candidates(config: &CpuConfig) -> Vec<Llvm> {
    find::candidates(config)
        .into_iter()
        .map(|path| Llvm { identity: file_identity(&path), path, opened: OnceLock::new() })
        .collect()
}

impl Compiler for Llvm {
    fn identity(&self) -> &str {
        &self.identity
    }

    fn describe(&self) -> String {
        let version = match self.opened.get() {
            Some(Ok(Opened { api, .. })) => api.version(),
            _ => None,
        };
        match version {
            Some((major, minor)) => format!("LLVM {major}.{minor} ({})", self.path.display()),
            None => format!("LLVM ({})", self.path.display()),
        }
    }

    fn check(&self) -> Result<(), String> {
        self.open().map(|_| ())
    }

    fn compile(&self, source: &str, lines: bool) -> Result<Vec<u8>> {
        let source = if lines { lines::told(source) } else { source.to_owned() };
        let _room = room::of_compiling(source.len())?;
        let compile = |opened| apart::apart(move || Session::new(opened).compile(&source));
        let compiled = self.open().and_then(compile);
        compiled.map_err(|message| Error::Compile { compiler: self.describe(), message })
    }

    fn disassemble(&self, code: &[u8]) -> Option<Vec<Instruction>> {
        self.open().ok()?.disassemble(code)
    }
}

impl Llvm {
    /// The library stays open, as what LLVM registers must; threads that LLVM does not come back to need it, too.
    fn open(&self) -> Result<&'static Opened, String> {
        let open = || Ok(&*Box::leak(Box::new(Opened::new(Api::open(&self.path)?)?)));
        self.opened.get_or_init(open).clone()
    }
}

impl Opened {
    fn new(api: Api) -> Result<Opened, String> {
        // SAFETY: the handlers are LLVM's to call from now on; each of the others returns a message of ours to free, which
        // `own` does.
        let (triple, cpu, features) = unsafe {
            (api.LLVMInstallFatalErrorHandler)(apart::on_fatal);
            let (of_llvm, of_new) = (apart::on_no_memory, apart::on_no_new);
            api.install_memory_handlers(of_llvm, of_new, &apart::SET_NEW_HANDLER);
            (
                own(&api, (api.LLVMGetDefaultTargetTriple)()),
                own(&api, (api.LLVMGetHostCPUName)()),
                own(&api, (api.LLVMGetHostCPUFeatures)()),
            )
        };
        Ok(Opened { api, triple, cpu, features })
    }

    fn passes(&self) -> &'static CStr {
        match self.api.version() {
            Some((major, _)) if major >= NEW_PASSES_SINCE => PASSES,
            _ => PASSES_OLD,
        }
    }

    fn target_machine(&self) -> Result<Ref, String> {
        let (api, mut target, mut error) = (&self.api, null_mut(), null_mut());
        // SAFETY: strings live through the calls; a failure sets the message, success the target.
        unsafe {
            if (api.LLVMGetTargetFromTriple)(self.triple.as_ptr(), &mut target, &mut error) != 0 {
                return Err(own(api, error).to_string_lossy().into_owned());
            }
            let machine = (api.LLVMCreateTargetMachine)(
                target,
                self.triple.as_ptr(),
                self.cpu.as_ptr(),
                self.features.as_ptr(),
                LEVEL_DEFAULT,
                RELOC_PIC,
                CODE_MODEL_DEFAULT,
            );
            if machine.is_null() {
                Err("no code generator for this machine".into())
            } else {
                Ok(machine)
            }
        }
    }
}

/// One compilation: what LLVM made for it, freed in the right order at the end.
struct Session<'a> {
    opened: &'a Opened,
    context: Ref,
    module: Ref,
    machine: Ref,
    /// Errors that LLVM reported. Boxed, because LLVM holds its address.
    errors: Box<Errors>,
}

struct Errors {
    api: *const Api,
    messages: Vec<String>,
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        let api = &self.opened.api;
        // SAFETY: each was made by this session or is null; the module goes before its context.
        unsafe {
            if !self.module.is_null() {
                (api.LLVMDisposeModule)(self.module);
            }
            if !self.machine.is_null() {
                (api.LLVMDisposeTargetMachine)(self.machine);
            }
            (api.LLVMContextDispose)(self.context);
        }
    }
}

impl<'a> Session<'a> {
    fn new(opened: &'a Opened) -> Session<'a> {
        let api = &opened.api;
        let mut errors = Box::new(Errors { api, messages: Vec::new() });
        // SAFETY: the handler's data is the box, which outlives the context (`drop` disposes of it first).
        let context = unsafe {
            let context = (api.LLVMContextCreate)();
            let data: *mut Errors = &mut *errors;
            (api.LLVMContextSetDiagnosticHandler)(context, on_diagnostic, data.cast());
            context
        };
        Session { opened, context, module: null_mut(), machine: null_mut(), errors }
    }

    fn compile(mut self, source: &str) -> Result<Vec<u8>, String> {
        self.parse(source)?;
        self.machine = self.opened.target_machine()?;
        self.set_target();
        self.verify()?;
        self.optimize()?;
        self.emit()
    }

    fn parse(&mut self, source: &str) -> Result<(), String> {
        let (api, mut error) = (&self.opened.api, null_mut());
        // SAFETY: the buffer copies the source and belongs to the parser from then on.
        let failed = unsafe {
            let buffer = (api.LLVMCreateMemoryBufferWithMemoryRangeCopy)(
                source.as_ptr().cast(),
                source.len(),
                c"kernel".as_ptr(),
            );
            (api.LLVMParseIRInContext)(self.context, buffer, &mut self.module, &mut error) != 0
        };
        self.outcome(failed, error)
    }

    fn set_target(&mut self) {
        let api = &self.opened.api;
        // SAFETY: module and machine are valid; the layout is copied.
        unsafe {
            (api.LLVMSetTarget)(self.module, self.opened.triple.as_ptr());
            let layout = (api.LLVMCreateTargetDataLayout)(self.machine);
            (api.LLVMSetModuleDataLayout)(self.module, layout);
            (api.LLVMDisposeTargetData)(layout);
        }
    }

    fn verify(&mut self) -> Result<(), String> {
        let (api, mut error) = (&self.opened.api, null_mut());
        // SAFETY: the module is valid; with this action the verifier only returns.
        let failed =
            unsafe { (api.LLVMVerifyModule)(self.module, VERIFY_RETURN_STATUS, &mut error) != 0 };
        self.outcome(failed, error)
    }

    fn optimize(&mut self) -> Result<(), String> {
        let api = &self.opened.api;
        // SAFETY: module and machine are valid; an error's message is taken and freed.
        unsafe {
            let options = (api.LLVMCreatePassBuilderOptions)();
            let passes = self.opened.passes().as_ptr();
            let error = (api.LLVMRunPasses)(self.module, passes, self.machine, options);
            (api.LLVMDisposePassBuilderOptions)(options);
            if error.is_null() {
                return self.outcome(false, null_mut());
            }
            let message = (api.LLVMGetErrorMessage)(error);
            let text = CStr::from_ptr(message).to_string_lossy().into_owned();
            (api.LLVMDisposeErrorMessage)(message);
            Err(text)
        }
    }

    fn emit(&mut self) -> Result<Vec<u8>, String> {
        let (api, mut error, mut buffer) = (&self.opened.api, null_mut(), null_mut());
        // SAFETY: module and machine are valid; on success there is a buffer, which is copied and freed.
        unsafe {
            let failed = (api.LLVMTargetMachineEmitToMemoryBuffer)(
                self.machine,
                self.module,
                OBJECT_FILE,
                &mut error,
                &mut buffer,
            ) != 0;
            self.outcome(failed, error)?;
            let start = (api.LLVMGetBufferStart)(buffer).cast::<u8>();
            let bytes = std::slice::from_raw_parts(start, (api.LLVMGetBufferSize)(buffer)).to_vec();
            (api.LLVMDisposeMemoryBuffer)(buffer);
            Ok(bytes)
        }
    }

    /// The result of a step: its own message and whatever the diagnostic handler heard.
    fn outcome(&mut self, failed: bool, message: Message) -> Result<(), String> {
        let mut said = std::mem::take(&mut self.errors.messages);
        if !message.is_null() {
            // SAFETY: a message that LLVM handed over.
            let text = unsafe { own(&self.opened.api, message) };
            // The verifier hands over an empty one when all is well.
            if failed {
                said.push(text.to_string_lossy().into_owned());
            }
        }
        match failed || !said.is_empty() {
            true => Err(said.join("\n")),
            false => Ok(()),
        }
    }
}

/// Copies and frees a message of LLVM's.
///
/// # Safety
/// The message is valid, and not used again.
unsafe fn own(api: &Api, message: Message) -> CString {
    // SAFETY: the caller's promise.
    unsafe {
        let text = CStr::from_ptr(message).to_owned();
        (api.LLVMDisposeMessage)(message);
        text
    }
}

/// Without a handler LLVM prints errors and ends the process.
///
/// # Safety
/// Only LLVM calls it, as the handler of a session.
unsafe extern "C" fn on_diagnostic(info: Ref, data: *mut c_void) {
    // SAFETY: LLVM calls this on the session's thread while the session lives; `data` is its `Errors`.
    unsafe {
        let errors = &mut *data.cast::<Errors>();
        let api = &*errors.api;
        if (api.LLVMGetDiagInfoSeverity)(info) == SEVERITY_ERROR {
            let text = own(api, (api.LLVMGetDiagInfoDescription)(info));
            errors.messages.push(text.to_string_lossy().into_owned());
        }
    }
}
