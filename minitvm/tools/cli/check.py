"""`minitvm check MODEL.onnx` or FILE.py: compare the interpreter of every level with the compiled result.

If you give a Python file with TVMScript, each of its functions is checked. The oracle also compares pairs: `before` and
`after`, `X_before` and `X_after`, a schedule and the function from which it started. If the file registers a schedule
primitive, its example, its errors, and its calls on random programs are tested.

A model is compared with the graph interpreter. The other levels are compared operator by operator. Each distinct
operator is compiled separately, and at a reduced size if interpreting it would take minutes. The inputs are small
integers, so that sums of products are exact in any order. --seconds limits the time for each level. The largest
operators are skipped first, and the output lists them.

If LiteRT is installed, a TFLite model is also compared with its reference kernels on random inputs. The output says how
many quantised values differ by one step.
"""

from __future__ import annotations

import argparse
import time
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import InputError, MinitvmError, Unsupported
from ...graph import Graph
from ...target import Target
from . import litert
from . import options as opt
from .difference import TOLERANCE, TOLERANCE_OF_INTEGERS, judged, line, relative_difference
from .levels import LEVELS, Descent
from .progress import Report, Steps, progress
from .time_limit import TimeUp, time_limit

SECONDS = 20  # of computing, for each level below the graph; a warm check of a light network takes 1 or 2
LARGE = 20_000  # elements of an operator's tensors above which it is checked at reduced size
INTERPRETED = ("te", "tir", "schedule", "kernel", "executable")


def register(commands: opt.Commands) -> None:
    parser = commands.add_parser(
        "check", help="compare the interpreter of every level with the compiled result", description=__doc__
    )
    opt.add_model(parser, programs=True)
    opt.add_engine(parser)
    parser.add_argument(
        "--seed", type=opt.natural, default=0, metavar="N", help="seed for the random inputs, 0 or more"
    )
    parser.add_argument(
        "--seconds", type=opt.natural, metavar="N",
        help=f"time limit for each level (0: no limit); default: {SECONDS}. If you give it, it also limits the time "
        "for compiling the operators",
    )  # fmt: skip
    parser.set_defaults(function=check)


def check(options: argparse.Namespace) -> int:
    from ...build import optimize_graph
    from ...build_options import BuildOptions
    from ...expr import replace
    from ...graph.at_bounds import at_bounds
    from ...lowering import to_units
    from ...runtime.here import target_here

    target = target_here(opt.target(options.target))  # the kernels of any CPU, compiled for this one
    if options.model.endswith(".py") and not options.model.endswith(opt.PROGRAMS):
        return _check_programs(options, target)
    whole = opt.read_graph(options.model, options.shape)
    # One step is checked, in which states are inputs and outputs like others.
    graph = replace(whole, states=())
    opt.fixed_shapes(graph)
    with progress() as report:
        engines = opt.engines(options)
        failures, incomplete = check_model(graph, target, options.seed, report, engines), 0
        if options.model.endswith(".tflite"):
            failures += litert.compare(options.model, whole, target, options.seed, engines)
        units = to_units(at_bounds(optimize_graph(graph, target, BuildOptions(engines=engines))))
        cases, omitted = operator_cases(units, target, options.seed, report, options.seconds or 0)
        incomplete += bool(omitted)
        if omitted:
            print(f"  not compiled after {options.seconds} s of computing: {', '.join(omitted)}")
        for level in INTERPRETED:
            wrong, omitted = check_level(level, cases, report, SECONDS if options.seconds is None else options.seconds)
            failures, incomplete = failures + wrong, incomplete + bool(omitted)
    disagreed = "1 level disagrees" if failures == 1 else f"{failures} levels disagree"
    agreed = "all levels agree" + (f", {incomplete} of them in part: more with --seconds" if incomplete else "")
    print(disagreed if failures else agreed)
    for text in blame(cases, target.kind):
        print(text)
    return 1 if failures else 0


def _check_programs(options: argparse.Namespace, target: Target) -> int:
    from .check_program import check_file

    path = Path(options.model)
    if not path.is_file():
        raise InputError(f"{path} is a folder, wanted a file" if path.is_dir() else f"no such file: {path}")
    if options.shape:
        raise InputError("--shape is for models; the dimensions of a program are in its text")
    if options.engine:
        raise InputError("--engine is for models; engines compute operators")
    faults = check_file(path, target, options.seed)
    failed = "1 check failed" if faults == 1 else f"{faults} checks failed"
    print(failed if faults else "all agree")
    return 1 if faults else 0


