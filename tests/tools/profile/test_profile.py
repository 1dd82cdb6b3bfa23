"""A profile of small programs: it says what ran, for how long, and how much was done."""

from __future__ import annotations

import dataclasses
import json
import re
from itertools import pairwise
from math import inf
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import minitvm as tvm
from minitvm.errors import InputError
from minitvm.executable import load, save
from minitvm.graph import Graph, GraphBuilder
from minitvm.runtime import GraphModule
from minitvm.tools.profile import Level, Machine, Profile, Row

measure: Any = __import__("minitvm.tools.profile.measure", fromlist=["measure"])
MACHINE = Machine("paper", 1, 1e11, (Level("L1", 1 << 15, 1e11), Level("memory", inf, 1e10)))


@pytest.fixture(autouse=True)
def known_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests measure no machine."""
    monkeypatch.setattr(
        measure, "machine", lambda threads, again=False: Machine("paper", threads, 1e13, MACHINE.levels)
    )


def layers() -> Graph:
    b = GraphBuilder("layers")
    x = b.input("x", (64, 96))
    w = b.constant(np.random.default_rng(0).standard_normal((48, 96)).astype("float32"), "w")
    dense = b.op("nn.dense", x, w)
    return b.build(b.op("nn.softmax", b.op("nn.relu", dense), axis=-1))


@pytest.fixture(scope="module", params=[1, 2, 3])
def profiled(request: pytest.FixtureRequest) -> tuple[GraphModule, Profile]:
    module = tvm.build(layers(), threads=request.param)
    before = measure.machine
    measure.machine = lambda threads, again=False: Machine("paper", threads, 1e13, MACHINE.levels)
    try:
        return module, module.profile(np.ones((64, 96), np.float32), runs=5)
    finally:
        measure.machine = before


def test_rows_name_the_values_of_the_model() -> None:
    """Inside of blocked layouts, and where parts of a concatenation are written in place."""
    b = GraphBuilder("parts")
    x = b.input("x", (1, 16, 8, 8))
    weights = np.random.default_rng(0).standard_normal((16, 16, 3, 3)).astype("float32")
    first = b.op("nn.relu", b.op("nn.conv2d", x, weights, padding=1), name="first")
    parts = [b.op("nn.relu", b.op("nn.conv2d", first, weights, padding=1), name=f"part_{k}") for k in range(2)]
    both = b.op("concatenate", *parts, axis=1, name="both")
    graph = b.build(b.op("nn.conv2d", both, np.ones((16, 32, 1, 1), "float32"), name="total"))
    profile = tvm.build(graph, threads=1, accuracy="strict").profile(np.ones((1, 16, 8, 8), np.float32), runs=1)
    named = [value for row in profile.rows for value in row.values]
    assert [name for name in named if name in ("first", "both", "total")] == ["first", "both", "both", "total"]
    assert f"  {'total'}" in str(profile)


def test_rows_name_the_nodes_of_the_model(tmp_path: Path) -> None:
    """All those that an operator computes, whatever passes have made of them; in a saved program, too."""
    b = GraphBuilder("net")
    x = b.input("x", (1, 16, 8, 8))
    weights = np.random.default_rng(0).standard_normal((16, 16, 3, 3)).astype("float32")
    value = x
    for node, op, inputs, attrs in (
        ("/f/0/Conv", "nn.conv2d", (weights,), {"padding": 1}),
        ("/f/1 (a, b)/Relu", "nn.relu", (), {}),
        ("/f/2/MaxPool", "nn.max_pool2d", (), {"pool_size": (2, 2), "strides": (2, 2)}),
    ):
        b.where = f"operator {op} (node {node}): operator Inner (node inside)"
        value = b.op(op, value, *inputs, **attrs)
    module = tvm.build(b.build(value), threads=1, accuracy="strict")
    profile = module.profile(np.ones((1, 16, 8, 8), np.float32), runs=1)
    nodes = {row.operator: row.nodes for row in profile.rows if row.nodes}
    assert nodes == {
        "conv2d_NCHWc_relu": ("/f/0/Conv", "/f/1 (a, b)/Relu"), "max_pool2d": ("/f/2/MaxPool",),
    }  # fmt: skip
    assert profile.row("/f/2/MaxPool").operator == "max_pool2d"
    assert re.search(r"^max_pool2d .* /f/2/MaxPool$", str(profile), re.MULTILINE)
    save(module.executable, tmp_path / "net")
    assert load(tmp_path / "net").model_nodes == module.executable.model_nodes


def test_short_times_are_in_microseconds() -> None:
    row = Row("f", ("f",), 12.3456e-6, 0.0, 0, 0, (), 0.0, 0.0, 1e11)
    short = str(Profile("net", MACHINE, 1, 12.5e-6, 13.5e-6, (row,), ()))
    assert short.startswith("net: 13.5 us on ") and "time stamps 12.5 us" in short
    assert re.search(r"^operator +us ", short, re.MULTILINE) and re.search(r"^f +12\.346 ", short, re.MULTILINE)
    long = str(Profile("net", MACHINE, 1, 2.5, 2.5, (dataclasses.replace(row, seconds=2.25),), ()))
    assert re.search(r"^operator +ms ", long, re.MULTILINE) and re.search(r"^f +2250\.000 ", long, re.MULTILINE)


def test_rows_are_the_operators_in_order(profiled: tuple[GraphModule, Profile]) -> None:
    module, profile = profiled
    fused = tvm.lower(layers(), stop_at="kernel")
    assert [row.operator for row in profile.rows] == list(fused)
    kernels = [name for row in profile.rows for name in row.kernels]
    assert sorted(kernels) == sorted(k.name for k in module.executable.kernels)
    assert profile.threads == module.threads and profile.runs == 5


def test_times_add_up(profiled: tuple[GraphModule, Profile]) -> None:
    _, profile = profiled
    assert all(row.seconds > 0 and 0 <= row.waiting <= 1 for row in profile.rows)
    assert sum(row.seconds for row in profile.rows) <= profile.seconds * 1.0001
    assert 0 < profile.plain_seconds < 10


def test_what_one_thread_does_for_another_is_shared() -> None:
    """Thread 0 was held up in front of the second of two operators; when it came, another one had done it alone."""
    late = [[100, 5_000, 5_001], [100, 1_000, 5_001]]
    usual = [[100, 1_000, 3_100], [100, 1_000, 3_100]]
    absent = [[100, 1_000, 3_100], [0, 0, 0]]
    executable = SimpleNamespace(steps=(None, None))
    groups = [measure._OperatorSteps("f", range(1)), measure._OperatorSteps("g", range(1, 2))]
    for runs, wanted in (([late], [2_900, 2_001]), ([late, usual], [900, 2_001]), ([absent], [900, 2_100])):
        times = [measure._times(executable, np.array(runs), group)[0] for group in groups]
        np.testing.assert_allclose(times, [one * 1e-9 for one in wanted])


@given(st.data(), st.integers(1, 4), st.integers(1, 5))
def test_operators_take_no_longer_than_the_run(data: st.DataObject, threads: int, count: int) -> None:
    """Whatever threads are missing at whatever stamps: thread 0 has them all."""
    moments = st.lists(st.integers(1, 10_000), min_size=count + 1, max_size=count + 1).map(sorted)
    stamps = np.array([data.draw(moments) for _ in range(threads)])
    stamps[1:] *= data.draw(arrays(bool, (threads - 1, count + 1)))
    executable = SimpleNamespace(steps=(None,) * count)
    groups = [measure._OperatorSteps("f", range(step, step + 1)) for step in range(count)]
    total = sum(measure._times(executable, stamps[None], group)[0] for group in groups)
    assert total <= measure._spans(stamps[None], 0, -1).max() * (1 + 1e-9)


def test_work_is_counted_not_guessed(profiled: tuple[GraphModule, Profile]) -> None:
    _, profile = profiled
    dense = next(row for row in profile.rows if "dense" in row.operator)
    assert 2 * 64 * 96 * 48 <= dense.flops <= 2 * 64 * 96 * 48 + 64 * 48
    assert dense.bytes >= 4 * (64 * 96 + 96 * 48 + 64 * 48) and dense.exact
    assert dense.rate == dense.flops / dense.seconds and dense.share_of_peak == dense.rate / 1e13
    assert profile.row(dense.operator) is dense
    with pytest.raises(InputError, match="did you mean"):
        profile.row(dense.operator + "x")


def test_the_timeline_is_a_run(profiled: tuple[GraphModule, Profile]) -> None:
    """Of each thread the events follow each other; no kernel of an operator starts before the last one's barrier."""
    module, profile = profiled
    for thread in range(profile.threads):
        mine = [event for event in profile.timeline if event[2] == thread]
        assert all(a[4] <= b[3] + 1e-9 for a, b in pairwise(mine))
    steps = module.executable.steps
    parallel = any(getattr(step, "parallel", False) for step in steps)
    threads = {event[2] for event in profile.timeline}
    # On a busy machine a worker may not take part.
    assert {0} <= threads <= set(range(profile.threads if parallel else 1))


