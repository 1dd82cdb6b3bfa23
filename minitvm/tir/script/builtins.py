"""The module that `T` refers to: every name of the language is a real Python object.

Most of these functions only return a plain description (see `descriptions`); for example, `T.block("C")` returns a
`BlockSpec`. The parser turns the description into nodes at the right place in the program. This way, decorators and
annotations also work when Python itself evaluates them.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from ... import expr as ex
from ...errors import InputError, TypeMismatch, nearest
from ...expr.foreign import FOREIGN
from .. import op
from ..annotations import THREAD_AXES, is_thread_axis
from ..conditions import is_const
from ..nodes import Buffer as BufferNode
from ..nodes import BufferLoad, BufferStore, ForKind, Prefetch, Tile
from . import buffers, descriptions
from .all_reduce import attr, comm_reducer, tvm_thread_allreduce
from .buffers import alloc_buffer, as_region, decl_buffer
from .foreign import maker
from .refused import REFUSED, explained

# ---- loops ---------------------------------------------------------------------------------------------------------


def span(start: Any, stop: Any) -> ex.Range:
    """Return the range [start, stop). If stop has the form `start + n`, the extent is n."""
    first, last = ex.match(ex.as_expr(start), ex.as_expr(stop))
    if is_const(first, 0):
        return ex.Range(first, last)
    if isinstance(first, ex.IntImm) and isinstance(last, ex.IntImm):
        return ex.Range(first, ex.const(last.value - first.value, first.dtype))
    if type(last).__name__ == "Add" and ex.structural_equal(last.a, first):  # type: ignore[attr-defined]
        return ex.Range(first, last.b)  # type: ignore[attr-defined]
    return ex.Range(first, last - first)


def _interval(item: Any) -> ex.Range:
    if isinstance(item, ex.Range):
        return item
    if isinstance(item, tuple | list):
        return span(*item)
    extent = ex.as_expr(item)
    return ex.Range(ex.const(0, extent.dtype), extent)


def _loop(kind: ForKind) -> Callable[..., descriptions.LoopSpec]:
    def make(
        start: Any, stop: Any = None, step: Any = None, *, annotations: Any = None, thread: str | None = None
    ) -> descriptions.LoopSpec:
        # TVM's thread_binding(stop, thread) and thread_binding(start, stop, thread).
        if isinstance(stop, str):
            stop, thread = None, stop
        elif isinstance(step, str):
            step, thread = None, step
        if step is not None and not (isinstance(step, int) and step == 1):
            raise InputError(
                f"a loop counts in steps of one, found a step of {step}\n"
                f"  try:    a loop of fewer iterations, and {step} * i in its body"
            )
        if kind is ForKind.THREAD and thread is None:
            raise InputError('which thread axis?\n  try:    thread="threadIdx.x"')
        if thread is not None:
            _known_axis(thread)
        interval = _interval(start) if stop is None else span(start, stop)
        return descriptions.LoopSpec((interval,), kind, thread, annotations or {})

    make.__name__ = str(kind)
    make.__doc__ = f"`for i in T.{kind}(n)`, or `(start, stop)`."
    return make


def _known_axis(thread: Any) -> None:
    if not is_thread_axis(thread):
        raise InputError(f"no axis of threads is called {thread!r}\n  try:    {nearest(str(thread), THREAD_AXES)}")


serial, parallel, vectorized, unroll, thread_binding = map(_loop, ForKind)


def grid(*extents: Any) -> descriptions.LoopSpec:
    """`for i, j in T.grid(m, n)`: nested serial loops, one for each extent."""
    return descriptions.LoopSpec(tuple(map(_interval, extents)), ForKind.SERIAL)


def launch_thread(thread: str | descriptions.EnvThread, extent: Any) -> descriptions.LoopSpec:
    """`with T.launch_thread("threadIdx.x", 128) as tx`: another way in which TVM writes a thread loop.

    If it follows `tx = T.env_thread("threadIdx.x")`, which names the variable, you write `with T.launch_thread(tx,
    128)`.
    """
    axis = thread.axis if isinstance(thread, descriptions.EnvThread) else thread
    _known_axis(axis)
    return descriptions.LoopSpec((_interval(extent),), ForKind.THREAD, axis, name=getattr(thread, "name", ""))


def env_thread(thread_tag: str, dtype: str = "int32") -> descriptions.EnvThread:
    """`tx = T.env_thread("threadIdx.x")`: names the variable of a thread axis, which `T.launch_thread(tx, n)` binds."""
    _known_axis(thread_tag)
    if ex.DType(dtype) != "int32":
        raise InputError(f"T.env_thread: threads are counted in int32, found dtype={dtype}")
    return descriptions.EnvThread(thread_tag)


# ---- blocks --------------------------------------------------------------------------------------------------------


def block(name: str = "", no_realize: bool = False) -> descriptions.BlockSpec:
    """`with T.block("C")`: begins a block (`T.sblock` since v0.24)."""
    if not isinstance(name, str):
        raise InputError(
            "T.block takes a name; iterators with domains above the body were written before v0.8\n"
            '  try:    with T.block("name"): vi = T.axis.spatial(extent, i)'
        )
    if no_realize:
        raise InputError("a block without its iterators' values cannot stand in a function")
    return descriptions.BlockSpec(name)


def init() -> descriptions.InitSpec:
    """`with T.init()`: contains the statements that a reduction block runs first."""
    return descriptions.InitSpec()


class _AxisNamespace:
    """`T.axis`: declares the iterators of a block."""

    def spatial(self, domain: Any, value: Any = None) -> descriptions.AxisSpec:
        """Describe an iterator whose iterations are independent."""
        return descriptions.AxisSpec(ex.SPATIAL, _interval(domain), value)

    def reduce(self, domain: Any, value: Any = None) -> descriptions.AxisSpec:
        """Describe an iterator over which the block reduces."""
        return descriptions.AxisSpec(ex.REDUCE, _interval(domain), value)

    def opaque(self, domain: Any, value: Any = None) -> descriptions.AxisSpec:
        """Describe an iterator whose iterations run in order."""
        return descriptions.AxisSpec(ex.OPAQUE, _interval(domain), value)

    scan = opaque
    S, R, O = spatial, reduce, opaque

    def remap(self, kinds: str, values: Sequence[Any]) -> descriptions.AxisSpec | list[descriptions.AxisSpec]:
        """Describe iterators that each have the range of their loop: `vi, vk = T.axis.remap("SR", [i, k])`."""
        if len(kinds) != len(values) or not set(kinds) <= {ex.SPATIAL, ex.REDUCE, ex.OPAQUE}:
            raise InputError(f'remap("{kinds}", ...) needs one letter of S, R, O for each of {len(values)} loops')
        axes = [descriptions.AxisSpec(kind, None, value) for kind, value in zip(kinds, values, strict=False)]
        return axes[0] if len(axes) == 1 else axes

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(nearest(name, ["remap", "spatial", "reduce", "opaque"]))


axis = _AxisNamespace()


def where(condition: Any) -> descriptions.HeaderSpec:
    """`T.where(condition)`: makes the block run only if the condition holds."""
    return descriptions.HeaderSpec("where", ex.as_expr(condition))


def reads(*regions: Any) -> descriptions.HeaderSpec:
    """Describe the regions that the block declares as read."""
    return descriptions.HeaderSpec("reads", tuple(map(as_region, _flat(regions))))


def writes(*regions: Any) -> descriptions.HeaderSpec:
    """Describe the regions that the block declares as written."""
    return descriptions.HeaderSpec("writes", tuple(map(as_region, _flat(regions))))


def _flat(regions: Sequence[Any]) -> Sequence[Any]:
    return regions[0] if len(regions) == 1 and isinstance(regions[0], list | tuple) else regions


def block_attr(attrs: Mapping[str, Any]) -> descriptions.HeaderSpec:
    """Describe the annotations of the block."""
    return descriptions.HeaderSpec("block_attr", dict(attrs))


def func_attr(attrs: Mapping[str, Any]) -> descriptions.HeaderSpec:
    """Describe the attributes of the function. The prefix "tirx.", which TVM uses since v0.24, becomes "tir."."""
    return descriptions.HeaderSpec(
        "func_attr", {re.sub("^tirx[.]", "tir.", key): value for key, value in attrs.items()}
    )


# Spellings since v0.24.
sblock, sblock_alloc_buffer, sblock_attr = block, alloc_buffer, block_attr

# ---- expressions and other statements ------------------------------------------------------------------------------


def Cast(dtype: str, value: Any) -> ex.Expr:
    """`T.Cast("float32", x)`: a conversion that is kept even if the dtype is the same."""
    return ex.Cast(ex.DType(dtype), ex.as_expr(value))


def Select(condition: Any, true_value: Any, false_value: Any) -> ex.Expr:
    """`T.Select(c, a, b)`: a select that evaluates both sides."""
    return ex.Select(ex.as_expr(condition), *ex.match(true_value, false_value))


def Ramp(base: Any, stride: Any, lanes: int) -> ex.Expr:
    """`T.Ramp(base, stride, lanes)`: the vector base, base + stride, base + 2 * stride, ..."""
    return ex.Ramp(*ex.match(ex.as_expr(base), ex.as_expr(stride)), int(lanes))


def Broadcast(value: Any, lanes: int) -> ex.Expr:
    """`T.Broadcast(x, lanes)`: a vector with x in all lanes."""
    return ex.Broadcast(ex.as_expr(value), int(lanes))


def Shuffle(vectors: Sequence[Any], indices: Sequence[Any]) -> ex.Expr:
    """`T.Shuffle([x, y], [0, 1])`: a vector of the elements of `vectors` that `indices` selects."""
    return ex.Shuffle(tuple(map(ex.as_expr, vectors)), tuple(int(i) for i in indices))


class _LetMaker:
    """`T.let(x, value, body)` is an expression; `x: T.let[T.int32] = value` is a statement, as written in v0.27."""

    def __call__(self, variable: ex.Var, value: Any, body: Any = None) -> ex.Expr | descriptions.LetSpec:
        if body is None:  # `with T.let(x, value)`, the spelling of 2021
            return descriptions.LetSpec(ex.as_expr(value, variable.dtype), variable)
        return ex.Let(variable, ex.as_expr(value), ex.as_expr(body))

    def __getitem__(self, kind: descriptions.TypeName) -> descriptions.TypeName:
        return kind


let = _LetMaker()


def LetStmt(value: Any, var: Any = None) -> descriptions.LetSpec:
    """`with T.LetStmt(value) as x`, or `with T.LetStmt(value, var=x)` for a variable that already exists."""
    return descriptions.LetSpec(ex.as_expr(value), var)


def rational(numerator: int, denominator: int, dtype: str = "float32") -> ex.Expr:
    """Return a constant that stays exact until code generation."""
    return ex.const(Fraction(numerator, denominator), dtype)


def reinterpret(first: Any, second: Any = None, dtype: Any = None) -> ex.Expr:
    """`T.reinterpret("float32", x)`: the same bits read as another dtype."""
    if second is None:
        second = dtype
    dtype, value = (first, second) if isinstance(first, str) else (second, first)
    return op.reinterpret(dtype, value)


def tvm_storage_sync(scope: str, is_load: Any = False, blocks: int = -1) -> ex.Expr:
    """Return a barrier for the threads that share storage of scope `scope`.

    The other parameters exist in TVM; only the values that TVM prints are accepted.
    """
    if blocks != -1 or ex.as_expr(is_load).value:  # type: ignore[attr-defined]
        raise InputError("only barriers of one thread block are in the language")
    return ex.Call(ex.DType("int32"), "tvm_storage_sync", (ex.StringImm(scope),))


def tile(*places: Any) -> Tile:
    """`T.tile(A[i, k], A[i + 1, k], A[i, k + 1])`: an operand of an instruction; see `tir.nodes.Tile`."""
    strange = next((p for p in places if not isinstance(p, BufferLoad)), None)
    if strange is not None or not places:
        raise InputError("T.tile takes elements of a buffer\n  try:    T.tile(A[i, k], A[i + 1, k], A[i, k + 1])")
    return Tile(places)


def instruction(name: str, *operands: Any, together: int = 1) -> descriptions.InstructionSpec:
    """`with T.instruction("name", T.tile(...), ...)`: one instruction of a machine. The body says what it does."""
    return descriptions.InstructionSpec(
        name, tuple(o if isinstance(o, Tile) else ex.as_expr(o) for o in operands), int(together)
    )


def async_scope() -> descriptions.AsyncSpec:
    """`with T.async_scope()`: the copy inside is only started, not completed; see `tir.nodes.Async`."""
    return descriptions.AsyncSpec()


def ptx_cp_async(dtype: str, to: Any, to_offset: Any, source: Any, source_offset: Any, nbytes: int) -> Any:
    """TVM's asynchronous copy of 4, 8 or 16 bytes between flat buffers. The arguments are their data and offsets in
    elements.

    `T.ptx_cp_async("float16", S.data, tx * 8, A.data, tx * 8, 16)` becomes an `async_scope` around a vector store.
    """
    from ..async_copies import copy_of_bytes

    return copy_of_bytes(ex.DType(dtype), to, ex.as_expr(to_offset), source, ex.as_expr(source_offset), int(nbytes))


def ptx_commit_group() -> ex.Expr:
    """Return a call that groups all copies that the thread has started since its last group."""
    return ex.Call(ex.DType("int32"), "ptx_commit_group", ())


def ptx_wait_group(n: int) -> ex.Expr:
    """Return a call that waits until at most the n newest groups of the thread are still in progress."""
    return ex.Call(ex.DType("int32"), "ptx_wait_group", (ex.const(int(n)),))


def prefetch(element: Any) -> Prefetch:
    """`T.prefetch(A[i])`: a hint that the cache line of this element of a flat buffer will be read."""
    if not isinstance(element, BufferLoad) or len(element.indices) != 1:
        raise InputError("T.prefetch takes an element of a flat buffer\n  try:    T.prefetch(A[i])")
    return Prefetch(element.buffer, element.indices[0])


def evaluate(value: Any) -> Any:
    """`T.evaluate(x)`: evaluates an expression as a statement."""
    return value if isinstance(value, ex.Node) else ex.as_expr(value)


def meta_var(value: Any) -> descriptions.Meta:
    """Give a value a name in the text, without adding a statement to the program."""
    return descriptions.Meta(value)


def call_kernel(kernel: str, *args: Any, parallel: bool = False, grid: tuple[Any, ...] = ()) -> descriptions.CallSpec:
    """Describe a call of a kernel of the module, on a grid of blocks and threads if it has one. Only a host function
    may contain it.
    """
    return descriptions.CallSpec(kernel, args, parallel, grid)


def var(dtype: str = "int32", name: str = "") -> ex.Var:
    """Return a variable. If you use it in a shape, it is a symbolic dimension."""
    return ex.Var(name, ex.DType(dtype))


def target(config: Any, host: Any = None) -> Any:
    """Return a target that can be used as the value of an attribute."""
    from ...target import Target

    return Target(config) if host is None else Target(config, host)


# Type checkers see the functions below without types: their annotations are calls, and calls are not types.
if TYPE_CHECKING:
    from typing import no_type_check as prim_func

    __all__ = ["prim_func"]  # what is imported is not exported without this
else:

    def prim_func(
        func: Any = None, private: bool = False, lowered: bool = False, s_tir: bool = False, **options: Any
    ) -> Any:
        """Decorator: turn a Python function into a `PrimFunc`. See `tir.script.source`."""
        unknown = [name for name in options if name != "check_well_formed"]  # TVM's option, which has no effect here
        if unknown:
            raise InputError(f"prim_func has no option {unknown[0]}: {nearest(unknown[0], ['private', 'lowered'])}")
        from .source import prim_func as parse

        return parse(func, private=private, lowered=lowered, s_tir=s_tir)


def buffer_store(buffer: BufferNode, value: Any, indices: Any, predicate: Any = None) -> BufferStore:
    """`T.buffer_store(A, value, [i, j])`: the statement `A[i, j] = value` written as a call, as in TVM."""
    places = tuple(map(ex.as_expr, indices if isinstance(indices, list | tuple) else [indices]))
    return BufferStore(buffer, ex.as_expr(value, buffer.dtype), places, predicate)


def _with_dtype(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add TVM's parameter `dtype=` to a function. The new function raises `TypeMismatch` if the result has a different
    dtype.
    """
    if "dtype" in inspect.signature(function).parameters:
        return function

    def apply(*args: Any, dtype: Any = None, **more: Any) -> Any:
        value = function(*args, **more)
        said = dtype.dtype if isinstance(dtype, descriptions.TypeName) else dtype
        if said is not None and value.dtype != ex.DType(said):
            raise TypeMismatch(f"{function.__name__} of {value.dtype}: the text says dtype={said}")
        return value

    return functools.update_wrapper(apply, function)


