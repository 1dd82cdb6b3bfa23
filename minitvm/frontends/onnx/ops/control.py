"""Convert control flow: branches, short loops (unrolled), and other loops as loops of the graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .... import te
from ....arith import simplify
from ....errors import InputError, UnsupportedOperator
from ....expr import Expr, IntImm, Not, SizeVar, as_expr, walk
from ....graph.loop_bodies import UNLIMITED
from ....graph.nodes import Dim
from ....topi.shapes import axis_of, differ, same, simple
from ...common import operand as common
from ..branching import Parted
from ..context import NodeContext
from ..registry import converter

# A loop that is known to be at most this long is unrolled, so that its iterations can be fused and know their numbers.
WRITTEN_OUT = 16
LONGEST = 256  # and one that cannot be a loop, because its iterations differ in shapes


@converter("If")
def if_(n: NodeContext) -> Any:
    """If the condition is known, convert the selected branch. Otherwise compute both branches and select with `where`.

    Results may differ in size. The size is that of the branch that is taken, so it depends on data if the condition
    does. If results differ in rank or dtype, a condition on sizes is decided for sizes above 1, for which such models
    are exported, and a run at other sizes is refused. For any other condition, the nodes after this one are converted
    once per branch.
    """
    branches = {True: n.attr("then_branch"), False: n.attr("else_branch")}
    condition = n[0]
    if condition.data is not None and not condition.is_symbolic:
        return n.importer.subgraph(branches[bool(n.scalar(condition, "the condition"))], n.scope)
    flag = n.reshape(condition, ())
    holds = n.holds(flag)
    try:
        with n.builder.attempt():
            return _both(n, branches, flag, holds)
    except _Misfit as error:
        misfit = error
    try:
        known = n.array(condition, f"the condition of branches with results of different types, {misfit},")
        (decided,) = known.reshape(-1).tolist()
        usual = _at_usual_sizes(decided)
        if usual is None:
            n.refuse(
                f"the condition {decided} selects results of different types, {misfit}\n"
                "  try:    shapes={...}, which gives sizes that decide the condition"
            )
    except UnsupportedOperator as refusal:
        raise Parted(refusal, flag, holds, branches) from refusal
    return [n.assume(result, (decided, int(usual))) for result in n.importer.subgraph(branches[usual], n.scope)]


class _Misfit(Exception):
    """The results of two branches differ in rank or dtype, or are lists of sizes with different lengths."""


def _both(n: NodeContext, branches: dict[bool, Any], flag: common.Operand, holds: Expr) -> list[common.Operand]:
    """Return a selection between the results of both branches. Raises `_Misfit`."""
    results = []
    for taken, condition in ((True, holds), (False, Not(holds))):
        with n.builder.branch(condition):
            results.append(n.importer.subgraph(branches[taken], n.scope))
    for a, b in zip(*results, strict=True):
        # Lists of sizes, which may shape a tensor, are to stay known.
        lists = all(x.is_known for x in (n[0], a, b)) and a.shape != b.shape
        if a.dtype != b.dtype or a.ndim != b.ndim or lists:
            raise _Misfit(f"{a} and {b}")
    return [n.builder.selected(flag, holds, a, b, n.name_hint, n.where) for a, b in zip(*results, strict=True)]


def _at_usual_sizes(condition: Expr) -> bool | None:
    """Return whether a condition holds at all sizes of at least 2, or at none; None if that depends on the sizes."""
    ranges = {v: (2, None) for v in walk(condition) if isinstance(v, SizeVar)}
    decided = simplify(condition, ranges)
    return bool(decided.value) if isinstance(decided, IntImm) else None


class _Undecided(Exception):
    """A loop cannot be unrolled, because it is not known whether it continues, or because it is long."""


def _body(n: NodeContext, graph: Any, inputs: Sequence[common.Operand]) -> list[common.Operand]:
    bound = {info.name: operand for info, operand in zip(graph.input, inputs, strict=True)}
    return n.importer.subgraph(graph, {**n.scope, **bound})


def _written_out(n: NodeContext, iterations: Callable[[int], Any], looped: Callable[[bool], Any]) -> Any:
    """Unroll a loop of at most WRITTEN_OUT iterations. Write any other loop as a loop, if that is possible.

    `iterations(most)` unrolls it, and raises `_Undecided` if there are more iterations or their number depends on data.
    `looped(growing)` writes the loop. With `growing`, the extents of its carried values may change.
    """
    try:
        with n.builder.attempt():
            return iterations(WRITTEN_OUT)
    except _Undecided:
        pass
    try:
        with n.builder.attempt():
            return looped(False)
    except (UnsupportedOperator, InputError):
        try:  # an iteration may need its number, or shapes may change
            with n.builder.attempt():
                return iterations(LONGEST)
        except _Undecided:
            return looped(True)


def _stacked(n: NodeContext, rows: list[common.Operand], axis: int = 0) -> common.Operand:
    stacked: common.Operand = n.op("stack", *rows, axis=axis)
    return stacked


@converter("Loop")
def loop(n: NodeContext) -> Any:
    """Unroll the loop if it is known to be short, or else write it as a loop of the graph.

    Rows of all iterations need a bound on their number: the limit, or `max_length` of the import.
    """
    body, state = n.attr("body"), n.present_from(2)
    limit, condition = n.optional(0), n.optional(1)
    condition = common.Operand.known(np.array(True)) if condition is None else condition

    def iterations(most: int) -> list[common.Operand]:
        if (limit is not None and limit.data is None) or condition.data is None:
            raise _Undecided
        if limit is not None and limit.is_symbolic:
            raise _Undecided
        steps = None if limit is None else int(n.scalar(limit, "the number of steps"))
        going, states, number = bool(n.scalar(condition, "the condition")), list(state), 0
        rows: list[list[common.Operand]] = [[] for _ in range(len(body.output) - 1 - len(state))]
        while going and (steps is None or number < steps):
            if number == most:
                raise _Undecided
            known = [common.Operand.known(np.array(number, np.int64)), common.Operand.known(np.array(True))]
            again, *results = _body(n, body, [*known, *states])
            if again.data is None or again.is_symbolic:
                raise _Undecided
            going = bool(n.scalar(again, "the condition"))
            states = results[: len(states)]
            for row, value in zip(rows, results[len(states) :], strict=True):
                row.append(value)
            number += 1
        if rows and not number:
            raise _Undecided  # the shape of rows follows from that of an iteration
        return [*states, *(_stacked(n, row) for row in rows)]

    return _written_out(n, iterations, lambda growing: _looped(n, body, state, limit, condition, growing=growing))


def _looped(
    n: NodeContext,
    body: Any,
    state: Sequence[common.Operand],
    limit: common.Operand | None,
    condition: common.Operand,
    *,
    growing: bool,
) -> list[common.Operand]:
    """Write the loop as a loop of the graph. Elements that its iterations append to a sequence become rows."""
    lists = [s for s in state if isinstance(s, common.SequenceOperand)]
    has_rows = len(body.output) - 1 > len(state) or bool(lists)
    most = _most(n, limit) if has_rows else None
    always = condition.data is not None and not condition.is_symbolic and bool(n.scalar(condition, "the condition"))
    appended: list[int] = []  # to each sequence in an iteration

    def iteration(
        number: common.Operand, *states: common.Operand
    ) -> tuple[common.Operand, list[common.Operand], list[common.Operand]]:
        nonlocal always
        tensors = iter(states)
        appended.clear()
        begin = [common.GrowingSequence(s) if isinstance(s, common.SequenceOperand) else next(tensors) for s in state]
        again, *results = _body(n, body, [number, common.Operand.known(np.array(True)), *begin])
        always = always and again.data is not None and not again.is_symbolic and bool(np.all(again.data))
        carried, rows = results[: len(state)], results[len(state) :]
        for s, result in zip(state, carried, strict=True):
            if isinstance(s, common.SequenceOperand):
                elements = _elements_behind(n, s, result)
                appended.append(len(elements))
                rows = [*rows, *elements]
        return n.reshape(again, ()), [r for r in carried if not isinstance(r, common.SequenceOperand)], rows

    bound = None if limit is None else n.cast(n.reshape(limit, ()), "int64")
    tensors = [s for s in state if not isinstance(s, common.SequenceOperand)]

    def iterations() -> Dim:
        """Return a bound on their number, for the memory of growing values. A run does not exceed it."""
        return _most(n, limit, "what the loop carries, which grows,")

    grown_most = (iterations if most is None else lambda: most) if growing else None
    count, *results = n.builder.loop(
        iteration, tensors, bound, n.reshape(condition, ()), most, n.where, growing=grown_most, longest=n.most_of_any
    )
    rows = results[len(tensors) :]
    if rows and not (always and limit is not None and limit.data is not None):
        assert most is not None
        size = n.bound(count, most, "iterations")
        rows = [n.op("leading", row, size=size) for row in rows]
    last, own = iter(results), len(rows) - sum(appended)
    grown = []
    for s, number in zip(lists, appended, strict=True):
        grown.append(_extended(n, s, rows[own : own + number]))
        own += number
    ends = iter(grown)
    behind = [next(ends) if isinstance(s, common.SequenceOperand) else next(last) for s in state]
    return [*behind, *rows[: len(rows) - sum(appended)]]


def _elements_behind(n: NodeContext, before: common.SequenceOperand, after: common.Operand) -> Sequence[common.Operand]:
    """Return the elements that an iteration appends to a sequence."""
    if not isinstance(after, common.GrowingSequence) or after.before is not before:
        n.refuse("a sequence that a loop of open length changes may only get elements at its end")
    return after.appended


def _extended(n: NodeContext, before: common.SequenceOperand, rows: Sequence[common.Operand]) -> common.SequenceOperand:
    """Return a sequence with the elements of all iterations appended. `rows` holds [iterations, ..] for each appended
    element.
    """
    if not rows:
        return before
    each: common.Operand = n.op("stack", *rows, axis=1)
    new = n.reshape(each, (simple(each.shape[0] * len(rows)), *each.shape[2:]))
    if isinstance(before, common.OperandSequence) and not before.elements:
        return common.StackedSequence(new)
    return common.JoinedSequence([before, common.StackedSequence(new)])


def _most(n: NodeContext, limit: common.Operand | None, what: str = "the rows of all iterations") -> Dim:
    """Return a bound on the number of iterations, for the memory of their results."""
    if limit is not None and limit.data is not None:
        (steps,) = n.dims(limit, "the number of steps")
        if isinstance(steps, int) and steps < UNLIMITED:
            return max(steps, 0)
        if isinstance(steps, SizeVar):
            return steps
        if isinstance(steps, Expr):
            return simple(te.maximum(as_expr(steps), 0))
    bound = n.importer.bound_of_iterations()
    if bound is None:
        why = "a condition ends it" if limit is None or limit.data is not None else "the number of steps is data"
        n.refuse(
            f"memory for {what} cannot be planned: {why}, and nothing bounds how many there are\n"
            "  try:    max_length=..., the most iterations that a run may have"
        )
    return bound


@converter("OptionalHasElement", since=15)
def optional_has_element(n: NodeContext) -> Any:
    """Return True for a tensor, which counts as a present element; values of an optional type are refused."""
    return common.Operand.known(np.array(n.optional(0) is not None))


@converter("OptionalGetElement", since=15)
def optional_get_element(n: NodeContext) -> Any:
    return n[0]


@converter("Scan", since=8)
def scan_of_batches(n: NodeContext) -> Any:
    """Do a scan for each element of a batch, which is the first axis of all inputs and outputs."""
    body, count, turns = n.attr("body"), n.attr("num_scan_inputs"), n.attr("directions", None)
    if n.optional(0) is not None:
        n.refuse("sequence_lens is not supported")
    inputs = n.present_from(1)
    batch = n.size(inputs[0], 0)
    axes, turns = (0,) * count, (0,) * count if turns is None else turns
    outputs = len(body.output) - (len(inputs) - count)

    each = [
        _scanned(n, body, count, [n.entry(x, k) for x in inputs], (axes, turns), ((0,) * outputs, (0,) * outputs))
        for k in range(batch)
    ]
    return [_stacked(n, list(rows)) for rows in zip(*each, strict=True)]


@converter("Scan", since=9)
def scan(n: NodeContext) -> Any:
    """Apply the body to each slice of the scanned inputs. States are passed on, and the other outputs are stacked."""
    body, count = n.attr("body"), n.attr("num_scan_inputs")
    outputs = len(body.output) - (len(n.inputs) - count)
    in_axes, in_turns = n.attr("scan_input_axes", (0,) * count), n.attr("scan_input_directions", (0,) * count)
    out_axes, out_turns = n.attr("scan_output_axes", (0,) * outputs), n.attr("scan_output_directions", (0,) * outputs)
    return _scanned(n, body, count, n.present, (in_axes, in_turns), (out_axes, out_turns))


Walk = tuple[Sequence[int], Sequence[int]]  # for each tensor its axis, and 1 where it is walked backwards


def _scanned(
    n: NodeContext, body: Any, count: int, inputs: list[common.Operand], read: Walk, write: Walk
) -> list[common.Operand]:
    """Return the last states, and the other outputs stacked. The last `count` inputs are scanned."""
    states = len(inputs) - count
    (in_axes, in_turns), (out_axes, out_turns) = read, write
    axes = [axis_of(a, x.ndim) for a, x in zip(in_axes, inputs[states:], strict=True)]
    steps, scanned = _together(n, inputs[states:], axes)

    def iterations(most: int) -> list[common.Operand]:
        if not isinstance(steps, int) or not 0 < steps <= most:
            raise _Undecided
        state, rows = inputs[:states], []
        for t in range(steps):
            slices = [
                n.entry(x, steps - 1 - t if turned else t, axis)
                for x, axis, turned in zip(scanned, axes, in_turns, strict=True)
            ]
            results = _body(n, body, [*state, *slices])
            state = results[:states]
            rows.append(results[states:])
        columns = [list(column) for column in zip(*rows, strict=True)]
        ordered = [row[::-1] if turned else row for row, turned in zip(columns, out_turns, strict=True)]
        return [*state, *(_stacked(n, row, axis) for row, axis in zip(ordered, out_axes, strict=True))]

    def looped(growing: bool) -> list[common.Operand]:
        length = n.number(steps, ())

        def iteration(
            number: common.Operand, *state: common.Operand
        ) -> tuple[common.Operand, list[common.Operand], list[common.Operand]]:
            last = n.op("subtract", length, np.array(1)) if any(in_turns) else length
            slices = [
                n.op("take", x, n.op("subtract", last, number) if turned else number, axis=axis)
                for x, axis, turned in zip(scanned, axes, in_turns, strict=True)
            ]
            results = _body(n, body, [*state, *slices])
            return common.Operand.known(np.array(True)), results[:states], results[states:]

        most = (lambda: steps) if growing else None
        _, *results = n.builder.loop(
            iteration, inputs[:states], length, None, steps, n.where, growing=most, longest=n.most_of_any
        )
        columns = []
        for rows, axis, turned in zip(results[states:], out_axes, out_turns, strict=True):
            rows = n.op("reverse", rows, axis=0) if turned else rows
            order = list(range(1, rows.ndim))
            order.insert(axis_of(axis, rows.ndim), 0)
            columns.append(n.op("transpose", rows, axes=tuple(order)))
        return [*results[:states], *columns]

    return _written_out(n, iterations, looped)


def _together(
    n: NodeContext, scanned: Sequence[common.Operand], axes: Sequence[int]
) -> tuple[Dim, list[common.Operand]]:
    """Return the number of slices, which must be the same for all scanned inputs, and these inputs."""
    sizes = [x.shape[axis] for x, axis in zip(scanned, axes, strict=True)]
    steps = next((d for d in sizes if isinstance(d, int)), sizes[0])
    listed = []
    for x, size in zip(scanned, sizes, strict=True):
        if differ(size, steps):
            n.refuse(f"the scanned inputs have {steps} and {size} slices")
        listed.append(x if same(size, steps) else n.assume(x, (size, steps)))
    return steps, listed
