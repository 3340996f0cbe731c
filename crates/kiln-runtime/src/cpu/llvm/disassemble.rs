//! Machine code as text.

use super::super::compiler::Instruction;
use super::Opened;
use super::api::Ref;
use std::ffi::CStr;
use std::ptr::null_mut;

const INTEL_SYNTAX: u64 = 4;

impl Opened {
    pub(super) fn disassemble(&self, code: &[u8]) -> Option<Vec<Instruction>> {
        let api = &self.api;
        // SAFETY: strings live through the call; no callbacks are registered.
        let disassembler = unsafe {
            (api.LLVMCreateDisasmCPUFeatures)(
                self.triple.as_ptr(),
                self.cpu.as_ptr(),
                self.features.as_ptr(),
                null_mut(),
                0,
                null_mut(),
                null_mut(),
            )
        };
        if disassembler.is_null() {
            return None;
        }
        // SAFETY: it is disposed of once, after its last use.
        unsafe {
            (api.LLVMSetDisasmOptions)(disassembler, INTEL_SYNTAX);
            let instructions = self.instructions(disassembler, code);
            (api.LLVMDisasmDispose)(disassembler);
            Some(instructions)
        }
    }

    /// # Safety
    /// The disassembler is valid.
    unsafe fn instructions(&self, disassembler: Ref, code: &[u8]) -> Vec<Instruction> {
        let (mut all, mut at) = (Vec::new(), 0);
        // LLVM's parameter is not const, so it gets a copy.
        let mut code = code.to_vec();
        while at < code.len() {
            let mut line = [0; 256];
            // SAFETY: the lengths are those of the buffers; the line comes back terminated.
            let (size, line) = unsafe {
                let (bytes, left) = (code[at..].as_mut_ptr(), (code.len() - at) as u64);
                let (out, room) = (line.as_mut_ptr(), line.len());
                let size = (self.api.LLVMDisasmInstruction)(
                    disassembler,
                    bytes,
                    left,
                    at as u64,
                    out,
                    room,
                );
                (size, CStr::from_ptr(line.as_ptr()).to_string_lossy())
            };
            let line = if size == 0 { "(bad)" } else { line.trim_start() };
            all.push((at, line.replace('\t', " ")));
            at += size.max(1);
        }
        all
    }
}
