//! Records: cut anywhere, damaged anywhere, and followed rewrite by rewrite.
//!
//! `KILN_FUZZ=n` damages `n` times as many: see `fuzz`.

use crate::fuzz::{Rng, seeds};
use crate::observed::training_step;
use kiln::record::{How, Node, Record, Step, passes as passes_of};
use kiln::{Tensor, s, with};
use kiln_compile::passes;
use kiln_ir::observe::replayed;
use kiln_ir::spec::{self, Spec, lowering};
use kiln_ir::{UOp, text};
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

/// The record of a program, as bytes.
fn recorded(name: &str, program: impl FnOnce()) -> Vec<u8> {
    let path = std::env::temp_dir().join(format!("kiln-records-{name}-{}", std::process::id()));
    kiln::record(&path, program).expect("a file can be written");
    let bytes = std::fs::read(&path).expect("it was written");
    std::fs::remove_file(&path).expect("it is there");
    bytes
}

/// A program with kernels, writes and values between kernels, of shapes that no other test has.
fn small(rows: usize) -> Vec<u8> {
    recorded(&format!("small-{rows}"), || {
        let x = Tensor::rand([rows, 300]);
        x.realize().expect("computes");
        x.set(s![1], 2.0);
        let y = x.softmax(-1).matmul(&x.permute([1, 0]));
        assert!(y.sum(..).item::<f32>().expect("computes").is_finite());
    })
}

/// What a page and `kiln explain` ask of a record.
fn look(record: &Record) -> usize {
    for schedule in &record.schedules {
        for kernel in 0..schedule.kernels.len().min(8) {
            for node in schedule.between(kernel, kernel + 1) {
                assert!((node as usize) < record.nodes.len());
                schedule.decisions_about(node).count();
            }
        }
    }
    for kernel in record.kernels.iter().take(2) {
        assert!(record.after_options(kernel).len() <= kernel.options.len() + 1);
    }
    for kernel in record.kernels.iter().take(2) {
        let lives = record.lives(&kernel.steps);
        for run in passes_of(&kernel.steps).iter().take(4) {
            let node = run.after.first().copied().unwrap_or(u32::MAX);
            assert!(lives.of(run.step, node).becomes.len() <= 12);
            record.expression(node);
        }
    }
    record.devices.iter().filter_map(|device| record.speed(&device.name)).count();
    serde_json::to_vec(record).expect("a record is JSON").len()
}

#[test]
fn a_cut_record_opens_as_far_as_it_goes() {
    let bytes = small(37);
    let whole = Record::parse(&bytes).expect("a record");
    assert_eq!((whole.damaged, whole.is_full), (0, false));
    assert!(whole.schedules.len() >= 2 && whole.kernels.len() >= 2 && !whole.rules.is_empty());
    let first = bytes.iter().position(|b| *b == b'\n').expect("a line");
    let mut rng = Rng(1);
    for _ in 0..1000 {
        let cut = rng.below(bytes.len());
        let opened = Record::parse(&bytes[..cut]);
        let Ok(record) = opened else {
            assert!(cut < first, "cut at {cut}");
            continue;
        };
        let rest = usize::from(cut > first && bytes[cut - 1] != b'\n');
        assert!(record.damaged <= rest, "cut at {cut}: {} are damaged", record.damaged);
        assert_eq!(record.nodes, whole.nodes[..record.nodes.len()], "cut at {cut}");
        // the first line, and as many names of devices and threads as the process has, come before all else
        let lines = bytes[..cut].iter().filter(|b| **b == b'\n').count();
        let names = 1 + whole.devices.len() + whole.threads.len();
        let told = record.nodes.len() + record.launches.len() + record.blocks.len();
        assert!(lines <= names || told > 0, "cut at {cut}: {lines} lines tell nothing");
    }
}

