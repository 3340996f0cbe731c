//! Every pass of every stage, in order: the page to read first. `kiln passes` prints it.
//!
//! ```text
//! tensor graph --schedule--> kernels --optimize--> kernels --lower--> lists of ops --render--> text
//! ```

use crate::lower::Lowering;
use crate::optimize::{self, Opt, Optimizing, Room};
use crate::pass::{Listed, Pass, Stage, State};
use crate::render;
use crate::schedule::Scheduling;
use crate::target::Target;
use kiln_ir::program::Program;
use kiln_ir::spec::{self, KERNEL, PREPARED, Spec, lowering};
use kiln_ir::{Arg, UOp};

/// Tensor graph -> ordered kernels.
pub static SCHEDULE: Stage<Scheduling, ()> = Stage {
    name: "schedule",
    passes: &[
        Pass {
            name: "prepare",
            leaves: "no marks; updates only where they store to memory; narrow floats are summed in f32",
            run: |s, ()| s.prepare(),
            spec: |s, ()| prepared(&s.roots),
        },
        Pass {
            name: "shares",
            leaves: "the gradient of a strided convolution is one sum for each residue",
            run: |s, ()| s.residues(),
            spec: |s, ()| prepared(&s.roots),
        },
        Pass {
            name: "assign",
            leaves: "every value is recomputed where it is needed, or stored by one kernel; roots are stored",
            run: |s, ()| s.assign(),
            spec: |s, ()| s.check_plan(),
        },
        Pass {
            name: "build",
            leaves: "every kernel is a graph of stores over loops (KERNEL)",
            run: |s, ()| s.build(),
            spec: |s, ()| kernels(s),
        },
        Pass {
            name: "merge",
            leaves: "independent kernels over the same loops and inputs are one kernel (KERNEL)",
            run: |s, ()| s.merge(),
            spec: |s, ()| kernels(s),
        },
        Pass {
            name: "chain",
            leaves: "a kernel and the only reader of its rows are nests of one kernel, with scratch between (KERNEL)",
            run: |s, ()| s.chain(),
            spec: |s, ()| kernels(s),
        },
        Pass {
            name: "batch",
            leaves: "up to 16 small equal kernels are one launch (KERNEL)",
            run: |s, ()| s.batch(),
            spec: |s, ()| kernels(s),
        },
        Pass {
            name: "order",
            leaves: "every kernel runs once, after those whose results it reads",
            run: |s, ()| s.order(),
            spec: |s, ()| s.check_order(),
        },
        Pass {
            name: "memory",
            leaves: "every output and temporary has memory; kernels number their arguments (KERNEL)",
            run: |s, ()| s.memory(),
            spec: |s, ()| kernels(s),
        },
    ],
};

/// Kernel -> an equal kernel for a target, whose code may be so long.
pub static OPTIMIZE: Stage<Optimizing, (Target, Room)> = Stage {
    name: "optimize",
    passes: &[
        Pass {
            name: "collapse",
            leaves: "loops in the order of memory; neighbours that index memory like one are one (KERNEL)",
            run: |s, _| s.collapse(),
            spec: |s, _| verified(&KERNEL, &s.ast),
        },
        Pass {
            name: "choose",
            leaves: "a list of legal options",
            run: |s, (target, room)| s.choose(target, *room),
            spec: |s, _| legal(&s.ast, s.options.as_deref().unwrap_or(&[])),
        },
        Pass {
            name: "options",
            leaves: "loops are split, reordered, vectorized and shared by threads as the options say (KERNEL)",
            run: |s, _| s.apply(),
            spec: |s, _| verified(&KERNEL, &s.ast),
        },
        Pass {
            name: "name",
            leaves: "the kernel is named after its loops",
            run: |s, _| s.name(),
            spec: |s, _| named(&s.ast),
        },
        Pass {
            name: "trim",
            leaves: "loops run only iterations in which their predicates can be true (KERNEL)",
            run: |s, _| s.trim(),
            spec: |s, _| verified(&KERNEL, &s.ast),
        },
    ],
};

