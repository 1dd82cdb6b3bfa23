"""Hypothesis strategy: random tensor expressions of several stages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

from minitvm import te
from minitvm.expr import Cast, DType, Expr, IntImm, Max, Min, SizeVar, binary, call, const
from minitvm.te.printer import script as te_script

from .blocks import extents
from .expressions import ARITHMETIC, Draw, combine, exprs


@dataclass(slots=True)
class _Stages:
    """The tensors so far."""

    dtype: str
    functions: Sequence[str]
    tensors: list[te.Tensor] = field(default_factory=list)

    def input(self, shape: Sequence[Any], dtype: str | None = None) -> te.Tensor:
        number = sum(isinstance(one.op, te.PlaceholderOp) for one in self.tensors)
        name = f"{'I' if dtype else 'A'}{number or ''}"
        self.tensors.append(te.placeholder(tuple(shape), dtype or self.dtype, name=name))
        return self.tensors[-1]

    def compute(self, shape: Sequence[Any], element: Callable[..., Any]) -> None:
        """Add a stage with one value or several."""
        number = len({one.op for one in self.tensors if isinstance(one.op, te.ComputeOp)})
        stage = te.compute(tuple(shape), element, name="BCDEFGHJKLMNOPQ"[number])
        self.tensors += [stage] if isinstance(stage, te.Tensor) else stage

    def constant(self, draw: Draw, low: int, high: int) -> Expr:
        return const(draw(st.integers(0 if self.dtype.startswith("u") else low, high)), self.dtype)


def _fixed(tensor: te.Tensor, axis: int, least: int = 1) -> int:
    """Return a constant dimension of at least that size, else 0."""
    dim = tensor.shape[axis]
    return dim.value if isinstance(dim, IntImm) and dim.value >= least else 0


def _formula(draw: Draw, s: _Stages, a: te.Tensor) -> None:
    """Add a random expression of one element or of two of equal shape, perhaps under a function."""
    alike = [t for t in s.tensors if t.dtype == a.dtype and list(map(str, t.shape)) == list(map(str, a.shape))]
    b = draw(st.sampled_from(alike))
    name = draw(st.sampled_from(["", *s.functions])) if DType(s.dtype).is_float else ""

    def element(*i: Expr) -> Expr:
        low = 0 if s.dtype.startswith("u") else -3
        value = draw(exprs([a[i], b[i]], s.dtype, 2, constants=(low, 3)))
        return call(name, value) if name else value

    s.compute(a.shape, element)


def _elementwise(draw: Draw, s: _Stages, a: te.Tensor) -> None:
    """Add a[i] op c."""
    kind, constant = draw(st.sampled_from(ARITHMETIC)), s.constant(draw, -3, 3)
    s.compute(a.shape, lambda *i: combine(kind, a[i], constant))


def _broadcast(draw: Draw, s: _Stages, a: te.Tensor) -> None:
    """Add a[.., j] op bias[j]."""
    kind, bias = draw(st.sampled_from(["+", "-", "max"])), s.input([a.shape[-1]])
    s.compute(a.shape, lambda *i: combine(kind, a[i], bias[i[-1]]))


def _transpose(draw: Draw, s: _Stages, a: te.Tensor) -> None:
    """Add a with its dimensions reversed."""
    s.compute(a.shape[::-1], lambda *i: a[i[::-1]])


def _reduce(draw: Draw, s: _Stages, a: te.Tensor) -> None:
    """Add the sum, minimum or maximum over one dimension, or over all of them."""
    over = draw(st.sampled_from([*range(a.ndim), None]))
    reducer = draw(st.sampled_from([te.sum, te.max, te.min]))
    reduced_axes = list(range(a.ndim)) if over is None else [over]
    axes = [te.reduce_axis((0, a.shape[k]), f"k{k}") for k in reduced_axes]
    rest = [d for k, d in enumerate(a.shape) if k not in reduced_axes]

    def element(*i: Expr) -> Expr:
        kept, reduced = iter(i), iter(axes)
        place = tuple(next(reduced) if k in reduced_axes else next(kept) for k in range(a.ndim))
        return reducer(a[place], axis=axes)

    s.compute(rest or [1], element)


def _matmul(draw: Draw, s: _Stages, a: te.Tensor) -> None:
    """Add the matrix product of a and a new input."""
    weight = s.input([a.shape[1], draw(extents)])
    k = te.reduce_axis((0, a.shape[1]), "k")
    s.compute([a.shape[0], weight.shape[1]], lambda i, j: te.sum(a[i, k] * weight[k, j], axis=k))


def _window(draw: Draw, s: _Stages, a: te.Tensor) -> None:
    """Add sums or maxima over windows of up to three elements along the first dimension, with a stride."""
    length = _fixed(a, 0)
    size = draw(st.integers(1, min(3, length)))
    stride = draw(st.integers(1, 2))
    k = te.reduce_axis((0, size), "k")
    reducer = draw(st.sampled_from([te.sum, te.max]))
    shape = [(length - size) // stride + 1, *a.shape[1:]]
    s.compute(shape, lambda i, *rest: reducer(a[(i * stride + k, *rest)], axis=k))


def _pad(draw: Draw, s: _Stages, a: te.Tensor) -> None:
    """Add a with a constant before and after its first dimension."""
    before, after, fill = draw(st.integers(0, 2)), draw(st.integers(0, 2)), s.constant(draw, -2, 2)
    length = _fixed(a, 0)

    def element(i: Expr, *rest: Expr) -> Expr:
        inside = te.all(i >= before, i < length + before)
        return te.if_then_else(inside, a[(i - before, *rest)], fill)

    s.compute([length + before + after, *a.shape[1:]], element)


def _flatten(draw: Draw, s: _Stages, a: te.Tensor) -> None:
    """Add a with its two dimensions merged into one."""
    rows, columns = _fixed(a, 0), _fixed(a, 1)
    s.compute([rows * columns], lambda i: a[i // columns, i % columns])


def _gather(draw: Draw, s: _Stages, a: te.Tensor) -> None:
    """Add the rows that an integer input selects."""
    length, index = _fixed(a, 0), s.input([draw(extents)], "int32")

    def element(i: Expr, *rest: Expr) -> Expr:
        return a[(binary(Max, binary(Min, index[i], length - 1), 0), *rest)]

    s.compute([index.shape[0], *a.shape[1:]], element)


def _concatenate(draw: Draw, s: _Stages, a: te.Tensor) -> None:
    """Add a followed by its reverse."""
    length = _fixed(a, 0)

    def element(i: Expr, *rest: Expr) -> Expr:
        return te.if_then_else(i < length, a[(i, *rest)], a[(2 * length - 1 - i, *rest)])

    s.compute([2 * length, *a.shape[1:]], element)


def _lookup(draw: Draw, s: _Stages, a: te.Tensor) -> None:
    """Add the rows at positions that another stage computes, in an integer dtype."""
    length, dtype = _fixed(a, 0), draw(st.sampled_from(["int32", "uint8", "int64", "int8"]))
    factor, shift, count = draw(st.integers(1, 3)), draw(st.integers(0, 3)), draw(extents)
    s.compute([count], lambda i: Cast(DType(dtype), (i * factor + shift) % length))
    index = s.tensors[-1]
    s.compute([count, *a.shape[1:]], lambda i, *rest: a[(index[i], *rest)])


def best_of(largest: bool, strict: bool) -> Any:
    """Return the reducer for the index and value of the largest (or smallest) element; for ties the first if
    `strict`.
    """

    def combine(x: Any, y: Any) -> tuple[Expr, Expr]:
        first, second = (x[1], y[1]) if largest else (y[1], x[1])
        keeps = first > second if strict else first >= second
        return te.select(keeps, x[0], y[0]), te.select(keeps, x[1], y[1])

    def identity(index: Any, value: Any) -> tuple[Expr, Expr]:
        return te.const(-1, index), te.min_value(value) if largest else te.max_value(value)

    return te.comm_reducer(combine, identity, name="best")


def _best(draw: Draw, s: _Stages, a: te.Tensor) -> None:
    """Add the largest or smallest element of each row and its index, where ties keep the first or the last."""
    largest, strict = draw(st.booleans()), draw(st.booleans())
    k = te.reduce_axis((0, a.shape[-1]), "k")
    reducer = best_of(largest, strict)
    rest = list(a.shape[:-1]) or [const(1)]
    s.compute(rest, lambda *i: reducer((k.var, a[(*i[: a.ndim - 1], k)]), axis=k))


def _filtered(draw: Draw, s: _Stages, a: te.Tensor) -> None:
    """Add a reduction of the points where a condition holds, starting from the identity or another value."""
    reducer, c = draw(st.sampled_from([te.sum, te.max, te.min])), s.constant(draw, -2, 2)
    k = te.reduce_axis((0, a.shape[-1]), "k")
    limit, by, start = draw(st.integers(0, 4)), draw(st.sampled_from(["place", "value", "both"])), draw(st.booleans())
    rest = list(a.shape[:-1]) or [const(1)]

    def element(*i: Expr) -> Expr:
        value = a[(*i[: a.ndim - 1], k)]
        conditions = {"place": [k.var < limit], "value": [value > c], "both": [k.var >= limit, value <= c]}[by]
        return reducer(value, axis=k, where=te.all(*conditions), init=c if start else None)

    s.compute(rest, element)


def _several(draw: Draw, s: _Stages, a: te.Tensor) -> None:
    """Add a stage with two values, which later stages may both read."""
    kind, c = draw(st.sampled_from(ARITHMETIC)), s.constant(draw, -3, 3)
    s.compute(a.shape, lambda *i: (combine(kind, a[i], c), a[i] + c))


_BUILD: dict[str, Callable[[Draw, _Stages, te.Tensor], None]] = {
    "elementwise": _elementwise, "formula": _formula, "broadcast": _broadcast, "transpose": _transpose,
    "reduce": _reduce, "matmul": _matmul, "window": _window, "pad": _pad, "flatten": _flatten, "gather": _gather,
    "concatenate": _concatenate, "lookup": _lookup, "best": _best, "filtered": _filtered, "several": _several,
}  # fmt: skip
STAGES = tuple(_BUILD)
_CONSTANT_FIRST = ("window", "pad", "gather", "concatenate", "lookup")


def _fits(kind: str, a: te.Tensor) -> bool:
    if kind == "matmul":
        return a.ndim == 2
    if kind == "flatten":
        return a.ndim == 2 and bool(_fixed(a, 0) and _fixed(a, 1))
    return kind not in _CONSTANT_FIRST or bool(_fixed(a, 0))


class Computation(list[te.Tensor]):
    """The tensors of a computation in calling order. It prints as a program that can be pasted and run."""

    def __repr__(self) -> str:
        lines = ["from minitvm import te", "", te_script(self), f"tensors = [{', '.join(t.name for t in self)}]"]
        return "\n".join(lines)

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(repr(self))


@st.composite
def te_computes(
    draw: Draw,
    max_stages: int = 4,
    min_stages: int = 1,
    dtypes: Sequence[str] = ("float32", "int32"),
    stages: Sequence[str] = STAGES,
    functions: Sequence[str] = (),
    symbolic: bool = False,
) -> Computation:
    """Draw the tensors of a random computation in calling order, inputs first, as an argument for
    `te.create_prim_func`.

    A failing example prints as the statements that build it.

    A stage is one of `stages` and reads an input or an earlier stage; stages that no other stage reads are outputs.
    `functions` are float functions that a "formula" may apply ("exp", "tanh", ...); then results round, and only the
    bound mode compares them. `symbolic` makes the first dimension of the first input a `SizeVar` n.
    """
    drawn = _Stages(draw(st.sampled_from(list(dtypes))), tuple(functions))
    shape: list[Any] = [draw(extents) for _ in range(draw(st.integers(1, 3)))]
    if symbolic:
        shape[0] = SizeVar("n")
    drawn.input(shape)
    # Draw the number first and then each stage as one draw: Hypothesis lowers the number and leaves out a stage.
    for _ in range(draw(st.integers(min_stages, max_stages))):
        draw(_stage(drawn, tuple(stages)))
    read = {one for t in drawn.tensors if isinstance(t.op, te.ComputeOp) for one in t.op.input_tensors}
    outputs = [t for t in drawn.tensors if isinstance(t.op, te.ComputeOp) and t not in read]
    return Computation([*(t for t in drawn.tensors if isinstance(t.op, te.PlaceholderOp)), *outputs])


@st.composite
def _stage(draw: Draw, drawn: _Stages, stages: Sequence[str]) -> None:
    readable = [t for t in drawn.tensors if t.dtype == drawn.dtype]
    legal = [kind for kind in stages if any(_fits(kind, t) for t in readable)] or ["elementwise"]
    kind = draw(st.sampled_from(legal))
    _BUILD[kind](draw, drawn, draw(st.sampled_from([t for t in readable if _fits(kind, t)])))
