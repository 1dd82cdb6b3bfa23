"""What `T` stands for: every name of the language as a real Python object.

Most of these functions do nothing by themselves. They return a plain description (`T.block("C")` a `BlockSpec`, see
`descriptions`), which the parser turns into nodes where it stands; so decorators and annotations also work when Python
itself evaluates them.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

from ...errors import InputError, TypeMismatch, nearest
from ...expr import (
    OPAQUE,
    REDUCE,
    SPATIAL,
    DType,
    Expr,
    IntImm,
    Range,
    StringImm,
    Var,
    as_expr,
    const,
    match,
    nodes,
    structural_equal,
)  # fmt: skip
from .. import op
from ..conditions import is_const
from ..nodes import Buffer as BufferNode
from ..nodes import BufferLoad, BufferRegion, ForKind, Prefetch
from ..places import COMMON_SCOPES, SCOPES, THREAD_AXES, is_scope, is_thread_axis
from .descriptions import (
    AllocSpec,
    AxisSpec,
    BlockSpec,
    BufferSpec,
    CallSpec,
    DeclSpec,
    HeaderSpec,
    InitSpec,
    LetSpec,
    LoopSpec,
    MatchSpec,
    Meta,
    TypeName,
)  # fmt: skip

# ---- buffers -------------------------------------------------------------------------------------------------------


def _describe(
    shape: Any,
    dtype: Any = "float32",
    data: Any = None,
    strides: Any = None,
    elem_offset: Any = None,
    scope: str = "global",
    align: int = 0,
    offset_factor: int = 0,
    buffer_type: str = "",
    axis_separators: Sequence[int] | None = None,
    device: str = "cpu",
) -> BufferSpec:
    del offset_factor, buffer_type  # TVM's: hints that mean nothing here
    if not is_scope(scope):
        known = nearest(scope, SCOPES) if isinstance(scope, str) else f"one of {COMMON_SCOPES}"
        raise InputError(f"no scope of storage is called {scope!r}\n  try:    {known}")
    if data is not None:
        raise InputError("two buffers over one pointer\n  try:    T.match_buffer(A[...]) for a view of a region")
    fields: dict[str, Any] = {
        "dtype": DType(dtype.dtype if isinstance(dtype, TypeName) else dtype), "scope": scope, "device": device
    }  # fmt: skip
    if strides:
        fields["strides"] = tuple(as_expr(s) for s in strides)
    if elem_offset is not None:
        fields["elem_offset"] = as_expr(elem_offset)
    if align > 0:
        fields["align"] = align
    if axis_separators:
        fields["axis_separators"] = tuple(int(a) for a in axis_separators)
    dimensions = tuple(shape) if isinstance(shape, tuple | list) else (shape,)
    return BufferSpec(dimensions, fields)


class _BufferMaker:
    """`T.Buffer((m, n), "float32")`, and `T.Buffer[(m, n), "float32"]` of 2022."""

    def __call__(self, shape: Any, dtype: Any = "float32", *args: Any, **more: Any) -> BufferSpec:
        return _describe(shape, dtype, *args, **more)

    def __getitem__(self, key: Any) -> BufferSpec:
        if isinstance(key, tuple) and len(key) == 2 and isinstance(key[1], str):
            return _describe(key[0], key[1])
        return _describe(key)


Buffer = _BufferMaker()


def alloc_buffer(shape: Any, dtype: Any = "float32", *args: Any, **more: Any) -> AllocSpec:
    """A buffer that the block around it allocates (`sblock_alloc_buffer` since v0.24)."""
    return AllocSpec(_describe(shape, dtype, *args, **more))


def decl_buffer(shape: Any, dtype: Any = "float32", *args: Any, annotations: Any = None, **more: Any) -> DeclSpec:
    """Storage for the statements that follow, at kernel level."""
    return DeclSpec(_describe(shape, dtype, *args, **more), annotations or {})


def allocate(shape: Any, dtype: Any = "float32", scope: str = "global", annotations: Any = None) -> DeclSpec:
    """TVM's older spelling of `decl_buffer`."""
    return DeclSpec(_describe(shape, dtype, scope=scope), annotations or {})


