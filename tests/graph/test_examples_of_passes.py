"""Each graph pass shows a small graph before and after in its docstring, and that is what it does.

    before:
        x = b.input("x", (2, 3))
        return b.op("transpose", b.op("transpose", x))
    after:
        def main(x: float32[2, 3]):
            return x

`before` is the body of a function that gets a `GraphBuilder` b and returns the output. `after` is what is printed, with
constants folded and without nodes that nothing reads, as later passes leave it.
"""

from __future__ import annotations

import importlib
import inspect
import re
import textwrap
from collections.abc import Callable

import numpy as np
import pytest

from minitvm.expr import SizeVar
from minitvm.graph import Graph, GraphBuilder, verify_graph
from minitvm.graph.passes.constant_folding import constant_folding
from minitvm.graph.passes.dead_code import dead_code
from minitvm.graph.passes.pipeline import passes
from minitvm.target import Target
from minitvm.tir.schedule.examples import section
from tests.tir.test_examples_of_passes import joined

# Other machines' passes begin with these, and add their own.
PASSES = {name: run for machine in ("vta", "cpu -vector_bits=256") for name, run in reversed(passes(Target(machine)))}
PLACES = {"blocked_layout": "minitvm.machines.simd.graph"}
# These depend on tables of a machine, which no small graph of an example is large enough for.
NOT_SHOWN = {"attention", "element_layout"}


def documented(name: str) -> str:
    """The docstring of a pass; the list of passes has functions that call it with options."""
    module = importlib.import_module(f"{PLACES.get(name, 'minitvm.graph.passes')}.{name}")
    return inspect.cleandoc(getattr(module, name).__doc__ or "")


def before_of(docstring: str) -> Graph:
    text = section(docstring, "before")
    assert text, "the docstring shows no graph before"
    b = GraphBuilder()
    names = {"b": b, "np": np, "SizeVar": SizeVar}
    exec("def example():\n" + textwrap.indent(text, "    "), names)
    example: Callable[[], object] = names["example"]  # type: ignore[assignment]
    return b.build(example())  # type: ignore[arg-type]


def after_of(graph: Graph, run: Callable[[Graph], Graph]) -> str:
    result = run(graph)
    assert str(result) != str(graph), "the example shows a graph that the pass leaves alone"
    verify_graph(result)
    text = str(dead_code(constant_folding(result)))
    # The candidates that were weighed, with their costs, are no part of the example.
    return re.sub(r", algorithm=\(\(.*?\),\)\)", ")", text)


@pytest.mark.parametrize("name", [name for name in PASSES if name not in NOT_SHOWN])
def test_the_docstring_shows_what_the_pass_does(name: str) -> None:
    docstring = documented(name)
    after = section(docstring, "after")
    assert after, "the docstring shows no graph after"
    assert after_of(before_of(docstring), PASSES[name]) == re.sub(r"\( | \)", lambda m: m[0].strip(), joined(after))


def test_a_docstring_that_lies_is_caught() -> None:
    docstring = documented("split_einsum").replace("ij,jk,kl->il", "ij,jk,kl->ik")
    with pytest.raises(AssertionError):
        assert after_of(before_of(docstring), PASSES["split_einsum"]) == section(docstring, "after")
