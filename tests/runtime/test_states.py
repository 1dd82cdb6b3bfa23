"""States of a module: they outlive runs, belong to one module, can be read and set, and are not spoilt by mistakes."""

from __future__ import annotations

import pickle
import re
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

import minitvm as tvm
from minitvm.errors import InputError, MinitvmError, TypeMismatch, Unsupported, VerificationError
from minitvm.executable import Bound, Executable, Input, State, StateSpec, load, save, script, verify
from minitvm.expr import DType, SizeVar, structural_equal
from minitvm.frontends.relax import script as relax_script
from minitvm.graph import Graph, GraphBuilder, GraphState, verify_graph
from minitvm.reference import executable as interpreter
from minitvm.reference import graph as oracle
from minitvm.runtime import GraphModule
from minitvm.runtime.states import memory_of
from minitvm.script import from_source
from tests.fewer import examples


def log() -> Graph:
    """A log of 4 rows: each run writes a row, and returns the sum of all."""
    b = GraphBuilder("log")
    rows, row, at = b.input("rows", (1, 4, 2)), b.input("row", (1, 1, 2)), b.input("at", (1,), "int32")
    new = b.op("nn.cache_update", rows, row, b.op("cast", b.op("subtract", at, 1), dtype="int64"), axis=1)
    return b.build(b.op("sum", new, axis=(1,)), states={rows: new})


@pytest.fixture(scope="module")
def executable() -> Executable:
    program: Executable = tvm.lower(log(), stop_at="executable")
    return program


def row(value: float, at: int) -> dict[str, np.ndarray]:
    return {"row": np.full((1, 1, 2), value, np.float32), "at": np.array([at], np.int32)}


def test_a_state_outlives_the_run_and_belongs_to_one_module(executable: Executable) -> None:
    one, other = GraphModule(executable), GraphModule(executable)
    assert one(**row(3, 1)).tolist() == [[3, 3]]
    assert one(**row(4, 2)).tolist() == [[7, 7]]
    assert other(**row(5, 4)).tolist() == [[5, 5]]
    assert one.state["rows"][0, :, 0].tolist() == [3, 4, 0, 0]
    assert other.state["rows"][0, :, 0].tolist() == [0, 0, 0, 5]
    one.reset()
    assert not one.state["rows"].any()
    assert other.state["rows"].any()


def test_a_state_is_read_and_set_by_copies(executable: Executable) -> None:
    one, other = GraphModule(executable), GraphModule(executable)
    before = one.state["rows"]
    given = np.ones((1, 4, 2), np.float32)
    one.state["rows"] = given
    given[:] = 9
    assert not before.any()
    assert (one.state["rows"] == 1).all()
    other.state.update(one.state)
    assert other(**row(5, 1)).tolist() == [[8, 8]]
    assert (one.state["rows"] == 1).all()
    assert list(one.state) == ["rows"]
    assert repr(one.state) == "States(rows: float32[1, 4, 2])"


MISTAKES: list[tuple[str, Any, str]] = [
    ("rows", np.ones((1, 3, 2), np.float32), "log: the shape of rows does not fit: dimension 1 is 3, wanted 4"),
    ("rows", np.ones((4, 2), np.float32), "log: the shape of rows does not fit: 3 dimensions, found 2"),
    ("rows", np.ones((1, 4, 2)), "log: the dtype of rows does not fit"),
    ("row", np.ones((1, 4, 2)), "log has no state 'row'; did you mean rows?"),
]


def test_modules_can_share_states(executable: Executable) -> None:
    """A module reads the states that a run of the other leaves; also after both have run on memory of their own."""
    one, other = GraphModule(executable), GraphModule(executable)
    one(**row(3, 1))
    other(**row(5, 4))
    other.share_states(one)
    assert other(**row(4, 2)).tolist() == [[7, 7]]
    assert one(**row(1, 3)).tolist() == [[8, 8]]
    one.state["rows"] = np.zeros((1, 4, 2), np.float32)
    assert not other.state["rows"].any()
    other.reset()
    assert one(**row(2, 1)).tolist() == [[2, 2]]


