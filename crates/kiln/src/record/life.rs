//! The lives of nodes. A node of one pass's graph becomes a node of the next one by rules; its life is the list of these
//! changes, forwards and backwards.
//!
//! A pass that rewrites is followed rule by rule: a node over normal sources, then what a rule made of it, and so on. Other
//! passes say nothing of single nodes. There a node is what has its label and its kept sources, or what stands in its place
//! below a node that is known.

use super::difference::Difference;
use super::parts::{Node, Record, Step};
use super::passes::{PassRun, passes};
use serde::Serialize;
use std::cell::OnceCell;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

/// So many changes of a node are told, and so many rules of one change.
const MOST_CHANGES: usize = 12;
const MOST_RULES: usize = 6;

/// What a node was in earlier passes, and what it becomes in later ones.
#[derive(Clone, Serialize, PartialEq, Debug)]
#[non_exhaustive]
pub struct Life {
    /// The last change first.
    pub comes_from: Vec<Change>,
    /// In order.
    pub becomes: Vec<Change>,
}

/// A pass changed a node.
#[derive(Clone, Serialize, PartialEq, Debug)]
#[non_exhaustive]
pub struct Change {
    /// The number of the pass's step.
    pub step: usize,
    /// How it changed.
    pub how: How,
    /// The numbers of the rewrites that did it, in order.
    pub rules: Vec<usize>,
    /// The node whose change it is.
    pub from: u32,
    /// The node that it becomes, or was; none if it is no more.
    pub to: Option<u32>,
    /// What a reader finds in its place, if it is no more.
    pub gone: Option<&'static str>,
}

/// How a pass changed a node.
#[derive(Clone, Copy, Serialize, PartialEq, Eq, Debug)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum How {
    /// Rules rewrote it.
    Rule,
    /// It is the same over new sources.
    Sources,
    /// Another node stands in its place.
    Place,
    /// It is no more.
    Gone,
    /// A rewrite made it, of that node.
    Made,
}

/// The lives of nodes in the steps of a schedule or a kernel.
pub struct Lives<'a> {
    passes: Vec<Pass<'a>>,
}

impl Record {
    /// The lives of nodes in the steps of a schedule or a kernel of this record.
    ///
    /// ```
    /// use kiln::{Tensor, record::Record};
    /// let path = std::env::temp_dir().join(format!("kiln-life-{}.viz", std::process::id()));
    /// kiln::record(&path, || (Tensor::arange(64) * 3).realize().map(drop))??;
    /// let record = Record::open(&path)?;
    /// let arange = record.nodes.iter().find(|n| n.op() == "iota").expect("of arange");
    /// let lives = record.lives(&record.schedules[0].steps);
    /// assert!(!lives.of(0, arange.id).becomes.is_empty());
    /// # std::fs::remove_file(path).expect("just written");
    /// # Ok::<(), kiln::Error>(())
    /// ```
    pub fn lives<'a>(&'a self, steps: &'a [Step]) -> Lives<'a> {
        let known = Rc::new(Contents::of(&self.nodes));
        let pass = |run| Pass::of(run, steps, Rc::clone(&known));
        Lives { passes: passes(steps).into_iter().map(pass).collect() }
    }
}

impl Lives<'_> {
    /// The life of a node in the graph of the pass at this step: forwards from that pass, and backwards.
    pub fn of(&self, at: usize, node: u32) -> Life {
        let later = self.passes.iter().filter(|pass| pass.run.step >= at);
        let earlier = self.passes.iter().filter(|pass| pass.run.step <= at).rev();
        Life {
            comes_from: followed(node, earlier, Pass::origin),
            becomes: followed(node, later, |pass, id| Some(pass.image(id))),
        }
    }
}

/// The changes of a node from pass to pass.
fn followed<'p, 'a: 'p>(
    mut id: u32,
    passes: impl Iterator<Item = &'p Pass<'a>>,
    next: impl Fn(&'p Pass<'a>, u32) -> Option<Is>,
) -> Vec<Change> {
    let mut changes = Vec::new();
    for pass in passes {
        let Some(is) = next(pass, id).filter(|is| is.to != Some(id)) else { continue };
        changes.push(Change {
            step: pass.run.step,
            how: is.how,
            rules: is.rules,
            from: id,
            to: is.to,
            gone: is.to.is_none().then(|| pass.fate(id)),
        });
        match is.to {
            Some(to) if changes.len() < MOST_CHANGES => id = to,
            _ => break,
        }
    }
    changes
}

/// What a node is on the other side of a pass.
#[derive(Clone)]
struct Is {
    to: Option<u32>,
    how: How,
    rules: Vec<usize>,
}

