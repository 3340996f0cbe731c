//! Places for the boxes of a graph without cycles: in layers, so that every edge goes down.

use super::kind::BoxKind;

/// A graph: boxes, and edges from box to box with a text.
#[derive(Default)]
pub(super) struct Drawing {
    pub(super) boxes: Vec<Boxed>,
    pub(super) edges: Vec<(usize, usize, String)>,
}

/// A box with lines of text.
pub(super) struct Boxed {
    pub(super) kind: BoxKind,
    pub(super) lines: Vec<String>,
}

/// How often layers are ordered anew by the places of their neighbours.
const SWEEPS: usize = 4;

impl Drawing {
    /// The boxes by layer, each layer from left to right. Sources come first; edges go from a lower number to a higher.
    pub(super) fn layers(&self) -> Vec<Vec<usize>> {
        let mut layer = vec![0; self.boxes.len()];
        let mut edges: Vec<(usize, usize)> = self.edges.iter().map(|e| (e.0, e.1)).collect();
        edges.sort_unstable();
        edges.iter().for_each(|&(from, to)| layer[to] = layer[to].max(layer[from] + 1));
        let mut layers = vec![Vec::new(); layer.iter().max().map_or(0, |last| last + 1)];
        layer.iter().enumerate().for_each(|(node, &at)| layers[at].push(node));
        let (mut above, mut below) = (vec![Vec::new(); layer.len()], vec![Vec::new(); layer.len()]);
        for (from, to) in edges {
            above[to].push(from);
            below[from].push(to);
        }
        for sweep in 0..SWEEPS {
            let neighbours = if sweep % 2 == 0 { &above } else { &below };
            order(&mut layers, neighbours, sweep % 2 == 0);
        }
        layers
    }
}

/// Orders each layer by the mean place of its neighbours, downwards or upwards: fewer edges cross.
fn order(layers: &mut [Vec<usize>], neighbours: &[Vec<usize>], is_down: bool) {
    let mut place = vec![0.0; neighbours.len()];
    let set = |place: &mut Vec<f64>, layer: &[usize]| {
        let middle = layer.len() as f64 / 2.0;
        layer.iter().enumerate().for_each(|(at, &node)| place[node] = at as f64 - middle);
    };
    layers.iter().for_each(|layer| set(&mut place, layer));
    let count = layers.len();
    for step in 0..count {
        let layer = &mut layers[if is_down { step } else { count - 1 - step }];
        let mean = |node: usize| match &neighbours[node][..] {
            [] => place[node],
            others => others.iter().map(|&o| place[o]).sum::<f64>() / others.len() as f64,
        };
        let mut keyed: Vec<(f64, usize)> = layer.iter().map(|&n| (mean(n), n)).collect();
        keyed.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        *layer = keyed.into_iter().map(|(_, node)| node).collect();
        set(&mut place, layer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edges_go_down_and_do_not_cross_where_they_need_not() {
        let boxes =
            (0..6).map(|i| Boxed { kind: BoxKind::Math, lines: vec![format!("{i}")] }).collect();
        let edges = [(0, 3), (1, 2), (2, 4), (3, 5), (0, 5)];
        let edges = edges.map(|(from, to)| (from, to, String::new())).to_vec();
        let layers = Drawing { boxes, edges }.layers();
        assert_eq!(layers, [vec![0, 1], vec![3, 2], vec![5, 4]]);
    }
}
