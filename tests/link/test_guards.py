"""What operators need of sizes: refused while building if no size fits, else a guard, whoever wrote the graph."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import minitvm
from minitvm import te
from minitvm.errors import InputError
from minitvm.expr import SizeVar
from minitvm.graph import GraphBuilder
from minitvm.graph.lower import relations
from minitvm.link.graphs import guards
from minitvm.topi import registry as operators
from minitvm.topi.shapes import assuming, dims, require_at_least, require_divides, require_repeats, require_some

n, m = SizeVar("n"), SizeVar("m")


@pytest.mark.parametrize(
    ("verb", "fits", "refused", "is_open", "text"),
    [
        (require_at_least, (4, 3), (2, 3), (n, 3), "n >= 3"),
        (require_divides, (3, 6), (3, 7), (3, n), "n % 3 == 0"),
        (require_repeats, (1, 6), (5, 6), (n, m), "n == 1 or n == m"),
    ],
)
def test_a_relation_holds_is_refused_or_is_listed(verb: Any, fits: Any, refused: Any, is_open: Any, text: str) -> None:
    with assuming() as listed:
        verb(*fits, what="rows")
        assert listed == []
        with pytest.raises(InputError, match="rows"):
            verb(*refused, what="rows")
        verb(*is_open, what="rows")
    assert str(listed[0][0]) == text
    verb(*is_open, what="rows")  # nobody lists it here


def test_an_axis_may_be_empty_where_nothing_reads_it() -> None:
    with assuming() as listed:
        require_some(0, "rows", (4, 0))
        require_some(n, "rows", (m, 4))
        with pytest.raises(InputError, match="wanted rows, found none"):
            require_some(0, "rows", (4, 2))
    assert [str(condition) for condition, _ in listed] == ["m == 0 or n >= 1"]


def test_an_operator_of_a_graph_by_hand_has_guards_and_its_function_the_same_relations() -> None:
    b = GraphBuilder()
    graph = b.build(list(b.op("topk", b.input("x", (n, 4)), k=6, axis=0)))
    assert [str(guard.left) for guard in guards(graph)] == ["n >= 6"]
    assert [str(condition) for condition in relations(graph.nodes[0])] == ["n >= 6"]
    module = minitvm.build(graph, threads=1)
    with pytest.raises(InputError, match=r"topk \w+ does not take these sizes: n >= 6 must hold"):
        module(np.ones((3, 4), np.float32))
    assert module(np.ones((6, 4), np.float32))[0].shape == (6, 4)


def test_an_operator_from_outside_states_its_relations_the_same_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operators, "OPERATORS", dict(operators.OPERATORS))

    @operators.register("test.halves")
    def halves(x: Any) -> Any:
        """The sums of the two halves' elements."""
        require_divides(2, dims(x)[0], "elements to halve")
        return te.compute((dims(x)[0] // 2,), lambda i: x[i] + x[i + x.shape[0] // 2])

    b = GraphBuilder()
    module = minitvm.build(b.build(b.op("test.halves", b.input("x", (n,)))), threads=1)
    np.testing.assert_array_equal(module(np.arange(6, dtype=np.float32)), [3, 5, 7])
    with pytest.raises(InputError, match=r"test\.halves .* n % 2 == 0 must hold"):
        module(np.arange(5, dtype=np.float32))
    with pytest.raises(InputError, match="wanted a multiple of 2 elements to halve, found 5"):
        b.op("test.halves", b.input("y", (5,)))
