"""The interface between a converter and one ATen node: its arguments by name, and the types of its results."""

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

# Arguments about the device, layout or order of a result, which do not change its values.
_WITHOUT_EFFECT = frozenset({
    "copy", "cudnn_enable", "cudnn_enabled", "device", "implicit", "layout", "memory_format", "non_blocking",
    "pin_memory", "requires_grad", "scale_grad_by_freq", "sparse",
})  # fmt: skip


class TorchNodeContext(Conversion):
    """One node that is being converted. `n["self"]` is the operand for its argument `self`."""

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
        """The node, as text for errors: operator, name, and the line of the model."""
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
        """Return the operand of an argument that is a tensor or a number, or None if it is left out."""
        value = self.attr(name)
        return value if isinstance(value, Operand) or value is None else _number(value, None)

    def operands(self, name: str) -> list[Operand]:
        """Return the operands of an argument that is a list of tensors."""
        return [v for v in self.attr(name) if isinstance(v, Operand)]

    def attr(self, name: str) -> Any:
        """Return an argument as a Python value: int, dimension, float, str, operand, a tuple of these, or None."""
        self.arguments_read.add(name)
        return self.values[name] if name in self.values else _plain(self.defaults.get(name))

    def ignore(self, *names: str) -> None:
        """Mark arguments as read, because they have no effect here."""
        self.arguments_read.update(names)

    def axis(self, name: str = "dim") -> int:
        """Return the axis that an argument names, counted from the front; 0 for a tensor without dimensions."""
        return int(self.attr(name)) % max(self["self"].ndim, 1)

    def promoted(self, *names: str) -> list[Operand]:
        """Return the operands of arguments, converted to the dtype to which PyTorch promotes them."""
        from torch._prims_common import ELEMENTWISE_TYPE_PROMOTION_KIND, elementwise_dtypes

        examples = [_example(self.importer.argument(self.node, name)) for name in names]
        _, common = elementwise_dtypes(*examples, type_promotion_kind=ELEMENTWISE_TYPE_PROMOTION_KIND.DEFAULT)
        return [self.of_dtype(self.attr(name), dtype_of(common, self.where)) for name in names]

    def of_dtype(self, value: Any, dtype: DType | str) -> Operand:
        """Return a tensor or number converted to a dtype."""
        if isinstance(value, Operand):
            return self.cast(value, str(dtype))
        return _number(value, DType(dtype))

    def check_arguments(self) -> None:
        """Raise `UnsupportedOperator` for an argument of the node that the converter did not read."""
        for name, value in self.values.items():
            if name in self.arguments_read or name in _WITHOUT_EFFECT or value == _plain(self.defaults.get(name)):
                continue
            raise UnsupportedOperator(f"{self.where}: argument {name}={value!r} is not supported")

    # --- results ---

    @property
    def shape(self) -> tuple[Dim, ...]:
        """The shape that the program declares for the result."""
        return self.importer.symbols.shape(self.node.meta["val"].shape, self.where)

    @property
    def dtype(self) -> DType:
        """The dtype that the program declares for the result."""
        return dtype_of(self.node.meta["val"].dtype, self.where)

    def fixed(self, size: Any) -> int:
        """Return a PyTorch size as a number. Raises `UnsupportedOperator` if it is symbolic."""
        extent = self.importer.symbols.dim(size, self.where)
        if isinstance(extent, Expr):
            self.refuse(f"the open size {extent} is not supported")
        return extent

    def dtype_of_result(self, position: int) -> DType:
        """Return the dtype of one of several results."""
        return dtype_of(self.node.meta["val"][position].dtype, self.where)

    def wants(self, position: int) -> bool:
        """Return whether one of several results is used."""
        return any(user.args[1] == position and user.users for user in self.node.users)


_ALONG_LINES = ("self", "index", "src", "source")


def by_lines(convert: Callable[[TorchNodeContext], Any]) -> Callable[[TorchNodeContext], Any]:
    """Return a converter that works along an axis. It sees a tensor without dimensions as a line of one element."""

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
    """Return a result without the additional axis, if its declaration has none."""
    if x is None or x.ndim == example.ndim:
        return x
    plain: Operand = n.op("squeeze", x, axis=(0,))
    return plain


def label(node: Any) -> str:
    """Return a node as text for errors: its operator, its name, and the line of the model that it comes from."""
    line = source_line(node)
    return f"operator {node.target} (node {node.name}{f', {line}' if line else ''})"


def source_line(node: Any) -> str:
    """Return the line of the model that a node comes from, such as `model.py:12`, or "" if torch does not know it.

    Lines of PyTorch's own layers are skipped if there are others.
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
