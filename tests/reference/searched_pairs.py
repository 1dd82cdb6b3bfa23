"""Small programs that differ only at inputs which a search has to find, and others that look as if they did.

`size_constants` differ at sizes of any magnitude, `bytes_of_tables` at few of 256 values, `sums` where many terms meet
a number, `products` where several equations hold, `shifts` below zero, `loops` where a `while` runs long, `walks` where
small integers decide how far it runs, `moments` where digits cancel, `overflows` near the largest floats, `extremes` in
rows of the ends of a dtype, `classes` at NaN and infinities. The pairs are told by name, like those of `fooled_pairs`.
"""

from __future__ import annotations

from collections.abc import Iterator

from minitvm.tir.nodes import PrimFunc

from .steered_pairs import two
from .written import each, function

Pair = tuple[str, PrimFunc, PrimFunc]
F = "T.float32"


def buffer(name: str, shape: str, dtype: str = "float32") -> str:
    return f'{name}: T.Buffer(({shape}), "{dtype}")'


# --- sizes ---------------------------------------------------------------------------------------------------------


def sized(value: str) -> PrimFunc:
    text = f"""
        n = T.int32()
        A = T.match_buffer(a, (n,))
        B = T.match_buffer(b, (n,))
        for i in range(n):
            B[i] = {value}
        """
    return function(text, "a: T.handle, b: T.handle")


def matrix(condition: str) -> PrimFunc:
    text = f"""
        n = T.int32()
        m = T.int32()
        A = T.match_buffer(a, (n, m))
        B = T.match_buffer(b, (n, m))
        for i, j in T.grid(n, m):
            B[i, j] = T.if_then_else({condition}, {F}(0), A[i, j])
        """
    return function(text, "a: T.handle, b: T.handle")


def tiled(predicate: str, tile: int) -> PrimFunc:
    text = f"""
        n = T.int32()
        A = T.match_buffer(a, (n,))
        B = T.match_buffer(b, (n,))
        for o, k in T.grid((n + {tile - 1}) // {tile}, {tile}):
            if {predicate}:
                B[o * {tile} + k] = A[o * {tile} + k]
        """
    return function(text, "a: T.handle, b: T.handle")


def size_constants() -> Iterator[Pair]:
    conditions = (
        *("n > 1500", "n == 777", "n % 97 == 5", "n // 3 == 700", "n * 2 > 5001", "4000 < n", "n % 100003 == 77777"),
        *("(n & (n - 1)) == 0 and n > 16", "(n >> 5) == 3", "(n ^ 5) == 8", "n % 7 == 0 and n % 11 == 0 and n > 0"),
        *("i > 1200", "i == 1999", "i // 128 == 9", "i % 512 == 511", "i == n - 1 and n % 64 == 63"),
    )
    for condition in conditions:
        yield condition, sized("A[i]"), sized(f"T.if_then_else({condition}, {F}(0), A[i])")
    of_two = (
        "n > 100 and m > 100",
        "i * 7 == j * 3 and i > 0",
        "n == 2 * m and n > 20",
        "n % m == 0 and n > m and m > 3",
    )
    for condition in ("m > 1000", "n == 1777", "j % 509 == 508", "m - n > 700", "T.max(n, m) > 3333", *of_two):
        yield condition, matrix("n < 0"), matrix(condition)
    yield "a clip of an index", sized("A[T.min(i, 3000)]"), sized("T.if_then_else(i > 3000, A[2999], A[i])")
    yield "a tile", tiled("o * 2000 + k < n", 2000), tiled("o * 2000 + k < n - 1", 2000)


# --- values --------------------------------------------------------------------------------------------------------

RARE = {
    "a square": ("A[i] * A[i] % T.uint8(251) == T.uint8(100)", "uint8"),
    "bits": ("T.bitwise_xor(A[i] * T.uint8(167), T.uint8(91)) == T.uint8(13)", "uint8"),
    "a product": ("A[i] * A[i] * T.int8(3) == T.int8(-37)", "int8"),
    "a word": ("A[i] * T.int16(4099) == T.int16(777)", "int16"),
    "a half": ("A[i] == T.float16(3.1415)", "float16"),
}


