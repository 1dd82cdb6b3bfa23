"""`minitvm check MODEL.onnx` or FILE.py: every level's interpreter against the compiled result, a line a level.

A Python file with TVMScript is run; each of its functions is checked, and pairs (`before` and `after`, `X_before` and
`X_after`, a schedule and the function that it began with) are compared by the oracle. A schedule primitive that the
file registers is tried: its example, its refusals, and its calls on random programs.

A whole model is compared with the graph interpreter. The levels below are compared operator by operator: each
distinct one is compiled by itself, at reduced size where interpreting the full one would take minutes, and fed with
small integers, for which sums of products are exact in any order.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InputError, MinitvmError, Unsupported
from . import options as opt
from .difference import TOLERANCE, relative_difference
from .progress import Report, Steps, progress

LARGE = 20_000  # elements of an operator's tensors above which it is checked at reduced size
TOLERANCE_OPERATOR = 1e-5  # of the largest value, on one operator fed with integers
LEVELS = ("te", "tir", "schedule", "kernel", "executable")


def register(commands: Any) -> None:
    parser = commands.add_parser("check", help="compare every level with the compiled result", description=__doc__)
    opt.add_model(parser, programs=True)
    parser.add_argument("--seed", type=int, default=0, help="of the random inputs")
    parser.set_defaults(function=check)


def check(options: argparse.Namespace) -> int:
    from ..build import optimize_graph, to_units

    target = opt.target(options.target)
    if options.model.endswith(".py"):
        return _check_programs(options, target)
    graph = opt.read_graph(options.model, options.shape)
    opt.fixed_shapes(graph)
    with progress() as report:
        failures = check_model(graph, target, options.seed, report)
        cases = operator_cases(to_units(optimize_graph(graph, target)), target, options.seed, report)
        for level in LEVELS:
            failures += check_level(level, cases, report)
    told = "1 level disagrees" if failures == 1 else f"{failures} levels disagree"
    print(told if failures else "all levels agree")
    return 1 if failures else 0


def _check_programs(options: argparse.Namespace, target: Any) -> int:
    from .check_program import check_file

    path = Path(options.model)
    if not path.is_file():
        raise InputError(f"{path} is a folder, wanted a file" if path.is_dir() else f"no such file: {path}")
    if options.shape:
        raise InputError("--shape is for models; a program's dimensions stand in its text")
    faults = check_file(path, target, options.seed)
    told = "1 check failed" if faults == 1 else f"{faults} checks failed"
    print(told if faults else "all agree")
    return 1 if faults else 0


def check_model(graph: Any, target: Any, seed: int, report: Report) -> int:
    """The compiled model against the graph interpreter; prints the line of the graph level."""
    from .. import build
    from ..expr import replace
    from ..reference import graph as interpreter
    from ..reference.conditioning import determined_outputs

    inputs = opt.random_inputs(graph.inputs, seed)
    start = time.perf_counter()
    # A softmax that saturates is 0 and 1 whatever a compiler makes of its logits, so these are compared beside it.
    logits = softmax_inputs(graph)
    wanted = replace(graph, outputs=(*graph.outputs, *logits))
    # Three runs: in float32, in float64, and of the outputs alone.
    steps = Steps(report, "interpreting the graph", 3 * len(graph.nodes))
    outputs = determined_outputs(wanted, inputs, TOLERANCE / 10, listeners=[steps])
    notes = [
        f"  {value.name} is left out: float32 does not determine it (float64 gives another answer); "
        f"compared {', '.join(v.name for v in outputs if v not in graph.outputs)} in front of it"
        for value in graph.outputs
        if value not in outputs
    ]
    graph = replace(graph, outputs=outputs)
    expected = interpreter.run(graph, inputs, listeners=[steps])
    seconds = time.perf_counter() - start
    found = build(graph, target, progress=report)(**inputs)
    found = found if isinstance(found, tuple | list) else (found,)
    worst = max((relative_difference(f, e) for f, e in zip(found, expected, strict=True)), default=0.0)
    what = "the whole model" + (" with what its last softmax reads" if logits else "")
    return line("graph", what, worst, TOLERANCE, seconds, notes)


def softmax_inputs(graph: Any) -> list[Any]:
    """What goes into a softmax that ends the graph, also one with reshapes behind it."""
    from ..graph import registry

    producers = graph.producers()
    found = []
    for value in graph.outputs:
        while value in producers and registry.get(producers[value].op).view:
            value = producers[value].inputs[0]
        if value in producers and producers[value].op in ("nn.softmax", "nn.log_softmax"):
            found.append(producers[value].inputs[0])
    return found


@dataclass(frozen=True, slots=True)
class Case:
    """One operator with inputs and what its compiled form made of them."""

    name: str
    unit: Any
    lowered: Any
    executable: Any
    inputs: list[np.ndarray]
    outputs: list[np.ndarray]
    reduced: bool

    def blank(self) -> list[np.ndarray]:
        """Arrays for the outputs."""
        return [np.zeros_like(a) for a in self.outputs]


def operator_cases(units: list[Any], target: Any, seed: int, report: Report) -> list[Case]:
    """Each distinct operator compiled by itself and run."""
    from ..build import Unit, lower_function, schedule_function
    from ..executable import Executable
    from ..graph.lower import function_key, to_prim_func
    from ..graph.shrink import elements, shrink
    from ..link import link_function
    from ..runtime import Function
    from ..runtime.cpu.program import load_kernels

    distinct: dict[Any, Unit] = {}
    small: set[str] = set()
    for unit in units:
        node = shrink(unit.node) if elements(unit.node) > LARGE else unit.node
        small.update({unit.name} if node is not unit.node else ())
        key = function_key(node)
        if key not in distinct:
            distinct[key] = Unit(unit.name, node, to_prim_func(node, name=unit.name))
    lowered = [lower_function(schedule_function(u.func, target), target) for u in distinct.values()]
    executables: list[Executable] = [link_function(item, target.kind) for item in lowered]
    for count, executable in enumerate(executables):
        load_kernels(executable, None, None)
        report("compiling operators", count + 1, len(executables))
    generator = np.random.default_rng(seed)
    cases = []
    for unit, low, executable in zip(distinct.values(), lowered, executables, strict=True):
        arrays = [integers(generator, v) for v in unit.node.inputs]
        outputs = [np.zeros([int(d) for d in v.shape], v.dtype.numpy) for v in unit.node.outputs]
        Function(executable)(*arrays, *outputs)
        cases.append(Case(unit.name, unit, low, executable, arrays, outputs, unit.name in small))
    return cases


def integers(generator: np.random.Generator, value: Any) -> np.ndarray:
    """Small integers in the dtype and shape of a value."""
    shape = [int(d) for d in value.shape]
    low = 0 if value.dtype.is_bool or value.dtype.kind == "uint" else -2
    return generator.integers(low, 3 if low else 2, shape).astype(value.dtype.numpy)


def check_level(level: str, cases: list[Case], report: Report) -> int:
    """All operators at one level; prints its line, and one for each operator that disagrees or is not modelled."""
    start = time.perf_counter()
    worst, notes = 0.0, []
    for count, case in enumerate(cases):
        try:
            found = _INTERPRET[level](case)
        except Unsupported as error:
            notes.append(f"  {case.name}: not modelled by the interpreter: {error}")
            continue
        except MinitvmError as error:
            notes.append(f"  {case.name}: {error}")
            worst = float("inf")
            continue
        apart = max(relative_difference(f, e) for f, e in zip(case.outputs, found, strict=True))
        if apart > TOLERANCE_OPERATOR:
            notes.append(f"  {case.name}: difference {apart:.1e}")
        worst = max(worst, apart)
        report(f"checking {level}", count + 1, len(cases))
    reduced = sum(case.reduced for case in cases)
    what = f"{len(cases)} distinct operators" + (f" ({reduced} at reduced size)" if reduced else "")
    return line(level, what, worst, TOLERANCE_OPERATOR, time.perf_counter() - start, notes)


def line(level: str, what: str, worst: float, allowed: float, seconds: float, notes: list[str]) -> int:
    """Print a level's line and notes; returns 1 for a disagreement."""
    verdict = "equal" if worst == 0 else "ok" if worst <= allowed else "WRONG"
    print(f"{level:<10} {verdict:<6} {what}, largest difference {worst:.1e} of the largest value, {seconds:.1f} s")
    for note in notes:
        print(note)
    return int(worst > allowed)


