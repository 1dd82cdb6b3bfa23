"""What the converters of every format share: a node's known contents, operators that are added, refusals."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np

from ...errors import ModelError, UnsupportedOperator
from ...expr import EQ, GE, Expr, SizeVar, as_expr, match
from ...graph.nodes import Dim
from ...topi.shapes import differ, same, simple
from .operand import Operand, ValueDependent, known_dim
from .operand_builder import OperandBuilder


class Conversion:
    """One node of a model that is being converted."""

    def __init__(self, builder: OperandBuilder) -> None:
        self.builder = builder

    @property
    def where(self) -> str:
        """The node, for errors."""
        raise NotImplementedError

    @property
    def name_hint(self) -> str:
        """A name for the values that the node's operators compute."""
        raise NotImplementedError

    @property
    def most_of_any(self) -> int | None:
        """A bound of sizes that data decide, where nothing else bounds them; None if the caller gave none."""
        return None

    # --- constants ---

    def array(self, operand: Operand, what: str) -> np.ndarray:
        """The contents of an operand, dtype object where they are partly symbolic; raises where they are not known."""
        if operand.data is not None:
            return operand.data
        raise self._unknown(operand, what)

    def _unknown(self, operand: Operand, what: str, more: str = "") -> UnsupportedOperator:
        """The error for contents that are not known while importing."""
        if not operand.depends:
            return UnsupportedOperator(
                f"{self.where}: {what} is not constant{more and more.replace('    ', '  try:', 1)}"
            )
        names = ", ".join(sorted(operand.depends))
        tries = ", ".join(f"{name!r}: ..." for name in sorted(operand.depends))
        text = f"{self.where}: {what} depends on the contents of the input {names}\n  try:    params={{{tries}}}{more}"
        return ValueDependent(text, operand.depends)

    def static(self, operand: Operand, what: str) -> np.ndarray:
        """The contents of an operand, which must not be symbolic."""
        array = self.array(operand, what)
        if array.dtype == object:
            raise UnsupportedOperator(f"{self.where}: {what} is symbolic: {array.tolist()}; fix it with shapes=")
        return array

    def dims(self, operand: Operand, what: str, most: Dim | None = None) -> tuple[Dim, ...]:
        """A vector of dimensions, some perhaps symbolic.

        A number that a run computes is a size from then on, if something bounds it: the operators in front, `most`, or
        the caller's `max_length`.
        """
        if operand.data is None:
            bind = functools.partial(self.bound, name="size")
            computed = self.builder.dims(operand, self.most_of_any if most is None else most, bind)
            if computed is None:
                raise self._unknown(operand, what, "\n          max_length=...: a bound, for which memory is reserved")
            return tuple(computed)
        return tuple(d if isinstance(d, Expr) else int(d) for d in self.array(operand, what).reshape(-1).tolist())

    def dim(self, operand: Operand, what: str, most: Dim | None = None) -> Dim:
        """One dimension, perhaps symbolic: see `dims`."""
        numbers = self.dims(operand, what, most)
        if len(numbers) != 1:
            raise ModelError(f"{self.where}: {what} is one number, found {len(numbers)}")
        return numbers[0]

    def ints(self, operand: Operand, what: str) -> tuple[int, ...]:
        """A vector of integers."""
        return tuple(int(v) for v in self.static(operand, what).reshape(-1).tolist())

    def scalar(self, operand: Operand, what: str) -> Any:
        """A number."""
        array = self.static(operand, what)
        if array.size != 1:
            raise ModelError(f"{self.where}: {what} is one number, found the shape {array.shape}")
        return array.reshape(()).item()

    def sizes(self, x: Operand, first: int = 0) -> tuple[int, ...]:
        """The shape from an axis on, which must not be open."""
        return tuple(self.size(x, axis) for axis in range(first, x.ndim))

    def size(self, x: Operand, axis: int) -> int:
        """The extent of an axis, which must not be open."""
        extent = x.shape[axis]
        if isinstance(extent, Expr):
            self.refuse(f"the open size {extent} of {x} is not supported\n  try:    shapes={{...}}")
        return extent

    # --- writing operators ---

    def op(self, op: str, *inputs: Operand | bool | int | float | np.ndarray, **attrs: Any) -> Any:
        """The output operand, or the tuple of them, of an operator; computed at once if all contents are known.

        A number takes the dtype of the first operand.
        """
        first = next((i for i in inputs if isinstance(i, Operand)), None)
        operands = [i if isinstance(i, Operand) else _constant(i, first) for i in inputs]
        return self.builder.op(op, operands, attrs, self.name_hint, self.where)

    def reshape(self, x: Operand, shape: Sequence[Dim]) -> Operand:
        """x in another shape, which may hold one -1: the remaining extent."""
        return self.builder.reshape(x, shape, self.name_hint, self.where)

    def part(self, x: Operand, axis: int, begin: Dim, end: Dim, step: int = 1) -> Operand:
        """The entries of an axis from `begin` up to `end`, or each `step`-th of them."""
        cut: Operand = self.op("strided_slice", x, begin=(begin,), end=(end,), strides=(step,), axes=(axis,))
        return cut

    def entry(self, x: Operand, position: int, axis: int = 0) -> Operand:
        """One entry of an axis, without the axis."""
        entry: Operand = self.op("squeeze", self.part(x, axis, position, position + 1), axis=(axis,))
        return entry

    def numbers(self, extent: Dim, axis: int, ndim: int) -> Operand:
        """0, 1, ... up to `extent` along one of `ndim` axes, the others of extent 1; int64."""
        shape = tuple(extent if a == axis else 1 for a in range(ndim))
        line = self.op("arange", start=0, stop=extent, step=1, dtype="int64")
        numbers: Operand = self.op("reshape", line, newshape=shape, allowzero=True)
        return numbers

    def number(self, dim: Dim, shape: tuple[int, ...] = (1,)) -> Operand:
        """A dimension as data of one element, int64."""
        return known_dim(dim, shape)

    def bound(self, count: Operand, most: Dim, name: str = "count", size: SizeVar | None = None) -> SizeVar:
        """A new size, or `size`; its value is a number that a run computes. The run stops unless it is 0 to `most`."""
        size = SizeVar(name) if size is None else size
        self.op("bind_size", self.cast(self.reshape(count, ()), "int64"), size=size, most=most, where=self.where)
        return size

    def at_most(self, number: Operand, most: Dim, reason: str) -> None:
        """Check a number that a run computes: unless it is 0 to `most`, the run stops for a reason.

        In the text, {found} and {most} stand for the numbers.
        """
        count = self.cast(self.reshape(number, ()), "int64")
        self.op("bind_size", count, size=SizeVar("checked"), most=most, where=self.where, reason=reason)

    def holds(self, flag: Operand) -> Expr:
        """The condition on sizes under which a truth value [] is true; one that a run computes becomes a size."""
        if flag.data is not None:
            return as_expr(flag.data.item())
        return EQ(self.bound(self.cast(flag, "int64"), 1, "taken"), as_expr(1))

    def assume(self, x: Operand, *pairs: tuple[Dim, Dim]) -> Operand:
        """x, in whose shape the first of each pair is written as the second: a run in which they differ is refused.

        The first may be a condition; then the second is 1 for true, 0 for false.
        """
        return self.builder.assume(x, pairs, self.where)

    def require(self, x: Operand, condition: Dim | bool, message: str) -> Operand:
        """x, in a program that needs a condition on sizes: the node is refused, or a run, where it does not hold."""
        decided = simple(condition)
        if isinstance(decided, int):
            if not decided:
                self.refuse(message)
            return x
        return self.builder.required(x, [decided], self.where)

    def enough(self, x: Operand, number: Dim, least: Dim, message: str) -> Operand:
        """x, in a program that needs a size of at least so many: see `require`."""
        return self.require(x, GE(*match(as_expr(number), as_expr(least))), message)

    def fit(self, x: Operand, shape: Sequence[Dim | None], what: str) -> Operand:
        """x, which must have a shape: None is any extent. Where open sizes decide, a run checks it."""
        wanted = ", ".join("any" if d is None else str(d) for d in shape)
        message = f"{what} must have the shape [{wanted}], found {x}"
        if len(shape) != x.ndim:
            self.refuse(message)
        for own, extent in zip(x.shape, shape, strict=True):
            if extent is None or same(own, extent):
                continue
            if isinstance(own, Expr) and not differ(own, extent):
                x = self.assume(x, (own, extent))
            else:
                x = self.require(x, EQ(*match(as_expr(own), as_expr(extent))), message)
        return x

    def onto(self, op: str, x: Operand, y: Operand | float | np.ndarray) -> Operand:
        """An operator of two tensors whose result has the shape of x: y may be repeated, x may not."""
        return self.fit(self.op(op, x, y), x.shape, f"the {op} of {x} and {y}")

    def one(self, x: Operand, what: str) -> Operand:
        """A tensor of one element, of no dimensions or one, as a scalar."""
        return x if x.ndim == 0 else self.reshape(self.fit(x, (1,), what), ())

    def reachable(self, x: Operand, places: Operand, axis: int) -> Operand:
        """x, which must have the entries along an axis that `places` names, if these are known."""
        data = places.data
        if data is None or data.dtype == object or not data.size:
            return x
        low, high = int(data.min()), int(data.max())
        extent = as_expr(x.shape[axis])
        least = max(high + 1, -low)
        text = f"the index {high if high + 1 == least else low} is out of range for {extent} entries of axis {axis}"
        return self.require(x, GE(*match(extent, as_expr(least))) if least < 2**62 else False, text)

    def cast(self, x: Operand, dtype: str) -> Operand:
        """x converted to the dtype, or x itself if it has that dtype."""
        return x if x.dtype == dtype else self.op("cast", x, dtype=str(dtype))

    def refuse(self, reason: str) -> NoReturn:
        """Refuse the node."""
        raise UnsupportedOperator(f"{self.where}: {reason}")

    def refuse_dtype(self, dtype: str) -> NoReturn:
        """Refuse the node for a dtype."""
        raise UnsupportedOperator(f"{self.where}: dtype {dtype} is not supported")


def _constant(value: Any, first: Operand | None) -> Operand:
    if isinstance(value, bool | int | float):
        return Operand.known(np.array(value, first.dtype.numpy if first else None))
    return Operand.known(value)
