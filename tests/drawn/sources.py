"""Where a run draws from: each strategy with what is done to its programs, and how many of them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from minitvm import strategy, te
from minitvm.errors import ScheduleError
from minitvm.graph import optimize
from minitvm.graph.lower import to_prim_func
from minitvm.reference.strategies import exprs, graphs, prim_funcs, te_computes
from minitvm.target import Target
from minitvm.tir.nodes import PrimFunc
from minitvm.tir.schedule import Schedule
from minitvm.tir.schedule.registry import transforms
from minitvm.tir.transform import lower

from .tally import Tally

SEED = 0
CPU = Target("cpu -vector_bits=256 -vector_registers=16")
NAMES = tuple(p.name for p in transforms())
Draw = Callable[[st.SearchStrategy[Any]], Any]


@dataclass(frozen=True)
class Source:
    """A strategy's programs on their way down; `examples` of them in a full run."""

    name: str
    body: Callable[[Tally, Draw], None]
    examples: int

    def run(self, tally: Tally, examples: int) -> None:
        """Draw so many programs, the same ones in every run."""

        @settings(max_examples=examples, database=None, deadline=None, phases=[Phase.generate],
                  suppress_health_check=list(HealthCheck))  # fmt: skip
        @seed(SEED)
        @given(st.data())
        def each(data: Any) -> None:
            self.body(tally, data.draw)

        each()


def _lowered(tally: Tally, func: PrimFunc, target: Target | None) -> None:
    with contextlib.suppress(ScheduleError):  # a pipeline that a later step has made impossible
        tally.kernels(lower(func, target, "main", callback=tally.lowering))


def _steps(tally: Tally, draw: Draw, func: PrimFunc, *names: str) -> PrimFunc:
    sch = Schedule(func)
    for _ in range(draw(st.integers(1, 5))):
        call = sch.draw(lambda n: draw(st.integers(0, n - 1)), *names)
        if call is None:
            break
        sch.apply(call)
        tally.step(call.primitive)
    return sch.func


def _loop_programs(tally: Tally, draw: Draw) -> None:
    func = draw(prim_funcs())
    tally.program(func)
    _lowered(tally, func, draw(st.sampled_from([None, CPU])))
    with tally.requirements():
        after = _steps(tally, draw, func, *draw(st.sampled_from([(), (draw(st.sampled_from(NAMES)),)])))
    tally.program(after)
    _lowered(tally, after, draw(st.sampled_from([None, CPU])))


def _by_strategy(tally: Tally, draw: Draw) -> None:
    func = draw(prim_funcs())
    after = strategy.schedule(func, CPU).func
    tally.program(after)
    _lowered(tally, after, CPU)


def _tensor_expressions(tally: Tally, draw: Draw) -> None:
    tensors = draw(te_computes())
    tally.tensors(tensors)
    func = te.create_prim_func(tensors)
    tally.program(func)
    _lowered(tally, func, None)


def _networks(tally: Tally, draw: Draw) -> None:
    case = draw(graphs())
    tally.graph(case.graph)
    fused = optimize(case.graph, CPU, callback=tally.graph_pass)
    for node in fused.nodes:
        func = to_prim_func(node)
        _lowered(tally, strategy.schedule(func, CPU).func, CPU)


def _expressions(tally: Tally, draw: Draw) -> None:
    from minitvm.expr import Var
    from minitvm.expr.dtypes import SCALARS, DType

    variables = [Var(f"x{k}", DType(draw(st.sampled_from(SCALARS)))) for k in range(2)]
    tally.nodes(draw(exprs(variables, draw(st.sampled_from(["int32", "float32", "bool"])))))


SOURCES = (
    Source("prim_funcs", _loop_programs, 600),
    Source("prim_funcs, by the strategy", _by_strategy, 200),
    Source("te_computes", _tensor_expressions, 200),
    Source("graphs", _networks, 200),
    Source("exprs", _expressions, 200),
)
