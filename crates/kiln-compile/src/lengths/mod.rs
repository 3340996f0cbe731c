//! Beside stages `schedule` and `optimize`: one schedule for graphs that differ in lengths.
//!
//! A loop that decodes text has the same graph at each step, but for one axis that is longer by one. Scheduling takes far
//! longer than running. So the stage runs for a few values of the length, far apart. For a value between them every number of
//! the schedule is interpolated: trip counts, strides, sizes of temporaries.
//!
//! The stage never ran for most lengths. Still the schedule is right for them: the stage sees a length through facts of three
//! kinds, and if such a fact holds at both ends of an interval, it holds inside.
//! - *Two numbers are equal, or one divides the other.* The upper end is a prime, and no fixed number of the graph is a
//!   multiple of it. So the fact is no accident there: it follows from how the numbers were computed. Two lengths have different
//!   primes.
//! - *A number is a multiple of a constant.* The ends are a prime apart. If a linear expression has a divisor at both ends, its
//!   coefficients have it.
//! - *A number is less than another.* An expression that is linear in each length is largest and smallest at ends.
//!
//! Of these facts some have the same consequence: two regions are apart if one ends before the other starts, or the other way
//! round. So such a consequence has its `Reason`, which must be the same at all ends.
//!
//! Every schedule must be the same but for numbers, and each number a polynomial with whole coefficients through all of them.
//! If one is not (it was rounded, or a price decided otherwise), there is no general schedule.

mod polynomial;

pub use polynomial::Grid;

use crate::optimize::{Counting, General, Skeleton, Work};
use crate::schedule::{BufferRef, Schedule, ScheduledKernel, Temp, lay_out};
use kiln_ir::{Const, DType, UOp};
use polynomial::Polynomial;
use rustc_hash::FxHashMap;
use std::ops::Range;

/// A schedule for all lengths between those of a grid.
#[derive(Clone, Debug)]
pub struct GeneralSchedule {
    grid: Grid,
    /// Each number that varies, once.
    polynomials: Vec<Polynomial>,
    /// Its kernels, in order.
    pub kernels: Vec<GeneralKernel>,
    outputs: Vec<BufferRef>,
    /// The temporaries, and their lengths.
    temps: Vec<(Temp, Number)>,
}

/// A kernel of a general schedule.
#[derive(Clone, Debug)]
pub struct GeneralKernel {
    /// The kernel and its arguments. If its numbers vary, it has launch-time scalars in their place, after its own.
    pub plan: ScheduledKernel,
    varying: Option<Varying>,
    /// The bytes from the first to the last that it stores in its first argument.
    stored: [Number; 2],
}

/// What differs between two lengths.
#[derive(Clone, Debug)]
struct Varying {
    skeleton: Skeleton,
    /// None if there is no kernel for all of them.
    general: Option<General>,
    numbers: Vec<Number>,
    counting: Counting,
}

/// A number of a schedule.
#[derive(Clone, Copy, Debug)]
enum Number {
    Fixed(Const),
    /// By position among the polynomials.
    Varies(usize),
}

/// A general schedule at one point.
#[derive(Clone, Debug)]
pub struct Instance {
    /// Temporaries and outputs. Its list of kernels is empty.
    pub schedule: Schedule,
    /// By kernel.
    pub kernels: Vec<KernelInstance>,
}

/// A kernel of a general schedule at one point.
#[derive(Clone, Debug)]
pub struct KernelInstance {
    /// The bytes from the first to the last that it stores in its first argument.
    pub stored: Range<usize>,
    /// What varies.
    pub varying: Option<VaryingInstance>,
}

/// The numbers of a kernel at one point.
#[derive(Clone, Debug)]
pub struct VaryingInstance {
    /// The values of its scalars. None if the kernel has none for these numbers.
    pub scalars: Option<Vec<(Const, DType)>>,
    /// What a launch does.
    pub work: Work,
    numbers: Vec<Const>,
}

