//! Tests of kiln-ir through its public face.

mod rewrite;
mod text;
