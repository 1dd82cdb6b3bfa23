"""Write a loop of a graph with operands. The extents of its carried values may change (`growing`).

If no extent changes, the body is called once. Otherwise it is first traced, on a part of the graph that is removed
again, until the changing extents and their bounds are known; then the loop is written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from ...errors import Unsupported, UnsupportedOperator
from ...expr import SizeVar, Var
from ...graph.builder import GraphBuilder
from ...graph.nodes import Dim, Value
from ...topi.shapes import same
from .growing import Axis, Extents, Traced
from .growing import extents as changing_extents
from .matching import resized
from .operand import Operand, known_dim

if TYPE_CHECKING:
    from .operand_builder import OperandBuilder

Body: TypeAlias = Callable[..., tuple[Operand, Sequence[Operand], Sequence[Operand]]]


@dataclass(slots=True)
class LoopWriter:
    """A loop that `OperandBuilder.loop` must write. `graph` is the graph of `builder`."""

    builder: OperandBuilder
    graph: GraphBuilder
    body: Body
    carried: Sequence[Operand]
    limit: Operand | None
    going: Operand | None
    most: Dim | None
    where: str
    name: str
    _depends: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        outside = (*self.carried, self.limit, self.going)
        self._depends = frozenset().union(*(o.depends for o in outside if o is not None))

    def write(self, growing: Callable[[], Dim] | None, longest: Dim | None) -> list[Operand]:
        """Return the number of iterations, the carried values, and the rows of all iterations; see
        `OperandBuilder.loop`.
        """
        try:
            return self._loop(Extents())
        except Traced as traced:
            shapes = traced.shapes

        def iterations() -> Dim:
            if growing is None:
                raise self._changes(shapes)
            return growing()

        try:
            extents = changing_extents(self._trace, [o.shape for o in self.carried], iterations, longest)
        except Unsupported as error:
            raise UnsupportedOperator(
                f"{self.where}: {error}\n  try:    max_length=...: a bound, for which memory is reserved"
            ) from None
        if extents.most and growing is None:
            raise self._changes(shapes)
        return self._loop(extents)

    def _loop(self, extents: Extents, trial: Mapping[Axis, SizeVar] | None = None) -> list[Operand]:
        """Write the loop. Raises `Traced` if an iteration changes an extent that is not in `extents`.

        With `trial`, whose extents are variables, it always raises `Traced`.
        """
        begin = [self.builder.value(operand) for operand in self.carried]
        room = [
            resized(self.graph, v, [extents.most.get((k, axis), d) for axis, d in enumerate(v.shape)])
            for k, v in enumerate(begin)
        ]
        counts = [self.builder.value(known_dim(begin[k].shape[axis])) for k, axis in extents.most]
        bounds = {
            key: self.builder.value(operand)
            for key, operand in (("limit", self.limit), ("going", self.going)) if operand is not None
        }  # fmt: skip

        def iteration(number: Value, *own: Value) -> tuple[Value, list[Value], list[Value]]:
            return self._iteration(number, own, extents, trial)

        with self.builder.forgetting():
            values = self.graph.loop(
                iteration, [*room, *counts], most=self.most, where=self.where, name=self.name, **bounds
            )
        behind = 1 + len(begin)
        rows = behind + len(counts)
        operands = [Operand.of(v, self._depends) for v in values]
        ends = self._cut(operands[1:behind], self._sizes(values[behind:rows], extents))
        return [operands[0], *ends, *operands[rows:]]

    def _iteration(
        self, number: Value, own: Sequence[Value], extents: Extents, trial: Mapping[Axis, SizeVar] | None
    ) -> tuple[Value, list[Value], list[Value]]:
        """Write one iteration. Return whether to continue, the carried values with their numbers of entries, and the
        rows.
        """
        first = self.graph.length
        states = [Operand.of(v, o.depends) for v, o in zip(own, self.carried, strict=False)]
        sizes = self._sizes(own[len(states) :], extents)
        states = self._cut(states, sizes if trial is None else trial)
        again, results, rows = self.body(Operand.of(number), *states)
        for result, state in zip(results, states, strict=True):
            if result.dtype != state.dtype or result.ndim != state.ndim:
                raise _unlike(state, result, self.where)
        unchanged = all(
            (k, axis) in extents.most or (k, axis) in extents.kept or same(old, new)
            for k, (result, state) in enumerate(zip(results, states, strict=True))
            for axis, (old, new) in enumerate(zip(state.shape, result.shape, strict=True))
        )
        if trial is not None or not unchanged:
            raise Traced([r.shape for r in results], self._bounds(first))
        self._depends = self._depends.union(*(o.depends for o in (again, *results, *rows)))
        counts = [self.builder.value(known_dim(results[k].shape[axis])) for k, axis in extents.most]
        wide = [self._fitting(result, k, own[k].shape, extents) for k, result in enumerate(results)]
        return self.builder.value(again), [*wide, *counts], [self.builder.value(r) for r in rows]

    def _trace(self, sizes: Mapping[Axis, SizeVar]) -> Traced:
        """Trace an iteration whose carried values have variable extents. This leaves nothing in the graph."""
        try:
            with self.builder.attempt():
                self._loop(Extents(), sizes)
        except Traced as traced:
            return traced
        raise AssertionError("an iteration that is only traced has a result")

    def _changes(self, shapes: Sequence[Sequence[Dim]]) -> UnsupportedOperator:
        """Return the error for the first carried value whose shape an iteration changes."""
        return next(
            _unlike(o, Operand(tuple(shape), o.dtype), self.where)
            for o, shape in zip(self.carried, shapes, strict=True)
            if not all(map(same, o.shape, shape))
        )

    def _sizes(self, counts: Sequence[Value], extents: Extents) -> dict[Axis, SizeVar]:
        """Return the changing extents as new sizes, which are bound at run time."""
        sizes = {}
        for (axis, most), count in zip(extents.most.items(), counts, strict=True):
            sizes[axis] = SizeVar("entries")
            self.graph.op("bind_size", count, size=sizes[axis], most=most, where=self.where)
        return sizes

    def _cut(self, operands: Sequence[Operand], sizes: Mapping[Axis, SizeVar]) -> list[Operand]:
        """Return the operands, cut along their changing axes to the actual number of entries."""
        results = list(operands)
        for (k, axis), size in sizes.items():
            results[k] = self.builder.op("leading", [results[k]], {"size": size, "axis": axis}, "entries")
        return results

    def _bounds(self, first: int) -> dict[Var, Dim]:
        """Return the sizes that the operators from position `first` on bind, with their bounds."""
        return {item.attrs["size"]: item.attrs["most"] for item in self.graph.nodes[first:] if item.op == "bind_size"}

    def _fitting(self, result: Operand, k: int, shape: Sequence[Dim], extents: Extents) -> Value:
        """Return the new value of carried value number k, converted to the type of the carried value."""
        pairs = [
            (new, old) for axis, (new, old) in enumerate(zip(result.shape, shape, strict=True))
            if (k, axis) in extents.kept and not same(new, old)
        ]  # fmt: skip
        value = self.builder.value(self.builder.assume(result, pairs, self.where) if pairs else result)
        return resized(self.graph, value, shape)


def _unlike(state: Operand, result: Operand, where: str) -> UnsupportedOperator:
    """Return the error for a carried value of a loop whose type an iteration changes."""
    return UnsupportedOperator(
        f"{where}: a value begins as {state}, and an iteration makes {result} of it\n"
        "  wanted: one type in all iterations, if their number is not known while importing"
    )