def match_buffer(source: Any, shape: Any, dtype: Any = "float32", *args: Any, **more: Any) -> MatchSpec:
    """A parameter's buffer (`source` a handle), or a view of a region (`source` a region of a buffer)."""
    return MatchSpec(source, _describe(shape, dtype, *args, **more))


# ---- loops ---------------------------------------------------------------------------------------------------------


def span(start: Any, stop: Any) -> Range:
    """[start, stop); where stop is written `start + n` the extent is n itself."""
    first, last = match(as_expr(start), as_expr(stop))
    if is_const(first, 0):
        return Range(first, last)
    if isinstance(first, IntImm) and isinstance(last, IntImm):
        return Range(first, const(last.value - first.value, first.dtype))
    if type(last).__name__ == "Add" and structural_equal(last.a, first):  # type: ignore[attr-defined]
        return Range(first, last.b)  # type: ignore[attr-defined]
    return Range(first, last - first)


def _interval(item: Any) -> Range:
    if isinstance(item, Range):
        return item
    if isinstance(item, tuple | list):
        return span(*item)
    extent = as_expr(item)
    return Range(const(0, extent.dtype), extent)


def _loop(kind: ForKind) -> Callable[..., LoopSpec]:
    def make(start: Any, stop: Any = None, step: Any = None, *, annotations: Any = None,
             thread: str | None = None) -> LoopSpec:  # fmt: skip
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
        return LoopSpec((interval,), kind, thread, annotations or {})

    make.__name__ = str(kind)
    make.__doc__ = f"`for i in T.{kind}(n)`, or `(start, stop)`."
    return make


def _known_axis(thread: Any) -> None:
    if not is_thread_axis(thread):
        raise InputError(f"no axis of threads is called {thread!r}\n  try:    {nearest(str(thread), THREAD_AXES)}")


serial, parallel, vectorized, unroll, thread_binding = map(_loop, ForKind)


def grid(*extents: Any) -> LoopSpec:
    """`for i, j in T.grid(m, n)`: one serial loop inside the other."""
    return LoopSpec(tuple(map(_interval, extents)), ForKind.SERIAL)


def launch_thread(thread: str, extent: Any) -> LoopSpec:
    """`with T.launch_thread("threadIdx.x", 128) as tx`: TVM's other spelling of a thread loop."""
    _known_axis(thread)
    return LoopSpec((_interval(extent),), ForKind.THREAD, thread)


# ---- blocks --------------------------------------------------------------------------------------------------------


def block(name: str = "", no_realize: bool = False) -> BlockSpec:
    """`with T.block("C")` (`T.sblock` since v0.24)."""
    if no_realize:
        raise InputError("a block without its iterators' values cannot stand in a function")
    return BlockSpec(name)


def init() -> InitSpec:
    """`with T.init()`: what a reduction block does first."""
    return InitSpec()


class _Axis:
    """`T.axis`: the iterators of a block."""

    def spatial(self, domain: Any, value: Any = None) -> AxisSpec:
        """An iterator whose iterations are independent."""
        return AxisSpec(SPATIAL, _interval(domain), value)

    def reduce(self, domain: Any, value: Any = None) -> AxisSpec:
        """An iterator of a reduction."""
        return AxisSpec(REDUCE, _interval(domain), value)

    def opaque(self, domain: Any, value: Any = None) -> AxisSpec:
        """An iterator whose iterations run in order."""
        return AxisSpec(OPAQUE, _interval(domain), value)

    scan = opaque
    S, R, O = spatial, reduce, opaque

    def remap(self, kinds: str, values: Sequence[Any]) -> AxisSpec | list[AxisSpec]:
        """An iterator for each loop, over the loop's own range: `vi, vk = T.axis.remap("SR", [i, k])`."""
        if len(kinds) != len(values) or not set(kinds) <= {SPATIAL, REDUCE, OPAQUE}:
            raise InputError(f'remap("{kinds}", ...) needs one letter of S, R, O for each of {len(values)} loops')
        made = [AxisSpec(kind, None, value) for kind, value in zip(kinds, values)]
        return made[0] if len(made) == 1 else made

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(nearest(name, ["remap", "spatial", "reduce", "opaque"]))


