//! The methods of tensors against PyTorch: values, gradients and errors, as `testdata/golden/methods.py` writes them.
//! Each subject has a file of cases there and a file of calls here.

mod activations;
mod attention;
mod basics;
mod calls;
mod check;
mod creation;
mod elementwise;
mod expressions;
mod linalg;
mod losses;
mod more;
mod movement;
mod products;
mod reductions;
mod sampling;
mod windows;

use std::collections::BTreeMap;

/// A test for each subject, of so many cases at least.
macro_rules! subjects {
    ($($subject:ident $least:literal;)*) => { $(
        #[test]
        fn $subject() {
            let packed = include_bytes!(concat!(
                "../../../../../../testdata/golden/methods/",
                stringify!($subject),
                ".json.gz"
            ));
            check::check(packed, $least, $subject::call);
        }
    )*

        /// By method, the fewest and the most kernels of its first cases.
        pub(crate) fn kernels() -> BTreeMap<String, (u64, u64)> {
            let mut all = BTreeMap::new();
            $( check::count(
                include_bytes!(concat!(
                    "../../../../../../testdata/golden/methods/",
                    stringify!($subject),
                    ".json.gz"
                )),
                $subject::call,
                &mut all,
            ); )*
            all
        }

        /// How a subject calls its methods.
        fn call_of(subject: &str) -> Option<check::Call> {
            match subject {
                "basics" => Some(basics::call),
                $(stringify!($subject) => Some($subject::call),)*
                _ => None,
            }
        }
    };
}

subjects! {
    activations 460;
    attention 50;
    creation 480;
    elementwise 600;
    expressions 1000;
    linalg 220;
    losses 1200;
    more 280;
    movement 850;
    products 460;
    reductions 1530;
    sampling 150;
    windows 440;
}
