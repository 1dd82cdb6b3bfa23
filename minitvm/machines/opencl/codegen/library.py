"""Functions that OpenCL C does not have, or defines differently. A kernel's source begins with those that it uses.

    static float4 maximum_float32x4(float4 a, float4 b) { return (a > b | a != a) ? a : b; }      a NaN wins

A row of the table writes a function for one dtype, and may use others.
"""

from __future__ import annotations

from collections.abc import Callable

from ....expr import DType
from .types import mask_type, memory_type, unsigned, value_type

# The float functions that OpenCL C has, and what each is called there.
FLOAT_CALLS = {
    **{name: name for name in (
        "exp", "exp2", "exp10", "log", "log2", "log10", "log1p", "sqrt", "sin", "cos", "tan", "asin", "acos", "atan",
        "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "erf", "floor", "ceil", "trunc", "round", "pow", "atan2",
        "hypot", "copysign", "fmod", "fma",
    )},
    "nearbyint": "rint", "abs": "fabs",
}  # fmt: skip


class Library:
    """The functions that one kernel uses. `index` is the type of its indices.

    `has_half` says that the device adds and multiplies 16-bit floats, and `uses_half` that the kernel does so.
    """

    def __init__(self, index: str = "long", has_half: bool = False) -> None:
        self.index, self.has_half, self.uses_half = index, has_half, False
        self.definitions: dict[str, str] = {}

    def use(self, name: str, dtype: DType, space: str = "") -> str:
        """Return the name of a function for a dtype and, if it accesses memory, for an address space."""
        full = "_".join(part for part in (name, str(dtype), space.strip("_")) if part)
        if full not in self.definitions:
            definition = _FUNCTIONS[name](self, full, dtype, space) if space else _FUNCTIONS[name](self, full, dtype)
            self.definitions[full] = definition  # behind those that it uses
        return full

    def text(self) -> list[str]:
        """Return the lines of all definitions, each before its uses."""
        return [line for text in self.definitions.values() for line in (*text.splitlines(), "")]


def _function(result: str, name: str, parameters: str, *body: str) -> str:
    if len(body) == 1:
        return f"static {result} {name}({parameters}) {{ return {body[0]}; }}"
    return "\n".join([f"static {result} {name}({parameters}) {{", *(f"    {line}" for line in body), "}"])


def _extreme(sign: str) -> Callable[[Library, str, DType], str]:
    def write(_: Library, name: str, dtype: DType) -> str:
        t = value_type(dtype)
        either = "||" if dtype.lanes == 1 else "|"
        condition = f"(a {sign} b {either} a != a)" if dtype.is_float else f"(a {sign} b)"
        return _function(t, name, f"{t} a, {t} b", f"{condition} ? a : b")

    return write


def _negated(dtype: DType, text: str) -> str:
    """Return -text with wrapping."""
    t, u = value_type(dtype), unsigned(dtype)
    return f"as_{t}(({u})0 - as_{u}({text}))" if dtype.bits >= 32 or dtype.lanes > 1 else f"({t})(-{text})"


def _by_lanes(library: Library, op: str, name: str, dtype: DType) -> str:
    """Write an operation on vectors, lane by lane."""
    t, scalar = value_type(dtype), library.use(op, dtype.scalar)
    lanes = ", ".join(f"{scalar}(a.s{k:x}, b.s{k:x})" for k in range(dtype.lanes))
    return _function(t, name, f"{t} a, {t} b", f"({t})({lanes})")


def _truncdiv(library: Library, name: str, dtype: DType) -> str:
    """Write the quotient rounded towards zero. A division by zero gives 0, because a processor may trap it."""
    if dtype.lanes > 1:
        return _by_lanes(library, "truncdiv", name, dtype)
    t = value_type(dtype)
    minus = f" : b == -1 ? {_negated(dtype, 'a')}" if dtype.kind == "int" else ""
    return _function(t, name, f"{t} a, {t} b", f"b == 0 ? ({t})0{minus} : ({t})(a / b)")