/// Changes a record in one place: bytes, numbers, or whole lines.
fn damage(bytes: &mut Vec<u8>, rng: &mut Rng) {
    if bytes.is_empty() {
        return bytes.push(b'\n');
    }
    let at = rng.below(bytes.len());
    let line = |from: usize| bytes[from..].iter().position(|b| *b == b'\n').map(|n| from + n + 1);
    match rng.below(7) {
        0 => bytes[at] ^= 1 << rng.below(8),
        1 => bytes[at] = rng.pick(b"{}[]\",:0123456789.eE-\n\0\xff"),
        2 => {
            // another number where one is
            let digit = bytes[at..].iter().position(u8::is_ascii_digit).map(|n| at + n);
            let number = rng.pick(&["4294967295", "-1", "1e308", "18446744073709551615", "7"]);
            if let Some(digit) = digit {
                drop(bytes.splice(digit..=digit, number.bytes()));
            }
        }
        3 => bytes.truncate(at.max(1)),
        4 => {
            if let Some((start, end)) = line(at).and_then(|from| Some((from, line(from)?))) {
                drop(bytes.drain(start..end));
            }
        }
        5 => {
            if let Some((start, end)) = line(at).and_then(|from| Some((from, line(from)?))) {
                let (copy, to) = (bytes[start..end].to_vec(), line(rng.below(at + 1)));
                let to = to.unwrap_or(start);
                drop(bytes.splice(to..to, copy));
            }
        }
        _ => {
            let end = (at + 1 + rng.below(64)).min(bytes.len());
            drop(bytes.drain(at..end));
        }
    }
}

/// A part of a record is enough, and read sooner: its first line, and lines from somewhere on.
fn part(record: &[u8], rng: &mut Rng) -> Vec<u8> {
    let first = record.iter().position(|b| *b == b'\n').expect("a line") + 1;
    let from = if rng.one_in(2) { first } else { rng.below(record.len() - first) + first };
    let end = (from + 1 + rng.below(20_000)).min(record.len());
    [&record[..first], &record[from..end]].concat()
}

/// How many damaged records a run has.
const RECORDS: u64 = 2000;

/// A record is what its text says and no more: so many times its bytes, at most.
const LARGEST: usize = 8;

#[test]
#[allow(clippy::print_stderr, reason = "a long run says what it has seen")]
fn damaged_records_are_an_error_or_a_record() {
    let original = small(39);
    let (mut values, start) = (0u64, Instant::now());
    let all = seeds(RECORDS);
    for seed in &all {
        let mut rng = Rng(*seed);
        let mut bytes = part(&original, &mut rng);
        (0..1 + rng.below(6)).for_each(|_| damage(&mut bytes, &mut rng));
        let start = Instant::now();
        let opened = catch_unwind(AssertUnwindSafe(|| Record::parse(&bytes).map(|r| look(&r))));
        match opened {
            Ok(Ok(size)) => {
                assert!(size <= LARGEST * bytes.len() + 4096, "KILN_SEED={seed}: {size} bytes");
                values += 1;
            }
            Ok(Err(_)) => {}
            Err(_) => panic!("KILN_SEED={seed} panics"),
        }
        assert!(start.elapsed() < Duration::from_secs(5), "KILN_SEED={seed} takes long");
    }
    if std::env::var_os("KILN_FUZZ").is_some() {
        eprintln!("{} damaged records, {values} open, in {:?}", all.len(), start.elapsed());
    }
}

/// The nodes of a record as graphs, by way of their text.
fn graphs(nodes: &[Node]) -> Vec<UOp> {
    let mut lines = String::new();
    for Node { id, label, sources, .. } in nodes {
        let op = label.split(' ').next().expect("a label");
        let is_constant = kiln_ir::Op::ALL.iter().all(|known| known.name() != op);
        let head = match (is_constant, &sources[..]) {
            (false, _) => label.clone(),
            (true, []) => format!("const {label}"),
            // the same constant in every lane
            (true, _) => format!("splat {}", label.rsplit_once(':').map_or("index", |(_, t)| t)),
        };
        let ungated = match op {
            "load" => 2,
            "store" => 3,
            // a lookup that stands for a number, for the scheduler alone: no other stage may have such a node
            "var" => 0,
            _ => usize::MAX,
        };
        let source = |(at, source): (usize, &u32)| match (op, at < ungated) {
            ("var", _) => String::new(),
            (_, true) => format!(" %{source}"),
            (_, false) => format!(" gate=%{source}"),
        };
        let sources: String = sources.iter().enumerate().map(source).collect();
        lines += &format!("%{id} = {head}{sources}\n");
    }
    let graphs = text::parse_list(&lines).expect("the nodes of a record are well formed");
    assert_eq!(graphs.len(), nodes.len());
    graphs
}

