//! The models against PyTorch.

mod models;
mod generating;
