# ruff: noqa: UP037
"""Reading programs: spellings of every era, names of the surrounding scope, inferred regions."""

from __future__ import annotations

from textwrap import dedent, indent

import pytest

import minitvm as tvm
from minitvm.errors import InputError, ParseError
from minitvm.expr import IntImm, SizeVar, structural_equal
from minitvm.script import from_source
from minitvm.script import ir as I
from minitvm.script import tir as T
from minitvm.tir.nodes import Allocate, Block, BlockRealize, ForKind, If, LetStmt, PrimFunc, Seq, root_block
from minitvm.tir.script.printer import script

M, K, N = 16, 32, 8


def matmul() -> PrimFunc:
    """The program in the spelling of v0.23, with every region."""

    @T.prim_func
    def main(A: T.Buffer((16, 32), "float32"), B: T.Buffer((32, 8), "float32"), C: T.Buffer((16, 8), "float32")):
        T.func_attr({"global_symbol": "main", "tir.noalias": True})
        for i, j, k in T.grid(16, 8, 32):
            with T.block("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                T.reads(A[vi, vk], B[vk, vj])
                T.writes(C[vi, vj])
                with T.init():
                    C[vi, vj] = T.float32(0)
                C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]

    return main


def test_as_published_in_2023() -> None:
    @tvm.script.ir_module
    class MyMatMulModule:
        @T.prim_func
        def main(A: T.Buffer[(M, K), "float32"], B: T.Buffer[(K, N), "float32"], C: T.Buffer[(M, N), "float32"]):
            T.func_attr({"global_symbol": "main", "tir.noalias": True})
            for i, j, k in T.grid(M, N, K):
                with T.block("C"):
                    vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                    with T.init():
                        C[vi, vj] = 0.0
                    C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]

    assert structural_equal(MyMatMulModule["main"], matmul())


def test_handles_and_match_buffer_of_2021() -> None:
    @tvm.script.ir_module
    class Module:
        @T.prim_func
        def main(a: T.handle, b: T.handle, c: T.handle) -> None:
            T.func_attr({"global_symbol": "main", "tir.noalias": True})
            A = T.match_buffer(a, [16, 32], dtype="float32")
            B = T.match_buffer(b, (32, 8))
            C = T.match_buffer(c, (16, 8))
            for i in T.serial(0, 16):
                for j in range(8):
                    for k in T.serial(32):
                        with T.block("C"):
                            vi = T.axis.S(16, i)
                            vj = T.axis.spatial(8, j)
                            vk = T.axis.R(32, k)
                            with T.init():
                                C[vi, vj] = T.float32(0)
                            C[vi, vj] += A[vi, vk] * B[vk, vj]

    assert structural_equal(Module["main"], matmul())


def test_newest_spelling() -> None:
    text = script(matmul(), dialect="tvm-0.27")
    assert "@T.prim_func(s_tir=True)" in text
    assert 'T.func_attr({"tirx.noalias": True})' in text
    assert "T.sblock" in text
    assert structural_equal(from_source(text), matmul())


def test_names_of_enclosing_functions() -> None:
    def make(rows: int, columns: int):
        half = columns // 2

        @T.prim_func
        def main(A: T.Buffer((rows, half * 2), "float32")):
            for i, j in T.grid(rows, half):
                A[i, j * 2] = float(rows)

        return main

    func = make(3, 10)
    assert [d.value for d in func.buffers[0].shape] == [3, 10]
    assert "for i, j in T.grid(3, 5):\n        A[i, j * 2] = T.float32(3.0)" in script(func)


def test_text_with_constants_above_and_extra_variables() -> None:
    func = from_source(
        """
        from tvm.script import tir as TT
        rows = 4
        @TT.prim_func
        def scale(A: T.Buffer((rows, columns), "int32")):
            for i, j in TT.grid(rows, columns):
                A[i, j] = A[i, j] * table[1]
        """,
        {"columns": 3, "table": [5, 7]},
    )
    assert isinstance(func, PrimFunc)
    assert func.name == "scale"
    assert "A[i, j] = A[i, j] * 7" in script(func)