/// The spec of a pass: it stands in brackets at the end of the pass's line in the list of passes.
fn specs() -> HashMap<&'static str, &'static Spec> {
    let named = [
        &spec::PREPARED,
        &spec::KERNEL,
        &lowering::NO_MATRICES,
        &lowering::NO_VECTOR_RANGES,
        &lowering::EXPANDED,
        &lowering::NO_REDUCTIONS,
        &lowering::SIMPLE_GATES,
        &lowering::DECOMPOSED,
        &lowering::INDEXED,
    ];
    let all = passes::listed().into_iter().flat_map(|stage| stage.passes);
    let spec = |(pass, leaves): (&'static str, &str)| {
        let name = leaves.strip_suffix(')')?.rsplit_once('(')?.1;
        Some((pass, *named.iter().find(|spec| spec.name == name)?))
    };
    let mut specs: HashMap<_, _> = all.filter_map(spec).collect();
    // these two say it in other words
    specs.extend([("prepare", &spec::PREPARED), ("shares", &spec::PREPARED)]);
    specs
}

/// How many rewrites of one set are followed with the whole graph after each; of longer ones, every n-th is.
const WHOLE: usize = 24;

/// A set of rules that is not done: what it was given, and its rewrites.
type Open = (Vec<UOp>, Vec<(UOp, UOp)>);

/// What was seen on the way.
#[derive(Default)]
struct Followed {
    passes: usize,
    programs: usize,
    sets: usize,
    rewrites: usize,
    wholes: usize,
}

impl Followed {
    /// Follows what the stages did from the first to the last rewrite.
    fn follow(&mut self, steps: &[Step], graphs: &[UOp], specs: &HashMap<&str, &Spec>) {
        let mut open: Vec<Open> = Vec::new();
        let all = |roots: &[u32]| -> Vec<UOp> {
            roots.iter().map(|&root| graphs[root as usize].clone()).collect()
        };
        for step in steps {
            match step {
                Step::Rules { roots, .. } => open.push((all(roots), Vec::new())),
                Step::Rewrite { rule, before, after, .. } => {
                    let pair = (graphs[*before as usize].clone(), graphs[*after as usize].clone());
                    assert_eq!(facts(&pair.0), facts(&pair.1), "rule {rule}");
                    open.last_mut().expect("a set that began").1.push(pair);
                    self.rewrites += 1;
                }
                Step::Done { roots } => {
                    let (before, rewrites) = open.pop().expect("a set that began");
                    assert_eq!(self.set(&before, &rewrites), all(roots));
                }
                Step::Pass { stage, pass, after, .. } => {
                    self.pass(stage, pass, &all(after), specs);
                }
                _ => {}
            }
        }
        assert!(open.is_empty(), "a set is not done");
    }

    /// The graphs after a set, with a look at the graphs on the way.
    fn set(&mut self, before: &[UOp], rewrites: &[(UOp, UOp)]) -> Vec<UOp> {
        self.sets += 1;
        let mut known = Default::default();
        let mut graph = replayed(before, &known);
        for (at, (old, new)) in rewrites.iter().enumerate() {
            known.insert(old.clone(), new.clone());
            if at % rewrites.len().div_ceil(WHOLE) == 0 || at + 1 == rewrites.len() {
                graph = replayed(before, &known);
                self.wholes += 1;
                for (was, is) in before.iter().zip(&graph) {
                    assert_eq!(facts(was), facts(is), "after {at} rewrites");
                }
            }
        }
        graph
    }

    fn pass(&mut self, stage: &str, pass: &str, after: &[UOp], specs: &HashMap<&str, &Spec>) {
        self.passes += 1;
        if let Some(spec) = specs.get(pass) {
            for graph in after {
                let checked = spec::verify(spec, graph);
                assert!(checked.is_ok(), "{stage}, {pass}: {}", checked.expect_err("broken"));
            }
        } else if ["linearize", "prefetch", "render"].contains(&pass) {
            self.programs += 1;
            let checked = spec::verify_program(after);
            assert!(checked.is_ok(), "{stage}, {pass}: {}", checked.expect_err("broken"));
        }
    }
}

/// What no rewrite may change.
fn facts(node: &UOp) -> (kiln_ir::DType, u16, &[usize]) {
    (node.dtype(), node.lanes(), node.shape())
}

