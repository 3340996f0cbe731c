//! Recurrent layers: cells, which take one step, and stacks of them along a sequence.

use super::Module;
use crate::Tensor;
use cell::{Cell, Gates};
use stack::Stack;

/// Cells along a sequence.
mod stack;
/// Weights, and steps.
mod cell;

/// Divides what all gates have, side by side, among them.
type Parts<'a> = &'a dyn Fn(&Tensor) -> Vec<Tensor>;

macro_rules! cells {
    ($($(#[$doc:meta])+ $cell:ident $gates:literal $next:expr;)*) => { $(
        $(#[$doc])+
        #[derive(Module, Clone, Debug)]
        pub struct $cell {
            #[module(flatten)]
            gates: Gates,
        }

        impl $cell {
            /// With weights drawn as PyTorch draws them.
            ///
            /// ```
            #[doc = concat!("let cell = kiln::nn::", stringify!($cell), "::new(3, 4);")]
            /// ```
            #[track_caller]
            pub fn new(inputs: usize, hidden: usize) -> $cell {
                $cell { gates: Gates::new(inputs, hidden, $gates) }
            }
        }

        impl Cell for $cell {
            const GATES: usize = $gates;
            fn of(gates: Gates) -> $cell {
                $cell { gates }
            }
            fn gates(&self) -> &Gates {
                &self.gates
            }
            #[track_caller]
            fn next(&self, from_input: &Tensor, state: &[Tensor]) -> Vec<Tensor> {
                let parts = |gates: &Tensor| self.gates.parts(gates);
                $next(from_input, &self.gates.of_state(&state[0]), state, &parts)
            }
        }
    )* };
}

cells! {
    /// `tanh` of a linear function of input and state.
    ///
    /// ```
    /// use kiln::{Tensor, nn::RNNCell};
    /// let cell = RNNCell::new(3, 4);
    /// let h = cell.forward(&Tensor::ones([2, 3]), &Tensor::zeros([2, 4]));
    /// assert_eq!(h.shape(), [2, 4]);
    /// ```
    RNNCell 1 |x: &Tensor, h: &Tensor, _: &[Tensor], _| vec![(x + h).tanh()];
    /// A gated recurrent unit (Cho et al., 2014, arXiv:1406.1078).
    ///
    /// ```
    /// use kiln::{Tensor, nn::GRUCell};
    /// let cell = GRUCell::new(3, 4);
    /// let h = cell.forward(&Tensor::ones([2, 3]), &Tensor::zeros([2, 4]));
    /// assert_eq!(h.shape(), [2, 4]);
    /// ```
    GRUCell 3 |x: &Tensor, h: &Tensor, state: &[Tensor], parts: Parts<'_>| {
        let (x, h) = (parts(x), parts(h));
        let (reset, update) = ((&x[0] + &h[0]).sigmoid(), (&x[1] + &h[1]).sigmoid());
        let new = (&x[2] + reset * &h[2]).tanh();
        vec![&new + update * (&state[0] - &new)]
    };
    /// Long short-term memory (Hochreiter and Schmidhuber, 1997).
    ///
    /// ```
    /// use kiln::{Tensor, nn::LSTMCell};
    /// let cell = LSTMCell::new(3, 4);
    /// let zeros = Tensor::zeros([2, 4]);
    /// let (h, c) = cell.forward(&Tensor::ones([2, 3]), &zeros, &zeros);
    /// assert_eq!((h.shape(), c.shape()), (&[2, 4][..], &[2, 4][..]));
    /// ```
    LSTMCell 4 |x: &Tensor, h: &Tensor, state: &[Tensor], parts: Parts<'_>| {
        let gates = parts(&(x + h));
        let (input, forget, output) = (gates[0].sigmoid(), gates[1].sigmoid(), gates[3].sigmoid());
        let c = forget * &state[1] + input * gates[2].tanh();
        vec![output * c.tanh(), c]
    };
}

