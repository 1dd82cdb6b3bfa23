"""Small programs that differ only where several conditions hold at once, or where two inputs meet.

`conjunctions` and `nested` hide a difference under conditions of which each alone is easy, `curves` behind squares,
`poles` where a divisor or an argument made of two inputs leaves what is defined, `bits` in the last places of floats,
`unwritten` where one number leaves an element out, `sizes` where two dimensions are large together. `equal` hold pairs
that look as if they did.
"""

from __future__ import annotations

from collections.abc import Iterator

from minitvm.tir.nodes import PrimFunc

from .written import each, function

Pair = tuple[str, PrimFunc, PrimFunc]
F = "T.float32"


def two(formula: str, dtype: str = "float32", out: str | None = None, n: int = 4) -> PrimFunc:
    buffers = f'A: T.Buffer(({n},), "{dtype}"), B: T.Buffer(({n},), "{dtype}"), C: T.Buffer(({n},), "{out or dtype}")'
    return function(f"for i in range({n}):\n    C[i] = {formula}", buffers)


def conjunctions() -> Iterator[Pair]:
    cases = [
        ("two numbers", "uint8", "A[i] == T.uint8(3) and B[i] == T.uint8(200)"),
        ("a range and an equal", "int32", "A[i] > 1000 and A[i] < 1003 and B[i] == A[i]"),
        ("a sum and a difference", "int32", "A[i] + B[i] == 700 and A[i] - B[i] > 690 and A[i] - B[i] < 693"),
        ("far numbers", "int32", "A[i] == 123456789 and B[i] == -987654321"),
        ("a box", "float32", f"A[i] > {F}(1000) and A[i] < {F}(1000.5) and B[i] > {F}(-3) and B[i] < {F}(-2.5)"),
        ("a product in a band", "float32", f"A[i] * B[i] > {F}(77) and A[i] * B[i] < {F}(77.25) and A[i] > {F}(20)"),
    ]
    for name, dtype, condition in cases:
        for n in (1, 4):
            yield (
                f"{name}, {n} elements",
                two(condition, dtype, "bool", n),
                two("A[i] != A[i] and B[i] < A[i]", dtype, "bool", n),
            )


def nested() -> Iterator[Pair]:
    inner = f"T.Select(B[i] > A[i] + {F}(1), T.Select(B[i] < A[i] + {F}(2), {{0}}, {F}(2)), {F}(3))"
    chosen = f"T.Select(A[i] > {F}(3), {inner}, {F}(4))"
    yield "three choices", two(chosen.format(f"{F}(1)")), two(chosen.format(f"{F}(2)"))
    tie = f"T.Select(A[i] < {F}(-2), {{0}}, T.round(A[i] * {F}(3)))"
    yield (
        "a tie below a bound",
        two(tie.format(f"T.round(A[i] * {F}(3))")),
        two(tie.format(f"T.floor(A[i] * {F}(3) + {F}(0.5))")),
    )
    both = "T.if_then_else(A[i] {0} 40, T.if_then_else(B[i] > A[i] * 3, A[i], B[i]), A[i] - 7)"
    yield "the bound of a choice", two(both.format("<"), "int32"), two(both.format("<="), "int32")


def curves() -> Iterator[Pair]:
    for formula, value, dtype in [
        ("A[i] * A[i] - {0}(5) * A[i]", -6, "float32"),
        ("A[i] * A[i] * A[i] - {0}(7) * A[i]", 90, "int32"),
        ("A[i] * B[i] - A[i]", 1806, "int32"),
    ]:
        text = formula.format("T." + dtype)
        chosen = "T.Select({0} {1} T.{3}({2}), A[i], T.{3}(7))"
        yield f"{text} over {value}", *(two(chosen.format(text, op, value, dtype), dtype) for op in (">", ">="))