def _truncmod(library: Library, name: str, dtype: DType) -> str:
    if dtype.lanes > 1:
        return _by_lanes(library, "truncmod", name, dtype)
    t = value_type(dtype)
    none = "b == 0 || b == -1" if dtype.kind == "int" else "b == 0"
    return _function(t, name, f"{t} a, {t} b", f"{none} ? ({t})0 : ({t})(a % b)")


def _floordiv(library: Library, name: str, dtype: DType) -> str:
    t = value_type(dtype)
    if dtype.is_float:
        return _function(t, name, f"{t} a, {t} b", f"floor({library_round(library, dtype, '(a / b)')})")
    if dtype.kind == "uint" or dtype.lanes > 1:
        return _truncdiv(library, name, dtype) if dtype.kind == "uint" else _by_lanes(library, "floordiv", name, dtype)
    quotient, rest = library.use("truncdiv", dtype), library.use("truncmod", dtype)
    return _function(
        t, name, f"{t} a, {t} b", f"{t} r = {rest}(a, b);",
        f"return ({t})({quotient}(a, b) - (r != 0 && (r < 0) != (b < 0)));",
    )  # fmt: skip


def _floormod(library: Library, name: str, dtype: DType) -> str:
    t = value_type(dtype)
    if dtype.lanes > 1:
        return _by_lanes(library, "floormod", name, dtype)
    if dtype.is_float:
        zero = f"copysign(({t})0, b)"
        return _function(
            t, name, f"{t} a, {t} b", f"{t} r = fmod(a, b);",
            f"return r == 0 ? {zero} : (r < 0) != (b < 0) ? r + b : r;",
        )  # fmt: skip
    if dtype.kind == "uint":
        return _truncmod(library, name, dtype)
    rest = library.use("truncmod", dtype)
    return _function(
        t, name, f"{t} a, {t} b", f"{t} r = {rest}(a, b);", f"return ({t})(r != 0 && (r < 0) != (b < 0) ? r + b : r);"
    )


def _shift(operator: str) -> Callable[[Library, str, DType], str]:
    """Write a shift. If the amount is the width or more, only the sign remains."""

    def write(library: Library, name: str, dtype: DType) -> str:
        if dtype.lanes > 1:
            return _by_lanes(library, "shift_left" if operator == "<<" else "shift_right", name, dtype)
        t, u = value_type(dtype), unsigned(dtype)
        if operator == "<<":
            return _function(t, name, f"{t} a, {t} b", f"b >= {dtype.bits} ? ({t})0 : ({t})(({u})a << b)")
        far = f"({t})(a < 0 ? -1 : 0)" if dtype.kind == "int" else f"({t})0"
        return _function(t, name, f"{t} a, {t} b", f"b >= {dtype.bits} ? {far} : ({t})(a >> b)")

    return write


def library_round(library: Library, dtype: DType, text: str) -> str:
    """Return a float32 rounded to a 16-bit float. Values of other dtypes are unchanged."""
    if dtype.scalar == "float16" and library.has_half:
        return in_half(library, dtype, text)
    return f"{library.use('rounded', dtype)}({text})" if dtype.is_half else text


def in_half(library: Library, dtype: DType, a: str, operator: str = "", b: str = "") -> str:
    """Return a number, or an operation on two numbers, computed as the device's `half` and converted back to float32.

    Values of float16 are float32 in a kernel, so these conversions change nothing, and a compiler removes them between
    two operators. A sum, difference or product of halves is rounded once, to the same value as in float32.
    """
    library.uses_half = True
    n = "" if dtype.lanes == 1 else str(dtype.lanes)
    result = f" {operator} ".join(f"convert_half{n}({text})" for text in (a, b) if text)
    return f"convert_float{n}({result})"


def _rounded(library: Library, name: str, dtype: DType) -> str:
    t = value_type(dtype)
    if dtype.scalar == "bfloat16":
        bits, back = library.use("bits", dtype), library.use("from_bits", dtype)
        return _function(t, name, f"{t} x", f"{back}({bits}(x))")
    n = "" if dtype.lanes == 1 else str(dtype.lanes)
    return _function(
        t, name, f"{t} x", f"ushort h[{dtype.lanes}];", f"vstore_half{n}_rte(x, 0, (__private half *)h);",
        f"return vload_half{n}(0, (const __private half *)h);",
    )  # fmt: skip


