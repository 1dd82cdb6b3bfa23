"""Workloads that hold one way to do a thing against another one, on programs as they are drawn.

`as_written(...)`    programs lowered without a schedule, beside the interpreter
`machine_code(...)`  the same, compiled
`imported(...)`      ONNX nodes: ONNX's own evaluator, the graph's interpreter, the operators' tensor expressions
`branches()`         ONNX models of one If: the standard, and the graph's interpreter
`at_many_sizes(...)` ONNX graphs of open sizes: ONNX Runtime, and the graph's interpreter
`by_data(...)`       ONNX models in which amounts and axes are data: ONNX Runtime, and the graph's interpreter
`bounded()`          chains of operators on numbers: the bounds that the importer reads off them
`remembered()`       programs with states, run after run: the graph's interpreter and the executable's
`repeated()`         programs with loops: the graph's interpreter, the executable's, compiled code on request
`converted()`        networks: the graph's interpreter before and after ConvertLayout
`unchanged()`        operators that return what they got, and depthwise convolutions of open images: tensor expressions
`padded_sums()`      sums over padded inputs, the taps that see only padding left out: loops and kernels
`called(...)`        random calls of operators: the graph's interpreter, the tensor expression, the fold
`interpreters(...)`  programs, and programs gone wrong, in the slow mode and in the fast one, as loops and as kernels
`expressions()`      index expressions under ranges and conditions, beside their values at every point
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from hypothesis import Phase, given, seed, settings
from hypothesis import strategies as st

from minitvm import build
from minitvm import lower as compile_graph
from minitvm.compat.tvm.ir import IRModule
from minitvm.errors import ExecutionError, MinitvmError
from minitvm.executable import verify
from minitvm.expr import SizeVar, rewrite, walk
from minitvm.frontends import from_onnx
from minitvm.graph import Graph, GraphBuilder
from minitvm.graph.lower import to_te
from minitvm.reference import executable as executable_reference
from minitvm.reference import graph as graph_reference
from minitvm.reference import kernel as kernel_reference
from minitvm.reference import random_inputs
from minitvm.reference import tir as tir_reference
from minitvm.reference.strategies.graphs import RandomGraph, graphs
from minitvm.reference.strategies.states import stateful
from minitvm.tir.nodes import Evaluate, Seq
from minitvm.tir.transform import lower as lower_function
from tests.drawing import Seeded
from tests.executable.loop_graphs import CASES
from tests.frontends.onnx import data_amounts, open_cases
from tests.frontends.onnx.bounded_numbers import drawn_numbers
from tests.frontends.onnx.branch_models import random_case
from tests.frontends.onnx.random_nodes import OPERATORS, difference, nodes
from tests.frontends.onnx.test_data_amounts import outcome as by_onnx_runtime
from tests.graph.graphs import by_te
from tests.graph.layout_networks import means_the_same
from tests.reference.graph_operators.random_calls import random_call
from tests.reference.graph_operators.runs import difference as difference_of_call
from tests.tir.schedule.thread_programs import scratch_of_threads
from tests.tir.transform.padded_sums import convolution

from .oracle import Noticed, Trial, Workload, directed, drawn
from .workloads import Draw, Family, beside_the_interpreter, listed


def padded_sums(examples: int = 60) -> Workload:
    """Random convolutions of one dimension whose loops over taps skip zeros, beside the same as loops."""

    def body(trial: Trial, number: int) -> None:
        rng = np.random.default_rng(number)
        taps, dilation, before, after = (int(rng.integers(1, most)) for most in (4, 6, 7, 7))
        least = max(1, dilation * (taps - 1) + 1 - before - after)
        func = convolution(
            int(rng.integers(least, least + 6)), taps, int(rng.integers(1, 4)), dilation, before, after,
            tile=int(rng.integers(1, 5)), filled=bool(rng.integers(2)),
        )  # fmt: skip
        trial.same(func, lower_function(func, None, "main"), level="kernel")

    return directed("padded sums", lambda: range(examples), body)


def as_written(of: Family, examples: int = 300, **options: Any) -> Workload:
    """Programs lowered as they are; `options` are those of `check`."""

    def body(trial: Trial, draw: Draw) -> None:
        func = of(draw)
        trial.same(func, lower_function(func, None, "main"), level="kernel", **options)

    return drawn(f"lowering {of.__name__} as written", body, examples)


def machine_code(of: Family, examples: int = 40) -> Workload:
    """Programs compiled as they are."""

    def body(trial: Trial, draw: Draw) -> None:
        func = of(draw)
        trial.compared += 1
        beside_the_interpreter(func, build(func, threads=2))

    return drawn(f"compiled {of.__name__} as written", body, examples)


def imported(*families: str, examples: int = 400) -> Workload:
    """Single ONNX nodes of these families."""
    chosen = families or tuple(OPERATORS)

    def body(trial: Trial, draw: Draw) -> None:
        node = draw(nodes(chosen))
        trial.compared += 1
        found = difference(node)
        if found:
            raise Noticed(found.split(":")[0], found)

    return drawn(f"ONNX nodes of {listed(chosen)}", body, examples)


def at_many_sizes(*parts: str) -> Workload:
    """Graphs of open sizes whose names have one of these parts, at each of their sizes beside ONNX Runtime."""

    def body(trial: Trial, name: str) -> None:
        trial.compared += 1
        found = open_cases.difference(name)
        if found:
            raise Noticed("at many sizes", found)

    chosen = [name for name in open_cases.CASES if any(part in name for part in parts)]
    return directed(f"graphs of open sizes: {listed(parts)}", lambda: chosen, body)


def by_data(family: str, examples: int = 60) -> Workload:
    """Random models of a family of `data_amounts`, at several sizes beside ONNX Runtime."""

    def body(trial: Trial, draw: Draw) -> None:
        case = draw(data_amounts.cases(family))
        graph = from_onnx(case.model, max_length=data_amounts.MOST)
        for inputs in case.runs:
            wanted = by_onnx_runtime(case, inputs)
            if wanted is None:
                continue
            trial.compared += 1
            try:
                results = graph_reference.run(graph, inputs)
            except MinitvmError as error:
                raise Noticed("by data", f"{case!r}: {error}") from error
            pairs = list(zip(results, wanted, strict=True))
            if not all(a.shape == b.shape and np.allclose(a, b, rtol=1e-3, atol=1e-3) for a, b in pairs):
                raise Noticed("by data", f"{case!r}")

    return drawn(f"by data: {family}", body, examples)


def branches(examples: int = 150) -> Workload:
    """Random conditions and branches of an If, beside ONNX's own evaluator."""

    def body(trial: Trial, number: int) -> None:
        trial.compared += 1
        difference = random_case(np.random.default_rng(number)).difference()
        if difference:
            raise Noticed("branches", difference)

    return directed("branches", lambda: range(examples), body)


