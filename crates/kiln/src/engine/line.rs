//! A launch as a line of text: device, number, name, arguments, memory, time, rates, and the methods that made the
//! kernel.

use kiln_ir::arg::RangeKind;
use kiln_ir::program::Program;
use kiln_ir::uop::toposort;
use kiln_ir::{Op, UOp};

/// The width of the column of names.
const NAME: usize = 36;

/// What the line tells.
pub(super) struct Launch<'a> {
    pub(super) device: &'a str,
    pub(super) number: u64,
    /// Whether the kernel runs for the first time: then the line starts green.
    pub(super) is_first: bool,
    /// The kernel after stage `optimize`.
    pub(super) kernel: &'a UOp,
    pub(super) program: &'a Program,
    /// Arithmetic operations and distinct bytes.
    pub(super) work: (u64, u64),
    /// Bytes in use on the device.
    pub(super) memory: u64,
    pub(super) ns: u64,
    /// Of all launches so far.
    pub(super) total_ns: u64,
    pub(super) methods: &'a [&'static str],
}

impl Launch<'_> {
    pub(super) fn line(&self, color: bool) -> String {
        let program = self.program;
        let head = format!("*** {:<10} {:4}", self.device, self.number);
        let head = paint(&head, 32, color && self.is_first);
        let name = name(self.kernel, color);
        let pad = " ".repeat(NAME.saturating_sub(program.name.len()));
        let (args, memory) = (program.params.len(), self.memory as f64 / 1e9);
        let (us, ms) = (self.ns as f64 / 1e3, self.total_ns as f64 / 1e6);
        let (flops, bytes) = (self.rate(self.work.0), self.rate(self.work.1));
        let accessed = self.rate(self.accessed());
        let (lines, origins) = told(self.methods);
        format!(
            "{head} {name}{pad} arg {args:2} mem {memory:5.2} GB tm {us:9.2}us/{ms:9.2}ms \
             ({flops:9.2} GFLOPS {bytes:6.1}|{accessed:<6.1} GB/s) {lines}{origins}"
        )
    }

    /// Bytes that loads and stores move, however often they are the same; of a kernel for several lengths in proportion to
    /// its work.
    fn accessed(&self) -> u64 {
        let Program { bytes, accessed, .. } = *self.program;
        let share = self.work.1 as f64 / bytes.max(1) as f64;
        (accessed as f64 * share) as u64
    }

    /// Billions a second.
    fn rate(&self, n: u64) -> f64 {
        n as f64 / self.ns as f64
    }
}

/// So many lines of the program are named.
const MOST_LINES: usize = 3;

/// The lines of the program that called the methods, and the methods as Python writes a list of strings.
fn told(methods: &[&str]) -> (String, String) {
    let (mut names, mut lines): (Vec<String>, Vec<&str>) = (Vec::new(), Vec::new());
    for method in methods {
        let (name, line) = method.split_once(' ').unwrap_or((method, ""));
        let quoted = format!("'{name}'");
        if !names.contains(&quoted) {
            names.push(quoted);
        }
        if !line.is_empty() && !lines.contains(&line) {
            lines.push(line);
        }
    }
    let more = if lines.len() > MOST_LINES { ".. " } else { "" };
    let lines: String = lines.iter().take(MOST_LINES).map(|line| format!("{line} ")).collect();
    (lines + more, format!("[{}]", names.join(", ")))
}

fn paint(text: &str, code: u8, color: bool) -> String {
    if color { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
}

/// The kernel's name with each size in the colour of its loop's kind.
fn name(ast: &UOp, color: bool) -> String {
    let nodes = toposort(ast);
    let mut ranges: Vec<(u32, RangeKind, i64)> = nodes
        .iter()
        .filter(|n| n.op() == Op::Range)
        .filter_map(|n| n.arg().range().map(|(axis, kind)| (axis, kind, n.max() + 1)))
        .collect();
    ranges.sort_unstable();
    let letter = if nodes.iter().any(|n| n.op() == Op::Reduce) { "r" } else { "E" };
    let sizes = ranges.iter().map(|(_, kind, size)| paint(&size.to_string(), code(*kind), color));
    let parts: Vec<String> = std::iter::once(letter.to_owned()).chain(sizes).collect();
    parts.join(&paint("_", 90, color))
}

/// The colour of a kind of loop, as terminals number them.
fn code(kind: RangeKind) -> u8 {
    match kind {
        RangeKind::Global | RangeKind::Thread => 34,
        RangeKind::Local => 36,
        RangeKind::Loop => 37,
        RangeKind::Reduce => 31,
        RangeKind::Upcast => 33,
        RangeKind::Vector => 93,
        RangeKind::Matrix => 95,
        RangeKind::Unroll => 35,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kiln_compile::pass::Checks;
    use kiln_compile::pipeline::{Settings, compile};
    use kiln_compile::target::Target;
    use kiln_ir::text;

    fn line(is_first: bool, color: bool) -> String {
        let ast = "%out = param f32 slot=0 [3]\n%x = param f32 slot=1 [3]\n%r = range index axis=0 loop 3\n\
                   %v = load f32 %x %r\n%y = add f32 %v 2.0:f32\n%s = store %out %r %y\n%e = end %s %r\n\
                   sink name=E_3 %e\n";
        let ast = text::parse(ast).expect("parses");
        let checks = Checks { verify: true, spoiled: None };
        let settings = Settings { checks, ..Settings::default() };
        let compiled = compile(&ast, &Target::interp(), settings).expect("compiles");
        let launch = Launch {
            device: "CPU",
            number: 1,
            is_first,
            kernel: &compiled.ast,
            program: &compiled.program,
            work: (compiled.program.flops, compiled.program.bytes),
            memory: 120_000_000,
            ns: 7_380,
            total_ns: 10_000,
            methods: &["add src/main.rs:3", "relu src/main.rs:3"],
        };
        launch.line(color)
    }

    #[test]
    fn the_line_is() {
        let name = format!("E_3{}", " ".repeat(33));
        let expected = format!(
            "*** CPU           1 {name} arg  2 mem  0.12 GB tm      7.38us/     0.01ms \
             (     0.00 GFLOPS    0.0|0.0    GB/s) src/main.rs:3 ['add', 'relu']"
        );
        assert_eq!(line(true, false), expected);
        assert_eq!(line(false, false), expected);
    }

    #[test]
    fn colors_mark_first_runs_and_kinds_of_loops() {
        let first = line(true, true);
        assert!(first.starts_with("\x1b[32m*** CPU           1\x1b[0m "), "{first:?}");
        assert!(first.contains("E\x1b[90m_\x1b[0m\x1b[37m3\x1b[0m "), "{first:?}");
        assert!(line(false, true).starts_with("*** CPU           1 E\x1b[90m"));
    }
}
