"""Workloads for symbolic sizes, beside enumeration: what is simplified and proved, and what formulas count."""

from __future__ import annotations

from minitvm.tir.nodes import PrimFunc
from minitvm.tir.work import formulas
from tests.arith.expressions import SymbolicShape
from tests.tir.work.nests import chosen, miscounted, nests

from .oracle import Noticed, Trial, Workload, directed, drawn
from .workloads import Draw


def shapes(examples: int = 600) -> Workload:
    """Expressions over loops of symbolic extents, at every small size."""

    def body(trial: Trial, draw: Draw) -> None:
        trial.compared += 1
        text = SymbolicShape(draw).mistake()
        if text:
            raise Noticed("enumeration", text)

    return drawn("expressions over sizes", body, examples)


def cases() -> Workload:
    """Chosen nests: closed formulas beside what is counted at given sizes."""
    return directed("formulas of chosen nests", chosen, _counted)


def _counted(trial: Trial, kernel: PrimFunc) -> None:
    trial.compared += 1
    text = miscounted(kernel, formulas(kernel))
    if text:
        raise Noticed("counting", text)


def counts(examples: int = 150) -> Workload:
    """Nests of loops over symbolic extents: closed formulas beside what is counted at given sizes."""

    def body(trial: Trial, draw: Draw) -> None:
        _counted(trial, draw(nests()))

    return drawn("formulas of nests", body, examples)
