"""Holds the learner's two functions against the operator's definition and each other, and compiles a model with it."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
from hypothesis import strategies as st

import minitvm
from lessons import example
from lessons.grading import attempt, cases, require
from minitvm import reference, te
from minitvm.errors import MinitvmError
from minitvm.graph import Graph
from minitvm.graph.builder import GraphBuilder

NAME = "lesson.capped_relu"


def definition(x: np.ndarray, bias: np.ndarray, cap: float) -> np.ndarray:
    """The operator, one element at a time, word for word from the exercise."""
    y = np.empty_like(x)
    for at in np.ndindex(*x.shape):
        v = x[at] + bias[at[-1]]
        y[at] = 0 if v < 0 else cap if v > cap else v
    return y


@st.composite
def arguments(draw: Any) -> tuple[np.ndarray, np.ndarray, float]:
    """x of rank 1 to 3, a bias that fits, and a cap: small numbers with few digits, and in x infinities and NaN."""
    shape = tuple(draw(st.lists(st.integers(1, 3), min_size=1, max_size=3)))
    whole = st.integers(-4, 6).map(float)
    number = st.one_of(whole, whole, st.sampled_from([0.5, 2.25, 12.0, np.inf, -np.inf, np.nan]))
    cap = st.integers(0, 5).map(float) | st.sampled_from([0.125, 2.5, 4.75, 10.0])
    size = int(np.prod(shape))
    x = draw(st.lists(number, min_size=size, max_size=size))
    bias = draw(st.lists(whole, min_size=shape[-1], max_size=shape[-1]))
    return np.array(x, "float32").reshape(shape), np.array(bias, "float32"), draw(cap)


def graph_of(shape: tuple[int, ...], width: int, cap: float) -> Graph:
    """A graph of this operator alone."""
    b = GraphBuilder("alone")
    return b.build(b.op(NAME, b.input("x", shape), b.input("bias", (width,)), cap=cap))


def check(module: ModuleType) -> None:
    """Raises AssertionError with the smallest inputs for which something is wrong."""

    @cases(100, inputs=arguments())
    def meaning_is_the_definition(inputs: tuple[np.ndarray, np.ndarray, float]) -> None:
        x, bias, cap = inputs
        case = f"meaning(x = {x.tolist()}, bias = {bias.tolist()}, cap = {cap:g})"
        result = attempt(case, module.meaning, x.copy(), bias.copy(), cap)
        compare(case, result, definition(x, bias, cap))

    @cases(100, inputs=arguments())
    def compute_is_the_meaning(inputs: tuple[np.ndarray, np.ndarray, float]) -> None:
        x, bias, cap = inputs
        case = f"compute, for x = {x.tolist()}, bias = {bias.tolist()}, cap = {cap:g}"
        tx, tbias = te.placeholder(x.shape, name="x"), te.placeholder(bias.shape, name="bias")
        result = attempt(case, lambda: module.compute(tx, tbias, cap=cap))
        require(isinstance(result, te.Tensor), f"{case}: returned {type(result).__name__}, wanted a te tensor")
        try:
            computed = reference.te.evaluate(result, {tx: x, tbias: bias})[0]
        except MinitvmError as error:
            raise AssertionError(f"{case}:\n{error}") from None
        compare(case, computed, definition(x, bias, cap))

    in_a_graph()
    in_a_model()


def compare(case: str, actual: Any, expected: np.ndarray) -> None:
    """Same shape, dtype and values, or words that say which of them differs."""
    require(isinstance(actual, np.ndarray), f"{case}: returned {type(actual).__name__}, wanted an array")
    require(actual.shape == expected.shape, f"{case}: the result has shape {actual.shape}, wanted {expected.shape}")
    require(actual.dtype == expected.dtype, f"{case}: the result is {actual.dtype}, wanted {expected.dtype}")
    require(
        np.array_equal(actual, expected, equal_nan=True),
        f"{case}\ngives  {actual.tolist()}\nwanted {expected.tolist()}",
    )


def in_a_graph() -> None:
    """The operator is registered under its name, for the judge and for the compiler."""
    x, bias = np.array([[1, 2], [5, -9]], "float32"), np.array([0, 3], "float32")
    graph = graph_of((2, 2), 2, 4.0)
    compare("the graph interpreter", reference.graph.run(graph, {"x": x, "bias": bias})[0], definition(x, bias, 4.0))


def in_a_model() -> None:
    """Our example with the new operator: one fused kernel, compiled, gives the interpreter's bits."""
    a, b, bias, _ = example.inputs(4, 5, 6)
    builder = GraphBuilder("model")
    product = builder.op("nn.matmul", builder.input("A", a.shape), b)
    graph = builder.build(builder.op(NAME, product, bias, cap=7.0))
    fused = minitvm.lower(graph, stop_at="fused")
    count = len(fused.nodes)
    require(count == 1, f"the operator was not fused with the product: {count} operators are left\n{fused}")
    compare("the compiled model", minitvm.build(graph, threads=1)(a), definition(a @ b, bias, 7.0))
