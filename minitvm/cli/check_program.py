"""`minitvm check FILE.py`: programs in TVMScript, each level against the compiled result, pairs against each other.

Schedule primitives that the file registers are checked too (`check_primitive`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import ExecutionError, MinitvmError, Unsupported, VerificationError
from ..target import Target
from .check_primitive import check_primitive
from .difference import relative_difference
from .program_file import Pair, is_lowered, read_programs

TOLERANCE = 1e-5  # of the largest value, on integers
Outputs = list[np.ndarray]


def check_file(path: Path, target: Target, seed: int) -> int:
    """Check all programs of a file and print what was found; returns the number of lines that tell a fault."""
    programs = read_programs(path)
    faults = 0
    for name, func in programs.functions.items():
        print(name)
        for text, right in check_function(func, target, seed):
            faults += not right
            print(f"  {text}")
    for primitive in programs.primitives:
        print(primitive.name)
        for text, right in check_primitive(primitive, seed):
            faults += not right
            print(f"  {text}", flush=True)
    for pair in programs.pairs:
        faults += not _compare(pair, seed)
    return faults


def check_function(func: Any, target: Target, seed: int) -> Iterator[tuple[str, bool]]:
    """A line for the verifier and one for each level: its text, and whether it is right."""
    from ..reference import random_inputs
    from ..tir.verifier import verify

    start = time.perf_counter()
    lowered = is_lowered(func)
    try:
        verify(func, "kernel" if lowered else "tir")
    except VerificationError as error:
        yield _line("verifier", "WRONG", _indented(error), start), False
        return
    yield _line("verifier", "ok", "", start), True
    inputs = random_inputs(func, seed, magnitude=4)
    if lowered:
        yield _lowered(func, inputs)
        return
    start = time.perf_counter()
    first: Outputs | None = None
    try:
        first = _tir(func, target, inputs)
    except ExecutionError as error:
        # Machine code for it would write where it must not: it is not run.
        yield _line("tir", "WRONG", _indented(error), start), False
        return
    except Unsupported as error:
        yield _line("tir", "none", f"not modelled by the interpreter: {_indented(error)}", start), True
    wanted: Outputs | None = None
    start = time.perf_counter()
    try:
        wanted = _compiled(func, target, inputs)
        told = _shapes(inputs)
    except MinitvmError as error:
        told = f"not compiled for {target.kind}: {_indented(error)}"
    yield _line("compiled", "ok" if wanted is not None else "none", told, start), True
    for level, interpret in _LEVELS.items():
        if level == "tir" and first is None:
            continue
        start = time.perf_counter()
        try:
            found = first if level == "tir" and first is not None else interpret(func, target, inputs)
        except Unsupported as error:
            yield _line(level, "none", f"not modelled by the interpreter: {_indented(error)}", start), True
            continue
        except ExecutionError as error:
            yield _line(level, "WRONG", _indented(error), start), False
            continue
        except MinitvmError as error:
            yield _line(level, "none", f"not lowered for {target.kind}: {_indented(error)}", start), True
            continue
        if wanted is None:
            wanted = found
            yield _line(level, "ok", "ran; nothing to compare with", start), True
            continue
        worst = max((relative_difference(f, w) for f, w in zip(found, wanted, strict=True)), default=0.0)
        verdict = "equal" if worst == 0 else "ok" if worst <= TOLERANCE else "WRONG"
        yield _line(level, verdict, f"largest difference {worst:.1e} of the largest value", start), worst <= TOLERANCE


def _lowered(program: Any, inputs: Sequence[Any]) -> tuple[str, bool]:
    """The line of a program that begins at kernel level: nothing above it tells what it should compute."""
    from ..reference import kernel

    start = time.perf_counter()
    try:
        kernel.run(program, *_fresh(inputs), threads=2)
    except ExecutionError as error:
        return _line("kernel", "WRONG", _indented(error), start), False
    except MinitvmError as error:
        return _line("kernel", "none", f"not interpreted: {_indented(error)}", start), True
    return _line("kernel", "ok", f"ran {_shapes(inputs)}; nothing to compare with", start), True


def _line(level: str, verdict: str, told: str, start: float) -> str:
    seconds = f"{time.perf_counter() - start:.1f} s"
    return f"{level:<10} {verdict:<6} {told + ', ' if told else ''}{seconds}"


def _indented(error: Exception) -> str:
    return str(error).replace("\n", "\n    ")


def _shapes(inputs: Sequence[Any]) -> str:
    shapes = {"x".join(map(str, np.shape(a))) or "scalar": None for a in inputs}
    return f"on arrays of {', '.join(shapes)}" if shapes else "without arguments"


def _fresh(inputs: Sequence[Any]) -> list[Any]:
    return [np.array(a) if isinstance(a, np.ndarray) else a for a in inputs]


def _arrays(args: Sequence[Any]) -> Outputs:
    return [a for a in args if isinstance(a, np.ndarray)]


def _compiled(func: Any, target: Target, inputs: Sequence[Any]) -> Outputs:
    from .. import build

    args = _fresh(inputs)
    build(func, target)(*args)
    return _arrays(args)


def _tir(func: Any, target: Target, inputs: Sequence[Any]) -> Outputs:
    from ..reference import tir

    args = _fresh(inputs)
    tir.run(func, *args)
    return _arrays(args)


def _kernel(func: Any, target: Target, inputs: Sequence[Any]) -> Outputs:
    from ..build import lower_function
    from ..reference import kernel

    args = _fresh(inputs)
    sizes = {d.name: n for p, a in zip(func.params, args) for d, n in zip(getattr(p, "shape", ()), np.shape(a))
             if hasattr(d, "name")}  # fmt: skip
    kernel.run(lower_function(func, target).module, *args, threads=2, sizes=sizes)
    return _arrays(args)


def _executable(func: Any, target: Target, inputs: Sequence[Any]) -> Outputs:
    from ..build import compile_executable
    from ..reference import executable

    program = compile_executable(func, target)
    args = _fresh(inputs)
    by_name = {p.name: a for p, a in zip(func.params, args)}
    results = executable.run(program, {spec.name: by_name[spec.name] for spec in program.inputs})
    for spec, result in zip(program.outputs, results, strict=True):
        by_name[spec.name][...] = result
    return _arrays(args)


_LEVELS: dict[str, Callable[[Any, Target, Sequence[Any]], Outputs]] = {
    "tir": _tir, "kernel": _kernel, "executable": _executable,
}  # fmt: skip


def _compare(pair: Pair, seed: int) -> bool:
    """Print the oracle's verdict on a pair; whether both mean the same, as far as it can tell."""
    from ..reference import check

    try:
        verdict = check(pair.before, pair.after, seed=seed)
    except (ExecutionError, Unsupported) as error:
        print(f"{pair.name}\n  cannot be compared: {_indented(error)}")
        return not isinstance(error, ExecutionError)
    print(f"{pair.name}\n  {str(verdict) if verdict else 'DIFFERENT: ' + _indented(Exception(verdict))}")
    return bool(verdict)
