//! A learning rate that follows what is measured.

/// A rate that falls when what is measured, such as a loss, gets no less for a while. PyTorch's `ReduceLROnPlateau`.
///
/// ```
/// use kiln::optim::ReduceLROnPlateau;
/// let mut schedule = ReduceLROnPlateau::new(0.1).patience(1).factor(0.5);
/// let rates: Vec<f64> = [3.0, 2.0, 2.0, 2.0].map(|loss| schedule.lr(loss)).into();
/// assert_eq!(rates, [0.1, 0.1, 0.1, 0.05]);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct ReduceLROnPlateau {
    lr: f64,
    factor: f64,
    patience: u64,
    cooldown: u64,
    threshold: f64,
    least: f64,
    rises: bool,
    best: Option<f64>,
    bad: u64,
    cooling: u64,
}

/// Changes of the rate below this are none.
const LEAST_CHANGE: f64 = 1e-8;

macro_rules! setters {
    ($($(#[$doc:meta])+ $name:ident $field:ident: $type:ty = $example:expr;)*) => { $(
        $(#[$doc])+
        ///
        /// ```
        #[doc = concat!("let schedule = kiln::optim::ReduceLROnPlateau::new(0.1).", stringify!($name), "(", stringify!($example), ");")]
        /// ```
        pub fn $name(self, $name: $type) -> ReduceLROnPlateau {
            ReduceLROnPlateau { $field: $name, ..self }
        }
    )* };
}

impl ReduceLROnPlateau {
    /// A tenth of the rate after 10 measurements that are not less than the least by a 10000th of it.
    ///
    /// ```
    /// let schedule = kiln::optim::ReduceLROnPlateau::new(0.1);
    /// ```
    pub fn new(lr: f64) -> ReduceLROnPlateau {
        ReduceLROnPlateau {
            lr,
            factor: 0.1,
            patience: 10,
            cooldown: 0,
            threshold: 1e-4,
            least: 0.0,
            rises: false,
            best: None,
            bad: 0,
            cooling: 0,
        }
    }

    setters! {
        /// With another factor.
        factor factor: f64 = 0.5;
        /// With another number of measurements that may be bad in a row.
        patience patience: u64 = 3;
        /// With measurements after a fall that do not count.
        cooldown cooldown: u64 = 2;
        /// With another part of the best by which a measurement must be better.
        threshold threshold: f64 = 1e-3;
        /// With a least rate.
        min_lr least: f64 = 1e-5;
        /// Whether more is better, as of an accuracy.
        rising rises: bool = true;
    }

    /// The rate after one more measurement. NaN is a bad one.
    ///
    /// ```
    /// assert_eq!(kiln::optim::ReduceLROnPlateau::new(0.1).lr(2.5), 0.1);
    /// ```
    pub fn lr(&mut self, measured: f64) -> f64 {
        if self.is_better(measured) {
            (self.best, self.bad) = (Some(measured), 0);
        } else {
            self.bad += 1;
        }
        if self.cooling > 0 {
            (self.cooling, self.bad) = (self.cooling - 1, 0);
        }
        if self.bad > self.patience {
            (self.cooling, self.bad) = (self.cooldown, 0);
            self.reduce();
        }
        self.lr
    }

    fn is_better(&self, measured: f64) -> bool {
        match (self.best, self.rises) {
            (None, _) => !measured.is_nan(),
            (Some(best), false) => measured < best * (1.0 - self.threshold),
            (Some(best), true) => measured > best * (1.0 + self.threshold),
        }
    }

    fn reduce(&mut self) {
        let new = (self.lr * self.factor).max(self.least);
        if self.lr - new > LEAST_CHANGE {
            self.lr = new;
        }
    }
}
