"""Random ONNX models in which amounts and axes are data, kernels have open extents, and what a loop carries grows.

Each family draws one model, as ONNX's text, and several runs at different sizes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from hypothesis import strategies as st

MOST = 24  # the bound of what nothing else bounds
Draw = Callable[[Any], Any]
Inputs = dict[str, np.ndarray]


@dataclass(frozen=True)
class Case:
    """A model as text, and inputs of several runs."""

    text: str
    runs: tuple[Inputs, ...]

    @property
    def model(self) -> onnx.ModelProto:
        return onnx.parser.parse_model('<ir_version: 9, opset_import: ["" : 20]>\n' + self.text)


class _Drawing:
    def __init__(self, draw: Any) -> None:
        self.rng = np.random.default_rng(draw(st.integers(0, 2**16)))
        self.draw = draw

    def one(self, *choices: Any) -> Any:
        return self.draw(st.sampled_from(choices))

    def number(self, least: int, most: int) -> int:
        value: int = self.draw(st.integers(least, most))
        return value

    def floats(self, *shape: int) -> np.ndarray:
        return self.rng.integers(-4, 5, shape).astype("float32")

    def axes(self, rank: int, count: int) -> np.ndarray:
        """Different axes, some counted from the end."""
        some = self.rng.permutation(rank)[:count]
        return ints(*(a - rank if self.rng.integers(2) else a for a in some.tolist()))

    def shape(self, rank: int, least: int = 1) -> tuple[int, ...]:
        return tuple(self.number(least, 5) for _ in range(rank))


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def _repeated(d: _Drawing) -> Case:
    """Rows, each as often as data say: as exporters write `repeat_interleave`, in three ways."""
    counts = {
        "input": "r = Identity(d)",
        "durations": "f = Cast<to=1>(d) h = Constant<value_float=0.4>() e = Mul(f, h) q = Round(e) "
        "lo = Constant<value_float=0.0>() hi = Constant<value_float=3.0>() c = Clip(q, lo, hi) r = Cast<to=7>(c)",
    }
    ends = "ends = CumSum(r, zero) last = Constant<value_int=-1>() total = Gather<axis=0>(ends, last)"
    ways = {
        "places": f"{ends} line = Range(zero, total, one) col = Unsqueeze(line, ax) past = GreaterOrEqual(col, ends) "
        "p = Cast<to=7>(past) at = ReduceSum<keepdims=0>(p, ax)",
        "mask": "most = ReduceMax<keepdims=0>(r) line = Range(zero, most, one) col = Unsqueeze(r, ax) "
        "in = Less(line, col) nz = NonZero(in) at = Gather<axis=0>(nz, zero)",
        "scatter": f"{ends} t = Unsqueeze(total, ax0) z = ConstantOfShape<value=int64[1]{{0}}>(t) "
        "m1 = Constant<value_ints=[-1]>() s = Slice(ends, ax0, m1) sh = Shape(s) "
        'o = ConstantOfShape<value=int64[1]{1}>(sh) marks = ScatterElements<axis=0, reduction="add">(z, s, o) '
        "at = CumSum(marks, zero)",
    }
    way = d.one(*ways)
    text = f"""repeated (float[n, 2] x, int64[n] d) => (float[m, 2] y) {{
        zero = Constant<value_int=0>() one = Constant<value_int=1>() ax = Constant<value_ints=[1]>()
        ax0 = Constant<value_ints=[0]>() {counts["input" if way == "scatter" else d.one(*counts)]} {ways[way]}
        y = Gather<axis=0>(x, at)
    }}"""
    least = 1 if way == "scatter" else 0
    runs = [{"x": d.floats(n, 2), "d": d.rng.integers(least, 4, n)} for n in (1, 3, 6)]
    return Case(text, tuple(runs))


def _padded(d: _Drawing) -> Case:
    mode = d.one("constant", "constant", "edge", "reflect", "wrap")
    runs = []
    for _ in range(3):
        shape = (*d.shape(2, least=4),)
        least = d.one(0, -1) if mode == "constant" else 0
        runs.append({"x": d.floats(*shape), "p": ints(*(d.number(least, 2) for _ in range(4)))})
    if d.one(True, False):
        axis = [d.axes(2, 1) for _ in runs]
        runs = [{"x": r["x"], "p": r["p"][:2], "a": a} for r, a in zip(runs, axis)]
        body = f'v = Constant<value_float=0.5>() y = Pad<mode="{mode}">(x, p, v, a)'
        return Case(f"padded (float[n, m] x, int64[2] p, int64[1] a) => (float[q, r] y) {{ {body} }}", tuple(runs))
    return Case(
        f'padded (float[n, m] x, int64[4] p) => (float[q, r] y) {{ y = Pad<mode="{mode}">(x, p) }}', tuple(runs)
    )


def _sliced(d: _Drawing) -> Case:
    """Any of starts, ends, axes and steps is data."""
    known = d.one((), ("e",), ("s", "e"), ("s",), ("t",), ("a",), ("a", "s"))
    values = [
        {
            "s": ints(*(d.number(-7, 7) for _ in range(2))),
            "e": ints(*(d.number(-7, 7) for _ in range(2))),
            "a": d.axes(2, 2),
            "t": ints(*(d.one(1, 2, -1, -3) for _ in range(2))),
        }
        for _ in range(3)
    ]
    constants = " ".join(f"{k} = Constant<value_ints={values[0][k].tolist()}>()" for k in known)
    given = [k for k in "seat" if k not in known]
    infos = "".join(f", int64[2] {k}" for k in given)
    text = f"sliced (float[n, m] x{infos}) => (float[q, r] y) {{ {constants} y = Slice(x, s, e, a, t) }}"
    return Case(text, tuple(dict(x=d.floats(*d.shape(2)), **{k: v[k] for k in given}) for v in values))


def _sized(d: _Drawing) -> Case:
    """A shape, or repeats, that an input holds."""
    op = d.one("Tile", "Expand", "ConstantOfShape", "CenterCropPad", "Reshape", "Resize", "scales")
    runs: list[Inputs] = []
    for _ in range(3):
        n, m = d.shape(2)
        x = d.floats(n, m)
        p: Any = ints(d.number(0, 3), d.number(1, 3))
        if op == "Expand":
            x = d.floats(d.one(1, n), d.one(1, m))
            p = ints(*(d.one(1, e) if e > 1 else d.number(1, 4) for e in x.shape))
        elif op == "Reshape":
            p = ints(*d.one((m, n), (-1, m), (0, -1), (n * m, 1)))
        elif op == "Resize":
            p = ints(d.number(1, 6), d.number(1, 6))
        elif op == "scales":
            p = np.array([d.one(0.5, 1.0, 2.0) if e > 1 else 1.0 for e in (n, m)], "float32")
        elif op == "CenterCropPad":
            p = ints(d.number(1, 6), d.number(1, 6))
        runs.append({"x": x, "p": p})
    kind = "float" if op == "scales" else "int64"
    node = {
        "ConstantOfShape": "z = ConstantOfShape(p) s = ReduceSum<keepdims=0>(x) y = Add(z, s)",
        "Resize": f'y = Resize<mode="{d.one("linear", "cubic", "nearest")}">(x, , , p)',
        "scales": 'y = Resize<mode="linear">(x, , p)',
    }.get(op, f"y = {op}(x, p)")
    return Case(f"sized (float[n, m] x, {kind}[2] p) => (float[q, r] y) {{ {node} }}", tuple(runs))


REDUCTIONS = ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare")


def _reduced(d: _Drawing) -> Case:
    """Axes that data decide; their number, if that decides the rank, is known."""
    rank, keep = d.number(1, 3), d.one(0, 1)
    count = d.number(1, rank)
    op, openly = d.one(*REDUCTIONS), bool(keep) and d.one(True, False)
    idle = d.one(0, 1) if openly else 0
    dims = ", ".join("nmk"[:rank])
    result = dims if keep else ", ".join("pqr"[: rank - count])
    text = f"""reduced (float[{dims}] x, int64[{"c" if openly else count}] a) => (float[{result}] y) {{
        z = Abs(x) one = Constant<value_float=1.0>() v = Add(z, one)
        y = Reduce{op}<keepdims={keep}, noop_with_empty_axes={idle}>(v, a) }}"""
    runs = []
    for _ in range(3):
        some = 1 if openly and d.one(True, False) else count
        runs.append({"x": d.floats(*d.shape(rank)), "a": d.axes(rank, some)})
    return Case(text, tuple(runs))


def _moved(d: _Drawing) -> Case:
    """Other operators with an axis, a position or a step given by a tensor."""
    kind = d.one("CumSum", "Squeeze", "Unsqueeze", "Trilu", "Range", "DFT", "roi")
    runs: list[Inputs] = []
    for _ in range(3):
        x = d.floats(*d.shape(2))
        if kind == "CumSum":
            runs.append({"x": x, "a": np.array(d.number(-2, 1))})
        elif kind == "Squeeze":
            at = d.number(0, 2)
            runs.append({"x": np.expand_dims(x, at), "a": ints(d.one(at, at - 3))})
        elif kind == "Unsqueeze":
            runs.append({"x": x, "a": d.axes(4, 2)})
        elif kind == "Trilu":
            runs.append({"x": x, "a": np.array(d.number(-6, 6))})
        elif kind == "Range":
            runs.append(
                {"a": np.array(d.number(-3, 3)), "b": np.array(d.number(-3, 6)), "c": np.array(d.one(1, 2, -1))}
            )
        elif kind == "DFT":
            runs.append({"x": d.floats(*d.shape(2), 1), "a": np.array(d.number(0, 1))})
        else:
            corners = d.rng.uniform(-0.2, 1.2, 4).astype("float32")
            runs.append({"x": d.floats(*d.shape(2, least=2)), "a": corners, "s": ints(d.one(1, 6, 7), d.one(1, 6, 7))})
    text = {
        "CumSum": "m (float[n, m] x, int64 a) => (float[q, r] y) { y = CumSum(x, a) }",
        "Squeeze": "m (float[n, m, k] x, int64[1] a) => (float[q, r] y) { y = Squeeze(x, a) }",
        "Unsqueeze": "m (float[n, m] x, int64[2] a) => (float[q, r, s, t] y) { y = Unsqueeze(x, a) }",
        "Trilu": f"m (float[n, m] x, int64 a) => (float[q, r] y) {{ y = Trilu<upper={d.one(0, 1)}>(x, a) }}",
        "Range": "m (int64 a, int64 b, int64 c) => (int64[n] y) { y = Range(a, b, c) }",
        "DFT": f"m (float[n, m, 1] x, int64 a) => (float[q, r, 2] y) {{ y = DFT<onesided={d.one(0, 1)}>(x, , a) }}",
        "roi": "m (float[n, m] x, float[4] a, int64[2] s) => (float[q, r] y) { y = Resize<"
        f'mode="{d.one("linear", "cubic")}", coordinate_transformation_mode="tf_crop_and_resize", '
        f"extrapolation_value={d.one('0.0', '3.0')}>(x, a, , s) }}",
    }
    return Case(text[kind], tuple(runs))


def _convolved(d: _Drawing) -> Case:
    """A kernel of open size."""
    rank, transposed = d.number(1, 2), d.one(True, False)
    spatial, kernel = "hw"[:rank], "kl"[:rank]
    stride, pad = d.number(1, 2), d.number(0, 1)
    attrs = f"strides={[stride] * rank}, pads={[pad] * (2 * rank)}"
    op, weight = ("ConvTranspose", "2, 3") if transposed else ("Conv", "3, 2")
    if not transposed and d.one(True, False):
        attrs = f'strides={[stride] * rank}, auto_pad="SAME_{d.one("UPPER", "LOWER")}"'
    dims = [", ".join(names) for names in (spatial, kernel, "uv"[:rank])]
    text = f"""c (float[1, 2, {dims[0]}] x, float[{weight}, {dims[1]}] f) => (float[1, 3, {dims[2]}] y) {{
        y = {op}<{attrs}>(x, f) }}"""
    lead = (2, 3) if transposed else (3, 2)
    runs = [
        {
            "x": d.floats(1, 2, *(d.number(5, 7) for _ in spatial)),
            "f": d.floats(*lead, *(d.number(3, 5) for _ in kernel)),
        }
        for _ in range(3)
    ]
    return Case(text, tuple(runs))


GROWING = {
    "a row behind": "row = ReduceMax<keepdims=1>(s, ax) t = Concat<axis=0>(s, row)",
    "a row in front": "row = ReduceMax<keepdims=1>(s, ax) t = Concat<axis=0>(row, s)",
    "all of x": "t = Concat<axis=0>(s, x)",
    "some of x": "zero = Constant<value_float=0.0>() line = ReduceSum<keepdims=0>(x, bx) in = Greater(line, zero) "
    "some = Compress<axis=0>(x, in) t = Concat<axis=0>(s, some)",
    "some of its own": "low = Constant<value_float=-1.0>() line = ReduceSum<keepdims=0>(s, bx) in = Greater(line, low) "
    "t = Compress<axis=0>(s, in)",
    "without the first": "one = Constant<value_ints=[1]>() end = Constant<value_ints=[99]>() t = Slice(s, one, end)",
    "at most four": "both = Concat<axis=0>(s, x) z = Constant<value_ints=[0]>() four = Constant<value_ints=[4]>() "
    "t = Slice(both, z, four)",
}


def _grown(d: _Drawing) -> Case:
    """A loop, or a scan, whose carried value has another number of rows in each iteration."""
    kind, limit = d.one(*GROWING), d.one("data", "input", "condition", "scan")
    step = GROWING[kind]
    if limit == "scan":
        row = "u = Unsqueeze(r, ax) t = Concat<axis=0>(s, u)"
        text = f"""g (float[n, 2] x, float[k, 2] q) => (float[m, 2] y) {{ ax = Constant<value_ints=[0]>()
            c = Constant<value=bool{{1}}>() l = Shape<start=0, end=1>(q) e = Squeeze(l)
            y = Loop(e, c, x)<body = b (int64 i, bool go, float[a, 2] s) => (bool g2, float[a2, 2] t) {{
            g2 = Identity(go) r = Gather<axis=0>(q, i) {row} }}> }}"""
        return Case(text, tuple({"x": d.floats(n, 2), "q": d.floats(k, 2)} for n, k in ((1, 3), (3, 1), (2, 18))))
    again = "g2 = Identity(go)"
    if limit == "condition":
        again = "three = Constant<value_int=3>() g2 = Less(i, three)"
    trip = "e = Identity(k)" if limit != "data" else "h = Constant<value_int=4>() e = Min(k, h)"
    text = f"""g (float[n, 2] x, int64 k) => (float[m, 2] y, float[2] w) {{ {trip} c = Constant<value=bool{{1}}>()
        v = Constant<value_floats=[0.0, 0.0]>()
        y, w = Loop(e, c, x, v)<body = b (int64 i, bool go, float[a, 2] s, float[2] v0) => (bool g2, float[a2, 2] t,
        float[2] v1) {{ {again} ax = Constant<value_ints=[0]>() bx = Constant<value_ints=[1]>() {step}
        total = ReduceSum<keepdims=0>(t, ax) v1 = Max(v0, total) }}> }}"""
    return Case(text, tuple({"x": d.floats(n, 2), "k": np.array(k)} for n, k in ((1, 0), (1, 1), (3, 2), (2, 5))))


FAMILIES: dict[str, Callable[[_Drawing], Case]] = {
    "repeated": _repeated, "padded": _padded, "sliced": _sliced, "sized": _sized, "reduced": _reduced,
    "moved": _moved, "convolved": _convolved, "grown": _grown,
}  # fmt: skip


@st.composite
def cases(draw: Any, family: str) -> Case:
    """A model of a family."""
    return FAMILIES[family](_Drawing(draw))
