//! Runs work of the host on all of its processors.

use super::measure::{helping, include, whose};
use crate::scoped;
use kiln_ir::observe::{self, Kind};
use std::iter::{from_fn, once};
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread::{Builder, available_parallelism, scope};

/// What `work` makes of the items, in their order. After an error no other item is begun.
pub(super) fn in_parallel<T: Sync, R: Send, E: Send>(
    items: &[T],
    work: impl Fn(&T) -> Result<R, E> + Sync,
) -> Result<Vec<R>, E> {
    let next = &AtomicUsize::new(0);
    let one = |at: usize| match work(&items[at]) {
        Ok(made) => Ok((at, made)),
        Err(error) => {
            next.store(items.len(), Relaxed);
            Err(error)
        }
    };
    let some = || {
        let places = from_fn(|| Some(next.fetch_add(1, Relaxed)).filter(|at| *at < items.len()));
        places.map(one).collect::<Result<Vec<_>, E>>()
    };
    let mut all = on_threads(items.len(), some)?;
    all.sort_by_key(|(at, _)| *at);
    Ok(all.into_iter().map(|(_, made)| made).collect())
}

/// All that calls of `some` make on so many threads, or as many as there are processors. A thread that the system refuses
/// is one that does not help. This thread's observer sees what the others do. Passes and decisions make sense in their order
/// only, so this thread does all that somebody follows step by step.
fn on_threads<R: Send, E: Send>(
    most: usize,
    some: impl Fn() -> Result<Vec<R>, E> + Sync,
) -> Result<Vec<R>, E> {
    let is_followed = observe::is_wanted(Kind::Steps) || observe::is_wanted(Kind::Decisions);
    let processors = || available_parallelism().map_or(1, |n| n.get());
    let threads = if is_followed { 1 } else { processors().min(most) };
    let observer = observe::own();
    let own = scoped::own();
    let whose = whose();
    let observed = || {
        let observed = || observe::with(observer.clone(), &some);
        helping(&whose, || scoped::within(own.clone(), observed))
    };
    scope(|scope| {
        let spawn = |_| Builder::new().spawn_scoped(scope, observed).ok();
        let others: Vec<_> = (1..threads).filter_map(spawn).collect();
        let mine = some();
        let joined = others.into_iter().map(|o| {
            let (made, counts) = o.join().unwrap_or_else(|p| resume_unwind(p));
            include(counts);
            made
        });
        let parts = once(mine).chain(joined).collect::<Result<Vec<_>, E>>()?;
        Ok(parts.into_iter().flatten().collect())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use kiln_ir::observe::{Decision, Event, Observer};
    use std::convert::Infallible;
    use std::panic::catch_unwind;
    use std::sync::atomic::AtomicBool;
    use std::sync::{Arc, Mutex};
    use std::thread::{current, sleep, yield_now};
    use std::time::Duration;

    #[test]
    fn what_is_made_has_the_order_of_the_items() {
        let items: Vec<usize> = (0..1000).collect();
        let Ok(made) = in_parallel(&items, |n| Ok::<_, Infallible>(n + 1));
        assert!(made.into_iter().eq(1..1001));
        assert_eq!(in_parallel(&[0; 0], |n| Err::<(), _>(*n)), Ok(vec![]));
    }

    #[test]
    fn an_error_is_the_result() {
        let items: Vec<usize> = (0..1000).collect();
        let tried = |n: &usize| if *n == 300 { Err(*n) } else { Ok(*n) };
        assert_eq!(in_parallel(&items, tried), Err(300));
    }

    /// Keeps what events of a kind are about.
    struct Seen(Kind, Mutex<Vec<String>>);

    impl Observer for Seen {
        fn see(&self, event: &Event<'_>) {
            let about = match event {
                Event::Decision(decision) => &decision.about,
                Event::Freed { device, .. } => *device,
                _ => unreachable!("nothing else happens"),
            };
            self.1.lock().expect("no panic").push(about.to_owned());
        }

        fn wants(&self, kind: Kind) -> bool {
            kind == self.0
        }
    }

    fn seen(kind: Kind, work: impl Fn(&usize) + Sync) -> Vec<String> {
        let seen = Arc::new(Seen(kind, Mutex::default()));
        let items: Vec<usize> = (0..1000).collect();
        let work = |n: &usize| {
            work(n);
            Ok::<(), Infallible>(())
        };
        let Ok(_) = observe::with(Some(seen.clone()), || in_parallel(&items, work));
        let Ok(_) = in_parallel(&items, work);
        std::mem::take(&mut seen.1.lock().expect("no panic"))
    }

    #[test]
    fn an_observer_sees_all_threads() {
        let free = |_: &usize| observe::see(&Event::Freed { device: "a test", block: 0 });
        assert_eq!(seen(Kind::Runs, free), vec!["a test"; 1000]);
    }

    #[test]
    fn decisions_are_seen_in_order() {
        let decide = |n: &usize| {
            // another thread would be faster
            sleep(Duration::from_millis(if *n == 0 { 20 } else { 0 }));
            observe::decision(|| Decision {
                about: n.to_string(),
                node: None,
                alternatives: vec![("this".into(), None)],
                unit: "us",
                chosen: 0,
                note: String::new(),
            });
        };
        let all: Vec<String> = (0..1000).map(|n| n.to_string()).collect();
        assert_eq!(seen(Kind::Decisions, decide), all);
    }

    /// Whichever thread it was.
    #[test]
    fn panics_go_on() {
        let (caller, other) = (current().id(), AtomicBool::new(false));
        let work = |_: &usize| match current().id() == caller {
            true if available_parallelism().is_ok_and(|n| n.get() > 1) => {
                while !other.load(Relaxed) {
                    yield_now();
                }
                Ok::<_, Infallible>(())
            }
            _ => {
                other.store(true, Relaxed);
                panic!("here")
            }
        };
        let panic = catch_unwind(std::panic::AssertUnwindSafe(|| in_parallel(&[0, 1], work)));
        assert_eq!(panic.err().and_then(|p| p.downcast_ref().copied()), Some("here"));
    }
}
