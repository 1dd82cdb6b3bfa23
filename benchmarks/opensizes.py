"""Networks whose batch or sequence is open beside ONNX Runtime and OpenVINO, and beside our own of fixed size.

    python -m benchmarks.opensizes [encoder resnet18 ...]

One module of open size runs at each of the sizes; each of fixed size is a module of its own. Also: what the first call
at a new size takes, and how long it takes to build the network of open size where nothing is cached, on two cores.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import minitvm
from minitvm import frontends as frontend
from minitvm.expr import SizeVar
from minitvm.frontends.onnx.export.to_onnx import to_onnx
from minitvm.tools import models

from . import harness, peers
from .cases import Model

WANTED, WANTED_OF_FIXED = 0.95, 0.85  # of the faster peer, of ours of fixed size
FIRST_CALL, COLD_BUILD = 0.020, 30.0  # seconds, at most
OPEN = "n"


@dataclass(frozen=True, slots=True)
class Network:
    """An ONNX model whose input has the open dimension `n`, at position `axis` of `shape`, and the sizes to run at."""

    model: Callable[[], Any]
    shape: tuple[int | str, ...]
    sizes: tuple[int, ...]

    def shape_at(self, size: int) -> tuple[int, ...]:
        """The input's shape at a size."""
        return tuple(size if extent == OPEN else int(extent) for extent in self.shape)

    def inputs(self, size: int) -> dict[str, np.ndarray]:
        """An input of a size."""
        return {"x": np.random.default_rng(size).standard_normal(self.shape_at(size)).astype("float32")}


def _picture(network: Callable[..., Any], side: int, sizes: tuple[int, ...]) -> Network:
    shape = (OPEN, 3, side, side)

    def model() -> Any:
        found = to_onnx(network(0, shape=(SizeVar(OPEN), *shape[1:])))
        return _renamed(found, found.graph.input[0].name, "x")

    return Network(model, shape, sizes)


def _renamed(model: Any, old: str, new: str) -> Any:
    model.graph.input[0].name = new
    for node in model.graph.node:
        node.input[:] = [new if name == old else name for name in node.input]
    return model


def _dense(width: int, inner: int, layers: int) -> Callable[[], Any]:
    """Dense layers of alternating width, with bias and ReLU."""

    def model() -> Any:
        m, y, sides = Model(), "x", (width, inner)
        for layer in range(layers):
            k, n = sides[layer % 2], sides[1 - layer % 2]
            y = m.node("Relu", m.node("Add", m.node("MatMul", y, m.weight(k, n)), m.weight(n)))
        return m.finished(y, {"x": (OPEN, width)})

    return model