axis = _Axis()


def where(condition: Any) -> HeaderSpec:
    """The block runs only where the condition holds."""
    return HeaderSpec("where", as_expr(condition))


def reads(*regions: Any) -> HeaderSpec:
    """What the block declares to read."""
    return HeaderSpec("reads", tuple(map(as_region, _flat(regions))))


def writes(*regions: Any) -> HeaderSpec:
    """What the block declares to write."""
    return HeaderSpec("writes", tuple(map(as_region, _flat(regions))))


def _flat(regions: Sequence[Any]) -> Sequence[Any]:
    return regions[0] if len(regions) == 1 and isinstance(regions[0], list | tuple) else regions


def as_region(item: Any) -> BufferRegion:
    """`A[i, 0:4]`, `A[i, j]` or `A` as a region."""
    if isinstance(item, BufferRegion):
        return item
    if isinstance(item, BufferLoad):
        return BufferRegion(item.buffer, tuple(Range(i, const(1, i.dtype)) for i in item.indices))
    if isinstance(item, BufferNode):
        return item.full_region()
    raise TypeMismatch(f"{item!r} is not a region of a buffer")


def block_attr(attrs: Mapping[str, Any]) -> HeaderSpec:
    """Annotations of the block."""
    return HeaderSpec("block_attr", dict(attrs))


def func_attr(attrs: Mapping[str, Any]) -> HeaderSpec:
    """Attributes of the function; what is "tirx." since v0.24 is "tir." here."""
    return HeaderSpec("func_attr", {re.sub("^tirx[.]", "tir.", key): value for key, value in attrs.items()})


# Spellings since v0.24.
sblock, sblock_alloc_buffer, sblock_attr = block, alloc_buffer, block_attr

# ---- expressions and other statements ------------------------------------------------------------------------------


def Cast(dtype: str, value: Any) -> Expr:
    """`T.Cast("float32", x)`: a conversion that stays, also to the same dtype."""
    return nodes.Cast(DType(dtype), as_expr(value))


def Select(condition: Any, true_value: Any, false_value: Any) -> Expr:
    """`T.Select(c, a, b)`: both sides are evaluated."""
    return nodes.Select(as_expr(condition), *match(true_value, false_value))


def Ramp(base: Any, stride: Any, lanes: int) -> Expr:
    """`T.Ramp(base, stride, lanes)`."""
    return nodes.Ramp(*match(as_expr(base), as_expr(stride)), int(lanes))


def Broadcast(value: Any, lanes: int) -> Expr:
    """`T.Broadcast(x, lanes)`."""
    return nodes.Broadcast(as_expr(value), int(lanes))


def Shuffle(vectors: Sequence[Any], indices: Sequence[Any]) -> Expr:
    """`T.Shuffle([x, y], [0, 1])`."""
    return nodes.Shuffle(tuple(map(as_expr, vectors)), tuple(int(i) for i in indices))


class _LetMaker:
    """`T.let(x, value, body)`, an expression; `x: T.let[T.int32] = value`, a statement in the spelling of v0.27."""

    def __call__(self, variable: Var, value: Any, body: Any) -> Expr:
        return nodes.Let(variable, as_expr(value), as_expr(body))

    def __getitem__(self, kind: TypeName) -> TypeName:
        return kind


let = _LetMaker()


def LetStmt(value: Any, var: Any = None) -> LetSpec:
    """`with T.LetStmt(value) as x`."""
    if var is not None:
        raise InputError("T.LetStmt takes its variable after `as`\n  try:    with T.LetStmt(value) as x:")
    return LetSpec(as_expr(value))


def rational(numerator: int, denominator: int, dtype: str = "float32") -> Expr:
    """A constant that stays exact until code generation."""
    return const(Fraction(numerator, denominator), dtype)


def reinterpret(first: Any, second: Any) -> Expr:
    """`T.reinterpret("float32", x)`: the same bits as another dtype."""
    dtype, value = (first, second) if isinstance(first, str) else (second, first)
    return op.reinterpret(dtype, value)


