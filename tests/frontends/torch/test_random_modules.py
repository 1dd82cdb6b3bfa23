"""Random modules: what PyTorch computes is what the imported graph does, interpreted and compiled, at several sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

pytest.importorskip("torch", reason="the extra torch is not installed")

import torch
from torch.nn import functional as F

import minitvm
from minitvm.reference import graph as interpreter

pytestmark = pytest.mark.filterwarnings("ignore")

MOST = 4000  # elements of a value
Step = Callable[[torch.Tensor], torch.Tensor]

# Functions without a jump: a rounding error of one step does not decide about the next.
MAPS: dict[str, Step] = {
    "abs": torch.abs, "clamp": lambda x: x.clamp(-0.7, 0.9), "cos": torch.cos, "elu": F.elu, "gelu": F.gelu,
    "hardswish": F.hardswish, "leaky_relu": F.leaky_relu, "mish": F.mish, "relu6": F.relu6, "sigmoid": torch.sigmoid,
    "silu": F.silu, "softplus": F.softplus, "square": torch.square, "tanh": torch.tanh, "half": lambda x: x / 2,
    "shrink": lambda x: x / (1 + x.abs()),
}  # fmt: skip


def _axis(data: st.DataObject, x: torch.Tensor) -> int:
    return data.draw(st.integers(-x.ndim, x.ndim - 1), label="axis")


def _map(data: st.DataObject, _: torch.Tensor) -> Step:
    return MAPS[data.draw(st.sampled_from(sorted(MAPS)), label="map")]


def _along(data: st.DataObject, x: torch.Tensor) -> Step:
    axis = _axis(data, x)
    functions: dict[str, Step] = {
        "cumsum": lambda x: x.cumsum(axis) / 4, "flip": lambda x: x.flip(axis),
        "log_softmax": lambda x: x.log_softmax(axis), "normalize": lambda x: F.normalize(x, dim=axis, eps=0.1),
        "roll": lambda x: x.roll(1, axis),
        "softmax": lambda x: x.softmax(axis), "sort": lambda x: x.sort(dim=axis, stable=True).values,
    }  # fmt: skip
    return functions[data.draw(st.sampled_from(sorted(functions)), label="along")]


def _reduce(data: st.DataObject, x: torch.Tensor) -> Step:
    axis, keep = _axis(data, x), data.draw(st.booleans(), label="keepdim")
    functions: dict[str, Step] = {
        "amax": lambda x: x.amax(axis, keep), "mean": lambda x: x.mean(axis, keep),
        "min": lambda x: x.min(axis, keep)[0],
        "norm": lambda x: torch.linalg.vector_norm(x, 2, axis, keep), "sum": lambda x: x.sum(axis, keep) / 4,
        "logsumexp": lambda x: x.logsumexp(axis, keep), "var": lambda x: x.var(axis, correction=0, keepdim=keep),
    }  # fmt: skip
    return functions[data.draw(st.sampled_from(sorted(functions)), label="reduce")]


def _reshape(data: st.DataObject, x: torch.Tensor) -> Step:
    axis, other = _axis(data, x), _axis(data, x)
    first = data.draw(st.integers(0, x.ndim - 1), label="first")
    functions: dict[str, Step] = {
        "transpose": lambda x: x.transpose(axis, other), "flatten": lambda x: x.flatten(first),
        "unsqueeze": lambda x: x.unsqueeze(axis), "squeeze": lambda x: x.squeeze(axis),
        "join": lambda x: x.reshape(x.shape[0], -1), "split": lambda x: x.unflatten(axis, (-1, 1)),
    }  # fmt: skip
    return functions[data.draw(st.sampled_from(sorted(functions)), label="reshape")]


def _move(data: st.DataObject, x: torch.Tensor) -> Step:
    axis, amount = _axis(data, x), data.draw(st.integers(1, 2), label="amount")
    begin = data.draw(st.integers(-2, 1), label="begin")
    where = [slice(None)] * (axis % x.ndim)
    places = torch.tensor([0, -1, 0])
    functions: dict[str, Step] = {
        "begin": lambda x: x[(*where, slice(begin, None))], "end": lambda x: x[(*where, slice(None, -amount))],
        "step": lambda x: x[(*where, slice(None, None, 2))], "select": lambda x: x.select(axis, begin),
        "pad": lambda x: F.pad(x, (amount, 1)), "repeat": lambda x: x.repeat(*[amount] * x.ndim),
        "take": lambda x: x[(*where, places)], "narrow": lambda x: x.narrow(axis, 0, 1),
        "twice": lambda x: torch.cat([x, x], axis),
        "halves": lambda x: sum(x.chunk(1, axis)), "stacked": lambda x: torch.stack([x, -x], axis),
    }  # fmt: skip
    return functions[data.draw(st.sampled_from(sorted(functions)), label="move")]


def _combine(data: st.DataObject, x: torch.Tensor) -> Step:
    axis = _axis(data, x)
    functions: dict[str, Step] = {
        "add": lambda x: x + x.mean(axis, keepdim=True), "maximum": lambda x: torch.maximum(x, -x / 2),
        "multiply": lambda x: x * x.amax(axis, keepdim=True).sigmoid(), "square": lambda x: x @ x.transpose(-1, -2) / 8,
        "attention": lambda x: F.scaled_dot_product_attention(x, x, x),
        "outer": lambda x: x.unsqueeze(-1) - x.unsqueeze(-2),
        "weights": lambda x: x * torch.arange(x.shape[axis]).reshape([-1] + [1] * (x.ndim - 1 - axis % x.ndim)) / 8,
    }  # fmt: skip
    if x.ndim < 2:
        del functions["square"], functions["attention"]
    return functions[data.draw(st.sampled_from(sorted(functions)), label="combine")]


KINDS = (_map, _along, _reduce, _reshape, _move, _combine)


class Chain(torch.nn.Module):
    """Steps one after the other; the results of the last two are returned."""

    def __init__(self, steps: list[Step]) -> None:
        super().__init__()
        self.steps = steps

    def forward(self, x: torch.Tensor) -> Any:
        before = x
        for step in self.steps:
            before, x = x, step(x)
        return x, before + 1


def _chain(data: st.DataObject, x: torch.Tensor) -> Chain:
    """Up to five steps, each of which PyTorch takes at the shape that it gets."""
    steps: list[Step] = []
    for _ in range(data.draw(st.integers(1, 5), label="length")):
        step = data.draw(st.sampled_from(KINDS), label="kind")(data, x)
        try:
            result = step(x)
        except (RuntimeError, IndexError, ValueError):
            continue  # not for this shape
        if result.ndim and 0 < result.numel() <= MOST and result.abs().max() < 1e4:
            steps.append(step)
            x = result
    return Chain(steps)


def _agree(graph: minitvm.graph.Graph, module: Chain, x: torch.Tensor) -> None:
    compiled = minitvm.build(graph, threads=1)(x.numpy())
    for results in (interpreter.run(graph, [x.numpy()]), compiled):
        for ours, theirs in zip(results, module(x), strict=True):
            np.testing.assert_allclose(ours, theirs.numpy(), rtol=2e-4, atol=2e-4)


@hypothesis.settings(max_examples=10)  # each exports, imports and compiles
@hypothesis.given(st.data())
def test_random_modules(data: st.DataObject) -> None:
    shape = data.draw(st.lists(st.integers(2, 5), min_size=1, max_size=4), label="shape")
    x = torch.randn(shape, generator=torch.Generator().manual_seed(1))
    module = _chain(data, x)
    _agree(minitvm.from_torch(module, (x,)), module, x)


@hypothesis.settings(max_examples=10)  # each exports, imports and compiles
@hypothesis.given(st.data())
def test_random_modules_with_open_dimensions(data: st.DataObject) -> None:
    """What torch.export leaves open stays open, and is right at another size that the program takes."""
    shape = data.draw(st.lists(st.integers(3, 6), min_size=1, max_size=3), label="shape")
    larger = [n + data.draw(st.integers(0, 3), label="more") for n in shape]
    x, y = (torch.randn(s, generator=torch.Generator().manual_seed(1)) for s in (shape, larger))
    module = _chain(data, x)
    program = torch.export.export(module, (x,), dynamic_shapes=(dict.fromkeys(range(x.ndim), torch.export.Dim.AUTO),))
    graph = minitvm.from_torch(program)
    _agree(graph, module, x)
    try:
        program.module()(y)
    except Exception:  # of many kinds: the program is for other sizes
        return
    _agree(graph, module, y)
