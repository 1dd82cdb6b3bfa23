"""Programs whose regions an engine computes: the meaning is kept, nothing is copied, and failures fall back."""

from __future__ import annotations

import json
import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import minitvm
from minitvm.engines import Engine, choose, from_json, register, to_json
from minitvm.errors import InputError, Unsupported
from minitvm.executable import ArenaSlice, CallExternal, CallKernel, ConstantRef, Copy, Executable, Output, verify
from minitvm.expr import structural_equal
from minitvm.graph import Graph, GraphBuilder
from minitvm.reference import graph as interpreter
from minitvm.reference.strategies.graphs import RandomGraph, graphs
from minitvm.target import Target
from tests.fewer import examples

from .toy import Toy, registered


def network() -> Graph:
    """A convolution between two operators that only our kernels get, and weights."""
    generator = np.random.default_rng(0)
    b = GraphBuilder("net")
    x = b.input("x", (1, 8, 6, 6))
    y = b.op("exp", x, name="before")
    w = b.constant(generator.standard_normal((8, 8, 3, 3)).astype(np.float32), "w")
    z = b.op("nn.relu", b.op("nn.conv2d", y, w, padding=1, name="product"), name="middle")
    return b.build(b.op("sqrt", b.op("add", z, 1.0), name="after"))


def only(*ops: str) -> Any:
    return lambda item: "" if item.op in ops else f"{item.op} is not for toys"


X = np.random.default_rng(1).standard_normal((1, 8, 6, 6)).astype(np.float32)


def external(executable: Executable) -> list[CallExternal]:
    return [step for step in executable.steps if isinstance(step, CallExternal)]


def test_a_region_reads_and_writes_our_memory_without_copies() -> None:
    graph, toy = network(), Toy(supports=only("nn.conv2d", "nn.relu"))
    with registered(toy):
        module = minitvm.build(graph, engines="toy", threads=1)
        result = module(X)
        module(X)
    np.testing.assert_allclose(result, interpreter.run(graph, [X])[0], rtol=1e-5, atol=1e-5)
    executable = module.executable
    verify(executable)
    (call,) = external(executable)
    assert not any(isinstance(step, Copy) for step in executable.steps)
    assert sum(isinstance(step, CallKernel) for step in executable.steps) == 2  # what is outside is fused as usual
    assert call.access == ("r", "r", "w") and isinstance(call.args[1], ConstantRef)
    source, _, result_place = call.args
    assert isinstance(source, ArenaSlice) and isinstance(result_place, ArenaSlice)
    base = module._program.arena(0, 0).ctypes.data
    assert toy.places == [([base + source.offset], [base + result_place.offset])] * 2
    assert toy.prepared == ["toy_0"]
    assert "external('toy'" in str(executable) and "toy_0" in str(module.memory)


def test_an_output_of_the_program_is_written_where_the_caller_wants_it() -> None:
    b = GraphBuilder()
    x = b.input("x", (4, 4))
    graph, toy = b.build([b.op("exp", x), b.op("negative", x)]), Toy()
    out = [np.empty((4, 4), np.float32) for _ in range(2)]
    array = np.ones((4, 4), np.float32)
    with registered(toy):
        module = minitvm.build(graph, engines=["toy"], threads=1)
        module(array, out=out)
    (call,) = external(module.executable)
    assert call.args[1:] == (Output(0), Output(1))
    assert toy.places == [([array.ctypes.data], [a.ctypes.data for a in out])]
    np.testing.assert_allclose(out, [np.exp(array), -array], rtol=1e-6)


def test_a_region_inside_a_loop() -> None:
    b = GraphBuilder()
    x = b.input("x", (2, 3))

    def body(number: Any, total: Any) -> Any:
        return True, [b.op("add", b.op("sin", b.op("multiply", total, x)), x)]

    _, total = b.loop(body, [x], limit=4)
    graph, toy = b.build(total), Toy(supports=only("sin", "multiply"))
    array = np.random.default_rng(0).standard_normal((2, 3)).astype(np.float32)
    with registered(toy):
        module = minitvm.build(graph, engines="toy", threads=2)
        result = module(array)
    assert len(toy.places) == 4 and toy.prepared == ["toy_0"]
    np.testing.assert_allclose(result, interpreter.run(graph, [array])[0], rtol=1e-5)