def bytes_of_tables() -> Iterator[Pair]:
    for name, (condition, dtype) in RARE.items():
        for n in (1, 8):
            chosen = f"T.Select({condition}, T.{dtype}(0), A[i])"
            yield f"{name}, {n} elements", each("A[i]", dtype, n=n), each(chosen, dtype, n=n)
    yield (
        "a seventh",
        each("A[i] // T.uint8(7)", "uint8"),
        each('T.Cast("uint8", (T.Cast("int32", A[i]) * 37) >> 8)', "uint8"),
    )
    product = 'T.Cast("int32", A[i]) * T.Cast("int32", B[i])'
    yield "two bytes", two("A[i]", "uint8"), two(f"T.Select({product} == 12193, T.uint8(0), A[i])", "uint8")


def total(n: int, result: str, dtype: str = "int32", term: str = "A[i]") -> PrimFunc:
    text = f"""
        S = T.alloc_buffer((1,), "{dtype}")
        S[0] = T.{dtype}(0)
        for i in range({n}):
            S[0] = S[0] + {term}
        B[0] = {result}
        """
    return function(text, f"{buffer('A', f'{n},', dtype)}, {buffer('B', '1,', dtype)}")


def sums() -> Iterator[Pair]:
    for by in (64, 1024):
        half = by // 2
        up, away = f"(S[0] + {half}) // {by}", f"0 - ({half} - S[0]) // {by}"
        away = f"T.Select(S[0] < 0, {away}, {up})"
        yield f"a sum rounded by {by}", total(200, up), total(200, away)
        yield f"a sum of multiples rounded by {by}", total(40, up, term="A[i] * 3"), total(40, away, term="A[i] * 3")
    for dtype in ("int32", "float32"):
        for condition in ("S[0] == T.{0}(7777)", "S[0] > T.{0}(4000) and S[0] < T.{0}(4005)"):
            chosen = f"T.Select({condition.format(dtype)}, T.{dtype}(0), S[0])"
            yield f"{condition} of {dtype}", total(200, "S[0]", dtype), total(200, chosen, dtype)
    yield "over or at", total(300, "T.Select(S[0] > 5000, 1, 0)"), total(300, "T.Select(S[0] >= 5000, 1, 0)")
    yield (
        "a count",
        total(200, "S[0]", term="T.Select(A[i] > 3, 1, 0)"),
        total(200, "T.min(S[0], 199)", term="T.Select(A[i] > 3, 1, 0)"),
    )


def of_four(value: str, dtype: str) -> PrimFunc:
    buffers = ", ".join(buffer(name, "2,", dtype) for name in "ACDGB")
    return function(f"for i in range(2):\n    B[i] = {value}", buffers)


EQUATIONS = {
    "two products": "A[i] * C[i] > {0}(5000) and D[i] * G[i] < {0}(-7000)",
    "two bands": "A[i] * C[i] > {0}(1000) and A[i] * C[i] < {0}(1004) and D[i] * C[i] > {0}(77) and D[i] < {0}(9)",
    "a product and a sum": "A[i] + C[i] == {0}(55) and A[i] * C[i] == {0}(714)",
    "substituted": "A[i] * C[i] == D[i] and D[i] > {0}(1000) and A[i] - C[i] == {0}(3)",
    "three factors": "A[i] * C[i] * D[i] == {0}(1001) and A[i] < C[i] and C[i] < D[i] and A[i] > {0}(1)",
    "two products in a sum": "A[i] * C[i] + D[i] * G[i] == {0}(12345) and A[i] > {0}(10) and D[i] > A[i]",
    "squares": "A[i] * A[i] + C[i] * C[i] == {0}(625) and A[i] > C[i] and C[i] > {0}(0)",
}


def products() -> Iterator[Pair]:
    for dtype in ("float32", "int32"):
        for name, condition in EQUATIONS.items():
            chosen = f"T.Select({condition.format('T.' + dtype)}, T.{dtype}(1), A[i])"
            yield f"{name} of {dtype}", of_four("A[i]", dtype), of_four(chosen, dtype)


