"""Lowered functions on disk: found again, by whom, and what is never believed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import minitvm
from minitvm import strategy
from minitvm.build import compile_executable, optimize_graph
from minitvm.build_options import BuildOptions
from minitvm.compat.tvm.ir import instrument
from minitvm.compat.tvm.transform import PassContext
from minitvm.errors import ScheduleError
from minitvm.events import Listener, Refusal, listening
from minitvm.executable.serialize import to_json
from minitvm.graph import Graph, GraphBuilder
from minitvm.lowering import cache, many, to_units, verified
from minitvm.lowering.units import SharedFunction
from minitvm.strategy.registry import RULES, rules_of
from minitvm.target import Target
from minitvm.tir.transform import pipeline
from minitvm.topi import registry
from minitvm.workers import worker_pool
from minitvm.workers.cores import available_cores
from tests.patience import PATIENCE

ROOT = Path(__file__).resolve().parents[2]
CPU = Target("cpu -vector_bits=256 -vector_registers=16")


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of its own, no other processes, and levels that are not verified: otherwise there must be levels."""
    worker_pool.shutdown()
    monkeypatch.setenv("MINITVM_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("MINITVM_VERIFY", "0")
    return tmp_path


def network(width: int = 8) -> Graph:
    b = GraphBuilder("small")
    x = b.input("x", (4, width))
    weight = b.constant(np.arange(16 * width, dtype="float32").reshape(16, width), "weight")
    y = b.op("nn.relu", b.op("nn.dense", x, weight))
    return b.build(b.op("nn.softmax", y))


class Lowerings:
    """The names of the functions that are lowered while it watches."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.names: list[str] = []
        inner = many.lower_function

        def watched(func: Any, *rest: Any, **named: Any) -> Any:
            self.names.append(func.name)
            return inner(func, *rest, **named)

        monkeypatch.setattr(many, "lower_function", watched)

    def of(self, run: Callable[[], Any]) -> int:
        """How many functions a call lowers."""
        before = len(self.names)
        run()
        return len(self.names) - before


@pytest.fixture
def lowerings(monkeypatch: pytest.MonkeyPatch) -> Lowerings:
    return Lowerings(monkeypatch)


def functions(graph: Graph | None = None) -> list[SharedFunction]:
    return list(dict.fromkeys(unit.function for unit in to_units(optimize_graph(graph or network(), CPU))))


def built(graph: Graph | None = None, target: Target = CPU) -> Any:
    return compile_executable(graph or network(), target)


def test_a_function_is_lowered_once(lowerings: Lowerings) -> None:
    first = built()
    assert lowerings.names
    assert lowerings.of(built) == 0
    assert to_json(built()) == to_json(first)
    x = np.linspace(-1, 1, 32, dtype="float32").reshape(4, 8)
    np.testing.assert_array_equal(minitvm.build(network(), CPU)(x), minitvm.runtime.GraphModule(first)(x))


def test_what_else_decides_is_another_function(lowerings: Lowerings, monkeypatch: pytest.MonkeyPatch) -> None:
    built()
    assert lowerings.of(lambda: built(network(width=12))) > 0
    assert lowerings.of(lambda: built(target=Target("cpu -vector_bits=128"))) > 0
    assert lowerings.of(lambda: built(target=Target("cpu -vector_bits=256 -vector_registers=16 -ghz=1"))) == 0
    monkeypatch.setattr(cache, "code_version", lambda: b"another compiler")
    assert lowerings.of(built) > 0


def test_the_key_is_the_same_in_every_process() -> None:
    program = (
        "from tests.lowering.test_cache import *\n"
        "print([cache.key_of(f, CPU).hex() for f in functions()])\n"
    )  # fmt: skip
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": "7"}
    other = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, check=True, text=True)
    assert other.stdout.strip() == str([cache.key_of(f, CPU).hex() for f in functions()])


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda data: b"",
    "truncated": lambda data: data[:-5],
    "a flipped bit": lambda data: data[:-9] + bytes([data[-9] ^ 4]) + data[-8:],
    "foreign": lambda data: b"\x80\x04cos\nsystem\n" * 20,
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_file_is_not_believed(own_cache: Path, lowerings: Lowerings, damage: str) -> None:
    whole = to_json(built())
    count = len(lowerings.names)
    for path in own_cache.glob("*.fn"):
        path.write_bytes(DAMAGE[damage](path.read_bytes()))
    assert to_json(built()) == whole
    assert len(lowerings.names) == 2 * count
    assert lowerings.of(built) == 0  # and the files are whole again


@pytest.mark.parametrize(
    "content",
    [b"", b"{}", b"not json", b'{"name": "f", "signature": {"nodes": [["Popen", "ls"]], "root": 0}, "kernels": []}'],
)
def test_content_of_another_form_is_not_believed(lowerings: Lowerings, content: bytes) -> None:
    """The file is whole, but what is in it is no lowered function."""
    for function in functions():
        cache.put(function, CPU, content)
    assert cache.decode(content) is None
    assert lowerings.of(built) == len(functions())


def test_a_file_of_another_function_is_not_used(own_cache: Path, lowerings: Lowerings) -> None:
    whole = to_json(built())
    first, second = sorted(own_cache.glob("*.fn"))[:2]
    data = first.read_bytes()
    first.write_bytes(second.read_bytes())
    second.write_bytes(data)
    assert lowerings.of(lambda: None) == 0
    assert to_json(built()) == whole


def test_several_processes_build_at_once(own_cache: Path) -> None:
    program = (
        "from tests.lowering.test_cache import *\n"
        "import hashlib, json\n"
        "print(hashlib.sha256(json.dumps(to_json(built()), sort_keys=True).encode()).hexdigest())\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    processes = [
        subprocess.Popen([sys.executable, "-c", program], env=environment, stdout=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    results = {process.communicate(timeout=PATIENCE)[0] for process in processes}
    assert len(results) == 1 and results != {""}
    assert not list(own_cache.glob("*.tmp"))


def test_code_from_outside_is_run_every_time(lowerings: Lowerings, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rule, or an operator, of somebody else may be another one tomorrow."""
    built()

    def matches(func: Any) -> bool:
        return False

    monkeypatch.setitem(RULES, "cpu", [strategy.Rule("mine", matches, lambda sch, target: None), *rules_of("cpu")])
    assert not cache.usable(CPU)
    assert lowerings.of(built) > 0
    monkeypatch.undo()
    monkeypatch.setenv("MINITVM_VERIFY", "0")
    softmax = registry.get("nn.softmax")

    def compute(data: Any, axis: int = -1) -> Any:
        return softmax.compute(data, axis=axis)

    monkeypatch.setitem(registry.OPERATORS, "nn.softmax", softmax.__class__(**{**fields(softmax), "compute": compute}))
    assert not all(cache.keeps(f) for f in functions()) and any(cache.keeps(f) for f in functions())


def fields(row: Any) -> dict[str, Any]:
    return {name: getattr(row, name) for name in row.__dataclass_fields__}


def test_who_watches_the_passes_sees_all_of_them(lowerings: Lowerings, monkeypatch: pytest.MonkeyPatch) -> None:
    built()
    seen: list[str] = []
    compile_executable(network(), CPU, BuildOptions(callback=lambda name, before, after: seen.append(name)))
    assert "vectorize" in seen
    with PassContext(instruments=[instrument.PassTimingInstrument()]):
        assert lowerings.of(built) > 0
    monkeypatch.setenv("MINITVM_VERIFY", "1")
    assert lowerings.of(built) > 0


def test_progress_counts_all_functions(lowerings: Lowerings) -> None:
    told: list[tuple[int, int]] = []
    for _ in range(2):
        many.lower_functions(functions(), CPU, progress=lambda *counts: told.append(counts))
        assert told[-1] == (len(functions()), len(functions()))
        assert [done for done, _ in told] == sorted({done for done, _ in told})
        told.clear()


def test_many_functions_are_lowered_in_other_processes(lowerings: Lowerings) -> None:
    b = GraphBuilder("wide")
    x = b.input("x", (4, 8))
    ops = ("tanh", "exp", "sqrt", "sigmoid", "abs", "negative", "floor", "ceil", "cos")
    graph = b.build([b.op("nn.softmax", b.op(op, x), axis=k % 2) for k, op in enumerate(ops)])
    try:
        there = to_json(built(graph))
        assert len(worker_pool._workers) in (0, len(available_cores()), len(functions(graph)))
        assert bool(lowerings.names) == (len(available_cores()) < 2)
        assert lowerings.of(lambda: built(graph)) == 0
        assert there == to_json(compile_executable(graph, CPU, BuildOptions(callback=lambda *step: None)))
    finally:
        worker_pool.shutdown()


class Refusals(Listener):
    """The reasons that it hears."""

    def __init__(self) -> None:
        self.reasons: list[str] = []

    def refused(self, refusal: Refusal) -> None:
        self.reasons.append(f"{refusal.rule}: {refusal.reason}")


def test_refusals_are_heard_once_whether_a_function_is_lowered_or_found(
    lowerings: Lowerings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **options: Any) -> None:
        raise ScheduleError("not today")

    monkeypatch.setattr("minitvm.machines.simd.strategy.contraction.schedule_panels", refuse)
    for expected in (len(functions()), 0):
        listener = Refusals()
        with listening(listener):
            assert lowerings.of(built) == expected
        assert set(listener.reasons) == {"contraction: not today"}


@pytest.mark.parametrize("verify", ["0", "1"])
def test_what_is_found_is_for_the_target_that_asks(
    lowerings: Lowerings, monkeypatch: pytest.MonkeyPatch, verify: str
) -> None:
    """Two targets with the same code: a kernel names the one of its program, or it would be taken for another's."""
    monkeypatch.setenv("MINITVM_VERIFY", verify)
    one, other = Target("cuda"), Target("cuda -on_host=nn.softmax")
    assert one.code_identity() == other.code_identity()
    many.lower_functions(functions(), one)
    before = len(lowerings.names)
    for target in (other, one):
        for lowered in many.lower_functions(functions(), target).values():
            assert {kernel.target for kernel in lowered.kernels.values()} == {target.brief}
    assert len(lowerings.names) == before


@pytest.fixture
def levels_verified(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """With MINITVM_VERIFY=1: the names of the kernel programs that are verified."""
    seen: list[str] = []
    inner = pipeline.verify_if_asked

    def watched(step: str, program: Any, **how: Any) -> None:
        seen.extend([step] if step == "lowering" else [])
        inner(step, program, **how)

    monkeypatch.setenv("MINITVM_VERIFY", "1")
    monkeypatch.setattr(pipeline, "verify_if_asked", watched)
    return seen


def test_what_was_verified_is_not_lowered_again(lowerings: Lowerings, levels_verified: list[str]) -> None:
    first = built()
    count = len(functions())
    assert len(levels_verified) == len(lowerings.names) == count
    assert to_json(built()) == to_json(first)
    assert len(levels_verified) == len(lowerings.names) == count
    assert lowerings.of(lambda: built(network(width=12))) > 0
    assert lowerings.of(lambda: built(target=Target("cpu -vector_bits=128"))) > 0
    with verified.anew():
        assert lowerings.of(built) == count
    assert lowerings.of(built) == 0


def test_what_was_not_verified_is(
    lowerings: Lowerings, levels_verified: list[str], own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setenv("MINITVM_VERIFY", "0")
        assert lowerings.of(built) > 0
    levels_verified.clear()
    assert lowerings.of(built) == len(levels_verified) == len(functions())


def test_who_listens_hears_all_that_is_lowered(lowerings: Lowerings, levels_verified: list[str]) -> None:
    built()
    with listening(Listener()):
        assert lowerings.of(built) == len(functions())
    with PassContext(instruments=[instrument.PassTimingInstrument()]):
        assert lowerings.of(built) == len(functions())
