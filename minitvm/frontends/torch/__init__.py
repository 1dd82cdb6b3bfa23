"""PyTorch: programs of `torch.export` as graphs.

    program = torch.export.export(module, (x,), dynamic_shapes={"x": {0: torch.export.Dim("batch")}})
    graph = minitvm.from_torch(program)

The program is decomposed into ATen's operators. Each has a converter (`ops/`, one family a file) that writes minitvm
operators; an operator that has one, such as `layer_norm` or `scaled_dot_product_attention`, is not decomposed further.
Parameters and buffers become constants, open dimensions symbolic ones with the names that `torch.export.Dim` gave them.

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
    """The graph of a `torch.export.ExportedProgram`, of the path of a saved one (.pt2), or of an `nn.Module`.

    A module is exported first: `args` and `kwargs` are example inputs of it, `dynamic_shapes` as in
    `torch.export.export`. `shapes` gives open dimensions of inputs a size, by the names of the inputs; None and
    names leave one open. The graph's inputs have the names of the program's; its outputs are the flattened results,
    named after the keys of dictionaries where there are some. Constants share the memory of the parameters: a graph is
    of no use after they were changed.

    Raises `MissingExtra` where torch is not installed; `InputError` for what is neither program nor module, and for
    arguments that do not go with it; `ModelError` where torch refuses to export the module or to read the file;
    `UnsupportedOperator`, which lists every operator without a converter and where the model calls it, for what
    minitvm does not implement: training, changes of buffers or inputs, shapes that depend on data.
    """
    from .loading import load
    from .programs import import_program

    return import_program(load(program, args, kwargs, dynamic_shapes), shapes or {})


FRONTEND = Frontend("a PyTorch program", "ExportedProgram", ".pt2", from_torch, frozenset({"shapes"}))
