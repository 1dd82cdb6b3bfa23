"""Small programs that differ only at few numbers which their inputs hold exactly, or where ends and bools meet.

`rounding` and `quotients` differ at ties and multiples behind scales that are no powers of two; `meeting` where each
of several arguments is at another end of its dtype. The pairs are told by name, like those of `fooled_pairs`.
"""

from __future__ import annotations

from collections.abc import Iterator

from minitvm.tir.nodes import PrimFunc

from .written import each, function

Pair = tuple[str, PrimFunc, PrimFunc]

SCALED = {
    "x * 37.5 - 1.25": "A[i] * T.float32(37.5) - T.float32(1.25)",  # below zero first at -1.5
    "x * 7.3": "A[i] * T.float32(7.3)",
    "x * 5.2 - 26": "A[i] * T.float32(5.2) - T.float32(26)",
    "x / 0.0235": "A[i] / T.float32(0.0235)",
    "int * 0.00392": 'T.Cast("float32", A[i]) * T.float32(0.00392)',
}
ROUNDED = [
    ("T.round({0})", "T.nearbyint({0})"),
    ("T.round({0})", "T.floor({0} + T.float32(0.5))"),
    ("T.ceil({0})", "T.floor({0}) + T.float32(1)"),
]


def rounding() -> Iterator[Pair]:
    for name, text in SCALED.items():
        dtype = "int32" if name.startswith("int") else "float32"
        for one, other in ROUNDED:
            for n in (1, 4):
                both = [each(e.format(text), dtype, "float32", n) for e in (one, other)]
                yield f"{one.format(name)} or {other.format(name)}, {n} elements", both[0], both[1]


def scaled(factor: int, offset: int, shift: int, n: int) -> PrimFunc:
    wide = f'T.Cast("int64", A[i]) * T.int64({factor}) + T.int64({offset})'
    return each(f'T.Cast("int32", T.shift_right({wide}, T.int64({shift})))', "int32", n=n)


def quotients() -> Iterator[Pair]:
    for n in (1, 4):
        yield f"half of 1024, {n} elements", scaled(77, 512, 10, n), scaled(77, 511, 10, n)
        for factor, shift in ((1518500250, 40), (1717986919, 34), (1395864371, 35)):
            half = 1 << (shift - 1)
            yield (
                f"{factor} >> {shift} or one more, {n} elements",
                scaled(factor, half, shift, n),
                scaled(factor + 1, half, shift, n),
            )


def combined(formula: str, dtype: str, out: str, n: int) -> PrimFunc:
    buffers = ", ".join(f'{name}: T.Buffer(({n},), "{dtype}")' for name in "ABCD")
    return function(f"for i in range({n}):\n    E[i] = {formula}", f'{buffers}, E: T.Buffer(({n},), "{out}")')


def meeting() -> Iterator[Pair]:
    a, b, c = (f'T.Cast("int32", {name}[i])' for name in "ABC")
    wide = 'T.Cast("int64", {0})'
    divisor = "(B[i] | 1)"
    cases = [
        ("255 clipped", "int8", "int32", f"{a} - {b}", f"T.min({a} - {b}, 254)"),
        ("the least product", "int8", "int32", f"{a} * {b}", f"T.max({a} * {b}, -16255)"),
        ("the greatest of three", "int8", "int32", f"{a} * {b} + {c}", f"T.min({a} * {b} + {c}, 16510)"),
        ("the least by -1", "int32", "int64", f"T.truncdiv({wide.format('A[i]')}, {wide.format(divisor)})",
         wide.format(f"T.truncdiv(A[i], {divisor})")),
        ("or, not equal", "bool", "bool", "A[i] != B[i]", "A[i] or B[i]"),
        ("all of four", "bool", "bool", "A[i] and B[i] and C[i] and D[i]", "D[i] and not D[i]"),
        ("a majority", "bool", "bool", "(A[i] and B[i]) or (B[i] and C[i]) or (A[i] and C[i])",
         "(A[i] and B[i]) or (B[i] and C[i])"),
    ]  # fmt: skip
    for name, dtype, out, one, other in cases:
        for n in (1, 4):
            yield f"{name}, {n} elements", combined(one, dtype, out, n), combined(other, dtype, out, n)


def powers() -> Iterator[Pair]:
    square, cube = "A[i] * A[i]", "A[i] * A[i] * A[i]"
    tried = [(square, 9, "float32"), (square, 2.25, "float32"), (cube, -27, "float32"), (square, 10201, "int32"),
             (f"{square} * T.float32(0.5) - T.float32(3)", 5, "float32"),
             (f"{square} + A[3 - i] * A[3 - i]", 25, "float32")]  # fmt: skip
    for formula, value, dtype in tried:
        chosen = "T.Select({0} {1} T.{3}({2}), A[i], T.{3}(7))"
        both = [each(chosen.format(formula, op, value, dtype), dtype, n=4) for op in (">", ">=")]
        yield f"{formula} over {value}", both[0], both[1]


DIFFERENT_FAMILIES = {
    "powers": powers, "crossings": rounding, "quotients": quotients, "ends and bools that meet": meeting,
}  # fmt: skip