impl GeneralSchedule {
    /// Through the schedules at all points of a grid, in order. The last schedule is at one more point, where the polynomials
    /// are tried: a number of a higher degree is found out there.
    pub fn through(
        grid: Grid,
        one_more: &[i64],
        schedules: &[Schedule],
    ) -> Option<GeneralSchedule> {
        let (first, others) = schedules.split_first()?;
        let one_more = grid.basis(one_more);
        let mut numbers = Numbers { grid: &grid, one_more: &one_more, known: FxHashMap::default() };
        if !others.iter().all(|other| first.is_alike(other)) {
            return None;
        }
        let kernels = 0..first.kernels.len();
        let kernels = kernels
            .map(|k| {
                let plans: Vec<_> = schedules.iter().map(|s| &s.kernels[k]).collect();
                GeneralKernel::through(&plans, &mut numbers)
            })
            .collect::<Option<_>>()?;
        let temp = |(t, temp): (usize, &Temp)| {
            let len = numbers.number(schedules.iter().map(|s| int(s.temps[t].len)))?;
            Some((*temp, len))
        };
        let temps = first.temps.iter().enumerate().map(temp).collect::<Option<_>>()?;
        let polynomials = numbers.in_order();
        Some(GeneralSchedule { grid, polynomials, kernels, outputs: first.outputs.clone(), temps })
    }

    /// The schedule at a point. None outside of the grid, or if a number is too large.
    pub fn at(&self, point: &[i64]) -> Option<Instance> {
        if !self.grid.holds(point) {
            return None;
        }
        let basis = self.grid.basis(point);
        let values = self.polynomials.iter().map(|p| p.at(&basis));
        let values: Vec<i64> = values.collect::<Option<_>>()?;
        let mut temps = Vec::with_capacity(self.temps.len());
        for (temp, len) in &self.temps {
            temps.push(Temp { len: len.count(&values)?, ..*temp });
        }
        let arena_bytes = lay_out(&mut temps);
        let outputs = self.outputs.clone();
        let schedule = Schedule { outputs, temps, arena_bytes, ..Schedule::default() };
        let kernels = self.kernels.iter().map(|k| k.at(&values)).collect::<Option<_>>()?;
        Some(Instance { schedule, kernels })
    }
}

impl GeneralKernel {
    fn through(plans: &[&ScheduledKernel], numbers: &mut Numbers<'_>) -> Option<GeneralKernel> {
        let stored = plans.iter().map(|p| p.stored_bytes()).collect::<Vec<_>>();
        let start = numbers.number(stored.iter().map(|s| int(s.start)))?;
        let stored = [start, numbers.number(stored.iter().map(|s| int(s.end)))?];
        let mut plan = plans[0].clone();
        if plans.iter().all(|p| p.ast == plan.ast) {
            return Some(GeneralKernel { plan, varying: None, stored });
        }
        let skeletons: Vec<Skeleton> = plans.iter().map(|p| Skeleton::of(&p.ast)).collect();
        let skeleton = skeletons[0].clone();
        if !skeletons.iter().all(|other| skeleton.is_like(other)) {
            return None;
        }
        let column = |use_: usize| skeletons.iter().map(move |s| s.numbers[use_]);
        let uses = 0..skeleton.numbers.len();
        let of_uses = uses.map(|u| numbers.number(column(u))).collect::<Option<_>>()?;
        let seen: Vec<Vec<Const>> = skeletons.iter().map(|s| s.numbers.clone()).collect();
        let general = General::of(&skeleton, &seen);
        if let Some(general) = &general {
            plan.ast = general.ast.clone();
            plan.vars.truncate(general.slot);
        }
        let counting = skeleton.counting();
        let varying = Some(Varying { skeleton, general, numbers: of_uses, counting });
        Some(GeneralKernel { plan, varying, stored })
    }

    fn at(&self, values: &[i64]) -> Option<KernelInstance> {
        let stored = self.stored[0].count(values)?..self.stored[1].count(values)?;
        let varying = self.varying.as_ref().map(|varying| varying.at(values));
        Some(KernelInstance { stored, varying })
    }

