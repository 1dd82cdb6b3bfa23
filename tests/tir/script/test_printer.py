"""What printed programs look like, and where marks stand."""

from __future__ import annotations

from textwrap import dedent

from minitvm.expr import Mul, Var, const, walk
from minitvm.script import from_source
from minitvm.tir.nodes import Block, BlockRealize, Buffer, BufferLoad, BufferStore, For, IRModule, PrimFunc
from minitvm.tir.script.printer import script

MATMUL = dedent(
    """\
    # from minitvm.script import tir as T

    @T.prim_func
    def main(A: T.Buffer((4, 8), "float32"), B: T.Buffer((8, 4), "float32"), C: T.Buffer((4, 4), "float32")):
        T.func_attr({"tir.noalias": True})
        for i, j, k in T.grid(4, 4, 8):
            with T.block("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                T.reads(A[vi, vk], B[vk, vj])
                T.writes(C[vi, vj])
                with T.init():
                    C[vi, vj] = T.float32(0.0)
                C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]"""
)


def matmul() -> PrimFunc:
    func = from_source(MATMUL)
    assert isinstance(func, PrimFunc)
    return func


def find(func: PrimFunc, kind: type, number: int = 0):
    return [item for item in walk(func) if isinstance(item, kind)][number]


def marked(mark, **options) -> str:
    return script(matmul_func, mark=mark, **options)


matmul_func = matmul()


def test_a_printed_program_is_what_a_person_would_write() -> None:
    assert script(matmul()) == MATMUL
    assert matmul().script() == MATMUL


def test_newest_spelling() -> None:
    text = script(matmul(), dialect="tvm-0.27")
    assert 'with T.sblock("C"):' in text
    assert "T.block" not in text


def test_an_expression_is_underlined_at_its_columns() -> None:
    product = find(matmul_func, Mul)
    assert marked({product: "reads what is not there"}).splitlines()[-2:] == [
        "            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]",
        "                                    ^^^^^^^^^^^^^^^^^^^^^ reads what is not there",
    ]


def test_marks_of_every_kind_with_context() -> None:
    realize = find(matmul_func, BlockRealize, 1)
    store = find(matmul_func, BufferStore, 1)
    mark = {
        matmul_func.params[1]: "a buffer, where it is defined",
        find(matmul_func, For, 1): "a loop of a grid",
        realize.block: "a block",
        realize.block.iter_vars[2]: "an iterator",
        realize.block.reads[0]: "a region",
        store: "a statement\nand a second line",
        find(matmul_func, BufferLoad, 2): "a load",
    }
    assert marked(mark, context=0) == dedent(
        """\
        ...
        def main(A: T.Buffer((4, 8), "float32"), B: T.Buffer((8, 4), "float32"), C: T.Buffer((4, 4), "float32")):
                                                 ^ a buffer, where it is defined
            ...
            for i, j, k in T.grid(4, 4, 8):
                   ^ a loop of a grid
                with T.block("C"):
                ^^^^^^^^^^^^^^^^^^ a block
                    vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                            ^^ an iterator
                    T.reads(A[vi, vk], B[vk, vj])
                            ^^^^^^^^^ a region
                    ...
                    C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
                    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^ a statement
                                                                  and a second line
                                                        ^^^^^^^^^ a load"""
    )


def test_context_shows_the_headers_that_enclose_a_mark() -> None:
    assert marked({find(matmul_func, Mul): "here"}, context=1) == dedent(
        """\
        ...
        def main(A: T.Buffer((4, 8), "float32"), B: T.Buffer((8, 4), "float32"), C: T.Buffer((4, 4), "float32")):
            ...
            for i, j, k in T.grid(4, 4, 8):
                with T.block("C"):
                    ...
                        C[vi, vj] = T.float32(0.0)
                    C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
                                            ^^^^^^^^^^^^^^^^^^^^^ here"""
    )


def test_a_mark_that_is_not_in_the_program_is_still_told() -> None:
    assert marked({const(3): "a constant of another program"}).splitlines()[-1] == "# a constant of another program"


def test_the_root_block_that_the_text_leaves_out_is_marked_at_the_function() -> None:
    lines = marked({find(matmul_func, Block): "the root"}).splitlines()
    assert lines[1].startswith("def main(A:")
    assert lines[2].startswith("^^^^^^^^^")
    assert lines[2].endswith("^ the root")


def test_marks_leave_no_traces_in_the_text() -> None:
    text = marked({item: "" for item in walk(matmul_func) if not isinstance(item, PrimFunc)})
    plain = [line for line in text.splitlines() if set(line) - set(" ^")]
    assert plain == MATMUL.splitlines()[2:]


def test_statements_and_expressions_print_by_themselves() -> None:
    x, i = Buffer("X", (8,)), Var("i")
    assert script(BufferStore(x, x[i] + 1.0, (i + 1,))) == "X[i + 1] = X[i] + T.float32(1.0)"
    assert script(x[i] * 2.0) == "X[i] * T.float32(2.0)"
    assert script(x) == 'X: T.Buffer((8,), "float32")'
    assert script(find(matmul_func, BlockRealize, 1)).splitlines()[1] == "    vi = T.axis.spatial(4, i)"


def test_sibling_loops_keep_their_names() -> None:
    text = MATMUL.replace("    for i,", "    for i in range(4):\n        C[i, 0] = A[i, 0]\n    for i,")
    assert script(from_source(text)) == text


def test_module_has_both_headers() -> None:
    text = script(IRModule({"main": matmul_func}))
    assert text.splitlines()[:5] == [
        "# from minitvm.script import ir as I",
        "# from minitvm.script import tir as T",
        "",
        "@I.ir_module",
        "class Module:",
    ]