def test_two_threads_share_states_in_both_directions(executable: Executable) -> None:
    pair = [GraphModule(executable) for _ in range(2)]

    def share(one: GraphModule, other: GraphModule) -> None:
        for _ in range(500):
            one.share_states(other)

    threads = [threading.Thread(target=share, args=order, daemon=True) for order in (pair, pair[::-1])]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive(), "each waits for the other one"


def test_states_that_cannot_be_shared_remain(executable: Executable, monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = GraphModule(executable), GraphModule(executable)
    one(**row(3, 1))
    with pytest.raises(InputError, match="wanted another module, found States"):
        other.share_states(one.state)  # type: ignore[arg-type]
    monkeypatch.setattr(other._program, "states", [object()])  # as on a device
    with pytest.raises(Unsupported, match="shares no states"):
        other.share_states(one)
    assert not other.state["rows"].any(), "these are not the states of the other module"


def test_states_of_other_types_are_not_shared(executable: Executable) -> None:
    b = GraphBuilder("count")
    count = b.input("count", (1,))
    counter = tvm.build(b.build(b.op("add", count, 1.0), states={count: b.op("add", count, 1.0)}), threads=1)
    with pytest.raises(InputError) as caught:
        counter.share_states(GraphModule(executable))
    assert str(caught.value) == (
        "count and log have different states, so they cannot share them\n"
        "  wanted: count: float32[1]\n"
        "  found:  count: no such state"
    )
    assert counter().tolist() == [1]


@pytest.mark.parametrize(("name", "array", "text"), MISTAKES)
def test_what_does_not_fit_is_refused_and_changes_nothing(
    executable: Executable, name: str, array: Any, text: str
) -> None:
    module = GraphModule(executable)
    module.state["rows"] = np.full((1, 4, 2), 2, np.float32)
    with pytest.raises((InputError, TypeMismatch)) as caught:
        module.state.update({"rows": np.zeros((1, 4, 2), np.float32), name: array})
    assert str(caught.value).split("\n")[0] == text
    assert (module.state["rows"] == 2).all()


@pytest.mark.parametrize("at", [0, 5, -1])
def test_a_position_beyond_the_bound_is_refused_before_anything_is_written(executable: Executable, at: int) -> None:
    module = GraphModule(executable)
    module(**row(3, 4))
    with pytest.raises(InputError) as caught:
        module(**row(7, at))
    assert str(caught.value) == (
        "log: cache_update writes 1 of 4 places of rows\n"
        f"  wanted: at from 1 to 4\n  found:  {at}\n  nothing was changed"
    )
    assert module.state["rows"][0, :, 0].tolist() == [0, 0, 0, 3]
    with pytest.raises(InputError, match=r"wanted: at from 1 to 4\n  found:  "):
        interpreter.run(executable, row(7, at))
    with pytest.raises(InputError, match="place .* of 4"):
        oracle.run(log(), row(7, at), states={})


def test_rows_of_an_open_number_have_a_bound_that_depends_on_it(tmp_path: Path) -> None:
    """A decoder writes a prompt of any length, or one token: the last place is the bound of both."""
    b, s = GraphBuilder("log"), SizeVar("s")
    rows, new, total = b.input("rows", (1, 4, 2)), b.input("new", (1, s, 2)), b.input("total", (1,), "int32")
    begin = b.op("subtract", total, b.op("shape_to_tensor", values=(s,), shape=(1,), dtype="int32"))
    after = b.op("nn.cache_update", rows, new, b.op("cast", begin, dtype="int64"), axis=1)
    executable: Executable = tvm.lower(
        b.build(b.op("sum", after, axis=(1,)), states={rows: after}), stop_at="executable"
    )
    save(executable, tmp_path / "log")
    verify(executable)

    def of(count: int, total: int) -> dict[str, np.ndarray]:
        return {"new": np.ones((1, count, 2), np.float32), "total": np.array([total], np.int32)}

    for module in (GraphModule(executable), GraphModule(load(tmp_path / "log"))):
        module(**of(3, 3))
        module(**of(1, 4))
        for count, total in ((1, 5), (2, 5), (5, 5), (3, 2)):
            with pytest.raises(InputError) as caught:
                module(**of(count, total))
            assert str(caught.value) == (
                f"log: cache_update writes s of 4 places of rows\n  wanted: total from {count} to 4\n"
                f"  found:  {total}\n  nothing was changed"
            )
            with pytest.raises(InputError, match=f"wanted: total from {count} to 4"):
                interpreter.run(executable, of(count, total))
        assert module.state["rows"][0, :, 0].tolist() == [1, 1, 1, 1]


def repeated_log(limit: int) -> Graph:
    """Each run writes `limit` rows from a place on, one in each iteration of a loop."""
    b = GraphBuilder("log")
    rows, row, at = b.input("rows", (1, 5, 2)), b.input("row", (1, 1, 2)), b.input("at", (1,), "int64")

    def iteration(number: Any, old: Any) -> Any:
        place = b.op("add", b.op("reshape", number, newshape=(1,)), b.op("add", at, 1))
        return True, [b.op("nn.cache_update", old, row, place, axis=1)]

    _, new = b.loop(iteration, [rows], limit=limit)
    return b.build(b.op("sum", new, axis=(1,)), states={rows: new})


@pytest.mark.parametrize("limit", [1, 3])
def test_a_position_in_a_loop_has_the_bound_of_all_its_iterations(limit: int) -> None:
    module = tvm.build(repeated_log(limit), threads=1)
    one = np.ones((1, 1, 2), np.float32)
    for at in (-1, 4 - limit):
        assert module(one, np.array([at])).tolist() == [[limit, limit]]
        module.reset()
    for at in (-2, 5 - limit):
        with pytest.raises(
            InputError, match=f"wanted: at from -1 to {4 - limit}\n  found:  {at}\n  nothing was changed"
        ):
            module(one, np.array([at]))
        assert not module.state["rows"].any()


def test_a_state_can_be_the_position() -> None:
    b = GraphBuilder("tape")
    tape, at, x = b.input("tape", (1, 2), "int32"), b.input("at", (1,), "int32"), b.input("x", (1, 1), "int32")
    new = b.op("nn.cache_update", tape, x, at, axis=1)
    module = tvm.build(b.build(new, states={tape: new, at: b.op("add", at, 1)}))
    assert [module(np.array([[n]], np.int32)).tolist() for n in (7, 8)] == [[[7, 0]], [[7, 8]]]
    with pytest.raises(InputError, match="tape: .*\n  wanted: at from 0 to 1\n  found:  2"):
        module(np.array([[9]], np.int32))
    assert module.state["tape"].tolist() == [[7, 8]]


def test_states_are_in_saved_programs(executable: Executable, tmp_path: Path) -> None:
    save(executable, tmp_path / "log")
    again = load(tmp_path / "log")
    assert script(again) == script(executable)
    assert (again.states, again.bounds) == (executable.states, executable.bounds)
    module = GraphModule(executable)
    module(**row(3, 1))
    module.export(tmp_path / "log.tvm")
    loaded = tvm.runtime.load(tmp_path / "log.tvm")
    assert not loaded.state["rows"].any()
    assert loaded(**row(4, 2)).tolist() == [[4, 4]]
    with pytest.raises(InputError, match="wanted: at from 1 to 4"):
        loaded(**row(4, 0))


def test_states_that_do_not_fit_are_refused_where_they_are_declared() -> None:
    b = GraphBuilder()
    x, n = b.input("x", (2,)), b.input("n", (SizeVar("n"),))
    wide = b.op("concatenate", x, x, axis=0)
    with pytest.raises(InputError, match=r"the state x: wanted one type of constant shape, found float32\[2\] and flo"):
        b.build(wide, states={x: wide})
    with pytest.raises(InputError, match="the state n: wanted one type of constant shape"):
        b.build(wide, states={n: n})
    with pytest.raises(InputError, match="a state is an input and a value of this builder"):
        b.build(wide, states={wide: wide})
    graph = b.build(wide, states={x: b.op("add", x, 1.0)})
    with pytest.raises(MinitvmError, match=r"params: x is a state, which each run changes\n  try:    module.state"):
        tvm.build(graph, params={"x": np.zeros(2, np.float32)})
    assert "# the next run's x is add" in graph.script()


BROKEN = [
    ("unique_names", {"states": (StateSpec("rows", DType("float32"), (1, 4, 2)),) * 2}),
    ("states_fixed", {"states": (StateSpec("rows", DType("float32"), (SizeVar("n"), 4, 2)),)}),
    ("states_fixed", {"states": (StateSpec("rows", DType("float32"), (1, 4, 2), first=0),)}),  # of another type
    ("states_fixed", {"states": (StateSpec("rows", DType("float32"), (1, 4, 2), first=9),)}),
    ("states_fixed", {"bounds": (Bound(State(3), 0, 1),)}),
    ("states_fixed", {"bounds": (Bound(Input(0), 0, 1),)}),  # floats
    ("indices_in_range", {"states": ()}),
    ("arguments_fit", {"states": (StateSpec("rows", DType("int64"), (1, 4, 2)),)}),
]


@pytest.mark.parametrize(("rule", "change"), BROKEN)
def test_a_broken_executable_is_refused(executable: Executable, rule: str, change: dict[str, Any]) -> None:
    verify(executable)
    with pytest.raises(VerificationError, match=f"executable log: {rule}"):
        verify(replace(executable, **change))


def test_a_back_end_may_keep_no_states(executable: Executable) -> None:
    with pytest.raises(Unsupported, match="the back end cpu keeps no states: its programs have no memory for them"):
        memory_of(executable, object())


def test_the_report_on_memory_counts_states(executable: Executable) -> None:
    assert GraphModule(executable).memory.states == 32
    assert str(GraphModule(executable).memory).endswith("\nstates 32 bytes")


def test_the_interpreters_know_the_states_by_name(executable: Executable) -> None:
    with pytest.raises(InputError, match="log has no state row"):
        interpreter.run(executable, row(1, 1), states={"row": np.zeros(1)})
    with pytest.raises(InputError, match="log has no state row"):
        oracle.run(log(), row(1, 1), states={"row": np.zeros(1)})
    with pytest.raises(InputError, match="log: rows is a state, not an input"):
        oracle.run(log(), {**row(1, 1), "rows": np.zeros((1, 4, 2), np.float32)}, states={})


def test_a_module_without_states_suggests_none() -> None:
    b = GraphBuilder("plain")
    module = tvm.build(b.build(b.op("add", b.input("x", (1,)), 1.0)), threads=1)
    with pytest.raises(InputError, match="plain has no state 'nope'; known: none$"):
        module.state["nope"]


DTYPES = ["float32", "float16", "bfloat16", "float64", "int8", "uint8", "int32", "int64", "bool"]


@st.composite
def counters(draw: st.DrawFn) -> tuple[Graph, np.ndarray, np.ndarray]:
    """Draw a graph that adds its input to a state, the first value of the state, and an input."""
    dtype = DType(draw(st.sampled_from(DTYPES)))
    shape = tuple(draw(st.lists(st.integers(0, 3), max_size=2)))
    numbers = np.random.default_rng(draw(st.integers(0, 2**16)))
    first, x = (np.array(numbers.integers(-4, 5, shape) * draw(st.booleans()), dtype.numpy) for _ in range(2))
    first = draw(st.sampled_from([first, np.full(shape, 3).astype(dtype.numpy)]))
    b = GraphBuilder("counter")
    state, step = b.input("state", shape, dtype), b.input("step", shape, dtype)
    new = b.op("logical_xor" if dtype.is_bool else "add", state, step)
    return b.build(new, states={state: new}, first={state: first}), first, x


@examples(25, 300, deadline=None, suppress_health_check=list(HealthCheck))
@given(counters())
def test_a_first_value_is_where_all_forms_of_a_program_begin(
    tmp_path_factory: pytest.TempPathFactory, case: tuple[Graph, np.ndarray, np.ndarray]
) -> None:
    """The text, the interpreters, the module, its reset, its artifact and its pickle all begin as the graph says."""
    graph, first, x = case
    folder = tmp_path_factory.mktemp("first")
    again = from_source(relax_script(graph))["main"]
    assert structural_equal(again, graph)
    expected = np.asarray(np.logical_xor(first, x) if first.dtype == bool else first + x)
    executable: Executable = tvm.lower(again, stop_at="executable")
    save(executable, folder / "counter")
    assert script(load(folder / "counter")) == script(executable)
    for run in (oracle.run, interpreter.run):
        states: dict[str, np.ndarray] = {}
        results = [run(graph if run is oracle.run else executable, {"step": x}, states=states) for _ in range(2)]
        assert same_bits(results[0][0], expected)
    module = GraphModule(load(folder / "counter"), threads=1)
    assert same_bits(module.state["state"], first)
    assert same_bits(module(x), expected)
    module(x)
    copy = pickle.loads(pickle.dumps(module))
    assert same_bits(copy.state["state"], module.state["state"])
    for reset in (module, copy):
        reset.reset()
        assert same_bits(reset.state["state"], first)
    module.export(folder / "counter.tvm")
    assert same_bits(tvm.runtime.load(folder / "counter.tvm")(x), expected)


def same_bits(a: np.ndarray, b: np.ndarray) -> bool:
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


def test_a_first_value_is_printed() -> None:
    b = GraphBuilder("count")
    count = b.input("count", (2,), "int32")
    graph = b.build(b.op("multiply", count, 2), states={count: b.op("add", count, 1)}, first={count: 5})
    assert "# the first run's count is 5\n" in graph.script()
    assert 'count = state((2,), "int32", first=count_first)' in script(tvm.lower(graph, stop_at="executable"))
    assert b.build(count, states={count: count}, first={count: 0}).states[0].first is None


def test_a_first_value_that_does_not_fit_is_refused() -> None:
    b = GraphBuilder()
    x = b.input("x", (2,))
    with pytest.raises(InputError) as caught:
        b.build(x, states={x: x}, first={x: np.zeros(3, np.float32)})
    assert str(caught.value) == (
        "the first value of the state x\n  wanted: float32[2], or a number\n  found:  float32[3]"
    )
    with pytest.raises(InputError, match="a first value is for a state, found Value"):
        b.build(x, first={x: 1.0})
    broken = replace(b.build(x, states={x: x}), states=(GraphState(0, 0, np.zeros(3, np.float32)),))
    with pytest.raises(VerificationError, match=r"the state x is float32\[2\], and its first value float32\[3\]"):
        verify_graph(broken)


@pytest.mark.parametrize(
    "attrs", ['{"states": [[0, 5]]}', '{"states": [[0, 0]], "first": ["x"]}', '{"states": [[0, 0]], "first": ["[1]"]}']
)
def test_states_of_a_relax_text_that_do_not_fit_are_refused(attrs: str) -> None:
    b = GraphBuilder()
    x = b.input("x", (2,))
    text = relax_script(b.build(b.op("negative", x), states={x: b.op("negative", x)}))
    text = re.sub(r'\{"states".*\}', lambda _: attrs.replace("0, 0", "0, 1"), text).replace('["[1]"]', '["[1, 2, 3]"]')
    with pytest.raises(MinitvmError, match="the states of a function"):
        from_source(text)
