"""Control flow that is decided while importing: the branch that is taken, and loops that are unrolled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ....arith import simplify
from ....expr import Expr, IntImm, SizeVar, walk
from ....topi.shapes import differ
from ...operand import Operand
from ..context import NodeContext
from ..registry import converter

LONGEST = 256  # unrolled steps of a loop, at most


@converter("If")
def if_(n: NodeContext) -> Any:
    """The branch that a known condition selects replaces the node; else both are computed, and `where` selects.

    A condition on sizes may decide between results of different types. Then the branch is taken that holds for sizes
    above 1, which is what such models are exported for, and a run at other sizes is refused.
    """
    branches = {True: n.attr("then_branch"), False: n.attr("else_branch")}
    condition = n[0]
    if condition.data is not None and not condition.is_symbolic:
        return n.importer.subgraph(branches[bool(n.scalar(condition, "the condition"))], n.scope)
    taken, other = (n.importer.subgraph(branches[holds], n.scope) for holds in (True, False))
    misfit = next((f"{a} and {b}" for a, b in zip(taken, other, strict=True) if not _alike(a, b)), None)
    if misfit is None:
        flag = n.op("reshape", condition, newshape=())
        return [n.op("where", flag, a, b) for a, b in zip(taken, other, strict=True)]
    known = n.array(condition, f"the condition of branches with results of different types, {misfit},")
    (decided,) = known.reshape(-1).tolist()
    holds = _at_usual_sizes(decided)
    if holds is None:
        n.refuse(f"the condition {decided} selects results of different types, {misfit}\n  try:    shapes={{...}}")
    return [n.assume(result, (decided, int(holds))) for result in (taken if holds else other)]


def _alike(a: Operand, b: Operand) -> bool:
    """Whether two results can be elements of one `where`: equal dtypes, and shapes that may be equal."""
    if a.dtype != b.dtype or a.ndim != b.ndim:
        return False
    return not any(differ(d, e) for d, e in zip(a.shape, b.shape, strict=True))


def _at_usual_sizes(condition: Expr) -> bool | None:
    """Whether a condition holds at all sizes of at least 2, or at none; None if that depends on them."""
    ranges = {v: (2, None) for v in walk(condition) if isinstance(v, SizeVar)}
    decided = simplify(condition, ranges)
    return bool(decided.value) if isinstance(decided, IntImm) else None


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
    """The number of steps, and the condition in each of them, must be known."""
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


@converter("OptionalHasElement", since=15)
def optional_has_element(n: NodeContext) -> Any:
    """A tensor that is there is an element; values of an optional type are refused."""
    return Operand.known(np.array(n.optional(0) is not None))


@converter("OptionalGetElement", since=15)
def optional_get_element(n: NodeContext) -> Any:
    return n[0]


@converter("Scan", since=8)
def scan_of_batches(n: NodeContext) -> Any:
    """A scan for each element of a batch, the first axis of all inputs and outputs."""
    body, count, turns = n.attr("body"), n.attr("num_scan_inputs"), n.attr("directions", None)
    if n.optional(0) is not None:
        n.refuse("sequence_lens is not supported")
    inputs = n.present_from(1)
    batch = _count(n, inputs[0].shape[0])
    axes, turns = (0,) * count, (0,) * count if turns is None else turns
    outputs = len(body.output) - (len(inputs) - count)

    each = [
        _scanned(n, body, count, [n.entry(x, k) for x in inputs], (axes, turns), ((0,) * outputs, (0,) * outputs))
        for k in range(batch)
    ]
    return [_stacked(n, list(rows)) for rows in zip(*each, strict=True)]


@converter("Scan", since=9)
def scan(n: NodeContext) -> Any:
    """Apply the body to each slice of the scanned inputs; states are passed on, the other outputs are stacked."""
    body, count = n.attr("body"), n.attr("num_scan_inputs")
    outputs = len(body.output) - (len(n.inputs) - count)
    in_axes, in_turns = n.attr("scan_input_axes", (0,) * count), n.attr("scan_input_directions", (0,) * count)
    out_axes, out_turns = n.attr("scan_output_axes", (0,) * outputs), n.attr("scan_output_directions", (0,) * outputs)
    return _scanned(n, body, count, n.present, (in_axes, in_turns), (out_axes, out_turns))


Walk = tuple[Sequence[int], Sequence[int]]  # for each tensor its axis, and 1 where it is walked backwards


def _scanned(n: NodeContext, body: Any, count: int, inputs: list[Operand], read: Walk, write: Walk) -> list[Operand]:
    """The last states, and the other outputs stacked; the last `count` inputs are scanned."""
    states = len(inputs) - count
    outputs = len(body.output) - states
    (in_axes, in_turns), (out_axes, out_turns) = read, write
    state, scanned = inputs[:states], inputs[states:]
    axes = [a % x.ndim for a, x in zip(in_axes, scanned, strict=True)]
    steps = _count(n, scanned[0].shape[axes[0]])
    rows: list[list[Operand]] = [[] for _ in range(outputs)]
    for t in range(steps):
        slices = []
        for x, axis, turned in zip(scanned, axes, in_turns, strict=True):
            at = steps - 1 - t if turned else t
            slices.append(n.entry(x, at, axis))
        results = _body(n, body, [*state, *slices])
        state = results[:states]
        for row, value in zip(rows, results[states:], strict=True):
            row.append(value)
    ordered = [row[::-1] if turned else row for row, turned in zip(rows, out_turns, strict=True)]
    return [*state, *(_stacked(n, row, axis) for row, axis in zip(ordered, out_axes, strict=True))]
