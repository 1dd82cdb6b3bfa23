"""A size that a step of the program binds: memory for its bound, what is refused, and files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import minitvm as tvm
from minitvm import runtime
from minitvm.errors import InputError, Unsupported, VerificationError
from minitvm.executable import BindSize, evaluate, script, verify
from minitvm.expr import Expr, Max, Min, SizeVar, free_vars
from minitvm.expr.largest import largest
from minitvm.graph import Graph, GraphBuilder, verify_graph
from minitvm.graph.passes.dead_code import dead_code
from minitvm.reference import executable as executables
from minitvm.reference import graph as interpreter


def first_rows(most: int = 4) -> Graph:
    """The first rows of x, as many as `count` says, twice over; and the sum of each column."""
    b = GraphBuilder("first_rows")
    x, count = b.input("x", (6, 3)), b.input("count", (), "int64")
    n = SizeVar("n")
    b.op("bind_size", count, size=n, most=most, where="the rows")
    rows = b.op("exp", b.op("leading", x, size=n))
    return b.build(
        [b.op("concatenate", rows, rows), b.op("sum", rows, axis=0), b.op("shape_to_tensor", values=(n,), shape=(1,))]
    )


X = np.arange(18, dtype=np.float32).reshape(6, 3) / 9


def expected(count: int) -> list[np.ndarray]:
    rows = np.exp(X[:count])
    return [np.concatenate([rows, rows]), rows.sum(0), np.array([count])]


@pytest.mark.parametrize("threads", [1, 3])
def test_outputs_have_the_shape_that_data_decide(threads: int) -> None:
    module = tvm.build(first_rows(), threads=threads)
    for count in (2, 2, 0, 4, 1, 2):
        inputs = {"x": X, "count": np.array(count)}
        for found in (
            module(**inputs),
            executables.run(module.executable, inputs),
            interpreter.run(first_rows(), inputs),
        ):
            for a, b in zip(found, expected(count), strict=True):
                assert a.shape == b.shape
                np.testing.assert_allclose(a, b, rtol=1e-6)


def test_what_depends_on_two_sizes_follows_either() -> None:
    """From run to run one of them changes, the other one, or both: a kernel gets their product."""
    b, n, m = GraphBuilder("two_sizes"), SizeVar("n"), SizeVar("m")
    x, counts = b.input("x", (6, 3)), [b.input(name, (), "int64") for name in ("first", "second")]
    for count, size, most in zip(counts, (n, m), (6, 3), strict=True):
        b.op("bind_size", count, size=size, most=most, where="a count")
    part = b.op("leading", b.op("leading", x, size=n, axis=0), size=m, axis=1)
    graph = b.build([b.op("cumsum", b.op("reshape", part, newshape=(n * m,)), axis=0)])
    module = tvm.build(graph, threads=1)
    for first, second in ((5, 2), (3, 2), (6, 2), (6, 3), (2, 3), (2, 1), (6, 1), (4, 2)):
        found = module(X, np.array(first), np.array(second))
        np.testing.assert_allclose(found, np.cumsum(X[:first, :second]), rtol=1e-6)


def test_memory_is_planned_for_the_bound_and_known_before_the_run() -> None:
    executable = tvm.lower(first_rows(), stop_at="executable")
    assert all(isinstance(arena.size, int) for arena in executable.arenas)
    assert "n = bind_size(count, most=4)" in script(executable)
    verify(executable)


@pytest.mark.parametrize("count", [5, -1, 2**40])
def test_a_size_beyond_its_bound_stops_the_run_before_anything_is_written(count: int) -> None:
    module = tvm.build(first_rows(), threads=1)
    inputs = {"x": X, "count": np.array(count)}
    with pytest.raises(InputError, match=rf"the rows: the size n.*\n.*0 to 4\n.*{count}"):
        module(**inputs)
    for run in (lambda: executables.run(module.executable, inputs), lambda: interpreter.run(first_rows(), inputs)):
        with pytest.raises(InputError, match=f"n is {count}; wanted 0 to 4"):
            run()
    np.testing.assert_allclose(module(x=X, count=np.array(3))[1], expected(3)[1], rtol=1e-6)


def test_a_caller_cannot_bring_arrays_for_shapes_that_data_decide() -> None:
    module = tvm.build(first_rows(), threads=1)
    out = [np.zeros((4, 3), np.float32), np.zeros(3, np.float32), np.zeros(1, np.int64)]
    with pytest.raises(InputError, match="data decide that of concatenate"):
        module(X, np.array(2), out=out)


def test_what_relies_on_a_bound_size_is_checked_once_it_is_bound() -> None:
    b = GraphBuilder()
    x, y, count = b.input("x", (5,)), b.input("y", (SizeVar("m"),)), b.input("count", (), "int64")
    n = SizeVar("n")
    b.op("bind_size", count, size=n, most=5)
    rows = b.op("match_cast", b.op("leading", x, size=n), dims=((n, y.shape[0]),), where="their sum")
    graph = b.build(b.op("add", rows, y))
    module = tvm.build(graph, threads=1)
    inputs = {"x": X[0].repeat(2)[:5], "y": np.ones(3, np.float32), "count": np.array(3)}
    np.testing.assert_array_equal(module(**inputs), inputs["x"][:3] + 1)
    for run in (
        module,
        lambda **inputs: executables.run(module.executable, inputs),
        lambda **inputs: interpreter.run(graph, inputs),
    ):
        with pytest.raises(InputError, match="their sum"):
            run(**{**inputs, "count": np.array(2)})


def test_the_saved_program_binds_it_too(tmp_path: Path) -> None:
    module = tvm.build(first_rows(), threads=1)
    module.export(tmp_path / "rows.mtvm")
    loaded = runtime.load(tmp_path / "rows.mtvm")
    assert script(loaded.executable) == script(module.executable)
    for count in (4, 0, 2):
        for a, b in zip(loaded(X, np.array(count)), expected(count), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-6)
    with pytest.raises(InputError, match="the rows"):
        loaded(X, np.array(5))


def test_a_profile_counts_the_work_of_the_size_that_was_found() -> None:
    module = tvm.build(first_rows(), threads=1)
    assert "bind_size" in str(module.profile(X, np.array(3), runs=2))


def test_a_binding_is_needed_by_those_that_use_the_size() -> None:
    graph = dead_code(first_rows())
    assert [node.op for node in graph.nodes].count("bind_size") == 1
    unused = dead_code(replace_outputs(first_rows(), 0))
    assert not unused.nodes


def replace_outputs(graph: Graph, position: int) -> Graph:
    """The graph that returns an input alone."""
    return Graph(graph.inputs, graph.constants, graph.nodes, (graph.inputs[position],), graph.name)


@pytest.mark.parametrize("fault", ["twice", "late", "input"])
def test_the_verifier_of_graphs_finds_a_size_out_of_order(fault: str) -> None:
    b = GraphBuilder()
    n = SizeVar("n")
    x, count = b.input("x", (n if fault == "input" else 6,)), b.input("count", (), "int64")
    if fault == "late":
        y = b.op("leading", x, size=n)
    for _ in range(2 if fault == "twice" else 1):
        b.op("bind_size", count, size=n, most=6)
    if fault != "late":
        y = b.op("leading", x, size=n)
    with pytest.raises(VerificationError, match="sizes_bound_once"):
        verify_graph(b.build(y))


@pytest.mark.parametrize("fault", ["twice", "late", "missing"])
def test_the_verifier_of_executables_finds_a_size_without_a_value(fault: str) -> None:
    executable = tvm.lower(first_rows(), stop_at="executable")
    (binding,) = (step for step in executable.steps if isinstance(step, BindSize))
    others = tuple(step for step in executable.steps if step is not binding)
    steps = {"twice": (binding, *executable.steps), "late": (*others, binding), "missing": others}[fault]
    with pytest.raises(VerificationError, match="symbols_bound"):
        verify(replace(executable, steps=steps))


def test_the_largest_value_of_an_expression_bounds_all_its_values() -> None:
    n, k, m = SizeVar("n"), SizeVar("k"), SizeVar("m")
    most = {n: m * 2, k: n}  # k is at most n, which is at most 2 * m
    for size in (
        n * 3 + 4, n * n, m - n + m * 2, (n + k + 7) // 8 * 8, n % 5 + k, Min(n, k + 3), Max(n - 4, m), n * -2 + m * 9,
        (n - k) // 2 + m * 2, 6, m * 8 // (n + 1), (m - 3) // (k + 2), (n - k * 2) // (n + 1),
    ):  # fmt: skip
        bound = largest(size, most)
        assert not isinstance(bound, Expr) or set(free_vars(bound)) <= {m}
        for a in range(4):
            values = [evaluate(size, {m: a, n: b, k: c}) for b in range(2 * a + 1) for c in range(b + 1)]
            assert max(values) <= evaluate(bound, {m: a})
    with pytest.raises(Unsupported, match="there is no bound of FloorDiv"):
        largest(m // (n - 1), most)