def shifts() -> Iterator[Pair]:
    for dtype in ("int8", "int32", "int64"):
        k = f"T.{dtype}"
        yield f"{dtype} by 4", each(f"A[i] >> {k}(4)", dtype), each(f"T.truncdiv(A[i], {k}(16))", dtype)
        yield (
            f"a sum of {dtype}",
            two(f"(A[i] + B[i]) >> {k}(3)", dtype),
            two(f"(A[i] >> {k}(3)) + (B[i] >> {k}(3))", dtype),
        )
    yield (
        "as unsigned",
        each("A[i] >> 4", "int32"),
        each('T.Cast("int32", T.Cast("uint32", A[i]) >> T.uint32(4))', "int32"),
    )


def loop(condition: str, step: str, result: str = "X[0]", dtype: str = "int32", start: str = "A[i]") -> PrimFunc:
    text = f"""
        X = T.alloc_buffer((1,), "{dtype}")
        K = T.alloc_buffer((1,), "int32")
        for i in range(4):
            X[0] = {start}
            K[0] = 0
            while {condition}:
                X[0] = {step}
                K[0] = K[0] + 1
            B[i] = {result}
        """
    return function(text, f"{buffer('A', '4,', dtype)}, {buffer('B', '4,', dtype if result == 'X[0]' else 'int32')}")


def euclid(more: str) -> PrimFunc:
    text = f"""
        X = T.alloc_buffer((2,), "int32")
        K = T.alloc_buffer((1,), "int32")
        for i in range(4):
            X[0] = T.abs(A[i])
            X[1] = T.abs(C[i])
            K[0] = 0
            while X[1] != 0{more}:
                rest: T.int32 = X[0] % X[1]
                X[0] = X[1]
                X[1] = rest
                K[0] = K[0] + 1
            B[i] = X[0]
        """
    return function(text, ", ".join(buffer(name, "4,", "int32") for name in "ACB"))


def loops() -> Iterator[Pair]:
    collatz = "T.Select(X[0] % 2 == 0, X[0] // 2, X[0] * 3 + 1)"
    cases = [("steps", "X[0] > 1", "X[0] - 1", 100, 99), ("halves", "X[0] > 1", "X[0] // 2", 20, 19),
             ("Collatz", "X[0] > 1", collatz, 60, 59)]  # fmt: skip
    for name, condition, step, most, fewer in cases:
        yield name, *(loop(f"K[0] < {bound} and {condition}", step, "K[0]") for bound in (most, fewer))
    floats = [loop(f"K[0] < {k} and X[0] > {F}(0.5)", f"X[0] * {F}(0.5)", dtype="float32") for k in (30, 29)]
    yield "halves of floats", floats[0], floats[1]
    yield "digits", loop("X[0] > 9", "X[0] // 10", "K[0]"), loop("X[0] > 9 and K[0] < 6", "X[0] // 10", "K[0]")
    yield "Euclid", euclid(""), euclid(" and K[0] < 6")


def walk(condition: str) -> PrimFunc:
    """How far a walk along a row of integers gets while a condition on its element `A[at]` holds."""
    text = f"""
        K = T.alloc_buffer((1,), "int32")
        K[0] = 0
        while K[0] < 8 and {condition.replace("at", "T.min(K[0], 7)")}:
            K[0] = K[0] + 1
        B[0] = K[0]
        """
    return function(text, f"{buffer('A', '9,', 'int32')}, {buffer('B', '1,', 'int32')}")


def counted(value: str) -> PrimFunc:
    """The sums of as many values as a row of integers says."""
    text = f"""
        for i in range(4):
            C[i] = {F}(0)
            for j in range(T.min(T.max(J[i], 0), 8)):
                C[i] = C[i] + {value}
        """
    return function(text, f"{buffer('A', '8,')}, {buffer('J', '4,', 'int32')}, {buffer('C', '4,')}")


def walks() -> Iterator[Pair]:
    """Programs that differ where small integers, which say how often a loop runs, lie in a pattern."""
    yield "ascending", walk("A[at] <= A[at + 1]"), walk("A[at] < A[at + 1]")
    yield "a run", walk("A[at] == A[0]"), walk("(A[at] == A[0] or K[0] == 3)")
    yield "a gap", walk("A[at] > 0"), walk("(A[at] > 0 or A[at + 1] > 0)")
    yield "all alike", counted("A[j]"), counted(f"T.if_then_else(J[0] == J[3], {F}(0), A[j])")
    yield "a constant", counted("A[j]"), counted(f"T.if_then_else(J[i] == 5 and j == 2, {F}(0), A[j])")


