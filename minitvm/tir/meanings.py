"""The registered meanings of foreign code: a call whose name has a meaning runs like the loops that define it.

    @T.prim_func
    def gemv_update(c: T.Buffer((m,)), a: T.Buffer((k,)), b: T.Buffer((m, k), strides=(stride, 1)), ...): ...

    tir.register_meaning("gemv_update", gemv_update)          # for T.call_extern("int32", "gemv_update", ...)
    tir.register_meaning("tanhf", lambda x: tir.tanh(x))      # for T.call_pure_extern("float32", "tanhf", x)

A buffer of the meaning stands for the storage at the address that the call passes, with the buffer's own shape and
strides. `written_out` replaces the call by its meaning. Both the compiler and the interpreters start with this step,
because it is a definition and not a transform.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .. import expr as ex
from ..errors import InputError, TypeMismatch
from ..expr.conditions import is_const
from ..expr.foreign import NAMED_CODE
from . import nodes as tir

Meaning = tir.PrimFunc | Callable[..., ex.Expr]
MEANINGS: dict[str, Meaning] = {}


def register_meaning(name: str, meaning: Meaning, override: bool = False) -> None:
    """Define what calls of a foreign function (or of a foreign operation such as "tvm_fill_fragment") do.

    The meaning of a statement is a function of loops and stores over its buffers and scalars, without blocks and
    without allocations. The meaning of a value is a Python function that maps expressions to an expression. Raises
    `InputError` if the name already has a meaning (unless `override` is set), and for a function with other contents.
    """
    if name in MEANINGS and not override:
        raise InputError(f"{name} has a meaning already\n  try:    override=True")
    if isinstance(meaning, tir.PrimFunc):
        body = _body(meaning)
        more = next((n for n in ex.find(body, tir.BlockRealize | tir.BufferData)), None)
        root = meaning.body
        if more is not None or (isinstance(root, tir.BlockRealize) and root.block.alloc_buffers):
            raise InputError(f"the meaning of {name} holds blocks, buffers or addresses\n  wanted: loops and stores")
        for part in (s for b in meaning.buffers for s in (*b.strides, *b.shape)):
            loose = next((v for v in ex.free_vars(part) if not any(v is p for p in meaning.params)), None)
            if loose is not None:
                raise InputError(f"the meaning of {name}: no argument of a call tells {loose.name}; wanted a parameter")
    elif not callable(meaning):
        raise InputError(f"the meaning of {name} is a {type(meaning).__name__}; wanted a PrimFunc or a function")
    MEANINGS[name] = meaning
    _expanded.cache_clear()


def written_out(func: tir.PrimFunc) -> tir.PrimFunc:
    """Replace each foreign call that has a registered meaning by this meaning. Returns the same function if there is
    none.
    """
    return _expanded(func) if MEANINGS else func


@functools.lru_cache(64)  # a program is run many times
def _expanded(func: tir.PrimFunc) -> tir.PrimFunc:
    if not any(_meaning(node) is not None for node in ex.walk(func.body)):
        return func
    return func.with_body(_rewritten(func.body))


def _rewritten(node: Any) -> Any:
    if isinstance(node, tir.Evaluate) and isinstance(node.value, ex.Call):
        meaning = _meaning(node.value)
        if isinstance(meaning, tir.PrimFunc):
            return _statement(node.value, meaning)
    rebuilt = ex.map_children(node, _rewritten)
    meaning = _meaning(rebuilt)
    if meaning is None or isinstance(meaning, tir.PrimFunc):
        return rebuilt
    value = ex.as_expr(meaning(*_arguments(rebuilt)))
    if value.dtype != rebuilt.dtype:
        raise TypeMismatch(
            f"the meaning of {_name(rebuilt)} is a value of {value.dtype}, the call one of {rebuilt.dtype}"
        )
    return value


def _name(call: ex.Call) -> str:
    first = call.args[0] if call.args and call.op in NAMED_CODE else None
    return first.value if isinstance(first, ex.StringImm) else call.op


def _arguments(call: ex.Call) -> Sequence[ex.Expr]:
    return call.args[1:] if call.op in NAMED_CODE else call.args


def _meaning(node: ex.Node) -> Meaning | None:
    return MEANINGS.get(_name(node)) if isinstance(node, ex.Call) else None


def _body(meaning: tir.PrimFunc) -> tir.Stmt:
    return meaning.body.block.body if isinstance(meaning.body, tir.BlockRealize) else meaning.body


def _statement(call: ex.Call, meaning: tir.PrimFunc) -> tir.Stmt:
    name, arguments = _name(call), _arguments(call)
    if len(arguments) != len(meaning.params):
        raise InputError(f"{name}: {len(arguments)} arguments; its meaning takes {len(meaning.params)}: {call}")
    values: dict[ex.Var, ex.Expr] = {}
    places: dict[tir.Buffer, tuple[tir.Buffer, ex.Expr]] = {}
    for parameter, argument in zip(meaning.params, arguments, strict=True):
        if isinstance(parameter, tir.Buffer):
            places[parameter] = _place(name, argument)
        elif argument.dtype != parameter.dtype:
            raise TypeMismatch(f"{name}: {parameter.name} is {parameter.dtype}, the call hands over {argument}")
        else:
            values[parameter] = argument
    return _with_own_variables(ex.substitute(_moved(_body(meaning), places), values))


def _place(name: str, argument: ex.Expr) -> tuple[tir.Buffer, ex.Expr]:
    """Return the buffer that an address points into, and the offset of the address in elements from the start of the
    buffer.
    """
    if (
        isinstance(argument, ex.Call)
        and argument.op == "tvm_access_ptr"
        and isinstance(argument.args[1], tir.BufferData)
    ):
        return argument.args[1].buffer, _from_its_own(argument.args[1].buffer, argument.args[2])
    if isinstance(argument, ex.Call) and argument.op == "address_of" and isinstance(argument.args[0], tir.BufferLoad):
        load = argument.args[0]
        return load.buffer, _flat(_strides(load.buffer), load.indices)
    if isinstance(argument, tir.BufferData):
        return argument.buffer, ex.as_expr(0)
    raise InputError(f"{name}: its meaning takes an address, found {argument}\n  try:    A.access_ptr(...)")


def _from_its_own(buffer: tir.Buffer, start: ex.Expr) -> ex.Expr:
    if start is buffer.elem_offset:
        return ex.as_expr(0)
    if isinstance(start, ex.Add) and start.a is buffer.elem_offset:
        return start.b
    return start if is_const(buffer.elem_offset, 0) else start - buffer.elem_offset


def _strides(buffer: tir.Buffer) -> list[ex.Expr]:
    if buffer.strides:
        return list(buffer.strides)
    strides: list[ex.Expr] = [ex.as_expr(1)] * buffer.ndim
    for axis in range(buffer.ndim - 2, -1, -1):
        inner, extent = strides[axis + 1], buffer.shape[axis + 1]
        constant = isinstance(inner, ex.IntImm) and isinstance(extent, ex.IntImm)
        strides[axis] = ex.as_expr(int(inner) * int(extent)) if constant else inner * extent  # type: ignore[call-overload]
    return strides


def _flat(strides: Sequence[ex.Expr], indices: Sequence[ex.Expr]) -> ex.Expr:
    total: ex.Expr = ex.as_expr(0)
    for index, stride in zip(indices, strides, strict=True):
        if is_const(index, 0):
            continue
        term = index if is_const(stride, 1) else index * stride
        total = term if is_const(total, 0) else total + term
    return total


def _indices(buffer: tir.Buffer, flat: ex.Expr) -> tuple[ex.Expr, ...]:
    """Convert an element's offset in storage to its indices. Outer strides must be multiples of inner strides."""
    indices = []
    strides = _strides(buffer)
    for number, stride in enumerate(strides):
        rest = flat if number == 0 else flat % strides[number - 1]
        indices.append(rest if is_const(stride, 1) else rest // stride)
    return tuple(indices)


def _moved(node: Any, places: Mapping[tir.Buffer, tuple[tir.Buffer, ex.Expr]]) -> Any:
    """Replace accesses to the buffers of a meaning by accesses to the storage that they stand for."""
    rebuilt = ex.map_children(node, lambda child: _moved(child, places))
    if not isinstance(rebuilt, tir.BufferLoad | tir.BufferStore) or rebuilt.buffer not in places:
        return rebuilt
    buffer, start = places[rebuilt.buffer]
    if buffer.dtype != rebuilt.buffer.dtype:
        raise TypeMismatch(
            f"{rebuilt.buffer.name} of a meaning is {rebuilt.buffer.dtype}, {buffer.name} is {buffer.dtype}"
        )
    number = _flat(_strides(rebuilt.buffer), rebuilt.indices)
    return ex.replace(
        rebuilt, buffer=buffer, indices=_indices(buffer, number if is_const(start, 0) else start + number)
    )


def _with_own_variables(stmt: Any) -> Any:
    """Return a copy with new loop and let variables, because the same meaning may be inserted several times."""
    rebuilt = ex.map_children(stmt, _with_own_variables)
    if isinstance(rebuilt, tir.For | tir.LetStmt):
        fresh = rebuilt.var.with_name(rebuilt.var.name)
        return ex.replace(rebuilt, var=fresh, body=ex.substitute(rebuilt.body, {rebuilt.var: fresh}))
    return rebuilt