def body(*lines: str, parameters: str = 'A: T.Buffer((16,), "float32"), n: T.int32') -> PrimFunc:
    text = f"@T.prim_func\ndef main({parameters}):\n" + indent("\n".join(map(dedent, lines)), "    ")
    func = from_source(text)
    assert isinstance(func, PrimFunc)
    return func


def only(func: PrimFunc):
    return root_block(func).body


def text_of(func: PrimFunc) -> str:
    return "\n".join(line[4:] for line in script(func).splitlines()[4:])


def test_statements() -> None:
    func = body(
        """
        x: T.float32 = A[0]
        y = x * 2.0
        m = T.meta_var(n + 1)
        for i in T.parallel(2, 10, annotations={"a": 1}):
            if i < m and not i == 3:
                A[i] += y
            elif n > 2:
                A[i] = T.exp(A[i]) if i % 2 == 0 else -A[i]
            else:
                A[i] = T.Select(i < 4, x, T.float32("inf"))
        while A[1] < 3:
            A[1] = A[1] + 1
        assert n > 0, "n is positive"
        with T.LetStmt(n + 2) as z:
            A[z] = T.max(A[z], 0)
        pass
        """
    )
    assert text_of(func) == dedent(
        """\
        x: T.float32 = A[0]
        y: T.float32 = x * T.float32(2.0)
        for i in T.parallel(2, 10, annotations={"a": 1}):
            if i < n + 1 and not i == 3:
                A[i] = A[i] + y
            elif n > 2:
                A[i] = T.if_then_else(i % 2 == 0, T.exp(A[i]), T.float32(0.0) - A[i])
            else:
                A[i] = T.Select(i < 4, x, T.float32("inf"))
        while A[1] < T.float32(3.0):
            A[1] = A[1] + T.float32(1.0)
        assert n > 0, "n is positive"
        z: T.int32 = n + 2
        A[z] = T.max(A[z], T.float32(0.0))"""
    )
    assert isinstance(only(func), LetStmt)


def test_operators_between_constants_as_tvm_prints_them() -> None:
    func = body("A[T.Add(2, T.Mul(n, 3))] = T.Select(T.And(n < 2, T.Not(n == 1)), T.float32(1), T.Div(A[0], A[1]))")
    assert text_of(func) == "A[2 + n * 3] = T.Select(n < 2 and not n == 1, T.float32(1.0), A[0] / A[1])"


def test_a_condition_known_while_the_program_is_built_is_decided_then() -> None:
    func = body("if 16 > 4:\n    A[0] = 1\nelse:\n    A[0] = 2")
    assert not isinstance(only(func), If)
    assert text_of(func) == "A[0] = T.float32(1.0)"


def test_thread_loops_of_both_spellings() -> None:
    old = body('for t in T.thread_binding(0, 16, thread="threadIdx.x"):\n    A[t] = 0')
    new = body('with T.launch_thread("threadIdx.x", 16) as t:\n    A[t] = 0')
    assert only(old).kind is ForKind.THREAD
    flat = body('t = T.launch_thread("threadIdx.x", 16)\nA[t] = 0')
    assert structural_equal(old, new)
    assert structural_equal(old, flat)


def test_kernel_level_text() -> None:
    func = from_source(
        """
        @T.prim_func(lowered=True)
        def main(A: T.Buffer((64,), "float32")):
            t = T.allocate([8], "float32", "local")
            t[T.Ramp(0, 1, 8)] = A[0:8]
            A[8:16] = t[0:8] * T.Broadcast(T.float32(2), 8)
        """
    )
    assert isinstance(func, PrimFunc)
    assert isinstance(func.body, Allocate)
    assert func.body.buffer.scope == "local"
    assert isinstance(func.body.body, Seq)
    assert script(func.body.body.stmts[1]) == "A[T.Ramp(8, 1, 8)] = t[T.Ramp(0, 1, 8)] * T.Broadcast(T.float32(2.0), 8)"


