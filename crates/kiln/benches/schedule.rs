//! How scheduling grows with a program: chains of operations with a sum of rows in between, of up to 200 000 nodes. Run with
//! `DEV=NULL cargo bench -p kiln --bench schedule`; on `NULL` no kernel is compiled or runs.
//!
//! Prints the time from the first line of the program to its graph, the time of the schedule, and that by node.
#![allow(clippy::print_stdout)]

use kiln::{Error, Tensor, measure};
use std::time::Instant;

fn main() -> Result<(), Error> {
    println!("| nodes | kernels | graph, ms | schedule, ms | us a node |\n|---|---|---|---|---|");
    for nodes in [12_500, 25_000, 50_000, 100_000, 200_000] {
        let start = Instant::now();
        let end = program(nodes);
        let graph = start.elapsed().as_secs_f64() * 1e3;
        let (done, counts) = measure(|| end.realize().map(drop));
        done?;
        let ns = counts.schedule_ns as f64;
        println!(
            "| {nodes} | {} | {graph:.0} | {:.0} | {:.1} |",
            counts.kernels,
            ns / 1e6,
            ns / 1e3 / nodes as f64
        );
    }
    Ok(())
}

/// Ten times a product and a sum with numbers, which are four nodes, then the difference from the sums of rows, times a
/// column, which are ten; and so on.
fn program(nodes: usize) -> Tensor {
    let (mut x, column) = (Tensor::ones([64, 64]), Tensor::full([64, 1], 0.5));
    for step in 0..nodes / 5 {
        x = x * (1.0 + step as f32 * 1e-6) + 0.25;
        if step % 10 == 9 {
            x = (&x - x.sum(1).reshape([64, 1])) * &column;
        }
    }
    x
}
