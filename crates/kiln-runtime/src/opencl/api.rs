//! The functions of OpenCL that are used, found in its library at run time (Khronos, The OpenCL Specification 1.2).

use libloading::Library;
use std::ffi::{c_char, c_void};

/// What the library gives out and takes back.
pub(super) type Handle = *mut c_void;

macro_rules! functions {
    ($($name:ident = $symbol:literal ($($arg:ty),*) -> $ret:ty;)*) => {
        /// The functions by what they do.
        pub(super) struct Api {
            $(pub(super) $name: unsafe extern "system" fn($($arg),*) -> $ret,)*
            /// Held, since the functions are in it.
            _library: Library,
        }

        impl Api {
            /// The functions of the library of this name.
            pub(super) fn load(name: &str) -> Result<Api, String> {
                // SAFETY: an installable client driver loader and its drivers run code when they are loaded, as any library
                // of the system does; nothing of this process is in a state that they could disturb.
                let library = unsafe { Library::new(name) }.map_err(|e| e.to_string())?;
                Ok(Api {
                    $($name: {
                        // SAFETY: the types are those of the specification, for every library of this name.
                        let found = unsafe { library.get($symbol) }.map_err(|e| e.to_string())?;
                        *found
                    },)*
                    _library: library,
                })
            }
        }
    };
}

functions! {
    platforms = b"clGetPlatformIDs" (u32, *mut Handle, *mut u32) -> i32;
    devices = b"clGetDeviceIDs" (Handle, u64, u32, *mut Handle, *mut u32) -> i32;
    device_info = b"clGetDeviceInfo" (Handle, u32, usize, *mut c_void, *mut usize) -> i32;
    create_context = b"clCreateContext" (*const isize, u32, *const Handle, *const c_void, *mut c_void, *mut i32) -> Handle;
    create_queue = b"clCreateCommandQueue" (Handle, Handle, u64, *mut i32) -> Handle;
    create_buffer = b"clCreateBuffer" (Handle, u64, usize, *mut c_void, *mut i32) -> Handle;
    release_buffer = b"clReleaseMemObject" (Handle) -> i32;
    read = b"clEnqueueReadBuffer" (Handle, Handle, u32, usize, usize, *mut c_void, u32, *const Handle, *mut Handle) -> i32;
    write = b"clEnqueueWriteBuffer" (Handle, Handle, u32, usize, usize, *const c_void, u32, *const Handle, *mut Handle) -> i32;
    create_program = b"clCreateProgramWithSource" (Handle, u32, *const *const c_char, *const usize, *mut i32) -> Handle;
    build = b"clBuildProgram" (Handle, u32, *const Handle, *const c_char, *const c_void, *mut c_void) -> i32;
    build_info = b"clGetProgramBuildInfo" (Handle, Handle, u32, usize, *mut c_void, *mut usize) -> i32;
    release_program = b"clReleaseProgram" (Handle) -> i32;
    create_kernel = b"clCreateKernel" (Handle, *const c_char, *mut i32) -> Handle;
    release_kernel = b"clReleaseKernel" (Handle) -> i32;
    set_argument = b"clSetKernelArg" (Handle, u32, usize, *const c_void) -> i32;
    launch = b"clEnqueueNDRangeKernel" (Handle, Handle, u32, *const usize, *const usize, *const usize, u32, *const Handle, *mut Handle) -> i32;
    flush = b"clFlush" (Handle) -> i32;
}