def bounded(examples: int = 300) -> Workload:
    """Random chains of operators on numbers, beside the bounds of what they compute."""

    def body(trial: Trial, number: int) -> None:
        case = drawn_numbers(Seeded(number))
        trial.compared += 1
        found = case.difference(np.random.default_rng(number))
        if found:
            raise Noticed("bounds", found)

    return directed("bounds of numbers", lambda: range(examples), body)


def remembered(examples: int = 200) -> Workload:
    """Random programs with states over several runs, as graphs and as executables."""

    def body(trial: Trial, draw: Draw) -> None:
        case = draw(stateful())
        executable = compile_graph(case.graph, stop_at="executable")
        trial.compared += 1
        states, memory = dict[str, np.ndarray](), dict[str, np.ndarray]()
        for inputs in case.runs:
            wanted = graph_reference.run(case.graph, inputs, states=states)
            found = executable_reference.run(executable, inputs, states=memory, threads=2)
            pairs = [*zip(found, wanted, strict=True), *((memory[name], states[name]) for name in states)]
            if not all(np.array_equal(a, b) for a, b in pairs):
                raise Noticed("states", f"{case!r}")

    return drawn("programs with states", body, examples)


def repeated(machine: bool = False, examples: int = 60) -> Workload:
    """Programs with loops, chosen ones and then random ones, as graphs, optimized, and as executables.

    With `machine` the chosen ones are compiled and run by a team as well.
    """

    def body(trial: Trial, number: int) -> None:
        trial.compared += 1
        names = list(CASES)
        if number < len(names):
            make, runs = CASES[names[number]]
            graph = make()
        else:
            case = random_loops(number)
            graph, runs = case.graph, [case.inputs]
        fused = compile_graph(graph, stop_at="fused")
        executable = compile_graph(graph, stop_at="executable")
        verify(executable)
        module = build(graph, threads=2) if machine else None
        for inputs in runs:
            wanted = graph_reference.run(graph, inputs)
            levels = {
                "optimized": graph_reference.run(fused, inputs),
                "executable": executable_reference.run(executable, inputs, threads=2),
            }
            if module is not None:
                results = module(**inputs)
                levels["machine"] = list(results) if isinstance(results, tuple) else [results]
            for level, found in levels.items():
                if not all(a.shape == b.shape and np.allclose(a, b, 1e-4) for a, b in zip(found, wanted, strict=True)):
                    raise Noticed(level, f"{graph}\n{inputs}")

    several = len(CASES) + (0 if machine else examples)
    return directed("programs with loops", lambda: list(range(several)), body)