def _encoder(width: int, heads: int, layers: int) -> Callable[[], Any]:
    """The encoder of a transformer, as exporters write it: attention and two dense layers, each behind a layer norm."""

    def model() -> Any:
        m, x = Model(), "x"
        split, joined = m.array(np.array([0, -1, heads, width // heads])), m.array(np.array([0, -1, width]))
        half, one, root = (m.array(np.float32(value)) for value in (0.5, 1.0, np.sqrt(2)))

        def dense(value: str, k: int, n: int) -> str:
            return m.node("Add", m.node("MatMul", value, m.weight(k, n)), m.weight(n))

        def norm(value: str) -> str:
            ones, zeros = (m.array(np.full(width, value, "float32")) for value in (1, 0))
            return m.node("LayerNormalization", value, ones, zeros)

        def part(value: str, perm: tuple[int, ...]) -> str:
            return m.node("Transpose", m.node("Reshape", dense(value, width, width), split), perm=perm)

        for _ in range(layers):
            query, key, value = part(x, (0, 2, 1, 3)), part(x, (0, 2, 3, 1)), part(x, (0, 2, 1, 3))
            scale = m.array(np.float32((width // heads) ** -0.5))
            scores = m.node("Softmax", m.node("Mul", m.node("MatMul", query, key), scale), axis=-1)
            mixed = m.node("Transpose", m.node("MatMul", scores, value), perm=(0, 2, 1, 3))
            x = norm(m.node("Add", x, dense(m.node("Reshape", mixed, joined), width, width)))
            inner = dense(x, width, 4 * width)
            erf = m.node("Add", m.node("Erf", m.node("Div", inner, root)), one)
            gelu = m.node("Mul", m.node("Mul", inner, erf), half)
            x = norm(m.node("Add", x, dense(gelu, 4 * width, width)))
        return m.finished(x, {"x": (1, OPEN, width)})

    return model


LENGTHS = (1, 7, 64, 100, 384)
NETWORKS = {
    "dense": Network(_dense(256, 1024, 4), (OPEN, 256), LENGTHS),
    "encoder": Network(_encoder(384, 6, 2), (1, OPEN, 384), LENGTHS),
    "resnet18": _picture(models.resnet18, 96, (1, 7)),
    "mobilenet_v2": _picture(models.mobilenet_v2, 96, (1, 7)),
    "unet": _picture(models.unet, 64, (1, 3)),
}


def measured(name: str, threads: int) -> list[harness.Row]:
    """A network at each of its sizes, beside the faster peer and beside ours of that size."""
    network = NETWORKS[name]
    model = network.model()
    module = minitvm.build(frontend.from_onnx(model), threads=threads)
    rows = []
    for size in network.sizes:
        inputs = network.inputs(size)
        shapes = {"x": network.shape_at(size)}
        fixed = minitvm.build(frontend.from_onnx(model, shapes=shapes), threads=threads)
        others = {
            **peers.all_of(model, inputs, threads),
            "fixed size": lambda fixed=fixed, inputs=inputs: [fixed(**inputs)],
        }
        run = lambda inputs=inputs: module(**inputs)  # noqa: E731
        medians = harness.beside(f"{name} {size}", run, others, at_least=0.005, threads=threads)
        who = min((one for one in others if one != "fixed size"), key=lambda one: medians[one])
        for peer, wanted in ((who, WANTED), ("fixed size", WANTED_OF_FIXED)):
            rows.append(harness.Row(f"{name} {OPEN}={size}", threads, medians["ours"], medians[peer], peer, wanted))
    return rows


def first_calls(name: str) -> float:
    """Seconds of the slowest first call at a size, of a module that ran at another one before."""
    network = NETWORKS[name]
    module = minitvm.build(frontend.from_onnx(network.model()), threads=1)
    module(**network.inputs(2))
    seconds = []
    for size in (3, 5, 6):
        inputs = network.inputs(size)
        start = time.perf_counter()
        module(**inputs)
        first = time.perf_counter() - start
        start = time.perf_counter()
        module(**inputs)
        seconds.append(first - (time.perf_counter() - start))
    return max(seconds)


def cold_build(name: str) -> float:
    """Seconds to build a network of open size in a new process that has no cache."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "MINITVM_CACHE_DIR": folder}
        command = [
            sys.executable,
            "-m",
            __name__ if __name__ != "__main__" else "benchmarks.opensizes",
            "--build",
            name,
        ]
        return float(subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout)


def _timed_build(name: str) -> None:
    graph = frontend.from_onnx(NETWORKS[name].model())
    start = time.perf_counter()
    minitvm.build(graph)
    print(time.perf_counter() - start)


def main(arguments: list[str] | None = None) -> None:
    """Measure the networks given, or all, at one thread and at two."""
    arguments = list(arguments or [])
    if arguments[:1] == ["--build"]:
        _timed_build(arguments[1])
        return
    names = arguments or list(NETWORKS)
    builds = {name: cold_build(name) for name in names}
    rows = [row for threads in (1, 2) for name in names for row in measured(name, threads)]
    firsts = {name: first_calls(name) for name in names}
    harness.table("open batch or sequence", rows)
    print(f"\n  {'':<28}{'cold build':>12}{'first call at a new size':>28}")
    for name in names:
        print(f"  {name:<28}{builds[name]:>10.1f} s{firsts[name] * 1e3:>25.1f} ms"
              f"{'' if builds[name] <= COLD_BUILD and firsts[name] <= FIRST_CALL else '  short'}")  # fmt: skip
    harness.save("opensizes", rows, cold_build_seconds=builds, first_call_seconds=firsts)


if __name__ == "__main__":
    main(sys.argv[1:])
