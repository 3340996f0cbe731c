//! A process that runs workloads, kiln's or a peer's, and the requests that it answers (see `serve`).

use crate::failure::Failure;
use crate::options::SERVE;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// Who takes longer to answer has failed.
const PATIENCE: Duration = Duration::from_secs(180);

/// One of those that are measured.
pub(crate) struct Subject {
    pub(crate) name: String,
    /// What it said of itself when it started.
    pub(crate) version: String,
    how: How,
    process: Option<Process>,
}

/// What to start.
struct How {
    program: PathBuf,
    arguments: Vec<String>,
    threads: usize,
}

struct Process {
    child: Child,
    answers: Receiver<String>,
}

/// What a workload computed, and how long its first calls took.
pub(crate) struct Loaded {
    /// Seconds of the first call, with everything that is compiled for it.
    pub(crate) first: f64,
    /// Seconds of a later one.
    pub(crate) later: f64,
    pub(crate) samples: Vec<f64>,
}

impl Subject {
    /// kiln, as this program.
    pub(crate) fn kiln(threads: usize) -> Result<Subject, Failure> {
        let program = std::env::current_exe().map_err(|e| e.to_string())?;
        let how = How { program, arguments: vec![SERVE.to_owned()], threads };
        Subject::start("kiln", how)
    }

    /// A peer, as `peers.py`.
    pub(crate) fn peer(python: &Path, name: &str, threads: usize) -> Result<Subject, Failure> {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("peers.py");
        let arguments = vec![script.to_string_lossy().into_owned(), name.to_owned()];
        Subject::start(name, How { program: python.to_path_buf(), arguments, threads })
    }

    fn start(name: &str, how: How) -> Result<Subject, Failure> {
        let name = name.to_owned();
        let mut subject = Subject { name, version: String::new(), how, process: None };
        let hello = subject.process()?.answer()?;
        subject.version = hello.strip_prefix("hello ").ok_or(hello.clone())?.to_owned();
        Ok(subject)
    }

    /// Loads a workload.
    pub(crate) fn load(&mut self, name: &str) -> Result<Loaded, Failure> {
        if self.process.is_none() {
            self.process()?.answer()?;
        }
        let said = self.ask(&format!("load {name}"), "ready")?;
        let mut numbers = said.split(' ').map(|n| n.parse().unwrap_or(f64::NAN));
        let (first, later) = (numbers.next(), numbers.next());
        let said = || format!("{}: {said}", self.name);
        let (first, later) = first.zip(later).ok_or_else(said)?;
        Ok(Loaded { first, later, samples: numbers.collect() })
    }

    /// Seconds of a call, of so many.
    pub(crate) fn turn(&mut self, calls: u32) -> Result<f64, Failure> {
        let said = self.ask(&format!("turn {calls}"), "took")?;
        said.parse().map_err(|_| said)
    }

    /// Bytes that a call takes at most, in a process of its own.
    pub(crate) fn peak(&mut self, name: &str) -> Result<f64, Failure> {
        self.process = None;
        self.load(name)?;
        let said = self.ask("peak", "peak")?;
        self.process = None;
        said.parse().map_err(|_| said)
    }

    /// Gives the workload's memory back.
    pub(crate) fn drop_workload(&mut self) {
        // whoever fails here is started anew by the next workload
        let _ = self.ask("drop", "gone");
    }

    /// Asks, and gives what follows the expected word. Whoever does not answer is ended.
    fn ask(&mut self, request: &str, expected: &str) -> Result<String, Failure> {
        let process = self.process.as_mut().ok_or("it has ended")?;
        let answer = process.write(request).and_then(|()| process.answer());
        match answer {
            Ok(line) => match line.strip_prefix(expected) {
                Some(rest) => Ok(rest.trim().to_owned()),
                None => Err(line.trim_start_matches("lacks ").to_owned()),
            },
            Err(why) => {
                self.process = None;
                Err(why)
            }
        }
    }

    /// The running process, started if there is none.
    fn process(&mut self) -> Result<&mut Process, Failure> {
        let process = match self.process.take() {
            Some(process) => process,
            None => Process::start(&self.how)?,
        };
        Ok(self.process.insert(process))
    }
}

impl Process {
    fn start(how: &How) -> Result<Process, Failure> {
        let mut command = Command::new(&how.program);
        command.args(&how.arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
        for variable in ["KILN_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUM_CPU_THREADS"] {
            command.env(variable, how.threads.to_string());
        }
        let failed = |e| format!("{}: {e}", how.program.display());
        let mut child = command.spawn().map_err(failed)?;
        let stdout = BufReader::new(child.stdout.take().expect("piped"));
        let (send, answers) = channel();
        std::thread::spawn(move || {
            // whatever a library prints is no answer
            let lines = stdout.lines().map_while(Result::ok);
            let words = ["hello ", "ready ", "took ", "peak ", "gone", "lacks "];
            for line in lines.filter(|l| words.iter().any(|w| l.starts_with(w))) {
                if send.send(line).is_err() {
                    return;
                }
            }
        });
        Ok(Process { child, answers })
    }

    fn write(&mut self, request: &str) -> Result<(), Failure> {
        let stdin = self.child.stdin.as_mut().expect("piped");
        writeln!(stdin, "{request}").and_then(|()| stdin.flush()).map_err(|e| e.to_string())
    }

    fn answer(&mut self) -> Result<String, Failure> {
        self.answers.recv_timeout(PATIENCE).map_err(|e| match e {
            std::sync::mpsc::RecvTimeoutError::Timeout => format!("no answer in {PATIENCE:?}"),
            std::sync::mpsc::RecvTimeoutError::Disconnected => "it ended".to_owned(),
        })
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
