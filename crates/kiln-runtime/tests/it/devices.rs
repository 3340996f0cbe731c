//! What a device takes: a toy one, the one that counts, the interpreter.

use crate::cpu::program;
use kiln_ir::program::Program;
use kiln_ir::{DType, UOp};
use kiln_runtime::device::check_arguments;
use kiln_runtime::interp::InterpBackend;
use kiln_runtime::null::NullBackend;
use kiln_runtime::pool::Pool;
use kiln_runtime::{Backend, Buffer, Error, Kernel, Loaded, Origin, Result};
use std::sync::Arc;

/// A device whose language is one byte, which it fills its first argument with.
struct Toy(Arc<Pool>);

struct Fill(Program, u8);

impl Backend for Toy {
    fn name(&self) -> &str {
        "TOY"
    }

    fn alloc(&self, bytes: usize) -> Result<Buffer> {
        Buffer::new(&self.0, bytes)
    }

    fn reaches(&self, buffer: &Buffer) -> bool {
        buffer.is_of(&self.0)
    }

    fn load(&self, program: &Program) -> Result<Loaded> {
        let byte = program.source.parse().map_err(|_| Error::Unsupported("not a byte".into()))?;
        Ok(Loaded { kernel: Arc::new(Fill(program.clone(), byte)), origin: Origin::Compiled })
    }

    fn compiler(&self) -> String {
        "a parser".into()
    }
}

impl Kernel for Fill {
    fn launch(&self, buffers: &[Buffer], vars: &[i64]) -> Result<()> {
        check_arguments(&self.0, buffers, vars)?;
        buffers[0].write(&vec![self.1; buffers[0].len()])
    }
}

#[test]
fn a_device_is_a_few_lines() {
    let toy: Box<dyn Backend> = Box::new(Toy(Pool::new()));
    let buffer = toy.alloc(8).unwrap();
    let kernel = toy.load(&program("7", 1, 2)).unwrap().kernel;
    kernel.launch(std::slice::from_ref(&buffer), &[]).unwrap();
    assert_eq!(buffer.to_vec::<u8>().unwrap(), [7; 8]);
    assert!(toy.load(&program("x", 1, 2)).is_err());
}

#[test]
fn nothing_of_a_device_is_reachable_from_another() {
    let first = InterpBackend::new();
    let second = first.another().expect("as many as you like");
    let (own, others) = (first.alloc(8).unwrap(), second.alloc(8).unwrap());
    assert!(first.reaches(&own) && second.reaches(&others));
    assert!(!first.reaches(&others) && !second.reaches(&own));
    second.copy(&own, &others).unwrap();
    assert_eq!(second.pool().unwrap().memory_use().used, 8);
}

#[test]
fn null_counts_and_leaves_memory_alone() {
    let null = NullBackend::new();
    let buffer = null.alloc(8).unwrap();
    let kernel = null.load(&program("anything", 1, 2)).unwrap().kernel;
    for _ in 0..3 {
        kernel.launch(std::slice::from_ref(&buffer), &[]).unwrap();
    }
    assert!(kernel.launch(&[], &[]).is_err());
    assert_eq!(null.launches(), 3);
    assert!(!buffer.is_allocated());
    assert_eq!(buffer.to_vec::<u8>().unwrap(), [0; 8]);
}

#[test]
fn the_interpreter_is_a_device() {
    let device = InterpBackend::new();
    let param = UOp::param(0, DType::F32, [2].as_slice());
    let index = UOp::constant(1, DType::I32);
    let value = UOp::constant(5.0, DType::F32);
    let store = UOp::store(&param, &index, &value, None);
    let program = Program { ops: vec![param, index, value, store], ..program("", 1, 2) };
    let buffer = device.alloc(8).unwrap();
    buffer.write(&[0; 8]).unwrap();
    let loaded = device.load(&program).unwrap();
    assert_eq!(loaded.origin, Origin::Interpreted);
    loaded.kernel.launch(std::slice::from_ref(&buffer), &[]).unwrap();
    assert_eq!(buffer.to_vec::<u8>().unwrap()[4..], 5.0f32.to_le_bytes());
}