    /// The kernel for lengths near those of a point. None if the general kernel is for no others.
    pub fn near(&self, at: &VaryingInstance) -> Option<UOp> {
        let Varying { skeleton, general, .. } = self.varying.as_ref()?;
        let near = general.as_ref()?.near(skeleton, at.scalars.as_deref()?)?;
        Some(near.ast)
    }

    /// The kernel with the numbers of a point in it.
    pub fn exact(&self, at: &VaryingInstance) -> Option<UOp> {
        self.varying.as_ref()?.skeleton.with(&at.numbers)
    }
}

impl Varying {
    fn at(&self, values: &[i64]) -> VaryingInstance {
        let numbers: Vec<Const> = self.numbers.iter().map(|n| n.value(values)).collect();
        let scalars = self.general.as_ref().and_then(|general| general.fits(&numbers));
        VaryingInstance { scalars, work: self.counting.at(&numbers), numbers }
    }
}

impl Number {
    fn value(self, values: &[i64]) -> Const {
        match self {
            Number::Fixed(value) => value,
            Number::Varies(at) => Const::Int(values[at]),
        }
    }

    /// Of something that is counted.
    fn count(self, values: &[i64]) -> Option<usize> {
        self.value(values).as_i128()?.try_into().ok()
    }
}

/// The polynomials that are known so far.
struct Numbers<'a> {
    grid: &'a Grid,
    one_more: &'a [i128],
    known: FxHashMap<Polynomial, usize>,
}

impl Numbers<'_> {
    /// The number that has these values at the points of the grid and at one more, if there is one.
    fn number(&mut self, values: impl Iterator<Item = Const>) -> Option<Number> {
        let values: Vec<Const> = values.collect();
        if values.iter().all(|value| *value == values[0]) {
            return Some(Number::Fixed(values[0]));
        }
        let whole = |value: &Const| match value {
            Const::Int(n) => Some(*n),
            _ => None,
        };
        let values = values.iter().map(whole).collect::<Option<Vec<i64>>>()?;
        let next = self.known.len();
        let (last, values) = values.split_last()?;
        let polynomial = Polynomial::through(self.grid, values)?;
        if polynomial.at(self.one_more) != Some(*last) {
            return None;
        }
        Some(Number::Varies(*self.known.entry(polynomial).or_insert(next)))
    }

    fn in_order(self) -> Vec<Polynomial> {
        let mut all: Vec<_> = self.known.into_iter().collect();
        all.sort_unstable_by_key(|(_, at)| *at);
        all.into_iter().map(|(polynomial, _)| polynomial).collect()
    }
}

fn int(n: usize) -> Const {
    Const::Int(n as i64)
}

impl Schedule {
    /// Whether another one has the same kernels, but for their numbers.
    pub fn has_the_kernels_of(&self, other: &Schedule) -> bool {
        let mut kernels = self.kernels.iter().zip(&other.kernels);
        let same = |(a, b): (&ScheduledKernel, &ScheduledKernel)| {
            a.ast == b.ast || Skeleton::of(&a.ast).key == Skeleton::of(&b.ast).key
        };
        self.is_alike(other) && kernels.all(same)
    }

    /// Whether another one has the same kernels and temporaries, but for their numbers. The kernels themselves are not
    /// compared.
    fn is_alike(&self, other: &Schedule) -> bool {
        let kernel = |(a, b): (&ScheduledKernel, &ScheduledKernel)| {
            (&a.args, &a.vars, &a.may_alias, a.starts_from)
                == (&b.args, &b.vars, &b.may_alias, b.starts_from)
        };
        let temp = |(a, b): (&Temp, &Temp)| (a.dtype, a.used) == (b.dtype, b.used);
        (&self.outputs, &self.reasons) == (&other.outputs, &other.reasons)
            && (self.kernels.len(), self.temps.len()) == (other.kernels.len(), other.temps.len())
            && self.kernels.iter().zip(&other.kernels).all(kernel)
            && self.temps.iter().zip(&other.temps).all(temp)
    }
}