def test_symbolic_dimensions() -> None:
    func = from_source(
        """
        @T.prim_func
        def main(a: T.handle, b: T.handle, k: T.int64):
            n = T.int32(is_size_var=True)
            m = T.var("int32")
            A = T.match_buffer(a, (n, m * 2))
            B = T.match_buffer(b, (k,), "int8", offset_factor=1)
            A[0, 0] = 1.0
        """
    )
    assert isinstance(func, PrimFunc)
    assert isinstance(func.buffers[0].shape[0], SizeVar)
    assert func.buffers[1].shape[0] is func.params[2]


def test_a_view_of_a_region() -> None:
    func = body(
        """
        for i in range(4):
            with T.block("tile"):
                vi = T.axis.S(4, i)
                tile = T.match_buffer(A[vi * 4:vi * 4 + 4], (4,), "float32", offset_factor=1)
                tile[0] = 1.0
        """
    )
    assert "tile = T.match_buffer(A[vi * 4:vi * 4 + 4], (4,))" in script(func)


def inner_block(func: PrimFunc) -> Block:
    stmt = only(func)
    while not isinstance(stmt, BlockRealize):
        stmt = stmt.body
    return stmt.block


def regions(*lines: str) -> str:
    """The T.reads and T.writes that a block with this body gets."""
    parameters = 'A: T.Buffer((16, 16), "float32"), P: T.Buffer((16,), "int32"), O: T.Buffer((16, 16), "float32")'
    parameters += ", n: T.int32"
    head = 'for i, j in T.grid(4, 16):\n    with T.block("b"):\n        vi, vj = T.axis.remap("SS", [i, j])\n'
    func = body(head + indent("\n".join(map(dedent, lines)), "        "), parameters=parameters)
    block = inner_block(func)
    parts = [", ".join(script(r) for r in found) for found in (block.reads, block.writes)]
    return " -> ".join(parts)


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("O[vi, vj] = A[vj, vi + 1]", "A[vj, vi + 1] -> O[vi, vj]"),
        ("for k in range(4):\n    O[vi, vj] = A[vi * 4 + k, vj]", "A[vi * 4:vi * 4 + 4, vj] -> O[vi, vj]"),
        ("for k in range(2, 5):\n    O[vi, vj] = A[vi + k * 2, vj]", "A[vi + 4:vi + 4 + 5, vj] -> O[vi, vj]"),
        ("for k in range(4):\n    O[vi, vj] = A[vi - k, vj]", "A[vi - 3:vi - 3 + 4, vj] -> O[vi, vj]"),
        ("O[vi, vj] = A[vi, vj] + A[vi + 2, vj]", "A[vi:vi + 3, vj] -> O[vi, vj]"),
        ("O[vi, vj] = A[vi, vj] + A[vj, vi]", "A[0:16, 0:16] -> O[vi, vj]"),
        ("O[vi, vj] = A[P[vi], vj]", "A[0:16, vj], P[vi] -> O[vi, vj]"),
        ("for k in range(n):\n    O[vi, k] = 1.0", " -> O[vi, 0:n]"),
        ("for k in range(4):\n    O[vi, vj] = A[k // 2, vj]", "A[0:2, vj] -> O[vi, vj]"),
        ("with T.init():\n    O[vi, vj] = 0.0\nO[vi, vj] += A[vi, vj]", "A[vi, vj] -> O[vi, vj]"),
        ("O[vi, vj] += A[vi, vj]", "O[vi, vj], A[vi, vj] -> O[vi, vj]"),
        ("x: T.int32 = vi + 1\nO[vi, vj] = A[x, vj]", "A[vi + 1, vj] -> O[vi, vj]"),
        ("t = T.alloc_buffer((4,))\nt[0] = A[vi, vj]\nO[vi, vj] = t[0]", "A[vi, vj] -> O[vi, vj]"),
        (
            'for k in range(3):\n    with T.block("in"):\n        v = T.axis.S(3, k)\n        T.reads(A[vi, v:v + 2])\n'
            "        T.writes(O[vi, v])\n        O[vi, v] = A[vi, v] + A[vi, v + 1]",
            "A[vi, 0:4] -> O[vi, 0:3]",
        ),
        ("T.reads(A[0:16, vj])\nO[vi, vj] = A[vi, vj]", "A[0:16, vj] -> O[vi, vj]"),
    ],
)
def test_regions_are_inferred(code: str, expected: str) -> None:
    assert regions(code) == expected


