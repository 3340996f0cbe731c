//! Whether a general kernel runs, or one for the numbers of this run alone. Both are lowered, and their
//! instructions and cache lines are counted. The answer holds for all numbers of the same magnitudes, so a loop whose lengths grow asks seldom.

use super::device::Opened;
use super::env;
use super::generations::{Generations, locked};
use super::made::{Made, made, program};
use super::number::raw;
use kiln_compile::optimize;
use kiln_compile::target::Target;
use kiln_ir::program::Program;
use kiln_ir::{Const, DType, UOp};
use smallvec::SmallVec;
use std::sync::{Arc, LazyLock, Mutex};

/// A kernel that runs its loops more often than this in one launch gets code of its own at once. General code takes some tenths
/// longer, compiling about ten milliseconds: as much as such a launch loses (see `hot` for shorter ones).
pub(super) const MOST_ITERATIONS: u64 = 8_000_000_000;

/// About how much memory an answer takes.
const ENTRY: usize = 256;

/// A kernel, for whom it is compiled, and how.
type Which = (u128, Arc<Target>, Made);
/// How many bits each of its numbers has.
type Magnitudes = SmallVec<[u32; 4]>;

static ANSWERS: LazyLock<Mutex<Generations<(Which, Magnitudes), bool>>> =
    LazyLock::new(|| Mutex::new(Generations::new(env::cache_bytes() / 16)));
static PROGRAMS: LazyLock<Mutex<Generations<Which, Arc<Program>>>> =
    LazyLock::new(|| Mutex::new(Generations::new(env::cache_bytes() / 16)));

/// A general kernel with the numbers of a run.
pub(super) struct Candidate<'a> {
    pub(super) ast: &'a UOp,
    /// The number of its first scalar.
    pub(super) slot: usize,
    pub(super) numbers: &'a [(Const, DType)],
    /// How often its loops run.
    pub(super) iterations: u64,
}

impl Candidate<'_> {
    /// Whether it takes about as long as the exact kernel. Under `LENGTHS=2` every one does that does not run for long.
    pub(super) fn is_profitable(
        &self,
        exact: impl FnOnce() -> Option<UOp>,
        opened: &Opened,
    ) -> bool {
        match self.iterations {
            ..=MOST_ITERATIONS => {
                env::LENGTHS.get() > 1 || self.remembered_or_counted(exact, opened)
            }
            _ => false,
        }
    }

    fn remembered_or_counted(&self, exact: impl FnOnce() -> Option<UOp>, opened: &Opened) -> bool {
        let which = (self.ast.hash(), opened.target.clone(), made());
        let key = (which, self.magnitudes());
        if let Some(answer) = locked(&ANSWERS).get(&key) {
            return *answer;
        }
        let general = self.program(&key.0, opened);
        let exact = || program(&exact()?, opened).ok();
        let is_profitable = |general: Arc<Program>| {
            optimize::is_profitable(&opened.target, (&general, &self.vars()), exact)
        };
        // a kernel that cannot be lowered says so when it is compiled
        let answer = general.is_none_or(is_profitable);
        locked(&ANSWERS).insert(key, answer, ENTRY);
        answer
    }

    fn magnitudes(&self) -> Magnitudes {
        let bits = |n: Const| n.as_i128().map_or(0, |n| 128 - n.unsigned_abs().leading_zeros());
        self.numbers.iter().map(|(number, _)| bits(*number)).collect()
    }

    fn program(&self, which: &Which, opened: &Opened) -> Option<Arc<Program>> {
        if let Some(known) = locked(&PROGRAMS).get(which) {
            return Some(known.clone());
        }
        let program = Arc::new(program(self.ast, opened).ok()?);
        locked(&PROGRAMS).insert(which.clone(), program.clone(), program.size());
        Some(program)
    }

    /// The launch-time scalars, as far as lengths depend on them: not on those before its own.
    fn vars(&self) -> Vec<i64> {
        let before = std::iter::repeat_n(0, self.slot);
        let own = self.numbers.iter().map(|(number, dtype)| raw(*number, *dtype));
        before.chain(own).collect()
    }
}