def check_model(graph: Graph, target: Target, seed: int, report: Report, engines: str | tuple[str, ...] = ()) -> int:
    """The compiled model against the graph interpreter; prints the line of the graph level."""
    from ... import build
    from ...expr import replace
    from ...reference import graph as interpreter
    from ...reference.formulas import without_numpy
    from ...reference.judging.conditioning import determined_outputs

    inputs = opt.random_inputs(graph, graph.inputs, seed)
    start = time.perf_counter()
    # A softmax that saturates is 0 and 1 even for wrong logits, so the logits are compared too.
    logits = softmax_inputs(graph)
    extended = replace(graph, outputs=(*graph.outputs, *logits))
    # Three runs: in float32, in float64, and of the outputs alone.
    steps = Steps(report, "interpreting the graph", 3 * len(graph.nodes))
    outputs = determined_outputs(extended, inputs, TOLERANCE / 10, listeners=[steps])
    notes = [
        f"  {value.name} is left out: float32 does not determine it (float64 gives another answer); "
        f"compared {', '.join(v.name for v in outputs if v not in graph.outputs)} in front of it"
        for value in graph.outputs
        if value not in outputs
    ]
    notes += [f"  {text}" for text in without_numpy(graph)]
    graph = replace(graph, outputs=outputs)
    expected = interpreter.run(graph, inputs, listeners=[steps])
    seconds = time.perf_counter() - start
    results = build(graph, target, progress=report, engines=engines)(**inputs)
    results = results if isinstance(results, tuple | list) else (results,)
    worst = max((relative_difference(f, e) for f, e in zip(results, expected, strict=True)), default=0.0)
    what = "the whole model" + (" with what its last softmax reads" if logits else "")
    return report_level("graph", what, worst, TOLERANCE, seconds, notes)


def softmax_inputs(graph: Graph) -> list[Any]:
    """The inputs of the softmaxes that end the graph; reshapes may follow them."""
    from ...topi import registry

    producers = graph.producers()
    values = []
    for value in graph.outputs:
        while value in producers and registry.get(producers[value].op).view:
            value = producers[value].inputs[0]
        if value in producers and producers[value].op in ("nn.softmax", "nn.log_softmax"):
            values.append(producers[value].inputs[0])
    return values


@dataclass(frozen=True, slots=True)
class Case:
    """One operator with inputs and the outputs of its compiled form; `agrees` holds the levels that were compared."""

    name: str
    descent: Descent
    inputs: list[np.ndarray]
    outputs: list[np.ndarray]
    reduced: bool
    agrees: dict[str, bool] = field(default_factory=dict)

    def run(self, level: str) -> list[np.ndarray]:
        """The outputs at a level."""
        outputs = [np.zeros_like(a) for a in self.outputs]
        LEVELS[level](self.descent, [*self.inputs, *outputs])
        return outputs


def operator_cases(
    units: list[Any], target: Target, seed: int, report: Report, seconds: float = 0
) -> tuple[list[Case], list[str]]:
    """Each distinct operator compiled by itself and run, small ones first.

    After `seconds` of computing (0: as long as it takes) the others are left out: their names come second.
    """
    from ...graph.lower import function_key, to_prim_func
    from ...graph.shrink import elements, shrink

    distinct: dict[Any, tuple[str, Descent]] = {}
    small: set[str] = set()
    for unit in units:
        node = shrink(unit.node) if elements(unit.node) > LARGE else unit.node
        small.update({unit.name} if node is not unit.node else ())
        key = function_key(node)
        if key not in distinct:
            distinct[key] = unit.name, Descent(to_prim_func(node, name=unit.name), target, node)
    generator = np.random.default_rng(seed)
    ordered = sorted(distinct.values(), key=lambda one: elements(one[1].operator)) if seconds else [*distinct.values()]
    cases: list[Case] = []
    computed = time.process_time()
    for count, (name, descent) in enumerate(ordered):
        node = descent.operator
        report("compiling operators", count, len(ordered))
        arrays = inputs_of(generator, node)
        outputs = [np.zeros([int(d) for d in v.shape], v.dtype.numpy) for v in node.outputs]
        try:
            with at_most(seconds, computed):
                LEVELS["compiled"](descent, [*arrays, *outputs])
        except TimeUp:
            return cases, [one for one, _ in ordered[count:]]
        cases.append(Case(name, descent, arrays, outputs, name in small))
    report("compiling operators", len(ordered), len(ordered))
    return cases, []


def at_most(seconds: float, since: float) -> AbstractContextManager[None]:
    """The limit of what is left of some seconds of computing since a `time.process_time()`; 0: none."""
    return time_limit(max(since + seconds - time.process_time(), 0.001)) if seconds else nullcontext()


