//! What a graph may contain at each stage, and the verifier that passes are held to.

/// What must hold for a node to exist at all.
pub mod form;
