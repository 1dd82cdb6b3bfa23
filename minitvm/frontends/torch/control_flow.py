"""Convert operators that call modules of the program: data-dependent branches, and loops.

cond(condition, one, other, operands)            both are computed, and `where` selects; or the one that is known
while_loop(going, body, carried, read)           a loop of the graph that a condition ends
scan(body, carried, scanned, read)               a loop over the first axis, which also returns rows
map_impl(body, scanned, read)                    the same without carried values
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...expr import Expr
from ...graph.nodes import Dim
from ...topi.shapes import differ, same
from ..common.conversion import Conversion
from ..common.operand import Operand
from .context import label

if TYPE_CHECKING:
    from .importer import TorchImporter

WRITTEN_OUT = 16  # a loop that is known to be at most so long is written out: its iterations fuse


class RegionContext(Conversion):
    """One node that calls modules of the program."""

    def __init__(self, importer: TorchImporter, node: Any, arguments: Sequence[Any]) -> None:
        super().__init__(importer.builder)
        self.importer, self.node, self.arguments = importer, node, arguments

    @property
    def where(self) -> str:
        return label(self.node)

    @property
    def name_hint(self) -> str:
        return str(self.node.name)

    def operands(self, position: int) -> list[Operand]:
        """Return the operands of an argument that is a list of tensors."""
        values = self.arguments[position] if position < len(self.arguments) else ()
        listed = [self.operand(value) for value in values]
        return listed

    def operand(self, value: Any) -> Operand:
        """Return a tensor as an operand; a number becomes a tensor without dimensions."""
        if isinstance(value, Operand):
            return value
        if isinstance(value, bool | int | float):
            return Operand.known(np.array(value, np.float32 if isinstance(value, float) else None))
        self.refuse(f"wanted tensors, found {value!r}")

    def run(self, module: Any, inputs: Sequence[Any]) -> list[Operand]:
        """Return the results of a module."""
        return [self.operand(value) for value in self.importer.region(module, inputs)]


def is_region(node: Any) -> bool:
    """Return whether a node calls modules of the program as branches or bodies."""
    return str(node.target) in REGIONS


def convert(importer: TorchImporter, node: Any, arguments: Sequence[Any]) -> list[Operand]:
    """Return the results of a control-flow node."""
    return REGIONS[str(node.target)](RegionContext(importer, node, arguments))


def _cond(n: RegionContext) -> list[Operand]:
    condition, one, other, *_ = n.arguments
    read = n.arguments[3] if len(n.arguments) > 3 else ()
    flag = n.operand(condition)
    if flag.data is not None and not flag.is_symbolic:
        return n.run(one if bool(n.scalar(flag, "the condition")) else other, read)
    pairs = list(zip(n.run(one, read), n.run(other, read), strict=True))
    for a, b in pairs:
        if a.dtype != b.dtype or a.ndim != b.ndim or any(differ(d, e) for d, e in zip(a.shape, b.shape, strict=True)):
            n.refuse(f"the branches have results of different types, {a} and {b}")
    flag = n.reshape(flag, ())
    return [n.op("where", flag, a, b) for a, b in pairs]


def _while_loop(n: RegionContext) -> list[Operand]:
    going, body = n.arguments[:2]
    carried, read = n.operands(2), n.arguments[3] if len(n.arguments) > 3 else ()

    def goes_on(state: Sequence[Operand]) -> Operand:
        (condition,) = n.run(going, [*state, *read])
        return n.reshape(condition, ())

    def iteration(_: Operand, *state: Operand) -> tuple[Operand, list[Operand], list[Operand]]:
        new = n.run(body, [*state, *read])
        return goes_on(new), new, []

    _, *results = n.builder.loop(iteration, carried, None, goes_on(carried), None, n.where)
    return results


def _scan(n: RegionContext) -> list[Operand]:
    body = n.arguments[0]
    return _scanned(n, body, n.operands(1), n.operands(2), n.arguments[3] if len(n.arguments) > 3 else ())


def _map(n: RegionContext) -> list[Operand]:
    return _scanned(n, n.arguments[0], [], n.operands(1), n.arguments[2] if len(n.arguments) > 2 else ())


def _scanned(
    n: RegionContext, body: Any, carried: list[Operand], scanned: Sequence[Operand], read: Sequence[Any]
) -> list[Operand]:
    """Return the last carried values, and the other results of all slices along a new first axis."""
    steps = _together(n, scanned)
    if isinstance(steps, int) and 0 < steps <= WRITTEN_OUT:
        state, rows = carried, []
        for t in range(steps):
            results = n.run(body, [*state, *(n.entry(x, t) for x in scanned), *read])
            state = results[: len(carried)]
            rows.append(results[len(carried) :])
        return [*state, *(n.op("stack", *column, axis=0) for column in zip(*rows, strict=True))]

    def iteration(number: Operand, *state: Operand) -> tuple[Operand, list[Operand], list[Operand]]:
        results = n.run(body, [*state, *(n.op("take", x, number, axis=0) for x in scanned), *read])
        return Operand.known(np.array(True)), results[: len(carried)], results[len(carried) :]

    length = np.empty((), object)
    length[()] = steps
    limit = Operand.known(length, "int64") if isinstance(steps, Expr) else Operand.known(np.array(steps, np.int64))
    _, *results = n.builder.loop(iteration, carried, limit, None, steps, n.where)
    return results


def _together(n: RegionContext, scanned: Sequence[Operand]) -> Dim:
    """Return the number of slices, which must be the same for all scanned tensors."""
    if not scanned:
        n.refuse("nothing is scanned")
    steps = next((x.shape[0] for x in scanned if isinstance(x.shape[0], int)), scanned[0].shape[0])
    for x in scanned:
        if not same(x.shape[0], steps):
            n.refuse(f"the scanned tensors have {steps} and {x.shape[0]} slices")
    return steps


REGIONS: dict[str, Callable[[RegionContext], list[Operand]]] = {
    "cond": _cond,
    "map_impl": _map,
    "scan": _scan,
    "while_loop": _while_loop,
}
