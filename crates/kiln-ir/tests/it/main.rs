//! Integration tests of kiln-ir, one binary.