def random_loops(number: int) -> RandomGraph:
    """The random graph of that number, of loops alone."""
    drawn_case: list[RandomGraph] = []

    @seed(number)
    @settings(max_examples=1, phases=[Phase.generate], database=None, deadline=None)
    @given(graphs(2, moves=("loop",), symbolic=False, empty=False))
    def draw(case: RandomGraph) -> None:
        drawn_case.append(case)

    draw()
    return drawn_case[-1]


def called(*families: str, calls: int = 200) -> Workload:
    """Random calls of the operators of these families."""

    def body(trial: Trial, case: tuple[str, int]) -> None:
        trial.compared += 1
        found = difference_of_call(random_call(*case))
        if found:
            raise Noticed(found.split(":")[0], found)

    return directed(f"calls of {listed(families)}", lambda: [(f, k) for k in range(calls) for f in families], body)


def unchanged() -> Workload:
    """Graphs of one operator: one that returns its input, or a depthwise convolution of an image of open size."""

    def cases() -> list[tuple[Graph, np.ndarray]]:
        b, size = GraphBuilder(), SizeVar("n")
        x, attrs = b.input("x", (size, 1, 20)), {"size": (size, 1, 20)}
        relu = b.op("nn.relu", x)
        several = [b.op("image.resize", x, **attrs), relu, b.op("image.resize", relu, **attrs)]
        graphs = [(b.build(several), np.arange(40.0).reshape(2, 1, 20) - 9)]
        for stride, padding in ((1, 0), (2, 0), (3, 1)):
            b = GraphBuilder()
            x, weight = b.input("x", (1, 2, size, SizeVar("m"))), np.arange(8, dtype="float32").reshape(2, 1, 2, 2)
            attrs = {"strides": stride, "padding": padding, "lanes": 4}
            rows = b.op("nn.contrib_depthwise_conv2d_rows", x, weight, **attrs)
            graphs.append((b.build(rows), np.arange(2.0 * 5 * 9).reshape(1, 2, 5, 9)))
        return graphs

    def body(trial: Trial, case: tuple[Graph, np.ndarray]) -> None:
        graph, inputs = case[0], {"x": case[1].astype("float32")}
        trial.compared += 1
        tensors = [*map(to_te, graph.nodes), *([] if graph.constants else [to_te(graph)])]
        if any(len({id(tensor) for tensor in one}) != len(one) for one in tensors):
            raise Noticed("te", f"{graph}: a tensor has two places")
        for found, wanted in zip(by_te(graph, inputs), graph_reference.run(graph, inputs), strict=True):
            if not np.array_equal(found, wanted):
                raise Noticed("te", f"{graph}: another result")

    return directed("results that are inputs, open images", cases, body)


