"""Programs on which rfactor, decompose_reduction, padding, rolling buffers and epilogues are legal often enough."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from minitvm import from_source, te
from minitvm.expr import Expr, Node, SizeVar, const, replace, rewrite, substitute, walk
from minitvm.script import tir as T
from minitvm.tir.nodes import For, PrimFunc
from minitvm.tir.op import max as tir_max
from minitvm.tir.op import min as tir_min
from minitvm.tir.schedule import Schedule

Draw = Callable[[st.SearchStrategy[Any]], Any]

DTYPES = ("float32", "int32", "float16", "int8", "int64", "uint8")
EXTENTS = st.sampled_from([4, 3, 5, 2, 7, 1])
COMBINE: dict[str, Callable[..., Any]] = {"sum": te.sum, "prod": te.prod, "min": te.min, "max": te.max}


def arg_reducer(name: str, ties: str) -> Any:
    """argmax or argmin of (index, value): ties "kept" keep the one that came first, "first" take the smaller index."""
    largest = name == "argmax"

    def combine(x: Any, y: Any) -> tuple[Expr, Expr]:
        better = x[1] > y[1] if largest else x[1] < y[1]
        if ties == "kept":
            better = x[1] >= y[1] if largest else x[1] <= y[1]
        elif ties == "first":
            better = te.any(better, te.all(x[1] == y[1], x[0] < y[0]))
        return te.select(better, x[0], y[0]), te.select(better, x[1], y[1])

    def identity(index: Any, value: Any) -> tuple[Expr, Expr]:
        return te.const(-1, index), te.min_value(value) if largest else te.max_value(value)

    return te.comm_reducer(combine, identity, name=name)


@st.composite
def reductions(draw: Draw, epilogue: bool = False, symbolic: bool = False) -> PrimFunc:
    """One reduction over one or two axes, of 0 to 2 spatial dimensions, some with an init of their own or a condition;
    with `epilogue` something is done with the result."""
    dtype = draw(st.sampled_from(DTYPES))
    shape = [draw(EXTENTS) for _ in range(draw(st.integers(0, 2)))]
    taps: list[Any] = [draw(EXTENTS) for _ in range(draw(st.integers(1, 2)))]
    if symbolic:
        taps[0] = SizeVar("n")
    A = te.placeholder((*shape, *taps), dtype, name="A")
    axes = [te.reduce_axis((0, extent), name=name) for name, extent in zip("kl", taps)]
    where = draw(st.sampled_from([None, None, None, 2]))
    condition = None if where is None else axes[-1].var < where
    name = draw(st.sampled_from(["sum", "max", "min", "prod", "argmax", "argmin"]))
    if name.startswith("arg") and not epilogue:
        reducer = arg_reducer(name, draw(st.sampled_from(["kept", "first", "taken"])))
        position = axes[0].var
        for axis in axes[1:]:
            position = position * 7 + axis.var
        results = te.compute(
            tuple(shape), lambda *i: reducer((position, A[(*i, *(a.var for a in axes))]), axis=axes), name="R"
        )
        return te.create_prim_func([A, *results])
    reduce = COMBINE.get(name, te.sum)
    init = draw(st.sampled_from([None, None, 3]))

    def element(*i: Any) -> Any:
        return reduce(A[(*i, *(a.var for a in axes))], axis=axes, where=condition, init=init)

    R = te.compute(tuple(shape), element, name="R")
    if not epilogue:
        return te.create_prim_func([A, R])
    bias = te.placeholder((shape[-1],) if shape else (1,), dtype, name="bias")
    operation = draw(st.sampled_from(["+", "-", "max", "min", "*", "swapped", "copy"]))

    def after(*i: Any) -> Any:
        b = bias[i[-1] if i else 0]
        value = R[i]
        return {
            "+": value + b, "-": value - b, "max": tir_max(value, b), "min": tir_min(value, b), "*": value * b,
            "swapped": b + value, "copy": value,
        }[operation]  # fmt: skip

    D = te.compute(tuple(shape), after, name="D")
    return te.create_prim_func([A, bias, D])


@st.composite
def in_one_loop(draw: Draw) -> PrimFunc:
    """A reduction whose loops, or some neighbours among them, are one: sums begin in the middle of it."""
    sch = Schedule(draw(reductions()))
    loops = sch.get_loops("R")
    first = draw(st.integers(0, max(0, len(loops) - 2)))
    if len(loops) > 1:
        sch.fuse(*loops[first : draw(st.integers(first + 2, len(loops)))])
    return sch.func


@st.composite
def paddings(draw: Draw) -> PrimFunc:
    """B = A with a constant around one or two dimensions, then C = B + 1."""
    dtype = draw(st.sampled_from(DTYPES))
    inner = [draw(EXTENTS) for _ in range(draw(st.integers(1, 2)))]
    edges = [(draw(st.integers(0, 2)), draw(st.integers(0, 2))) for _ in inner]
    written = draw(st.sampled_from(["bounds", "shifted", "reversed", "multiples", "multiples taken off"]))
    times = draw(st.integers(2, 3))
    below = draw(st.integers(0, times - 1))  # a bound between two multiples
    fill = te.const(draw(st.integers(0, 3)), dtype)
    A = te.placeholder(inner, dtype, name="A")
    outer = [n + low + high for n, (low, high) in zip(inner, edges)]

    def element(*i: Any) -> Any:
        conditions = []
        for v, n, (low, _) in zip(i, inner, edges):
            conditions += {
                "bounds": [v >= low, v < low + n],
                "shifted": [v - low >= 0, v - low <= n - 1],
                "reversed": [low - 1 < v, low + n > v],
                "multiples": [v * times >= low * times - below, v * times < (low + n) * times - below],
                "multiples taken off": [below - v * times <= -low * times, (low + n) * times - below > v * times]
                if below == 0
                else [below + v * times > low * times, (low + n) * times - v * times > below],
            }[written]
        taken = A[tuple(v - low for v, (low, _) in zip(i, edges))]
        return te.if_then_else(te.all(*conditions), taken, fill)

    B = te.compute(outer, element, name="B")
    if draw(st.booleans()):
        return te.create_prim_func([A, B])
    C = te.compute(outer, lambda *i: B[i] + te.const(1, dtype), name="C")
    return te.create_prim_func([A, C])


@st.composite
def einsums(draw: Draw) -> PrimFunc:
    """A contraction of one or two operands, or an element-wise operation, in indices alone."""
    dtype = draw(st.sampled_from(DTYPES))
    m, n, k = draw(EXTENTS), draw(EXTENTS), draw(EXTENTS)
    A, B = te.placeholder((m, k), dtype, name="A"), te.placeholder((k, n), dtype, name="B")
    wide = {"int8": "int32", "float16": "float32"}.get(dtype, dtype) if draw(st.booleans()) else dtype
    axis = te.reduce_axis((0, k), name="k")
    kind = draw(st.sampled_from(["matmul", "rows", "max", "min", "prod", "map", "scaled"]))
    if kind == "map":
        C = te.compute((m, k), lambda i, j: A[i, j] * te.const(2, dtype) + te.const(1, dtype), name="C")
        return te.create_prim_func([A, C])
    if kind == "matmul":
        C = te.compute(
            (m, n), lambda i, j: te.sum(A[i, axis].astype(wide) * B[axis, j].astype(wide), axis=axis), name="C"
        )
        return te.create_prim_func([A, B, C])
    if kind == "scaled":
        C = te.compute((m,), lambda i: te.sum(A[i, axis] * te.const(3, dtype), axis=axis), name="C")
        return te.create_prim_func([A, C])
    reduce = COMBINE.get("sum" if kind == "rows" else kind, te.sum)
    C = te.compute((m,), lambda i: reduce(A[i, axis], axis=axis), name="C")
    return te.create_prim_func([A, C])


@st.composite
def rolled(draw: Draw) -> PrimFunc:
    """A producer below a loop of a consumer that reads it in windows, as terms or as a reduction, tiled or not."""
    dtype = draw(st.sampled_from(["float32", "int32", "int8"]))
    window = draw(st.integers(2, 4))
    stride = draw(st.integers(1, window - 1))  # else windows have nothing in common
    columns = draw(st.integers(1, 4))
    rows = draw(st.integers(2, 6))
    both = draw(st.booleans())
    length = (rows - 1) * stride + window
    width = columns - 1 + (window if both else 1)
    A = te.placeholder((length, width), dtype, name="A")
    B = te.compute((length, width), lambda i, j: A[i, j] * te.const(2, dtype) + te.const(1, dtype), name="B")
    if draw(st.booleans()):
        k = te.reduce_axis((0, window), name="k")
        l = te.reduce_axis((0, window if both else 1), name="l")
        reduce = draw(st.sampled_from([te.sum, te.max]))
        C = te.compute((rows, columns), lambda i, j: reduce(B[i * stride + k, j + l], axis=[k, l]), name="C")
    else:
        last = window - 1 if both else 0
        C = te.compute((rows, columns), lambda i, j: B[i * stride, j] + B[i * stride + window - 1, j + last], name="C")
    outputs = [A, C]
    if draw(st.booleans()):
        outputs = [A, te.compute((rows, columns), lambda i, j: C[i, j] + te.const(1, dtype), name="D")]
    sch = Schedule(te.create_prim_func(outputs))
    i, j, *_ = sch.get_loops("C")
    tiling = draw(st.sampled_from(["rows", "tiles", "swapped", *(["points"] if both else [])]))
    if tiling == "tiles":
        outer_i, inner_i = sch.split(i, [None, draw(st.integers(1, 3))])
        outer_j, inner_j = sch.split(j, [None, draw(st.integers(1, 3))])
        sch.reorder(outer_i, outer_j, inner_i, inner_j)
        place = draw(st.sampled_from([outer_i, outer_j]))
    elif tiling == "swapped":
        sch.reorder(j, i)
        place = i
    else:
        place = i if tiling == "rows" else j
    sch.compute_at("B", place)
    return draw(with_other_starts(sch.func))


@st.composite
def with_other_starts(draw: Draw, func: PrimFunc) -> PrimFunc:
    """The same iterations counted from another number: `for i in range(2, 10)` for `for i in range(8)`."""
    loops = [node for node in walk(func.body) if isinstance(node, For)]
    starts = {loop.var: draw(st.sampled_from([0, 0, 1, 3])) for loop in loops}

    def change(node: Node) -> Node | None:
        start = starts.get(node.var, 0) if isinstance(node, For) else 0
        if not start:
            return None
        var = node.var.with_name(node.var.name)
        body = substitute(node.body, {node.var: var - start})
        return replace(node, var=var, start=const(start, var.dtype), body=body)

    return func.with_body(rewrite(func.body, change))


def row_sums(
    rows: int = 8, columns: int = 20, dtype: str = "float32", reduce: Any = te.sum, **options: Any
) -> PrimFunc:
    A = te.placeholder((rows, columns), dtype, name="A")
    k = te.reduce_axis((0, columns), name="k")
    B = te.compute((rows,), lambda i: reduce(A[i, k], axis=k, **options), name="B")
    return te.create_prim_func([A, B])


def argmax(ties: str, shape: tuple[int, int] = (4, 12)) -> PrimFunc:
    A = te.placeholder(shape, "int32", name="A")
    k = te.reduce_axis((0, shape[1]), name="k")
    reducer = arg_reducer("argmax", ties)
    results = te.compute((shape[0],), lambda i: reducer((k.var, A[i, k]), axis=k), name="R")
    return te.create_prim_func([A, *results])


@T.prim_func
def summed_twice(A: T.Buffer((8, 4), "float32"), C: T.Buffer((8,), "float32")):
    B = T.alloc_buffer((8,))
    for i, k, _again in T.grid(8, 4, 2):
        with T.block("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                B[vi] = 0.0
            B[vi] = B[vi] + A[vi, vk]
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = B[vi]


@st.composite
def running_softmaxes(draw: Draw) -> PrimFunc:
    """A maximum and one to three sums relative to it, of elements or of rows, and what is made of them."""
    dtype = draw(st.sampled_from(["float32", "float32", "float64", "float16"]))
    n, m = draw(st.integers(1, 2)), draw(st.sampled_from([[4], [3], [5], [2, 2], [1]]))
    rows = [draw(st.sampled_from([0, 0, 2, 1])) for _ in range(draw(st.sampled_from([1, 1, 1, 2, 3])))]
    weights = [draw(st.sampled_from(["V", "V", "one"])) for _ in rows]
    js = [f"j{k}" for k in range(len(m))]
    vs = [f"v{j}" for j in js]
    where = draw(st.sampled_from([None, None, 2]))
    start = draw(st.sampled_from([f'T.min_value("{dtype}")'] * 3 + [f"T.{dtype}(0)"]))
    first = draw(st.booleans())  # the maximum is stored first
    head = [f'S: T.Buffer(({n}, {", ".join(map(str, m))}), "{dtype}")', f'M: T.Buffer(({n},), "{dtype}")']
    init, body = [f"M[vi] = {start}"], []
    for k, (row, weight) in enumerate(zip(rows, weights)):
        shape = (n, row) if row else (n,)
        head.append(f'L{k}: T.Buffer({shape if len(shape) > 1 else f"({n},)"}, "{dtype}")')
        at, around = ("vi, c", f"for c in range({row}): ") if row else ("vi", "")
        zero = draw(st.sampled_from([0, 0, 0, 0, 0, 1]))
        init.append(f"{around}L{k}[{at}] = T.{dtype}({zero})")
        factor = ""
        if weight == "V":
            head.append(f'V{k}: T.Buffer(({", ".join(map(str, [*m, *([row] if row else [])]))},), "{dtype}")')
            factor = f"V{k}[{', '.join([*vs, *(['c'] if row else [])])}] * "
            if draw(st.booleans()):
                factor = ""
                weight = f"new * V{k}[{', '.join([*vs, *(['c'] if row else [])])}]"
        new = f"{factor}new" if weight in ("V", "one") else weight
        if row == 0 and first:
            body.append(f"t{k}: T.{dtype} = L{k}[vi] * old + {new}")
            new = f"L{k}[vi] = t{k}"
        else:
            new = f"{around}L{k}[{at}] = L{k}[{at}] * old + {new}"
        body.append(new)
    lets = [line for line in body if line.startswith("t")]
    stores = [line for line in body if not line.startswith("t")]
    rest = [line for line in stores if "for c" in line], [line for line in stores if "for c" not in line]
    stores = [*rest[0], "M[vi] = top", *rest[1]] if first and not rest[0] else [*stores, "M[vi] = top"]
    condition = [f"T.where({js[-1]} < {where})"] if where is not None and where < m[-1] else []
    text = [
        "@T.prim_func",
        f"def main({', '.join(head)}):",
        f"    for {', '.join(['i', *js])} in T.grid({', '.join(map(str, [n, *m]))}):",
        '        with T.block("R"):',
        f'            {", ".join(["vi", *vs])} = T.axis.remap("S{"R" * len(m)}", [{", ".join(["i", *js])}])',
        *(f"            {line}" for line in condition),
        "            with T.init():",
        *(f"                {line}" for line in init),
        f"            top: T.{dtype} = T.max(M[vi], S[{', '.join(['vi', *vs])}])",
        f"            old: T.{dtype} = T.exp(M[vi] - top)",
        f"            new: T.{dtype} = T.exp(S[{', '.join(['vi', *vs])}] - top)",
        *(f"            {line}" for line in [*lets, *stores]),
    ]
    return from_source("\n".join(text))