impl Is {
    fn place(to: u32, how: How) -> Is {
        Is { to: Some(to), how, rules: Vec::new() }
    }
}

/// Nodes by what they are.
struct Contents<'a> {
    nodes: &'a [Node],
    by: HashMap<(&'a str, &'a [usize], &'a [u32]), u32>,
}

impl<'a> Contents<'a> {
    fn of(nodes: &'a [Node]) -> Contents<'a> {
        let content = |n: &'a Node| ((&n.label[..], &n.shape[..], &n.sources[..]), n.id);
        Contents { nodes, by: nodes.iter().map(content).collect() }
    }

    /// The same node over these sources; none if the record has none.
    fn over(&self, id: u32, sources: &[u32]) -> Option<u32> {
        let node = self.nodes.get(id as usize)?;
        self.by.get(&(&node.label[..], &node.shape[..], sources)).copied()
    }

    fn op(&self, id: u32) -> &str {
        self.nodes.get(id as usize).map_or("", Node::op)
    }

    /// A record may be damaged, so that it names nodes that it does not have.
    fn sources(&self, id: u32) -> &'a [u32] {
        self.nodes.get(id as usize).map_or(&[], |node| &node.sources)
    }
}

/// A rewrite: its step, and the nodes before and after.
type Rewrite = (usize, u32, u32);

/// A pass, as a map from its graph before to its graph after.
struct Pass<'a> {
    run: PassRun<'a>,
    known: Rc<Contents<'a>>,
    rewrites: Vec<Rewrite>,
    opened: OnceCell<Opened>,
    origins: OnceCell<HashMap<u32, Is>>,
}

/// What a pass knows once somebody asks.
struct Opened {
    difference: Difference,
    before: HashSet<u32>,
    after: HashSet<u32>,
    normal: HashMap<u32, (Option<u32>, Vec<usize>)>,
    aligned: HashMap<u32, Is>,
}

