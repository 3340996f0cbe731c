//! A device outside of the crates. The host cannot address its memory, launches wait in a queue, and kernels are
//! interpreted.

use kiln::backend::{
    Backend, BackendError, BackendResult, Buffer, DeviceMemory, Kernel, Loaded, Memory, Origin,
    Pool, Program, Target, check_arguments, interpret,
};
use kiln::{Device, Tensor, s};
use std::any::Any;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// What the toy has to do, and the bytes of its blocks by number.
#[derive(Default)]
struct State {
    blocks: BTreeMap<u64, Vec<u8>>,
    next: u64,
    queue: Vec<Job>,
    ran: usize,
}

type Job = Box<dyn FnOnce(&mut State) -> BackendResult<()> + Send>;
type Shared = Arc<Mutex<State>>;

/// A block by its number.
struct Block(u64, Shared);

struct Toy {
    state: Shared,
    pool: Arc<Pool>,
}

struct ToyKernel(Arc<Program>, Shared);

impl State {
    /// Does what is queued: nothing is seen of it before.
    fn flush(&mut self) -> BackendResult<()> {
        for job in std::mem::take(&mut self.queue) {
            job(self)?;
            self.ran += 1;
        }
        Ok(())
    }
}

impl std::fmt::Debug for Block {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "block {}", self.0)
    }
}

impl DeviceMemory for Block {
    fn read(&self, offset: usize, to: &mut [u8]) -> BackendResult<()> {
        let mut state = self.1.lock().expect("no panic");
        state.flush()?;
        to.copy_from_slice(&state.blocks[&self.0][offset..][..to.len()]);
        Ok(())
    }