@pytest.mark.parametrize(
    ("fails", "text"),
    [
        ("prepare", "toy_0: toy: no room; minitvm's kernels compute the region"),
        ("run", "toy_0: toy: a wrong turn; minitvm's kernels compute the region"),
        (
            "no function",
            "toy_0: toy: prepare returned NoneType, wanted a function; minitvm's kernels compute the region",
        ),
        (
            "nan",
            "toy_0: toy: it returned NaN, or wrote nothing, for 1 elements that are numbers; minitvm's kernels compute "
            "the region",
        ),
        (
            "nothing",
            "toy_0: toy: it returned NaN, or wrote nothing, for 288 elements that are numbers; minitvm's kernels "
            "compute the region",
        ),
    ],
)
def test_our_kernels_compute_what_an_engine_fails_at(fails: str, text: str) -> None:
    graph, toy = network(), Toy(supports=only("nn.conv2d", "nn.relu"), fails=fails)
    with registered(toy), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        module = minitvm.build(graph, engines="toy", threads=1)
        results = [module(X), module(X)]
    assert [str(w.message) for w in caught] == [text]  # one line, once
    for result in results:
        np.testing.assert_allclose(result, interpreter.run(graph, [X])[0], rtol=1e-5, atol=1e-5)


def test_nan_of_the_data_is_no_failure() -> None:
    b = GraphBuilder()
    graph, toy = b.build(b.op("sqrt", b.input("x", (3,)))), Toy()
    with registered(toy):
        module = minitvm.build(graph, engines="toy", threads=1)
        for _ in range(2):
            assert np.isnan(module(np.array([1, -1, 4], np.float32))).tolist() == [False, True, False]
    assert len(toy.places) == 2


def test_an_engine_that_is_missing_leaves_the_network_to_us() -> None:
    with registered(Toy(fails="missing")):
        with pytest.warns(RuntimeWarning, match="toy: no toys are installed; minitvm's kernels compute its part"):
            module = minitvm.build(network(), engines="toy", threads=1)
        assert not external(module.executable)
        with pytest.raises(InputError, match="no engine tony; did you mean toy"):
            minitvm.build(network(), engines="tony")


def test_several_engines_are_a_list() -> None:
    head = r"engines\n  wanted: the name of one engine\n  found:  "
    with pytest.raises(InputError) as error:
        minitvm.build(network(), engines="ncnn, openvino")
    assert str(error.value) == (
        "engines\n  wanted: the name of one engine\n  found:  'ncnn, openvino'\n"
        "  try:    engines=['ncnn', 'openvino']\n          --engine ncnn --engine openvino"
    )
    for engines in ("auto,ncnn", ["auto"]):
        with pytest.raises(InputError, match=rf'{head}{"".join(engines)!r}\n  try:    engines="auto" alone'):
            minitvm.build(network(), engines=engines)


def test_an_error_in_missing_is_a_reason_and_engines_have_names() -> None:
    def missing() -> str:
        raise OSError("a library is damaged")

    broken = Engine("broken", Toy().prepare, missing=missing)
    with registered():
        register(broken)
        with pytest.warns(RuntimeWarning, match="broken: a library is damaged; minitvm's kernels compute its part"):
            minitvm.build(network(), engines="broken", threads=1)
        for engines in (broken, [broken]):
            with pytest.raises(InputError, match=r"(?s)names of engines.*Engine.*engines.register"):
                minitvm.build(network(), engines=engines, threads=1)  # type: ignore[arg-type]
        with pytest.raises(InputError, match="cannot have the name 'auto'"):
            register(Engine("auto", Toy().prepare))


def test_an_artifact_prepares_its_engine_once_and_survives_without_it(tmp_path: Path) -> None:
    graph, path = network(), tmp_path / "net.mtvm"
    with registered(Toy(supports=only("nn.conv2d"))):
        minitvm.build(graph, engines="toy", threads=1).export(path)
    again = Toy(supports=only("nn.conv2d"))
    with registered(again):
        loaded = minitvm.runtime.load(path)
        results = [loaded(X), loaded(X)]
    assert again.prepared == ["toy_0"] and len(again.places) == 2
    with pytest.warns(RuntimeWarning, match="toy_0: toy: no engine toy; .*; minitvm's kernels compute the region"):
        alone = minitvm.runtime.load(path)
    results.append(alone(X))
    for result in results:
        np.testing.assert_allclose(result, interpreter.run(graph, [X])[0], rtol=1e-5, atol=1e-5)


def test_interpreters_of_programs_refuse_engines_by_name() -> None:
    with registered(Toy(supports=only("nn.conv2d"))), pytest.raises(Unsupported, match="external engine, found toy"):
        minitvm.build(network(), "interpreter", engines="toy")


def test_earlier_engines_choose_first_and_auto_chooses_by_time() -> None:
    first, second = Toy("first", only("nn.conv2d")), Toy("second")
    with registered(first, second):
        module = minitvm.build(network(), engines=["first", "second"], threads=1)
        assert [step.engine for step in external(module.executable)] == ["second", "first", "second"]
        choices = choose(network(), ["first"], Target("cpu"), threads=1)
    (choice,) = choices.regions
    assert (choice.name, choice.reason, [n.op for n in choice.operators]) == ("first_0", "", ["nn.conv2d"])
    assert choice.seconds is not None and min(choice.seconds) > 0
    assert set(choices.refused["first"].values()) == {
        f"{op} is not for toys" for op in ("exp", "nn.relu", "add", "sqrt")
    }


