"""Print graphs as Relax: one `@R.function`, and the loop programs that it calls.

An operator without an equivalent in Relax becomes a call of its loop program. Constants with several elements become
parameters after the inputs, whose number is the attribute "num_input", as in the modules that TVM imports.
"""

from __future__ import annotations

import keyword
from collections.abc import Iterable, Mapping
from typing import Any

from ...errors import UnsupportedOperator
from ...expr import Expr, format_expr
from ...expr.printer import fresh, identifier
from ...graph.lower import own_graph, own_scalars, to_prim_func
from ...graph.nodes import BIND_SIZE, CALL_TIR, FUSED, LOOP, MATCH_CAST, Constant, Graph, OpNode, Value
from ...tir.nodes import IRModule, PrimFunc
from . import states
from .operators import Row, row_of

_RESERVED = {*keyword.kwlist, "R", "T", "I", "cls"}


def script(graph: Graph, dialect: str = "tvm-0.23", name: str = "Module") -> str:
    """Return the text of a module whose function "main" is the graph.

    Raises `UnsupportedOperator` for a loop, and for a size that depends on data, which Relax cannot express in this
    form. Raises `InputError` for an unknown dialect.
    """
    return module_script(name, {"main": graph}, functions_of(graph), dialect)


def functions_of(graph: Graph) -> dict[str, PrimFunc]:
    """Return the loop programs that the nodes `call_tir` of a graph call, by name."""
    names: dict[PrimFunc, str] = {}
    used = {"main", graph.name}
    for item in graph.nodes:
        if item.op == CALL_TIR and item.attrs["func"] not in names:
            names[item.attrs["func"]] = fresh(identifier(item.attrs["func"].name), used)
    return {name: func for func, name in names.items()}


def module_script(
    name: str, graphs: Mapping[str, Graph], functions: Mapping[str, PrimFunc], dialect: str = "tvm-0.23"
) -> str:
    """Return the text of a module with several functions."""
    module = IRModule(dict(functions))
    texts: list[str] = []
    for key, graph in graphs.items():
        calls = _Calls(graph, module.functions)
        module = IRModule({**module.functions, **{called: func for func, called in calls.names.items()}})
        texts += [*([""] if module.functions else []), *("    " + line for line in _function(graph, key, name, calls))]
    lines = module.script(dialect=dialect).rstrip("\n").split("\n") if module.functions else _header(dialect)
    first = next(k for k, line in enumerate(lines) if line.startswith("@I.ir_module"))
    package = "tvm" if dialect == "tvm-0.27" else "minitvm"
    lines[first + 1] = f"class {name}:"
    header = [line for line in lines[:first] if line.strip()]
    return "\n".join([*header, f"# from {package}.script import relax as R", "", *lines[first:], *texts]) + "\n"


def _header(dialect: str) -> list[str]:
    empty = IRModule({}).script(dialect=dialect).rstrip("\n").split("\n")
    return [line for line in empty if line.strip() != "pass"]


class _Calls:
    """The loop programs that a graph calls, and the name of each in the module."""

    def __init__(self, graph: Graph, functions: Mapping[str, PrimFunc] | None = None) -> None:
        self.names: dict[PrimFunc, str] = {func: name for name, func in (functions or {}).items()}
        self.func_of: dict[OpNode, PrimFunc] = {}
        used = {*self.names.values(), "main", graph.name}
        for item in graph.nodes:
            func = _program(item)
            if func is not None:
                self.func_of[item] = func
                if func not in self.names:
                    self.names[func] = fresh(identifier(func.name), used)


def _program(item: OpNode) -> PrimFunc | None:
    """Return the loop program that a node is written as, or None if it is written as an operator."""
    if item.op == CALL_TIR:
        func: PrimFunc = item.attrs["func"]
        return func
    if item.op in (LOOP, BIND_SIZE) or (item.op == MATCH_CAST and _conditions(item)):
        raise UnsupportedOperator(f"{item.op} has no form in the text of a Relax function: {item}")
    if item.op in (MATCH_CAST, "call_packed") or row_of(item) is not None:
        return None
    label = "fused" if item.op == FUSED else item.op.split(".")[-1]
    return to_prim_func(item, name=f"{label}_{item.outputs[0].name}")


def _conditions(item: OpNode) -> bool:
    return any(isinstance(side, Expr) and side.dtype.is_bool for side, _ in item.attrs["dims"])


def _function(graph: Graph, name: str, module: str, calls: _Calls) -> list[str]:
    names = _ValueNames(graph, calls)
    weights = [constant for constant in graph.constants if not _is_scalar(constant)]
    params = [*graph.inputs, *(constant.value for constant in weights)]
    listed = ", ".join(f"{names[v]}: {_type(v, quoted=True)}" for v in params)
    results = [_type(v, quoted=True) for v in graph.outputs]
    returns = results[0] if len(results) == 1 else f"R.Tuple({', '.join(results)})"
    sizes = sorted({v.name for p in params for d in p.shape if isinstance(d, Expr) for v in _variables(d)})
    body = [f"{size} = T.int64()" for size in sizes]
    attrs: dict[str, Any] = {"num_input": len(graph.inputs)} if weights else {}
    attrs |= states.attributes(graph)
    if attrs:
        body.append(f"R.func_attr({_attribute_map(attrs)})")
    if calls.func_of:
        body.append(f"cls = {module}")
    if graph.nodes:
        body.append("with R.dataflow():")
        for item in graph.nodes:
            body += [f"    {line}" for line in _lines(item, names, calls)]
        computed = {value for item in graph.nodes for value in item.outputs}
        inside = list(dict.fromkeys(names[v] for v in graph.outputs if v in computed))
        if inside:
            body.append(f"    R.output({', '.join(inside)})")
    outputs = [names[v] for v in graph.outputs]
    body.append(f"return {outputs[0] if len(outputs) == 1 else '(' + ', '.join(outputs) + ')'}")
    return ["@R.function", f"def {identifier(name)}({listed}) -> {returns}:", *(f"    {line}" for line in body)]