macro_rules! one_state {
    ($($cell:ident)*) => { $(
        impl $cell {
            /// The next state, `[batch, hidden]`, from an input, `[batch, inputs]`, and the state.
            ///
            /// ```
            /// use kiln::Tensor;
            #[doc = concat!("let cell = kiln::nn::", stringify!($cell), "::new(1, 2);")]
            /// let h = cell.forward(&Tensor::ones([1, 1]), &Tensor::zeros([1, 2]));
            /// ```
            ///
            /// # Errors
            /// Shapes that do not belong together.
            #[track_caller]
            pub fn forward(&self, x: &Tensor, h: &Tensor) -> Tensor {
                self.next(&self.gates.of_input(x), std::slice::from_ref(h)).swap_remove(0)
            }
        }
    )* };
}
one_state!(RNNCell GRUCell);

impl LSTMCell {
    /// The next output and memory, `[batch, hidden]`, from an input, `[batch, inputs]`, and the last two.
    ///
    /// ```
    /// use kiln::Tensor;
    /// let (cell, zeros) = (kiln::nn::LSTMCell::new(1, 2), Tensor::zeros([1, 2]));
    /// let (h, c) = cell.forward(&Tensor::ones([1, 1]), &zeros, &zeros);
    /// ```
    ///
    /// # Errors
    /// Shapes that do not belong together.
    #[track_caller]
    pub fn forward(&self, x: &Tensor, h: &Tensor, c: &Tensor) -> (Tensor, Tensor) {
        let mut next = self.next(&self.gates.of_input(x), &[h.clone(), c.clone()]);
        let c = next.swap_remove(1);
        (next.swap_remove(0), c)
    }
}

