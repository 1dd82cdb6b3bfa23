"""Small programs that differ in one place, and others that are equal although they look different, family by family.

Each family is a class of inputs that random numbers do not reach: halves, the ends of integers, clips behind a scale,
ties, overflow. `DIFFERENT` and `EQUAL` hold the pairs by name.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from minitvm.tir.nodes import PrimFunc

from .written import BY_MAXIMUM, BY_ZERO, each, function, softmax

Pair = tuple[str, PrimFunc, PrimFunc]
F32 = "T.float32"


def f32(value: float) -> str:
    return f"T.float32({value})"


# --- rounding -----------------------------------------------------------------------------------------------------

ROUNDINGS = {
    "round": "T.round({0})",
    "nearbyint": "T.nearbyint({0})",
    "floor half": "T.floor({0} + T.float32(0.5))",
    "ceil half": "T.ceil({0} - T.float32(0.5))",
    "trunc half": "T.trunc({0} + T.float32(0.5))",
    "floor": "T.floor({0})",
    "trunc": "T.trunc({0})",
    "ceil": "T.ceil({0})",
}
ARGUMENTS = {
    "plain": "A[i]",
    "scaled": "A[i] * T.float32(0.05)",
    "divided": "A[i] / T.float32(3)",
    "offset": "A[i] * T.float32(0.25) + T.float32(7)",
    "small": "A[i] * T.float32(0.0009765625)",
    "two": "A[i] * T.float32(0.5) + A[7 - i] * T.float32(0.25)",
}
EVERY_PAIR = [("round", "nearbyint"), ("round", "floor half"), ("nearbyint", "floor half"), ("floor half", "ceil half"),
              ("round", "trunc half"), ("floor", "trunc"), ("ceil", "trunc"), ("nearbyint", "ceil half")]  # fmt: skip


def rounding() -> Iterator[Pair]:
    for argument, text in ARGUMENTS.items():
        for one, other in EVERY_PAIR:
            yield (
                f"{one} or {other}, {argument}",
                each(ROUNDINGS[one].format(text)),
                each(ROUNDINGS[other].format(text)),
            )
    for one, other in EVERY_PAIR[:6]:
        formulas = [ROUNDINGS[n].format('T.Cast("float32", A[i]) * T.float32(0.05)') for n in (one, other)]
        clipped = [
            f'T.Cast("int8", T.max(T.min({e} + T.float32(3), T.float32(127)), T.float32(-128)))' for e in formulas
        ]
        yield f"requantise by {one} or {other}", each(clipped[0], "int32", "int8"), each(clipped[1], "int32", "int8")
    for one, other in EVERY_PAIR[:4]:
        both = [
            function(
                f"""
                S = T.alloc_buffer((4,), "float32")
                for i in range(4):
                    S[i] = T.float32(0)
                    for j in range(6):
                        S[i] = S[i] + A[i, j] * W[j]
                for i in range(4):
                    B[i] = {ROUNDINGS[name].format("S[i] * T.float32(0.1)")}
                """,
                'A: T.Buffer((4, 6), "float32"), W: T.Buffer((6,), "float32"), B: T.Buffer((4,), "float32")',
            )
            for name in (one, other)
        ]
        yield f"a sum rounded by {one} or {other}", *both


def rounding_in_integers() -> Iterator[Pair]:
    shift = "T.shift_right({0}, 4)"
    forms = {
        "floor": shift.format("A[i]"),
        "half up": shift.format("A[i] + 8"),
        "half away": "T.if_then_else(A[i] >= 0, T.shift_right(A[i] + 8, 4), 0 - T.shift_right(8 - A[i], 4))",
        "truncated": "T.truncdiv(A[i], 16)",
        "floored": "A[i] // 16",
    }
    for one, other in [
        ("floor", "half up"),
        ("half up", "half away"),
        ("truncated", "floor"),
        ("truncated", "floored"),
    ]:
        yield f"integers: {one} or {other}", each(forms[one], "int32"), each(forms[other], "int32")


# --- the ends of integers ------------------------------------------------------------------------------------------


def extreme(kind: str, start: str, dtype: str, n: int = 8) -> PrimFunc:
    return function(
        f"B[0] = {start}\nfor k in range({n}):\n    B[0] = T.{kind}(B[0], A[k])",
        f'A: T.Buffer(({n},), "{dtype}"), B: T.Buffer((1,), "{dtype}")',
    )


def dot(dtype: str, inputs: str = "int8", n: int = 3, out: str = "int32", second: str = "") -> PrimFunc:
    return function(
        f"""
        L = T.alloc_buffer((1,), "{dtype}")
        L[0] = T.{dtype}(0)
        for i in range({n}):
            L[0] = L[0] + T.Cast("{dtype}", A[i]) * T.Cast("{dtype}", W[i])
        B[0] = T.Cast("{out}", L[0])
        """,
        f'A: T.Buffer(({n},), "{inputs}"), W: T.Buffer(({n},), "{second or inputs}"), B: T.Buffer((1,), "{out}")',
    )


def integer_ends() -> Iterator[Pair]:
    for dtype in ("int8", "int16", "int32", "int64"):
        bits = int(dtype[3:])
        least, most = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
        low, high = f'T.min_value("{dtype}")', f'T.max_value("{dtype}")'
        for kind, right, end, other in (("max", low, least, least + 1), ("min", high, most, most - 1)):
            wrong = f'T.Cast("{dtype}", T.int64({other}))'
            yield f"{kind} of {dtype} from {end}", extreme(kind, right, dtype), extreme(kind, wrong, dtype)
            zero = f"T.{dtype}(0)"
            yield f"{kind} of {dtype} from 0", extreme(kind, right, dtype), extreme(kind, zero, dtype)
        one = f"T.{dtype}(1)"
        a = "A[i]"
        yield (
            f"{dtype}: x + 1 > x",
            each(f"T.Select({a} + {one} > {a}, T.{dtype}(1), T.{dtype}(2))", dtype),
            each(one, dtype),
        )
        yield (
            f"{dtype}: x - 1 < x",
            each(f"T.Select({a} - {one} < {a}, T.{dtype}(1), T.{dtype}(2))", dtype),
            each(one, dtype),
        )
        wrapped = f"T.max({a}, T.{dtype}(0) - {a})"
        yield f"{dtype}: abs(least)", each(f"T.max({wrapped}, T.{dtype}(0))", dtype), each(wrapped, dtype)
        middle = f"T.truncdiv({a} + {a}, T.{dtype}(2))"
        yield f"{dtype}: 2x / 2", each(middle, dtype), each(a, dtype)
        yield (
            f"{dtype}: -x < 0",
            each(f"T.Select(T.{dtype}(0) - {a} < T.{dtype}(0), {one}, T.{dtype}(0))", dtype),
            each(f"T.Select({a} > T.{dtype}(0), {one}, T.{dtype}(0))", dtype),
        )
        yield (
            f"{dtype}: equal to the end",
            each(f"T.Select({a} == {high}, {one}, T.{dtype}(0))", dtype),
            each(f"T.{dtype}(0)", dtype),
        )
    for n in (2, 3, 5):
        yield f"int16 sum of {n} int8 products", dot("int32", n=n), dot("int16", n=n)
    yield (
        "int16 sum of 2 uint8 by int8",
        dot("int32", "uint8", 2, second="int8"),
        dot("int16", "uint8", 2, second="int8"),
    )
    yield "int32 sum of int16 products", dot("int64", "int16", 3, "int64"), dot("int32", "int16", 3, "int64")
    yield (
        "the product of int8 in int8",
        each('T.Cast("int16", A[i]) * T.Cast("int16", A[i])', "int8", "int16"),
        each('T.Cast("int16", A[i] * A[i])', "int8", "int16"),
    )
    yield (
        "uint8 difference",
        each('T.Cast("int32", A[i]) - T.Cast("int32", A[7 - i])', "uint8", "int32"),
        each('T.Cast("int32", A[i] - A[7 - i])', "uint8", "int32"),
    )
    yield (
        "average in int8",
        each('T.Cast("int8", (T.Cast("int16", A[i]) + T.Cast("int16", A[7 - i])) // T.int16(2))', "int8"),
        each("(A[i] + A[7 - i]) // T.int8(2)", "int8"),
    )


# --- clips behind a scale ------------------------------------------------------------------------------------------


def clips() -> Iterator[Pair]:
    for scale in (0.001, 1e-4, 3e-6, 1 / 255, 2.0**-20):
        for kind, end in (("min", 6), ("max", -6), ("min", 0.5)):
            inner = f"A[i] * {f32(scale)}"
            yield f"{kind} {end} behind {scale:.3g}", each(f"T.{kind}({inner}, {f32(end)})"), each(inner)
    for scale in (0.01, 0.0005):
        inner = f'T.Cast("float32", A[i]) * {f32(scale)}'
        yield (
            f"relu6 of int32 by {scale}",
            each(f"T.min(T.max({inner}, {f32(0)}), {f32(6)})", "int32", "float32"),
            each(f"T.max({inner}, {f32(0)})", "int32", "float32"),
        )
        nested = f"T.max(T.min(T.round({inner}) + {f32(3)}, T.float32({{0}})), T.float32(-128))"
        yield (
            f"the upper end of a chain by {scale}",
            *(each(f'T.Cast("int8", {nested.format(end)})', "int32", "int8") for end in (127, 126)),
        )
    yield (
        "a clip at 255 of a sum",
        *(
            function(
                f"""
            S = T.alloc_buffer((4,), "int32")
            for i in range(4):
                S[i] = 0
                for j in range(16):
                    S[i] = S[i] + T.Cast("int32", A[i, j]) * T.Cast("int32", W[j])
            for i in range(4):
                B[i] = T.min(T.max(T.Cast("float32", S[i]) * T.float32(0.003), T.float32(0)), T.float32({end}))
            """,
                'A: T.Buffer((4, 16), "int8"), W: T.Buffer((16,), "int8"), B: T.Buffer((4,), "float32")',
            )
            for end in (255, 256)
        ),
    )
    yield (
        "a clip of a mean",
        *(
            function(
                f"""
            S = T.alloc_buffer((4,), "float32")
            for i in range(4):
                S[i] = T.float32(0)
                for j in range(16):
                    S[i] = S[i] + A[i, j]
            for i in range(4):
                B[i] = T.min(S[i] / T.float32(16000), T.float32({end}))
            """,
                'A: T.Buffer((4, 16), "float32"), B: T.Buffer((4,), "float32")',
            )
            for end in (6, 8)
        ),
    )
    for compare in ("<", ">="):
        condition = f"A[i] * T.float32(0.002) + T.float32(1) {compare} T.float32({{0}})"
        yield (
            f"a comparison {compare} behind 0.002",
            *(each(f"T.Select({condition.format(end)}, A[i], T.float32(0.25))") for end in (9, 9.5)),
        )
    yield (
        "a product that is clipped",
        *(
            function(
                f"for i in range(8):\n    C[i] = T.min(A[i] * B[i] * T.float32(0.0001), T.float32({end}))",
                'A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")',
            )
            for end in (100, 120)
        ),
    )
    yield (
        "integers by shifts",
        each("T.min(T.shift_right(A[i], 12), 1000)", "int32"),
        each("T.shift_right(A[i], 12)", "int32"),
    )
    yield "integers divided", each("T.min(A[i] // 1000, 5000)", "int32"), each("T.min(A[i] // 1000, 5001)", "int32")


# --- ties ----------------------------------------------------------------------------------------------------------


def argbest(compare: str, loops: str = "ij", dtype: str = "float32") -> PrimFunc:
    i, j = loops
    low = f'T.min_value("{dtype}")'
    extents = {"i": 4, "j": 5}
    return function(
        f"""
        M = T.alloc_buffer((1,), "{dtype}")
        M[0] = {low}
        B[0] = -1
        for {i} in range({extents[i]}):
            for {j} in range({extents[j]}):
                B[0] = T.Select(A[i, j] {compare} M[0], i * 5 + j, B[0])
                M[0] = T.Select(A[i, j] {compare} M[0], A[i, j], M[0])
        """,
        f'A: T.Buffer((4, 5), "{dtype}"), B: T.Buffer((1,), "int32")',
    )


def between(condition: str, dtype: str = "float32", n: int = 6) -> PrimFunc:
    zero, one = f"T.{dtype}(0)", f"T.{dtype}(1)"
    return function(
        f"for i in range({n}):\n    C[i] = T.Select({condition}, {one}, {zero})",
        f'A: T.Buffer(({n},), "{dtype}"), B: T.Buffer(({n},), "{dtype}"), C: T.Buffer(({n},), "{dtype}")',
    )


def ties() -> Iterator[Pair]:
    for dtype in ("float32", "int8", "int32", "float16"):
        for n in (1, 6, 40):
            yield (
                f"> or >= of two inputs of {n} {dtype}",
                between("A[i] > B[i]", dtype, n),
                between("A[i] >= B[i]", dtype, n),
            )
        yield f"== of two inputs of {dtype}", between("A[i] == B[i]", dtype), between("A[i] < A[i]", dtype)
        yield f"argmax of {dtype}, > or >=", argbest(">", dtype=dtype), argbest(">=", dtype=dtype)
        yield f"argmax of {dtype}, loops exchanged", argbest(">", dtype=dtype), argbest(">", "ji", dtype)
    for one, other in (("<", "<="), (">", ">=")):
        yield (
            f"{one} of a sum",
            between(f"A[i] + B[i] {one} T.float32(10)"),
            between(f"A[i] + B[i] {other} T.float32(10)"),
        )
        yield (
            f"{one} of scaled inputs",
            between(f"A[i] * T.float32(2) {one} B[i] + T.float32(1)"),
            between(f"A[i] * T.float32(2) {other} B[i] + T.float32(1)"),
        )
        yield (
            f"{one} behind 0.1",
            between(f"A[i] * T.float32(0.1) {one} T.float32(30)"),
            between(f"A[i] * T.float32(0.1) {other} T.float32(30)"),
        )
        yield (
            f"{one} of a product",
            between(f"A[i] * B[i] {one} T.float32(12)"),
            between(f"A[i] * B[i] {other} T.float32(12)"),
        )
        yield (
            f"{one} of a difference of int32",
            between(f"A[i] - B[i] {one} 1000", "int32"),
            between(f"A[i] - B[i] {other} 1000", "int32"),
        )
    rows = """
        for i in range(4):
            M = T.alloc_buffer((1,), "float32")
            M[0] = T.float32(0)
            for j in range(6):
                M[0] = M[0] + A[i, j]
            B[i] = T.Select(M[0] {0} T.float32(20), T.float32(1), T.float32(0))
    """
    signature = 'A: T.Buffer((4, 6), "float32"), B: T.Buffer((4,), "float32")'
    yield "a threshold of sums", function(rows.format(">"), signature), function(rows.format(">="), signature)
    both = [f"T.Select(T.And(A[i] {c} T.float32(3), A[7 - i] < T.float32(2)), A[i], T.float32(0))" for c in (">", ">=")]
    yield "a condition of two", *map(each, both)


# --- overflow and poles --------------------------------------------------------------------------------------------


def poles() -> Iterator[Pair]:
    yield "softmax without its maximum", softmax(*BY_MAXIMUM), softmax(*BY_ZERO)
    one = "T.float32(1)"
    yield (
        "sigmoid by exp(x)",
        each(f"{one} / ({one} + T.exp(T.float32(0) - A[i]))"),
        each(f"T.exp(A[i]) / ({one} + T.exp(A[i]))"),
    )
    yield (
        "tanh by exp(2x)",
        each("T.tanh(A[i])"),
        each(f"(T.exp(A[i] * T.float32(2)) - {one}) / (T.exp(A[i] * T.float32(2)) + {one})"),
    )
    yield (
        "softplus",
        each(f"T.max(A[i], T.float32(0)) + T.log({one} + T.exp(T.float32(0) - T.abs(A[i])))"),
        each(f"T.log({one} + T.exp(A[i]))"),
    )
    yield "log of a product", each("A[i] + A[7 - i]"), each("T.log(T.exp(A[i]) * T.exp(A[7 - i]))")
    yield "a quotient lost at 0", each("A[i]"), each("A[i] * A[i] / A[i]")
    yield "x / x", each(one), each("A[i] / A[i]")
    yield (
        "a guard against 0",
        each("T.if_then_else(A[i] == T.float32(0), T.float32(0), T.float32(1) / A[i])"),
        each(f"{one} / A[i]"),
    )
    yield "a root of a square", each("T.abs(A[i])"), each("T.sqrt(A[i] * A[i])")
    yield (
        "logsumexp",
        *(
            function(
                f"""
            S = T.alloc_buffer((1,), "float32")
            M = T.alloc_buffer((1,), "float32")
            M[0] = T.min_value("float32")
            for j in range(8):
                M[0] = T.max(M[0], A[j])
            S[0] = T.float32(0)
            for j in range(8):
                S[0] = S[0] + T.exp(A[j] - {shift})
            B[0] = T.log(S[0]) + {shift}
            """,
                'A: T.Buffer((8,), "float32"), B: T.Buffer((1,), "float32")',
            )
            for shift in ("M[0]", "T.float32(0)")
        ),
    )
    yield "a norm", each("T.hypot(A[i], A[7 - i])"), each("T.sqrt(A[i] * A[i] + A[7 - i] * A[7 - i])")


# --- indices that come from data ------------------------------------------------------------------------------------


def gather(index: str, n: int = 100, dtype: str = "int32", m: int = 6) -> PrimFunc:
    return function(
        f"for i in range({m}):\n    B[i] = A[{index}]",
        f'I: T.Buffer(({m},), "{dtype}"), A: T.Buffer(({n},), "float32"), B: T.Buffer(({m},), "float32")',
    )


def indices() -> Iterator[Pair]:
    yield "an unclamped gather, clamped at 50", gather("I[i]"), gather("T.min(I[i], 50)")
    yield "an unclamped gather, the last element lost", gather("I[i]"), gather("T.min(I[i], 98)")
    yield "an index through int8", gather("I[i]", 300), gather('T.Cast("int32", T.Cast("int8", I[i]))', 300)
    yield "an offset", gather("I[i] + 20", 50), gather("T.max(I[i], 0 - 19) + 20", 50)
    yield "a stride", gather("I[i] * 3 + 1", 50), gather("T.min(I[i], 15) * 3 + 1", 50)
    yield "negative indices", gather("T.if_then_else(I[i] < 0, I[i] + 100, I[i])"), gather("T.max(I[i], 0)")
    yield (
        "negative indices, the first",
        gather("T.if_then_else(I[i] < 0, I[i] + 100, I[i])"),
        gather("T.if_then_else(I[i] < -99, 1, T.if_then_else(I[i] < 0, I[i] + 100, I[i]))"),
    )
    yield "an index modulo", gather("T.floormod(I[i], 100)"), gather("T.max(T.truncmod(I[i], 100), 0)")
    yield "an index modulo 64 or 63", gather("T.bitwise_and(I[i], 63)"), gather("T.floormod(T.max(I[i], 0), 64)")
    yield (
        "a guarded gather",
        gather("T.if_then_else(T.And(I[i] >= 0, I[i] < 100), I[i], 0)"),
        gather("T.if_then_else(T.And(I[i] >= 0, I[i] < 99), I[i], 0)"),
    )
    scatter = """
        for i in range(40):
            B[i] = T.float32(0)
        for i in range(6):
            B[{0}] = {1}
    """
    signature = 'I: T.Buffer((6,), "int32"), A: T.Buffer((6,), "float32"), B: T.Buffer((40,), "float32")'
    yield (
        "a scatter that stores or adds",
        function(scatter.format("I[i]", "A[i]"), signature),
        function(scatter.format("I[i]", "B[I[i]] + A[i]"), signature),
    )
    yield (
        "a scatter of the last element",
        function(scatter.format("I[i]", "A[i]"), signature),
        function(scatter.format("T.min(I[i], 38)", "A[i]"), signature),
    )
    two = """
        for i in range(6):
            J[i] = I[i] * 2
        for i in range(6):
            B[i] = A[{0}]
    """
    signature = 'I: T.Buffer((6,), "int32"), A: T.Buffer((60,), "float32"), B: T.Buffer((6,), "float32")'
    alloc = 'J = T.alloc_buffer((6,), "int32")\n'
    yield (
        "an index computed before",
        *(function(alloc + textwrap.dedent(two.format(e)), signature) for e in ("J[i]", "T.min(J[i], 50)")),
    )


# --- pairs that are equal -------------------------------------------------------------------------------------------


def equal() -> Iterator[Pair]:
    x = "A[i] * T.float32(0.05)"
    yield "a scale or a quotient", each(f"T.round({x})"), each("T.round(A[i] / T.float32(20))")
    yield (
        "a sum exchanged under round",
        each("T.nearbyint(A[i] * T.float32(0.5) + A[7 - i])"),
        each("T.nearbyint(A[7 - i] + A[i] * T.float32(0.5))"),
    )
    yield "round of a negation", each("T.float32(0) - T.round(T.float32(0) - A[i])"), each("T.round(A[i])")
    yield (
        "ceil by floor",
        each("T.ceil(A[i] * T.float32(0.1))"),
        each("T.float32(0) - T.floor(T.float32(0) - A[i] * T.float32(0.1))"),
    )
    yield (
        "a clip in another order",
        each("T.min(T.max(A[i] * T.float32(0.001), T.float32(0)), T.float32(6))"),
        each("T.max(T.min(A[i] * T.float32(0.001), T.float32(6)), T.float32(0))"),
    )
    yield (
        "a clip before the scale",
        each("T.min(A[i] * T.float32(0.001), T.float32(6))"),
        each("T.min(A[i], T.float32(6000)) * T.float32(0.001)"),
    )
    yield (
        "scales multiplied",
        each("T.min(A[i] * T.float32(0.1) * T.float32(0.1), T.float32(6))"),
        each("T.min(A[i] * T.float32(0.01), T.float32(6))"),
    )
    yield "a wide accumulator", dot("int32", n=3), dot("int64", n=3)
    yield "> turned around", between("A[i] > B[i]"), between("B[i] < A[i]")
    yield "> negated", between("A[i] > B[i]", "int32"), between("T.Not(A[i] <= B[i])", "int32")
    yield (
        "doubled and compared",
        between("A[i] * T.int8(2) > B[i] * T.int8(2)", "int8"),
        between("B[i] * T.int8(2) < A[i] * T.int8(2)", "int8"),
    )
    yield "one int8 product in int16", dot("int32", n=1), dot("int16", n=1)
    yield "an argmax", argbest(">"), argbest(">")
    yield "softmax twice", softmax(*BY_MAXIMUM), softmax(*BY_MAXIMUM)
    yield "exp of a difference", each("T.exp(A[i] - A[7 - i])"), each("T.exp((T.float32(0) - A[7 - i]) + A[i])")
    yield "a quotient of products", each("A[i] / (A[7 - i] * T.float32(2))"), each("A[i] / (T.float32(2) * A[7 - i])")
    yield "a gather", gather("I[i]"), gather("0 + I[i]")
    yield "a gather with two forms", gather("I[i] * 3 + 1", 50), gather("1 + 3 * I[i]", 50)
    yield (
        "negative indices by a select",
        gather("T.if_then_else(I[i] < 0, I[i] + 100, I[i])"),
        gather("I[i] + T.if_then_else(I[i] < 0, 100, 0)"),
    )
    yield "floor by modulo", each("A[i] // 16", "int32"), each("T.shift_right(A[i], 4)", "int32")
    yield (
        "abs of int32",
        each("T.max(A[i], 0 - A[i])", "int32"),
        each("T.if_then_else(A[i] < 0, 0 - A[i], A[i])", "int32"),
    )
    yield "wrapping", each("A[i] * 2 + A[i]", "int32"), each("A[i] * 3", "int32")
    yield (
        "an exact maximum of int8",
        extreme("max", "T.int8(-128)", "int8"),
        extreme("max", 'T.min_value("int8")', "int8"),
    )
    for scale in (0.05, 1 / 255, 0.1):
        inner = f'T.Cast("float32", A[i]) * {f32(scale)}'
        forms = [f"T.round({inner}) + T.float32(3)", f"T.float32(3) + T.round({f32(scale)} * T.Cast('float32', A[i]))"]
        chain = [f'T.Cast("int8", T.max(T.min({e}, T.float32(127)), T.float32(-128)))' for e in forms]
        yield f"requantise by {scale:.3g}", each(chain[0], "int32", "int8"), each(chain[1], "int32", "int8")


DIFFERENT_FAMILIES = {
    "rounding": rounding, "rounding in integers": rounding_in_integers, "integer ends": integer_ends, "clips": clips,
    "ties": ties, "poles": poles, "indices": indices,
}  # fmt: skip
