"""What a check costs: each program is compiled once for each way to run it, and what was compiled goes with it."""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from minitvm import te
from minitvm.build import lower
from minitvm.expr.foreign import first_foreign
from minitvm.reference import check
from minitvm.reference.meaning import runner
from minitvm.script import from_source
from minitvm.tir import nodes as t

LEVELS = ("tir", "kernel")


def program(level: str, factor: float = 0.5) -> t.PrimFunc | t.IRModule:
    """A clip behind a scale: it has landmarks, and sites to solve for, so that a check varies its inputs."""
    a = te.placeholder((3, 8), name="A")
    clipped = te.compute((3, 8), lambda i, j: te.maximum(a[i, j] * factor, te.const(2.0, "float32")), name="B")
    func = te.create_prim_func([a, clipped])
    return func if level == "tir" else lower(func, stop_at="kernel")[func.name]


@pytest.mark.parametrize("level", LEVELS)
def test_a_program_is_compiled_once_for_each_way_to_run_it(level: str, monkeypatch: pytest.MonkeyPatch) -> None:
    runs: Counter[str] = Counter()
    compiled: Counter[tuple[str, Any]] = Counter()
    start, compile_ = runner.Run.start, runner._compile

    def counted_start(self: runner.Run, mode: str) -> None:
        runs[self.func.name] += 1
        start(self, mode)

    def counted_compile(compiler: Any, values: Any, bound: Any, body: t.Stmt) -> Any:
        compiled[type(compiler).__name__, body] += 1
        return compile_(compiler, values, bound, body)

    monkeypatch.setattr(runner.Run, "start", counted_start)
    monkeypatch.setattr(runner, "_compile", counted_compile)
    assert check(program("tir"), program(level))
    assert sum(runs.values()) > 2 * sum(compiled.values())
    assert set(compiled.values()) == {1}


@pytest.mark.parametrize("level", LEVELS)
def test_a_module_with_other_kernels_is_another_program(level: str) -> None:
    """A host function with kernels of another module: what was compiled for the first is not run for the second."""
    one, other = program(level), program(level, 0.25)
    if isinstance(one, t.IRModule) and isinstance(other, t.IRModule):
        host = next(f for _, f in one.items() if f.attrs.get("host"))
        other = t.IRModule({name: host if f.attrs.get("host") else f for name, f in other.items()})
    assert check(program("tir"), one)
    assert not check(program("tir"), other)


@pytest.mark.parametrize("level", LEVELS)
def test_what_was_compiled_goes_with_its_program(level: str, collect: Callable[[], int]) -> None:
    one, other = (from_source(program(n).script()) for n in (level, "tir"))  # of functions from te there is a cache
    assert check(other, one)
    funcs = [f for _, f in one.items()] if isinstance(one, t.IRModule) else [one]
    alive = [weakref.ref(f) for f in (*funcs, other)]
    del one, other, funcs
    first_foreign.cache_clear()  # it holds the last few programs
    for _ in range(2):  # first the functions, then what was kept for as long as these lived
        collect()
    assert not any(ref() for ref in alive)
