"""Where a run draws from: each strategy with what is done to its programs, and how many of them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from minitvm import strategy, te
from minitvm.compat.tvm.convert_layout import ConvertLayout
from minitvm.errors import MinitvmError, ScheduleError, Unsupported
from minitvm.expr import SCALARS, DType, Var
from minitvm.graph import Graph, optimize
from minitvm.graph.loop_bodies import LOOP
from minitvm.graph.lower import to_prim_func
from minitvm.reference.strategies import NEST_KINDS, any_calls, exprs, graphs, prim_funcs, te_computes
from minitvm.reference.strategies.programs import BUILD
from minitvm.reference.strategies.small import SMALL
from minitvm.reference.strategies.value_blocks import ROUNDING
from minitvm.target import Target
from minitvm.tir.analysis.software_pipelines import DOUBLE, ORDER, SPARE, STAGE, inner_parts
from minitvm.tir.nodes import PrimFunc
from minitvm.tir.schedule import PRIMITIVES, Schedule
from minitvm.tir.schedule.handles import to_handles
from minitvm.tir.schedule.registry import transforms
from minitvm.tir.transform import lower
from tests.mutants import programs, structures
from tests.reference.graph_operators.random_calls import FAMILIES as OPERATORS
from tests.reference.graph_operators.random_calls import random_call
from tests.reference.graph_operators.runs import graph_of
from tests.tir.instruction_programs import pipeline, rows_of_words, tensorized
from tests.tir.schedule import pipeline_programs
from tests.tir.schedule.property_programs import PROGRAMS
from tests.tir.schedule.thread_programs import scheduled_for_gpu, scratch_of_threads
from tests.tir.transform.block_programs import block_program
from tests.tir.transform.grid_programs import grid_program, virtual_program
from tests.tir.transform.loops_beside import loops, program
from tests.tir.transform.reductions_on_threads import on_threads
from tests.tir.transform.staged_programs import staged_program

from .tally import Tally

SEED = 0
CPU = Target("cpu -vector_bits=256 -vector_registers=16")
CUDA = Target("cuda -arch=sm_80")
NAMES = tuple(p.name for p in transforms())
LOOPS = ("split", "split", "reorder", "fuse", "vectorize", "vectorize", "unroll", "parallel", "compute_at")
ALL_KINDS = (*BUILD, *(k for k in BUILD if k not in NEST_KINDS))
DTYPES = (
    "float32", "int32", "float32", "int32", "int8", "uint8", "float16", "bfloat16", "int64", "float64", "int16",
    "uint16", "uint32", "uint64",
)  # fmt: skip
FAMILIES = (
    structures.views, structures.strided, structures.data_loops, structures.long_rows, structures.triangles,
    structures.sequences, structures.running, structures.in_turns, structures.carried, structures.gaps,
    structures.private, structures.private_workspaces, structures.turned, structures.contraction, structures.chain,
    programs.branches, programs.in_place, programs.shared_cells, programs.folds, programs.split_indices,
    programs.quotients, programs.pointwise,
)  # fmt: skip
Draw = Callable[[st.SearchStrategy[Any]], Any]


@dataclass(frozen=True)
class Source:
    """A strategy's programs on their way down; `examples` of them in a full run.

    Each of the `names` (primitives, operators) gets an equal part of them: the body takes it as `name`.
    """

    name: str
    body: Callable[..., None]
    examples: int
    names: tuple[str, ...] = ()

    def run(self, tally: Tally, examples: int) -> None:
        """Draw so many programs, the same ones in every run."""
        bodies = [partial(self.body, name=name) for name in self.names] or [self.body]
        for number, body in enumerate(bodies):
            _draw(partial(body, tally), max(1, examples // len(bodies)), SEED + number)


def _draw(body: Callable[[Draw], None], examples: int, start: int) -> None:
    @settings(max_examples=examples, database=None, deadline=None, phases=[Phase.generate],
              suppress_health_check=list(HealthCheck))  # fmt: skip
    @seed(start)
    @given(st.data())
    def each(data: Any) -> None:
        body(data.draw)

    each()


def _lowered(tally: Tally, func: PrimFunc, target: Target | None) -> None:
    with contextlib.suppress(ScheduleError, Unsupported):  # a pipeline that a later step has made impossible
        tally.kernels(lower(func, target, "main", callback=tally.lowering))


def _steps(tally: Tally, draw: Draw, func: PrimFunc, *names: str) -> PrimFunc:
    sch = Schedule(func)
    for _ in range(draw(st.integers(1, 4))):
        call = sch.draw(lambda n: draw(st.integers(0, n - 1)), *names)
        if call is None:
            break
        sch.apply(call)
        tally.step(call.primitive)
    return sch.func


def _any_steps(tally: Tally, draw: Draw, func: PrimFunc) -> None:
    """Calls of which many are refused."""
    sch = Schedule(func)
    for _ in range(draw(st.integers(2, 6))):
        call = draw(any_calls(sch))
        with contextlib.suppress(MinitvmError):
            call(sch)
            tally.step(PRIMITIVES[call.name])


def _loop_programs(tally: Tally, draw: Draw) -> None:
    func = draw(prim_funcs(kinds=ALL_KINDS, dtypes=DTYPES, symbolic=draw(st.integers(0, 7)) == 7))
    tally.program(func)
    _lowered(tally, func, draw(st.sampled_from([None, CPU])))
    with tally.requirements():
        after = _steps(tally, draw, func, *draw(st.sampled_from([(), LOOPS, (draw(st.sampled_from(NAMES)),)])))
        _any_steps(tally, draw, func)
    tally.program(after)
    _lowered(tally, after, draw(st.sampled_from([None, CPU])))


def _primitives(tally: Tally, draw: Draw, name: str) -> None:
    """A primitive on the programs that suit it."""
    func = draw(PROGRAMS.get(name, PROGRAMS[""]))
    tally.program(func)
    with tally.requirements():
        after = _steps(tally, draw, func, name)
        _any_steps(tally, draw, func)
    _lowered(tally, after, None)


def _by_strategy(tally: Tally, draw: Draw) -> None:
    func = draw(prim_funcs(kinds=ALL_KINDS, dtypes=DTYPES))
    after = strategy.schedule(func, CPU).func
    tally.program(after)
    _lowered(tally, after, CPU)


def _families(tally: Tally, draw: Draw) -> None:
    func = draw(st.sampled_from(FAMILIES))(draw)
    tally.program(func)
    after = _steps(tally, draw, func, *LOOPS) if draw(st.booleans()) else strategy.schedule(func, CPU).func
    _lowered(tally, after, draw(st.sampled_from([None, CPU])))


def _small(tally: Tally, draw: Draw, name: str) -> None:
    """A kind of program of ten lines."""
    func = SMALL[name](draw)
    tally.add("small program", name)
    tally.program(func)
    _lowered(tally, func, None)


def _threads(tally: Tally, draw: Draw) -> None:
    func = draw(st.sampled_from([scratch_of_threads, lambda draw: scheduled_for_gpu(draw)[1].func]))(draw)
    tally.program(func)
    _lowered(tally, func, None)


def _pipelines(tally: Tally, draw: Draw) -> None:
    sch = Schedule(draw(pipeline_programs.staged_loops()))
    for loop in list(sch.state.tree().loops.values()):
        count = len(inner_parts(loop))
        with contextlib.suppress(ScheduleError):
            if draw(st.integers(0, 3)) == 0:
                sch.bind(to_handles(loop), draw(st.sampled_from(["vthread", "vthread.x"])))
            elif count > 1:
                sch.annotate(to_handles(loop), STAGE, sorted(draw(st.integers(0, 2)) for _ in range(count)))
                if draw(st.booleans()):
                    sch.annotate(to_handles(loop), ORDER, list(draw(st.permutations(range(count)))))
                sch.annotate(to_handles(loop), SPARE, draw(st.integers(0, 2)))
    for block in list(sch.state.tree().blocks.values()):
        if block.block.writes and draw(st.integers(0, 2)) == 0:
            with contextlib.suppress(ScheduleError):
                sch.annotate(to_handles(block), DOUBLE, 0)
    tally.program(sch.func)
    _lowered(tally, sch.func, None)


def _reductions_on_threads(tally: Tally, draw: Draw) -> None:
    """Reductions whose threads add up together: by shuffles, and in shared storage."""
    with contextlib.suppress(ScheduleError):
        _, sch = on_threads(draw)
        tally.program(sch.func)
        _lowered(tally, sch.func, draw(st.sampled_from([None, CUDA])))


def _instructions(tally: Tally, draw: Draw) -> None:
    """Stages that copy asynchronously, and products by an instruction."""
    if draw(st.booleans()):
        length = draw(st.sampled_from([16, 32, 64, 80, None]))
        stages = (0, draw(st.integers(0, 3)))
        order = (0, 1) if stages[1] == 0 else draw(st.sampled_from([(0, 1), (1, 0)]))
        func = pipeline(length, stages, order)
        tally.program(func)
        _lowered(tally, func, CUDA)
        return
    n, blocks, words = (draw(st.integers(1, 3)) for _ in range(3))
    func = tensorized(rows_of_words(n, blocks, words)).func
    tally.program(func)
    _lowered(tally, func, CPU)


def _tensor_expressions(tally: Tally, draw: Draw) -> None:
    tensors = draw(te_computes(functions=ROUNDING[:4]))
    tally.tensors(tensors)
    func = te.create_prim_func(tensors)
    tally.program(func)
    _lowered(tally, func, None)


def _seeded_programs(tally: Tally, draw: Draw) -> None:
    """Blocks, grids and stages, as the tests of the passes draw them."""
    made = draw(st.sampled_from([block_program, grid_program, virtual_program, staged_program]))
    drawn = made(draw(st.integers(0, 999)))
    if drawn is not None:
        tally.program(drawn[0])
        _lowered(tally, drawn[0], draw(st.sampled_from([None, CPU])))


def _loops_beside(tally: Tally, draw: Draw) -> None:
    """Parallel loops in a row, some of which touch different elements."""
    func = program(draw(loops(open_sizes=draw(st.booleans()))))
    tally.program(func)
    _lowered(tally, func, CPU)


def _operators(tally: Tally, draw: Draw, name: str) -> None:
    """A family of operators with any attributes, from the network to kernels."""
    graph = graph_of(random_call(name, draw(st.integers(0, 999))))
    tally.graph(graph)
    for node in optimize(graph, CPU, callback=tally.graph_pass).nodes:
        tally.graph(node.attrs["graph"])  # passes make other operators of it
        func = to_prim_func(node)
        tally.program(func)
        _lowered(tally, strategy.schedule(func, CPU).func, CPU)


def _networks(tally: Tally, draw: Draw) -> None:
    graph = draw(graphs()).graph
    tally.graph(graph)
    if draw(st.booleans()):
        layout = draw(st.sampled_from([["NHWC", "default"], ["NHWC", "OHWI"], ["NCHW4c", "OIHW4i4o"]]))
        changed = ConvertLayout({"nn.conv2d": layout})(graph)
        tally.passed("ConvertLayout", str(graph) != str(changed))
        graph = changed
    fused = optimize(graph, CPU, callback=tally.graph_pass)
    _functions(tally, fused)


def _functions(tally: Tally, fused: Graph) -> None:
    """The functions of a network, those of its loops' bodies among them."""
    for node in fused.nodes:
        if node.op == LOOP:
            tally.graph(node.body)
            _functions(tally, node.body)
            continue
        tally.graph(node.attrs["graph"])
        _lowered(tally, strategy.schedule(to_prim_func(node), CPU).func, CPU)


