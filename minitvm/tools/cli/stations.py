"""The stations of a build: the functions that it calls, in order, each with what went in and what came out.

`visits_of` observes one build with `sys.setprofile`, so the text cannot differ from the code. A station is written as
the path of a function and, in brackets, the argument that it transforms: `graph.passes.fuse:fuse(graph)`. With empty
brackets you see only its result; without brackets no program, because the stations inside of it show theirs.
"""

from __future__ import annotations

import difflib
import inspect
import os
import pkgutil
import re
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from ...errors import InternalError
from ...target import Target
from .excerpt import excerpt
from .level_texts import TRACE, text

LINES, WIDTH = 16, 110  # of one program
NOTHING = ("", "")  # instead of the kind and the text of a program
ROOT = Path(__file__).resolve().parents[3]

# The chapters of the book with their stations. Of the passes, those that change a product of matrices with a ReLU, and
# a few that change other programs.
CHAPTERS: dict[str, str] = {
    "The model becomes a graph": """
        build:build build:code_target(target) importing:imported(model) build:compile_executable""",
    "Passes over the graph": """
        graph.passes.pipeline:optimize graph.passes.constant_folding:constant_folding(graph)
        graph.passes.simplify:simplify(graph) graph.passes.common_subexpressions:common_subexpressions(graph)
        machines.simd.graph.blocked_layout:blocked_layout(graph) graph.passes.fuse:fuse(graph)""",
    "An operator becomes a loop program": """
        link.levels:level_of lowering.units:to_units lowering.placement:lower_placed lowering.many:lower_functions
        graph.lower:to_prim_func graph.lower:to_te(node) te.primfunc:create_prim_func(ops)""",
    "A schedule is chosen": """
        strategy.registry:scheduled strategy.registry:chosen machines.simd.strategy.contraction:contraction
        machines.simd.strategy.tiling:register_tiles machines.simd.strategy.panels:contraction_cost
        strategy.candidate:cheapest_first machines.simd.strategy.panels:schedule_panels
        strategy.registry:with_record(taken)""",
    "The loop program becomes kernels": """
        lowering.function:lower_function lowering.function:size_conditions tir.transform.pipeline:lower
        tir.transform.lower_init:lower_init(func) tir.transform.drop_blocks:drop_blocks(func)
        tir.transform.simplify:simplify(func) tir.transform.parallel_loops:fuse_parallel_loops(func)
        tir.transform.hoist_conditions:hoist_conditions(func) tir.transform.place_allocations:place_allocations(func)
        tir.transform.compact_buffers:compact_buffers(func) tir.transform.flatten_buffers:flatten_buffers(func)
        machines.simd.transform.partition_loops:partition_loops(func) tir.transform.vectorize:vectorize(func)
        tir.transform.unroll:unroll(func) tir.transform.promote_accumulators:promote_accumulators(func)
        tir.transform.share_loads:share_loads(func) machines.cpu.inject_prefetch:inject_prefetch(func)
        tir.transform.share_indices:share_indices(func) tir.transform.split_host:split_host(func)""",
    "Kernels become source": "machines.cpu.codegen.numba_cpu:generate(kernel)",
    "Everything becomes an executable": """
        link.graphs:link_graph link.linker:Linker.finish()""",
    "The executable becomes a module that runs": """
        runtime.module:GraphModule.__init__ machines.cpu.runtime.program:load_kernels
        machines.cpu.runtime.compiler:compile_kernel machines.cpu.runtime.loader:load_kernel""",
}


@dataclass(frozen=True)
class Station:
    """A function that builds call. You see the argument `takes` ("": none) and, with `gives`, the result."""

    chapter: str
    path: str
    takes: str
    gives: bool

    @property
    def function(self) -> Any:
        """The function itself, without decorators."""
        return inspect.unwrap(pkgutil.resolve_name(f"minitvm.{self.path}"))

    @property
    def name(self) -> str:
        """The name of the function, with that of its class."""
        return self.path.rpartition(":")[2]

    @property
    def file(self) -> str:
        """The path of its file in the repository."""
        return Path(inspect.getsourcefile(self.function) or "").resolve().relative_to(ROOT).as_posix()

    @property
    def summary(self) -> str:
        """The first paragraph of its docstring; that of the class for a constructor."""
        documented = self.function
        if self.name.endswith(".__init__"):
            documented = pkgutil.resolve_name(f"minitvm.{self.path.removesuffix('.__init__')}")
        return " ".join((inspect.getdoc(documented) or "").split("\n\n")[0].split())


def stations() -> list[Station]:
    """All stations, in the order of the chapters."""
    rows = []
    for chapter, paths in CHAPTERS.items():
        for path in paths.split():
            name, bracket, takes = path.removesuffix(")").partition("(")
            rows.append(Station(chapter, name, takes, bool(bracket)))
    return rows


@dataclass
class Visit:
    """The first call of a station: the kinds and texts of its argument and its result."""

    station: Station
    before: tuple[str, str] = NOTHING
    after: tuple[str, str] = NOTHING
    choice: str = ""  # why this schedule, and its steps, if the function chooses one