def moments(value: str, n: int) -> PrimFunc:
    text = f"""
        M = T.alloc_buffer((2,), "float32")
        Q = T.alloc_buffer((2,), "float32")
        V = T.alloc_buffer((2,), "float32")
        for i in range(2):
            M[i] = {F}(0)
            Q[i] = {F}(0)
            V[i] = {F}(0)
            for j in range({n}):
                M[i] = M[i] + A[i, j] / {F}({n})
                Q[i] = Q[i] + A[i, j] * A[i, j] / {F}({n})
            for j in range({n}):
                V[i] = V[i] + (A[i, j] - M[i]) * (A[i, j] - M[i]) / {F}({n})
            for j in range({n}):
                B[i, j] = {value}
        """
    return function(text, f"{buffer('A', f'2, {n}')}, {buffer('B', f'2, {n}')}")


def cancelling() -> Iterator[Pair]:
    short = "Q[i] - M[i] * M[i]"
    for n in (16, 7):
        yield f"a deviation of {n}", moments("T.sqrt(V[i])", n), moments(f"T.sqrt({short})", n)
    yield "a logarithm", moments(f"T.log(V[i] + {F}(1e-30))", 12), moments(f"T.log({short} + {F}(1e-30))", 12)


def overflows() -> Iterator[Pair]:
    for dtype in ("float32", "float64"):
        half = f"T.{dtype}(0.5)"
        yield (
            f"a mean of {dtype}",
            two(f"A[i] * {half} + B[i] * {half}", dtype),
            two(f"(A[i] + B[i]) * {half}", dtype),
        )
    yield "a sum and back", two("A[i]"), two("(A[i] + B[i]) - B[i]")
    yield "the greater", two("T.max(A[i], B[i])"), two(f"(A[i] + B[i] + T.abs(A[i] - B[i])) * {F}(0.5)")


def best(start: str, comparison: str, dtype: str, first: str, result: str = "K") -> PrimFunc:
    text = f"""
        V = T.alloc_buffer((2,), "{dtype}")
        K = T.alloc_buffer((2,), "int32")
        for i in range(2):
            V[i] = {start}
            K[i] = {first}
            for j in range(6):
                if A[i, j] {comparison} V[i]:
                    V[i] = A[i, j]
                    K[i] = j
            B[i] = {result}[i]
        """
    return function(text, f"{buffer('A', '2, 6', dtype)}, {buffer('B', '2,', 'int32' if result == 'K' else dtype)}")


def longest(stop: int, dtype: str) -> PrimFunc:
    text = f"B[0] = A[5]\nfor k in range({stop}):\n    B[0] = T.max(B[0], A[k])"
    return function(text, f"{buffer('A', '24,', dtype)}, {buffer('B', '1,', dtype)}")


def extremes() -> Iterator[Pair]:
    for dtype in ("int8", "int32", "int64", "float16", "float32"):
        low, high = f'T.min_value("{dtype}")', f'T.max_value("{dtype}")'
        yield f"no place of the greatest of {dtype}", best(low, ">", dtype, "0"), best(low, ">", dtype, "-1")
        yield f"no place of the least of {dtype}", best(high, "<", dtype, "0"), best(high, "<", dtype, "-1")
    for dtype in ("int16", "uint8"):
        low = f'T.min_value("{dtype}")'
        yield f"one above the least {dtype}", best(low, ">", dtype, "0"), best(f"{low} + T.{dtype}(1)", ">", dtype, "0")
    near = best(f'T.min_value("{"float32"}")', ">", "float32", "0", "V"), best(f"{F}(-3e38)", ">", "float32", "0", "V")
    yield "near the lowest", near[0], near[1]
    for dtype in ("float32", "int32"):
        yield f"all but the last {dtype}", longest(24, dtype), longest(23, dtype)


