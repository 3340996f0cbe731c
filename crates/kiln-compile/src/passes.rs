//! Every pass of every stage, in order: the page to read first. `kiln passes` prints it.
//!
//! ```text
//! values of a tensor graph --schedule--> kernels --optimize--> kernels --lower--> lists of ops --render--> text
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
            leaves: "no notes; updates only where they write into memory; sums of narrow floats are wide",
            run: |s, ()| s.prepare(),
            spec: |s, ()| prepared(&s.roots),
        },
        Pass {
            name: "shares",
            leaves: "gradients of strided windows are one sum for each residue",
            run: |s, ()| s.residues(),
            spec: |s, ()| prepared(&s.roots),
        },
        Pass {
            name: "assign",
            leaves: "every value is computed where it is used, or stored by one kernel; roots are stored",
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
            leaves: "independent kernels over the same loops and inputs are one (KERNEL)",
            run: |s, ()| s.merge(),
            spec: |s, ()| kernels(s),
        },
        Pass {
            name: "chain",
            leaves: "a kernel and the only reader of its rows are one, with scratch between them (KERNEL)",
            run: |s, ()| s.chain(),
            spec: |s, ()| kernels(s),
        },
        Pass {
            name: "batch",
            leaves: "small kernels that are alike are one for up to 16 (KERNEL)",
            run: |s, ()| s.batch(),
            spec: |s, ()| kernels(s),
        },
        Pass {
            name: "order",
            leaves: "every kernel runs once, after those that it reads from",
            run: |s, ()| s.order(),
            spec: |s, ()| s.check_order(),
        },
        Pass {
            name: "memory",
            leaves: "outputs and temporaries have their places; kernels are numbered graphs (KERNEL)",
            run: |s, ()| s.memory(),
            spec: |s, ()| kernels(s),
        },
    ],
};

/// Kernel -> an equal kernel for a target, within some room for its text.
pub static OPTIMIZE: Stage<Optimizing, (Target, Room)> = Stage {
    name: "optimize",
    passes: &[
        Pass {
            name: "collapse",
            leaves: "loops in the order of memory; neighbours that count like one are one (KERNEL)",
            run: |s, _| s.collapse(),
            spec: |s, _| verified(&KERNEL, &s.ast),
        },
        Pass {
            name: "choose",
            leaves: "options that are legal",
            run: |s, (target, room)| s.choose(target, *room),
            spec: |s, _| legal(&s.ast, s.options.as_deref().unwrap_or(&[])),
        },
        Pass {
            name: "options",
            leaves: "loops are split, reordered and bound as the options say (KERNEL)",
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
            leaves: "loops start and end where their conditions begin and cease to hold (KERNEL)",
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
            leaves: "products of matrices are ops, other sides of matrices loops or lanes (NO_MATRICES)",
            run: |s, target| s.matrices(target),
            spec: |s, _| verified(&lowering::NO_MATRICES, &s.kernel),
        },
        Pass {
            name: "vector",
            leaves: "lanes are values of several scalars (NO_VECTOR_RANGES)",
            run: |s, target| s.vectors(target),
            spec: |s, _| verified(&lowering::NO_VECTOR_RANGES, &s.kernel),
        },
        Pass {
            name: "expand",
            leaves: "what is unrolled is written out: all ranges are loops (EXPANDED)",
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
            leaves: "operations and bytes of a launch are counted (SIMPLE_GATES)",
            run: |s, _| s.estimate(),
            spec: |s, _| verified(&lowering::SIMPLE_GATES, &s.kernel),
        },
        Pass {
            name: "adjacent",
            leaves: "lanes that are stored side by side are stored at once (SIMPLE_GATES)",
            run: |s, _| s.adjacent(),
            spec: |s, _| verified(&lowering::SIMPLE_GATES, &s.kernel),
        },
        Pass {
            name: "dot",
            leaves: "every dot product of packed numbers has an instruction (SIMPLE_GATES)",
            run: |s, target| s.dot(target),
            spec: |s, _| verified(&lowering::SIMPLE_GATES, &s.kernel),
        },
        Pass {
            name: "decompose",
            leaves: "functions are polynomials, narrow floats wide ones (DECOMPOSED)",
            run: |s, target| s.decompose(target),
            spec: |s, _| verified(&lowering::DECOMPOSED, &s.kernel),
        },
        Pass {
            name: "stream",
            leaves: "outputs that are written past the caches are known (DECOMPOSED)",
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
            leaves: "loads of rows that are read again say what is fetched meanwhile (PROGRAM)",
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
