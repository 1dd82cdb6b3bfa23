"""minitvm as a backend of `torch.compile`, for inference.

    model = torch.compile(model, backend="minitvm")
    with torch.no_grad():
        y = model(x)

PyTorch finds the backend by its entry point, `torch_dynamo_backends`, once minitvm is installed. AOTAutograd lowers the
graph that Dynamo captures to ATen's operators, `frontends.torch` imports it, and the first call builds it. Parameters
and buffers are constants in their own memory. If a call finds that they were replaced, or changed by a PyTorch
operation, it builds the graph again. A change through `parameter.data` is not detected. Other arrays are exchanged by
DLPack, without a copy.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch._dynamo.backends.common import aot_autograd
from torch._guards import TracingContext
from torch._subclasses.fake_tensor import DataDependentOutputException
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

from ...build import build
from ...errors import InputError, TypeMismatch, UnsupportedOperator, nearest
from ...executable import evaluate
from ...expr import DType, Expr, Var, free_vars
from ...expr.printer import fresh, identifier
from ...runtime.dlpack import shared
from ..common.operand import Operand
from .dtypes import array_of
from .importer import TorchImporter
from .loading import decompositions, headline
from .symbols import ProgramSymbols
from .unsupported import refuse_unsupported

OPTIONS = ("target", "threads", "accuracy")  # those of `build` that `torch.compile(options={...})` takes

KEPT = 4  # programs of one captured graph, for different parameters, that are kept


def backend(
    module: torch.fx.GraphModule, example_inputs: Sequence[Any], *, options: Mapping[str, Any] | None = None
) -> Callable[..., Any]:
    """Compile a graph that Dynamo captured. This is the backend `minitvm` of `torch.compile`.

    `options` are `target`, `threads` and `accuracy`, as in `build`. Raises `InputError` for other options, and
    `UnsupportedOperator` for operators without a converter and for a graph that may need derivatives.
    """
    settings = dict(options or {})
    for name in settings:
        if name not in OPTIONS:
            raise InputError(f"torch.compile: options has no {name}; {nearest(name, OPTIONS)}")

    def for_inference(graph: torch.fx.GraphModule, _: Sequence[Any]) -> Callable[..., Any]:
        return _Captured(graph, _parameters(), settings).call

    compiler = aot_autograd(
        fw_compiler=_refuse_training, inference_compiler=for_inference, decompositions=dict(decompositions().items())
    )
    try:
        compiled: Callable[..., Any] = compiler(module, example_inputs)
    except (GuardOnDataDependentSymNode, DataDependentOutputException) as error:
        raise UnsupportedOperator(
            f"torch.compile: PyTorch cannot trace what depends on the contents of a tensor: {headline(error)}"
        ) from error
    return compiled


def _refuse_training(_: torch.fx.GraphModule, __: Sequence[Any]) -> Callable[..., Any]:
    raise UnsupportedOperator(
        "torch.compile(backend='minitvm') is for inference; some input or parameter asks for a derivative\n"
        "  try:    with torch.no_grad():\n          with torch.inference_mode():"
    )


def _parameters() -> frozenset[int]:
    """Return the positions of the compiled graph's arguments that are parameters and buffers."""
    context = TracingContext.try_get()
    metadata = None if context is None else context.fw_metadata
    return frozenset() if metadata is None else frozenset(metadata.static_input_indices)


class _Captured:
    """A graph of ATen's operators, built for the parameters with which it is called.

    Open sizes stay symbolic, unless an operator does not support that; then there is a program for each set of sizes.
    """

    def __init__(self, graph: torch.fx.GraphModule, parameters: frozenset[int], settings: Mapping[str, Any]) -> None:
        self._graph, self._parameters, self._settings = graph, sorted(parameters), settings
        self._sizes, self._fixed = _integers(graph)
        self._programs: OrderedDict[Any, _Program] = OrderedDict()
        refuse_unsupported(graph)

    def call(self, *args: Any) -> list[Any]:
        """Return the results for arguments in the order of the graph's placeholders."""
        program = self._programs.get(self._key(args))
        if program is None:
            program = self._built(args)
            self._programs[self._key(args)] = program
            if len(self._programs) > KEPT:
                self._programs.popitem(last=False)
        return program(args)

    def _key(self, args: Sequence[Any]) -> tuple[Any, ...]:
        return tuple(map(_state, (args[k] for k in self._parameters))), tuple(args[k] for k in self._fixed)

    def _built(self, args: Sequence[Any]) -> _Program:
        try:
            return _Program(self._graph, args, self._parameters, self._fixed, self._settings)
        except (UnsupportedOperator, InputError, TypeMismatch):
            if not self._sizes:
                raise
            self._fixed, self._sizes = sorted((*self._fixed, *self._sizes)), []
            self._programs.clear()  # their keys lack the sizes
            return _Program(self._graph, args, self._parameters, self._fixed, self._settings)


def _integers(graph: torch.fx.GraphModule) -> tuple[list[int], list[int]]:
    """Return the positions of arguments that are sizes of tensors, and of other integers, which a program is built
    for.
    """
    examples = [node.meta["val"] for node in graph.graph.nodes if node.op == "placeholder"]
    shapes = [size for x in examples if isinstance(x, torch.Tensor) for size in x.shape]
    of_shapes = {str(symbol) for size in shapes if not isinstance(size, int) for symbol in size.node.expr.free_symbols}
    exprs = {k: x.node.expr for k, x in enumerate(examples) if isinstance(x, torch.SymInt)}
    symbols = {k: str(expr) for k, expr in exprs.items() if expr.is_Symbol}
    sizes = [k for k, name in symbols.items() if name in of_shapes]
    return sizes, [k for k in symbols if k not in sizes]


