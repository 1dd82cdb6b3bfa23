"""The tools that the converters of all formats share: known contents, operators to add, and refusals."""

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
        """The node, as text for errors."""
        raise NotImplementedError

    @property
    def name_hint(self) -> str:
        """A name for the values that the node's operators compute."""
        raise NotImplementedError

    @property
    def most_of_any(self) -> int | None:
        """An upper bound for data-dependent sizes that have no other bound, or None if the caller gave none."""
        return None

    # --- constants ---

    def array(self, operand: Operand, what: str) -> np.ndarray:
        """Return the contents of an operand; the dtype is object if they are partly symbolic. Raises if they are not
        known.
        """
        if operand.data is not None:
            return operand.data
        raise self._unknown(operand, what)

    def _unknown(self, operand: Operand, what: str, more: str = "") -> UnsupportedOperator:
        """Return the error for contents that are not known while importing."""
        if not operand.depends:
            return UnsupportedOperator(
                f"{self.where}: {what} is not constant{more and more.replace('    ', '  try:', 1)}"
            )
        names = ", ".join(sorted(operand.depends))
        tries = ", ".join(f"{name!r}: ..." for name in sorted(operand.depends))
        text = f"{self.where}: {what} depends on the contents of the input {names}\n  try:    params={{{tries}}}{more}"
        return ValueDependent(text, operand.depends)

    def static(self, operand: Operand, what: str) -> np.ndarray:
        """Return the contents of an operand. Raises `UnsupportedOperator` if they are symbolic."""
        array = self.array(operand, what)
        if array.dtype == object:
            raise UnsupportedOperator(f"{self.where}: {what} is symbolic: {array.tolist()}; fix it with shapes=")
        return array

    def dims(self, operand: Operand, what: str, most: Dim | None = None) -> tuple[Dim, ...]:
        """Return a vector of dimensions, some of which may be symbolic.

        A number that is computed at run time becomes a size, if it has an upper bound: from the operators that compute
        it, from `most`, or from the caller's `max_length`.
        """
        if operand.data is None:
            bind = functools.partial(self.bound, name="size")
            computed = self.builder.dims(operand, self.most_of_any if most is None else most, bind)
            if computed is None:
                raise self._unknown(operand, what, "\n          max_length=...: a bound, for which memory is reserved")
            return tuple(computed)
        return tuple(d if isinstance(d, Expr) else int(d) for d in self.array(operand, what).reshape(-1).tolist())

    def dim(self, operand: Operand, what: str, most: Dim | None = None) -> Dim:
        """Return a single dimension, which may be symbolic; see `dims`."""
        numbers = self.dims(operand, what, most)
        if len(numbers) != 1:
            raise ModelError(f"{self.where}: {what} is one number, found {len(numbers)}")
        return numbers[0]

    def ints(self, operand: Operand, what: str) -> tuple[int, ...]:
        """Return a vector of integers."""
        return tuple(int(v) for v in self.static(operand, what).reshape(-1).tolist())

    def scalar(self, operand: Operand, what: str) -> Any:
        """Return a number."""
        array = self.static(operand, what)
        if array.size != 1:
            raise ModelError(f"{self.where}: {what} is one number, found the shape {array.shape}")
        return array.reshape(()).item()

    def sizes(self, x: Operand, first: int = 0) -> tuple[int, ...]:
        """Return the shape from axis `first` on. Raises `UnsupportedOperator` if an extent is symbolic."""
        return tuple(self.size(x, axis) for axis in range(first, x.ndim))

    def size(self, x: Operand, axis: int) -> int:
        """Return the extent of an axis. Raises `UnsupportedOperator` if it is symbolic."""
        extent = x.shape[axis]
        if isinstance(extent, Expr):
            self.refuse(f"the open size {extent} of {x} is not supported\n  try:    shapes={{...}}")
        return extent

    # --- writing operators ---

    def op(self, op: str, *inputs: Operand | bool | int | float | np.ndarray, **attrs: Any) -> Any:
        """Add an operator and return its output operand, or a tuple of them. If all contents are known, it is computed
        immediately.

        A number gets the dtype of the first operand.
        """
        first = next((i for i in inputs if isinstance(i, Operand)), None)
        operands = [i if isinstance(i, Operand) else _constant(i, first) for i in inputs]
        return self.builder.op(op, operands, attrs, self.name_hint, self.where)

    def reshape(self, x: Operand, shape: Sequence[Dim]) -> Operand:
        """Return x in another shape, in which one extent may be -1 to be inferred."""
        return self.builder.reshape(x, shape, self.name_hint, self.where)

    def part(self, x: Operand, axis: int, begin: Dim, end: Dim, step: int = 1) -> Operand:
        """Return the entries of an axis from `begin` up to `end`, or every `step`-th of them."""
        cut: Operand = self.op("strided_slice", x, begin=(begin,), end=(end,), strides=(step,), axes=(axis,))
        return cut

    def entry(self, x: Operand, position: int, axis: int = 0) -> Operand:
        """Return one entry of an axis, and remove the axis."""
        entry: Operand = self.op("squeeze", self.part(x, axis, position, position + 1), axis=(axis,))
        return entry

    def numbers(self, extent: Dim, axis: int, ndim: int) -> Operand:
        """Return the int64 numbers 0, 1, ... below `extent` along `axis` of `ndim` axes. The other axes have extent
        1.
        """
        shape = tuple(extent if a == axis else 1 for a in range(ndim))
        line = self.op("arange", start=0, stop=extent, step=1, dtype="int64")
        numbers: Operand = self.op("reshape", line, newshape=shape, allowzero=True)
        return numbers

    def number(self, dim: Dim, shape: tuple[int, ...] = (1,)) -> Operand:
        """Return a dimension as an int64 tensor with one element."""
        return known_dim(dim, shape)

    def bound(self, count: Operand, most: Dim, name: str = "count", size: SizeVar | None = None) -> SizeVar:
        """Bind a number that is computed at run time to `size`, or to a new size, and return it.

        The run stops with an error unless the number is from 0 to `most`.
        """
        size = SizeVar(name) if size is None else size
        self.op("bind_size", self.cast(self.reshape(count, ()), "int64"), size=size, most=most, where=self.where)
        return size

    def counted(self, results: Sequence[Operand], name: str) -> tuple[Operand, Dim]:
        """Return as many rows as there are, and the size that counts them; `results` are rows and their number."""
        rows, count = results
        if 0 in rows.shape[:1]:
            return rows, 0
        size = self.bound(count, rows.shape[0], name)
        return self.op("leading", rows, size=size), size

    def at_most(self, number: Operand, most: Dim, reason: str) -> None:
        """Check a number that is computed at run time: the run stops with the message `reason` unless it is from 0 to
        `most`.

        In the message, {found} and {most} are replaced with the numbers.
        """
        count = self.cast(self.reshape(number, ()), "int64")
        self.op("bind_size", count, size=SizeVar("checked"), most=most, where=self.where, reason=reason)

    def holds(self, flag: Operand) -> Expr:
        """Return the condition on sizes under which a truth value [] is true. A value that is computed at run time
        becomes a size.
        """
        if flag.data is not None:
            return as_expr(flag.data.item())
        return EQ(self.bound(self.cast(flag, "int64"), 1, "taken"), as_expr(1))

    def assume(self, x: Operand, *pairs: tuple[Dim, Dim]) -> Operand:
        """Return x with the first dimension of each pair written as the second. A run in which they differ is refused.

        The first may also be a condition; the second is then 1 for true or 0 for false.
        """
        return self.builder.assume(x, pairs, self.where)

    def require(self, x: Operand, condition: Dim | bool, message: str) -> Operand:
        """Return x in a program that requires a condition on sizes. The node, or a run, is refused if it does not
        hold.
        """
        decided = simple(condition)
        if isinstance(decided, int):
            if not decided:
                self.refuse(message)
            return x
        return self.builder.required(x, [decided], self.where)

    def enough(self, x: Operand, number: Dim, least: Dim, message: str) -> Operand:
        """Return x in a program that requires a size to be at least `least`; see `require`."""
        return self.require(x, GE(*match(as_expr(number), as_expr(least))), message)

    def fit(self, x: Operand, shape: Sequence[Dim | None], what: str) -> Operand:
        """Return x after checking its shape, where None allows any extent. Symbolic sizes are checked at run time."""
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
        """Apply an operator to two tensors. y may be broadcast to the shape of x, but x may not be broadcast."""
        return self.fit(self.op(op, x, y), x.shape, f"the {op} of {x} and {y}")

    def one(self, x: Operand, what: str) -> Operand:
        """Return a tensor with one element, with zero or one dimensions, as a scalar."""
        return x if x.ndim == 0 else self.reshape(self.fit(x, (1,), what), ())

    def reachable(self, x: Operand, places: Operand, axis: int) -> Operand:
        """Return x after checking that it has the entries along an axis that `places` names, if these are known."""
        data = places.data
        if data is None or data.dtype == object or not data.size:
            return x
        low, high = int(data.min()), int(data.max())
        extent = as_expr(x.shape[axis])
        least = max(high + 1, -low)
        text = f"the index {high if high + 1 == least else low} is out of range for {extent} entries of axis {axis}"
        return self.require(x, GE(*match(extent, as_expr(least))) if least < 2**62 else False, text)

    def cast(self, x: Operand, dtype: str) -> Operand:
        """Return x converted to a dtype, or x itself if it already has that dtype."""
        return x if x.dtype == dtype else self.op("cast", x, dtype=str(dtype))

    def refuse(self, reason: str) -> NoReturn:
        """Raise `UnsupportedOperator` for the node, with a reason."""
        raise UnsupportedOperator(f"{self.where}: {reason}")

    def refuse_dtype(self, dtype: str) -> NoReturn:
        """Raise `UnsupportedOperator` for the node because of a dtype."""
        raise UnsupportedOperator(f"{self.where}: dtype {dtype} is not supported")


def _constant(value: Any, first: Operand | None) -> Operand:
    if isinstance(value, bool | int | float):
        return Operand.known(np.array(value, first.dtype.numpy if first else None))
    return Operand.known(value)