macro_rules! stacks {
    ($($(#[$doc:meta])+ $stack:ident of $cell:ident;)*) => { $(
        $(#[$doc])+
        #[derive(Module, Clone, Debug)]
        pub struct $stack {
            #[module(flatten)]
            stack: Stack<$cell>,
        }

        impl $stack {
            /// With one layer, and weights drawn as PyTorch draws them.
            ///
            /// ```
            #[doc = concat!("let layer = kiln::nn::", stringify!($stack), "::new(3, 4);")]
            /// ```
            #[track_caller]
            pub fn new(inputs: usize, hidden: usize) -> $stack {
                $stack::deep(inputs, hidden, 1)
            }

            /// With `layers` layers, of which each after the first takes the outputs of the one before.
            ///
            /// ```
            /// use kiln::nn::Module;
            #[doc = concat!("let layer = kiln::nn::", stringify!($stack), "::deep(3, 4, 2);")]
            /// assert!(layer.state_dict().contains_key("weight_ih_l1"));
            /// ```
            #[track_caller]
            pub fn deep(inputs: usize, hidden: usize, layers: usize) -> $stack {
                $stack { stack: Stack::new(inputs, hidden, layers, 1) }
            }

            /// With `layers` layers in both directions: outputs are twice as wide, those from the end beside those from
            /// the start, and there are two states of each layer.
            ///
            /// ```
            /// use kiln::nn::Module;
            #[doc = concat!("let layer = kiln::nn::", stringify!($stack), "::bidirectional(3, 4, 2);")]
            /// assert!(layer.state_dict().contains_key("weight_ih_l1_reverse"));
            /// ```
            #[track_caller]
            pub fn bidirectional(inputs: usize, hidden: usize, layers: usize) -> $stack {
                $stack { stack: Stack::new(inputs, hidden, layers, 2) }
            }

            /// The layers, of whose outputs elements are dropped with probability `p` in training, before the next layer
            /// takes them. The last layer's stay.
            ///
            /// ```
            #[doc = concat!("let layer = kiln::nn::", stringify!($stack), "::deep(3, 4, 2).dropout(0.1);")]
            /// ```
            pub fn dropout(mut self, p: f64) -> $stack {
                self.stack.dropout = p;
                self
            }
        }
    )* };
}

stacks! {
    /// [`RNNCell`]s along a sequence, `[length, batch, inputs]`.
    ///
    /// ```
    /// use kiln::{Tensor, nn::RNN};
    /// let (y, h) = RNN::new(3, 4).forward(&Tensor::ones([5, 2, 3]), None);
    /// assert_eq!((y.shape(), h.shape()), (&[5, 2, 4][..], &[1, 2, 4][..]));
    /// ```
    RNN of RNNCell;
    /// [`GRUCell`]s along a sequence, `[length, batch, inputs]`.
    ///
    /// ```
    /// use kiln::{Tensor, nn::GRU};
    /// let (y, h) = GRU::new(3, 4).forward(&Tensor::ones([5, 2, 3]), None);
    /// assert_eq!((y.shape(), h.shape()), (&[5, 2, 4][..], &[1, 2, 4][..]));
    /// ```
    GRU of GRUCell;
    /// [`LSTMCell`]s along a sequence, `[length, batch, inputs]`.
    ///
    /// ```
    /// use kiln::{Tensor, nn::LSTM};
    /// let (y, (h, c)) = LSTM::new(3, 4).forward(&Tensor::ones([5, 2, 3]), None);
    /// assert_eq!((y.shape(), h.shape(), c.shape()), (&[5, 2, 4][..], &[1, 2, 4][..], &[1, 2, 4][..]));
    /// ```
    LSTM of LSTMCell;
}

macro_rules! one_state_stacks {
    ($($stack:ident)*) => { $(
        impl $stack {
            /// The outputs, `[length, batch, hidden]`, and the last state of each layer, `[layers, batch, hidden]`, from
            /// the first, or from zeros.
            ///
            /// ```
            /// use kiln::Tensor;
            #[doc = concat!("let layer = kiln::nn::", stringify!($stack), "::new(1, 2);")]
            /// let (y, h) = layer.forward(&Tensor::ones([3, 1, 1]), None);
            /// let (more, h) = layer.forward(&Tensor::ones([3, 1, 1]), Some(&h));
            /// ```
            ///
            /// # Errors
            /// Shapes that do not belong together; a sequence of no length.
            #[track_caller]
            pub fn forward(&self, x: &Tensor, first: Option<&Tensor>) -> (Tensor, Tensor) {
                let first = first.cloned().unwrap_or_else(|| self.stack.zeros(x));
                match self.stack.run(x, &[first]) {
                    Ok((y, mut last)) => (y, last.swap_remove(0)),
                    Err(fault) => {
                        let broken = Tensor::broken(fault.at(stringify!($stack)));
                        (broken.clone(), broken)
                    }
                }
            }
        }
    )* };
}
one_state_stacks!(RNN GRU);

impl LSTM {
    /// The outputs, `[length, batch, hidden]`, and the last output and memory of each layer, `[layers, batch, hidden]`,
    /// from the first, or from zeros.
    ///
    /// ```
    /// use kiln::Tensor;
    /// let layer = kiln::nn::LSTM::new(1, 2);
    /// let (y, (h, c)) = layer.forward(&Tensor::ones([3, 1, 1]), None);
    /// let (more, _) = layer.forward(&Tensor::ones([3, 1, 1]), Some((&h, &c)));
    /// ```
    ///
    /// # Errors
    /// Shapes that do not belong together; a sequence of no length.
    #[track_caller]
    pub fn forward(
        &self,
        x: &Tensor,
        first: Option<(&Tensor, &Tensor)>,
    ) -> (Tensor, (Tensor, Tensor)) {
        let zeros = || self.stack.zeros(x);
        let (h, c) = first.map_or_else(|| (zeros(), zeros()), |(h, c)| (h.clone(), c.clone()));
        match self.stack.run(x, &[h, c]) {
            Ok((y, mut last)) => {
                let c = last.swap_remove(1);
                (y, (last.swap_remove(0), c))
            }
            Err(fault) => {
                let broken = Tensor::broken(fault.at("LSTM"));
                (broken.clone(), (broken.clone(), broken))
            }
        }
    }
}
