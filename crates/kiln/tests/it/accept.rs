//! What people do with kiln, end to end: programs that mean what they say, input that makes no sense, many threads,
//! many processes.

mod meaning;
mod mistakes;
mod processes;
mod together;