def classes() -> Iterator[Pair]:
    zero = f"{F}(0)"
    yield "NaN", each("A[i]"), each(f"T.if_then_else(T.isnan(A[i]), {zero}, A[i])")
    yield "unequal to itself", each(f"T.Select(A[i] != A[i], {zero}, A[i])"), each("A[i]")
    yield (
        "finite, or not NaN",
        each(f"T.Select(T.isfinite(A[i]), A[i], {zero})"),
        each(f"T.Select(T.isnan(A[i]), {zero}, A[i])"),
    )
    yield "infinite", each(f"T.if_then_else(T.isinf(A[i]), {zero}, A[i])"), each("A[i]")


def equal() -> Iterator[Pair]:
    yield (
        "over a size",
        sized(f"T.Select(n > 1000, A[i] * {F}(2), A[i])"),
        sized("T.Select(n >= 1001, A[i] + A[i], A[i])"),
    )
    yield "a tile of 48", sized("A[i]"), tiled("o * 48 + k < n", 48)
    yield "the rest of a byte", each("T.uint8(255) - A[i]", "uint8"), each("T.bitwise_xor(A[i], T.uint8(255))", "uint8")
    seventh = 'T.Cast("uint8", (T.Cast("int32", A[i]) * 9363) >> 16)'
    yield "a seventh of a byte", each("A[i] // T.uint8(7)", "uint8"), each(seventh, "uint8")
    yield (
        "a sum in a range",
        *(
            total(64, f"T.Select({condition}, 0, S[0])")
            for condition in ("S[0] > 4000 and S[0] < 4005", "S[0] >= 4001 and 4004 >= S[0]")
        ),
    )
    for dtype in ("float32", "int32"):
        for name in ("two products", "substituted"):
            parts = EQUATIONS[name].format("T." + dtype).split(" and ")
            both = [f"T.Select({' and '.join(some)}, T.{dtype}(1), A[i])" for some in (parts, parts[::-1])]
            yield f"{name} of {dtype}", of_four(both[0], dtype), of_four(both[1], dtype)
    yield "a floor", each("A[i] >> 4", "int32"), each("A[i] // 16", "int32")
    yield "a loop", loop("K[0] < 20 and X[0] > 1", "X[0] // 2"), loop("X[0] >= 2 and K[0] <= 19", "X[0] >> 1")
    normal = moments(f"(A[i, j] - M[i]) / T.sqrt(V[i] + {F}(1e-5))", 12)
    yield "a deviation", moments("T.sqrt(V[i])", 12), moments(f"T.sqrt(V[i] * {F}(4)) * {F}(0.5)", 12)
    yield "a normal row", normal, moments(f"A[i, j] * T.rsqrt(V[i] + {F}(1e-5)) - M[i] * T.rsqrt(V[i] + {F}(1e-5))", 12)
    yield "an order of sums", of_four("A[i] + C[i] + D[i]", "float32"), of_four("D[i] + (C[i] + A[i])", "float32")
    yield "distributed", of_four("A[i] * C[i] + A[i] * D[i]", "float32"), of_four("A[i] * (C[i] + D[i])", "float32")
    weight = f"T.exp(T.min(A[i], {F}(0)))"  # 0 at the lowest: then C + D must not be so large that it overflows
    yield (
        "distributed over what is compared",
        of_four(f"C[i] * {weight} + D[i] * {weight}", "float32"),
        of_four(f"(C[i] + D[i]) * {weight}", "float32"),
    )
    for dtype in ("int8", "float32"):
        low = f'T.min_value("{dtype}")'
        yield f"the first of {dtype}", best(low, ">", dtype, "0"), best("A[i, 0]", ">", dtype, "0")
    yield (
        "NaN twice",
        each(f"T.if_then_else(T.isnan(A[i]), {F}(0), A[i])"),
        each(f"T.Select(A[i] == A[i], A[i], {F}(0))"),
    )


DIFFERENT_FAMILIES = {
    "sizes": size_constants, "bytes": bytes_of_tables, "sums": sums, "equations": products, "shifts": shifts,
    "loops": loops, "walks": walks, "cancelling": cancelling, "overflows": overflows, "extremes": extremes,
    "classes": classes,
}  # fmt: skip