def test_auto_takes_the_regions_that_save_the_most_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The seconds are the test's own: `slow` is slower than us, `fast` saves more than `wide`, which overlaps it."""
    slow, wide, fast = Toy("slow", only("exp")), Toy("wide", only("nn.conv2d", "nn.relu")), Toy("fast", only("nn.relu"))
    seconds = {"slow": (2.0, 1.0), "wide": (1.0, 1.5), "fast": (1.0, 3.0)}
    monkeypatch.setattr("minitvm.engines.choice.measure", lambda engine, *_: seconds[engine.name])
    monkeypatch.setattr("minitvm.engines.choice.names", lambda: sorted(seconds))
    with registered(slow, wide, fast):
        module = minitvm.build(network(), engines="auto", threads=1)
        choices = choose(network(), "auto", Target("cpu")).regions
        text = minitvm.lower(network(), stop_at="fused", engines="auto").script()
    assert "# fast computes this region, in 1e+03 ms (minitvm: 3e+03 ms)\ndef fast_0(" in text
    assert [step.engine for step in external(module.executable)] == ["fast"]
    assert {choice.name: choice.reason for choice in choices} == {
        "fast_0": "", "wide_0": "another engine saves more time here", "slow_0": "minitvm's kernels are faster"
    }  # fmt: skip
    np.testing.assert_allclose(module(X), interpreter.run(network(), [X])[0], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("command", ["run", "check", "profile", "show", "export", "explain"])
def test_commands_take_an_engine(command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import onnx

    from minitvm.frontends import to_onnx
    from minitvm.tools.cli import main

    path = tmp_path / "net.onnx"
    onnx.save(to_onnx(network()), str(path))
    more = {
        "run": ["--check"], "check": [], "profile": ["--runs", "1", "--threads", "1"], "show": ["--level", "fused"],
        "export": ["-o", str(tmp_path / "net.mtvm")], "explain": ["--threads", "1"],
    }  # fmt: skip
    with registered(Toy(supports=only("nn.conv2d"))):
        assert main([command, str(path), "--engine", "toy", *more[command]]) == 0
        text = capsys.readouterr().out
        assert main([command, str(path), "--engine", "tony", *more[command]]) == 2
        assert "no engine tony; did you mean toy" in capsys.readouterr().err
        if command == "export":
            assert main(["run", str(tmp_path / "net.mtvm")]) == 0
            assert main(["export", str(path), "--as", "c", "-o", str(tmp_path / "c"), "--engine", "toy"]) == 2
            assert "--engine goes with --as mtvm" in capsys.readouterr().err
    assert {
        "run": "ok, difference", "check": "all levels agree", "profile": "toy_0",
        "show": "# toy computes this region\ndef toy_0(",
        "export": "net.mtvm", "explain": "engines compute 1 of 5 operators, in 1 region\n  toy_0: 1 nn.conv2d; toy ",
    }[command] in text  # fmt: skip
    if command == "explain":
        assert re.search(r"operators that toy does not get\n  1 sqrt: sqrt is not for toys\n", text)


def test_json_of_a_region() -> None:
    graph = network()
    body = json.loads(to_json(graph))
    assert body.keys() == {"nodes", "arg_nodes", "heads", "attrs"} and body["attrs"] == {"name": "net"}
    kernels = [node for node in body["nodes"] if node["op"] == "kernel"]
    assert [node["name"] for node in kernels] == ["exp", "nn.conv2d", "nn.relu", "add", "sqrt"]
    assert kernels[1]["attrs"]["padding"] == 1 and kernels[1]["inputs"] == [[3, 0], [1, 0]]
    assert body["arg_nodes"] == [0, 1, 2] and body["heads"] == [[len(body["nodes"]) - 1, 0]]
    assert structural_equal(from_json(to_json(graph), {c.value.name: c.data for c in graph.constants}), graph)


@given(case=graphs(largest=8), data=st.data())
@examples(6, 500)
def test_random_partitions_keep_the_meaning(case: RandomGraph, data: st.DataObject) -> None:
    graph = case.graph
    names = sorted({item.op for item in graph.nodes})
    taken = data.draw(st.sets(st.sampled_from(names)) if names else st.just(set()))
    with registered(Toy(supports=only(*taken))):
        module = minitvm.build(graph, engines="toy", threads=1)
        verify(module.executable)
        results = module(*case.inputs.values())
    own = results if isinstance(results, tuple) else (results,)
    wanted = interpreter.run(graph, case.inputs)
    for a, b, tolerance in zip(own, wanted, case.tolerances, strict=True):
        np.testing.assert_allclose(a.astype(np.float64), b.astype(np.float64), rtol=0, atol=max(tolerance, 0.0))
