//! `kiln digits`: what it prints, repeats, keeps and refuses.

use crate::run::{Folder, cut_short, kiln};

const FEW: &str = "digits --limit 32 --batch 16 --epochs 2 --losses";

/// One cache serves most of it, since compiling is most of the time.
#[test]
fn runs_repeat_to_the_last_bit_and_compile_nothing_twice() {
    let home = Folder::new();
    let first = kiln(&home, &format!("{FEW} --json"), &[]);
    let json = first.json();
    let keys = ["accuracy", "compiled", "compiler", "kernels_per_step", "seconds", "step_ms"];
    assert!(json.as_object().unwrap().keys().eq(keys), "{json}");
    assert!(json["compiled"].as_u64().unwrap() > 0 && json["kernels_per_step"].as_u64() > Some(0));
    assert!(json["step_ms"].as_f64() > Some(0.0) && json["accuracy"].as_f64() <= Some(1.0));
    assert_eq!(first.losses().len(), 4);

    let second = kiln(&home, FEW, &[]);
    assert!(second.ok && second.out.contains(" 0 compiled"), "{}{}", second.out, second.err);
    assert!(
        second.out.contains("accuracy ") && second.out.contains(", read as "),
        "{}",
        second.out
    );
    assert_eq!(second.losses(), first.losses());
    assert!(second.err.is_empty(), "{}", second.err);

    let other = kiln(&home, &format!("{FEW} --seed 2"), &[("KILN_THREADS", "1")]);
    assert_ne!(other.losses(), first.losses());

    let debug = kiln(&home, &format!("{FEW} --json"), &[("DEBUG", "2")]);
    debug.json();
    assert!(debug.err.contains("*** CPU") && debug.err.contains("GFLOPS"), "{}", debug.err);
}

#[test]
fn weights_come_back_from_a_file() {
    let home = Folder::new();
    let saved = kiln(&home, &format!("{FEW} --lr 0.01 --json --save w.safetensors"), &[]);
    let loaded = kiln(&home, "digits --limit 32 --json --load w.safetensors", &[]);
    assert_eq!(loaded.json()["accuracy"], saved.json()["accuracy"]);
    assert_eq!(loaded.json()["kernels_per_step"], 0);
    let more = kiln(&home, &format!("{FEW} --load w.safetensors"), &[]);
    let first_loss = |said: &crate::run::Said| -> f32 {
        said.losses()[0].split(' ').nth(1).unwrap().parse().unwrap()
    };
    assert!(first_loss(&more) < first_loss(&saved), "training goes on");

    cut_short(&home.path("w.safetensors"));
    kiln(&home, "digits --load w.safetensors", &[]).fails_with("cannot load w.safetensors");
    std::fs::write(home.path("junk"), [0xff; 64]).unwrap();
    kiln(&home, "digits --load junk", &[]).fails_with("cannot load junk");
}

#[test]
fn what_cannot_work_is_said_before_training() {
    let home = Folder::new();
    kiln(&home, "digits --save no/such/folder.safetensors", &[])
        .fails_with("cannot save to no/such");
    kiln(&home, "digits --save .", &[]).fails_with("cannot save to .");
    kiln(&home, "digits --load missing", &[]).fails_with("cannot load missing");
    assert!(!kiln(&home, "digits --batch 0", &[]).ok);
}

/// Half a percent is one digit of those that are held out.
#[test]
fn narrow_products_learn_as_much() {
    let home = Folder::new();
    let accuracy = |precision: &str| {
        let said = kiln(&home, &format!("digits --epochs 10 --json --precision {precision}"), &[]);
        said.json()["accuracy"].as_f64().unwrap()
    };
    let full = accuracy("f32");
    assert!(full > 0.97, "{full}");
    for precision in ["f16", "bf16"] {
        let narrow = accuracy(precision);
        assert!(narrow >= full - 0.005, "{precision}: {narrow}, f32: {full}");
    }
    assert!(!kiln(&home, "digits --precision f64", &[]).ok);
}
