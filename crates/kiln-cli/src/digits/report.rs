//! What is said at the end: how well it went, what it took, and which digits were misread.

use super::data::{INK, Images, SIDE};
use super::train::Cost;
use crate::outcome::Outcome;
use kiln::Counts;
use std::io::Write;

/// How the network did.
pub(super) struct Report {
    /// The device and its compiler.
    pub(super) compiler: String,
    pub(super) cost: Cost,
    /// What each held-out image was taken for.
    pub(super) predicted: Vec<i32>,
    /// What it is.
    pub(super) labels: Vec<i32>,
}

/// What the whole run took.
pub(super) struct Total {
    pub(super) counts: Counts,
    pub(super) seconds: f64,
}

/// Misread digits that are drawn, side by side.
const DRAWN: usize = 5;
/// From blank to black, twice per pixel, since characters are twice as high as wide.
const SHADES: [&str; 5] = ["  ", "░░", "▒▒", "▓▓", "██"];

impl Report {
    fn misread(&self) -> Vec<usize> {
        (0..self.labels.len()).filter(|&i| self.labels[i] != self.predicted[i]).collect()
    }

    fn accuracy(&self) -> f64 {
        1.0 - self.misread().len() as f64 / self.labels.len() as f64
    }

    fn step_ms(&self) -> f64 {
        self.cost.step.map_or(0.0, |step| step.as_secs_f64() * 1e3)
    }

    /// For programs: one line.
    pub(super) fn json(&self, total: &Total) -> serde_json::Value {
        serde_json::json!({
            "accuracy": self.accuracy(),
            "kernels_per_step": self.cost.kernels,
            "step_ms": self.step_ms(),
            "compiled": total.counts.compiled,
            "compiler": self.compiler,
            "seconds": total.seconds,
        })
    }

    /// For people.
    pub(super) fn write(&self, out: &mut dyn Write, total: &Total, images: &Images) -> Outcome {
        let (misread, all) = (self.misread(), self.labels.len());
        let percent = 100.0 * self.accuracy();
        writeln!(
            out,
            "accuracy   {percent:.2} % ({} of {all} held-out digits)",
            all - misread.len()
        )?;
        if self.cost.step.is_some() {
            let (kernels, ms) = (self.cost.kernels, self.step_ms());
            writeln!(out, "step       {kernels} kernels, {ms:.2} ms")?;
        }
        let Counts { compiled, loaded, schedule_ns, compile_ns, .. } = total.counts;
        let seconds = (schedule_ns + compile_ns) as f64 / 1e9;
        let cached = if loaded > 0 { format!(", {loaded} from the cache") } else { String::new() };
        writeln!(out, "kernels    {compiled} compiled{cached}, {seconds:.2} s")?;
        writeln!(out, "device     {}", self.compiler)?;
        writeln!(out, "total      {:.2} s", total.seconds)?;
        self.draw(out, images, &misread[..misread.len().min(DRAWN)])
    }

    fn draw(&self, out: &mut dyn Write, images: &Images, chosen: &[usize]) -> Outcome {
        if chosen.is_empty() {
            return Ok(());
        }
        writeln!(out)?;
        for row in 0..SIDE {
            let lines = chosen.iter().map(|&i| line(&images.image(i)[row * SIDE..][..SIDE]));
            writeln!(out, "{}", lines.collect::<Vec<_>>().join("  ").trim_end())?;
        }
        let captions = chosen.iter().map(|&i| {
            let text = format!("a {}, read as {}", self.labels[i], self.predicted[i]);
            format!("{text:<width$}", width = 2 * SIDE)
        });
        writeln!(out, "{}", captions.collect::<Vec<_>>().join("  ").trim_end())?;
        Ok(())
    }
}

/// One row of pixels.
fn line(pixels: &[f32]) -> String {
    let last = SHADES.len() as f32 - 1.0;
    pixels.iter().map(|p| SHADES[(p / INK * last).round() as usize]).collect()
}
