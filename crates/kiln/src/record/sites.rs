//! What launches have in common. A step of a training loop launches the same kernels again, so their names and methods are
//! written once.

use super::line::{Line, hex};
use kiln_ir::observe::Event;
use rustc_hash::FxHashMap;

/// A kernel as one place of a program launches it.
#[derive(PartialEq, Eq)]
struct Site {
    name: String,
    device: String,
    work: (u64, u64),
    methods: Vec<&'static str>,
}

/// The sites so far, by the hash of the kernel, with their numbers. Layers of one shape share a kernel.
#[derive(Default)]
pub(super) struct Sites {
    known: FxHashMap<u128, Vec<(Site, u32)>>,
    count: u32,
}

impl Sites {
    /// The number of a launch's site, and its line if it is new.
    pub(super) fn number(&mut self, event: &Event<'_>) -> Option<(u32, Option<Line>)> {
        let Event::Launched { device, key, program, work, methods, .. } = *event else {
            return None;
        };
        let is_it = |site: &Site| {
            (&*site.name, &*site.device, site.work, &*site.methods)
                == (&*program.name, device, work, methods)
        };
        let known = self.known.entry(key).or_default();
        if let Some((_, number)) = known.iter().find(|(site, _)| is_it(site)) {
            return Some((*number, None));
        }
        let number = self.count;
        self.count += 1;
        let (name, device) = (program.name.to_string(), device.to_owned());
        let site = Site { name, device, work, methods: methods.to_vec() };
        let line = site.line(number, key);
        known.push((site, number));
        Some((number, Some(line)))
    }
}

impl Site {
    fn line(&self, site: u32, kernel: u128) -> Line {
        Line::Site {
            site,
            kernel: hex(kernel),
            name: self.name.clone(),
            device: self.device.clone(),
            work: self.work,
            methods: self.methods.iter().map(|&method| method.to_owned()).collect(),
        }
    }
}
