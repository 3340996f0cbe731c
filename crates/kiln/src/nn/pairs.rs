//! Settings of layers over two axes: a number for each axis, or one for both.

/// Methods that set a pair of numbers of a layer, each at least so large. If an argument makes no pair, the layer's weight
/// carries the error.
macro_rules! pair_setters {
    ($layer:ident: $($(#[$doc:meta])+ $name:ident >= $least:literal;)*) => { $(
        $(#[$doc])+
        #[track_caller]
        pub fn $name(mut self, $name: impl PairArg) -> $layer {
            match pair(stringify!($name), $name, $least) {
                Ok(pair) => self.$name = pair,
                Err(fault) => self.weight = Tensor::broken(fault.at(stringify!($layer))),
            }
            self
        }
    )* };
}
pub(super) use pair_setters;