impl<'a> Pass<'a> {
    fn of(run: PassRun<'a>, steps: &[Step], known: Rc<Contents<'a>>) -> Pass<'a> {
        let rewrite = |&step: &usize| match steps[step] {
            Step::Rewrite { before, after, .. } => Some((step, before, after)),
            _ => None,
        };
        let rewrites = run.inner.iter().filter_map(rewrite).collect();
        Pass { run, known, rewrites, opened: OnceCell::new(), origins: OnceCell::new() }
    }

    fn opened(&self) -> &Opened {
        self.opened.get_or_init(|| {
            let PassRun { before, after, .. } = self.run;
            let difference = Difference::between(self.known.nodes, before, after);
            let [old, now] = [&difference.before, &difference.after]
                .map(|ids| ids.iter().copied().collect::<HashSet<u32>>());
            let normal = self.normal(&difference.before);
            let aligned = self.aligned(&difference, &old, &now);
            Opened { difference, before: old, after: now, normal, aligned }
        })
    }

    /// What a node of the graph before is in the graph after.
    fn image(&self, id: u32) -> Is {
        let opened = self.opened();
        if opened.after.contains(&id) {
            return Is::place(id, How::Sources);
        }
        let (to, rules) = opened.normal.get(&id).cloned().unwrap_or_default();
        if let Some(to) = to.filter(|to| opened.after.contains(to)) {
            let how = if rules.is_empty() { How::Sources } else { How::Rule };
            return Is { to: Some(to), how, rules };
        }
        opened.aligned.get(&id).cloned().unwrap_or(Is { to: None, how: How::Gone, rules })
    }

    /// What a node of the graph after was. It may have been there before, or be the image of another node. Else a rule made
    /// it, and it was the node that the rule was given. None if nobody knows.
    fn origin(&self, id: u32) -> Option<Is> {
        let opened = self.opened();
        if !opened.after.contains(&id) {
            return None;
        }
        if opened.before.contains(&id) {
            return Some(Is::place(id, How::Sources));
        }
        let origins = self.origins.get_or_init(|| self.all_origins());
        origins.get(&id).cloned().or_else(|| self.maker(id))
    }

    fn all_origins(&self) -> HashMap<u32, Is> {
        let mut origins = HashMap::new();
        for &old in &self.opened().difference.before {
            let is = self.image(old);
            if let Some(to) = is.to.filter(|&to| to != old) {
                origins.entry(to).or_insert(Is { to: Some(old), ..is });
            }
        }
        origins
    }

    /// Kernels have loops and indices where tensor graphs have positions and views.
    fn fate(&self, id: u32) -> &'static str {
        let is_view = self.known.nodes.get(id as usize).is_some_and(Node::is_view);
        match (self.run.stage, self.known.op(id)) {
            ("schedule", "iota") => "the index in the loops of what reads it",
            ("schedule", _) if is_view => "a part of the indices at which its source is read",
            ("schedule", _) => "a part of the kernels that its line is computed in",
            _ => "nothing: it is no node any more",
        }
    }

    fn maker(&self, id: u32) -> Option<Is> {
        let uses = |node: u32| self.known.sources(node).contains(&id);
        let makes = |&&(_, before, after): &&Rewrite| after == id || (uses(after) && !uses(before));
        let &(step, before, _) = self.rewrites.iter().find(makes)?;
        Some(Is { to: Some(before), how: How::Made, rules: vec![step] })
    }

    /// The normal form of each node, as far as the record tells. Sources first, without recursion.
    fn normal(&self, roots: &[u32]) -> HashMap<u32, (Option<u32>, Vec<usize>)> {
        let mut rules: HashMap<u32, Rewrite> = HashMap::new();
        for &rewrite in &self.rewrites {
            rules.entry(rewrite.1).or_insert(rewrite);
        }
        let mut normal: HashMap<u32, (Option<u32>, Vec<usize>)> = HashMap::new();
        let (mut open, mut stack) = (HashSet::new(), roots.to_vec());
        while let Some(&id) = stack.last() {
            if normal.contains_key(&id) {
                stack.pop();
                continue;
            }
            open.insert(id);
            let is_missing = |s: &&u32| !normal.contains_key(s) && !open.contains(s);
            let missing: Vec<u32> =
                self.known.sources(id).iter().filter(is_missing).copied().collect();
            let over = self.over(id, &normal);
            let rewrite = over.and_then(|over| rules.get(&over)).copied();
            let next = rewrite.map(|rewrite| rewrite.2).filter(|after| is_missing(&after));
            match (missing.is_empty(), next) {
                (false, _) => stack.extend(missing),
                (true, Some(after)) => stack.push(after),
                (true, None) => {
                    let form = form(over, rewrite, &normal);
                    normal.insert(id, form);
                    stack.pop();
                }
            }
        }
        normal
    }

    /// The same node over normal sources.
    fn over(&self, id: u32, normal: &HashMap<u32, (Option<u32>, Vec<usize>)>) -> Option<u32> {
        let now = |&source: &u32| normal.get(&source).and_then(|form| form.0).unwrap_or(source);
        let sources = self.known.sources(id);
        let over: Vec<u32> = sources.iter().map(now).collect();
        if over == sources { Some(id) } else { self.known.over(id, &over) }
    }

    /// Nodes with their images by what is around them: twins, and what stands in the same place below.
    fn aligned(
        &self,
        difference: &Difference,
        before: &HashSet<u32>,
        after: &HashSet<u32>,
    ) -> HashMap<u32, Is> {
        let mut found: HashMap<u32, Is> = HashMap::new();
        let pair = |found: &mut HashMap<u32, Is>, old: u32, now: u32| {
            let now = self.scalar(old, now);
            if !after.contains(&old) && !before.contains(&now) {
                found.entry(old).or_insert(Is::place(now, How::Place));
            }
        };
        if self.run.before.len() == self.run.after.len() {
            let roots = self.run.before.iter().zip(self.run.after);
            roots.for_each(|(&old, &now)| pair(&mut found, old, now));
        }
        for (&now, &old) in &difference.twins {
            found.insert(old, Is::place(now, How::Sources));
        }
        for &old in difference.before.iter().rev() {
            let same = after.contains(&old).then_some(old);
            let Some(to) = same.or_else(|| found.get(&old)?.to) else { continue };
            if self.known.op(to) == self.known.op(old) {
                // an op over loops may have lost some of them, which come last
                let sources = self.known.sources(old).iter().zip(self.known.sources(to));
                sources.for_each(|(&old, &now)| pair(&mut found, old, now));
            }
        }
        found
    }

    /// A scalar that every lane gets is seen below the vector of it.
    fn scalar(&self, old: u32, now: u32) -> u32 {
        let is_splat = self.known.op(now) == "splat" && self.known.op(old) != "splat";
        self.known.sources(now).first().copied().filter(|_| is_splat).unwrap_or(now)
    }
}

/// What a node over normal sources is after the rule for it, if there is one, and the rules that follow.
fn form(
    over: Option<u32>,
    rewrite: Option<Rewrite>,
    normal: &HashMap<u32, (Option<u32>, Vec<usize>)>,
) -> (Option<u32>, Vec<usize>) {
    let Some((step, _, after)) = rewrite else { return (over, Vec::new()) };
    let (to, rest) = normal.get(&after).cloned().unwrap_or((Some(after), Vec::new()));
    let rules = std::iter::once(step).chain(rest).take(MOST_RULES).collect();
    (to, rules)
}
