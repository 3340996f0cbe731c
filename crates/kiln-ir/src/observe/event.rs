//! What observers see.

use crate::program::Program;
use crate::uop::UOp;
use std::borrow::Cow;
use std::fmt;
use std::time::{Duration, Instant};

/// Something that happens in the compiler or while kernels run.
#[non_exhaustive]
pub enum Event<'a> {
    /// A pass has run.
    Pass {
        /// The stage that it belongs to.
        stage: &'static str,
        /// Its name.
        pass: &'static str,
        /// The graph before it: roots, or a list of ops.
        before: &'a [UOp],
        /// The graph after it.
        after: &'a [UOp],
    },
    /// A set of rules begins with these graphs. Rules of a set may rewrite with other sets on the way.
    Rules {
        /// The set's name.
        set: &'static str,
        /// What it is given.
        roots: &'a [UOp],
    },
    /// The set that began last and is not done is done.
    RulesDone {
        /// The set's name.
        set: &'static str,
        /// The normal forms.
        roots: &'a [UOp],
    },
    /// A rule of that set has rewritten a node whose sources were normal.
    Rewrite {
        /// The rule's name.
        rule: &'static str,
        /// Where it is written.
        place: (&'static str, u32),
        /// The node before.
        before: &'a UOp,
        /// What it became.
        after: &'a UOp,
    },
    /// A stage has chosen between alternatives.
    Decision(&'a Decision),
    /// A device is open.
    Opened {
        /// As programs name it.
        device: &'a str,
        /// What runs its kernels.
        backend: &'a str,
        /// What compiles them.
        compiler: &'a str,
        /// How fast it is, as its description says.
        speed: Option<Speed>,
    },
    /// A graph has a schedule.
    Scheduled {
        /// What the graph is known by: graphs that differ in data and constants alone have the same.
        key: u128,
        /// The device that it is for.
        device: &'a str,
        /// The graph; empty if the schedule was remembered.
        roots: &'a [UOp],
        /// The method that made the last root, with its line.
        by: Option<&'static str>,
        /// Its kernels and temporaries, which are listed if somebody asks; none if the schedule was remembered.
        plan: &'a dyn Fn() -> (Vec<Planned>, Vec<Temporary>),
        /// How many kernels it has.
        kernels: usize,
        /// When that began.
        start: Instant,
        /// How long it took; `None` if the schedule was remembered.
        took: Option<Duration>,
        /// Bytes of the memory that temporaries share.
        arena_bytes: usize,
        /// Bytes of all temporaries.
        temporary_bytes: usize,
    },
    /// A kernel can be launched.
    Compiled(&'a Compilation<'a>),
    /// A schedule needs a kernel that this process has compiled before.
    Found {
        /// The hash of the kernel after stage `schedule`, by which it is known.
        kernel: u128,
        /// The hash of the kernel after stage `optimize`.
        optimized: u128,
    },
    /// A search has timed more options for a kernel.
    Searching {
        /// The kernel's name.
        kernel: &'a str,
        /// How many lists of options were timed.
        tried: usize,
        /// How many times as fast as at the start the best is.
        gain: f64,
    },
    /// A search is done.
    Searched {
        /// The kernel's name.
        kernel: &'a str,
        /// How many lists of options were timed.
        tried: usize,
        /// How many times as fast as the heuristic's the best other options are.
        ratio: f64,
        /// Those options.
        options: &'a [String],
        /// Whether they are used.
        is_taken: bool,
        /// Whether an earlier process has searched.
        is_noted: bool,
    },
    /// A kernel has run.
    Launched {
        /// On which device.
        device: &'a str,
        /// The kernel after stage `optimize`, as far as it is kept.
        kernel: &'a UOp,
        /// The hash of that kernel.
        key: u128,
        /// What ran.
        program: &'a Program,
        /// Arithmetic operations and distinct bytes of this launch.
        work: (u64, u64),
        /// The methods that made it.
        methods: &'a [&'static str],
        /// Bytes in use on the device.
        memory: usize,
        /// When it began.
        start: Instant,
        /// When it was done.
        end: Instant,
    },
    /// Memory was copied, without a kernel.
    Copied {
        /// To which device.
        device: &'a str,
        /// From which device: another one, or the same.
        from: &'a str,
        /// How much.
        bytes: usize,
        /// When it began.
        start: Instant,
        /// When it was done.
        end: Instant,
    },
    /// A device has given memory, when it was touched for the first time.
    Allocated {
        /// Which device.
        device: &'a str,
        /// The block's number, which no other block of the process has.
        block: u64,
        /// How much was asked for.
        bytes: usize,
        /// What holds it: the method that made the value, say.
        holder: &'a str,
        /// Whether it was freed before, and kept.
        is_reused: bool,
        /// When it began.
        start: Instant,
        /// When it was done.
        end: Instant,
    },
    /// Memory went back to its device.
    Freed {
        /// Which device.
        device: &'a str,
        /// The block's number.
        block: u64,
    },
}