def poles() -> Iterator[Pair]:
    yield "equal inputs", two("A[i] + B[i]"), two("(A[i] * A[i] - B[i] * B[i]) / (A[i] - B[i])")
    yield "a sum of logarithms", two("T.log(A[i] * B[i])"), two("T.log(A[i]) + T.log(B[i])")
    yield "the other way", two("T.log(A[i]) + T.log(B[i])"), two("T.log(A[i] * B[i])")
    yield "a product of exponentials", two("T.exp(A[i] + B[i])"), two("T.exp(A[i]) * T.exp(B[i])")
    yield "a product of roots", two("T.sqrt(A[i] * B[i])"), two("T.sqrt(A[i]) * T.sqrt(B[i])")
    yield "a length", two("T.hypot(A[i], B[i])"), two("T.sqrt(A[i] * A[i] + B[i] * B[i])")


def bits() -> Iterator[Pair]:
    masked = 'T.reinterpret("float32", T.bitwise_and(T.reinterpret("uint32", A[i]), T.uint32({0})))'
    yield "the upper half", each("A[i]", n=4), each(masked.format(0xFFFF0000), n=4)
    yield "all but one bit", each("T.abs(A[i])", n=4), each(masked.format(0x7FFFFFFE), n=4)


def unwritten() -> Iterator[Pair]:
    text = """
        S = T.alloc_buffer((4,), "float32")
        for i in range(4):
            {0}
        for i in range(4):
            B[i] = S[i]
        """
    buffers = 'A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")'
    for condition in (f"A[i] != {F}(17.25)", f"A[i] < {F}(900) or A[i] > {F}(901)"):
        store = f"if {condition}:\n                S[i] = A[i]"
        yield condition, function(text.format("S[i] = A[i]"), buffers), function(text.format(store), buffers)


def sizes() -> Iterator[Pair]:
    text = """
        n = T.int32()
        m = T.int32()
        A = T.match_buffer(a, (n, m))
        B = T.match_buffer(b, (n, m))
        for i, j in T.grid(n, m):
            B[i, j] = {0}
        """
    for condition in ("n > m and m > 8", "n * m > 1000", "n == m + 30 and m > 3"):
        other = f"T.if_then_else({condition}, {F}(0), A[i, j])"
        yield condition, *(function(text.format(value), "a: T.handle, b: T.handle") for value in ("A[i, j]", other))


def equal() -> Iterator[Pair]:
    yield "a reciprocal", two("A[i] / B[i]"), two(f"A[i] * ({F}(1) / B[i])")
    yield "a sum over a bound", two(f"A[i] + B[i] > {F}(5)", out="bool"), two(f"B[i] > {F}(5) - A[i]", out="bool")
    yield "a power", two(f"T.pow(A[i], {F}(-2))"), two(f"{F}(1) / (A[i] * A[i])")
    yield "a product of three", two("A[i] * (B[i] * A[i])"), two("A[i] * A[i] * B[i]")
    yield "a quotient of quotients", two("A[i] / (B[i] * B[i])"), two("A[i] / B[i] / B[i]")
    yield "a logarithm of a product", two(f"T.log(B[i] * {F}(0.1) * B[i])"), two(f"T.log({F}(0.1) * (B[i] * B[i]))")
    yield "a rounded sum", two(f"T.floor(A[i] * {F}(0.1) + B[i])"), two(f"T.floor(B[i] + A[i] / {F}(10))")
    yield (
        "a softplus",
        two(f"T.max(A[i], {F}(0)) + T.log1p(T.exp({F}(0) - T.abs(A[i])))"),
        two(f"T.log1p(T.exp({F}(0) - T.abs(A[i]))) + T.max({F}(0), A[i])"),
    )
    within = "A[i] > 5 and A[i] < B[i]"
    yield "within", two(within, "int32", "bool"), two("A[i] >= 6 and B[i] > A[i]", "int32", "bool")


DIFFERENT_FAMILIES = {
    "conjunctions": conjunctions, "nested choices": nested, "curves": curves, "poles of two": poles, "low bits": bits,
    "unwritten": unwritten, "sizes together": sizes,
}  # fmt: skip
