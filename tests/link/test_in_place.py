"""States: which updates work in place, that others are copied, and that all levels agree run after run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings

import minitvm as tvm
from minitvm.executable import Copy, Executable, State, verify
from minitvm.graph import Graph, GraphBuilder, Value, verify_graph
from minitvm.link.in_place import in_place
from minitvm.link.steps import is_view, writes_its_output
from minitvm.lowering.function import updating
from minitvm.reference import executable as interpreter
from minitvm.reference import graph as oracle
from minitvm.reference.strategies.states import Stateful, stateful
from minitvm.runtime import GraphModule
from minitvm.target import Target
from tests.fewer import examples


def compiled(graph: Graph) -> Executable:
    executable = tvm.lower(graph, stop_at="executable")
    verify(executable)
    return executable


def copies(executable: Executable) -> int:
    """Copies of whole states."""
    return sum(isinstance(s, Copy) and State in (type(s.dst), type(s.src)) for s in executable.steps)


def agree(
    case: Stateful, run: Callable[[dict[str, np.ndarray]], tuple[list[np.ndarray], dict[str, np.ndarray]]]
) -> None:
    """Every run gives what the graph means, and leaves the states that it means."""
    states: dict[str, np.ndarray] = {}
    for inputs in case.runs:
        wanted = oracle.run(case.graph, inputs, states=states)
        outputs, left = run(inputs)
        for a, b in zip(outputs, wanted, strict=True):
            np.testing.assert_array_equal(a, b)
        assert left.keys() == states.keys()
        for name, array in states.items():
            np.testing.assert_array_equal(left[name], array, err_msg=name)


def by_interpreter(executable: Executable) -> Any:
    states: dict[str, np.ndarray] = {}

    def run(inputs: dict[str, np.ndarray]) -> Any:
        return interpreter.run(executable, inputs, states=states, threads=2, order="shuffled"), states

    return run


def by_machine(module: GraphModule) -> Any:
    def run(inputs: dict[str, np.ndarray]) -> Any:
        results = module(**inputs)
        return (results if isinstance(results, tuple) else (results,)), dict(module.state)

    return run


def by_optimized(graph: Graph) -> Any:
    from minitvm.build import optimize_graph

    fused, states = optimize_graph(graph, Target.of("cpu")), dict[str, np.ndarray]()
    verify_graph(fused)

    def run(inputs: dict[str, np.ndarray]) -> Any:
        return oracle.run(fused, inputs, states=states), states

    return run


def _swap() -> Stateful:
    b = GraphBuilder()
    first, second, x = (b.input(name, (1, 2, 1)) for name in ("first", "second", "x"))
    mixed = b.op("add", first, x)
    graph = b.build(mixed, states={first: b.op("reshape", second, newshape=(1, 2, 1)), second: mixed})
    return Stateful(graph, tuple({"x": np.full((1, 2, 1), n, np.float32)} for n in (1, 2, 3)))


@examples(15, 50, deadline=None, suppress_health_check=list(HealthCheck))
@given(stateful())
@example(_swap())
def test_states_mean_the_same_at_all_levels(case: Stateful) -> None:
    agree(case, by_optimized(case.graph))
    agree(case, by_interpreter(compiled(case.graph)))


@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
@given(stateful())
@example(_swap())
def test_states_on_the_machine(case: Stateful) -> None:
    agree(case, by_machine(GraphModule(compiled(case.graph), threads=2, workers=1)))


@pytest.mark.full
@settings(max_examples=1000, deadline=None, suppress_health_check=list(HealthCheck))
@given(stateful(moves=9))
def test_many_states_mean_the_same_at_all_levels(case: Stateful) -> None:
    test_states_mean_the_same_at_all_levels.hypothesis.inner_test(case)  # type: ignore[attr-defined]


class Cache:
    """A cache of 8 places, and two rows for it."""

    def __init__(self) -> None:
        self.b = GraphBuilder()
        self.old, self.new = self.b.input("cache", (1, 8, 4)), self.b.input("new", (1, 2, 4))
        self.at = self.b.input("at", (1,), "int32")

    def written(self, cache: Value | None = None) -> Value:
        value: Value = self.b.op("nn.cache_update", cache or self.old, self.new, self.at, axis=1)
        return value

    def read(self, value: Value) -> Value:
        result: Value = self.b.op("sum", value, axis=(1,))
        return result

    def copies(self, last: Value, *outputs: Value) -> int:
        graph = self.b.build(outputs or (self.read(last),), states={self.old: last})
        inputs = {"new": np.ones((1, 2, 4), np.float32), "at": np.array([3], np.int32)}
        agree(Stateful(graph, (inputs, inputs)), by_interpreter(compiled(graph)))
        return copies(compiled(graph))


def test_an_update_of_a_state_needs_no_copy() -> None:
    c = Cache()
    assert c.copies(c.written()) == 0


def test_nor_do_several_nor_one_behind_another_shape() -> None:
    c = Cache()
    flat = c.b.op("reshape", c.written(c.written()), newshape=(1, 32))
    changed = c.b.op("scatter_elements", flat, np.array([[5]]), np.full((1, 1), 7, np.float32), axis=1)
    assert c.copies(c.b.op("reshape", changed, newshape=(1, 8, 4))) == 0


def test_nor_one_whose_old_value_was_read_before() -> None:
    c = Cache()
    before = c.read(c.old)
    assert c.copies(c.written(), before) == 0


def test_an_old_value_that_is_read_later_is_kept() -> None:
    c = Cache()
    new = c.written()
    assert c.copies(new, c.b.op("add", c.read(new), c.read(c.old))) == 1


def test_an_old_value_that_is_returned_is_kept() -> None:
    c = Cache()
    old = c.b.op("reshape", c.old, newshape=(8, 4))
    assert c.copies(c.written(), old) > 0


def test_an_update_by_the_state_itself_is_no_update_in_place() -> None:
    c = Cache()
    rows = c.b.op("strided_slice", c.old, begin=(0,), end=(2,), axes=(1,))
    moved = c.b.op("nn.cache_update", c.old, rows, c.at, axis=1)
    assert c.copies(moved) == 0  # the slice is a value of its own, read before
    c = Cache()
    assert c.copies(c.b.op("nn.cache_update", c.old, c.old, c.b.op("multiply", c.at, 0), axis=1)) > 0


def test_places_that_are_the_state_itself() -> None:
    b = GraphBuilder()
    old = b.input("s", (4, 2), "int64")
    places = b.op("reshape", old, newshape=(8, 1))
    new = b.op("scatter_elements", old, places, np.arange(8)[:, None], axis=0)
    graph = b.build(b.op("add", new, 1), states={old: new})
    agree(Stateful(graph, ({}, {}, {})), by_interpreter(compiled(graph)))
    assert copies(compiled(graph)) > 0


def test_the_function_of_an_update_must_begin_with_a_copy() -> None:
    from minitvm import te

    x = te.placeholder((4,), "float32", name="x")
    func = te.create_prim_func([x, te.compute((4,), lambda i: x[i] + 1.0)])
    with pytest.raises(tvm.errors.InternalError, match="does not begin by copying"):
        updating(func, 0)


@pytest.mark.parametrize("read", ["nothing", "before", "later", "returned"])
def test_what_a_run_computed_is_updated_where_it_lies(read: str) -> None:
    """Two updates of a sum: in its memory, unless something behind them, or the caller, reads the sum itself."""
    b = GraphBuilder()
    x, rows, places = b.input("x", (5, 3)), b.input("rows", (2, 3)), b.input("places", (2, 1), "int64")
    total = b.op("add", x, 1.0)
    early = b.op("cumsum", total, axis=0)
    once = b.op("scatter_nd", total, places, rows, reduction="add")
    twice = b.op("scatter_nd", once, places, rows, reduction="add")
    late = b.op("cumsum", total, axis=0)
    graph = b.build({"nothing": [twice], "before": [early, twice], "later": [twice, late],
                     "returned": [total, twice]}[read])  # fmt: skip
    fused = tvm.lower(graph, stop_at="fused")
    groups = in_place(fused, is_view, writes_its_output).groups
    assert [len(group) for group in groups] == [3 if read in ("nothing", "before") else 2]
    draw = np.random.default_rng(0)
    inputs = {"x": draw.standard_normal((5, 3)).astype(np.float32), "places": np.array([[1], [4]]),
              "rows": draw.standard_normal((2, 3)).astype(np.float32)}  # fmt: skip
    for found, wanted in zip(interpreter.run(compiled(graph), inputs), oracle.run(graph, inputs), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-6)
