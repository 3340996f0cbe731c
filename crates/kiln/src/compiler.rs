//! What can be shown of the compiler.

/// A pass of the compiler: one step from a tensor graph to the text of its kernels.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pass {
    /// The stage that it belongs to: `schedule`, `optimize`, `lower` or `render`.
    pub stage: &'static str,
    /// Its name.
    pub name: &'static str,
    /// What holds after it. Specifications in capitals are checked after it where verification is on (`SPEC=1`).
    pub leaves: &'static str,
}

/// Every pass of every stage, in the order in which they run.
///
/// ```
/// let passes = kiln::passes();
/// assert_eq!((passes[0].stage, passes[0].name), ("schedule", "prepare"));
/// ```
pub fn passes() -> Vec<Pass> {
    let stages = kiln_compile::passes::listed();
    let passes = stages.iter().flat_map(|stage| {
        let pass = |&(name, leaves)| Pass { stage: stage.name, name, leaves };
        stage.passes.iter().map(pass)
    });
    passes.collect()
}
