//! What each option did to a kernel: the options of a record are applied again, one more each time.

use super::graph::graph;
use super::parts::{Kernel, Record, Step};
use kiln_compile::optimize::{self, Opt};
use kiln_ir::text::{self, NestLine};
use kiln_ir::{UOp, spec};
use serde::Serialize;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A kernel after one more of its options.
#[derive(Clone, Serialize, PartialEq, Debug)]
#[non_exhaustive]
pub struct Applied {
    /// The option, such as `VECTOR(axis 1, 16)`; none for the kernel before the first one.
    pub option: Option<String>,
    /// The loops and statements.
    pub nest: Vec<LoopLine>,
    /// Why there is none: some options are only legal together with those that follow.
    pub without: Option<String>,
    /// The choices by price that took this option, and those that it was compared with.
    pub decided: Vec<Step>,
}

/// A loop, or a statement inside of loops.
#[derive(Clone, Serialize, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct LoopLine {
    /// How many loops are around it.
    pub depth: usize,
    /// What kind of loop it is: `loop`, `reduce`, `vector`, `thread`; none for a statement.
    pub kind: Option<&'static str>,
    /// `r0 in 0..64`, or `p0[r0] = acc0 + 1.0`.
    pub text: String,
}

impl LoopLine {
    fn of(line: NestLine) -> LoopLine {
        LoopLine { depth: line.depth, kind: line.kind.map(|kind| kind.name()), text: line.text }
    }
}

impl Record {
    /// The loop nest of a kernel before its options, and after each of them in turn. Empty if the record has no graph of the
    /// kernel.
    ///
    /// ```
    /// use kiln::{Tensor, record::Record};
    /// let path = std::env::temp_dir().join(format!("kiln-options-{}.viz", std::process::id()));
    /// kiln::record(&path, || Tensor::rand([64, 60]).exp().sum(1).realize().map(drop))??;
    /// let record = Record::open(&path)?;
    /// let kernel = record.kernels.iter().find(|k| k.name.starts_with("r_")).expect("a reduction");
    /// let after = record.after_options(kernel);
    /// assert_eq!(after.len(), 1 + kernel.options.len());
    /// assert!(after[0].nest.iter().any(|line| line.kind == Some("reduce")));
    /// # std::fs::remove_file(path).expect("just written");
    /// # Ok::<(), kiln::Error>(())
    /// ```
    pub fn after_options(&self, kernel: &Kernel) -> Vec<Applied> {
        let Some(ast) = self.before_options(kernel) else { return Vec::new() };
        let options: Result<Vec<Opt>, String> = kernel.options.iter().map(|o| o.parse()).collect();
        let after = |count: usize| match &options {
            // options name loops by their numbers in this graph, and applying any gives loops new numbers
            _ if count == 0 => Ok(ast.clone()),
            Ok(options) => attempt(&ast, &options[..count]),
            Err(why) => Err(why.clone()),
        };
        let applied = |count: usize| {
            let option = count.checked_sub(1).map(|at| kernel.options[at].clone());
            let (nest, without) = match after(count) {
                Ok(ast) => (text::nest(&ast).into_iter().map(LoopLine::of).collect(), None),
                Err(why) => (Vec::new(), Some(why)),
            };
            let decided = option.as_deref().map_or_else(Vec::new, |option| kernel.decided(option));
            // a choice of several options is told with the first of them
            let earlier = &kernel.options[..count.saturating_sub(1)];
            let is_new = |step: &Step| !earlier.iter().any(|option| takes(step, option));
            let decided = decided.into_iter().filter(is_new).collect();
            Applied { option, nest, without, decided }
        };
        (0..=kernel.options.len()).map(applied).collect()
    }

    /// The kernel that the options are for: after pass `collapse`.
    fn before_options(&self, kernel: &Kernel) -> Option<UOp> {
        let collapsed = kernel.steps.iter().find_map(|step| match step {
            Step::Pass { pass, after, .. } if pass == "collapse" => after.first().copied(),
            _ => None,
        });
        let ast = graph(&self.nodes, collapsed.unwrap_or(kernel.graphs[0]))?;
        spec::verify(&spec::KERNEL, &ast).ok()?;
        match collapsed {
            Some(_) => Some(ast),
            None => guarded(|| Ok(optimize::collapsed(&ast))).ok(),
        }
    }
}

impl Kernel {
    /// The choices by price of which an option is a part, each once.
    pub fn decided(&self, option: &str) -> Vec<Step> {
        let mut all: Vec<Step> = Vec::new();
        for step in &self.steps {
            if takes(step, option) && !all.contains(step) {
                all.push(step.clone());
            }
        }
        all
    }
}

/// Whether a decision took an option.
fn takes(step: &Step, option: &str) -> bool {
    let Step::Decision { alternatives, chosen, .. } = step else { return false };
    alternatives.get(*chosen).is_some_and(|(name, _)| name.contains(option))
}

fn attempt(ast: &UOp, options: &[Opt]) -> Result<UOp, String> {
    guarded(|| optimize::apply(ast, options).map(|optimized| optimized.ast))
}

/// A record may be damaged, so that the compiler is given what it would never make.
fn guarded<R>(f: impl FnOnce() -> Result<R, String>) -> Result<R, String> {
    catch_unwind(AssertUnwindSafe(f))
        .unwrap_or_else(|_| Err("the kernel in the record is damaged".to_owned()))
}
