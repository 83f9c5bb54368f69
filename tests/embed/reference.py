#!/usr/bin/env python3
"""Computes what tests/embed/tokens.json and vectors.json contain: the tokens by Hugging Face's tokenizers and the vectors
by numpy, in double precision, from the same files as Warren uses. Run by hand; needs numpy and tokenizers from PyPI.

    reference.py MODEL-FOLDER
"""
import json
import math
import pathlib
import struct
import sys

import numpy
import tokenizers

HERE = pathlib.Path(__file__).parent
TEXTS = [
    "A warren is where rabbits live.",
    "Rabbits dig burrows that are connected under the ground.",
    "The filesystem keeps every file of an agent in one SQLite database.",
    "def add(a, b):\n    return a + b\n",
    "Wie spät ist es in Zürich? Ein Café öffnet früh.",
    "東京は日本の首都です。 서울은 대한민국의 수도이다.",
    "",
    "How do I mount an agent's files?",
    "x" * 101 + " is one unknown word, and 1,234.56 € is a price (about $1,300).",
    "Every sentence of this paragraph says nearly the same, so that it is long. " * 30,
]
CASES = TEXTS + [
    "   ", "\t\n\r", "a", "A B\tC\nD\re", "unaffable embeddings tokenization", "x" * 100, "x" * 101, "é" * 100, "é" * 101,
    "ab\u0000cd\ufffdef", "zero\u200bwidth\u00adsoft\u2060joiner", "no\u00a0break\u3000wide\u2003em\u1680ogham",
    "line\u2028sep\u2029par\u0085nel\u000bvt\u000cff", "ÀÉÎÕÜ àéîõü ÇÑ çñ ÅØÆŒß ŁĐ", "e\u0301 a\u030a o\u0308\u0323 \u0301alone",
    "İstanbul ısı IŞIK", "ΑΒΓ Οδυσσεύς ΣΑΣ", "ПРИВЕТ мир ёлка Й", "\u1e9e\u0130\u0132\u01c5\u2126\u212a\u212b",
    "한국어 조선 값 각", "中文測試，漢字。豈更\uf900\ufa0e 𠀀𪜀", "日本語カタカナ ガギグ ﾊﾝｶｸ", "हिन्दी में कोई ক্ত தமிழ் கொ",
    "שלום עוֹלָם", "مرحبا بالعالم العَرَبِيَّة", "ไทย ภาษา", "emoji 😀👍🏽 👩‍👩‍👧 ☃️ ™ ©", "a=b+c; ~x^y|z`<>$", "«quoted» “curly” ‘x’ — … • · ¿qué? ¡sí!",
    "don't can't it's O'Neil e-mail re-use co_op a.b.c", "http://example.com/a?b=c&d=%20#e", "[CLS] [SEP] [UNK] [MASK] [PAD] ##ing",
    "3.14159 1e10 0x7f 1,000,000 ½ ² ① Ⅷ", "fiﬁ ﬂ ﬀ", "≠ ≤ ∉ \u226e \u1fef \u037e \u0387 ;", "tab\tin the middle of words",
    "A" * 50 + "b" * 60, "supercalifragilisticexpialidocious antidisestablishmentarianism", "word " * 300, "!" * 300, "漢" * 300,
]


def load_weights(path):
    data = path.read_bytes()
    length = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8 : 8 + length])
    weights = {}
    for name, entry in header.items():
        if name == "__metadata__" or entry["dtype"] != "F32":
            continue
        begin, end = (8 + length + offset for offset in entry["data_offsets"])
        weights[name] = numpy.frombuffer(data[begin:end], "<f4").reshape(entry["shape"]).astype(numpy.float64)
    return weights


def layer_norm(x, weights, name, epsilon):
    x = x - x.mean(-1, keepdims=True)
    x = x / numpy.sqrt((x * x).mean(-1, keepdims=True) + epsilon)
    return x * weights[name + ".weight"] + weights[name + ".bias"]


def embed(ids, weights, config):
    def linear(x, name):
        return x @ weights[name + ".weight"].T + weights[name + ".bias"]

    heads, epsilon = config["num_attention_heads"], config["layer_norm_eps"]
    count = len(ids)
    x = (weights["embeddings.word_embeddings.weight"][ids] + weights["embeddings.position_embeddings.weight"][:count]
         + weights["embeddings.token_type_embeddings.weight"][0])
    x = layer_norm(x, weights, "embeddings.LayerNorm", epsilon)
    erf = numpy.vectorize(math.erf)
    for layer in range(config["num_hidden_layers"]):
        name = f"encoder.layer.{layer}."
        query, key, value = (linear(x, f"{name}attention.self.{part}").reshape(count, heads, -1).transpose(1, 0, 2)
                             for part in ("query", "key", "value"))
        scores = query @ key.transpose(0, 2, 1) / math.sqrt(query.shape[-1])
        scores = numpy.exp(scores - scores.max(-1, keepdims=True))
        merged = (scores / scores.sum(-1, keepdims=True) @ value).transpose(1, 0, 2).reshape(count, -1)
        x = layer_norm(x + linear(merged, name + "attention.output.dense"), weights, name + "attention.output.LayerNorm", epsilon)
        inner = linear(x, name + "intermediate.dense")
        inner = inner * 0.5 * (1 + erf(inner / math.sqrt(2)))
        x = layer_norm(x + linear(inner, name + "output.dense"), weights, name + "output.LayerNorm", epsilon)
    mean = x.mean(0)
    return mean / numpy.linalg.norm(mean)


def main():
    folder = pathlib.Path(sys.argv[1])
    config = json.loads((folder / "config.json").read_text())
    tokenizer = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(256)
    # Special pieces in a text are ordinary text for Warren; without this they would be tokens.
    tokenizer.encode_special_tokens = True
    with open(HERE / "tokens.json", "w", encoding="utf-8") as out:
        rows = [json.dumps({"text": text, "ids": tokenizer.encode(text).ids}, ensure_ascii=True) for text in CASES]
        out.write("[\n" + ",\n".join(rows) + "\n]\n")
    weights = load_weights(folder / "model.safetensors")
    with open(HERE / "vectors.json", "w", encoding="utf-8") as out:
        rows = []
        for text in TEXTS:
            vector = embed(tokenizer.encode(text).ids, weights, config)
            rows.append(json.dumps({"text": text, "vector": [float(f"{n:.6g}") for n in vector]}, ensure_ascii=True))
        out.write("[\n" + ",\n".join(rows) + "\n]\n")


main()
