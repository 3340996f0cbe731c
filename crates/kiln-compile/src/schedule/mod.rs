//! Tensor graph -> ordered kernels.
//!
//! The walk goes from the roots to the leaves ("rangeify"): a value is asked for at an index, an expression over the
//! loop variables of the kernel that asks. Movement ops only change the index. Where a value is asked for, it is
//! either computed in place (inlined) or read from memory that another kernel fills; `cost` decides, and every
//! decision is kept with its reason.

/// The result: kernels, and the memory that they are called with.
mod scheduled;
/// Which updates write into memory.
mod writes;
/// Rewrites what only tensor graphs know (updates, notes) into plain values.
mod prepare;
/// Sums of which one term counts.
mod pick;
/// Sums over positions in windows.
mod shares;
/// Reductions to few elements, by way of blocks.
mod split;
/// Movement ops as functions on index tuples.
mod index;
/// The one cost model: inline, or a kernel and memory of its own.
mod cost;
/// From the roots down: who asks for what, where; the decisions.
mod assign;
/// What computing a value asks of its sources.
mod ask;
/// Positions that are data.
mod lookup;
/// Which values must be computed before memory that they read is overwritten.
mod hazard;
/// In which order the axes of temporaries lie in memory.
mod layout;
/// From the leaves up: the expressions of each kernel.
mod build;
/// Independent kernels over the same loops become one.
mod merge;
/// Kernels whose values only the next one reads become one, with rows of values in scratch.
mod chain;
/// Many small kernels that are alike become few.
mod batch;
/// Which outputs may be written over which inputs.
mod alias;
/// An order of kernels that respects what each reads.
mod order;
/// One arena for everything that lives only between kernels.
mod memory;

pub use memory::ARENA_ALIGN;
pub use scheduled::{BufferRef, Schedule, ScheduledKernel, Temp};

use crate::target::Target;
use assign::{Placement, Plan};
use build::Built;
use kiln_ir::UOp;
use order::Order;

/// The values of a closed graph on their way to kernels: leaves are `Param`, `Var`, `Const` and `Iota`.
pub struct Scheduling {
    /// The values.
    pub roots: Vec<UOp>,
    target: Target,
    plan: Option<Plan>,
    kernels: Vec<Built>,
    order: Option<Order>,
    /// From the last pass on.
    pub schedule: Option<Schedule>,
}

/// The passes, each a step of [`Scheduling`].
impl Scheduling {
    /// Before the first pass.
    pub fn of(roots: &[UOp], target: &Target) -> Scheduling {
        Scheduling {
            target: target.clone(),
            roots: roots.to_vec(),
            plan: None,
            kernels: Vec::new(),
            order: None,
            schedule: None,
        }
    }

    pub(crate) fn prepare(&mut self) {
        self.roots = prepare::prepare(&self.roots, &self.target.costs);
    }

    pub(crate) fn residues(&mut self) {
        self.roots = shares::by_residue(std::mem::take(&mut self.roots), &self.target.costs);
    }

    pub(crate) fn assign(&mut self) {
        self.plan = Some(assign::assign(&self.roots, &self.target.costs));
    }

    pub(crate) fn build(&mut self) {
        self.kernels = build::build(self.plan());
    }

    pub(crate) fn merge(&mut self) {
        self.kernels = merge::merge(std::mem::take(&mut self.kernels));
    }

    pub(crate) fn chain(&mut self) {
        let kernels = std::mem::take(&mut self.kernels);
        self.kernels = chain::chain(self.plan.as_mut().expect("assigned"), kernels, &self.target);
    }

    pub(crate) fn batch(&mut self) {
        let kernels = std::mem::take(&mut self.kernels);
        self.kernels = batch::batch(&self.plan().roots, kernels, &self.target.costs);
    }

    pub(crate) fn order(&mut self) {
        self.order = Some(order::order(&self.kernels, &self.plan().roots));
    }

    pub(crate) fn memory(&mut self) {
        let (plan, order) = (self.plan.take(), self.order.take());
        let kernels = std::mem::take(&mut self.kernels);
        let (plan, order) = (plan.expect("assigned"), order.expect("ordered"));
        self.schedule = Some(memory::finish(plan, kernels, &order));
    }

    fn plan(&self) -> &Plan {
        self.plan.as_ref().expect("assigned")
    }

    /// The kernels, as far as there are any; else none.
    pub fn kernels(&self) -> Vec<UOp> {
        match &self.schedule {
            Some(schedule) => schedule.kernels.iter().map(|k| k.ast.clone()).collect(),
            None => self.kernels.iter().map(|k| UOp::kernel(k.stores.clone(), "")).collect(),
        }
    }

    /// What is wrong with the plan: a root that has no memory, say.
    pub fn check_plan(&self) -> Result<(), String> {
        self.plan.as_ref().map_or(Ok(()), Plan::check)
    }

    /// What is wrong with the order.
    pub fn check_order(&self) -> Result<(), String> {
        self.order.as_ref().map_or(Ok(()), |order| order.check(&self.kernels))
    }

    /// Puts a store without operands into the first kernel, or makes the order or the first root nonsense.
    pub(crate) fn spoil(&mut self) {
        let nonsense = kiln_ir::spec::nonsense();
        if let Some(order) = &mut self.order {
            order.steps.pop();
        } else if let Some(schedule) = &mut self.schedule {
            schedule.kernels[0].ast = UOp::kernel([nonsense], "");
        } else if let Some(kernel) = self.kernels.first_mut() {
            kernel.stores.push(nonsense);
        } else if let Some(plan) = &mut self.plan {
            plan.placement.fill(Placement::Inline);
        } else {
            self.roots[0] = nonsense;
        }
    }
}