#[test]
fn the_record_of_a_training_step_can_be_followed() {
    let bytes = recorded("digits", || {
        assert!(training_step(19).expect("computes").is_finite());
    });
    let record = Record::parse(&bytes).expect("a record");
    assert_eq!((record.damaged, record.is_full), (0, false));
    let (graphs, specs) = (graphs(&record.nodes), specs());
    for (node, graph) in record.nodes.iter().zip(&graphs) {
        assert_eq!((&node.shape[..], &node.label), (&graph.shape()[..], &text::label(graph)));
    }
    let mut followed = Followed::default();
    let schedules = record.schedules.iter().map(|schedule| &schedule.steps);
    for steps in schedules.chain(record.kernels.iter().map(|kernel| &kernel.steps)) {
        followed.follow(steps, &graphs, &specs);
    }
    let Followed { passes, programs, sets, rewrites, wholes } = followed;
    assert!(record.kernels.len() >= 8, "{} kernels", record.kernels.len());
    let kernels = record.kernels.len();
    assert!(passes > 15 * kernels && programs >= 3 * kernels, "{passes} {programs}");
    // without vectors it is less than half of what a CPU's are
    let is_cpu = kiln::Device::default_device().name() == "CPU";
    let (some, many) = if is_cpu { (500, 1000) } else { (300, 300) };
    assert!(sets > 100 && rewrites > many && wholes > some, "{sets} {rewrites} {wholes}");
    why_two_kernels_are_not_one(&record);
}

/// Of neighbours in a schedule, the value between them is stored, and decisions about most of these have prices.
fn why_two_kernels_are_not_one(record: &Record) {
    let (mut pairs, mut priced) = (0, 0);
    for schedule in record.schedules.iter().filter(|s| s.took.is_some()) {
        for second in 1..schedule.kernels.len() {
            for first in 0..second {
                for value in schedule.between(first, second) {
                    pairs += 1;
                    let mut about = schedule.decisions_about(value);
                    priced += usize::from(about.any(|step| {
                        matches!(step, Step::Decision { alternatives, .. } if !alternatives.is_empty())
                    }));
                }
            }
        }
    }
    assert!(pairs > 4 && 2 * priced > pairs, "{priced} of {pairs}");
}

#[test]
fn memory_and_temporaries_are_in_a_record() {
    // a schedule for many lengths has the values of another length
    let bytes = with([("LENGTHS", 0)], || small(41)).expect("a setting");
    let record = Record::parse(&bytes).expect("a record");
    let block = record.blocks.iter().find(|b| b.holder.starts_with("rand "));
    let block = block.expect("the data of the program");
    assert_eq!((block.bytes, block.holder.ends_with(".rs:0")), (41 * 300 * 4, false));
    assert!(block.holder.contains("records.rs:"), "{}", block.holder);
    let arena = record.blocks.iter().find(|b| b.holder == "temporaries").expect("temporaries");
    assert!(arena.freed.is_some_and(|freed| freed >= arena.at));
    let schedule = record.schedules.iter().find(|s| !s.temporaries.is_empty()).expect("one");
    assert_eq!(schedule.memory.0, arena.bytes);
    for temporary in &schedule.temporaries {
        assert!(temporary.offset + temporary.bytes <= schedule.memory.0);
        assert!(temporary.used.0 < temporary.used.1 && temporary.used.1 < schedule.kernels.len());
        let value = temporary.value.expect("its node is in the record") as usize;
        let elements: usize = record.nodes[value].shape.iter().product();
        assert_eq!(elements * 4, temporary.bytes);
    }
    // schedules and kernels say which thread made them, and when
    for schedule in record.schedules.iter().filter(|s| s.took.is_some()) {
        assert!(
            schedule
                .steps
                .iter()
                .any(|s| matches!(s, Step::Pass { stage, .. } if stage == "schedule"))
        );
    }
    for kernel in &record.kernels {
        let own = |s: &Step| matches!(s, Step::Pass { stage, .. } if stage == "schedule");
        assert!(kernel.took > 0.0 && !kernel.steps.is_empty() && !kernel.steps.iter().any(own));
        assert!((kernel.thread as usize) < record.threads.len());
    }
    let own = kiln::Device::default_device();
    assert!(record.devices.iter().any(|d| d.name == own.name()));
}

