"""Holds the learner's layer against the definition, in whole numbers, on small random layers."""

from __future__ import annotations

import warnings
from types import ModuleType

import numpy as np
from hypothesis import strategies as st

from lessons.grading import attempt, cases, require


def check(module: ModuleType) -> None:
    """Raises AssertionError with a small layer whose bytes are wrong."""
    weights = st.sampled_from([0.0, 0.5, -0.25, 1.0, -2.0, 0.03125, 0.1])
    bytes_ = st.one_of(st.integers(0, 255), st.just(255))
    rows = st.lists(st.lists(weights, min_size=3, max_size=3), min_size=1, max_size=3)

    @cases(200, W=rows, qx=st.lists(bytes_, min_size=3, max_size=3), zx=bytes_, zy=bytes_,
           b=st.lists(weights, min_size=3, max_size=3), sx=st.sampled_from([0.5, 0.125, 0.1]),
           sy=st.sampled_from([1.0, 0.25, 0.1, 8.0]))  # fmt: skip
    def layers(W: list[list[float]], qx: list[int], zx: int, zy: int, b: list[float], sx: float, sy: float) -> None:
        w, bias = np.array(W), np.array(b[: len(W)])
        case = f"prepare({W}, {bias.tolist()}, sx={sx}, zx={zx})"
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            answer = attempt(case, module.prepare, w, bias, sx, zx)
            require(isinstance(answer, tuple) and len(answer) == 3, f"{case} returned {answer!r}, wanted (qw, sw, qb)")
            qw, sw, qb = answer
            for name, array, dtype, shape in (
                ("qw", qw, "int8", w.shape), ("sw", sw, "float64", (len(w),)), ("qb", qb, "int32", (len(w),)),
            ):  # fmt: skip
                good = isinstance(array, np.ndarray) and (array.dtype, array.shape) == (dtype, shape)
                require(good, f"{case}: {name} is {array!r}, wanted {dtype} of shape {shape}")
            for row in range(len(w)):
                one_row(f"{case}, row {row}", w[row], bias[row], sx, zx, qw[row], sw[row], qb[row])
            call = f"layer({qx}, *{case}, sy={sy}, zy={zy})"
            qy = attempt(call, module.layer, np.array(qx, "uint8"), qw, qb, sw, sx, sy, zy)
        require(isinstance(qy, np.ndarray) and qy.dtype == "uint8", f"{call} returned {qy!r}, wanted an array of uint8")
        for row in range(len(w)):
            total = sum(int(a) * int(c) for a, c in zip(qx, qw[row], strict=True)) + int(qb[row])
            wanted = min(max(round(total * (sx * sw[row] / sy)) + zy, 0), 255)
            require(
                int(qy[row]) == wanted,
                f"{call}: row {row} is {qy[row]}, wanted {wanted}: the sum is {total}, times {sx * sw[row] / sy:g}",
            )


def one_row(case: str, w: np.ndarray, bias: float, sx: float, zx: int, qw: np.ndarray, sw: float, qb: int) -> None:
    """A row of weights, its scale and its bias."""
    largest = abs(w).max()
    scale = largest / 127 if largest else 1.0
    require(bool(np.isclose(sw, scale, rtol=1e-12)), f"{case}: the scale is {sw:g}, wanted {scale:g}")
    wanted = [round(value / scale) for value in w]
    require(qw.tolist() == wanted, f"{case}: the weights are {qw.tolist()}, wanted {wanted}")
    folded = round(bias / (sx * scale)) - zx * sum(wanted)
    require(int(qb) == folded, f"{case}: the bias is {qb}, wanted {folded}")
