//! A graph as SVG.

use super::layout::Drawing;
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
    for (lines, place) in drawing.boxes.iter().zip(places) {
        boxed(&mut out, lines, place);
    }
    out + "</svg>\n"
}

/// Where each box is, and the size of all.
fn places(drawing: &Drawing) -> (Vec<Placed>, f64, f64) {
    let layers = drawing.layers();
    let mut places: Vec<Placed> = drawing.boxes.iter().map(|lines| sized(lines)).collect();
    let row = |places: &[Placed], layer: &[usize]| {
        layer.iter().map(|&node| places[node].width + GAP.0).sum::<f64>() + GAP.0
    };
    let width = layers.iter().map(|layer| row(&places, layer)).fold(0.0, f64::max);
    let mut y = GAP.0;
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
    let longest = lines.iter().map(|line| cut(line).chars().count()).max().unwrap_or(1);
    let width = longest as f64 * CHARACTER + 2.0 * PADDING;
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

fn boxed(out: &mut String, lines: &[String], place: Placed) {
    let Placed { x, y, width, height } = place;
    writeln!(
        out,
        "<g><title>{}</title><rect x=\"{x:.0}\" y=\"{y:.0}\" width=\"{width:.0}\" \
         height=\"{height:.0}\" rx=\"4\" fill=\"#f4f4ff\" stroke=\"#669\"/>",
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
        let boxes = vec![vec!["<script>alert('&')</script>\u{1}".to_owned()], vec!["b".into()]];
        let text = svg(&Drawing { boxes, edges: vec![(0, 1, "\"<b>\"".to_owned())] });
        assert!(!text.contains("<script") && !text.contains("<b>") && !text.contains('\u{1}'));
        assert!(text.contains("&lt;script&gt;alert(&#39;&amp;&#39;)&lt;/script&gt;"));
        assert!(text.starts_with("<svg") && text.ends_with("</svg>\n"));
        assert_eq!(text.matches("<rect").count(), 3);
    }
}
