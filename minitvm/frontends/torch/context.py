"""The interface of a converter to one ATen node: its arguments by name, and the types of its results."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ...errors import ModelError, UnsupportedOperator
from ...expr import DType, Expr
from ...graph.nodes import Dim
from ..common.conversion import Conversion
from ..common.operand import Operand
from .dtypes import dtype_of

if TYPE_CHECKING:
    from .importer import TorchImporter

# Arguments that say where and how a result is stored, or in what order; the values are the same.
_WITHOUT_EFFECT = frozenset({
    "copy", "cudnn_enable", "cudnn_enabled", "device", "implicit", "layout", "memory_format", "non_blocking",
    "pin_memory", "requires_grad", "scale_grad_by_freq", "sparse",
})  # fmt: skip


class TorchNodeContext(Conversion):
    """One node that is being converted; `n["self"]` is the operand of its argument `self`."""

    def __init__(self, importer: TorchImporter, node: Any, values: dict[str, Any]) -> None:
        super().__init__(importer.builder)
        self.importer, self.node, self.values = importer, node, values
        arguments = node.target._schema.arguments
        self.parameters = [a.name for a in arguments]
        self.declared = frozenset(self.parameters)
        self.defaults = {a.name: a.default_value for a in arguments if a.has_default_value()}
        self.arguments_read: set[str] = set()

    @property
    def where(self) -> str:
        """The node, for errors: operator, name, and the line of the model."""
        return label(self.node)

    @property
    def name_hint(self) -> str:
        return str(self.node.name)

    # --- arguments ---

    def __getitem__(self, name: str) -> Operand:
        operand = self.optional(name)
        if operand is None:
            raise ModelError(f"{self.where}: argument {name} is missing")
        return operand

    def optional(self, name: str) -> Operand | None:
        """The operand of an argument that is a tensor or a number; None where it is left out."""
        value = self.attr(name)
        return value if isinstance(value, Operand) or value is None else _number(value, None)

    def operands(self, name: str) -> list[Operand]:
        """The operands of an argument that is a list of tensors."""
        return [v for v in self.attr(name) if isinstance(v, Operand)]

    def attr(self, name: str) -> Any:
        """An argument as a Python value: int, dimension, float, str, operand, tuple of these, None."""
        self.arguments_read.add(name)
        return self.values[name] if name in self.values else _plain(self.defaults.get(name))

    def ignore(self, *names: str) -> None:
        """Mark arguments as read: they have no effect here."""
        self.arguments_read.update(names)

    def axis(self, name: str = "dim") -> int:
        """The axis that an argument names, from the front; 0 for a tensor without dimensions."""
        return int(self.attr(name)) % max(self["self"].ndim, 1)

    def promoted(self, *names: str) -> list[Operand]:
        """The operands of arguments, converted to the dtype that PyTorch promotes them to."""
        from torch._prims_common import ELEMENTWISE_TYPE_PROMOTION_KIND, elementwise_dtypes

        examples = [_example(self.importer.argument(self.node, name)) for name in names]
        _, common = elementwise_dtypes(*examples, type_promotion_kind=ELEMENTWISE_TYPE_PROMOTION_KIND.DEFAULT)
        return [self.of_dtype(self.attr(name), dtype_of(common, self.where)) for name in names]

    def of_dtype(self, value: Any, dtype: DType | str) -> Operand:
        """A tensor or number converted to a dtype."""
        if isinstance(value, Operand):
            return self.cast(value, str(dtype))
        return _number(value, DType(dtype))

    def check_arguments(self) -> None:
        """Refuse an argument that the node gives and that the converter did not ask for."""
        for name, value in self.values.items():
            if name in self.arguments_read or name in _WITHOUT_EFFECT or value == _plain(self.defaults.get(name)):
                continue
            raise UnsupportedOperator(f"{self.where}: argument {name}={value!r} is not supported")

    # --- results ---

    @property
    def shape(self) -> tuple[Dim, ...]:
        """The shape of the result that the program declares."""
        return self.importer.symbols.shape(self.node.meta["val"].shape, self.where)

    @property
    def dtype(self) -> DType:
        """The dtype of the result that the program declares."""
        return dtype_of(self.node.meta["val"].dtype, self.where)

    def fixed(self, size: Any) -> int:
        """A size of PyTorch that must not be open."""
        extent = self.importer.symbols.dim(size, self.where)
        if isinstance(extent, Expr):
            self.refuse(f"the open size {extent} is not supported")
        return extent

    def dtype_of_result(self, position: int) -> DType:
        """The dtype of one of several results."""
        return dtype_of(self.node.meta["val"][position].dtype, self.where)

    def wants(self, position: int) -> bool:
        """Whether something reads that one of several results."""
        return any(user.args[1] == position and user.users for user in self.node.users)


_ALONG_LINES = ("self", "index", "src", "source")


def by_lines(convert: Callable[[TorchNodeContext], Any]) -> Callable[[TorchNodeContext], Any]:
    """A converter that works along an axis; a tensor without dimensions is a line of one element to it."""

    @functools.wraps(convert)
    def converted(n: TorchNodeContext) -> Any:
        arguments = {name: n.values[name] for name in _ALONG_LINES if isinstance(n.values.get(name), Operand)}
        scalars = {name: x for name, x in arguments.items() if x.ndim == 0}
        n.values.update({name: n.op("expand_dims", x, axis=0) for name, x in scalars.items()})
        results = convert(n)
        if not scalars:
            return results
        if not isinstance(results, list | tuple):
            return _of_rank(n, results, n.node.meta["val"])
        return [_of_rank(n, x, example) for x, example in zip(results, n.node.meta["val"], strict=True)]

    return converted


def _of_rank(n: TorchNodeContext, x: Operand | None, example: Any) -> Operand | None:
    """A result without the axis that its declaration does not have."""
    if x is None or x.ndim == example.ndim:
        return x
    plain: Operand = n.op("squeeze", x, axis=(0,))
    return plain


def label(node: Any) -> str:
    """A node, for errors: its operator, its name, and the line of the model that it comes from."""
    line = source_line(node)
    return f"operator {node.target} (node {node.name}{f', {line}' if line else ''})"


def source_line(node: Any) -> str:
    """`model.py:12` for the line of the model that a node comes from; "" where torch does not know it.

    Lines of PyTorch's own layers are passed over, if there are others.
    """
    places = re.findall(r'File "([^"]+)", line (\d+)', node.meta.get("stack_trace") or "")
    of_model = [place for place in places if "/torch/nn/" not in place[0]] or places
    return f"{of_model[-1][0].rsplit('/', 1)[-1]}:{of_model[-1][1]}" if of_model else ""


def _number(value: Any, dtype: DType | None) -> Operand:
    if isinstance(value, Expr):
        data = np.empty((), object)
        data[()] = value
        return Operand.known(data, "int64" if dtype is None else dtype)
    if dtype is None:
        return Operand.known(np.array(value, np.float32 if isinstance(value, float) else None))
    return Operand.known(np.array(value).astype(dtype.numpy))


def _plain(value: Any) -> Any:
    return tuple(map(_plain, value)) if isinstance(value, list | tuple) else value


def _example(argument: Any) -> Any:
    meta = getattr(argument, "meta", None)
    return argument if meta is None else meta["val"]