def test_a_run_begins_with_its_first_thread(profiled: tuple[GraphModule, Profile]) -> None:
    """Which is not always thread 0."""
    module, _ = profiled
    steps = np.arange(len(module.executable.steps) + 1)
    stamps = np.stack([1000 + 100 * steps, 960 + 110 * steps])
    events = measure._timeline(module.executable, stamps, measure._groups(module.executable))
    assert events and all(0 <= start < end for *_, start, end in events)


def test_the_trace_is_one_that_viewers_read(profiled: tuple[GraphModule, Profile], tmp_path: Path) -> None:
    _, profile = profiled
    data = json.loads(profile.save_trace(tmp_path / "trace.json").read_text())
    events = data["traceEvents"]
    assert data["displayTimeUnit"] in ("ms", "ns")
    for event in events:
        assert {"name", "ph", "pid", "tid", "ts"} <= event.keys() and event["ph"] in "XM"
        if event["ph"] == "X":
            assert event["dur"] > 0 and event["ts"] >= 0 and isinstance(event["tid"], int)
    tracks = {event["tid"] for event in events if event["ph"] == "M" and event["name"] == "thread_name"}
    assert tracks == set(range(profile.threads)) >= {event["tid"] for event in events if event["ph"] == "X"}
    operators = {event["name"] for event in events if event.get("cat") == "kernel"}
    assert operators == {row.operator for row in profile.rows}


