"""A tensor of a model during its import: a value of the graph, or contents that are already known."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...errors import UnsupportedOperator
from ...expr import DType, Expr
from ...graph.nodes import Dim, Value


class ValueDependent(UnsupportedOperator):
    """A shape, or an attribute of an operator, depends on the contents of `inputs` of the graph."""

    def __init__(self, text: str, inputs: Iterable[str]) -> None:
        super().__init__(text)
        self.inputs = frozenset(inputs)


@dataclass(frozen=True, slots=True)
class Narrow:
    """A type of a model for which there is no dtype. Its numbers are stored in the wider `dtype`.

    `name` is its name in ml_dtypes. `bits` is the width of an integer type; a float type has a format of that name in
    `topi.formats`.
    """

    dtype: str
    name: str
    bits: int | None = None


class Operand:
    """A tensor of known type. `data` holds its contents if they are known while importing.

    `data` has dtype object if it contains symbolic dimensions. `value` is its value in the graph; for a constant, it is
    created on first use. `depends` names the graph inputs from whose contents (not shapes) it is computed. `narrow` is
    set if the model's type has fewer bits than `dtype`.
    """

    __slots__ = ("data", "depends", "dtype", "narrow", "shape", "value")

    def __init__(
        self,
        shape: tuple[Dim, ...],
        dtype: DType,
        value: Value | None = None,
        data: np.ndarray | None = None,
        depends: frozenset[str] = frozenset(),
    ) -> None:
        self.shape, self.dtype, self.value, self.data, self.depends = shape, dtype, value, data, depends
        self.narrow: Narrow | None = None

    @staticmethod
    def of(value: Value, depends: frozenset[str] = frozenset()) -> Operand:
        """Return the operand for a value of the graph."""
        return Operand(value.shape, value.dtype, value, None, depends)

    @staticmethod
    def known(
        data: Any, dtype: DType | str | None = None, depends: frozenset[str] = frozenset(), narrow: Narrow | None = None
    ) -> Operand:
        """Return an operand with these contents. `dtype` is required for an object array."""
        array = np.asarray(data)
        operand = Operand(array.shape, DType(dtype or array.dtype.name), None, array, depends)
        operand.narrow = narrow
        return operand

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def is_known(self) -> bool:
        return self.data is not None

    @property
    def is_symbolic(self) -> bool:
        """Whether the contents are known and contain a symbolic dimension."""
        return self.data is not None and self.data.dtype == object

    @property
    def is_static(self) -> bool:
        """Whether every dimension is an integer."""
        return not any(isinstance(d, Expr) for d in self.shape)

    def __repr__(self) -> str:
        return f"{self.dtype}[{', '.join(map(str, self.shape))}]"


def known_dim(dim: Dim, shape: tuple[int, ...] = ()) -> Operand:
    """Return a dimension as an int64 operand with one element and known contents, in the given shape."""
    return Operand.known(np.full(shape, dim, object if isinstance(dim, Expr) else np.int64), "int64")


def known_dims(dims: tuple[Dim, ...]) -> Operand:
    """Return dimensions as an int64 vector with known contents."""
    if not any(isinstance(d, Expr) for d in dims):
        return Operand.known(np.array(dims, np.int64))
    data = np.empty(len(dims), object)
    data[:] = dims
    return Operand.known(data, "int64")


class SequenceOperand(Operand):
    """A list of tensors, which is a value of the model but not of the graph."""

    __slots__ = ()

    def __init__(self, parts: Iterable[Operand]) -> None:
        super().__init__((), DType("bool"), depends=frozenset().union(*(e.depends for e in parts)))


class OperandSequence(SequenceOperand):
    """A list of operands whose length is known while importing."""

    __slots__ = ("elements",)

    def __init__(self, elements: Iterable[Operand]) -> None:
        self.elements = tuple(elements)
        super().__init__(self.elements)

    def __repr__(self) -> str:
        return f"a sequence of {len(self.elements)} tensors"


class StackedSequence(SequenceOperand):
    """A list of tensors of one type: the entries of the first axis of `stack`, whose extent may be symbolic."""

    __slots__ = ("stack",)

    def __init__(self, stack: Operand) -> None:
        self.stack = stack
        super().__init__((stack,))

    def __repr__(self) -> str:
        return f"a sequence of the entries of {self.stack}"


class PartsSequence(SequenceOperand):
    """A list of parts of an axis of `whole`, each with `size` entries; the last one may have fewer."""

    __slots__ = ("axis", "size", "whole")

    def __init__(self, whole: Operand, axis: int, size: Dim) -> None:
        self.whole, self.axis, self.size = whole, axis, size
        super().__init__((whole,))

    def __repr__(self) -> str:
        return f"a sequence of parts of {self.whole}, {self.size} entries of axis {self.axis} each"


class JoinedSequence(SequenceOperand):
    """A list that consists of several lists in sequence, some of which may have a symbolic length."""

    __slots__ = ("segments",)

    def __init__(self, segments: Iterable[SequenceOperand]) -> None:
        self.segments = tuple(segments)
        super().__init__(self.segments)

    def __repr__(self) -> str:
        return " and ".join(map(str, self.segments))


class GrowingSequence(SequenceOperand):
    """A list during an iteration of a loop: its previous elements, and the elements that the iteration appends."""

    __slots__ = ("appended", "before")

    def __init__(self, before: SequenceOperand, appended: Iterable[Operand] = ()) -> None:
        self.before, self.appended = before, tuple(appended)
        super().__init__((before, *self.appended))

    def __repr__(self) -> str:
        return "a sequence that a loop extends"
