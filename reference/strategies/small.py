"""Hypothesis strategy: programs of ten lines, each about one thing that is rare in large random programs.

    shifted        loops of all kinds that do not start at 0, and conditions on their ends
    empty_inside   loops with a constant or open extent of 0 or less, next to and inside others
    beside         parallel loops in a row over parts of buffers, with any start and extent, also empty
    thread_sums    reductions by threads over one or two axes, under predicates, into elements written before
    rewritten      a value that a neighbour reads changes: an index, a bound, a condition
    wide_init      an init that writes more elements than the sum under it
    lanes          reductions in lanes, also of 64-bit integers, and comparisons that NaN decides
    scratch        storage that each iteration of a loop allocates, in loops of all kinds with any start
    vectors        rows copied through storage in vectors with steps, of which only a part is used
    cut            loops with any start, under conditions that hold for a part of them
    shared         threads that write and read neighbours in shared storage, in loops of any extent and under conditions

They are whole functions in TVMScript text, so a failing program prints as it was drawn.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from minitvm.tir.nodes import PrimFunc
from minitvm.tir.script.source import from_source

from .expressions import Draw

DTYPES = ("float32", "int32", "int64", "float64")


def _read(text: str) -> PrimFunc:
    func = from_source("@T.prim_func\n" + text.strip("\n") + "\n")
    assert isinstance(func, PrimFunc)
    return func


def _indented(lines: str, depth: int) -> str:
    return "\n".join("    " * depth + line for line in lines.strip("\n").split("\n"))


def shifted(draw: Draw) -> PrimFunc:
    """Draw B = A, and then, in a part of B, the row, the column, or a neighbour in A."""
    first, second = draw(st.integers(0, 3)), draw(st.integers(0, 3))
    rows, columns = draw(st.integers(1, 4)), draw(st.sampled_from([1, 3, 4, 8, 9]))
    kinds = ["range", "range", "T.parallel", "T.unroll"]
    outer, inner = draw(st.sampled_from(kinds)), draw(st.sampled_from([*kinds, "T.vectorized"]))
    dtype = draw(st.sampled_from(DTYPES))
    triangle = inner == "range" and draw(st.booleans())
    start = f"i - {first} + {second}" if triangle else f"{second}"
    limit = draw(st.integers(second, second + columns))
    guard = draw(st.sampled_from(["", f"j < {limit}", f"j >= {limit}", f"i + j != {first + limit}", f"i > {first}"]))
    value = f"A[i, j] * T.cast(2, '{dtype}') + A[i - {first}, j - {second}] + T.cast(i * 3 + j, '{dtype}')"
    body = f"if {guard}:\n    B[i, j] = {value}" if guard else f"B[i, j] = {value}"
    shape = f"T.Buffer(({first + rows}, {second + columns}), '{dtype}')"
    return _read(f"""
def main(A: {shape}, B: {shape}):
    for x, y in T.grid({first + rows}, {second + columns}):
        B[x, y] = A[x, y]
    for i in {outer}({first}, {first + rows}):
        for j in {inner}({start}, {second + columns}):
{_indented(body, 3)}
""")


def empty_inside(draw: Draw) -> PrimFunc:
    """Draw loops of which one may be empty: next to others, inside a parallel loop, or between two uses of scratch."""
    is_open, less = draw(st.booleans()), draw(st.integers(0, 3))
    few = draw(st.sampled_from([f"n - {less}", f"n // 2 - {less}", f"n % 4 - {less}"])) if is_open else (
        str(draw(st.integers(-2, 2)))
    )  # fmt: skip
    kind, scope = draw(st.sampled_from(["range", "T.parallel"])), draw(st.sampled_from(["local", "global"]))
    form = draw(st.sampled_from(["inside", "beside", "between", "before a sum", "a sum", *["divided"] * is_open]))
    c = draw(st.integers(1, 3))
    body = {
        "inside": f"""
for i in {kind}(4):
    B[i] = T.float32({c})
    for j in range({few}):
        B[i] = B[i] + A[j] * T.float32(2)
""",
        "divided": f"""
for i in {kind}(4):
    B[i] = T.float32({c})
for i in {kind}(T.min(n, 4)):
    if {c + 5} // n > {less}:
        B[i] = A[i] + T.float32(1)
""",
        "beside": f"""
for i in {kind}(4):
    B[i] = T.float32({c})