def inputs_of(generator: np.random.Generator, node: Any) -> list[np.ndarray]:
    """Small integers for an operator. Divisors are not 0, and weights of a recurrent layer's state are divided.

    A quotient by 0 cannot become an integer: such a program is undefined. With small weights, a step shrinks
    differences of the state. With weights of 1 and 2 it enlarges them: after some dozens of steps a rounding error
    would be as large as the result.
    """
    from ...graph.nodes import FUSED

    arrays = [integers(generator, v) for v in node.inputs]
    inputs, nodes = (node.graph.inputs, node.graph.nodes) if node.op == FUSED else (node.inputs, (node,))
    for item in nodes:
        if item.op == "divide" and item.inputs[1] in inputs:
            divisors = arrays[inputs.index(item.inputs[1])]
            divisors[divisors == 0] = 1
        if item.op in ("nn.rnn", "nn.gru", "nn.lstm") and item.inputs[1] in inputs:
            position = inputs.index(item.inputs[1])
            arrays[position] /= arrays[position].dtype.type(4 * arrays[position].shape[1])
    return arrays


def integers(generator: np.random.Generator, value: Any) -> np.ndarray:
    """Small integers in the dtype and shape of a value."""
    shape = [int(d) for d in value.shape]
    low = 0 if value.dtype.is_bool or value.dtype.kind == "uint" else -2
    return generator.integers(low, 3 if low else 2, shape).astype(value.dtype.numpy)


def check_level(level: str, cases: list[Case], report: Report, seconds: float = 0) -> tuple[int, list[str]]:
    """All operators at one level, small ones first; prints its line, and one for each that disagrees or was not run.

    Returns 1 for a disagreement, and the names of the operators that were left out when the level had computed for
    `seconds` (0: as long as it takes).
    """
    start, computed = time.perf_counter(), time.process_time()
    worst, notes = 0.0, []
    cases = sorted(cases, key=lambda case: sum(a.size for a in (*case.inputs, *case.outputs)))
    omitted: list[str] = []
    for count, case in enumerate(cases):
        try:
            with at_most(seconds, computed):
                results = case.run(level)
        except TimeUp:
            omitted = [one.name for one in cases[count:]]
            break
        except Unsupported as error:
            notes.append(f"  {case.name}: not modelled by the interpreter: {error}")
            continue
        except MinitvmError as error:
            notes.append(f"  {case.name}: {error}")
            worst = float("inf")
            continue
        apart = max(relative_difference(f, e) for f, e in zip(case.outputs, results, strict=True))
        case.agrees[level] = apart <= TOLERANCE_OF_INTEGERS
        if not case.agrees[level]:
            notes.append(f"  {case.name}: difference {apart:.1e}")
        worst = max(worst, apart)
        report(f"checking {level}", count + 1, len(cases))
    if omitted:
        notes.append(f"  left out after {seconds:g} s of computing: {', '.join(omitted)}")
    ran = cases[: len(cases) - len(omitted)]
    reduced = sum(case.reduced for case in ran)
    what = f"{len(ran)} of {len(cases)}" if omitted else f"{len(cases)}"
    what += " distinct operators" + (f" ({reduced} at reduced size)" if reduced else "")
    wrong = report_level(level, what, worst, TOLERANCE_OF_INTEGERS, time.perf_counter() - start, notes)
    return wrong, omitted


def blame(cases: list[Case], target: str) -> list[str]:
    """A line for each operator on which levels disagree: between which two of them its result changes.

    Every level is compared with the compiled code, so one wrong code generator makes all of them disagree. Levels that
    disagree in the same way agree with one another as far as this comparison tells, and the fault is where that ends.
    """
    lines = []
    for case in cases:
        if all(case.agrees.values()):
            continue
        ran = {**case.agrees, "compiled": True}
        steps = list(zip(ran, list(ran)[1:], strict=False))
        between = [f"{one} and {other}" for one, other in steps if ran[one] != ran[other]]
        where = f"  {case.name}: the result changes between {', and between '.join(between)}"
        if between == ["executable and compiled"]:
            where += f"; the levels above agree, so look at what the back end of {target!r} generates and runs"
        lines.append(where)
    return lines


def report_level(level: str, what: str, worst: float, allowed: float, seconds: float, notes: list[str]) -> int:
    """Print a level's line and notes; returns 1 for a disagreement."""
    verdict, difference = judged(worst, allowed)
    print("\n".join([line(level, verdict, f"{what}, {difference}", seconds), *notes]))
    return int(worst > allowed)
