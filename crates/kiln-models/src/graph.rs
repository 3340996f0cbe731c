//! A network over graphs: nodes tell their neighbours what they know (Gilmer et al., 2017, arXiv:1704.01212).

use kiln::Tensor;
use kiln::nn::{LayerNorm, Linear, Module};

/// A network over the nodes and edges of several graphs at once.
///
/// ```
/// use kiln::Tensor;
/// let net = kiln_models::GraphNet::new(4, 8, 2, 3);
/// let (nodes, from, to) = (Tensor::ones([5, 4]), Tensor::from([0, 1, 4]), Tensor::from([1, 2, 3]));
/// let graphs = Tensor::from([0, 0, 0, 1, 1]);
/// assert_eq!(net.forward(&nodes, [&from, &to], &graphs, 2).shape(), [2, 3]);
/// ```
#[derive(Module)]
pub struct GraphNet {
    first: Linear,
    layers: Vec<Layer>,
    last: Linear,
}

/// Messages along edges, added up where they arrive.
#[derive(Module)]
struct Layer {
    message1: Linear,
    message2: Linear,
    update: Linear,
    norm: LayerNorm,
}

impl Layer {
    fn new(width: usize) -> Layer {
        Layer {
            message1: Linear::new(2 * width, width),
            message2: Linear::new(width, width),
            update: Linear::new(2 * width, width),
            norm: LayerNorm::new([width]),
        }
    }

    #[track_caller]
    fn forward(&self, x: &Tensor, [from, to]: [&Tensor; 2]) -> Tensor {
        let ends = Tensor::cat([x.index_select(0, from), x.index_select(0, to)], 1);
        let messages = self.message2.forward(&self.message1.forward(&ends).relu());
        let heard = x.zeros_like().index_add(0, to, messages);
        let new = self.update.forward(&Tensor::cat([x, &heard], 1)).relu();
        self.norm.forward(&(x + new))
    }
}

impl GraphNet {
    /// With so many numbers for each node, `width` inside, so many rounds of messages, and classes of graphs.
    ///
    /// ```
    /// let net = kiln_models::GraphNet::new(4, 8, 1, 2);
    /// ```
    pub fn new(inputs: usize, width: usize, layers: usize, classes: usize) -> GraphNet {
        GraphNet {
            first: Linear::new(inputs, width),
            layers: (0..layers).map(|_| Layer::new(width)).collect(),
            last: Linear::new(width, classes),
        }
    }

    /// Logits, `[count, classes]`, of nodes `[nodes, inputs]`, the nodes at both ends of each edge, the graph that each node
    /// is in, and how many graphs there are.
    ///
    /// ```
    /// use kiln::Tensor;
    /// let (net, ends) = (kiln_models::GraphNet::new(4, 8, 1, 2), Tensor::from([0, 1]));
    /// let logits = net.forward(&Tensor::ones([2, 4]), [&ends, &ends], &Tensor::from([0, 0]), 1);
    /// ```
    ///
    /// # Errors
    /// Nodes or graphs that are not there; other shapes.
    #[track_caller]
    pub fn forward(
        &self,
        nodes: &Tensor,
        edges: [&Tensor; 2],
        graphs: &Tensor,
        count: usize,
    ) -> Tensor {
        let mut x = self.first.forward(nodes).relu();
        for layer in &self.layers {
            x = layer.forward(&x, edges);
        }
        let width = self.last.weight.shape()[1];
        let sums = Tensor::zeros_with([count, width], x.dtype()).index_add(0, graphs, x);
        self.last.forward(&sums)
    }
}