def tvm_storage_sync(scope: str, is_load: Any = False, blocks: int = -1) -> Expr:
    """A barrier of the threads that share `scope`. The others are TVM's, at the values that it prints."""
    if blocks != -1 or as_expr(is_load).value:  # type: ignore[attr-defined]
        raise InputError("only barriers of one thread block are in the language")
    return nodes.Call(DType("int32"), "tvm_storage_sync", (StringImm(scope),))


def prefetch(element: Any) -> Prefetch:
    """`T.prefetch(A[i])`: the cache line of an element of a flat buffer will be read."""
    if not isinstance(element, BufferLoad) or len(element.indices) != 1:
        raise InputError("T.prefetch takes an element of a flat buffer\n  try:    T.prefetch(A[i])")
    return Prefetch(element.buffer, element.indices[0])


def evaluate(value: Any) -> Expr:
    """`T.evaluate(x)`: an expression as a statement."""
    return as_expr(value)


def meta_var(value: Any) -> Meta:
    """A value that gets a name in the text, and no statement in the program."""
    return Meta(value)


def call_kernel(kernel: str, *args: Any, parallel: bool = False) -> CallSpec:
    """Run a kernel of the module; in the host function only."""
    return CallSpec(kernel, args, parallel)


def var(dtype: str = "int32", name: str = "") -> Var:
    """A variable; a symbolic dimension, where it stands in a shape."""
    return Var(name, DType(dtype))


def target(config: Any, host: Any = None) -> Any:
    """A target, as the value of an attribute."""
    from ...target import Target

    return Target(config) if host is None else Target(config, host)


def prim_func(func: Any = None, private: bool = False, lowered: bool = False, s_tir: bool = False,
              **options: Any) -> Any:  # fmt: skip
    """Decorator: the Python function as a `PrimFunc`. See `tir.script.source`."""
    unknown = [name for name in options if name != "check_well_formed"]  # TVM's, and means nothing here
    if unknown:
        raise InputError(f"prim_func has no option {unknown[0]}: {nearest(unknown[0], ['private', 'lowered'])}")
    from .source import prim_func as parse

    return parse(func, private=private, lowered=lowered, s_tir=s_tir)


# As TVM spells an operator between two constants: `T.Add(2, 3)`.
_OPERATORS = (
    nodes.Add, nodes.Sub, nodes.Mul, nodes.Div, nodes.Mod, nodes.FloorDiv, nodes.FloorMod, nodes.Min, nodes.Max,
    nodes.EQ, nodes.NE, nodes.LT, nodes.LE, nodes.GT, nodes.GE, nodes.And, nodes.Or,
)  # fmt: skip
_NAMES: dict[str, Any] = {
    **{name: getattr(op, name) for name in op.__all__ if name != "reinterpret"},
    "ramp": Ramp, "prefetch": prefetch, "broadcast": Broadcast, "Let": let, "Not": nodes.Not,
    **{kind.__name__: op.binary_of(kind) for kind in _OPERATORS},
    "env_thread": launch_thread,
    **{name: function for name, function in op.NAMED.items() if name not in ("Cast", "tvm_storage_sync")},
    **{name: TypeName(DType(name)) for name in (
        "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32",
        "float64", "handle",
    )},
}  # fmt: skip
_NAMES["boolean"] = _NAMES["bool"]


def __getattr__(name: str) -> Any:
    if name in _NAMES:
        return _NAMES[name]
    if name.startswith("vector_reduce_"):
        return lambda vector: op.call_intrin(vector.dtype.scalar, name, vector)
    try:
        return TypeName(DType(name))
    except ValueError:
        raise AttributeError(f"T has no name {name}: {nearest(name, names())}") from None


def names() -> list[str]:
    """Every name of the language."""
    own = [name for name, value in globals().items() if inspect.isfunction(value) and value.__module__ in _LANGUAGE]
    hidden = {"names", "as_region", "span", *(n for n in own if n[0] == "_")}
    return sorted({*own, "Buffer", "axis", "let", *_NAMES} - hidden)


_LANGUAGE = (__name__, op.__name__)


def __dir__() -> list[str]:
    return names()