def _rounded_once(_: Library, name: str, dtype: DType) -> str:
    """Write a function that rounds a float64 to the nearest float16."""
    t, n = value_type(dtype), "" if dtype.lanes == 1 else str(dtype.lanes)
    wide = value_type(DType("float64").with_lanes(dtype.lanes))
    return _function(
        t, name, f"{wide} x", f"ushort h[{dtype.lanes}];", f"vstore_half{n}_rte(x, 0, (__private half *)h);",
        f"return vload_half{n}(0, (const __private half *)h);",
    )  # fmt: skip


def _bits(_: Library, name: str, dtype: DType) -> str:
    """Write a function that returns the bits of a 16-bit float. A bfloat16 is rounded to even, and NaN stays NaN."""
    t, n = value_type(dtype), "" if dtype.lanes == 1 else str(dtype.lanes)
    if dtype.scalar == "float16":
        store = f"vstore_half{n}_rte(x, 0, (__private half *)h);"
        whole = "h[0]" if not n else f"vload{n}(0, h)"
        return _function(f"ushort{n}", name, f"{t} x", f"ushort h[{dtype.lanes}];", store, f"return {whole};")
    nearest = "(b + 0x7fff + ((b >> 16) & 1)) >> 16"
    number = f"isnan(x) ? (b >> 16) | 0x40 : {nearest}" if not n else f"select({nearest}, (b >> 16) | 0x40, isnan(x))"
    return _function(
        f"ushort{n}", name, f"{t} x", f"uint{n} b = as_uint{n}(x);", f"return convert_ushort{n}({number});"
    )


def _from_bits(_: Library, name: str, dtype: DType) -> str:
    t, n = value_type(dtype), "" if dtype.lanes == 1 else str(dtype.lanes)
    if dtype.scalar == "bfloat16":
        return _function(t, name, f"ushort{n} b", f"as_{t}(convert_uint{n}(b) << 16)")
    return _function(
        t, name, f"ushort{n} b", f"ushort h[{dtype.lanes}];", "h[0] = b;" if not n else f"vstore{n}(b, 0, h);",
        f"return vload_half{n}(0, (const __private half *)h);",
    )  # fmt: skip


def _sigmoid(library: Library, name: str, dtype: DType) -> str:
    t = value_type(dtype)
    return _function(t, name, f"{t} x", library_round(library, dtype, f"({t})1 / (({t})1 + {FLOAT_CALLS['exp']}(-x))"))


def _multiply_add(_: Library, name: str, dtype: DType) -> str:
    fast = "FP_FAST_FMA" if dtype.scalar == "float64" else "FP_FAST_FMAF"
    t = value_type(dtype)
    return "\n".join([
        f"static {t} {name}({t} a, {t} b, {t} c) {{", "#pragma OPENCL FP_CONTRACT ON", f"#ifdef {fast}",
        "    return fma(a, b, c);", "#else", "    return a * b + c;", "#endif", "}",
    ])  # fmt: skip


def _dot4(library: Library, name: str, dtype: DType) -> str:
    """Write the sum of four products of bytes, those of a unsigned and those of b signed."""
    if dtype.lanes > 1:
        return _by_lanes(library, "dot4_u8i8", name, dtype)
    terms = [f"(int)((uchar)(a >> {8 * k})) * (int)((char)(b >> {8 * k}))" for k in range(4)]
    return _function("int", name, "int a, int b", " + ".join(terms))


def _dot2(library: Library, name: str, dtype: DType) -> str:
    """Write c plus the products of the two bfloat16 in words a and b, added in the same way as a CPU's instruction."""
    t, n = value_type(dtype), "" if dtype.lanes == 1 else str(dtype.lanes)
    flushed = library.use("flushed", dtype)

    def half(word: str, low: bool) -> str:
        bits = f"as_uint{n}({word})"
        return f"{flushed}(as_{t}({bits} << 16))" if low else f"{flushed}(as_{t}({bits} & 0xffff0000u))"

    high = f"fma({half('a', False)}, {half('b', False)}, {flushed}(c))"
    return _function(
        t, name, f"{t} c, int{n} a, int{n} b", f"{t} high = {flushed}({high});",
        f"return {flushed}(fma({half('a', True)}, {half('b', True)}, high));",
    )  # fmt: skip


