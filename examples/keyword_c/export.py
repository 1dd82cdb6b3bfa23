"""Write a keyword spotter in int8 as C for a microcontroller: `python export.py FOLDER [MODEL.tflite]`.

The network is DS-CNN of Zhang et al., "Hello Edge: Keyword spotting on microcontrollers" (2017). Its weights are
random, because no recordings come with minitvm: train it, and put your weights here. A model in a file is exported
as it is.
"""

from __future__ import annotations

import argparse
import math

import numpy as np

import minitvm
from minitvm.build import to_graph
from minitvm.export import fill, new_folder
from minitvm.export.c import sized_project
from minitvm.graph import Graph, GraphBuilder, Value

FRAMES, FEATURES, WORDS = 49, 10, 12  # a second of sound, ten numbers (MFCC) for each 20 ms


def ds_cnn(channels: int, blocks: int, seed: int = 0) -> Graph:
    """Return the network in floats: a convolution, depthwise-separable blocks, the mean of the image, and a product."""
    rng = np.random.default_rng(seed)
    b = GraphBuilder("keyword")

    def weights(*shape: int) -> Value:
        return b.constant((rng.standard_normal(shape) * math.sqrt(2 / math.prod(shape[1:]))).astype("float32"))

    def layer(x: Value, filters: Value, **attrs: object) -> Value:
        bias = b.constant((0.1 * rng.standard_normal(channels)).astype("float32"))
        y: Value = b.op("nn.relu", b.op("nn.bias_add", b.op("nn.conv2d", x, filters, **attrs), bias))
        return y

    x = b.input("mfcc", (1, 1, FRAMES, FEATURES))
    y = layer(x, weights(channels, 1, 10, 4), strides=(2, 2), padding=(4, 1, 5, 1))
    for _ in range(blocks):
        y = layer(y, weights(channels, 1, 3, 3), padding=(1, 1, 1, 1), groups=channels)
        y = layer(y, weights(channels, channels, 1, 1))
    mean = b.op("nn.batch_flatten", b.op("nn.global_avg_pool", y))
    return b.build(b.op("nn.dense", mean, weights(WORDS, channels), name="scores"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder")
    parser.add_argument("model", nargs="?", help="a model in a file, instead of DS-CNN")
    parser.add_argument("--target", default="cpu -arch=cortex-m4", help="a CPU (default: a Cortex-M4)")
    parser.add_argument("--channels", type=int, default=64, help="of each layer (default: 64, the small DS-CNN)")
    parser.add_argument("--blocks", type=int, default=4, help="depthwise-separable blocks (default: 4)")
    options = parser.parse_args()
    if options.model:
        graph = to_graph(options.model)
    else:
        rng = np.random.default_rng(1)
        samples = [rng.standard_normal((1, 1, FRAMES, FEATURES)).astype("float32") for _ in range(16)]
        graph = minitvm.quantize(ds_cnn(options.channels, options.blocks), samples, dtype="int8").graph
    folder = new_folder(options.folder)
    files, memory = sized_project(graph, target=options.target, name="keyword", weights="array")
    fill(folder, files)
    print(f"wrote {folder}; bytes:", ", ".join(f"{kind} {size:,}" for kind, size in memory.items()))


if __name__ == "__main__":
    main()
