"""Small helpers for conditions and expressions that schedules, lowering and printing share."""

from __future__ import annotations

from collections.abc import Collection

from ..arith import Analyzer
from ..expr import GE, GT, LE, LT, Div, Expr, FloorDiv, FloorMod, IntImm, Max, Mod, Node, Var, const, find
from ..expr.conditions import all_of, both, conjuncts, is_const
from ..expr.visitor import accessed
from ..expr.visitor import variables as occurring
from .nodes import For

__all__ = ["all_of", "always_defined", "both", "conjuncts", "is_const", "iterations", "reads_memory", "rising", "uses"]


def uses(node: Node, variables: Collection[Var]) -> bool:
    """Return whether any of the variables occurs in a node."""
    return bool(variables) and not occurring(node).isdisjoint(variables)


def reads_memory(e: Expr) -> bool:
    """Return whether the value of an expression depends on the contents of a buffer."""
    return bool(accessed(e))


def always_defined(e: Expr) -> bool:
    """Return whether an expression is defined for all values of its variables, that is, whether every integer division
    is by a nonzero constant.
    """
    divisions = (node for node in find(e, Div | Mod | FloorDiv | FloorMod))
    return all(isinstance(node.b, IntImm) and node.b.value != 0 for node in divisions if node.dtype.is_int)


def iterations(extent: Expr, *around: For) -> Expr:
    """Return the number of iterations of a loop inside other loops: Max(extent, 0) if its extent may be negative.

    A loop with a negative extent does not run. Use this number when you multiply or divide an extent.
    """
    if isinstance(extent, IntImm):
        return const(max(extent.value, 0), extent.dtype)
    shown = Analyzer.inside(*around).can_prove(extent >= 0)
    return extent if shown else Max(extent, const(0, extent.dtype))


def rising(condition: Expr) -> Expr:
    """Write a comparison with its smaller side first (`4 <= i` instead of `i >= 4`), as TVM does in the predicates of
    moved blocks.
    """
    if isinstance(condition, GE | GT):
        return (LE if isinstance(condition, GE) else LT)(condition.b, condition.a)
    return condition