def converted(networks: int = 500) -> Workload:
    """Networks of convolutions and what follows their layouts, before and after ConvertLayout."""

    def body(trial: Trial, seed: int) -> None:
        trial.compared += 1
        try:
            means_the_same(Seeded(seed))
        except AssertionError as difference:
            raise Noticed("graph", str(difference)) from None

    return directed("networks in another layout", lambda: list(range(networks)), body)


def outcome(run: Any, func: Any, args: Sequence[Any], **options: Any) -> tuple[str, list[np.ndarray]]:
    """What a run comes to: how it ends, and the arrays."""
    arrays = [np.array(a) for a in args]
    try:
        run(func, *arrays, **options)
    except ExecutionError as error:
        finding = getattr(error, "finding", None)
        return (finding.kind if finding is not None else str(error).split(":")[0]), []
    return "", arrays


def edges(draw: Draw, args: Sequence[Any]) -> list[Any]:
    """The arguments, now and then made of the ends of their dtype, zeros of both signs, infinities and NaN."""
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    made = []
    for a in args:
        if not isinstance(a, np.ndarray) or a.dtype.kind == "b" or draw(st.booleans()):
            made.append(a)
            continue
        ends = [0.0, -0.0, 1.5, -2.5, np.inf, -np.inf, np.nan]
        if a.dtype.kind != "f":
            info = np.iinfo(a.dtype)
            ends = [info.min, info.min + 1, 0, 1, info.max // 2, info.max - 1, info.max]
        made.append(rng.choice(np.array(ends, a.dtype), a.shape))
    return made


def interpreters(of: Family, examples: int = 150) -> Workload:
    """Programs, some of them gone wrong: the two modes of the interpreter end alike, and give the same bits."""

    def body(trial: Trial, draw: Draw) -> None:
        func = of(draw)
        args = edges(draw, random_inputs(func, 0))
        trial.compared += 1
        slow, wanted = outcome(tir_reference.run, func, args, mode="slow")
        fast, found = outcome(tir_reference.run, func, args, mode="fast")
        _same_end("tir", func, slow, fast, wanted, found)
        if slow:
            return
        try:
            module = lower_function(func, None, "main")
        except MinitvmError:
            return
        for mode in ("slow", "fast"):
            end, results = outcome(kernel_reference.run, module, args, mode=mode)
            _same_end(f"kernel, {mode}", func, "", end, wanted, results)

    return drawn(f"interpreters on {of.__name__}", body, examples)


def _same_end(what: str, func: Any, slow: str, fast: str, wanted: Sequence[Any], found: Sequence[Any]) -> None:
    if bool(slow) != bool(fast):  # of two things wrong either may come first
        raise Noticed(what, f"{slow or 'no error'} in the one, {fast or 'no error'} in the other\n{func}")
    for want, got in zip(wanted, found):
        same = (want == got) & (np.signbit(want) == np.signbit(got)) if want.dtype.kind == "f" else want == got
        if not (same | ((want != want) & (got != got))).all():
            raise Noticed(what, f"{got} instead of {want}\n{func}")


def thread_modes(examples: int = 60) -> Workload:
    """Threads that share storage, as loops and lowered, in both modes; sometimes without one of their barriers."""

    def body(trial: Trial, draw: Draw) -> None:
        func = scratch_of_threads(draw)
        args = random_inputs(func, 0)
        module = lower_function(func, None, "main")
        if draw(st.booleans()):
            module = _without_barrier(draw, module)
        trial.compared += 1
        slow, wanted = outcome(kernel_reference.run, module, args, mode="slow")
        fast, found = outcome(kernel_reference.run, module, args, mode="fast")
        _same_end("kernel", module, slow, fast, wanted, found)
        if not slow:
            end, results = outcome(tir_reference.run, func, args)
            _same_end("tir, kernel", func, end, slow, results, wanted)

    return drawn("threads in both modes", body, examples)


def _without_barrier(draw: Draw, module: Any) -> Any:
    barriers = [(name, n) for name, f in module.items() for n in walk(f.body) if isinstance(n, Evaluate)]
    if not barriers:
        return module
    name, gone = draw(st.sampled_from(barriers))
    body = rewrite(module[name].body, lambda n: Seq(()) if n is gone else None)
    return IRModule({**dict(module.items()), name: module[name].with_body(body)})
