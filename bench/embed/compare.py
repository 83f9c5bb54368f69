#!/usr/bin/env python3
"""Runs embed_bench and ONNX Runtime in turns on the same tokens: compare.py EMBED_BENCH MODEL-FOLDER.

The ONNX graph is built here from the same weights, in single precision, with the operators that ONNX Runtime fuses."""
import json
import math
import pathlib
import struct
import subprocess
import sys
import time

import numpy
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

WORDS = ("the small rabbit found a long way under old trees and finds water food light stone time paper people city house "
         "river music story world work").split()
LENGTHS = (8, 32, 128, 256)


def text_of(tokens):
    """One word is one token; two more are [CLS] and [SEP]."""
    return " ".join(WORDS[i % len(WORDS)] for i in range(tokens - 2))


def load_weights(path):
    data = path.read_bytes()
    length = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8 : 8 + length])
    weights = {}
    for name, entry in header.items():
        if name == "__metadata__" or entry["dtype"] != "F32":
            continue
        begin, end = (8 + length + offset for offset in entry["data_offsets"])
        weights[name] = numpy.frombuffer(data[begin:end], "<f4").reshape(entry["shape"])
    return weights


class Graph:
    """An encoder for one text: ids → the mean of its tokens' vectors."""

    def __init__(self, weights, config):
        self.weights, self.config = weights, config
        self.nodes, self.tensors, self.count = [], {}, 0

    def constant(self, name, array):
        if name not in self.tensors:
            self.tensors[name] = numpy_helper.from_array(numpy.ascontiguousarray(array), name)
        return name

    def add(self, op, *inputs, **attributes):
        self.count += 1
        name = f"n{self.count}"
        self.nodes.append(helper.make_node(op, list(inputs), [name], **attributes))
        return name

    def linear(self, x, name):
        product = self.add("MatMul", x, self.constant(name + ".w", self.weights[name + ".weight"].T))
        return self.add("Add", product, self.constant(name + ".b", self.weights[name + ".bias"]))

    def norm(self, x, name):
        return self.add("LayerNormalization", x, self.constant(name + ".g", self.weights[name + ".weight"]),
                        self.constant(name + ".s", self.weights[name + ".bias"]), axis=-1,
                        epsilon=self.config["layer_norm_eps"])

    def heads(self, x):
        shape = self.constant("heads", numpy.array([-1, self.config["num_attention_heads"],
                                                    self.config["hidden_size"] // self.config["num_attention_heads"]]))
        return self.add("Transpose", self.add("Reshape", x, shape), perm=[1, 0, 2])

    def layer(self, x, name):
        query, key, value = (self.heads(self.linear(x, f"{name}attention.self.{part}")) for part in ("query", "key", "value"))
        scale = self.constant("scale", numpy.float32(1 / math.sqrt(self.config["hidden_size"] // self.config["num_attention_heads"])))
        scores = self.add("Mul", self.add("MatMul", query, self.add("Transpose", key, perm=[0, 2, 1])), scale)
        merged = self.add("Transpose", self.add("MatMul", self.add("Softmax", scores, axis=-1), value), perm=[1, 0, 2])
        merged = self.add("Reshape", merged, self.constant("flat", numpy.array([-1, self.config["hidden_size"]])))
        x = self.norm(self.add("Add", x, self.linear(merged, name + "attention.output.dense")), name + "attention.output.LayerNorm")
        inner = self.linear(x, name + "intermediate.dense")
        error = self.add("Erf", self.add("Div", inner, self.constant("root", numpy.float32(math.sqrt(2)))))
        gelu = self.add("Mul", self.add("Mul", inner, self.add("Add", error, self.constant("one", numpy.float32(1)))),
                        self.constant("half", numpy.float32(0.5)))
        return self.norm(self.add("Add", x, self.linear(gelu, name + "output.dense")), name + "output.LayerNorm")

    def model(self):
        words = self.add("Gather", self.constant("words", self.weights["embeddings.word_embeddings.weight"]), "ids")
        places = self.add("Gather", self.constant("places", self.weights["embeddings.position_embeddings.weight"]
                                                  + self.weights["embeddings.token_type_embeddings.weight"][0]), "positions")
        x = self.norm(self.add("Add", words, places), "embeddings.LayerNorm")
        for i in range(self.config["num_hidden_layers"]):
            x = self.layer(x, f"encoder.layer.{i}.")
        out = self.add("ReduceMean", x, axes=[0], keepdims=0)
        graph = helper.make_graph(self.nodes, "encoder",
                                  [helper.make_tensor_value_info(name, TensorProto.INT64, ["n"]) for name in ("ids", "positions")],
                                  [helper.make_tensor_value_info(out, TensorProto.FLOAT, None)], list(self.tensors.values()))
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def main():
    program, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    vocabulary = {line: i for i, line in enumerate((folder / "vocab.txt").read_text().splitlines())}
    texts = [text_of(length) for length in LENGTHS]
    ids = [numpy.array([vocabulary["[CLS]"], *(vocabulary[word] for word in text.split()), vocabulary["[SEP]"]]) for text in texts]
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    model = Graph(load_weights(folder / "model.safetensors"), json.loads((folder / "config.json").read_text())).model()
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    ours, rival, vectors = {}, {length: [] for length in LENGTHS}, {}
    notes = []
    for _ in range(3):  # in turns
        lines = subprocess.run([program, folder], input="".join(json.dumps(text) + "\n" for text in texts), text=True,
                               capture_output=True, check=True).stdout.splitlines()
        notes = []
        for row in map(json.loads, lines):
            if "vector" in row:
                ours.setdefault((row["kernel"], row["tokens"]), []).append(row["fastest"])
                vectors[row["kernel"], row["tokens"]] = numpy.array(row["vector"])
            elif "open" in row:
                notes.append(f"{row['kernel']}: opening the model takes {row['open']:.0f} ms")
            else:
                notes.append(f"{row['kernel']}: a batch of {row['batch']} texts takes {row['total']:.0f} ms on all processors")
        for length, tokens in zip(LENGTHS, ids):
            times = []
            for _ in range(15):
                begin = time.perf_counter()
                vector = session.run(None, {"ids": tokens, "positions": numpy.arange(length)})[0]
                times.append((time.perf_counter() - begin) * 1000)
            rival[length].append(min(times))
            vectors["onnx", length] = vector / numpy.linalg.norm(vector)
    print(f"milliseconds (the fastest of 45), one processor, all-MiniLM-L6-v2; ONNX Runtime {onnxruntime.__version__} in single precision")
    print(f"{'tokens':>10}" + "".join(f"{length:>26}" for length in LENGTHS))
    print(f"{'onnx':>10}" + "".join(f"{min(rival[length]):>26.1f}" for length in LENGTHS))
    for kernel in dict.fromkeys(kernel for kernel, _ in ours):
        cells = []
        for length in LENGTHS:
            time_ms = min(ours[kernel, length])
            cosine = float(vectors[kernel, length] @ vectors["onnx", length])
            cells.append(f"{time_ms:.1f} ×{time_ms / min(rival[length]):.2f} cos {cosine:.5f}")
        print(f"{kernel:>10}" + "".join(f"{cell:>26}" for cell in cells))
    print("\n".join(notes))


main()
