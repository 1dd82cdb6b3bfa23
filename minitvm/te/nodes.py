"""Tensor expressions: they define the elements of a tensor, but not how the elements are computed.

tensor ::= Tensor of an operation
op     ::= PlaceholderOp | ComputeOp axis reduce_axis body | ExternOp inputs func
load   ::= TensorLoad tensor [indices]                      an expression
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any, NoReturn

from ..errors import TypeMismatch
from ..expr import DType, Expr, ExprPrinter, IterVar, Node, Reduce, as_expr, node, walk

if TYPE_CHECKING:
    from ..tir.nodes import Buffer, PrimFunc


@node
class Operation(Node):
    """Base class of operations that produce tensors."""

    name: str


@node
class PlaceholderOp(Operation):
    """An input of the tensor program, with its shape and dtype."""

    shape: tuple[Expr, ...]
    dtype: DType
    _children = ("shape",)


@node
class ComputeOp(Operation):
    """One or more tensors of the same shape. `body[k]` is the element of output `k` at the point `axis`.

    A body either contains no `Reduce`, or is itself a `Reduce`. If there are several bodies, they share one reducer.
    """

    axis: tuple[IterVar, ...]
    body: tuple[Expr, ...]
    attrs: Mapping[str, Any] = field(default_factory=dict)
    _children = ("axis", "body")
    _defs = ("axis",)

    @property
    def reduce_axis(self) -> tuple[IterVar, ...]:
        """The axes that the body reduces over, or () if it is not a reduction."""
        first = self.body[0]
        return first.axes if isinstance(first, Reduce) else ()

    @property
    def input_tensors(self) -> tuple[Tensor, ...]:
        """The tensors that the body reads, in order of first use."""
        tensors: dict[Tensor, None] = {}
        for body in self.body:
            for item in walk(body):
                if isinstance(item, TensorLoad):
                    tensors.setdefault(item.tensor)
        return tuple(tensors)


@node
class ExternOp(Operation):
    """Tensors that a loop program computes. The parameters of `func` are the inputs, followed by the results."""

    inputs: tuple[Tensor, ...]
    func: PrimFunc

    @property
    def input_tensors(self) -> tuple[Tensor, ...]:
        """The tensors that the function reads, without repetition."""
        return tuple(dict.fromkeys(self.inputs))

    @property
    def results(self) -> tuple[Buffer, ...]:
        """The parameters of the function that hold the results."""
        return self.func.buffers[len(self.inputs) :]


@node
class Tensor(Node):
    """One output of an operation, the one with index `value_index`. Indexing a tensor builds a `TensorLoad`."""

    op: Operation
    shape: tuple[Expr, ...]
    dtype: DType
    value_index: int = 0

    __hash__ = object.__hash__

    @property
    def name(self) -> str:
        name = self.op.name
        if isinstance(self.op, ExternOp):
            return self.op.results[self.value_index].name if len(self.op.results) > 1 else name
        several = isinstance(self.op, ComputeOp) and len(self.op.body) > 1
        return f"{name}_v{self.value_index}" if several else name

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def __getitem__(self, indices: Any) -> TensorLoad:
        values = indices if isinstance(indices, tuple) else (indices,)
        return TensorLoad(self, tuple(as_expr(i) for i in values))

    def __iter__(self) -> NoReturn:
        # Otherwise Python would iterate over A[0], A[1], ... without end: no index is refused.
        raise TypeMismatch(f"a tensor cannot be iterated: {self.name}\n  try:    {self.name}[i] in a te.compute")

    def __call__(self, *indices: Any) -> TensorLoad:
        return self[tuple(indices)]

    def __repr__(self) -> str:
        return f"Tensor({self.name}: {self})"

    def __str__(self) -> str:
        """Return the type of the tensor, for errors. The name is left out, because the user's model uses other
        names.
        """
        return f"{self.dtype}[{', '.join(map(str, self.shape))}]"


@node
class TensorLoad(Expr):
    """An element of a tensor: `tensor[indices]`."""

    tensor: Tensor
    indices: tuple[Expr, ...]
    dtype: DType = field(init=False)
    _children = ("indices",)

    def __post_init__(self) -> None:
        if len(self.indices) != len(self.tensor.shape):
            raise TypeMismatch(
                f"{self.tensor.name}[{', '.join(map(str, self.indices))}]: wrong number of indices\n"
                f"  wanted: {len(self.tensor.shape)}\n  found:  {len(self.indices)}"
            )
        object.__setattr__(self, "dtype", self.tensor.dtype)

    def _format(self, printer: ExprPrinter) -> str:
        return f"{self.tensor.name}[{', '.join(map(printer.expr, self.indices))}]"
