"""`RelaxModule`: the graphs and loop programs of an `@I.ir_module` class with `@R.function`."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ...errors import InputError, nearest
from ...graph.nodes import Graph
from ...importing import imported
from ...tir.nodes import IRModule, PrimFunc
from ...tir.script.evaluate import Source


@dataclass(frozen=True, slots=True)
class RelaxModule:
    """The `graphs` of a module, by name, and its loop programs `functions`. `build` compiles the graph "main", or the
    only one.
    """

    name: str
    graphs: Mapping[str, Graph]
    functions: Mapping[str, PrimFunc] = field(default_factory=dict)

    @property
    def graph(self) -> Graph:
        """The graph "main", or the only graph. Raises `InputError` if there are several and none is "main"."""
        if "main" in self.graphs:
            return self.graphs["main"]
        if len(self.graphs) != 1:
            raise InputError(f"{self.name} has several graphs: {', '.join(self.graphs)}\n  try:    module[NAME]")
        return next(iter(self.graphs.values()))

    def __getitem__(self, name: str) -> Graph | PrimFunc:
        """Return a graph or a loop program. Raises `InputError` for an unknown name."""
        every: dict[str, Graph | PrimFunc] = {**self.functions, **self.graphs}
        if str(name) not in every:
            raise InputError(f"{self.name} has no function {name}; {nearest(str(name), list(every))}")
        return every[str(name)]

    def items(self) -> Iterator[tuple[str, Graph | PrimFunc]]:
        """Iterate over the pairs (name, loop program or graph)."""
        yield from self.functions.items()
        yield from self.graphs.items()

    def bind(self, params: Mapping[str, Any], name: str = "main") -> RelaxModule:
        """Return the module with inputs of a graph replaced by constants (TVM's `relax.transform.BindParams`)."""
        graph = self[name]
        if not isinstance(graph, Graph):
            raise InputError(f"{name} is a loop program, which has no constants")
        return replace(self, graphs={**self.graphs, name: imported(graph, {"values": dict(params)})})

    def script(self, dialect: str = "tvm-0.23") -> str:
        """Return the module as text. Constants with several elements are printed as parameters, after the inputs."""
        from .printer import module_script

        return module_script(self.name, self.graphs, self.functions, dialect)

    def show(self) -> None:
        """Print the module."""
        print(self.script())

    def __repr__(self) -> str:
        return self.script()


def graph_of(model: Any) -> Graph:
    """Return the graph of a module, or of the path of a text file. Raises `InputError` for a file without one."""
    if isinstance(model, RelaxModule):
        return model.graph
    from pathlib import Path

    from ...tir.script.source import from_source

    try:
        text = Path(model).read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(f"{model}: {error.strerror}") from None
    program = from_source(text)
    if isinstance(program, RelaxModule | Graph):
        return program.graph if isinstance(program, RelaxModule) else program
    raise InputError(f"{model}: the module has no @R.function\n  try:    tvm.script.from_source(text)")


def from_graph(graph: Graph, name: str = "Module") -> RelaxModule:
    """Return the module of a graph, and of the loop programs that it calls."""
    from .printer import functions_of

    return RelaxModule(name, {"main": graph}, functions_of(graph))


def module_of(
    name: str, module: IRModule, functions: Mapping[str, tuple[Source, ast.stmt]], captured: Mapping[str, Any]
) -> RelaxModule:
    """Read the graphs of a module. `functions` are the texts of its functions under `@R.function`, and `captured` the
    Python values that they may refer to.
    """
    from .parser import RelaxParser

    nodes = {key: node for key, (_, node) in functions.items()}
    sources = {key: source for key, (source, _) in functions.items()}
    graphs = {}
    for key, node in nodes.items():
        parser = RelaxParser(sources[key], captured, name, dict(module.items()), nodes)
        graphs[key] = parser.function(node)
    return RelaxModule(name, graphs, dict(module.items()))
