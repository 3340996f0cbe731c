//! The functions of LLVM's C API that kiln calls, looked up in a library that was found at run time.
//!
//! LLVM keeps this API stable: a later release may remove a function, but does not change its type.

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
use std::ffi::{c_char, c_int, c_uint, c_void};
use std::mem::ManuallyDrop;
use std::path::Path;
use std::ptr::null_mut;
use std::sync::OnceLock;

/// An object of LLVM's; which one is in the name of the parameter.
pub(super) type Ref = *mut c_void;
/// A text that LLVM made; `LLVMDisposeMessage` frees it.
pub(super) type Message = *mut c_char;
/// A text of ours.
pub(super) type Text = *const c_char;
/// Called with why LLVM cannot go on; if it comes back, LLVM ends the process.
pub(super) type FatalHandler = unsafe extern "C" fn(reason: Text);
/// Called with a pointer of ours, with what could not be allocated, and with whether that shall look like a crash. It does
/// not come back.
pub(super) type MemoryHandler = unsafe extern "C" fn(data: *mut c_void, reason: Text, crash: bool);
/// Called where `new` gets no memory: it makes some, or does not come back.
pub(super) type NewHandler = unsafe extern "C" fn();
/// Replaces that handler.
pub(super) type SetNewHandler = unsafe extern "C" fn(Option<NewHandler>) -> Option<NewHandler>;
/// Called with each diagnostic and the pointer that was registered.
pub(super) type DiagnosticHandler = unsafe extern "C" fn(info: Ref, data: *mut c_void);

macro_rules! api {
    ($($name:ident($($arg:ident: $type:ty),*) $(-> $result:ty)?;)*) => {
        /// The table. The names are LLVM's.
        #[allow(non_snake_case)]
        pub(super) struct Api {
            /// Never closed: LLVM registers things that outlive any user of it.
            library: ManuallyDrop<Library>,
            $(pub(super) $name: unsafe extern "C" fn($($arg: $type),*) $(-> $result)?,)*
        }

        impl Api {
            fn look_up(library: Library) -> Result<Api, libloading::Error> {
                Ok(Api {
                    // SAFETY: the types are those of LLVM's headers.
                    $($name: unsafe { *library.get(concat!(stringify!($name), "\0"))? },)*
                    library: ManuallyDrop::new(library),
                })
            }
        }
    };
}

api! {
    LLVMInstallFatalErrorHandler(handler: FatalHandler);
    LLVMContextCreate() -> Ref;
    LLVMContextDispose(context: Ref);
    LLVMContextSetDiagnosticHandler(context: Ref, handler: DiagnosticHandler, data: *mut c_void);
    LLVMGetDiagInfoDescription(info: Ref) -> Message;
    LLVMGetDiagInfoSeverity(info: Ref) -> c_int;
    LLVMDisposeMessage(message: Message);
    LLVMCreateMemoryBufferWithMemoryRangeCopy(data: Text, len: usize, name: Text) -> Ref;
    LLVMGetBufferStart(buffer: Ref) -> Text;
    LLVMGetBufferSize(buffer: Ref) -> usize;
    LLVMDisposeMemoryBuffer(buffer: Ref);
    LLVMParseIRInContext(context: Ref, buffer: Ref, module: *mut Ref, error: *mut Message) -> c_int;
    LLVMVerifyModule(module: Ref, action: c_int, error: *mut Message) -> c_int;
    LLVMDisposeModule(module: Ref);
    LLVMSetTarget(module: Ref, triple: Text);
    LLVMSetModuleDataLayout(module: Ref, layout: Ref);
    LLVMGetDefaultTargetTriple() -> Message;
    LLVMGetHostCPUName() -> Message;
    LLVMGetHostCPUFeatures() -> Message;
    LLVMGetTargetFromTriple(triple: Text, target: *mut Ref, error: *mut Message) -> c_int;
    LLVMCreateTargetMachine(target: Ref, triple: Text, cpu: Text, features: Text, level: c_int, reloc: c_int, code_model: c_int) -> Ref;
    LLVMDisposeTargetMachine(machine: Ref);
    LLVMCreateTargetDataLayout(machine: Ref) -> Ref;
    LLVMDisposeTargetData(layout: Ref);
    LLVMTargetMachineEmitToMemoryBuffer(machine: Ref, module: Ref, kind: c_int, error: *mut Message, buffer: *mut Ref) -> c_int;
    LLVMCreatePassBuilderOptions() -> Ref;
    LLVMDisposePassBuilderOptions(options: Ref);
    LLVMRunPasses(module: Ref, passes: Text, machine: Ref, options: Ref) -> Ref;
    LLVMGetErrorMessage(error: Ref) -> Message;
    LLVMDisposeErrorMessage(message: Message);
    LLVMCreateDisasmCPUFeatures(triple: Text, cpu: Text, features: Text, info: *mut c_void, tag: c_int, operand: *mut c_void, symbol: *mut c_void) -> Ref;
    LLVMSetDisasmOptions(disassembler: Ref, options: u64) -> c_int;
    LLVMDisasmInstruction(disassembler: Ref, bytes: *mut u8, len: u64, address: u64, out: *mut c_char, out_len: usize) -> usize;
    LLVMDisasmDispose(disassembler: Ref);
}