def _expressions(tally: Tally, draw: Draw) -> None:
    variables = [Var(f"x{k}", DType(draw(st.sampled_from(SCALARS)))) for k in range(2)]
    dtype = draw(st.sampled_from(["int32", "float32", "bool", "uint8"]))
    tally.nodes(draw(exprs(variables, dtype, intrinsics=draw(st.booleans()))))


SOURCES = (
    Source("prim_funcs under random steps", _loop_programs, 500),
    Source("each primitive on its programs", _primitives, 450, NAMES),
    Source("prim_funcs by the strategy", _by_strategy, 200),
    Source("families of nests", _families, 300),
    Source("programs of ten lines", _small, 60 * len(SMALL), tuple(SMALL)),
    Source("threads of a GPU", _threads, 150),
    Source("pipelines", _pipelines, 150),
    Source("reductions on threads", _reductions_on_threads, 150),
    Source("instructions and asynchronous copies", _instructions, 40),
    Source("blocks, grids and stages", _seeded_programs, 600),
    Source("parallel loops beside one another", _loops_beside, 60),
    Source("te_computes", _tensor_expressions, 200),
    Source("graphs", _networks, 500),
    Source("calls of operators", _operators, 880, tuple(sorted(OPERATORS))),
    Source("exprs", _expressions, 300),
)
