"""What a program can be made of, category by category, read off the definitions themselves."""

from __future__ import annotations

import minitvm.expr.nodes as expr_nodes
import minitvm.te.nodes as te_nodes
import minitvm.tir.nodes as tir_nodes
from minitvm.expr import INTRINSICS, Expr
from minitvm.expr.dtypes import SCALARS
from minitvm.graph.passes.pipeline import passes as graph_passes
from minitvm.reference.strategies.small import SMALL
from minitvm.target import Target
from minitvm.tir.analysis.software_pipelines import DOUBLE, KEYS
from minitvm.tir.annotations import ALIGNMENTS, LANES, PREFETCH, SCOPES, THREAD_AXES
from minitvm.tir.nodes import ForKind, Stmt
from minitvm.tir.schedule.registry import transforms
from minitvm.tir.transform.pipeline import passes
from minitvm.topi import registry as graph_registry

GRAPH_PASSES = list(dict.fromkeys(name for name, _ in graph_passes(Target("cpu"))))

# What only the machinery between levels makes of these is no part of a program.
_ABSTRACT = {"Expr", "BinaryOp", "CompareOp", "LogicalOp", "Stmt"}

Row = tuple[str, str]  # category, name


def _concrete(module: object, kind: type) -> list[str]:
    return sorted(
        name for name, value in vars(module).items()
        if isinstance(value, type) and issubclass(value, kind) and name not in _ABSTRACT
    )  # fmt: skip


def vocabulary() -> dict[str, list[str]]:
    """The names of each category that a table of what is drawn must have a row for."""
    expressions = {*_concrete(expr_nodes, Expr), *_concrete(tir_nodes, Expr), *_concrete(te_nodes, Expr)}
    # What other tests register, in the same process, is no part of the language.
    primitives = [p for p in transforms() if p.function.__module__.startswith("minitvm.")]
    operators = [n for n in graph_registry.names() if graph_registry.get(n).compute.__module__.startswith("minitvm.")]
    requirements = sorted({r.name for p in primitives for r in p.requires})
    return {
        "statement": _concrete(tir_nodes, Stmt),
        "expression": sorted(expressions),
        "intrinsic": sorted(INTRINSICS),
        "dtype": list(SCALARS),
        "storage scope": list(SCOPES),
        "loop": [str(kind) for kind in ForKind],
        "thread axis": list(THREAD_AXES),
        "iterator": ["S", "R", "O"],
        "annotation": sorted([LANES, PREFETCH, DOUBLE, ALIGNMENTS, *KEYS]),
        "block part": ["init", "alloc_buffers", "match_buffers", "predicate", "several statements"],
        "buffer part": ["strides", "elem_offset", "symbolic dimension", "predicate of a load", "predicate of a store"],
        "primitive": [p.name for p in primitives],
        "requirement holds": requirements,
        "requirement refuses": requirements,
        "pass changes": [p.name for p in passes()],
        "pass changes nothing": [p.name for p in passes()],
        "graph pass changes": [*GRAPH_PASSES, "ConvertLayout"],
        "graph operator": sorted(operators),
        "small program": list(SMALL),
    }