def _flushed(_: Library, name: str, dtype: DType) -> str:
    """Write a function that replaces subnormal float32 with zeros of the same sign."""
    t, n = value_type(dtype), "" if dtype.lanes == 1 else str(dtype.lanes)
    return _function(
        t, name, f"{t} x", f"uint{n} bits = as_uint{n}(x);",
        f"return as_{t}((bits & 0x7f800000u) == 0 ? bits & 0x80000000u : bits);",
    )  # fmt: skip


def _reduction(op: str) -> Callable[[Library, str, DType], str]:
    """Write a function that combines the lanes of a vector, half by half, until one is left."""

    def write(library: Library, name: str, dtype: DType) -> str:
        t, half = value_type(dtype), dtype.with_lanes(dtype.lanes // 2)
        rest = "{}" if half.lanes == 1 else f"{library.use(f'reduce_{op}', half)}({{}})"
        combined = _COMBINED[op](library, half, "x.lo", "x.hi")
        return _function(value_type(dtype.scalar), name, f"{t} x", rest.format(combined))

    return write


def added(library: Library, dtype: DType, a: str, b: str, operator: str = "+") -> str:
    """Return a sum, difference or product that wraps for integers, and is rounded to its dtype for floats."""
    if dtype.scalar == "float16" and library.has_half:
        return in_half(library, dtype, a, operator, b)
    if dtype.is_float:
        return library_round(library, dtype, f"({a} {operator} {b})")
    t = value_type(dtype)
    if dtype.bits < 32 and dtype.lanes == 1:
        return f"({t})({a} {operator} {b})"
    if dtype.kind == "uint":
        return f"({a} {operator} {b})"
    u = unsigned(dtype)
    return f"as_{t}(as_{u}({a}) {operator} as_{u}({b}))"


_COMBINED: dict[str, Callable[[Library, DType, str, str], str]] = {
    "add": added,
    "mul": lambda library, dtype, a, b: added(library, dtype, a, b, "*"),
    "max": lambda library, dtype, a, b: f"{library.use('maximum', dtype)}({a}, {b})",
    "min": lambda library, dtype, a, b: f"{library.use('minimum', dtype)}({a}, {b})",
}


def _each(dtype: DType, text: str) -> str:
    """Return the text for each lane. {k} is the lane's number as a vector component in OpenCL C, and {n} as a decimal
    number.
    """
    return ", ".join(text.format(k=f"{k:x}", n=k) for k in range(dtype.lanes))


def element(library: Library, dtype: DType, pointer: str, index: str) -> str:
    """Return an expression that reads an element of memory as a value."""
    scalar = dtype.scalar
    if scalar == "float16":
        return f"vload_half({index}, {pointer})"
    if scalar == "bfloat16":
        return f"{library.use('from_bits', scalar)}({pointer}[{index}])"
    return f"({pointer}[{index}] != 0)" if scalar == "bool" else f"{pointer}[{index}]"


def put(library: Library, dtype: DType, pointer: str, index: str, value: str) -> str:
    """Return the expression that stores a value as an element of memory."""
    scalar = dtype.scalar
    if scalar == "float16":
        return f"vstore_half_rte({value}, {index}, {pointer})"
    text = f"{library.use('bits', scalar)}({value})" if scalar == "bfloat16" else value
    return f"{pointer}[{index}] = {text}"


def _gather(library: Library, name: str, dtype: DType, space: str) -> str:
    t, truth = value_type(dtype), "-" if dtype.is_bool else ""
    lanes = _each(dtype, f"{truth}{element(library, dtype, 'p', 'i.s{k}')}")
    parameters = f"const {space} {memory_type(dtype)} *p, {library.index}{dtype.lanes} i"
    return _function(t, name, parameters, f"({t})({lanes})")


def _first(_: Library, name: str, dtype: DType) -> str:
    """Write the mask of the first n lanes, compared in the width of the mask, so that no wider vector is needed."""
    t, lanes = f"char{dtype.lanes}", ", ".join(map(str, range(dtype.lanes)))
    return _function(t, name, "long n", f"({t})({lanes}) < ({t})((char)clamp(n, 0L, {dtype.lanes}L))")


def _load_masked(library: Library, name: str, dtype: DType, space: str) -> str:
    """Write a load of neighbours with zeros for masked-out lanes. If there are none, which is common, it is a single
    load.
    """
    t, truth = value_type(dtype), "-" if dtype.is_bool else ""
    lanes = _each(dtype, f"m.s{{k}} ? {truth}{element(library, dtype, 'p', '{n}')} : {_zero(dtype)}")
    whole = [] if dtype.is_half or dtype.is_bool else [f"if (all(m)) return vload{dtype.lanes}(0, p);"]
    parameters = f"const {space} {memory_type(dtype)} *p, char{dtype.lanes} m"
    return (
        _function(t, name, parameters, *whole, f"return ({t})({lanes});")
        if whole
        else _function(t, name, parameters, f"({t})({lanes})")
    )


def _store_masked(library: Library, name: str, dtype: DType, space: str) -> str:
    t, truth = value_type(dtype), "-" if dtype.is_bool else ""
    lines = [f"if (m.s{k:x}) {put(library, dtype, 'p', str(k), f'{truth}x.s{k:x}')};" for k in range(dtype.lanes)]
    if not dtype.is_half and not dtype.is_bool:
        lines.insert(0, f"if (all(m)) {{ vstore{dtype.lanes}(x, 0, p); return; }}")
    return _function("void", name, f"{space} {memory_type(dtype)} *p, {t} x, char{dtype.lanes} m", *lines)


def _zero(dtype: DType) -> str:
    return "0" if not dtype.is_float else "0.0f" if dtype.bits < 64 else "0.0"


def _gather_masked(library: Library, name: str, dtype: DType, space: str) -> str:
    t, truth = value_type(dtype), "-" if dtype.is_bool else ""
    lanes = _each(dtype, f"m.s{{k}} ? {truth}{element(library, dtype, 'p', 'i.s{k}')} : {_zero(dtype)}")
    parameters = f"const {space} {memory_type(dtype)} *p, {library.index}{dtype.lanes} i, char{dtype.lanes} m"
    return _function(t, name, parameters, f"({t})({lanes})")


def _scatter_masked(library: Library, name: str, dtype: DType, space: str) -> str:
    t, truth = value_type(dtype), "-" if dtype.is_bool else ""
    lines = [
        f"if (m.s{k:x}) {put(library, dtype, 'p', f'i.s{k:x}', f'{truth}x.s{k:x}')};" for k in range(dtype.lanes)
    ]  # fmt: skip
    parameters = f"{space} {memory_type(dtype)} *p, {library.index}{dtype.lanes} i, {t} x, char{dtype.lanes} m"
    return _function("void", name, parameters, *lines)


def _select(_: Library, name: str, dtype: DType) -> str:
    t, mask = value_type(dtype), mask_type(dtype)
    condition = "m" if mask == f"char{dtype.lanes}" else f"convert_{mask}(m)"
    return _function(t, name, f"char{dtype.lanes} m, {t} a, {t} b", f"{condition} ? a : b")


_FUNCTIONS: dict[str, Callable[..., str]] = {
    "maximum": _extreme(">"),
    "minimum": _extreme("<"),
    "truncdiv": _truncdiv,
    "truncmod": _truncmod,
    "floordiv": _floordiv,
    "floormod": _floormod,
    "shift_left": _shift("<<"),
    "shift_right": _shift(">>"),
    "rounded": _rounded,
    "rounded_once": _rounded_once,
    "bits": _bits,
    "from_bits": _from_bits,
    "sigmoid": _sigmoid,
    "multiply_add": _multiply_add,
    "dot4_u8i8": _dot4,
    "dot2_bf16": _dot2,
    "flushed": _flushed,
    "first": _first,
    "load_masked": _load_masked,
    "store_masked": _store_masked,
    "gather": _gather,
    "gather_masked": _gather_masked,
    "scatter_masked": _scatter_masked,
    "select": _select,
    **{f"reduce_{op}": _reduction(op) for op in _COMBINED},
}