for i in {kind}(T.min({few}, 4)):
    B[i] = A[i] + T.float32(1)
for i in {kind}(4):
    B[i] = B[i] * T.float32(2)
""",
        "between": f"""
for i in {kind}(4):
    with T.block("row"):
        vi = T.axis.spatial(4, i)
        S = T.alloc_buffer((2,), scope="{scope}")
        S[0] = A[0] + T.cast(vi, "float32")
        for j in range({few}):
            S[0] = S[0] + A[j]
        S[1] = S[0] * T.float32({c})
        B[vi] = S[1] - S[0]
""",
        "a sum": f"""
for x in range(4):
    B[x] = T.float32(9)
for i in {kind}(4):
    for j in range({few}):
        with T.block("sum"):
            vi = T.axis.spatial(4, i)
            vj = T.axis.reduce({"n" if is_open else "4"}, j)
            with T.init():
                B[vi] = T.float32({c})
            B[vi] = B[vi] + A[vj]
""",
        "before a sum": f"""
for i in {kind}(4):
    B[i] = A[0]
    for j in range({few}):
        for k in range(3):
            if k == 0:
                B[i] = T.float32({c})
            B[i] = B[i] + A[j]
""",
    }[form]
    return _of_four(body, is_open)


def _of_four(body: str, is_open: bool) -> PrimFunc:
    """Return a program with this body that reads A, of four or n elements, and writes four elements of B."""
    if not is_open:
        return _read(f'def main(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):\n{_indented(body, 1)}')
    return _read(f"""
def main(a: T.handle, B: T.Buffer((4,), "float32")):
    n = T.int32(is_size_var=True)
    A = T.match_buffer(a, (n,), "float32")
{_indented(body, 1)}
""")


def beside(draw: Draw) -> PrimFunc:
    """Draw parallel loops in a row, each over a part of a buffer, independent or depending on each other."""
    is_open, lines = draw(st.booleans()), ""
    form = draw(st.sampled_from(["any", "any", "the third reads the first", "the first may have none", "a triangle"]))
    if form == "the third reads the first":
        first, second, third = draw(st.permutations("BCD"))
        for target, source, place in ((first, "A", "i"), (second, "A", "i"), (third, first, "2 - i")):
            lines += (
                f"for i in T.parallel(3):\n    {target}[i] = {source}[{place}] + T.float32({draw(st.integers(1, 3))})\n"
            )
    if form == "a triangle":
        lines += "for i in T.parallel(2):\n    for j in T.parallel(i + 2):\n"
        lines += "        B[i * 3 + j] = A[i * 3 + j] * T.float32(5)\n"
    if form == "the first may have none":
        is_open, less = True, draw(st.integers(1, 3))
        lines += f"for i in T.parallel(n - {less}):\n    if i < 6:\n        B[i] = A[i] + T.float32(1)\n"
    for number in range(draw(st.integers(2, 4)) if form == "any" else draw(st.integers(1, 2))):
        start, there, here = draw(st.sampled_from([0, 0, 0, 1])), draw(st.integers(0, 1)), draw(st.integers(0, 1))
        if is_open and draw(st.integers(0, 3)) == 0:
            start = f"s{number}"
            lines += f"{start}: T.int32 = {draw(st.sampled_from(['n % 2', 'T.min(n, 1)']))}\n"
        target, source = draw(st.sampled_from("BCD")), draw(st.sampled_from("AABCD"))
        here = there if source == target else here  # else iterations of one loop would meet
        few = draw(st.sampled_from(["2", "3", "1", "0", "-1"]))
        if is_open:
            few = draw(st.sampled_from([few, "T.min(n - 2, 3)", "T.min(n // 2, 3)", "n % 4"]))
        lines += f"for i in T.parallel({start}, {start} + {few}):\n"
        lines += f"    {target}[i + {there}] = {source}[i + {here}] + T.float32({number + 1})\n"
    buffers = ", ".join(f'{name}: T.Buffer((6,), "float32")' for name in "ABCD")
    fill = "".join(f"        {name}[x] = A[x] * T.float32({k + 2})\n" for k, name in enumerate("BCD"))
    fill = f"    for x in range(6):\n{fill}"
    if not is_open:
        return _read(f"def main({buffers}):\n{fill}{_indented(lines, 1)}")
    return _read(f"""
