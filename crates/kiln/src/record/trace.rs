//! A timeline in the trace format of Perfetto and Chrome: `PROFILE` writes it.
//!
//! The first process is the host with its threads: schedules, and kernels that are compiled. Each device is one more, with
//! launches, copies, and the memory in use.

use super::bounded::Bounded;
use super::ending::Ending;
use kiln_ir::observe::{Event, Kind, Observer};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::thread::{ThreadId, current};
use std::time::{Duration, Instant};

/// Writes each event to a file.
pub(crate) struct Trace {
    started: Instant,
    state: Mutex<State>,
}

struct State {
    out: Bounded,
    threads: HashMap<ThreadId, usize>,
    /// The numbers of devices as processes.
    devices: HashMap<String, usize>,
    /// Blocks of memory in use, and the bytes of each device.
    blocks: HashMap<u64, usize>,
    used: HashMap<usize, usize>,
}

/// The process of the host.
const HOST: usize = 1;

/// Where something is shown: a process, and a thread of it.
type Place = (usize, usize);

impl Trace {
    pub(crate) fn create(path: &Path) -> io::Result<Trace> {
        let mut state = State {
            out: Bounded::create(path)?,
            threads: HashMap::new(),
            devices: HashMap::new(),
            blocks: HashMap::new(),
            used: HashMap::new(),
        };
        state.out.put(b"[\n", b"");
        state.name("process_name", (HOST, 0), "host");
        Ok(Trace { started: Instant::now(), state: Mutex::new(state) })
    }

    fn time(&self, at: Instant) -> f64 {
        us(at.saturating_duration_since(self.started))
    }

    /// Something that took time.
    fn span(
        &self,
        state: &mut State,
        what: &str,
        place: Place,
        span: (Instant, Duration),
        more: Value,
    ) {
        let (start, took) = span;
        state.put(&json!({
            "name": what, "ph": "X", "pid": place.0, "tid": place.1,
            "ts": self.time(start), "dur": us(took), "args": more,
        }));
    }

    /// What the compiler did.
    fn host(&self, state: &mut State, event: &Event<'_>) {
        match *event {
            Event::Scheduled { kernels, start, took: Some(took), key, by, .. } => {
                let place = (HOST, state.thread());
                let (what, key) = (format!("schedule {kernels} kernels"), format!("{key:032x}"));
                self.span(state, &what, place, (start, took), json!({ "key": key, "by": by }));
            }
            Event::Compiled(kernel) => {
                let place = (HOST, state.thread());
                let (what, more) = (
                    format!("compile {}", kernel.program.name),
                    json!({ "options": kernel.options, "origin": kernel.origin }),
                );
                self.span(state, &what, place, (kernel.start, kernel.start.elapsed()), more);
            }
            _ => {}
        }
    }

    /// What a device did.
    fn device(&self, state: &mut State, event: &Event<'_>) {
        match *event {
            Event::Launched {
                device, program, work: (flops, bytes), methods, start, end, ..
            } => {
                let place = (state.device(device), 0);
                let more = json!({ "flops": flops, "bytes": bytes, "methods": methods });
                self.span(state, &program.name, place, (start, end - start), more);
            }
            Event::Copied { device, from, bytes, start, end } => {
                let place = (state.device(device), 1);
                let what = format!("copy from {from}");
                self.span(state, &what, place, (start, end - start), json!({ "bytes": bytes }));
            }
            Event::Allocated { device, block, bytes, .. } => {
                state.blocks.insert(block, bytes);
                self.memory(state, device, |used| used + bytes);
            }
            Event::Freed { device, block } => {
                let bytes = state.blocks.remove(&block).unwrap_or(0);
                self.memory(state, device, |used| used.saturating_sub(bytes));
            }
            _ => {}
        }
    }

    fn memory(&self, state: &mut State, device: &str, change: impl Fn(usize) -> usize) {
        let device = state.device(device);
        let used = state.used.entry(device).or_default();
        *used = change(*used);
        let used = *used;
        let now = self.time(Instant::now());
        state.put(&json!({
            "name": "memory", "ph": "C", "pid": device, "tid": 0, "ts": now, "args": { "bytes": used },
        }));
    }
}

fn us(time: Duration) -> f64 {
    time.as_nanos() as f64 / 1e3
}

impl State {
    fn put(&mut self, event: &Value) {
        self.out.put(format!("{event},\n").as_bytes(), b"");
    }

    fn name(&mut self, what: &str, (pid, tid): Place, name: &str) {
        self.put(
            &json!({ "name": what, "ph": "M", "pid": pid, "tid": tid, "args": { "name": name } }),
        );
    }

    fn thread(&mut self) -> usize {
        let (current, next) = (current(), self.threads.len());
        let thread = *self.threads.entry(current.id()).or_insert(next);
        if thread == next {
            let other = format!("thread {thread}");
            self.name("thread_name", (HOST, thread), current.name().unwrap_or(&other));
        }
        thread
    }

    fn device(&mut self, name: &str) -> usize {
        if let Some(&known) = self.devices.get(name) {
            return known;
        }
        let number = HOST + 1 + self.devices.len();
        self.devices.insert(name.to_owned(), number);
        self.name("process_name", (number, 0), name);
        self.name("thread_name", (number, 0), "launches");
        self.name("thread_name", (number, 1), "copies");
        number
    }
}

impl Observer for Trace {
    fn wants(&self, kind: Kind) -> bool {
        matches!(kind, Kind::Runs | Kind::News)
    }

    fn see(&self, event: &Event<'_>) {
        let state = &mut *self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.out.is_done() {
            return;
        }
        match event.kind() {
            Kind::Runs => self.device(state, event),
            _ => self.host(state, event),
        }
    }
}

impl Ending for Trace {
    fn end(&self) -> io::Result<()> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        // the last event has no comma after it
        state.out.end(b"{\"name\":\"end\",\"ph\":\"M\",\"pid\":1,\"tid\":0,\"args\":{}}\n]\n")
    }
}