def test_constants_take_the_dtype_of_what_they_meet() -> None:
    func = body('A[0] = T.cast(A[0] + 1, "int64") % 5', parameters='A: T.Buffer((16,), "int64")')
    value = only(func).value
    assert isinstance(value.b, IntImm)
    assert value.b.dtype == "int64"


def test_a_function_without_source_says_so() -> None:
    scope: dict[str, object] = {"T": T}
    with pytest.raises(InputError, match="the source of main cannot be found"):
        exec('@T.prim_func\ndef main(A: T.Buffer((16,), "float32")):\n    A[0] = 1.0', scope)


def test_module_attributes_and_several_functions() -> None:
    @I.ir_module
    class Module:
        I.module_attrs({"version": 2})

        @T.prim_func
        def first(A: T.Buffer((4,), "float32")):
            A[0] = 1.0

        @T.prim_func(private=True)
        def second(A: T.Buffer((4,), "float32")):
            A[0] = 2.0

    assert list(Module.functions) == ["first", "second"]
    assert dict(Module.attrs) == {"version": 2}
    assert dict(Module["second"].attrs) == {}
    assert structural_equal(from_source(Module.script()), Module)


def test_a_choice_may_name_its_dtype() -> None:
    func = from_source("""
        @T.prim_func
        def main(A: T.Buffer((4,), "float32")):
            for i in range(4):
                A[i] = T.if_then_else(i < 2, A[i], T.float32(0.0), dtype="float32")
    """)
    assert "T.if_then_else(i < 2, A[i], T.float32(0.0))" in func.script()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_a_number_makes_an_operation_on_narrow_floats_one_on_float32(dtype: str) -> None:
    """As in TVM, where a Python float is a float32: what is stored to a narrow buffer is rounded once, at the end."""

    @T.prim_func
    def func(A: T.Buffer((4,), dtype), B: T.Buffer((4,), dtype), C: T.Buffer((4,), "float32")) -> None:
        B[0] = A[0] * 2.0 + 1.0
        C[0] = 1.0 - A[1]
        B[1] = T.max(A[1], 0.0)
        C[1] = T.if_then_else(A[0] < 0.5, A[0], 2.0)
        B[2] = A[2] + 1
        B[3] = 0.5

    a, one = 'T.Cast("float32", A[{}])'.format, f"T.{dtype}(1.0)"
    assert [line.strip() for line in script(func).splitlines() if line.strip().startswith(("B[", "C["))] == [
        f'B[0] = T.Cast("{dtype}", {a(0)} * T.float32(2.0) + T.float32(1.0))',
        f"C[0] = T.float32(1.0) - {a(1)}",
        f'B[1] = T.Cast("{dtype}", T.max({a(1)}, T.float32(0.0)))',
        f"C[1] = T.if_then_else({a(0)} < T.float32(0.5), {a(0)}, T.float32(2.0))",
        f"B[2] = A[2] + {one}",
        f"B[3] = T.{dtype}(0.5)",
    ]
    assert structural_equal(from_source(script(func)), func)


def test_a_float32_of_the_program_is_not_rounded_by_itself() -> None:
    with pytest.raises(ParseError, match="dtypes differ"):

        @T.prim_func
        def func(A: T.Buffer((4,), "float16"), B: T.Buffer((4,), "float32")) -> None:
            A[0] = A[1] + B[0]


def test_several_python_values_get_names_at_once() -> None:
    swapped = (1, 0)

    @T.prim_func
    def func(A: T.Buffer((4,), "float32")) -> None:
        first, second = T.meta_var(swapped)
        A[first] = A[second]

    assert "A[1] = A[0]" in script(func)
