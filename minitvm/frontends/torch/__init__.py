"""Convert PyTorch programs of `torch.export` to graphs.

    program = torch.export.export(module, (x,), dynamic_shapes={"x": {0: torch.export.Dim("batch")}})
    graph = minitvm.from_torch(program)

The program is decomposed into ATen's operators. Each has a converter (`ops/`, one file per family) that adds minitvm
operators. An operator with a converter, such as `layer_norm` or `scaled_dot_product_attention`, is not decomposed
further. Parameters and buffers become constants. Open dimensions become symbolic dimensions with the names of
`torch.export.Dim`.

The `torch` package is imported only when a program is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...graph.nodes import Graph
from ...importing import Frontend

__all__ = ["FRONTEND", "from_torch"]


def from_torch(
    program: Any,
    args: Sequence[Any] | None = None,
    kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
    shapes: Mapping[str, Sequence[Any]] | None = None,
) -> Graph:
    """Return the graph of a `torch.export.ExportedProgram`, of the path of a saved one (.pt2), or of an `nn.Module`.

    A module is exported first: `args` and `kwargs` are example inputs, and `dynamic_shapes` has the form that
    `torch.export.export` expects. `shapes` fixes open dimensions, by the names of the inputs; None or a name leaves a
    dimension open. The graph's inputs have the names of the program's inputs. Its outputs are the flattened results; if
    the program returns dictionaries, the outputs are named after their keys. Constants share memory with the
    parameters, so import the program again after you change a parameter.

    Raises `MissingExtra` if torch is not installed, `InputError` if `program` is of another kind or the arguments do
    not fit it, and `ModelError` if torch cannot export the module or read the file. Raises `UnsupportedOperator` for
    features that minitvm does not implement, such as training, changes of buffers or inputs, and shapes that depend on
    data. This error lists every operator without a converter, and where the model calls it.
    """
    from .loading import load
    from .programs import import_program

    return import_program(load(program, args, kwargs, dynamic_shapes), shapes or {})


FRONTEND = Frontend("a PyTorch program", "ExportedProgram", ".pt2", from_torch, frozenset({"shapes"}))