def _te(case: Case) -> list[np.ndarray]:
    from ..graph.lower import to_te
    from ..reference import te

    tensors, count = to_te(case.unit.node), len(case.inputs)
    return list(te.evaluate(tensors[count:], dict(zip(tensors[:count], case.inputs, strict=True))))


def _tir(case: Case) -> list[np.ndarray]:
    from ..reference import tir

    outputs = case.blank()
    tir.run(case.unit.func, *case.inputs, *outputs)
    return outputs


def _schedule(case: Case) -> list[np.ndarray]:
    from ..reference import tir

    outputs = case.blank()
    tir.run(case.lowered.func, *case.inputs, *outputs)
    return outputs


def _kernel(case: Case) -> list[np.ndarray]:
    from ..reference import kernel

    outputs = case.blank()
    kernel.run(case.lowered.module, *case.inputs, *outputs, threads=2)
    return outputs


def _executable(case: Case) -> list[np.ndarray]:
    from ..reference import executable

    inputs = {spec.name: array for spec, array in zip(case.executable.inputs, case.inputs, strict=True)}
    return list(executable.run(case.executable, inputs))


_INTERPRET: dict[str, Callable[[Case], list[np.ndarray]]] = {
    "te": _te, "tir": _tir, "schedule": _schedule, "kernel": _kernel, "executable": _executable,
}  # fmt: skip