def main({buffers}, sized: T.handle):
    n = T.int32(is_size_var=True)
    N = T.match_buffer(sized, (n,), "float32")
    for x in range(n):
        N[x] = T.float32(0)
{fill}{_indented(lines, 1)}
""")


_OPERATORS = {"sum": "{} + {}", "max": "T.max({}, {})", "min": "T.min({}, {})"}


def _identity(name: str, dtype: str) -> str:
    return "0" if name == "sum" else f"T.{'min' if name == 'max' else 'max'}_value('{dtype}')"


def thread_sums(draw: Draw) -> PrimFunc:
    """Draw a reduction by the threads of a block, over one or two axes, under a predicate, into elements written
    before.
    """
    name, dtype = draw(st.sampled_from(sorted(_OPERATORS))), draw(st.sampled_from(DTYPES))
    x, y, turns = draw(st.sampled_from([2, 3, 4, 8, 32, 33])), draw(st.sampled_from([1, 2, 3])), draw(st.integers(1, 2))
    two, before = draw(st.booleans()), draw(st.booleans())
    total = x * turns
    most = max(1, total - 1)
    conditions = [f"t + k * {x} < {most}", "t >= 1", "k >= 1", f"t + k * {x} != 1"]
    where = draw(st.sampled_from(["", *(f"T.where({condition})" for condition in conditions)]))
    if where == "T.where(k >= 1)" and turns == 1:
        where = ""
    y = y if two else 1
    first = draw(st.integers(0, turns - 1))
    before = before or bool(where) or first > 0  # a first step that does not run starts nothing
    second = f"for s in T.thread_binding({y}, thread='threadIdx.y'):" if two else "for s in range(1):"
    combined = _OPERATORS[name].format("B[vi]", "A[vi, vs, vk]")
    start = draw(st.integers(1, 7))
    fill = f"    for i in range(2):\n        B[i] = T.cast({start}, '{dtype}')\n" if before else ""
    return _read(f"""
def main(A: T.Buffer((2, {y}, {total}), '{dtype}'), B: T.Buffer((2,), '{dtype}')):
{fill}    for b in T.thread_binding(2, thread='blockIdx.x'):
        {second}
            for t in T.thread_binding({x}, thread='threadIdx.x'):
                for k in range({first}, {turns}):
                    with T.block("B"):
                        vi = T.axis.spatial(2, b)
                        vs = T.axis.reduce({y}, s)
                        vk = T.axis.reduce({total}, t + k * {x})
                        {where or "T.where(True)"}
                        with T.init():
                            B[vi] = T.cast({_identity(name, dtype)}, '{dtype}')
                        B[vi] = {combined}
""")


def rewritten(draw: Draw) -> PrimFunc:
    """Draw two readers of an index, a bound or a condition in memory, which changes between or during the reads."""
    form = draw(st.sampled_from(["index", "bound", "condition", "used up"]))
    scope, kind = (
        draw(st.sampled_from(["global", "local"])),
        draw(st.sampled_from(["range", "T.unroll", "T.vectorized"])),
    )
    f, s, g = (draw(st.integers(0, 3)) for _ in range(3))
    inside = draw(st.booleans())
    first = {
        "index": f"B[i] = A[J[{'i' if scope == 'global' else '0'}] % 4]",
        "bound": "for j in range(T.min(J[0], 4)):\n    B[i] = B[i] + A[j]",
        "condition": "if J[0] > 1:\n    B[i] = A[i]",
        "used up": "for j in range(3):\n    if J[0] > 0:\n        B[i] = B[i] + A[j]\n        J[0] = J[0] - 1",
    }[form]
    write = f"J[{{}}] = ({{}} * {f} + {s}) % 4"
    again = f"J[{draw(st.sampled_from(['0', '3', '{}']))}] = (J[{{}}] + {g}) % 4"
    if inside:  # all of it in each iteration
        lines = f"for i in range(4):\n    B[i] = A[3 - i]\n    {write.format('i', 'i')}\n    J[0] = J[i]\n"
        lines += _indented(first, 1) + f"\n    {again.format('i', 'i')}\n" + _indented(first.replace("B", "C"), 1)
        lines = lines.replace("for i in range(4):\n", "for i in range(4):\n    C[i] = A[i]\n")
    else:
        kind = "range" if form != "index" else kind
        lines = f"for i in range(4):\n    B[i] = A[3 - i]\n    C[i] = A[i]\n    {write.format('i', 'i')}\n"
        lines += f"for i in {kind}(4):\n" + _indented(first, 1)
        lines += f"\nfor i in range(4):\n    {again.format('i', 'i')}\nfor i in {kind}(4):\n"
        lines += _indented(first.replace("B", "C"), 1)
    return _read(f"""