impl Event<'_> {
    /// What kind of event it is.
    pub fn kind(&self) -> Kind {
        match self {
            Event::Pass { .. }
            | Event::Rules { .. }
            | Event::RulesDone { .. }
            | Event::Rewrite { .. } => Kind::Steps,
            Event::Decision(_) => Kind::Decisions,
            Event::Launched { .. }
            | Event::Copied { .. }
            | Event::Allocated { .. }
            | Event::Freed { .. } => Kind::Runs,
            Event::Searching { .. } | Event::Searched { .. } => Kind::Searches,
            Event::Opened { .. }
            | Event::Scheduled { .. }
            | Event::Compiled(_)
            | Event::Found { .. } => Kind::News,
        }
    }
}

/// Kinds of events. An event is made only if an observer wants its kind, because most cost time to make.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Passes and rewrites. With them, every attempt of a rule is tracked.
    Steps,
    /// Choices by price.
    Decisions,
    /// Launches, copies, and memory that is given and freed. With them, clocks are read.
    Runs,
    /// Devices, schedules and compiled kernels. A remembered schedule is one, too, so a step of a training loop has one.
    News,
    /// Searches: rare, and long.
    Searches,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Kind; 5] =
        [Kind::Steps, Kind::Decisions, Kind::Runs, Kind::News, Kind::Searches];
}

/// How fast a device can be.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Speed {
    /// How many threads share a kernel.
    pub threads: usize,
    /// Arithmetic operations of f32 a second, on all threads.
    pub flops: f64,
    /// Bytes of memory a second, read and written.
    pub bytes: f64,
    /// The time that a launch takes at least.
    pub launch: Duration,
}

/// A kernel on its way from schedule to machine code.
pub struct Compilation<'a> {
    /// The kernel after stage `schedule`.
    pub scheduled: &'a UOp,
    /// The kernel after stage `optimize`.
    pub optimized: &'a UOp,
    /// The options that were applied.
    pub options: &'a [String],
    /// Its linear program and text.
    pub program: &'a Program,
    /// Where its machine code comes from: `compiled`, say.
    pub origin: &'static str,
    /// When it began; it ends with the event.
    pub start: Instant,
    /// Its machine code as text; `None` without a disassembler.
    pub disassemble: &'a dyn Fn() -> Option<MachineCode>,
}

/// Machine code for people.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct MachineCode {
    /// A line for each instruction.
    pub text: String,
    /// The line of the program's source, counted from 1, that each instruction is of: none where it is of several, or of none.
    /// Empty where that is not known of any.
    pub lines: Vec<Option<u32>>,
}

impl fmt::Debug for Compilation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut all = f.debug_struct("Compilation");
        all.field("program", &self.program.name).field("options", &self.options).finish()
    }
}

/// A kernel of a schedule.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Planned {
    /// The hash of the kernel after stage `schedule`.
    pub kernel: u128,
    /// What it writes, then what it reads: `output 0`, `temporary 2`, `input 1`, each with its bytes.
    pub arguments: Vec<(String, usize)>,
    /// The methods that made it.
    pub methods: Vec<&'static str>,
}

/// A value that is stored between kernels of a schedule.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Temporary {
    /// The hash of its node in the graph that the stage places.
    pub value: u128,
    /// Its size.
    pub bytes: usize,
    /// Where it is in the memory that temporaries share.
    pub offset: usize,
    /// The first kernel that writes it and the last that reads it, by place in the schedule.
    pub used: (usize, usize),
}

/// A choice between alternatives, by price.
#[derive(Clone, PartialEq, Debug)]
pub struct Decision {
    /// What is decided about: `reduce [64, 10] sum`, say.
    pub about: String,
    /// The node that it is about, in the graph of the pass that decides.
    pub node: Option<UOp>,
    /// The alternatives, each with its price; none where the price did not matter.
    pub alternatives: Vec<(Cow<'static, str>, Option<f64>)>,
    /// What prices are counted in.
    pub unit: &'static str,
    /// Which of them is taken.
    pub chosen: usize,
    /// Why, or what follows from it; may be empty.
    pub note: String,
}

impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.about, self.alternatives[self.chosen].0)?;
        let priced = |(name, price): &(Cow<'static, str>, Option<f64>)| {
            let price = (*price)?;
            // a point takes a part of a cycle
            let digits = if price < 10.0 { 3 } else { 1 };
            Some(format!("{name} {price:.digits$} {}", self.unit))
        };
        let prices: Vec<String> = self.alternatives.iter().filter_map(priced).collect();
        if !prices.is_empty() {
            write!(f, " ({})", prices.join(", "))?;
        }
        if self.note.is_empty() { Ok(()) } else { write!(f, ": {}", self.note) }
    }
}
