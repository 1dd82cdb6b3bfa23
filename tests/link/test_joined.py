"""Concatenations without copies: which there are, where the parts lie, and that the answers are the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import minitvm as tvm
from minitvm.executable import ArenaSlice, CallKernel, Executable, verify
from minitvm.graph import Graph, GraphBuilder
from minitvm.reference import executable as interpreter
from minitvm.reference import graph as oracle
from minitvm.runtime import GraphModule
from tests.fewer import examples


def compiled(graph: Graph) -> Executable:
    executable = tvm.lower(graph, stop_at="executable")
    verify(executable)
    return executable


def copies(executable: Executable) -> int:
    """Calls of kernels that concatenate."""
    called = [executable.kernels[step.kernel].name for step in executable.steps if isinstance(step, CallKernel)]
    return sum("concatenate" in name for name in called)


def same(graph: Graph, seed: int = 0) -> Executable:
    """The executable, after its results, interpreted and on the machine, were compared with the graph interpreter's."""
    executable = compiled(graph)
    rng = np.random.default_rng(seed)
    inputs = {v.name: rng.integers(-3, 4, v.shape).astype("float32") for v in graph.inputs}
    wanted = oracle.run(graph, inputs)
    for found in (
        interpreter.run(executable, inputs, threads=2, order="shuffled"),
        GraphModule(executable, threads=2)(**inputs),
    ):
        results = found if isinstance(found, list | tuple) else (found,)
        for a, b in zip(results, wanted, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-3)
    return executable


def softmaxes(b: GraphBuilder, x: Any, count: int) -> list[Any]:
    """Values that kernels of their own write, and that no consumer takes into its own kernel."""
    return [b.op("nn.softmax", x, axis=axis - 2) for axis in range(count)]


def test_parts_are_written_where_the_whole_lies() -> None:
    b = GraphBuilder()
    first, second = softmaxes(b, b.input("x", (1, 6, 8)), 2)
    whole = b.op("concatenate", first, second, axis=1)
    executable = same(b.build(b.op("nn.softmax", whole, axis=1)))
    assert copies(executable) == 0
    (home,) = [r for r in executable.arenas[0].residents if r.name == whole.name]
    start, slices = home.offset, {a for s in executable.steps for a in getattr(s, "args", ()) if type(a) is ArenaSlice}
    assert {ArenaSlice(0, start, 192), ArenaSlice(0, start + 192, 192), ArenaSlice(0, start, 384)} <= slices
    assert not {first.name, second.name} & {r.name for r in executable.arenas[0].residents}


def test_a_whole_may_be_part_of_a_larger_one() -> None:
    b = GraphBuilder()
    x = b.input("x", (1, 4, 8))
    first, second = softmaxes(b, x, 2)
    inner = b.op("concatenate", first, second, axis=1)
    third = b.op("nn.softmax", inner, axis=1)
    outer = b.op("concatenate", third, inner, first, axis=1)
    executable = same(b.build(b.op("nn.softmax", outer, axis=1)))
    # `first` lies in `inner` already, so the outer one is copied.
    assert copies(executable) == 1
    b = GraphBuilder()
    first, second = softmaxes(b, b.input("x", (1, 4, 8)), 2)
    inner = b.op("concatenate", first, second, axis=1)
    third = b.op("nn.softmax", inner, axis=1)
    outer = b.op("concatenate", third, inner, axis=1)
    executable = same(b.build(b.op("nn.softmax", outer, axis=1)))
    assert copies(executable) == 0
    assert {r.nbytes for r in executable.arenas[0].residents if r.name.startswith("concatenate")} == {4 * 8 * 16}


def nothing_fixed(b: GraphBuilder) -> Any:
    first, second = softmaxes(b, b.input("x", (1, 4, 8)), 2)
    return b.op("nn.softmax", b.op("concatenate", first, second, axis=1), axis=1)


def of_an_input(b: GraphBuilder) -> Any:
    x = b.input("x", (1, 4, 8))
    return b.op("nn.softmax", b.op("concatenate", x, b.op("nn.softmax", x), axis=1), axis=1)