def _state(tensor: torch.Tensor) -> tuple[int, ...]:
    """Return a key that changes if a tensor is replaced or written to."""
    version = 0 if tensor.is_inference() else tensor._version
    return id(tensor), tensor.data_ptr(), version


# Strides and offset in elements: integers, or sizes of the arguments or of the result itself, whose axes come third.
_Place = tuple[tuple[Any, ...], Any, dict[Var, int]]


class _Program:
    """A built graph, and the positions of its inputs and outputs among the arguments and results."""

    def __init__(
        self,
        graph: torch.fx.GraphModule,
        args: Sequence[Any],
        parameters: Sequence[int],
        fixed: Sequence[int],
        settings: Mapping[str, Any],
    ) -> None:
        importer = TorchImporter("main", ProgramSymbols())
        placeholders = [node for node in graph.graph.nodes if node.op == "placeholder"]
        for position in fixed:
            importer.symbols.give(placeholders[position].meta["val"], args[position])
        self._parameters = [args[k] for k in parameters]  # held, so that no other tensor gets their identity
        self._inputs: list[int] = []
        self._sizes: dict[Any, int] = {}
        used: set[str] = set()
        for position, node in enumerate(placeholders):
            if not isinstance(node.meta["val"], torch.Tensor):
                size = importer.symbols.dim(node.meta["val"], f"input {node.name}")
                self._sizes[size] = position
                importer.bind(node, size)
            elif position in parameters:
                importer.bind(node, Operand.known(array_of(args[position], node.name)))
            else:
                importer.input(node, fresh(identifier(node.name), used))
                self._inputs.append(position)
        results = importer.run(graph)
        self._results = [None if isinstance(value, Operand) else (value,) for _, value in results]
        self._placed = [self._place(importer, node) for node in graph.graph.output_node().args[0]]
        outputs = [(name, value) for name, value in results if isinstance(value, Operand)]
        self._module = build(importer.build(outputs), **settings) if outputs else None

    def __call__(self, args: Sequence[Any]) -> list[Any]:
        """Return the results. Those that are sizes are computed from the arguments."""
        arrays = [_array(args[k]) for k in self._inputs]
        results = () if self._module is None else self._module(*arrays)
        tensors = map(_tensor, results if isinstance(results, tuple) else (results,))
        numbered = zip(self._results, self._placed, strict=True)
        return [
            self._number(result[0], args) if result is not None else self._laid_out(next(tensors), place, args)
            for result, place in numbered
        ]

    def _place(self, importer: TorchImporter, node: Any) -> _Place | None:
        """Return the required memory layout of a result, or None for a dense tensor in the order of its axes."""
        value = node.meta.get("val") if hasattr(node, "meta") else None
        if not isinstance(value, torch.Tensor):
            return None
        strides = tuple(importer.symbols.dim(stride, f"a stride of {node.name}") for stride in value.stride())
        offset = importer.symbols.dim(value.storage_offset(), f"the offset of {node.name}")
        parts = [part for part in (*strides, offset) if isinstance(part, Expr)]
        shape = importer.symbols.shape(value.shape, f"the shape of {node.name}")
        own = {size: axis for axis, size in enumerate(shape) if isinstance(size, Var) and size not in self._sizes}
        if any(variable not in self._sizes and variable not in own for part in parts for variable in free_vars(part)):
            return None  # a size that data decide; what is computed from one is dense
        if not parts and offset == 0 and value.is_contiguous():
            return None
        return strides, offset, own

    def _laid_out(self, tensor: torch.Tensor, place: _Place | None, args: Sequence[Any]) -> torch.Tensor:
        """Return a result with the memory layout that PyTorch would use.

        The caller relies on strides and offset, because it recreates views of an input from the input, strides and
        offset.
        """
        if place is None:
            return tensor
        own = {size: tensor.shape[axis] for size, axis in place[2].items()}
        strides, offset = tuple(self._number(s, args, own) for s in place[0]), self._number(place[1], args, own)
        if offset == 0 and strides == tensor.stride():
            return tensor
        last = offset + sum((size - 1) * stride for size, stride in zip(tensor.shape, strides, strict=True))
        memory = torch.empty(last + 1 if tensor.numel() else offset, dtype=tensor.dtype)
        result = memory.as_strided(tensor.shape, strides, offset)
        if torch._debug_has_internal_overlap(result) == 0:
            return result.copy_(tensor)
        places = torch.arange(len(memory)).as_strided(tensor.shape, strides, offset)
        memory[places.reshape(-1)] = tensor.reshape(-1)  # elements that share memory are equal
        return result

    def _number(self, value: Any, args: Sequence[Any], own: Mapping[Var, int] | None = None) -> Any:
        if not isinstance(value, Expr):
            return value
        sizes = {size: args[k] for size, k in self._sizes.items() if isinstance(size, Var)}
        return int(evaluate(value, {**sizes, **(own or {})}))


def _array(tensor: torch.Tensor) -> np.ndarray:
    """Return a CPU tensor as an array in the same memory."""
    if tensor.device.type != "cpu":
        raise InputError(f"torch.compile(backend='minitvm') runs on the CPU, found a tensor on {tensor.device}")
    return shared(tensor.detach())


def _tensor(array: np.ndarray) -> torch.Tensor:
    """Return an array as a tensor in the same memory. NumPy does not export bfloat16, so it is passed as its bits."""
    if array.dtype == DType("bfloat16").numpy:
        return torch.from_dlpack(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_dlpack(array)