    fn write(&self, offset: usize, from: &[u8]) -> BackendResult<()> {
        let mut state = self.1.lock().expect("no panic");
        state.flush()?;
        let block = state.blocks.get_mut(&self.0).expect("not freed");
        block[offset..][..from.len()].copy_from_slice(from);
        Ok(())
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl Drop for Block {
    /// Freed after what was queued before: that may use it.
    fn drop(&mut self) {
        let (number, free) = (self.0, &self.1);
        let job = move |state: &mut State| {
            state.blocks.remove(&number);
            Ok(())
        };
        free.lock().expect("no panic").queue.push(Box::new(job));
    }
}

impl Toy {
    fn new() -> Toy {
        let state = Shared::default();
        let blocks = state.clone();
        let pool = Pool::of_device(1 << 20, 1 << 20, move |bytes| {
            let mut state = blocks.lock().expect("no panic");
            let number = state.next;
            state.next += 1;
            state.blocks.insert(number, vec![0xAB; bytes]);
            Ok(Memory::of_device(Box::new(Block(number, blocks.clone())), bytes))
        });
        Toy { state, pool }
    }
}

impl Backend for Toy {
    fn name(&self) -> &str {
        "TOY"
    }

    fn alloc(&self, bytes: usize) -> BackendResult<Buffer> {
        Buffer::new(&self.pool, bytes)
    }

    fn reaches(&self, buffer: &Buffer) -> bool {
        matches!(buffer.as_device(), Ok(Some(block)) if block.as_any().is::<Block>())
    }

    fn load(&self, program: &Program) -> BackendResult<Loaded> {
        let kernel = Arc::new(ToyKernel(Arc::new(program.clone()), self.state.clone()));
        Ok(Loaded { kernel, origin: Origin::Interpreted })
    }

    fn compiler(&self) -> String {
        "none".into()
    }

    fn pool(&self) -> Option<&Arc<Pool>> {
        Some(&self.pool)
    }
}

impl Kernel for ToyKernel {
    fn launch(&self, buffers: &[Buffer], vars: &[i64]) -> BackendResult<()> {
        check_arguments(&self.0, buffers, vars)?;
        let place = |buffer: &Buffer| {
            let block = buffer.as_device()?.and_then(|b| b.as_any().downcast_ref::<Block>());
            let block = block.ok_or_else(|| BackendError::Launch("memory of others".into()))?;
            Ok((block.0, buffer.offset(), buffer.len()))
        };
        let places: Vec<_> = buffers.iter().map(place).collect::<BackendResult<_>>()?;
        let (program, vars) = (self.0.clone(), vars.to_vec());
        let job = move |state: &mut State| {
            let cells: BTreeMap<u64, &[Cell<u8>]> = state
                .blocks
                .iter_mut()
                .map(|(number, bytes)| {
                    (*number, Cell::from_mut(&mut bytes[..]).as_slice_of_cells())
                })
                .collect();
            let arguments: Vec<&[Cell<u8>]> =
                places.iter().map(|(number, at, len)| &cells[number][*at..at + len]).collect();
            Ok(interpret(&program, &arguments, &vars)?)
        };
        self.1.lock().expect("no panic").queue.push(Box::new(job));
        Ok(())
    }
}

fn added(name: &str) -> (Device, Arc<Toy>) {
    let toy = Arc::new(Toy::new());
    (Device::add(name, toy.clone(), Target::interp()).expect("a new name"), toy)
}

#[test]
fn a_device_of_ones_own_runs_programs() {
    let (device, toy) = &added("toy");
    let x = Tensor::from([[1.0f32, 2.0], [3.0, 4.0]]).to(device).set_requires_grad(true);
    let y = x.matmul(&x).relu() + Tensor::arange_with(2, (kiln::DType::F32, device));
    y.sum(..).backward().expect("differentiable");
    let ran = || toy.state.lock().expect("no panic").ran;
    let before = ran();
    y.realize().expect("launches");
    assert_eq!(ran(), before, "what is launched waits in the queue");
    assert_eq!(y.to_vec::<f32>().expect("reads"), [7.0, 11.0, 15.0, 23.0]);
    assert!(ran() > before);
    let grad = x.grad().expect("wanted");
    assert_eq!(
        (grad.device(), grad.to_vec::<f32>().expect("reads")),
        (device, vec![7.0, 11.0, 9.0, 13.0])
    );
    // writes, views, and the way back
    let t = Tensor::zeros_with([6], device);
    t.set(s![1..;2], 5.0);
    t.get(s![..2]).add_assign(1.0);
    let home = t.to("CPU").reshape([2, 3]) * 2.0;
    assert_eq!(home.to_vec::<f32>().expect("reads"), [2.0, 12.0, 0.0, 10.0, 0.0, 10.0]);
}

/// A file is mapped where the host is, and copied when it is needed.
#[test]
fn files_are_read_on_it() {
    let (device, _) = &added("FILE_TOY");
    let path = std::env::temp_dir().join(format!("kiln-toy-{}.safetensors", std::process::id()));
    let there = Tensor::from([1.0f32, 2.0, 3.0]);
    kiln::nn::state::save(&path, &BTreeMap::from([("x".to_owned(), there)])).expect("writes");
    let loaded = kiln::with([("DEV", "FILE_TOY")], || kiln::nn::state::load(&path));
    let loaded = loaded.expect("a setting").expect("reads");
    let x = &loaded["x"];
    assert_eq!(
        (x.device(), (x * 2.0).to_vec::<f32>().expect("reads")),
        (device, vec![2.0, 4.0, 6.0])
    );
    std::fs::remove_file(&path).expect("it is there");
}

#[test]
fn its_memory_has_a_limit() {
    let (device, _) = &added("SMALL_TOY");
    let half = Tensor::ones_with([100_000], device) + 1.0;
    half.realize().expect("fits");
    assert!(device.memory().expect("open").used >= 400_000);
    assert_eq!(device.memory().expect("open").limit, Some(1 << 20));
    let more = Tensor::ones_with([200_000], device) + 1.0;
    let error = more.realize().map(drop).expect_err("too much").to_string();
    assert!(error.contains("of at most 1048576 bytes are in use"), "{error}");
    // with the line of the program, if another test of the process records
    assert!(error.contains("400000 by add") && error.contains("(1 block)"), "{error}");
    drop(half);
    more.realize().expect("fits now");
    assert_eq!(more.sum(..).item::<f32>().expect("reads"), 400_000.0);
    let again = Device::add("small_toy", Arc::new(Toy::new()), Target::interp());
    assert!(again.is_err_and(|e| e.to_string().contains("already")));
}
