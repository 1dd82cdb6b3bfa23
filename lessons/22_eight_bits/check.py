"""Holds the learner's layer against the definition, in whole numbers, on small random layers and long sums."""

from __future__ import annotations

import warnings
from types import ModuleType
from typing import Any

import numpy as np
from hypothesis import strategies as st

from lessons.grading import attempt, cases, require


def check(module: ModuleType) -> None:
    """Raises AssertionError with a small layer whose bytes are wrong."""
    weights = st.sampled_from([0.0, 0.5, -0.25, 1.0, -2.0, 0.03125, 0.1])
    bytes_ = st.one_of(st.integers(0, 255), st.just(255))
    rows = st.lists(st.lists(weights, min_size=3, max_size=3), min_size=1, max_size=3)

    @cases(150, W=rows, copies=st.sampled_from([1, 1, 100]), qx=st.lists(bytes_, min_size=3, max_size=3), zx=bytes_,
           zy=bytes_, b=st.lists(weights, min_size=3, max_size=3), sx=st.sampled_from([0.5, 0.125, 0.1]),
           sy=st.sampled_from([1.0, 0.25, 0.1, 8.0]))  # fmt: skip
    def layers(
        W: list[list[float]], copies: int, qx: list[int], zx: int, zy: int, b: list[float], sx: float, sy: float
    ) -> None:
        w, bias = np.array(W).repeat(copies, axis=1), np.array(b[: len(W)])
        shown = str(W) if copies == 1 else f"np.repeat({W}, {copies}, axis=1)"
        case = f"prepare({shown}, {bias.tolist()}, sx={sx}, zx={zx})"
        answer = quietly(case, module.prepare, w, bias, sx, zx)
        require(isinstance(answer, tuple) and len(answer) == 3, f"{case} returned {answer!r}, wanted (qw, sw, qb)")
        qw, sw, qb = answer
        for name, array, dtype, shape in (
            ("qw", qw, "int8", w.shape), ("sw", sw, "float64", (len(w),)), ("qb", qb, "int32", (len(w),)),
        ):  # fmt: skip
            kind = f"{array.dtype} of shape {array.shape}" if isinstance(array, np.ndarray) else repr(array)
            require(kind == f"{dtype} of shape {shape}", f"{case}: {name} is {kind}, wanted {dtype} of shape {shape}")
        for row in range(len(w)):
            one_row(f"{case}, row {row}", w[row], bias[row], sx, zx, qw[row], sw[row], qb[row])
        x = np.array(qx, "uint8").repeat(copies)
        shown = str(qx) if copies == 1 else f"np.repeat({qx}, {copies})"
        runs(module, f"layer({shown}, *{case}, sy={sy}, zy={zy})", x, qw, qb, sw, sx, sy, zy)

    def sums(byte: int, weight: int, n: int, bias: int, factors: tuple[float, float, float], zy: int) -> None:
        """A layer of one row: its sum is `bias` plus one product, and the bias takes the other products back."""
        (sw, sx, sy), qb = factors, bias - (n - 1) * byte * weight
        shown = f"[{byte}], [[{weight}]]" if n == 1 else f"[{byte}] * {n}, [[{weight}] * {n}]"
        call = f"layer({shown}, qb=[{qb}], sw=[{sw}], sx={sx}, sy={sy}, zy={zy})"
        x, w = np.full(n, byte, "uint8"), np.full((1, n), weight, "int8")
        runs(module, call, x, w, np.array([qb], "int32"), np.array([sw]), sx, sy, zy)

    # One multiplication gives a little less than 24.5 here, and two give 24.5.
    sums(1, 1, 1, 244, (0.1, 0.7, 0.7), 0)
    biases = st.one_of(st.integers(0, 9), st.integers(-32390, -32380), st.sampled_from([100_000, 16_840_201]))
    scales = st.sampled_from([1.0, 0.5, 1e-5]).map(lambda scale: (scale, 1.0, 1.0))
    cases(100, byte=st.sampled_from([0, 1, 255]), weight=st.sampled_from([1, 127, -127]), n=st.sampled_from([1, 520]),
          bias=biases, factors=scales, zy=st.integers(0, 3))(sums)  # fmt: skip


def quietly(call: str, function: Any, *args: Any) -> Any:
    """A call in which a warning of NumPy is an error."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return attempt(call, function, *args)


def runs(
    module: ModuleType, call: str, qx: np.ndarray, qw: np.ndarray, qb: np.ndarray, sw: np.ndarray, sx: float, sy: float,
    zy: int,
) -> None:  # fmt: skip
    """Raises AssertionError if `layer` gives other bytes than the definition."""
    qy = quietly(call, module.layer, qx, qw, qb, sw, sx, sy, zy)
    good = isinstance(qy, np.ndarray) and (qy.dtype, qy.shape) == ("uint8", qb.shape)
    require(good, f"{call} returned {qy!r}, wanted an array of uint8, of shape {qb.shape}")
    for row in range(len(qb)):
        total = sum(int(a) * int(c) for a, c in zip(qx, qw[row], strict=True)) + int(qb[row])
        factor = sx * sw[row] / sy
        wanted = min(max(round(total * factor) + zy, 0), 255)
        message = f"{call}: row {row} is {qy[row]}, wanted {wanted}: the sum is {total}, times {factor:.17g}"
        require(int(qy[row]) == wanted, f"{message}, rounded, plus {zy}")


def one_row(case: str, w: np.ndarray, bias: float, sx: float, zx: int, qw: np.ndarray, sw: float, qb: int) -> None:
    """A row of weights, its scale and its bias."""
    largest = abs(w).max()
    scale = largest / 127 if largest else 1.0
    require(bool(np.isclose(sw, scale, rtol=1e-12)), f"{case}: the scale is {sw:g}, wanted {scale:g}")
    wanted = [round(value / scale) for value in w]
    require(qw.tolist() == wanted, f"{case}: the weights are {qw.tolist()}, wanted {wanted}")
    folded = round(bias / (sx * scale)) - zx * sum(wanted)
    require(int(qb) == folded, f"{case}: the bias is {qb}, wanted {folded}")