# As TVM spells an operator between two constants: `T.Add(2, 3)`.
_OPERATORS = (
    ex.Add, ex.Sub, ex.Mul, ex.Div, ex.Mod, ex.FloorDiv, ex.FloorMod, ex.Min, ex.Max,
    ex.EQ, ex.NE, ex.LT, ex.LE, ex.GT, ex.GE, ex.And, ex.Or,
)  # fmt: skip
_NAMES: dict[str, Any] = {
    **{name: getattr(buffers, name) for name in buffers.__all__},
    **{name: maker(name) for name in FOREIGN},
    **{name: _with_dtype(getattr(op, name)) for name in op.__all__ if name != "reinterpret"},
    "ramp": Ramp, "prefetch": prefetch, "broadcast": Broadcast, "Let": let, "Not": ex.Not,
    **{kind.__name__: op.binary_of(kind) for kind in _OPERATORS},
    **{name: _with_dtype(f) for name, f in op.NAMED.items() if name not in ("Cast", "tvm_storage_sync")},
    "attr": attr, "comm_reducer": comm_reducer, "tvm_thread_allreduce": tvm_thread_allreduce,
    "buffer_decl": decl_buffer, "block_alloc_buffer": alloc_buffer, "Ptr": descriptions.HandleType(ex.DType("handle")),
    "Range": span, "Var": ex.Var, "SizeVar": ex.SizeVar, "IntImm": ex.IntImm, "FloatImm": ex.FloatImm,
    "StringImm": ex.StringImm,
    **{name: descriptions.TypeName(ex.DType(name)) for name in (
        "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "bfloat16",
        "float32", "float64",
    )},
    "handle": descriptions.HandleType(ex.DType("handle")),
}  # fmt: skip
_NAMES["boolean"] = _NAMES["bool"]


def __getattr__(name: str) -> Any:
    if name in _NAMES:
        return _NAMES[name]
    if name.startswith("vector_reduce_"):
        return lambda vector: op.call_intrin(vector.dtype.scalar, name, vector)
    if name in REFUSED:
        raise AttributeError(explained(name))
    try:
        return descriptions.TypeName(ex.DType(name))
    except ValueError:
        # Python itself asks for private names, and often.
        near = "" if name.startswith("_") else f": {nearest(name, names())}"
        raise AttributeError(f"T has no name {name}{near}") from None


def names() -> list[str]:
    """Return all names of the language."""
    own = [name for name, value in globals().items() if inspect.isfunction(value) and value.__module__ in _LANGUAGE]
    hidden = {"names", "as_region", "span", *(n for n in own if n[0] == "_")}
    return sorted({*own, "axis", "let", *_NAMES} - hidden)


_LANGUAGE = (__name__, op.__name__)


def __dir__() -> list[str]:
    return names()
