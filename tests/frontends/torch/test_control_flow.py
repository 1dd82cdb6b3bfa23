"""Branches on data and loops of PyTorch programs: the interpreter and the module compute what PyTorch does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="the extra torch is not installed")

import torch

import minitvm as tvm
from minitvm.errors import UnsupportedOperator
from minitvm.graph.nodes import LOOP
from minitvm.reference import graph as interpreter

try:
    from torch._higher_order_ops import map as map_
    from torch._higher_order_ops import scan, while_loop
except ImportError:  # an older PyTorch
    pytest.skip("this PyTorch has no scan", allow_module_level=True)

pytestmark = pytest.mark.filterwarnings("ignore")


class Growing(torch.nn.Module):
    """While the sum is below a bound and n steps are not done: x = relu(x w) + 1."""

    def __init__(self) -> None:
        super().__init__()
        self.w = torch.nn.Parameter(torch.eye(4) * 1.2)

    def forward(self, x: Any, n: Any) -> Any:
        def going(i: Any, y: Any) -> Any:
            return (i < n) & (y.sum() < 100)

        def body(i: Any, y: Any) -> Any:
            return i + 1, torch.relu(y @ self.w) + 1

        return while_loop(going, body, (torch.zeros((), dtype=torch.int64), x))


class Chosen(torch.nn.Module):
    def forward(self, x: Any) -> Any:
        return torch.cond(x.sum() > 0, lambda x: (x.sin() + 1, x * 2), lambda x: (x.cos(), x - 1), (x,))


class Recurrent(torch.nn.Module):
    """A scan, with a value that all steps read."""

    def forward(self, x: Any, w: Any) -> Any:
        return scan(lambda c, v: (torch.tanh(c + v @ w), (c * v).sum()), torch.zeros(3), x)


class Mapped(torch.nn.Module):
    def forward(self, x: Any, y: Any) -> Any:
        return map_(lambda v, y: v * y + v.sum(), x, y)


class Nested(torch.nn.Module):
    """A branch in the body of a scan."""

    def forward(self, x: Any) -> Any:
        def step(c: Any, v: Any) -> Any:
            new = torch.cond(v.sum() > 0, lambda c, v: c + v, lambda c, v: c - v, (c, v))
            return new, new * 2

        return scan(step, torch.zeros(3), x)


def f(*shape: int, seed: int = 0) -> Any:
    return torch.from_numpy(np.random.default_rng(seed).standard_normal(shape).astype(np.float32))


CASES = {
    "while": (Growing(), [(f(2, 4), torch.tensor(n)) for n in (0, 1, 7, 90)], 1),
    "cond": (Chosen(), [(f(3),), (-f(3),)], 0),
    "short scan": (Recurrent(), [(f(5, 3), f(3, 3))], 0),
    "scan": (Recurrent(), [(f(40, 3), f(3, 3)), (f(40, 3, seed=1), f(3, 3))], 1),
    "map": (Mapped(), [(f(20, 3), f(3))], 1),
    "nested": (Nested(), [(f(20, 3),)], 1),
}


@pytest.mark.parametrize("name", CASES)
def test_regions_compute_what_pytorch_does(name: str) -> None:
    module, runs, loops = CASES[name]
    graph = tvm.from_torch(module.eval(), runs[0])
    assert sum(item.op == LOOP for item in graph.nodes) == loops
    compiled = tvm.build(graph, threads=1)
    for args in runs:
        with torch.no_grad():
            wanted = torch.utils._pytree.tree_leaves(module(*args))
        arrays = [a.numpy() for a in args]
        results = compiled(*arrays)
        listed = list(results) if isinstance(results, tuple) else [results]
        for found in (interpreter.run(graph, arrays), listed):
            for a, b in zip(found, wanted, strict=True):
                np.testing.assert_allclose(np.asarray(a), b.numpy(), rtol=1e-4, atol=1e-5)


def test_an_open_number_of_steps() -> None:
    steps = torch.export.Dim("steps", min=2, max=100)
    graph = tvm.from_torch(Recurrent().eval(), (f(30, 3), f(3, 3)), dynamic_shapes=({0: steps}, None))
    compiled = tvm.build(graph, threads=1)
    for count in (2, 17, 64):
        x, w = f(count, 3, seed=count), f(3, 3)
        with torch.no_grad():
            wanted = Recurrent()(x, w)
        for a, b in zip(compiled(x.numpy(), w.numpy()), wanted, strict=True):
            np.testing.assert_allclose(np.asarray(a), b.numpy(), rtol=1e-4, atol=1e-5)


def test_unsupported_operators_in_bodies_are_listed() -> None:
    class Random(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return torch.cond(x.sum() > 0, lambda x: torch.rand_like(x), lambda x: x + 1, (x,))

    with pytest.raises(UnsupportedOperator, match="rand"):
        tvm.from_torch(Random().eval(), (f(3),))