def main(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32"), C: T.Buffer((4,), "float32")):
    J = T.alloc_buffer((4,), "int32", scope="{scope}")
{_indented(lines, 1)}
""")


def wide_init(draw: Draw) -> PrimFunc:
    """Draw rows that are all initialised, where a predicate leaves some without a sum, and perhaps a use of them."""
    rows, columns = draw(st.integers(2, 5)), draw(st.integers(2, 9))
    dtype, name = draw(st.sampled_from(DTYPES)), draw(st.sampled_from(sorted(_OPERATORS)))
    limit = draw(st.integers(1, max(rows, columns) - 1))
    condition = draw(st.sampled_from([f"i < {limit}", f"k < {limit}", f"i + k < {limit}", f"k >= {limit}", "M[i] > 0",
                                      "M[i] > k", "i != k"]))  # fmt: skip
    outer = draw(st.sampled_from(["range", "T.parallel"]))
    inner = draw(st.sampled_from(["range", "T.unroll"]))
    combined = _OPERATORS[name].format("B[{0}]", "A[{0}, {1}]")
    start = draw(st.integers(0, 3))
    reader, changes = draw(st.sampled_from(["", "", "", "before", "after"])), draw(st.integers(0, 3)) == 3
    begin = "M[{0}]" if changes else str(start)
    step = f"""
if k == 0:
    B[i] = T.cast({begin.format("i")}, '{dtype}')
if {condition}:
    B[i] = {combined.format("i", "k")}
"""
    if draw(st.booleans()):  # as a block: under a predicate, or with the condition in the update
        value = combined.format("vi", "vk")
        of_iterators = re.sub(r"\b([ik])\b", r"v\1", condition)
        where = draw(st.booleans()) and not condition.startswith("M")
        update = f"B[vi] = {value}" if where else f"if {of_iterators}:\n    B[vi] = {value}"
        step = f"""
with T.block("B"):
    vi = T.axis.spatial({rows}, i)
    vk = T.axis.reduce({columns}, k)
    {f"T.where({condition})" if where else "T.where(True)"}
    with T.init():
        B[vi] = T.cast({begin.format("vi")}, '{dtype}')
{_indented(update, 1)}
"""
    shapes = {"A": f"({rows}, {columns}), '{dtype}'", "N": f"({rows},), 'int32'", "B": f"({rows},), '{dtype}'"}
    shapes |= {"M": f"({rows},), 'int32'", "C": f"({rows}, {columns}), '{dtype}'"}
    header = ", ".join(f"{buffer}: T.Buffer({shape})" for buffer, shape in shapes.items())
    cut = draw(st.sampled_from([columns, columns // 2]))  # the second loop goes on with what the first begins
    filled = bool(reader) or draw(st.booleans()) or ("T.where(T" not in step and "block" in step)
    if reader:
        step = f"C[i, k] = B[i]\n{step.strip()}" if reader == "before" else f"{step.strip()}\nC[i, k] = B[i]"
    if changes:
        step = f"M[i] = M[i] + 1\n{step.strip()}"
    fill = f"    for i in range({rows}):\n        B[i] = T.cast(9, '{dtype}')\n" if filled else ""
    return _read(f"""
def main({header}):
    for i in range({rows}):
        M[i] = N[i]
        for k in range({columns}):
            C[i, k] = A[i, k]
{fill}    for i in {outer}({rows}):
        for k in {inner}({cut}):
{_indented(step, 3)}
        for k in {inner}({cut}, {columns}):
{_indented(step, 3)}
    for i in range({rows}):
        B[i] = B[i] * T.cast(2, '{dtype}')
""")


def lanes(draw: Draw) -> PrimFunc:
    """Draw a reduction of a row in lanes, then a choice by comparisons that are opposites except for NaN."""
    dtype, name = draw(st.sampled_from(DTYPES)), draw(st.sampled_from(sorted(_OPERATORS)))
    first = draw(st.sampled_from([0, 0, 1, 3]))
    columns, width = draw(st.sampled_from([1, 3, 4, 7, 8, 16, 17])), draw(st.sampled_from([2, 4, 8]))
    a, b = draw(st.permutations(["A[vi, vk]", "W[vk]"]))
    relation = draw(st.sampled_from(["<", "<=", ">", ">=", "==", "!="]))
    compared = draw(st.sampled_from(["{} {} {}", "not ({} {} {})"])).format(a, relation, b)
    value = draw(st.sampled_from(["A[vi, vk]", f"T.Select({compared}, {a}, {b})",
                                  f"T.Select({compared}, {a}, T.cast(1, '{dtype}'))"]))  # fmt: skip
    operator, start = _OPERATORS[name], _identity(name, dtype)
    if columns <= 4 and draw(st.booleans()):  # a longer product is no small number
        operator, start = "{} * {}", "1"
    columns += first
    return _read(f"""
def main(A: T.Buffer((2, {columns}), '{dtype}'), W: T.Buffer(({columns},), '{dtype}'), B: T.Buffer((2,), '{dtype}')):
    for i in range(2):
        for k in T.serial({first}, {columns}, annotations={{"vector_reduction": {width}}}):
            with T.block("B"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    B[vi] = T.cast({start}, '{dtype}')
                B[vi] = {operator.format("B[vi]", value)}
""")


def scratch(draw: Draw) -> PrimFunc:
    """Draw rows computed through storage allocated in the row's loop, then in the element's loop, with any start and
    extent.
    """
    first, second, rows = draw(st.integers(0, 3)), draw(st.integers(0, 3)), draw(st.integers(1, 4))
    kinds = ["range", "T.parallel", "T.parallel", "T.unroll"]
    outer, inner = draw(st.sampled_from(kinds)), draw(st.sampled_from(["range", "T.unroll", "T.vectorized"]))
    scope, own = (draw(st.sampled_from(["global", "local"])) for _ in range(2))
    dtype, c = draw(st.sampled_from(DTYPES)), draw(st.integers(1, 3))
    end, stop = f"{first + rows}", f"{second + draw(st.sampled_from([1, 2, 4, 8]))}"
    if draw(st.booleans()):
        end, outer = "n", "range" if outer == "T.unroll" else outer
    if draw(st.booleans()):  # then a row's storage is no array on a stack
        stop, inner = "m", "range"
    columns = f"{inner}({second}, {stop})"
    return _read(f"""
def main(a: T.handle, b: T.handle, sized: T.handle):
    n = T.int32(is_size_var=True)
    m = T.int32(is_size_var=True)
    A = T.match_buffer(a, ({end}, {stop}), "{dtype}")
    B = T.match_buffer(b, ({end}, {stop}), "{dtype}")
    N = T.match_buffer(sized, (n, m), "float32")
    for x, y in T.grid({end}, {stop}):
        B[x, y] = A[x, y]
    for i in {outer}({first}, {end}):
        with T.block("row"):
            vi = T.axis.spatial(({first}, {end}), i)
            S = T.alloc_buffer((2, {stop}), "{dtype}", scope="{scope}")
            for j in {columns}:
                S[0, j - {second}] = A[vi, j] + T.cast(vi * {c}, "{dtype}")
            for j in {columns}:
                S[1, j - {second}] = S[0, {stop} - 1 - j] * T.cast(2, "{dtype}")
            for j in {columns}:
                with T.block("element"):
                    vj = T.axis.spatial(({second}, {stop}), j)
                    R = T.alloc_buffer((2,), "{dtype}", scope="{own}")
                    R[0] = S[1, vj - {second}] - S[0, vj - {second}]
                    R[1] = R[0] * T.cast({c}, "{dtype}")
                    B[vi, vj] = R[1] + R[0]
    for x, y in T.grid(n, m):
        N[x, y] = T.float32(0)
""")


def vectors(draw: Draw) -> PrimFunc:
    """Draw rows copied through storage that is written in vectors, with steps and offsets, and read as vectors or
    elements.
    """
    first, rows, lanes = draw(st.integers(0, 2)), draw(st.integers(1, 3)), draw(st.sampled_from([2, 4, 8]))
    step, parts, dtype = draw(st.sampled_from([1, 1, 2, 3])), draw(st.integers(1, 3)), draw(st.sampled_from(DTYPES))
    outer, inner = draw(st.sampled_from(["range", "T.parallel"])), draw(st.sampled_from(["range", "T.unroll"]))
    before, scope = draw(st.sampled_from([0, 3])), draw(st.sampled_from(["global", "local"]))
    span = lanes * parts * step
    size = before + (first + rows) * span
    place = f"{before} + vi * {span} + j * {lanes * step}"
    value = f"A[T.Ramp(vi * {span} + j * {lanes * step}, {step}, {lanes})]"
    if draw(st.booleans()):
        value = f"{value} * T.Broadcast(T.cast(3, '{dtype}'), {lanes})"
    ramp = f"T.Ramp({place}, {step}, {lanes})"
    if draw(st.booleans()):
        ramp = f"T.Broadcast({place} + {lanes * step - step}, {lanes}) - T.Ramp(0, {step}, {lanes})"
    last = f"{before} + vi * {span} + {(lanes * parts - 1) * step} - k * {step}"
    read = f"for k in range({lanes * parts}):\n    B[vi * {span} + k * {step}] = S[{last}] + T.cast(k, '{dtype}')"
    if draw(st.booleans()):
        read = f"for j in range({parts}):\n    B[T.Ramp(vi * {span} + j * {lanes * step}, {step}, {lanes})] = S[{ramp}]"
    return _read(f"""
def main(A: T.Buffer(({size},), '{dtype}'), B: T.Buffer(({size},), '{dtype}')):
    for x in range({size}):
        B[x] = A[x]
    for i in {outer}({first}, {first + rows}):
        with T.block("row"):
            vi = T.axis.spatial(({first}, {first + rows}), i)
            S = T.alloc_buffer(({size},), "{dtype}", scope="{scope}")
            for j in {inner}({parts}):
                S[{ramp}] = {value}
{_indented(read, 3)}
""")


def cut(draw: Draw) -> PrimFunc:
    """Draw loops with any start under conditions that hold for a part of them, some through lets or memory."""
    first, second, rows = draw(st.integers(0, 3)), draw(st.integers(0, 3)), draw(st.integers(1, 5))
    columns, c = draw(st.sampled_from([2, 3, 4, 8, 9])), draw(st.integers(1, 3))
    outer = draw(st.sampled_from(["range", "T.parallel", "T.unroll"]))
    inner, stop = draw(st.sampled_from(["range", "T.unroll", "T.vectorized"])), f"{second + columns}"
    if draw(st.booleans()):
        inner, stop = "range", draw(st.sampled_from(["n", "n", "n - 1", "n // 2 + 2"]))
    counts = outer == inner == "range" and draw(st.integers(0, 2)) == 2  # M[0] changes while the loops run

    def condition() -> str:
        p, q, limit = (draw(st.integers(low, high)) for low, high in ((0, 3), (1, 3), (0, 12)))
        linear = [f"i * {p} + j * {q} < {limit}", f"t + j * {q} <= {limit}", f"{limit} - j * {q} > i",
                  f"j * {q} >= {limit}", f"j * {q} > t + {limit - 6}", f"i * {q} - j > {limit - 8}"]  # fmt: skip
        others = [*[f"j * {q} + j // 2 < {limit}"] * 3, f"(i + j) % 3 < {q}", "j // 2 < i", f"n > {limit}",
                  f"i < M[0] and j * {q} < {limit}", f"i != {first + p} or j > {limit}", f"t < {limit}"]  # fmt: skip
        return draw(st.sampled_from(linear if draw(st.integers(0, 2)) else others))

    body = f"B[i, j] = A[i, j] + T.cast(i * {c} + j, 'float32')"
    if counts:
        body += f"\nM[0] = (M[0] + {c}) % 7"
    body = f"if {'j < M[0]' if counts and draw(st.booleans()) else condition()}:\n{_indented(body, 1)}"
    if draw(st.integers(0, 3)) == 3:
        body = f"if {condition()}:\n{_indented(body, 1)}"
    if draw(st.integers(0, 7)) == 7:
        body += f"\nelse:\n    B[i, j] = A[i, j] * T.float32({c})"
    loop = f"for j in {inner}({second}, {stop}):\n{_indented(body, 1)}"
    around = condition() if draw(st.booleans()) else ""
    if around and not re.search(r"\bj\b", around):
        loop = f"if {around}:\n{_indented(loop, 1)}"
    return _read(f"""
def main(a: T.handle, b: T.handle, sized: T.handle):
    n = T.int32(is_size_var=True)
    N = T.match_buffer(sized, (n,), "float32")
    A = T.match_buffer(a, ({first + rows}, n + {second + columns}), "float32")
    B = T.match_buffer(b, ({first + rows}, n + {second + columns}), "float32")
    M = T.alloc_buffer((1,), "int32")
    M[0] = {draw(st.integers(0, 6))}
    for x in range(n):
        N[x] = T.float32(1)
    for x, y in T.grid({first + rows}, n + {second + columns}):
        B[x, y] = A[x, y] * T.float32(2)
    for i in {outer}({first}, {first + rows}):
        t: T.int32 = i * {draw(st.integers(1, 3))} - {draw(st.integers(-2, 4))}
{_indented(loop, 2)}
""")


def shared(draw: Draw) -> PrimFunc:
    """Draw threads that write parts of shared storage and read their neighbours' parts, in loops and under
    conditions.
    """
    n, parts = draw(st.sampled_from([2, 4, 5, 8])), draw(st.integers(2, 3))
    neighbours = ["t", f"(t + 1) % {n}", f"{n - 1} - t", "T.max(t - 1, 0)", "0", f"{n - 1}", "t // 2"]

    def statement(loop: bool) -> str:
        touched = range(draw(st.integers(2, parts)))  # so that a loop may leave one part alone
        target = draw(st.sampled_from([*touched, "B"]))
        source = draw(st.sampled_from([k for k in touched if k != target]))
        there, c = draw(st.sampled_from(neighbours)), draw(st.integers(1, 3))
        turns = loop and target != "B" and parts == 2 and draw(st.booleans())
        place = lambda part: f"(k + {part}) % 2" if turns else part  # noqa: E731
        value = f"S[{place(source)}, {there}] + T.float32({c})"
        line = f"B[t] = B[t] + {value}" if target == "B" else f"S[{place(target)}, t] = {value}"
        conditions = ["", "", "", f"t < {draw(st.integers(1, n))}", "t > 0", "N[0] > 0", *(["k > 0"] if loop else [])]
        condition = draw(st.sampled_from(conditions))
        if not condition:
            return line
        both = f"if {condition}:\n    {line}"
        return (
            f"{both}\nelse:\n    S[{target}, t] = A[t]" if target != "B" and not turns and draw(st.booleans()) else both
        )

    lines = [f"S[{part}, t] = A[t] * T.float32({part + 1})" for part in range(parts)] + ["B[t] = T.float32(0)"]
    for _ in range(draw(st.integers(1, 3))):
        few = draw(st.sampled_from(["", "2", "3", "0", "N[1] % 3", "N[1] % 3"]))
        if few and parts > 2 and draw(st.booleans()):  # written right before a loop that touches other parts
            lines += [f"S[0, t] = S[1, {draw(st.sampled_from(neighbours))}]", "S[2, t] = A[t] * T.float32(5)"]
        some = [statement(bool(few)) for _ in range(draw(st.integers(1, 3)))]
        lines += [f"for k in range({few}):\n" + _indented("\n".join(some), 1)] if few else some
    lines.append(f"B[t] = B[t] + S[{draw(st.integers(0, parts - 1))}, {draw(st.sampled_from(neighbours))}]")
    body = "\n".join(lines)
    return _read(f"""
def main(A: T.Buffer(({n},), "float32"), N: T.Buffer((2,), "int32"), B: T.Buffer(({n},), "float32")):
    S = T.alloc_buffer(({parts}, {n}), "float32", scope="shared")
    for t in T.thread_binding({n}, thread="threadIdx.x"):
{_indented(body, 2)}
""")


SMALL: dict[str, Callable[[Draw], PrimFunc]] = {
    "shifted": shifted, "empty_inside": empty_inside, "beside": beside, "thread_sums": thread_sums,
    "rewritten": rewritten, "wide_init": wide_init, "lanes": lanes, "scratch": scratch, "vectors": vectors,
    "cut": cut, "shared": shared,
}  # fmt: skip


@st.composite
def small_programs(draw: Draw, kinds: tuple[str, ...] = tuple(SMALL)) -> Any:
    """Draw a program of ten lines of one of these kinds; all but `thread_sums` run on CPUs."""
    return SMALL[draw(st.sampled_from(kinds))](draw)
