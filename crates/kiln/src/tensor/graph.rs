//! The lazy graph of a tensor, to look at.

use super::Tensor;
use crate::error::Error;
use kiln_ir::{UOp, text};
use std::fmt;

/// How deep a graph is shown unless more is asked for.
const DEPTH: usize = 32;

/// What a tensor is computed from, as text: [`Tensor::graph`].
#[derive(Clone, Debug)]
pub struct Graph {
    node: UOp,
    depth: usize,
}

impl Graph {
    /// The same, down to another depth. What is left out is shown as `..`.
    ///
    /// ```
    /// let x = kiln::Tensor::from([1.0f32, 2.0]);
    /// assert_eq!((&x + &x).graph()?.depth(0).to_string(), "  0 add f32 [2]  # add ..\n");
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[must_use]
    pub fn depth(self, depth: usize) -> Graph {
        Graph { depth, ..self }
    }
}

impl fmt::Display for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&text::tree(std::slice::from_ref(&self.node), self.depth))
    }
}

impl Tensor {
    /// The lazy graph of what the tensor holds now, for people: one node a line, each under its user, with its depth, its
    /// shape and the method that made it. What was computed before is a `buffer`. Computes nothing.
    ///
    /// ```
    /// let t = kiln::Tensor::arange(4).reshape([2, 2]).sum(0);
    /// let text = t.graph()?.to_string();
    /// assert!(text.starts_with("  0 reduce i32 add [0] [2]  # sum\n"), "{text}");
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// An error that the tensor carries.
    pub fn graph(&self) -> Result<Graph, Error> {
        Ok(Graph { node: self.value()?, depth: DEPTH })
    }
}
