"""Traces as JSON, in TVM's format: `[[[kind, inputs, attributes, outputs], ...], [[index, decision], ...]]`.

Inputs are the names of handles, or values that are used instead of handles: factors, annotation values, orders. Among
the inputs, a string that is not a handle is enclosed in quotes, and None is the string "None". Everything else is an
attribute and is stored as it is, with one exception: an expression, which may use sampled numbers, is stored as
{"expr": "v3 * 2"}. TVM does not have expressions as attributes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from ...errors import ArtifactError
from ...expr import Expr, Var
from ..nodes import BlockId
from ..python_text import parse_expression
from .calls import described, fits
from .handles import BlockRV, ExprRV, Handle, LoopRV, handles_in
from .lambdas import FROM_FUNC, IndexLambda
from .registry import Primitive, lookup
from .trace import Instruction, Trace, expression_text, is_inline, is_input

_EXPRESSION = "expr"  # the key of an attribute that is an expression: {"expr": "v3 * 2"}
_FUNCTION = IndexLambda((), 0)  # a value that fits a parameter for functions


def to_json(insts: Sequence[Instruction], names: Mapping[Any, str]) -> list[Any]:
    """Convert instructions to plain lists, numbers and strings."""
    decisions = [[i, inst.decision] for i, inst in enumerate(insts) if inst.decision is not None]
    return [[_row(inst, names) for inst in insts], decisions]


def _row(inst: Instruction, names: Mapping[Any, str]) -> list[Any]:
    inputs = [_input(value, names) for value in inst.inputs]
    attrs = [_attribute(value, names) for value in inst.attrs]
    return [str(inst.kind), inputs, attrs, [names[handle] for handle in inst.outputs]]


def _attribute(value: Any, names: Mapping[Any, str]) -> Any:
    if isinstance(value, list | tuple):
        return [_attribute(item, names) for item in value]
    if isinstance(value, Expr):
        return {_EXPRESSION: expression_text(value, names)}
    return value if value is None or isinstance(value, bool | int | float | str) else repr(value)


def _input(value: Any, names: Mapping[Any, str]) -> Any:
    if isinstance(value, list | tuple):
        return [_input(item, names) for item in value]
    if isinstance(value, Mapping):
        return {key: _input(item, names) for key, item in value.items()}
    if isinstance(value, BlockRV | LoopRV):
        return names[value]
    if isinstance(value, Expr):
        return expression_text(value, names)
    return f'"{value}"' if isinstance(value, str) else "None" if value is None else value


# ---- reading back --------------------------------------------------------------------------------------------------


class _Damaged(Exception):
    """Raised if the data is not a trace; the message gives the reason."""


def from_json(json_obj: Sequence[Any] | str) -> Trace:
    """Load a saved trace; raise an `ArtifactError` that names the damaged step if the data is invalid."""
    step = 0
    try:
        instructions, decisions = _parts(json_obj)
        handles: dict[str, Handle] = {}
        insts: list[Instruction] = []
        for step, row in enumerate(instructions, 1):
            insts.append(_instruction(row, handles, decisions.pop(step - 1, None)))
        if decisions:
            raise _Damaged(f"a decision for instruction {min(decisions)} of {len(insts)}, counted from 0")
    except _Damaged as error:
        where = f"step {step}: " if step else ""
        raise ArtifactError(f"not a saved trace: {where}{error}") from None
    return Trace(insts)


def _parts(json_obj: Sequence[Any] | str) -> tuple[list[Any], dict[int, Any]]:
    loaded: Any = json_obj
    if isinstance(json_obj, str | bytes):
        try:
            loaded = json.loads(json_obj)
        except (ValueError, RecursionError) as error:
            raise _Damaged(f"no JSON ({error})") from None
    if not isinstance(loaded, list | tuple) or len(loaded) != 2 or not all(isinstance(p, list | tuple) for p in loaded):
        raise _Damaged("wanted [instructions, decisions], two lists")
    decisions: dict[int, Any] = {}
    for entry in loaded[1]:
        if not isinstance(entry, list | tuple) or len(entry) != 2 or type(entry[0]) is not int or entry[0] in decisions:
            raise _Damaged(f"wanted decisions [index, decision], each index once, found {_short(entry)}")
        decisions[entry[0]] = entry[1]
    return list(loaded[0]), decisions


def _instruction(row: Any, handles: dict[str, Handle], decision: Any) -> Instruction:
    if not isinstance(row, list | tuple) or len(row) != 4 or not isinstance(row[0], str):
        raise _Damaged(f"wanted [kind, inputs, attributes, outputs], found {_short(row)}")
    kind, inputs, attrs, outputs = row
    if not all(isinstance(part, list | tuple) for part in (inputs, attrs, outputs)):
        raise _Damaged(f"{kind}: wanted lists of inputs, attributes and outputs")
    try:
        primitive = lookup(kind.replace("SBlock", "Block"))  # TVM's spelling since 0.24
    except KeyError as error:
        raise _Damaged(str(error.args[0])) from None
    arguments = _arguments(primitive, list(inputs), list(attrs), handles)
    if primitive.decides:
        arguments["decision"] = None
    if decision is not None and (not primitive.decides or not fits(decision, primitive.hints["decision"])):
        raise _Damaged(f"{kind}: no decision of its kind is {_short(decision)}")
    for name, value in arguments.items():
        _check(primitive, name, value)
    results = [_new_handle(output, handles) for output in outputs]
    is_list = fits([], primitive.hints.get("return"))
    return Instruction(primitive, arguments, results if is_list or len(results) != 1 else results[0], decision)


def _check(primitive: Primitive, name: str, value: Any) -> None:
    hint = primitive.hints.get(name, Any)
    several = primitive.signature.parameters[name].kind is primitive.signature.parameters[name].VAR_POSITIONAL
    for item in value if several else [value]:
        if not fits(item, hint):
            raise _Damaged(f"{primitive.name}: {name} is a {described(hint)}, found {_short(item)}")


def _new_handle(name: Any, handles: dict[str, Handle]) -> Handle:
    if not isinstance(name, str) or name[:1] not in ("b", "l", "v") or not name[1:].isdigit():
        raise _Damaged(f"wanted outputs named b0, l1, v2, ..., found {_short(name)}")
    handle: Handle = BlockRV(BlockId()) if name[0] == "b" else LoopRV(Var(name)) if name[0] == "l" else ExprRV(name)
    handles[name] = handle
    return handle


def _arguments(
    primitive: Primitive, inputs: list[Any], attrs: list[Any], handles: Mapping[str, Handle]
) -> dict[str, Any]:
    arguments: dict[str, Any] = {}
    for name, parameter in primitive.signature.parameters.items():
        if name == "decision":
            continue
        taken = is_input(primitive, name)
        if taken and is_inline(primitive, name):
            arguments[name], inputs = [_input_value(item, handles) for item in inputs], []
        elif taken and inputs:
            arguments[name] = _input_value(inputs.pop(0), handles)
        elif not taken and attrs:
            function = fits(_FUNCTION, primitive.hints.get(name, Any))
            arguments[name] = _attribute_value(attrs.pop(0), handles, function)
        elif parameter.default is not parameter.empty:
            arguments[name] = parameter.default  # a trace of an older version
        else:
            raise _Damaged(f"{primitive.name} lacks its {name}")
    if inputs or attrs:
        raise _Damaged(f"{primitive.name}: {_short((inputs or attrs)[0])} is one argument too many")
    return arguments


def _input_value(value: Any, handles: Mapping[str, Handle]) -> Any:
    if isinstance(value, list | tuple):
        return [_input_value(item, handles) for item in value]
    if isinstance(value, Mapping):
        return {key: _input_value(item, handles) for key, item in value.items()}
    if not isinstance(value, str):
        return value
    if value == "None":
        return None
    if len(value) > 1 and value[0] == value[-1] == '"':
        return value[1:-1]
    if value in handles:
        return handles[value]
    expression = _expression(value, handles)
    if not handles_in(expression):
        raise _Damaged(f"{_short(value)} is not defined before it is used")
    return expression


def _expression(text: str, handles: Mapping[str, Handle]) -> Expr:
    numbers = {name: handle for name, handle in handles.items() if isinstance(handle, ExprRV)}
    try:
        return parse_expression(text, numbers)
    except Exception as error:
        reason = f" ({error})" if isinstance(error, ValueError) else ""
        raise _Damaged(f"{_short(text)} is not defined before it is used{reason}") from None


def _attribute_value(value: Any, handles: Mapping[str, Handle], function: bool) -> Any:
    """Read a saved attribute. With `function`, text may also be parsed as an index function."""
    if isinstance(value, list | tuple):
        return [_attribute_value(item, handles, function) for item in value]
    if isinstance(value, Mapping):
        if [*value] != [_EXPRESSION] or not isinstance(value[_EXPRESSION], str):
            raise _Damaged(f"{_short(value)} is no attribute")
        return _expression(value[_EXPRESSION], handles)
    if function and isinstance(value, str) and value.startswith(("lambda ", "lambda:", FROM_FUNC)):
        try:
            return IndexLambda.parse(value)
        except Exception as error:
            raise _Damaged(f"{_short(value)} is no function of indices ({error})") from None
    return value


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
