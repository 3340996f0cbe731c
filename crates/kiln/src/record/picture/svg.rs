//! A graph as SVG.

use super::kind::BoxKind;
use super::layout::{Boxed, Drawing};
use std::fmt::Write;

/// Sizes in pixels: of a character, of a line, and of the space around boxes.
const CHARACTER: f64 = 6.7;
const LINE: f64 = 14.0;
const PADDING: f64 = 8.0;
const GAP: (f64, f64) = (18.0, 46.0);

/// A box of more characters a line is cut.
const MOST_CHARACTERS: usize = 60;

/// A placed box: its left upper corner and its size.
#[derive(Clone, Copy, Default)]
struct Placed {
    x: f64,
    y: f64,
    width: f64,
    height: f64,
}

/// Text without characters that mean something in XML, or that it may not have.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out += "&amp;",
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '"' => out += "&quot;",
            '\'' => out += "&#39;",
            c if c.is_control() || ('\u{fffe}'..='\u{ffff}').contains(&c) => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

fn cut(line: &str) -> String {
    match line.chars().count() > MOST_CHARACTERS {
        true => line.chars().take(MOST_CHARACTERS - 2).chain("..".chars()).collect(),
        false => line.to_owned(),
    }
}

/// The whole picture.
pub(super) fn svg(drawing: &Drawing) -> String {
    let (places, width, height) = places(drawing);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" \
         viewBox=\"0 0 {width:.0} {height:.0}\" font-family=\"monospace\" font-size=\"11\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    );
    for (from, to, text) in &drawing.edges {
        edge(&mut out, places[*from], places[*to], text);
    }
    for (each, place) in drawing.boxes.iter().zip(places) {
        boxed(&mut out, each, place);
    }
    legend(&mut out, drawing);
    out + "</svg>\n"
}

/// The height of the legend, above everything else.
const LEGEND: f64 = 3.0 * LINE;

/// What lines and edges say.
const LEGEND_TEXT: &str = "A box: what it is; its shape; the method that made it, with the line that called it. \
    An edge goes from a value to what reads it.";

/// The legend: a box of each color in the drawing, and a sentence about lines and edges.
fn legend(out: &mut String, drawing: &Drawing) {
    let mut kinds: Vec<BoxKind> = Vec::new();
    for each in &drawing.boxes {
        if !kinds.contains(&each.kind) {
            kinds.push(each.kind);
        }
    }
    writeln!(out, "<text x=\"{PADDING}\" y=\"{LINE}\" fill=\"#666\">{LEGEND_TEXT}</text>")
        .expect("write to a string");
    let mut x = PADDING;
    for kind in kinds {
        let place = Placed { x, y: 1.5 * LINE, width: width(kind.name()), height: LINE + PADDING };
        boxed(out, &Boxed { kind, lines: vec![kind.name().to_owned()] }, place);
        x += place.width + PADDING;
    }
}

/// The width of a box with this line.
fn width(line: &str) -> f64 {
    line.chars().count() as f64 * CHARACTER + 2.0 * PADDING
}

/// Where each box is, and the size of all.
fn places(drawing: &Drawing) -> (Vec<Placed>, f64, f64) {
    let layers = drawing.layers();
    let mut places: Vec<Placed> = drawing.boxes.iter().map(|each| sized(&each.lines)).collect();
    let row = |places: &[Placed], layer: &[usize]| {
        layer.iter().map(|&node| places[node].width + GAP.0).sum::<f64>() + GAP.0
    };
    let widest = layers.iter().map(|layer| row(&places, layer)).fold(0.0, f64::max);
    let width = widest.max(width(LEGEND_TEXT));
    let mut y = LEGEND + GAP.0;
    for layer in &layers {
        let mut x = (width - row(&places, layer)) / 2.0 + GAP.0;
        for &node in layer {
            (places[node].x, places[node].y) = (x, y);
            x += places[node].width + GAP.0;
        }
        y += layer.iter().map(|&node| places[node].height).fold(0.0, f64::max) + GAP.1;
    }
    (places, width, y)
}

fn sized(lines: &[String]) -> Placed {
    let width = lines.iter().map(|line| width(&cut(line))).fold(0.0, f64::max);
    Placed { width, height: lines.len() as f64 * LINE + PADDING, ..Placed::default() }
}

fn edge(out: &mut String, from: Placed, to: Placed, text: &str) {
    let (x1, y1) = (from.x + from.width / 2.0, from.y + from.height);
    let (x2, y2) = (to.x + to.width / 2.0, to.y);
    let middle = (y1 + y2) / 2.0;
    writeln!(
        out,
        "<path d=\"M{x1:.0} {y1:.0} C{x1:.0} {middle:.0} {x2:.0} {middle:.0} {x2:.0} {y2:.0}\" \
         fill=\"none\" stroke=\"#888\"/>"
    )
    .expect("write to a string");
    if !text.is_empty() {
        let (x, text) = ((x1 + x2) / 2.0, escaped(text));
        writeln!(out, "<text x=\"{x:.0}\" y=\"{middle:.0}\" fill=\"#36c\">{text}</text>")
            .expect("write to a string");
    }
}

fn boxed(out: &mut String, Boxed { kind, lines }: &Boxed, place: Placed) {
    let Placed { x, y, width, height } = place;
    let (fill, stroke) = kind.colors();
    writeln!(
        out,
        "<g><title>{}</title><rect x=\"{x:.0}\" y=\"{y:.0}\" width=\"{width:.0}\" \
         height=\"{height:.0}\" rx=\"4\" fill=\"{fill}\" stroke=\"{stroke}\"/>",
        escaped(&lines.join("\n").replace('\n', " | "))
    )
    .expect("write to a string");
    for (at, line) in lines.iter().enumerate() {
        let (x, y) = (x + PADDING, y + LINE * (at + 1) as f64 - 1.0);
        writeln!(out, "<text x=\"{x:.0}\" y=\"{y:.0}\">{}</text>", escaped(&cut(line)))
            .expect("write to a string");
    }
    *out += "</g>\n";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_text_and_not_markup() {
        let boxed = |line: &str| Boxed { kind: BoxKind::Math, lines: vec![line.to_owned()] };
        let boxes = vec![boxed("<script>alert('&')</script>\u{1}"), boxed("b")];
        let text = svg(&Drawing { boxes, edges: vec![(0, 1, "\"<b>\"".to_owned())] });
        assert!(!text.contains("<script") && !text.contains("<b>") && !text.contains('\u{1}'));
        assert!(text.contains("&lt;script&gt;alert(&#39;&amp;&#39;)&lt;/script&gt;"));
        assert!(text.starts_with("<svg") && text.ends_with("</svg>\n"));
        // the page, two boxes, and the color that they have
        assert_eq!(text.matches("<rect").count(), 4);
        assert!(text.contains(">arithmetic</text>") && !text.contains(">a view</text>"), "{text}");
    }
}
