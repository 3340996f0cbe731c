//! Which public method made a node: text for people, outside the node's identity.
//!
//! Where a method hands over its result ([`name`]), the nodes that are new since get its name. A method that is made of
//! other public methods says so first ([`outermost`]): then what those make is its own.

use kiln_ir::uop::{Origin, name_lines};
use kiln_ir::{Op, UOp};
use smallvec::SmallVec;
use std::cell::Cell;
use std::panic::Location;
use std::sync::LazyLock;

thread_local! {
    /// The outermost method that runs on this thread and is made of others, and where it was called.
    static METHOD: Cell<Option<(Origin, &'static Location<'static>)>> = const { Cell::new(None) };
}

/// While it lives, new nodes are named after one method.
pub(crate) struct Method {
    is_outermost: bool,
}

/// Whether a variable of the process is set to something that shows lines.
fn is_asked(variable: &str) -> bool {
    std::env::var_os(variable).is_some_and(|value| !value.is_empty() && value != "0")
}

/// The folder of kiln's own source.
const OWN: &str = file!().split_at(file!().len() - "origin.rs".len()).0;

/// A method with the line of the program that called it. A line of kiln's own is nobody's.
#[track_caller]
fn at_line(method: &'static str) -> Origin {
    static ASKED: LazyLock<()> = LazyLock::new(|| {
        if ["DEBUG", "VIZ", "PROFILE", "GRAPH"].into_iter().any(is_asked) {
            name_lines();
        }
    });
    *ASKED;
    let line = Location::caller();
    if line.file().starts_with(OWN) { Origin::of(method) } else { Origin::at(method, line) }
}

/// Names what is made from here on after `method`, unless a method is running that calls it.
#[must_use]
#[track_caller]
pub(crate) fn outermost(method: &'static str) -> Method {
    let is_outermost = METHOD.get().is_none();
    if is_outermost {
        METHOD.set(Some((at_line(method), Location::caller())));
    }
    Method { is_outermost }
}

impl Drop for Method {
    fn drop(&mut self) {
        if self.is_outermost {
            METHOD.set(None);
        }
    }
}

/// The method that runs on this thread and is made of others.
pub(crate) fn running() -> Option<&'static str> {
    METHOD.get().and_then(|(origin, _)| origin.method())
}

/// Where that was called; without one, where this is.
#[track_caller]
pub(crate) fn caller() -> &'static Location<'static> {
    match METHOD.get() {
        Some((_, line)) => line,
        None => Location::caller(),
    }
}

/// The method that what `method` makes is named after.
#[track_caller]
pub(crate) fn maker(method: &'static str) -> Origin {
    match METHOD.get() {
        Some((outermost, _)) => outermost,
        None => at_line(method),
    }
}

/// Names `result`, and the nodes under it that have no name. It ends at nodes that have one: their makers went on from
/// there, so that a node is passed once in its life and once for each that uses it.
#[track_caller]
pub(crate) fn name(result: &UOp, method: &'static str) {
    name_after(result, maker(method));
}

/// The same, after a maker.
pub(crate) fn name_after(result: &UOp, maker: Origin) {
    let is_new = |node: &UOp| !node.has_origin() && !is_leaf(node);
    let mut stack: SmallVec<[&UOp; 16]> = SmallVec::new();
    if is_new(result) {
        stack.push(result);
    }
    while let Some(node) = stack.pop() {
        node.set_origin(maker);
        for src in node.srcs() {
            if is_new(src) && !is_spread_constant(src) {
                stack.push(src);
            }
        }
    }
}

/// The last methods that made a view, latest first.
#[derive(Clone, Copy, Default)]
pub(crate) struct Viewers([Option<Origin>; 3]);

impl Viewers {
    /// With one more.
    #[track_caller]
    pub(crate) fn and(self, method: &'static str) -> Viewers {
        let [a, b, _] = self.0;
        Viewers([Some(maker(method)), a, b])
    }

    /// Names the moves of a view, outermost first: a method is one move, as a rule. Neighbours that became one move
    /// have one name, and the method before the last three is not remembered.
    pub(crate) fn name(self, value: &UOp) {
        let mut makers = self.0.into_iter().flatten();
        let Some(mut maker) = makers.next() else { return };
        let mut node = value;
        while node.op().is_movement() && !node.has_origin() {
            node.set_origin(maker);
            maker = makers.next().unwrap_or(maker);
            node = node.src(0);
        }
    }
}

/// Data and numbers were made by nobody.
fn is_leaf(node: &UOp) -> bool {
    matches!(node.op(), Op::Const | Op::Buffer)
}

/// A number in every element is the same node for everybody who spreads it.
fn is_spread_constant(node: &UOp) -> bool {
    node.op().is_movement() && node.src(0).op() == Op::Const
}
