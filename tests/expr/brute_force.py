"""What oracle and compiler share, beside a second definition that is slow and plain.

The trusted base is `minitvm.expr`: dtypes, nodes, intrinsics, walking and rebuilding, equality up to renaming. A fault
in it is the same on both sides of every comparison, so nothing else would show it. Each function here draws something
and raises `AssertionError` where the two definitions differ.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from hypothesis import strategies as st

from minitvm import expr as x
from minitvm.errors import ExecutionError, TypeMismatch
from minitvm.expr.dtypes import SCALARS
from minitvm.expr.intrin import INTRINSICS
from minitvm.reference.meaning.scalar import evaluate
from minitvm.reference.strategies import exprs, prim_funcs
from minitvm.tir.nodes import Buffer, For, ForKind, LetStmt, PrimFunc

Draw = Callable[[Any], Any]

I, J, K = (x.Var(name) for name in "ijk")
F = x.Var("f", "float32")
_VALUES = st.fixed_dictionaries({v: st.integers(-40, 40) for v in (I, J, K)})


# ---- dtypes --------------------------------------------------------------------------------------------------------


def meeting(draw: Draw) -> None:
    """Operands meet in the later one of this row: bool, then integers by width, the unsigned one later, then floats.

    Neither of the two floats of 16 bits holds the other: they meet in float32.
    """
    row = ["bool", *(f"{sign}{bits}" for bits in (8, 16, 32, 64) for sign in ("int", "uint")),
           "float16", "bfloat16", "float32", "float64"]  # fmt: skip
    assert sorted(row) == sorted(SCALARS)
    first, second = draw(st.tuples(st.sampled_from(row), st.sampled_from(row)))
    wide, narrow = draw(st.sampled_from([(1, 1), (4, 1), (1, 8), (4, 4), (4, 8)]))
    a, b = x.DType(first).with_lanes(wide), x.DType(second).with_lanes(narrow)
    if wide != narrow and 1 not in (wide, narrow):
        with refused(TypeError):
            x.promote(a, b)
        return
    later = max((first, second), key=row.index)
    later = "float32" if {first, second} == {"float16", "bfloat16"} else later
    assert str(x.promote(a, b)) == (later if max(wide, narrow) == 1 else f"{later}x{max(wide, narrow)}"), (a, b)


def operands(draw: Draw) -> None:
    """A constructor takes operands of one dtype; Python's operators bring them there, numbers after the other one."""
    names = [name for name in SCALARS if name != "bool"]
    a = x.Var("a", draw(st.sampled_from(names)))
    other = draw(st.one_of(st.sampled_from(names), st.integers(0, 100), st.just(0.5)))
    b = x.Var("b", other) if isinstance(other, str) else other
    kind = draw(st.sampled_from([x.Add, x.Sub, x.Mul, x.Min, x.Max, x.LT, x.LE, x.EQ, x.NE]))
    turned = draw(st.booleans())
    try:
        built: Any = x.binary(kind, b, a) if turned else x.binary(kind, a, b)
    except TypeMismatch as error:
        raise AssertionError(f"{kind.__name__} of {a.dtype} and {other}: {error}") from error
    assert a in set(x.walk(built.b if turned else built.a)), "the operands have changed places"
    assert type(built) is kind and built.a.dtype == built.b.dtype
    if isinstance(b, x.Var):
        common = x.promote(a.dtype, b.dtype)
    else:
        common = x.DType("float32") if isinstance(b, float) and not a.dtype.is_float else a.dtype
    assert built.a.dtype == common, (a.dtype, other)
    assert built.dtype == ("bool" if kind in (x.LT, x.LE, x.EQ, x.NE) else common)
    if isinstance(b, x.Var) and a.dtype != b.dtype:
        with refused(TypeMismatch):
            kind(a, b)


