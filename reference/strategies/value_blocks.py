"""Kinds of blocks with one store of an unusual value or index: looked up, wrapped, from a long table, an intrinsic."""

from __future__ import annotations

from hypothesis import strategies as st

from minitvm.expr import Cast, DType, Expr, Max, Min, Range, Select, Var, binary, call, const
from minitvm.tir.nodes import Buffer, BufferRegion, BufferStore, For, ForKind, Seq, Stmt

from .blocks import Body, Program, nest_of, region
from .expressions import Draw, exprs

INDEX_DTYPES = ("int32", "uint8", "int8", "int64", "int16", "uint32")


def lookup(draw: Draw, program: Program, source: Buffer) -> None:
    """Add out[i, ..] = source[J[i], ..], where the index J is written first, in a separate nest or in the same
    block.
    """
    length = source.shape[0].value  # type: ignore[attr-defined]
    index = program.output([const(draw(st.sampled_from([4, 3, 5, 8])))], draw(st.sampled_from(INDEX_DTYPES)))
    output = program.output([index.shape[0], *source.shape[1:]])
    factor, shift, together = draw(st.integers(1, 3)), draw(st.integers(0, 3)), draw(st.booleans())
    whole = (const(0, source.shape[0].dtype), source.shape[0])

    def write(i: Expr) -> Stmt:
        number = i * factor if factor > 1 else i
        return BufferStore(index, Cast(index.dtype, (number + shift if shift else number) % length), (i,))

    def read(i: Expr, *rest: Expr) -> Stmt:
        return BufferStore(output, source[(index[i], *rest)], (i, *rest))

    if not together:
        nest_of(program, index.name, [index.shape[0]], "S", lambda i: Body(write(i), [], [region(index, i)]))
        spatial = "S" * output.ndim
        nest_of(program, output.name, output.shape, spatial, lambda i, *v: Body(
            read(i, *v), [region(index, i), region(source, whole, *v)], [region(output, i, *v)]
        ))  # fmt: skip
        return

    def both(i: Expr) -> Body:
        inner = [Var(f"z{k}", d.dtype) for k, d in enumerate(source.shape[1:])]
        stmt = read(i, *inner)
        for loop, extent in reversed(list(zip(inner, source.shape[1:], strict=True))):
            stmt = For(loop, const(0, extent.dtype), extent, ForKind.SERIAL, stmt)
        rest = [(const(0, d.dtype), d) for d in source.shape[1:]]
        return Body(Seq.of(write(i), stmt), [region(source, whole, *rest), region(index, i)],
                    [region(index, i), region(output, i, *rest)])  # fmt: skip

    nest_of(program, output.name, [index.shape[0]], "S", both)


def long_table(draw: Draw, program: Program, source: Buffer) -> None:
    """Add out = source + T[J[..]], where T is longer than the dtype of J can count; J may be clamped in that dtype."""
    length = draw(st.sampled_from([130, 200, 256, 300]))
    dtype = DType(draw(st.sampled_from(["int8", "uint8", "int16"])))
    table, index = program.input([const(length)]), program.input([source.shape[-1]], str(dtype))
    output, kind = program.output(source.shape), draw(st.sampled_from(["clamped", "moved"]))
    top = min(length - 1, int(dtype.max))

    def body(*v: Expr) -> Body:
        number = index[v[-1]]
        if kind == "clamped":
            place = binary(Max, binary(Min, number, const(top, dtype)), const(0, dtype))
        else:
            wide = Cast(DType("int32"), number) + 128
            place = binary(Max, binary(Min, wide, const(length - 1)), const(0))
        reads = [region(source, *v), region(index, v[-1]), BufferRegion(table, (Range(const(0), const(length)),))]
        return Body(BufferStore(output, source[v] + table[place], v), reads, [region(output, *v)])

    nest_of(program, output.name, source.shape, "S" * source.ndim, body)


def narrowed(draw: Draw, program: Program, source: Buffer) -> None:
    """Add out = source, converted through a dtype in which multiples of it (or of its index) wrap."""
    output, dtype, wide = program.output(source.shape), DType(program.dtype), DType("int64")

    def wrapped(e: Expr) -> Expr:
        narrow = DType(draw(st.sampled_from(["int32", "int32", "int8", "int16", "uint8", "uint16"])))
        # Within a few steps of the ends, so that most extents suffice to wrap.
        factor = draw(st.sampled_from([(1 << (narrow.bits - 1)) - 1, (1 << (narrow.bits - 2)) + 1, 37]))
        product = Cast(wide, e) * const(factor, wide)
        return Cast(narrow, product + draw(st.integers(-2, 2)) if draw(st.booleans()) else product)

    def body(*v: Expr) -> Body:
        value: Expr = source[v]
        if draw(st.booleans()):
            low = const(0 if dtype.kind == "uint" else -9, dtype)
            small = wrapped(binary(Max, binary(Min, value, const(9, dtype)), low))
            value = Cast(dtype, small % const(7, small.dtype))
        for _ in range(draw(st.integers(1, 3))):
            place = wrapped(draw(st.sampled_from(v)))
            middle = const(place.dtype.max // 2 if place.dtype.kind == "uint" else 0, place.dtype)
            above = draw(st.booleans())
            value = value + Select(place > middle if above else place < middle, const(1, dtype), const(0, dtype))
        return Body(BufferStore(output, value, v), [region(source, *v)], [region(output, *v)])

    nest_of(program, output.name, source.shape, "S" * source.ndim, body)


# Intrinsics that round: `check` compares them up to rounding, in its bound mode.
ROUNDING = (
    "exp", "exp2", "exp10", "log", "log2", "log10", "log1p", "sqrt", "rsqrt", "sin", "cos", "tan", "asin", "acos",
    "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "sigmoid", "erf", "pow", "atan2", "hypot",
)  # fmt: skip


def intrinsic(draw: Draw, program: Program, source: Buffer) -> None:
    """Add out = an expression of source with intrinsics that do not round."""
    output = program.output(source.shape)

    def body(*v: Expr) -> Body:
        low = 0 if program.dtype.startswith("u") else -3
        value = draw(exprs([source[v]], program.dtype, 2, constants=(low, 3), intrinsics=True))
        return Body(BufferStore(output, value, v), [region(source, *v)], [region(output, *v)])

    nest_of(program, output.name, source.shape, "S" * source.ndim, body)


def rounding(draw: Draw, program: Program, source: Buffer) -> None:
    """Add out = a rounding function of source, where it is defined; for integers, source itself."""
    output, dtype = program.output(source.shape), DType(program.dtype)
    names = draw(st.lists(st.sampled_from(ROUNDING), min_size=1, max_size=2))

    def body(*v: Expr) -> Body:
        value: Expr = source[v]
        for name in names if dtype.is_float else ():
            limits = (-0.5, 0.5) if name in ("asin", "acos", "atanh") else (1.0, 3.0)
            value = binary(Max, binary(Min, value, const(limits[1], dtype)), const(limits[0], dtype))
            two = name in ("pow", "atan2", "hypot")
            value = call(name, value, const(2, dtype)) if two else call(name, value)
        return Body(BufferStore(output, value, v), [region(source, *v)], [region(output, *v)])

    nest_of(program, output.name, source.shape, "S" * source.ndim, body)


VALUES = {
    "lookup": lookup, "long_table": long_table, "narrowed": narrowed, "intrinsic": intrinsic, "rounding": rounding,
}  # fmt: skip
