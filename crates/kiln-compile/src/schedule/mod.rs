//! Stage `schedule`: a tensor graph becomes ordered kernels.
//!
//! The stage goes from the roots to the leaves ("rangeify"). For each use of a value it records the kernel and the
//! index: an expression over the kernel's loop variables. A movement op only changes the index. A value is either computed
//! where it is needed (inlined), or stored by one kernel and loaded by the others. `cost` decides this, and every
//! decision is kept with its prices.

/// The result: ordered kernels, and the memory that they are called with.
mod scheduled;
/// How each update is computed: as a store, or as a select.
mod views;
mod writes;
/// Why kernels stay apart, as observers see it.
mod told;
/// Rewrites what only tensor graphs know (updates, notes) into plain values.
mod prepare;
/// One-hot sums become lookups.
mod one_hot;
/// Sums over the windows that cover an element.
mod shares;
/// Large reductions to few elements, in two steps.
mod split;
/// Sums of many products, a few at a time.
mod terms;
/// The index map of each movement op.
mod index;
/// What prices decide, to be decided again.
mod choices;
mod cones;
/// The cost model: recompute a value, or store it.
mod cost;
/// From the roots to the leaves: which kernel needs what, and the decisions.
mod assign;
/// Arithmetic of addresses, which stays in the kernels that need it.
mod addresses;
/// Sums that comparisons need to be the same in all kernels.
mod compared;
/// Values that are stored in the place of a sum.
mod epilogue;
/// Which products a kernel will tile.
mod tiles;
/// Passes a demand on to the sources of a node.
mod demand;
/// Indices that are data.
mod lookup;
/// Values that are stored before the memory that they are read from is overwritten.
mod hazard;
/// The order of axes in which temporaries lie in memory.
mod layout;
/// From the leaves to the roots: the expressions of each kernel.
mod build;
/// Horizontal fusion: independent kernels over the same loops become one.
mod merge;
/// Vertical fusion: a kernel and the only reader of its rows become one, with a row in scratch.
mod chain;
/// Small equal kernels become one launch.
mod batch;
/// Which outputs may be written over which inputs.
mod alias;
/// The order in which kernels run.
mod order;
/// Outputs, and one arena for temporaries.
mod memory;

pub use cost::own_time;
pub use memory::ARENA_ALIGN;
pub(crate) use memory::lay_out;
pub use scheduled::{BufferRef, Schedule, ScheduledKernel, Temp};

pub use choices::Choices;

use crate::target::{Strategy, Target};
use assign::{Placement, Plan};
use build::Built;
use kiln_ir::UOp;
use order::Order;

/// The values of a closed graph on their way to kernels: leaves are `Param`, `Var`, `Const` and `Iota`.
pub struct Scheduling {
    /// The values.
    pub roots: Vec<UOp>,
    target: Target,
    pub(crate) choices: Choices,
    plan: Option<Plan>,
    kernels: Vec<Built>,
    order: Option<Order>,
    /// The result, after the last pass.
    pub schedule: Option<Schedule>,
}

/// The passes, each a step of [`Scheduling`].
impl Scheduling {
    /// Before the first pass.
    pub fn of(roots: &[UOp], target: &Target, choices: Choices) -> Scheduling {
        Scheduling {
            target: target.clone(),
            choices,
            roots: roots.to_vec(),
            plan: None,
            kernels: Vec::new(),
            order: None,
            schedule: None,
        }
    }

    pub(crate) fn prepare(&mut self) {
        self.roots = prepare::prepare(&self.roots, &self.target.costs, &self.choices);
    }

    pub(crate) fn residues(&mut self) {
        let roots = std::mem::take(&mut self.roots);
        self.roots = shares::by_residue(roots, &self.target.costs, &self.choices);
    }

    pub(crate) fn assign(&mut self) {
        self.plan = Some(assign::assign(&self.roots, &self.target.costs, &self.choices));
    }

    pub(crate) fn build(&mut self) {
        self.kernels = build::build(self.plan());
    }

    pub(crate) fn merge(&mut self) {
        let kernels = std::mem::take(&mut self.kernels);
        self.kernels = merge::merge(&self.plan().nodes, kernels);
    }

    pub(crate) fn chain(&mut self) {
        // the rows between two nests would belong to one work-item
        if matches!(self.target.strategy, Strategy::Groups { .. }) {
            return;
        }
        let kernels = std::mem::take(&mut self.kernels);
        let plan = self.plan.as_mut().expect("assigned");
        self.kernels = chain::chain(plan, kernels, &self.target, &self.choices);
    }

    pub(crate) fn batch(&mut self) {
        let kernels = std::mem::take(&mut self.kernels);
        self.kernels = batch::batch(self.plan(), kernels, &self.target.costs, &self.choices);
    }

    pub(crate) fn order(&mut self) {
        self.order = Some(order::order(&self.kernels, self.plan(), &self.choices));
    }

    pub(crate) fn memory(&mut self) {
        let (plan, order) = (self.plan.take(), self.order.take());
        let kernels = std::mem::take(&mut self.kernels);
        let (plan, order) = (plan.expect("assigned"), order.expect("ordered"));
        self.schedule = Some(memory::finish(plan, kernels, &order, self.choices.reasons()));
    }

    fn plan(&self) -> &Plan {
        self.plan.as_ref().expect("assigned")
    }

    /// The kernels, once there are any. Those that store no elements are left out: they do not run.
    pub fn kernels(&self) -> Vec<UOp> {
        let has_work = |k: &&Built| k.has_work(self.plan());
        let kernel = |k: &Built| UOp::kernel(k.stores.clone(), "");
        match &self.schedule {
            Some(schedule) => schedule.kernels.iter().map(|k| k.ast.clone()).collect(),
            None => self.kernels.iter().filter(has_work).map(kernel).collect(),
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