_OF_FLOATS = {
    "exp", "exp2", "exp10", "log", "log2", "log10", "log1p", "sqrt", "rsqrt", "sin", "cos", "tan", "asin", "acos",
    "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "sigmoid", "erf", "floor", "ceil", "trunc", "round",
    "nearbyint", "pow", "atan2", "hypot", "copysign", "fmod", "fma", "isnan", "isinf", "isfinite",
}  # fmt: skip
_BITWISE = {"shift_left", "shift_right", "bitwise_and", "bitwise_or", "bitwise_xor"}
_OF_INTEGERS = {*_BITWISE, "bitwise_not", "popcount"}
_TWO, _THREE = {"pow", "atan2", "hypot", "copysign", "fmod", *_BITWISE}, {"fma"}
_TESTS = {"isnan", "isinf", "isfinite"}


def intrinsics(draw: Draw) -> None:
    """Which dtypes an intrinsic takes and gives."""
    assert set(INTRINSICS) > _OF_FLOATS | _OF_INTEGERS
    name = draw(st.sampled_from(sorted(_OF_FLOATS | _OF_INTEGERS | {"abs"})))
    count = 3 if name in _THREE else 2 if name in _TWO else 1
    dtypes = [x.DType(draw(st.sampled_from(SCALARS))) for _ in range(count)]
    args = [x.Var(f"a{k}", dtype) for k, dtype in enumerate(dtypes)]
    common = dtypes[0]
    for dtype in dtypes[1:]:
        common = x.promote(common, dtype)
    fits = common.is_float if name in _OF_FLOATS else not common.is_float if name in _OF_INTEGERS else True
    if not fits:
        with refused(TypeMismatch):
            x.call(name, *args)
        return
    made = x.call(name, *args)
    assert made.dtype == ("bool" if name in _TESTS else common), (name, dtypes)
    assert count == 1 or {a.dtype for a in made.args} == {common}  # type: ignore[attr-defined]
    with refused(TypeMismatch):
        x.call(name, *args, args[0])


# ---- walking and rebuilding ----------------------------------------------------------------------------------------


def _inside(node: x.Node) -> list[x.Node]:
    """The node and all below it, by the fields of its class; fields that define names hold no programs."""
    below = [node]
    for field in dataclasses.fields(node):  # type: ignore[arg-type]
        value = getattr(node, field.name)
        for item in value if isinstance(value, tuple) else (value,):
            if isinstance(item, x.Expr) and field.name not in node._defs:
                below += _inside(item)
    return below


def walking(draw: Draw) -> None:
    """`walk` comes by everything that the fields of expressions hold, each as often as it stands there."""
    tree = draw(exprs([I, J, F], "int32", 4, intrinsics=True))
    assert Counter(map(id, x.walk(tree))) == Counter(map(id, _inside(tree)))


def substituting(draw: Draw) -> None:
    """Values in place of variables, all at once, mean the variables with those values."""
    tree = draw(exprs([I, J, K], "int32", 4, divisions=False, intrinsics=True))
    hides = draw(st.booleans())
    inner = {v: draw(exprs([K] if hides else [I, J, K], "int32", 2, divisions=False)) for v in (I, J)}
    values = draw(_VALUES)
    if hides:  # a let that binds one of them again; what is put in place of them does not name it
        tree = x.Let(I, draw(exprs([I, J], "int32", 1, divisions=False)), tree)
    try:
        outer = {**values, **{v: int(evaluate(e, dict(values))) for v, e in inner.items()}}
        expected, replaced = evaluate(tree, outer), evaluate(x.substitute(tree, inner), dict(values))
    except ExecutionError:  # an index that its dtype does not hold
        return
    assert replaced == expected, (str(tree), inner)


def _used(node: Any, hidden: frozenset[x.Var]) -> list[x.Var]:
    """The variables that are used where they are not defined, as the language's rules of scope say."""
    if isinstance(node, x.Var):
        return [] if node in hidden else [node]
    if isinstance(node, x.Let | LetStmt):
        return _used(node.value, hidden) + _used(node.body, hidden | {node.var})
    if isinstance(node, For):
        return _used(node.start, hidden) + _used(node.extent, hidden) + _used(node.body, hidden | {node.var})
    return [v for child in x.children(node) for v in _used(child, hidden)]