/// How LLVM names this architecture in its functions, and what must be initialised for it.
#[cfg(target_arch = "aarch64")]
const ARCH: &str = "AArch64";
#[cfg(not(target_arch = "aarch64"))]
const ARCH: &str = "X86";
const PARTS: [&str; 5] = ["TargetInfo", "Target", "TargetMC", "AsmPrinter", "Disassembler"];

impl Api {
    /// Opens a library, or says why it is of no use.
    pub(super) fn open(path: &Path) -> Result<Api, String> {
        // Two LLVMs may share a process (rustc's drivers, Mesa): each must call its own functions.
        #[cfg(target_os = "linux")]
        let flags = RTLD_NOW | RTLD_LOCAL | libc::RTLD_DEEPBIND;
        #[cfg(not(target_os = "linux"))]
        let flags = RTLD_NOW | RTLD_LOCAL;
        // SAFETY: runs the library's own initialisers, as for any program that links it.
        let library = unsafe { Library::open(Some(path), flags) }.map_err(|error| cause(&error))?;
        let api = Api::look_up(library).map_err(|error| cause(&error))?;
        api.check_version()?;
        api.initialize()?;
        Ok(api)
    }

    /// The version, where the library tells it (16 and newer).
    pub(super) fn version(&self) -> Option<(u32, u32)> {
        type Version = unsafe extern "C" fn(*mut c_uint, *mut c_uint, *mut c_uint);
        let (mut major, mut minor, mut patch) = (0, 0, 0);
        // SAFETY: the type is that of LLVM's header; it writes three numbers.
        unsafe {
            let version = self.library.get::<Version>("LLVMGetVersion").ok()?;
            version(&mut major, &mut minor, &mut patch);
        }
        Some((major, minor))
    }

    /// Hands over what to call where an allocation fails: of LLVM's own, and of C++ on its behalf. The C interface lacks
    /// that; a library which does not let others see these functions ends the process then.
    ///
    /// # Safety
    /// The handlers may be called on any thread, at any time.
    pub(super) unsafe fn install_memory_handlers(
        &self,
        of_llvm: MemoryHandler,
        of_new: NewHandler,
        set_new: &OnceLock<SetNewHandler>,
    ) {
        type OfLlvm = unsafe extern "C" fn(MemoryHandler, *mut c_void);
        // SAFETY: the types are those that the names spell, and plain functions of C++ are called as those of C.
        unsafe {
            let library = &self.library;
            if let Ok(install) =
                library.get::<OfLlvm>("_ZN4llvm31install_bad_alloc_error_handlerEPFvPvPKcbES0_")
            {
                install(of_llvm, null_mut());
            }
            if let Ok(set) = library.get::<SetNewHandler>("_ZSt15set_new_handlerPFvvE")
                && set_new.set(*set).is_ok()
                && let Some(other) = set(Some(of_new))
            {
                // who has one of his own keeps it
                set(Some(other));
            }
        }
    }

    /// Release 14 has all functions of the table, but typed pointers; 15 brought this one, 16 `LLVMGetVersion`.
    fn check_version(&self) -> Result<(), String> {
        // SAFETY: only asks whether the symbol exists.
        let since_15 =
            unsafe { self.library.get::<*const c_void>("LLVMContextSetOpaquePointers").is_ok() };
        match since_15 || self.version().is_some() {
            true => Ok(()),
            false => Err("older than LLVM 15".into()),
        }
    }

    fn initialize(&self) -> Result<(), String> {
        for part in PARTS {
            let name = format!("LLVMInitialize{ARCH}{part}");
            // SAFETY: the type is that of LLVM's header; these may be called repeatedly.
            unsafe {
                match self.library.get::<unsafe extern "C" fn()>(name.as_str()) {
                    Ok(initialize) => initialize(),
                    // Only shown code needs it.
                    Err(_) if part == "Disassembler" => {}
                    Err(error) => return Err(cause(&error)),
                }
            }
        }
        Ok(())
    }
}

/// The text of the system's loader, which libloading keeps as the source of its error.
fn cause(error: &libloading::Error) -> String {
    std::error::Error::source(error).map_or_else(|| error.to_string(), |inner| inner.to_string())
}
