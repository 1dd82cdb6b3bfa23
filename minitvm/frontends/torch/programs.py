"""Build the graph of an `ExportedProgram`: bind its inputs and name its outputs."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ...errors import InputError, ModelError, UnsupportedOperator, nearest
from ...expr.printer import fresh, identifier
from ...graph.nodes import Graph
from ..common.operand import Operand
from .dtypes import array_of
from .importer import TorchImporter
from .symbols import ProgramSymbols
from .unsupported import refuse_unsupported


def import_program(program: Any, shapes: Mapping[str, Sequence[Any]]) -> Graph:
    """Return the graph of a decomposed program, with some of its inputs at given shapes."""
    signature = program.graph_signature
    _refuse_mutation(signature)
    symbols = ProgramSymbols(_names_of_symbols(program), program.range_constraints)
    importer = TorchImporter("main", symbols)
    placeholders = [node for node in program.graph.nodes if node.op == "placeholder"]
    tensors = {
        identifier(node.name): node
        for node, spec in zip(placeholders, signature.input_specs, strict=True)
        if spec.kind.name == "USER_INPUT" and type(spec.arg).__name__ == "TensorArgument"
    }
    for name, shape in shapes.items():
        if name not in tensors:
            raise InputError(f"shapes: the program has no input {name}; {nearest(name, list(tensors))}")
        symbols.fix(name, tensors[name].meta["val"].shape, shape)
    constants: dict[Any, Operand] = {}
    for node, spec in zip(placeholders, signature.input_specs, strict=True):
        kind = spec.kind.name
        if kind == "USER_INPUT":
            _user_input(importer, node, spec)
        elif kind in ("PARAMETER", "BUFFER", "CONSTANT_TENSOR"):
            importer.bind(node, _constant(program, spec.target, constants))
        elif kind == "TOKEN":  # orders checks and other effects; what has one is refused with all that is not supported
            refuse_unsupported(program.graph_module)
            raise UnsupportedOperator("the program has effects, such as a check of its values, which a graph cannot")
        else:
            raise UnsupportedOperator(f"input {node.name}: a {kind.lower().replace('_', ' ')} is not supported")
    results = importer.run(program.graph_module)
    return importer.build([(name, value) for name, (_, value) in zip(_output_names(program), results, strict=True)])


def _user_input(importer: TorchImporter, node: Any, spec: Any) -> None:
    kind = type(spec.arg).__name__
    if kind == "TensorArgument":
        importer.input(node, identifier(node.name))
    elif kind == "ConstantArgument":
        importer.bind(node, spec.arg.value)
    else:
        raise UnsupportedOperator(f"input {node.name}: wanted a tensor, found a {kind.removesuffix('Argument')}")


def _constant(program: Any, target: str, constants: dict[Any, Operand]) -> Operand:
    """Return a parameter, buffer or lifted constant. Constants that share their memory become one constant."""
    tensor = program.state_dict[target] if target in program.state_dict else program.constants.get(target)
    if tensor is None:
        raise ModelError(f"the program has no contents for {target}")
    array = array_of(tensor, target)
    place = (array.ctypes.data, array.shape, array.strides, array.dtype)
    return constants.setdefault(place, Operand.known(array))


def _refuse_mutation(signature: Any) -> None:
    changed = [*signature.buffers_to_mutate.values(), *signature.user_inputs_to_mutate.values()]
    if changed:
        raise UnsupportedOperator(
            f"the program changes {', '.join(changed)} when it runs, which a graph cannot\n"
            "  try:    module.eval() before the export: batch norm then keeps its statistics"
        )


def _names_of_symbols(program: Any) -> dict[str, str]:
    """Return the names of `torch.export.Dim` by symbol. A program that was saved and loaded has lost them."""
    for node in program.graph.nodes:
        for size in getattr(node.meta.get("val"), "shape", ()):
            if type(size).__name__ == "SymInt":
                environment = size.node.shape_env
                names = getattr(environment, "source_name_to_debug_name", {})
                symbols = getattr(environment, "source_to_var", {})
                return {
                    str(symbol): names[source]
                    for source, symbol in symbols.items()
                    if re.fullmatch(r"[A-Za-z_]\w*", names.get(source, ""))
                }
    return {}


def _output_names(program: Any) -> list[str]:
    """Return a name for each output: its keys in the dictionaries that the module returns, or the name of its node."""
    from torch.utils._pytree import tree_flatten_with_path, tree_unflatten

    specs = program.graph_signature.output_specs
    own = [str(getattr(spec.arg, "name", "output")) for spec in specs]
    structure = program.module_call_graph[0].signature.out_spec
    paths, _ = tree_flatten_with_path(tree_unflatten(range(structure.num_leaves), structure))
    used: set[str] = set()
    return [fresh(identifier(_key(path) or name), used) for (path, _), name in zip(paths, own, strict=True)]


def _key(path: Sequence[Any]) -> str:
    """Return the keys of a path into nested results, joined, or "" if it has only positions in tuples."""
    keys = [str(next(getattr(part, a) for a in ("key", "name", "idx") if hasattr(part, a))) for part in path]
    first = next((k for k, part in enumerate(path) if not hasattr(part, "idx")), len(path))
    return "_".join(keys[first:])