def free_variables(draw: Draw) -> None:
    """Those that are free, in the order of their first use. (A name is defined once in a program.)"""
    func = draw(prim_funcs())
    loops = [n for n in x.walk(func.body) if isinstance(n, For)]
    for node in [*loops[:3], draw(exprs([I, J, K], "int32", 4, intrinsics=True))]:
        expected = [v for v in dict.fromkeys(_used(node, frozenset())) if v not in _block_variables(node)]
        assert x.free_vars(node) == expected, str(node)


def _block_variables(node: x.Node) -> set[x.Var]:
    return {it.var for n in x.walk(node) for it in getattr(n, "iter_vars", ())}


# ---- equality up to renaming ---------------------------------------------------------------------------------------


class _Spelling:
    """A tree as nested tuples in which definitions are numbered as they come; free names as they come, too."""

    def __init__(self) -> None:
        self.numbers: dict[Any, int] = {}

    def of(self, value: Any) -> Any:
        if isinstance(value, tuple | list):
            return tuple(map(self.of, value))
        if isinstance(value, Mapping):
            return tuple(sorted((str(key), repr(self.of(item))) for key, item in value.items()))
        if not isinstance(value, x.Node):
            return type(value).__name__, np.float64(value).tobytes() if isinstance(value, float) else str(value)
        if isinstance(value, x.Var | Buffer):
            if value not in self.numbers:
                shape = self.fields(value, {"name"}) if isinstance(value, Buffer) else ()
                self.numbers[value] = len(self.numbers)
                return "new", isinstance(value, x.SizeVar), str(value.dtype), shape
            return "old", self.numbers[value]
        return type(value).__name__, self.fields(value, set())

    def fields(self, node: x.Node, without: set[str]) -> Any:
        names = [f.name for f in dataclasses.fields(node) if f.compare and f.name not in without]  # type: ignore[arg-type]
        return tuple((name, self.of(getattr(node, name))) for name in sorted(names, key=lambda n: n not in node._defs))


def equality(draw: Draw) -> None:
    """Trees are equal up to renaming exactly where they are spelled alike."""
    func = draw(prim_funcs(symbolic=True))
    other = _changed(draw, func)
    alike = _Spelling().of(func) == _Spelling().of(other)
    assert x.structural_equal(func, other, map_free_vars=True) == alike, f"{func}\n{other}"
    assert x.structural_equal(other, func, map_free_vars=True) == alike
    assert (x.first_difference(func, other, map_free_vars=True) is None) == alike


def _changed(draw: Draw, func: PrimFunc) -> PrimFunc:
    """The function with one of its nodes changed, or two variables of one dtype exchanged in one place or in all."""
    places = [n for n in x.walk(func.body) if isinstance(n, x.Var | x.IntImm | x.FloatImm | For | x.BinaryOp)]
    chosen = draw(st.sampled_from(places))
    variables = [n for n in dict.fromkeys(places) if isinstance(n, x.Var) and n.dtype == getattr(chosen, "dtype", "")]
    other = draw(st.sampled_from(variables or [None]))
    everywhere = draw(st.booleans())

    def change(node: x.Node) -> x.Node | None:
        if isinstance(node, x.Var) and other is not None and isinstance(chosen, x.Var):
            return other if node is chosen else chosen if everywhere and node is other else None
        if node is not chosen:
            return None
        if isinstance(node, For):
            return x.replace(node, kind=draw(st.sampled_from([ForKind.SERIAL, ForKind.UNROLLED])))
        if isinstance(node, x.BinaryOp):
            return type(node)(node.b, node.a)
        if isinstance(node, x.IntImm | x.FloatImm):
            return x.replace(node, value=node.value - 1 if node.value > 0 else node.value + 1)
        return None

    return func.with_body(x.rewrite(func.body, change))


PROPERTIES: dict[str, Callable[[Draw], None]] = {
    f.__name__: f for f in (meeting, operands, intrinsics, walking, substituting, free_variables, equality)
}


class refused:
    """Like `pytest.raises`, for use without it."""

    def __init__(self, kind: type[Exception]) -> None:
        self.kind = kind

    def __enter__(self) -> None: ...

    def __exit__(self, kind: type[BaseException] | None, *rest: Any) -> bool:
        assert kind is not None, f"no {self.kind.__name__}"
        return issubclass(kind, self.kind)