def of_a_constant(b: GraphBuilder) -> Any:
    x = b.op("nn.softmax", b.input("x", (1, 4, 8)))
    return b.op("nn.softmax", b.op("concatenate", x, b.constant(np.ones((1, 2, 8), "float32"), "c"), axis=1), axis=1)


def returned(b: GraphBuilder) -> Any:
    return b.op("concatenate", *softmaxes(b, b.input("x", (1, 4, 8)), 2), axis=1)


def with_a_part_returned(b: GraphBuilder) -> Any:
    first, second = softmaxes(b, b.input("x", (1, 4, 8)), 2)
    return [b.op("nn.softmax", b.op("concatenate", first, second, axis=1), axis=1), first]


def of_one_value_twice(b: GraphBuilder) -> Any:
    (x,) = softmaxes(b, b.input("x", (1, 4, 8)), 1)
    return b.op("nn.softmax", b.op("concatenate", x, x, axis=1), axis=1)


def of_a_view(b: GraphBuilder) -> Any:
    first, second = softmaxes(b, b.input("x", (1, 4, 8)), 2)
    seen = b.op("reshape", b.op("nn.softmax", b.op("reshape", first, newshape=(4, 8))), newshape=(1, 4, 8))
    return b.op("nn.softmax", b.op("concatenate", seen, second, first, axis=1), axis=1)


def along_an_inner_axis(b: GraphBuilder) -> Any:
    first, second = softmaxes(b, b.input("x", (1, 4, 8)), 2)
    return b.op("nn.softmax", b.op("concatenate", first, second, axis=2), axis=1)


@pytest.mark.parametrize(
    ("make", "copied"),
    [
        (nothing_fixed, 0), (of_an_input, 1), (of_a_constant, 1), (returned, 1), (with_a_part_returned, 1),
        (of_one_value_twice, 1), (of_a_view, 1), (along_an_inner_axis, 1),
    ],
)  # fmt: skip
def test_who_decides_where_a_part_lies(make: Any, copied: int) -> None:
    b = GraphBuilder()
    assert copies(same(b.build(make(b)))) == copied


def test_branches_of_convolutions_meet_without_a_copy() -> None:
    """SqueezeNet's fire module, blocked: the channel blocks of both branches lie one after the other."""
    rng = np.random.default_rng(0)

    def convolved(v: Any, name: str, channels: int, kernel: int) -> Any:
        weight = b.constant(rng.standard_normal((channels, v.shape[1], kernel, kernel)).astype("float32"), name)
        return b.op("nn.relu", b.op("nn.conv2d", v, weight, padding=(kernel // 2, kernel // 2)))

    b = GraphBuilder()
    squeezed = convolved(b.input("x", (1, 32, 7, 7)), "s", 16, 1)
    both = b.op("concatenate", convolved(squeezed, "a", 32, 1), convolved(squeezed, "b", 32, 3), axis=1)
    assert copies(same(b.build(convolved(both, "c", 16, 1)))) == 0


@given(st.data())
@examples(5, 15)
def test_any_mixture_gives_the_same_answer(data: st.DataObject) -> None:
    b = GraphBuilder()
    values = [b.input("x", (1, 2, 4))]
    for _ in range(data.draw(st.integers(2, 7))):
        if data.draw(st.booleans()) and len(values) > 1:
            chosen = data.draw(st.lists(st.sampled_from(values), min_size=2, max_size=3))
            values.append(b.op("concatenate", *chosen, axis=1))
        else:
            values.append(b.op("nn.softmax", data.draw(st.sampled_from(values)), axis=-1))
    outputs = data.draw(st.lists(st.sampled_from(values), min_size=1, max_size=2, unique=True))
    graph = b.build([b.op("nn.softmax", values[-1], axis=1), *outputs])
    executable = compiled(graph)
    inputs = {"x": np.random.default_rng(0).integers(-3, 4, (1, 2, 4)).astype("float32")}
    found = interpreter.run(executable, inputs, threads=2, order="shuffled")
    for a, c in zip(found, oracle.run(graph, inputs), strict=True):
        np.testing.assert_allclose(a, c, rtol=1e-5, atol=1e-6)