#[test]
fn options_are_applied_again_one_by_one() {
    let bytes = recorded("options", || {
        let x = Tensor::rand([67, 300]);
        let y = x.softmax(-1).matmul(&x.permute([1, 0]));
        assert!(y.sum(..).item::<f32>().expect("computes").is_finite());
    });
    let record = Record::parse(&bytes).expect("a record");
    let mut refused = 0;
    for kernel in &record.kernels {
        let all = record.after_options(kernel);
        assert_eq!(all.len(), kernel.options.len() + 1, "{}", kernel.name);
        assert!(all[0].option.is_none() && !all[0].nest.is_empty());
        for (after, option) in all[1..].iter().zip(&kernel.options) {
            assert_eq!(after.option.as_ref(), Some(option));
            assert_eq!(after.nest.is_empty(), after.without.is_some(), "{option}");
            refused += usize::from(after.without.is_some());
        }
        // the last is the kernel that was compiled
        let last = all.last().expect("the kernel itself");
        assert!(last.without.is_none(), "{}: {:?}", kernel.name, last.without);
        let kinds = |kind: &str| last.nest.iter().any(|line| line.kind == Some(kind));
        let has = |option: &str| kernel.options.iter().any(|o| o.starts_with(option));
        assert_eq!((kinds("vector"), kinds("thread")), (has("VECTOR"), has("THREAD")));
    }
    let options: usize = record.kernels.iter().map(|k| k.options.len()).sum();
    assert!(options >= 5 && refused < options / 2, "{refused} of {options}");
}

#[test]
fn a_line_has_the_steps_of_its_first_schedules() {
    let program = || {
        for length in [211, 223, 227, 229, 233, 239] {
            let x = Tensor::full([length, 3], 0.5);
            x.realize().expect("computes");
            assert!((&x + 0.25).sum(..).item::<f32>().expect("computes") > 0.0);
        }
    };
    // each length has a schedule of its own
    let bytes = with([("LENGTHS", 0)], || recorded("lengths", program)).expect("a setting");
    let record = Record::parse(&bytes).expect("a record");
    let of_line =
        |s: &&kiln::record::Schedule| s.by.as_ref().is_some_and(|by| by.starts_with("sum "));
    let schedules = record.schedules.iter().filter(of_line).filter(|s| s.took.is_some());
    let has_steps: Vec<bool> = schedules.clone().map(|s| !s.steps.is_empty()).collect();
    assert_eq!(has_steps, [true, true, true, false, false, false]);
    assert!(schedules.clone().all(|s| !s.roots.is_empty() && !s.kernels.is_empty()));
}

#[test]
fn a_node_is_followed_through_the_passes_and_back() {
    let bytes = recorded("life", || {
        // zeros around it are conditions, which rules simplify on any processor
        let x = (Tensor::arange(71) * 3).pad([(2, 3)]);
        let y = x.cast(kiln::DType::F32).reshape([76, 1]).softmax(0);
        assert!(y.sum(..).item::<f32>().expect("computes").is_finite());
    });
    let record = Record::parse(&bytes).expect("a record");
    let (mut roots, mut ruled) = (0, 0);
    for kernel in &record.kernels {
        let lives = record.lives(&kernel.steps);
        for run in passes_of(&kernel.steps).iter().filter(|run| run.changes()) {
            let ([before], [after]) = (run.before, run.after) else { continue };
            // the root of a pass becomes the root of the next, and was it
            let becomes = lives.of(run.step, *before).becomes;
            assert_eq!((becomes[0].to, becomes[0].from), (Some(*after), *before), "{}", run.pass);
            let was = lives.of(run.step, *after).comes_from;
            assert_eq!(was[0].to, Some(*before), "{}", run.pass);
            roots += 1;
            for change in becomes.iter().filter(|change| change.how == How::Rule) {
                let is_rewrite = |&at: &usize| matches!(kernel.steps[at], Step::Rewrite { .. });
                assert!(!change.rules.is_empty() && change.rules.iter().all(is_rewrite));
            }
            // what a rule was given, it made another node of
            for &at in &run.inner {
                let Step::Rewrite { before, .. } = kernel.steps[at] else { continue };
                let becomes = lives.of(run.step, before).becomes;
                ruled += usize::from(becomes.first().is_some_and(|c| c.rules.contains(&at)));
            }
        }
    }
    assert!(roots >= 5 && ruled >= 2, "{roots} {ruled}");
    // positions are no node in kernels
    let schedule = record.schedules.iter().find(|s| !s.steps.is_empty()).expect("one");
    let iota = record.nodes.iter().find(|n| n.label.starts_with("iota ")).expect("of arange");
    let life = record.lives(&schedule.steps).of(0, iota.id);
    assert!(life.becomes.iter().any(|change| change.how == How::Gone), "{life:?}");
}
