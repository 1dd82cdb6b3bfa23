"""The interface between a converter and one TFLite operator: its inputs, in either order of axes, and its options."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ...errors import ModelError
from ...expr import DType
from ..common.conversion import Conversion
from ..common.operand import Operand
from . import dtypes
from .layouts import Laid, Order, channels_first, channels_last, inverse
from .loading import OperatorNode, Subgraph, TensorInfo, unsupported_type
from .variables import VariableHandle, tensor_state

if TYPE_CHECKING:
    from .importer import TFLiteImporter

_MISSING = object()


class NodeContext(Conversion):
    """One operator that is being converted. `n[i]` is its input number i in TFLite's order of axes."""

    def __init__(
        self,
        importer: TFLiteImporter,
        graph: Subgraph,
        node: OperatorNode,
        inputs: Sequence[Laid | VariableHandle | None],
    ) -> None:
        super().__init__(importer.builder)
        self.importer, self.graph, self.node, self.inputs = importer, graph, node, list(inputs)

    @property
    def where(self) -> str:
        """The operator, as text for errors: its name and the tensor that it computes."""
        return label(self.graph, self.node)

    @property
    def name_hint(self) -> str:
        return self.graph.tensors[self.node.outputs[0]].name if self.node.outputs else self.node.name.lower()

    # --- inputs ---

    def laid(self, position: int) -> Laid:
        """Return an input in the orders in which it exists."""
        tensor = self.inputs[position] if position < len(self.inputs) else None
        if not isinstance(tensor, Laid):
            what = "missing" if tensor is None else "a variable"
            raise ModelError(f"{self.where}: input {position} is {what}, wanted a tensor")
        return tensor

    def __getitem__(self, position: int) -> Operand:
        return self.last(self.laid(position))

    def has(self, position: int) -> bool:
        """Return whether an optional input is present."""
        return position < len(self.inputs) and self.inputs[position] is not None

    def optional(self, position: int) -> Operand | None:
        """Return an input, or None if the node leaves it out."""
        return self[position] if self.has(position) else None

    def info(self, position: int) -> TensorInfo:
        """Return the declaration of an input."""
        return self.graph.tensors[self.node.inputs[position]]

    def result(self, position: int = 0) -> TensorInfo:
        """Return the declaration of an output."""
        return self.graph.tensors[self.node.outputs[position]]

    def result_dtype(self, position: int = 0) -> DType:
        """Return the dtype of an output."""
        info = self.result(position)
        if info.type not in dtypes.DTYPES:
            raise unsupported_type(info, self.where)
        return DType(dtypes.DTYPES[info.type])

    def leave(self, position: int, value: Operand) -> None:
        """Give an input that is a variable tensor its value for the next run."""
        info = self.info(position)
        if not info.variable:
            self.refuse(f"the tensor {info.name} is not a variable")
        self.importer.variables.assign(tensor_state(info), Laid(value), value, self.where)

    # --- the order of axes ---

    def last(self, tensor: Laid) -> Operand:
        """Return a tensor in TFLite's order; a transpose is added on first use."""
        if tensor.last is None:
            assert tensor.first is not None
            tensor.last = self.moved(tensor.first, inverse(channels_first(tensor.ndim)))
        return tensor.last

    def first(self, tensor: Laid) -> Operand:
        """Return an image or volume with its channels first; a transpose is added on first use."""
        if tensor.first is None:
            assert tensor.last is not None
            tensor.first = self.moved(tensor.last, channels_first(tensor.ndim))
        return tensor.first

    def moved(self, x: Operand, axes: Sequence[int]) -> Operand:
        """Return a transpose of x. It is a reshape if only axes with extent 1 change their places."""
        if tuple(axes) == tuple(range(x.ndim)):
            return x
        long = [axis for axis in axes if not (isinstance(x.shape[axis], int) and x.shape[axis] == 1)]
        if not x.is_known and long == sorted(long):
            return self.reshape(x, [x.shape[axis] for axis in axes])
        transposed: Operand = self.op("transpose", x, axes=tuple(axes))
        return transposed

    def ordered(self, tensor: Laid, order: Order) -> Operand:
        """Return a tensor in one of the two orders."""
        return self.last(tensor) if order == channels_last(tensor.ndim) else self.first(tensor)

    def aligned(self, *tensors: Laid) -> tuple[list[Operand], Order]:
        """Return tensors of which each broadcasts to the same rank in one order of axes, and this order.

        The channels are first if they are in one of the tensors that is an image.
        """
        rank = max(tensor.ndim for tensor in tensors)
        if not any(tensor.is_image and tensor.ndim == rank for tensor in tensors):
            return [self.last(tensor) for tensor in tensors], channels_last(rank)
        order = channels_first(rank)
        return [self._spread(tensor, order) for tensor in tensors], order

    def _spread(self, tensor: Laid, order: Order) -> Operand:
        if tensor.ndim == len(order):
            return self.first(tensor)
        x = self.last(tensor)
        if all(isinstance(d, int) and d == 1 for d in x.shape):
            return self.reshape(x, ()) if x.ndim else x
        return self.moved(self.reshape(x, (*(1,) * (len(order) - x.ndim), *x.shape)), order)

    # --- options ---

    def option(self, name: str, default: Any = _MISSING) -> Any:
        """Return an attribute: a number, a string or a tuple. Raises `ModelError` if there are no options and no
        default.
        """
        options = self.node.options
        if options is None or not hasattr(options, name):
            if default is _MISSING:
                raise ModelError(f"{self.where}: the option {name} is missing")
            return default
        if hasattr(options, f"{name}AsNumpy"):
            return tuple(int(getattr(options, name)(k)) for k in range(getattr(options, f"{name}Length")()))
        value = getattr(options, name)()
        return value.decode("utf-8", "replace") if isinstance(value, bytes) else value

    # --- writing operators ---

    def op_laid(self, op: str, *tensors: Laid, **attrs: Any) -> Laid:
        """Add an operator that works element by element, in the order of axes that its operands have."""
        operands, order = self.aligned(*tensors)
        return Laid.of(self.op(op, *operands, **attrs), order)

    def axis(self, number: int, rank: int) -> int:
        """Return an axis that may be counted from the end, checked."""
        if not -rank <= number < max(rank, 1):
            raise ModelError(f"{self.where}: the axis {number} of {rank} dimensions")
        return number % max(rank, 1)


def label(graph: Subgraph, node: OperatorNode) -> str:
    """Return the operator and the first tensor that it computes, as text for errors."""
    name = f"CUSTOM {node.name}" if node.custom else node.name
    if not node.outputs:
        return f"operator {name} (number {node.position} of {graph.name})"
    return f"operator {name} (tensor {graph.tensors[node.outputs[0]].name})"