def program(value: Any) -> tuple[str, str]:
    """The kind of a value and its text; `NOTHING` for a value that is no program of any level."""
    from ...executable import Executable
    from ...graph import Graph
    from ...graph.nodes import OpNode
    from ...target import Target
    from ...te import Tensor
    from ...tir.nodes import IRModule, PrimFunc

    if isinstance(value, tuple) and value:
        value = list(value)
    if isinstance(value, OpNode) and value.op == "fused":
        value = value.graph
    if isinstance(value, list) and value and all(isinstance(part, Tensor) for part in value):
        return "te", text(value)
    kinds: dict[type, str] = {
        Graph: "graph", PrimFunc: "tir", IRModule: "kernel", Executable: "executable", Target: "target",
    }  # fmt: skip
    kind = next((kind for cls, kind in kinds.items() if isinstance(value, cls)), "")
    if isinstance(value, str):
        kind = "source" if "\n" in value else "target"
        value = "\n".join(line for line in value.split("\n") if not line.startswith("#"))
    return (kind, text(value, trace=False)) if kind else NOTHING


def choice(value: Any) -> str:
    """Why a function has its schedule, and the steps that change it; "" for a function without a schedule."""
    from ...strategy import choice_of
    from ...strategy.report import lines
    from ...tir.nodes import PrimFunc

    if not isinstance(value, PrimFunc) or TRACE not in value.attrs:
        return ""
    steps = [step for step in value.attrs[TRACE] if not re.search(r"= sch\.get_|^sch\.get_", step)]
    return "\n".join([*lines(choice_of(value)), "", *steps])


@contextmanager
def observed(rows: Sequence[Station]) -> Iterator[list[Visit]]:
    """Note the first call of each station in this thread, in the order of the calls."""
    waiting: dict[CodeType, Station] = {row.function.__code__: row for row in rows}
    open_calls: dict[FrameType, Visit] = {}
    visits: list[Visit] = []

    def note(frame: FrameType, event: str, result: Any) -> None:
        if event == "call" and frame.f_code in waiting:
            visit = Visit(waiting.pop(frame.f_code))
            visits.append(visit)
            if visit.station.takes:
                visit.before = program(frame.f_locals[visit.station.takes])
            if visit.station.gives:
                open_calls[frame] = visit
        elif event == "return" and frame in open_calls:
            visit = open_calls.pop(frame)
            visit.after = program(result)
            if visit.before == NOTHING:
                visit.choice = choice(result)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        yield visits
    finally:
        sys.setprofile(before)


@contextmanager
def empty_cache() -> Iterator[None]:
    """No kernel is in the cache, so that nothing is left out of a build."""
    name = "MINITVM_CACHE_DIR"
    before = os.environ.get(name)
    with tempfile.TemporaryDirectory(prefix="minitvm-book-") as folder:
        os.environ[name] = folder
        try:
            yield
        finally:
            if before is None:
                del os.environ[name]
            else:
                os.environ[name] = before


def visits_of(model: Any, target: Target | str) -> list[Visit]:
    """The stations that a build of a model reaches, in the order in which it reaches them."""
    from ...build import build
    from ...tir.passes import PassContext

    rows = stations()
    for row in rows:
        if row.takes and row.takes not in inspect.signature(row.function).parameters:
            raise InternalError(f"{row.path} has no argument {row.takes}, which the book shows")
    # Passes with an instrument run here: no result comes from a cache or another process.
    with empty_cache(), PassContext(instruments=[object()]), observed(rows) as visits:
        build(model, target=target, threads=1, tuned=None)
    return visits


def require_all(visits: Sequence[Visit]) -> None:
    """Raise `InternalError` for stations that the build did not reach, or not in the order of the chapters."""
    rows, reached = stations(), [visit.station for visit in visits]
    missed = [row.path for row in rows if row not in reached]
    if missed:
        raise InternalError(f"the build did not reach these stations of the book: {', '.join(missed)}")
    for row, visit in zip(rows, reached, strict=True):
        if row != visit:
            raise InternalError(f"the build reached {visit.path} where the book has {row.path}")


def pages(visits: Sequence[Visit]) -> str:
    """The visits as Markdown, under the titles of their chapters."""
    parts, chapter, shown = [], "", NOTHING
    for number, visit in enumerate(visits, 1):
        station = visit.station
        if station.chapter != chapter:
            chapter = station.chapter
            parts.append(f"## {chapter}")
        parts.append(f"### {number}. `{station.name}`\n\n`{station.file}`: {station.summary}")
        blocks, shown = _blocks(visit, shown)
        parts += blocks
    return "\n\n".join(parts) + "\n"


def _blocks(visit: Visit, shown: tuple[str, str]) -> tuple[list[str], tuple[str, str]]:
    """The programs of a visit, without one that was shown last; and the program that is shown last now.

    If the program shown last is of the same language, you see how the function changes its argument.
    """
    if visit.before == visit.after != NOTHING:
        return ["It changes nothing here."], shown
    if visit.before[0] == visit.after[0] == shown[0] != "":
        return [_block("diff", _difference(visit.before[1], visit.after[1]))], visit.after
    blocks = []
    if visit.choice:
        blocks.append(f"The choice:\n\n{_block('text', visit.choice, 2 * LINES)}")
    for label, part in (("In:", visit.before), ("Out:", visit.after)):
        if part not in (NOTHING, shown):
            blocks.append(f"{label}\n\n{_block('text' if part[0] == 'target' else 'python', part[1])}")
            shown = part
    return blocks, shown


def _difference(before: str, after: str) -> str:
    lines = list(difflib.unified_diff(before.split("\n"), after.split("\n"), n=1, lineterm=""))[2:]
    return "\n".join("..." if line.startswith("@@") else line for line in lines)


def _block(language: str, program: str, lines: int = LINES) -> str:
    return f"```{language}\n{excerpt(program, lines, WIDTH)}\n```"
