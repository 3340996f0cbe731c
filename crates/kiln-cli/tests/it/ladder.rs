//! Which compiler the command uses, by environment.

use crate::run::{Folder, kiln};

const LEAST: &str = "digits --limit 4 --batch 4 --epochs 1 --losses --json";

/// The compiler that is used, and the one loss.
fn uses(home: &Folder, env: &[(&str, &str)]) -> (String, f32) {
    let said = kiln(home, LEAST, env);
    let compiler = said.json()["compiler"].as_str().unwrap().to_owned();
    let loss = said.losses()[0].split(' ').nth(1).unwrap().parse().unwrap();
    (compiler, loss)
}

#[test]
fn every_rung_trains() {
    let home = Folder::new();
    let hidden = [("KILN_LLVM", "none"), ("KILN_CC", "none")];
    let rungs: [(&[(&str, &str)], &str); 6] = [
        (&[], "CPU:LLVM, LLVM"),
        (&hidden[1..], "CPU:LLVM, LLVM"),
        (&[("DEV", "CPU:LLVM")], "CPU:LLVM, LLVM"),
        (&hidden[..1], "CPU:C, /"),
        (&hidden, "INTERP, "),
        (&[("DEV", "interp")], "INTERP, "),
    ];
    let mut losses = Vec::new();
    for (env, wanted) in rungs {
        let (compiler, loss) = uses(&home, env);
        assert!(compiler.starts_with(wanted), "{env:?} uses {compiler}, not {wanted}");
        losses.push(loss);
    }
    // before any training, on the same numbers: rungs differ in the order of sums at most
    assert!(losses.iter().all(|l| (l - losses[0]).abs() < 1e-4), "{losses:?}");
}

#[test]
fn a_device_that_is_not_there_is_an_error() {
    let home = Folder::new();
    kiln(&home, LEAST, &[("DEV", "GPU9")]).fails_with("no device \"GPU9\": there are CPU, ");
    kiln(&home, LEAST, &[("DEV", "!?")]).fails_with("no device \"!?\"");
    let hidden = [("DEV", "CPU:LLVM"), ("KILN_LLVM", "none")];
    kiln(&home, LEAST, &hidden).fails_with("KILN_LLVM=none");
}