def test_the_picture_is_a_png(profiled: tuple[GraphModule, Profile], tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    from PIL import Image

    with Image.open(profiled[1].save_roofline(tmp_path / "roofline.png")) as picture:
        picture.load()
        assert picture.format == "PNG" and picture.width > 800
        colours = picture.convert("RGB").getcolors(1 << 24)
        assert colours is not None and len(colours) > 50


def test_an_artifact_is_profiled_from_its_text(tmp_path: Path) -> None:
    module = tvm.build(layers(), threads=1)
    save(module.executable, tmp_path / "net")
    again = GraphModule(load(tmp_path / "net"), threads=1)
    x = np.ones((64, 96), np.float32)
    mine, theirs = module.profile(x, runs=2), again.profile(x, runs=2)
    assert [(r.operator, r.flops, r.bytes) for r in theirs.rows] == [(r.operator, r.flops, r.bytes) for r in mine.rows]


def test_open_dimensions_are_those_of_the_inputs() -> None:
    from minitvm import te

    n = te.var("n")
    b = GraphBuilder("open")
    x = b.input("x", (n, 32))
    module = tvm.build(b.build(b.op("nn.relu", x)), threads=1)
    flops = [module.profile(np.ones((rows, 32), np.float32), runs=2).rows[0].flops for rows in (3, 50)]
    assert flops == [3 * 32, 50 * 32]


def test_stamps_change_nothing() -> None:
    module = tvm.build(layers(), threads=2)
    x = np.random.default_rng(1).standard_normal((64, 96)).astype("float32")
    run = module.stamped(x)
    np.testing.assert_array_equal(run.outputs[0], module(x))
    assert run.times.shape == (2, len(module.executable.steps) + 1)
    # Thread 0 reaches each step; one that came too late for a step has no stamp there.
    begin, end = run.times[:, :-1], run.times[:, 1:]
    assert run.times[0].all() and (end >= begin)[(begin != 0) & (end != 0)].all()


def row(**changes: Any) -> Row:
    fields: dict[str, Any] = {
        "operator": "f", "kernels": ("f",), "seconds": 1e-3, "waiting": 0.0, "flops": 10**7, "bytes": 10**6,
        "levels": (("memory", 1e-4),), "compute_seconds": 1e-4, "memory_seconds": 1e-4, "peak": 1e11,
    }  # fmt: skip
    return Row(**{**fields, **changes})


def test_sides_of_the_roofline() -> None:
    assert row(memory_seconds=5e-5).bound == "compute" and row(memory_seconds=5e-4).bound == "memory"
    assert row(memory_seconds=5e-4).share_of_bound == pytest.approx(0.5)
    assert row().share_of_peak == pytest.approx(0.1) and row().intensity == 10
    assert row(flops=0, bytes=0, levels=()).bound == "-" and row(flops=0, bytes=0).intensity == 0
    assert row(levels=(("L1", 1.0), ("L2", 2.0))).source == "L2"


def test_a_table_says_what_is_not_exact() -> None:
    profile = Profile("p", MACHINE, 3, 2e-3, 2e-3, (row(), row(operator="g", seconds=2e-3, exact=False)), ())
    slowest_first, in_order = profile.table(), profile.table(by_time=False)
    assert slowest_first.index("\ng ") < slowest_first.index("\nf ") and in_order.index("\nf ") < in_order.index("\ng ")
    assert "<=5.0" in slowest_first and "at most so much" in slowest_first
    assert "10.0%" in slowest_first and "66.7%" in slowest_first


def test_a_table_begins_with_the_whole_programs_time_and_a_warning() -> None:
    """The time is the program's, as it is called: not the sum of operators, each in its best run."""
    profile = Profile("p", MACHINE, 3, 2.5e-3, 2e-3, (row(),), ())
    title, *rest = profile.table().splitlines()
    assert title == f"p: 2.00 ms on {MACHINE}" and rest[0] == ""
    busy = dataclasses.replace(profile, disturbance=3.25).table().splitlines()
    assert busy[1].startswith("the machine is busy: half of the runs took at least 3.2 times as long as the best one.")
    assert busy[3] == "  try:    again when nothing else runs, or --runs 200"


def test_a_table_says_what_runs_on_the_host_and_why() -> None:
    module = tvm.build(layers(), target="accel", threads=1)
    table = module.profile(np.ones((64, 96), np.float32), runs=1).table()
    (line,) = [line for line in table.splitlines() if line.startswith("softmax")][1:]
    assert line.startswith("softmax runs on the host: ")


@pytest.mark.parametrize(("text", "arguments", "options"), [
    ("runs=0", (np.ones((64, 96), np.float32),), {"runs": 0}),
    ("dimension 0 is 1, wanted 64", (np.ones((1, 96), np.float32),), {}),
])  # fmt: skip
def test_refusals(text: str, arguments: Any, options: Any) -> None:
    with pytest.raises(InputError, match=text):
        tvm.build(layers(), threads=1).profile(*arguments, **options)