/// Kernel -> the ops that a target has, in order.
pub static LOWER: Stage<Lowering, Target> = Stage {
    name: "lower",
    passes: &[
        Pass {
            name: "mma",
            leaves: "matrix products are ops; other `Matrix` ranges are loops or lanes (NO_MATRICES)",
            run: |s, target| s.matrices(target),
            spec: |s, _| verified(&lowering::NO_MATRICES, &s.kernel),
        },
        Pass {
            name: "vector",
            leaves: "vector ranges are lanes of values (NO_VECTOR_RANGES)",
            run: |s, target| s.vectors(target),
            spec: |s, _| verified(&lowering::NO_VECTOR_RANGES, &s.kernel),
        },
        Pass {
            name: "expand",
            leaves: "unrolled ranges are written out; all others are loops (EXPANDED)",
            run: |s, _| s.expand(),
            spec: |s, _| verified(&lowering::EXPANDED, &s.kernel),
        },
        Pass {
            name: "reduce",
            leaves: "reductions are accumulators (NO_REDUCTIONS)",
            run: |s, target| s.reduce(target),
            spec: |s, _| verified(&lowering::NO_REDUCTIONS, &s.kernel),
        },
        Pass {
            name: "gate",
            leaves: "no predicate is constant (SIMPLE_GATES)",
            run: |s, _| s.gates(),
            spec: |s, _| verified(&lowering::SIMPLE_GATES, &s.kernel),
        },
        Pass {
            name: "estimate",
            leaves: "the operations and bytes of a launch are counted (SIMPLE_GATES)",
            run: |s, _| s.estimate(),
            spec: |s, _| verified(&lowering::SIMPLE_GATES, &s.kernel),
        },
        Pass {
            name: "adjacent",
            leaves: "stores of lanes, or of their sums, to neighbouring elements are vector stores (SIMPLE_GATES)",
            run: |s, _| s.adjacent(),
            spec: |s, _| verified(&lowering::SIMPLE_GATES, &s.kernel),
        },
        Pass {
            name: "dot",
            leaves: "every dot product of packed words has an instruction (SIMPLE_GATES)",
            run: |s, target| s.dot(target),
            spec: |s, _| verified(&lowering::SIMPLE_GATES, &s.kernel),
        },
        Pass {
            name: "decompose",
            leaves: "functions are polynomials; arithmetic on narrow floats is f32 (DECOMPOSED)",
            run: |s, target| s.decompose(target),
            spec: |s, _| verified(&lowering::DECOMPOSED, &s.kernel),
        },
        Pass {
            name: "stream",
            leaves: "outputs that are written by streaming stores are marked (DECOMPOSED)",
            run: |s, target| s.stream(target),
            spec: |s, _| verified(&lowering::DECOMPOSED, &s.kernel),
        },
        Pass {
            name: "index",
            leaves: "indices are i32 or i64 (INDEXED)",
            run: |s, _| s.index(),
            spec: |s, _| verified(&lowering::INDEXED, &s.kernel),
        },
        Pass {
            name: "linearize",
            leaves: "a list of ops in order, loops properly nested (PROGRAM)",
            run: |s, _| s.linearize(),
            spec: |s, _| program(&s.ops),
        },
        Pass {
            name: "prefetch",
            leaves: "prefetches of what is read later, beside loads (PROGRAM)",
            run: |s, target| s.prefetch(target),
            spec: |s, _| program(&s.ops),
        },
    ],
};

/// Program -> its text in the target's language.
pub static RENDER: Stage<Program, Target> = Stage {
    name: "render",
    passes: &[Pass {
        name: "render",
        leaves: "text for a compiler; none for a device that executes the list",
        run: |program, target| program.source = render::render(program, target),
        spec: |p, _| program(&p.ops),
    }],
};

/// All stages in words.
pub fn listed() -> [Listed; 4] {
    [SCHEDULE.listed(), OPTIMIZE.listed(), LOWER.listed(), RENDER.listed()]
}

fn verified(spec: &Spec, root: &UOp) -> Result<(), String> {
    spec::verify(spec, root).map_err(|broken| broken.to_string())
}

fn prepared(roots: &[UOp]) -> Result<(), String> {
    roots.iter().try_for_each(|root| verified(&PREPARED, root))
}

fn kernels(scheduling: &Scheduling) -> Result<(), String> {
    scheduling.kernels().iter().try_for_each(|kernel| verified(&KERNEL, kernel))
}

fn legal(kernel: &UOp, options: &[Opt]) -> Result<(), String> {
    verified(&KERNEL, kernel)?;
    optimize::check(kernel, options)
}

fn named(kernel: &UOp) -> Result<(), String> {
    verified(&KERNEL, kernel)?;
    match kernel.arg() {
        Arg::Kernel { name } if !name.is_empty() => Ok(()),
        _ => Err("the kernel has no name".to_string()),
    }
}

fn program(ops: &[UOp]) -> Result<(), String> {
    spec::verify_program(ops).map_err(|broken| broken.to_string())
}

fn spoiled(kernel: &UOp) -> UOp {
    UOp::kernel([kernel.clone(), spec::nonsense()], "")
}

impl State for Scheduling {
    fn graph(&self) -> Vec<UOp> {
        let kernels = self.kernels();
        if kernels.is_empty() { self.roots.clone() } else { kernels }
    }

    fn spoil(&mut self) {
        Scheduling::spoil(self);
    }
}

impl State for Optimizing {
    fn graph(&self) -> Vec<UOp> {
        vec![self.ast.clone()]
    }

    fn spoil(&mut self) {
        self.ast = spoiled(&self.ast);
    }
}

impl State for Lowering {
    fn graph(&self) -> Vec<UOp> {
        if self.ops.is_empty() { vec![self.kernel.clone()] } else { self.ops.clone() }
    }

    fn spoil(&mut self) {
        match self.ops.is_empty() {
            true => self.kernel = spoiled(&self.kernel),
            false => self.ops.push(spec::nonsense()),
        }
    }
}

impl State for Program {
    fn graph(&self) -> Vec<UOp> {
        self.ops.clone()
    }

    fn spoil(&mut self) {
        self.ops.push(spec::nonsense());
    }
}
