"""The smallest interpreter of kernels. Read it from top to bottom: it defines the meaning of a lowered program.

    run(module, *arrays)           runs a host function and the kernels that it calls; results appear in the arrays
    execute(stmt, env, module)     runs one statement
    value(expr, env, lane)         computes one lane of one expression

There are three kinds of things at run time:

    a value    a NumPy scalar of the declared dtype, never a Python number: each operation rounds or wraps
    memory     a flat NumPy array per buffer; an index outside of it is an error
    `env`      a dictionary from buffers to memory and from variables to values, one per lane (a scalar has one lane);
               an inner scope is a new dictionary

A vector needs no value of its own. A vector expression of eight lanes means eight scalars, and `value(e, env, 3)`
computes the fourth one. For example, lane 3 of `A[T.Ramp(i, 2, 8)]` is the element `A[i + 3 * 2]`.

Loops of all kinds run forward, one iteration after the other. A PARALLEL, VECTORIZED or THREAD loop promises that the
order does not matter, so any order is right. Threads that wait for each other (barriers, shuffles, asynchronous copies)
are not here, and `Unsupported` says so. `reference.kernel` runs these too, checks each access, and has a fast mode. A
test compares the two: they leave the same bits.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from minitvm import expr as x
from minitvm.errors import ExecutionError, InputError, Unsupported
from minitvm.tir import nodes as t

from .meaning.intrinsics import meaning
from .meaning.operations import constant

Value = Any  # a NumPy scalar
Environment = Mapping[Any, Any]
Operation = Callable[[Any, Any], Any]

# --- programs -----------------------------------------------------------------------------------------------------


def run(module: t.IRModule | t.PrimFunc, *args: Any, sizes: Mapping[str, int] | None = None) -> None:
    """Run the host function of a lowered module, or a single kernel, on arrays and scalars; arrays change in place.

    `sizes` gives symbolic dimensions by name. You need it where the length of a flat array does not determine them: 12
    elements may be 3 rows of 4 or 2 rows of 6.
    """
    if isinstance(module, t.PrimFunc):
        module = t.IRModule({module.name: module})
    functions = [func for _, func in module.items()]
    hosts = [func for func in functions if func.attrs.get("host")] or functions
    if len(hosts) != 1:
        raise InputError(f"the module has {len(hosts)} host functions\n  wanted: one\n  try:    run(one of them, ...)")
    if len(args) != len(hosts[0].params):
        raise InputError(f"{hosts[0].name}: wanted {len(hosts[0].params)} arguments, found {len(args)}")
    values: list[Any] = []
    for param, arg in zip(hosts[0].params, args, strict=True):
        if not isinstance(param, t.Buffer):
            values.append([number(arg, param.dtype)])
        elif arg.dtype != param.dtype.numpy or not arg.flags.c_contiguous:
            raise InputError(f"{param.name}: wanted a contiguous array of {param.dtype}, found one of {arg.dtype}")
        else:
            values.append(arg.reshape(-1))  # the same memory in one dimension
    with np.errstate(all="ignore"):  # integers wrap and floats overflow without a warning
        call(hosts[0], values, module, sizes or {})


def call(func: t.PrimFunc, values: list[Any], module: t.IRModule, sizes: Mapping[str, int]) -> None:
    """Run a function on the memory of each buffer and the value of each scalar."""
    env: dict[Any, Any] = dict(zip(func.params, values, strict=True))
    for buffer in sorted(func.buffers, key=lambda b: not isinstance(only(b.shape, b), x.Var)):  # plain variables first
        memory, size = env[buffer], only(buffer.shape, buffer)
        for var in x.free_vars(size):
            if var not in env:  # a dimension that is a variable is the length of the array
                env[var] = [number(sizes.get(var.name, len(memory)), var.dtype)]
        if len(memory) < value(size, env):
            short = f"{func.name}: {buffer.name} has {len(memory)} elements, wanted {size}, which is {value(size, env)}"
            raise InputError(f"{short}\n  try:    sizes={{name: size}} for dimensions that are variables")
    execute(func.body, env, module)


# --- statements ---------------------------------------------------------------------------------------------------


def execute(s: t.Stmt, env: Environment, module: t.IRModule) -> None:
    """Run a statement: it changes memory, and nothing else."""
    match s:
        case t.Seq(stmts):
            for stmt in stmts:
                execute(stmt, env, module)
        case t.For(var, start, extent, _, body):
            first, count = int(value(start, env)), int(value(extent, env))
            for k in range(first, first + count):
                execute(body, {**env, var: [number(k, var.dtype)]}, module)
        case t.While(condition, body):
            while value(condition, env):
                execute(body, env, module)
        case t.If(condition, then_case, else_case):
            if value(condition, env):
                execute(then_case, env, module)
            elif else_case is not None:
                execute(else_case, env, module)
        case t.LetStmt(var, bound, body):
            execute(body, {**env, var: lanes(bound, env)}, module)
        case t.Allocate(buffer, body):
            size = int(value(only(buffer.shape, buffer), env))
            execute(body, {**env, buffer: fresh(size, buffer.dtype)}, module)
        case t.BufferStore():
            store(s, env)
        case t.Assert(condition, message):
            if not value(condition, env):
                raise ExecutionError(f"assertion failed: {message}\n  wanted: {condition}")
        case t.Evaluate(e):
            lanes(e, env)  # for its effect; the intrinsics that have one are refused
        case t.Instruction():
            execute(s.body, env, module)  # one instruction of a machine; its body says what it does
        case t.Prefetch():
            pass  # a hint
        case t.KernelCall(name, args):
            values = [env[a] if isinstance(a, t.Buffer) else lanes(a, env) for a in args]
            call(module[name], values, module, {})
        case _:
            raise Unsupported(f"reference.tiny has no {type(s).__name__}\n  try:    reference.kernel.run")


def store(s: t.BufferStore, env: Environment) -> None:
    """`buffer[index] = value`, in the lanes where the predicate holds. All reads come before the first write."""
    values, index = lanes(s.value, env), only(s.indices, s.buffer)
    active = [k for k in range(len(values)) if s.predicate is None or value(s.predicate, env, k)]
    for place, k in [(address(s.buffer, index, env, k), k) for k in active]:
        env[s.buffer][place] = values[k]


def address(buffer: t.Buffer, index: x.Expr, env: Environment, lane: int) -> int:
    """Return the position of an element in the memory of a buffer."""
    if buffer.dtype.lanes > 1:
        raise Unsupported(f"reference.tiny has no buffers of vectors, found {buffer}")
    place, size = int(value(index, env, lane)), len(env[buffer])
    if not 0 <= place < size:
        raise ExecutionError(f"{buffer.name}[{index}] is element {place}, and {buffer.name} has {size}")
    return place


def fresh(size: int, dtype: x.DType) -> np.ndarray:
    """Return memory that was never written. A correct program does not read it; NaN shows where a wrong one does."""
    return np.full(size, np.nan if dtype.is_float else dtype.max, dtype.numpy)


def only(parts: tuple[x.Expr, ...], buffer: t.Buffer) -> x.Expr:
    """Return the only index or dimension of a buffer: in a lowered program, buffers are flat."""
    at_start = isinstance(buffer.elem_offset, x.IntImm) and buffer.elem_offset.value == 0
    if len(parts) != 1 or buffer.strides or not at_start:
        raise Unsupported(
            f"{buffer.name} is not flat: {buffer}\n  wanted: a lowered program\n  try:    minitvm.lower(program)"
        )
    return parts[0]


# --- expressions --------------------------------------------------------------------------------------------------


def lanes(e: x.Expr, env: Environment) -> list[Value]:
    """Return all lanes of an expression; a scalar has one."""
    return [value(e, env, lane) for lane in range(e.dtype.lanes)]


def value(e: x.Expr, env: Environment, lane: int = 0) -> Value:
    """Compute one lane of an expression. It reads memory, and changes nothing."""
    if e.dtype.lanes == 1:
        lane = 0  # next to vectors, a scalar is the same in each lane
    match e:
        case x.Var():
            return env[e][lane]
        case x.IntImm() | x.FloatImm():
            return number(constant(e), e.dtype)  # a rational is rounded once
        case x.Not(a):
            return np.logical_not(value(a, env, lane))
        case x.And(a, b):  # the right side is computed only if it decides
            return value(a, env, lane) and value(b, env, lane)
        case x.Or(a, b):
            return value(a, env, lane) or value(b, env, lane)
        case x.BinaryOp(a, b):
            return binary(e, value(a, env, lane), value(b, env, lane))
        case x.Cast(dtype, a):
            return cast(value(a, env, lane), a.dtype, dtype)
        case x.Select(condition, yes, no):
            both = value(yes, env, lane), value(no, env, lane)  # both sides are computed
            return both[0] if value(condition, env, lane) else both[1]
        case x.Let(var, bound, body):
            return value(body, {**env, var: lanes(bound, env)}, lane)
        case t.BufferLoad(buffer, indices, predicate):
            if predicate is not None and not value(predicate, env, lane):
                return number(0, e.dtype)  # a lane that is masked out reads nothing and is zero
            return env[buffer][address(buffer, only(indices, buffer), env, lane)]
        case x.Ramp(base, stride):
            step = int(value(base, env)) + lane * int(value(stride, env))
            return number(step, e.dtype)
        case x.Broadcast(a):
            return value(a, env)
        case x.Shuffle(vectors, indices):
            places = [(v, k) for v in vectors for k in range(v.dtype.lanes)]  # the lanes of all vectors in a row
            vector, k = places[indices[lane]]
            return value(vector, env, k)
        case x.Call():
            return intrinsic(e, env, lane)
        case _:
            raise Unsupported(f"reference.tiny has no {type(e).__name__}: {e}\n  try:    reference.kernel.run")


def intrinsic(e: x.Call, env: Environment, lane: int) -> Value:
    """Compute `exp(a)`, `if_then_else(c, a, b)`, `shift_left(a, b)`, ...; `expr.intrin` lists all intrinsics."""
    if e.op == "if_then_else":  # computes only one side, so the condition may guard an access
        condition, yes, no = e.args
        return value(yes if value(condition, env, lane) else no, env, lane)
    if e.op in REDUCTIONS:  # from the first lane to the last; the order is part of the meaning
        first, *rest = lanes(e.args[0], env)
        for one in rest:
            first = REDUCTIONS[e.op](first, one)
        return number(first, e.dtype)
    if e.op not in x.INTRINSICS or not x.INTRINSICS[e.op].pure:
        raise Unsupported(f"reference.tiny has no intrinsic {e.op}: {e}\n  try:    reference.kernel.run")
    function = meaning(e.op, e.dtype.scalar, e.args[0].dtype.scalar)
    return number(function(*(value(a, env, lane) for a in e.args)), e.dtype)


# --- arithmetic ---------------------------------------------------------------------------------------------------


def number(exact: Any, dtype: x.DType) -> Value:
    """Convert a number to a NumPy scalar: integers wrap to the bits of the dtype (two's complement), floats round."""
    if dtype.is_int:
        low = int(dtype.min)
        exact = (int(exact) - low) % 2**dtype.bits + low
    return dtype.numpy.type(exact)


def truncated(a: int, b: int) -> int:
    """Return the quotient of integers, rounded toward zero as in C."""
    return abs(a) // abs(b) if (a < 0) == (b < 0) else -(abs(a) // abs(b))


def smaller(a: Value, b: Value) -> Value:
    """Return the smaller value; NaN if one is NaN."""
    return a if a < b or a != a else b


def larger(a: Value, b: Value) -> Value:
    """Return the larger value; NaN if one is NaN."""
    return a if a > b or a != a else b


COMPARISONS: dict[type, Operation] = {
    x.EQ: operator.eq, x.NE: operator.ne, x.LT: operator.lt,
    x.LE: operator.le, x.GT: operator.gt, x.GE: operator.ge,
}  # fmt: skip
ARITHMETIC: dict[type, Operation] = {
    x.Add: operator.add, x.Sub: operator.sub, x.Mul: operator.mul, x.Min: smaller, x.Max: larger,
}  # fmt: skip
INTEGER_DIVISIONS: dict[type, Operation] = {
    x.Div: truncated,  # C's / and %
    x.Mod: lambda a, b: a - b * truncated(a, b),
    x.FloorDiv: operator.floordiv,  # Python's // and %
    x.FloorMod: operator.mod,
}
FLOAT_DIVISIONS: dict[type, Operation] = {
    x.Div: operator.truediv,
    x.Mod: np.fmod,
    x.FloorDiv: lambda a, b: np.floor(a / b),
    x.FloorMod: np.remainder,
}
REDUCTIONS: dict[str, Operation] = {
    "vector_reduce_add": operator.add, "vector_reduce_mul": operator.mul,
    "vector_reduce_min": smaller, "vector_reduce_max": larger,
}  # fmt: skip


def binary(e: x.BinaryOp, a: Value, b: Value) -> Value:
    """Compute `a + b`, `a // b`, `a < b`, ... on values of one dtype. 16-bit floats are added in float32 and
    rounded.
    """
    if type(e) in COMPARISONS:
        return COMPARISONS[type(e)](a, b)
    dtype = e.a.dtype.scalar
    if dtype.is_float:
        return (ARITHMETIC | FLOAT_DIVISIONS)[type(e)](a, b)  # NumPy computes in the dtype of the two
    if type(e) in INTEGER_DIVISIONS and b == 0:
        raise ExecutionError(f"division by zero: {e}")
    exact = (ARITHMETIC | INTEGER_DIVISIONS)[type(e)](int(a), int(b))  # Python's integers have no end
    return number(exact, dtype)


def cast(a: Value, source: x.DType, target: x.DType) -> Value:
    """Convert as C does: floats are truncated toward zero, integers wrap, and every nonzero number is True."""
    if target.is_bool:
        return np.bool_(a != 0)
    if target.is_int and source.is_float:
        exact = float(a)
        if not math.isfinite(exact) or not target.min <= int(exact) <= target.max:
            raise ExecutionError(f"cast of {a} to {target} is undefined: out of its range")
        return number(int(exact), target)
    if target.is_half and not source.is_float:  # integers go by way of float64: docs/semantics.md
        a = np.float64(a)
    return a.astype(target.numpy) if target.is_float else number(a, target)
