"""Control flow whose way is known while importing: the branch taken, and loops written out."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..context import NodeContext
from ..operand import Operand
from ..registry import converter

LONGEST = 256  # steps that a loop is written out to


@converter("If")
def if_(n: NodeContext) -> Any:
    """The branch that a constant condition takes, in the place of the node."""
    condition = n.scalar(n[0], "the condition")
    then, other = n.attr("then_branch"), n.attr("else_branch")
    return n.importer.subgraph(then if condition else other, n.scope)


def _count(n: NodeContext, steps: Any) -> int:
    if not isinstance(steps, int) or steps > LONGEST:
        n.refuse(f"{steps} steps are not written out, {LONGEST} is the most")
    return steps


def _body(n: NodeContext, graph: Any, inputs: list[Operand]) -> list[Operand]:
    bound = {info.name: operand for info, operand in zip(graph.input, inputs, strict=True)}
    return n.importer.subgraph(graph, {**n.scope, **bound})


def _stacked(n: NodeContext, rows: list[Operand], axis: int = 0) -> Operand:
    if not rows:
        n.refuse("a loop without a step has outputs of unknown shape")
    stacked: Operand = n.op("stack", *rows, axis=axis)
    return stacked


@converter("Loop")
def loop(n: NodeContext) -> Any:
    """A known number of steps, the condition known in each of them."""
    body = n.attr("body")
    limit, condition = n.optional(0), n.optional(1)
    steps = None if limit is None else int(n.scalar(limit, "the number of steps"))
    going = True if condition is None else bool(n.scalar(condition, "the condition"))
    state = list(n.present_from(2))
    rows: list[list[Operand]] = [[] for _ in range(len(body.output) - 1 - len(state))]
    number = 0
    while going and (steps is None or number < steps):
        _count(n, number)
        flag = Operand.known(np.array(True))
        outputs = _body(n, body, [Operand.known(np.array(number, np.int64)), flag, *state])
        going = bool(n.scalar(outputs[0], "the condition"))
        state = outputs[1 : 1 + len(state)]
        for row, value in zip(rows, outputs[1 + len(state) :], strict=True):
            row.append(value)
        number += 1
    return [*state, *(_stacked(n, row) for row in rows)]


@converter("Scan", since=9)
def scan(n: NodeContext) -> Any:
    """The body on each slice of the scanned inputs, states handed on, the other outputs stacked."""
    body, count = n.attr("body"), n.attr("num_scan_inputs")
    states = len(n.inputs) - count
    outputs = len(body.output) - states
    in_axes, in_turns = n.attr("scan_input_axes", (0,) * count), n.attr("scan_input_directions", (0,) * count)
    out_axes, out_turns = n.attr("scan_output_axes", (0,) * outputs), n.attr("scan_output_directions", (0,) * outputs)
    state, scanned = list(n.present[:states]), list(n.present[states:])
    axes = [a % x.ndim for a, x in zip(in_axes, scanned, strict=True)]
    steps = _count(n, scanned[0].shape[axes[0]])
    rows: list[list[Operand]] = [[] for _ in range(outputs)]
    for t in range(steps):
        slices = []
        for x, axis, turned in zip(scanned, axes, in_turns, strict=True):
            at = steps - 1 - t if turned else t
            part = n.op("strided_slice", x, begin=(at,), end=(at + 1,), strides=(1,), axes=(axis,))
            slices.append(n.op("squeeze", part, axis=(axis,)))
        results = _body(n, body, [*state, *slices])
        state = results[:states]
        for row, value in zip(rows, results[states:], strict=True):
            row.append(value)
    ordered = [row[::-1] if turned else row for row, turned in zip(rows, out_turns, strict=True)]
    return [*state, *(_stacked(n, row, axis) for row, axis in zip(ordered, out_axes, strict=True))]