class _ValueNames(dict[Value, str]):
    """The name of each value, or the text of a scalar constant."""

    def __init__(self, graph: Graph, calls: _Calls) -> None:
        sizes = {v.name for value in graph.values() for d in value.shape if isinstance(d, Expr) for v in _variables(d)}
        self.used = {*_RESERVED, *sizes, *calls.names.values()}
        for value in graph.values():
            self[value] = fresh(identifier(value.name), self.used)
        for constant in graph.constants:
            if _is_scalar(constant):
                self[constant.value] = f'R.const({constant.data.item()!r}, "{constant.value.dtype}")'

    def tuple_of(self, item: OpNode) -> str:
        """Return a name for the tuple of a node's results."""
        first = self[item.outputs[0]]
        base = first.removesuffix("_0")
        numbered = all(self[v] == f"{base}_{k}" for k, v in enumerate(item.outputs))
        return fresh(base if numbered else f"{first}_tuple", self.used)


def _is_scalar(constant: Constant) -> bool:
    """Return whether a constant is written into the text: a finite number."""
    data = constant.data
    return data.ndim == 0 and data.dtype.name in _WRITTEN and abs(data.item()) < float("inf")


# TVM writes numbers of other dtypes as metadata outside of the text.
_WRITTEN = ("bool", "float16", "float32", "float64", "int32", "int64")


def _lines(item: OpNode, names: _ValueNames, calls: _Calls) -> list[str]:
    """Return the lines of a node: its call, and the items of a tuple of results."""
    call = _call(item, names, calls)
    if len(item.outputs) == 1:
        return [f"{names[item.output]}: {_type(item.output)} = {call}"]
    whole = names.tuple_of(item)
    return [f"{whole} = {call}", *(f"{names[v]}: {_type(v)} = {whole}[{k}]" for k, v in enumerate(item.outputs))]


def _call(item: OpNode, names: _ValueNames, calls: _Calls) -> str:
    args = [names[v] for v in item.inputs]
    if item.op == MATCH_CAST:
        return f"R.match_cast({args[0]}, {_type(item.output)})"
    if item in calls.func_of or item.op == "call_packed":
        types = [_type(v) for v in item.outputs]
        out = types[0] if len(types) == 1 else f"[{', '.join(types)}]"
        listed = f"({args[0]},)" if len(args) == 1 else f"({', '.join(args)})"
        if item.op == "call_packed":
            return f'R.call_dps_packed("{item.attrs["func"]}", {listed}, {out})'
        sizes = item.attrs["tir_vars"] if item.op == CALL_TIR else own_scalars(own_graph(item))
        scalars = f", tir_vars=R.shape([{', '.join(map(_dim, sizes))}])" if sizes else ""
        return f"R.call_tir(cls.{calls.names[calls.func_of[item]]}, {listed}, {out}{scalars})"
    row = row_of(item)
    assert row is not None  # otherwise it would have a loop program
    if row.tensors == ("*",):
        args = [f"({', '.join(args)}{',' if len(args) == 1 else ''})"]
    return f"R.{row.relax}({', '.join([*args, *_attributes(row, item)])})"


def _attributes(row: Row, item: OpNode) -> list[str]:
    texts = []
    for name, ours in row.attrs.items():
        value = item.attrs[ours]
        if row.relax == "reshape":
            value = item.output.shape
        if name in row.shapes:
            texts.append(f"R.shape([{', '.join(map(_dim, value))}])")
        elif value is not None:
            texts.append(f"{name}={_attribute(value)}")
    return texts


def _attribute(value: Any) -> str:
    if isinstance(value, tuple | list):
        return f"[{', '.join(map(_attribute, value))}]"
    if isinstance(value, Expr):
        return _dim(value)
    return f'"{value}"' if isinstance(value, str) else repr(value)


def _attribute_map(attrs: Mapping[str, Any]) -> str:
    return "{" + ", ".join(f'"{key}": {_attribute(value)}' for key, value in attrs.items()) + "}"


def _type(value: Value, quoted: bool = False) -> str:
    """Return a type. In a signature, sizes are declared after their use, so that they are strings."""
    dims = [f'"{_dim(d)}"' if quoted and isinstance(d, Expr) else _dim(d) for d in value.shape]
    return f'R.Tensor(({", ".join(dims)}{"," if len(dims) == 1 else ""}), dtype="{value.dtype}")'


def _dim(dim: Any) -> str:
    return str(dim) if isinstance(dim, int) else format_expr(dim)


def _variables(dim: Expr) -> Iterable[Any]:
    from ...expr import free_vars

    return free_vars(dim)
