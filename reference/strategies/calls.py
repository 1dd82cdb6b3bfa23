"""Hypothesis strategies: calls of schedule primitives with arbitrary arguments, sensible or not.

The calls are not known to be legal: each may work, or be refused with a readable error.
"""

from __future__ import annotations

import collections.abc
import inspect
import math
import types
import typing
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from minitvm.expr import Var, const
from minitvm.tir.nodes import BlockRealize, For
from minitvm.tir.schedule import PRIMITIVES, Schedule
from minitvm.tir.schedule.handles import BlockRV, LoopRV, handles_in, to_handles

from .expressions import Draw

HUGE = (2**31 - 1, 2**31, -(2**31), 2**63, -(2**63) - 1, 10**30)
WORDS = (
    "", "B", "root", "main", "global", "shared", "local", "warp", "shared.dyn", "wmma.matrix_a", "no such scope",
    "threadIdx.x", "blockIdx.x", "vthread", "vthread.x", "threadIdx.w", "read", "write", "inline", "root ",
    "float32", "int8", "float16x4", "float0", "None", "lambda i: i", "ü", "a b", "1", "\n", "x" * 300,
)  # fmt: skip
ANNOTATIONS: dict[str, tuple[Any, ...]] = {
    "buffer_dim_align": ([[0, 0, 32, 8]], [0, 0, 32, 8], [[0, 9, 32, 8]], [[0, 0, 0, 8]], [[0, 0]], [["a", 0, 1, 2]]),
    "software_pipeline_stage": ([0, 1], [0, 0, 1], [1, 0], [0], [0, -1], [0, 10**9]),
    "software_pipeline_order": ([0, 1], [1, 0], [0, 1, 2], [0, 0], [5, 6]),
    "software_pipeline_async_stages": ([0], [1], [-1], [0, 0]),
    "software_pipeline_spare_versions": (1, 2, 0, -1, 10**9, True),
    "double_buffer_scope": (0, 1, -1, 99),
    "double_buffer_write": (0, 1, True),
    "prefetch": (1, 0, -1, 10**6),
    "vector_reduction": (4, 3, 0, -4, 10**6),
    "pragma_auto_unroll_max_step": (16, -1),
    "pragma_unroll_explicit": (0, 1),
    "pragma_import_c": ("int x;",),
    "script_parsing_detect_access": (0, 1, 2, 3, 9),
    "auto_tensorize": ("dot_4x4", "no such intrinsic"),
    "meta_schedule.unroll_explicit": (16,),
    "explicit_read_region": ([0], 0, [9]),
    "explicit_write_region": ([0], 0, [9]),
    "tir.manifest_shared_memory_local_stage": (1,),
    "buf_dim_align": (1,),
    "local_scope": (1,),
}
MAPS = (
    "lambda i: i", "lambda i, j: (j, i)", "lambda i: (i // 4, i % 4)", "lambda i, j: (i, j // 2, j % 2)",
    "lambda *i: i", "lambda *i: i[::-1]", "lambda: 0", "lambda i: ()", "lambda i: None", "lambda i: i[0]",
    "lambda i: 'x'", "lambda i: i / 2", "lambda i: i // 0", "lambda i: i % 0", "lambda i: [i, [i]]",
    "lambda i: 1.5", "lambda i: i + 10**12", "lambda i, j: i + j", "lambda i, j: i * j",
    "lambda i, j, k: i", "lambda i: (i, 0)", "lambda i: -i", "lambda i: i < 3", "lambda i=1: i", "lambda **i: 0",
    "lambda i, j: (i, ..., j)", "lambda i, j: 0", "lambda i: 2 * i", "lambda i, j: [i * 8 + j]",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class AnyCall:
    """A call that may make no sense. `text` shows it, with the names of blocks and loops."""

    name: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    def __call__(self, sch: Schedule) -> Any:
        """Make the call on a schedule."""
        return getattr(sch, self.name)(*self.args, **self.kwargs)

    def __repr__(self) -> str:
        shown = [_shown(a) for a in self.args] + [f"{k}={_shown(v)}" for k, v in self.kwargs.items()]
        return f"{self.name}({', '.join(shown)})"


def _shown(value: Any) -> str:
    if isinstance(value, LoopRV):
        return f"<loop {getattr(value.key, 'name', value.key)}>"
    if isinstance(value, list):
        return f"[{', '.join(map(_shown, value))}]"
    if isinstance(value, BlockRV):
        return f"<block {value.key}>"
    return getattr(value, "text", None) or repr(value)[:80]


@st.composite
def any_calls(draw: Draw, sch: Schedule, *names: str) -> AnyCall:
    """Draw a call of a primitive (one of `names`, or any registered one) on the current program of a schedule.

    Half of the calls are candidates of the primitive's space with some arguments replaced; the others are made up from
    the types of the parameters. Sometimes an argument is missing or there is an extra one.
    """
    name = draw(st.sampled_from(names or tuple(PRIMITIVES)))
    arguments = _candidate(draw, sch, name) if draw(st.booleans()) else None
    primitive = PRIMITIVES[name]
    parameters = primitive.signature.parameters
    if arguments is None:
        arguments = {p: _argument(draw, sch, name, p) for p in parameters if _needed(draw, parameters[p])}
    else:
        for _ in range(draw(st.sampled_from((0, 1, 1, 2)))):
            parameter = draw(st.sampled_from(list(parameters))) if parameters else None
            if parameter is not None:
                arguments[parameter] = _argument(draw, sch, name, parameter)
    positional = []
    for p, parameter in parameters.items():
        if parameter.kind is parameter.VAR_POSITIONAL and p in arguments:
            several = arguments.pop(p)
            positional = list(several) if isinstance(several, list | tuple) else [several]
    if arguments and draw(st.integers(0, 30)) == 0:
        arguments.pop(draw(st.sampled_from(list(arguments))))
    if draw(st.integers(0, 30)) == 0:
        arguments[draw(st.sampled_from(("nonsense", *parameters)))] = draw(_nonsense())
    return AnyCall(name, tuple(positional), arguments)


def _needed(draw: Draw, parameter: inspect.Parameter) -> bool:
    return parameter.default is parameter.empty or draw(st.booleans())


def _candidate(draw: Draw, sch: Schedule, name: str) -> dict[str, Any] | None:
    primitive = PRIMITIVES[name]
    if primitive.calls is None:
        return None
    candidates = list(primitive.calls(sch.state))
    if not candidates:
        return None
    bound = primitive.signature.bind(*draw(st.sampled_from(candidates)))
    named = {p: to_handles(value) for p, value in bound.arguments.items()}
    loops = set(_loops(sch))
    return named if all(h in loops for h in handles_in(named) if isinstance(h, LoopRV)) else None


def _argument(draw: Draw, sch: Schedule, name: str, parameter: str) -> Any:
    primitive = PRIMITIVES[name]
    if draw(st.integers(0, 7)) == 0:
        return draw(_nonsense())
    if name in ("annotate", "unannotate") and parameter in ("ann_key", "ann_val"):
        key = draw(st.sampled_from(tuple(ANNOTATIONS)))
        return key if parameter == "ann_key" else draw(st.sampled_from(ANNOTATIONS[key]))
    hint = primitive.hints.get(parameter, Any)
    value = _fitting(draw, sch, hint)
    if primitive.signature.parameters[parameter].kind is inspect.Parameter.VAR_POSITIONAL:
        if draw(st.booleans()):
            return _neighbours(draw, sch)
        return [value, *(_fitting(draw, sch, hint) for _ in range(draw(st.integers(0, 3))))]
    return value


def _neighbours(draw: Draw, sch: Schedule) -> list[Any]:
    """Draw some loops around one block, in any order."""
    blocks = _blocks(sch)
    loops = sch.get_loops(draw(st.sampled_from(blocks))) if blocks else []
    if not loops:
        return []
    first = draw(st.integers(0, len(loops) - 1))
    part = loops[first : first + draw(st.integers(1, 4))]
    return draw(st.permutations(part)) if draw(st.booleans()) else part


def _blocks(sch: Schedule) -> list[BlockRV]:
    return [BlockRV(key) for key in sch.state.tree().blocks]


def _loops(sch: Schedule) -> list[LoopRV]:
    """Return the loops that a caller can have handles of: the loops around blocks."""
    tree = sch.state.tree()
    return [LoopRV(var) for var, loop in tree.loops.items() if tree.blocks_in(loop)]


def _fitting(draw: Draw, sch: Schedule, hint: Any) -> Any:
    """Draw a value of a type, sensible or not."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return _fitting(draw, sch, draw(st.sampled_from(inner)))
    if origin in (list, tuple, collections.abc.Sequence):
        return [_fitting(draw, sch, inner[0]) for _ in range(draw(st.integers(0, 4)))]
    if origin is collections.abc.Callable or getattr(hint, "__name__", "") == "IndexMap":
        return _map(draw(st.sampled_from(MAPS)))
    if hint is For:
        return draw(st.sampled_from([*_loops(sch), LoopRV(Var("elsewhere"))]))
    if hint is BlockRealize:
        return draw(st.sampled_from([*_blocks(sch), *_blocks(sch), "B", "no such block"]))
    if hint is bool:
        return draw(st.booleans())
    if hint is int:
        return draw(st.sampled_from((0, 1, 2, 3, 4, 7, 8, -1, -2, -3, 64, *HUGE)))
    if hint is float:
        return draw(st.sampled_from((0.5, 0.25, 1.0, 0.0, -1.0, math.nan, math.inf, 1e300)))
    if hint is str:
        return draw(st.sampled_from(WORDS))
    if hint is types.NoneType:
        return None
    if getattr(hint, "__name__", "") == "Buffer":
        return draw(st.sampled_from([*_buffers(sch)]))
    if getattr(hint, "__name__", "") == "Expr":
        return const(draw(st.sampled_from((1, 2, 3, 0, -1))))
    return draw(st.one_of(st.sampled_from(_buffers(sch)), st.sampled_from(WORDS), _pairs(), _nonsense()))


def _buffers(sch: Schedule) -> list[Any]:
    func = sch.func
    return [*func.buffers, *(b for r in sch.state.tree().blocks.values() for b in r.block.alloc_buffers)]


def _pairs() -> st.SearchStrategy[Any]:
    sides = st.sampled_from(("read", "write", "reads", 0))
    return st.tuples(sides, st.sampled_from((0, 1, 5, -1, 2**40, "0", None)))


def _map(text: str) -> Any:
    function = eval(text)
    function.__doc__ = text
    return function


def _nonsense() -> st.SearchStrategy[Any]:
    return st.sampled_from(
        [
            None, True, False, 0, 1, -1, 1.5, math.nan, math.inf, "", "B", [], [None], [[]], {}, {"a": 1}, (), (1, 2),
            object, print, Var("x"), const(3), const(1.5), b"bytes", 1j, {1, 2}, range(3), ["a"], [1.5], [True],
            {"a": object}, [0, [1]], LoopRV(Var("elsewhere")), type, Ellipsis, *HUGE,
        ]
    )  # fmt: skip
