"""Statements that are refused while a program is read: one bad program each, its text pinned."""

from __future__ import annotations

from textwrap import dedent, indent

import pytest

from minitvm.errors import InputError, ParseError
from minitvm.expr import walk
from minitvm.script import from_source
from minitvm.script import ir as I
from minitvm.script import tir as T
from minitvm.tir.nodes import BlockRealize, PrimFunc

HEAD = '@T.prim_func\ndef main(A: T.Buffer((4, 8), "float32"), P: T.Buffer((4,), "int32")):\n'

BODIES: dict[str, tuple[str, str]] = {
    "a block of before v0.8": (
        """\
        with T.block([4, 8], "A") as [vi, vj]:
            A[vi, vj] = 1.0""",
        """\
        <text>:3:10: T.block takes a name; iterators with domains above the body were written before v0.8
            with T.block([4, 8], "A") as [vi, vj]:
                 ^^^^^^^^^^^^^^^^^^^^
          try:    with T.block("name"): vi = T.axis.spatial(extent, i)""",
    ),
    "two shapes over one storage": (
        """\
        B = T.Buffer((32,), "float32", data=A.data)""",
        """\
        <text>:3:5: two buffers over one storage
            B = T.Buffer((32,), "float32", data=A.data)
            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
          wanted: the shape and dtype of A
          found:  float32[32]
          try:    T.match_buffer(A[...]) for a view of a region""",
    ),
    "a loop with a step": (
        """\
        for i in range(0, 8, 2):
            A[0, i] = 1.0""",
        """\
        <text>:3:14: a loop counts in steps of one, found a step of 2
            for i in range(0, 8, 2):
                     ^^^^^^^^^^^^^^
          try:    a loop of fewer iterations, and 2 * i in its body""",
    ),
    "a thread loop without its axis": (
        """\
        for i in T.thread_binding(8):
            A[0, i] = 1.0""",
        """\
        <text>:3:14: which thread axis?
            for i in T.thread_binding(8):
                     ^^^^^^^^^^^^^^^^^^^
          try:    thread="threadIdx.x\"""",
    ),
    "else of a for loop": (
        """\
        for i in range(8):
            A[0, i] = 1.0
        else:
            A[0, 0] = 2.0""",
        """\
        <text>:6:9: a loop has no `else`
            A[0, 0] = 2.0
            ^^^^^^^^^^^^^
          try:    put the statements after the loop""",
    ),
    "else of a while loop": (
        """\
        while P[0] < 3:
            P[0] = P[0] + 1
        else:
            P[0] = 7""",
        """\
        <text>:6:9: a loop has no `else`
            P[0] = 7
            ^^^^^^^^
          try:    put the statements after the loop""",
    ),
    "init twice": (
        """\
        with T.block("b"):
            with T.init():
                A[0, 0] = 1.0
            with T.init():
                A[0, 0] = 2.0
            A[0, 0] = A[0, 0] + 1.0""",
        """\
        <text>:6:14: T.init is given twice
            with T.init():
                 ^^^^^^^^""",
    ),
    "a block with a name for its iterators": (
        """\
        with T.block("b") as [vi]:
            A[vi, 0] = 1.0""",
        """\
        <text>:3:26: nothing is named here
            with T.block("b") as [vi]:
                                 ^^^^
          try:    vi, vj = T.axis.remap(...) inside""",
    ),
    "return in the middle": (
        """\
        if P[0] > 0:
            return
        A[0, 0] = 1.0""",
        """\
        <text>:4:9: a function runs to its end
            return
            ^^^^^^
          try:    if ...: around the statements that follow""",
    ),
    "a function in a function": (
        """\
        def inner():
            pass""",
        """\
        <text>:3:5: Python's `def` is not a statement of the language
            def inner():
            ^^^^^^^^^^^^""",
    ),
    "an unknown axis of threads": (
        """\
        for i in T.thread_binding(8, thread="threadIdx.q"):
            A[0, i] = 1.0""",
        """\
        <text>:3:14: no axis of threads is called 'threadIdx.q'
            for i in T.thread_binding(8, thread="threadIdx.q"):
                     ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
          try:    did you mean threadIdx.z or threadIdx.y or threadIdx.x?""",
    ),
    "an unknown axis of threads that a block launches": (
        """\
        with T.launch_thread("blockidx.x", 8) as i:
            A[0, i] = 1.0""",
        """\
        <text>:3:10: no axis of threads is called 'blockidx.x'
            with T.launch_thread("blockidx.x", 8) as i:
                 ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
          try:    did you mean blockIdx.x or blockIdx.z or blockIdx.y?""",
    ),
    "an unknown scope of storage": (
        """\
        Q = T.alloc_buffer((8,), scope="sharde")""",
        """\
        <text>:3:9: no scope of storage is called 'sharde'
            Q = T.alloc_buffer((8,), scope="sharde")
                ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
          try:    did you mean shared?""",
    ),
    "too many loop variables": (
        """\
        for i, j in T.grid(4):
            A[i, 0] = 1.0""",
        """\
        <text>:3:9: wrong number of loop variables
            for i, j in T.grid(4):
                ^^^^
          wanted: 1
          found:  2""",
    ),
    "not a loop": (
        """\
        for i in [1, 2]:
            A[i, 0] = 1.0""",
        """\
        <text>:3:14: a loop does not run over this
            for i in [1, 2]:
                     ^^^^^^
          wanted: range(n), T.grid(m, n), T.parallel(n), ...
          found:  [1, 2] (list)""",
    ),
    "axis outside of a block": (
        """\
        vi = T.axis.S(4, 0)""",
        """\
        <text>:3:5: an iterator outside of a block
            vi = T.axis.S(4, 0)
            ^^^^^^^^^^^^^^^^^^^
          try:    with T.block("name"):""",
    ),
    "remap of what is no loop": (
        """\
        with T.block("b"):
            vi, vj = T.axis.remap("SS", [P[0], 1])
            A[vi, vj] = 1.0""",
        """\
        <text>:4:9: T.axis.remap takes the variables of loops around
            vi, vj = T.axis.remap("SS", [P[0], 1])
            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
          found:  P[0] of dtype int32
          try:    vi = T.axis.spatial(extent, value)""",
    ),
    "remap with too few letters": (
        """\
        for i, j in T.grid(4, 8):
            with T.block("b"):
                vi, vj = T.axis.remap("S", [i, j])""",
        """\
        <text>:5:22: remap("S", ...) needs one letter of S, R, O for each of 2 loops
            vi, vj = T.axis.remap("S", [i, j])
                     ^^^^^^^^^^^^^^^^^^^^^^^^^""",
    ),
    "unknown kind of iterator": (
        """\
        with T.block("b"):
            vi = T.axis.spacial(4, 0)""",
        """\
        <text>:4:14: T.axis.spacial does not exist
            vi = T.axis.spacial(4, 0)
                 ^^^^^^^^^^^^^^
          try:    did you mean spatial?""",
    ),
    "reads twice": (
        """\
        with T.block("b"):
            T.reads()
            T.reads(A[0, 0])
            A[0, 0] = 1.0""",
        """\
        <text>:5:9: T.reads is given twice
            T.reads(A[0, 0])
            ^^^^^^^^^^^^^^^^""",
    ),
    "reads outside of a block": (
        """\
        T.reads(A[0, 0])""",
        """\
        <text>:3:5: T.reads stands at the head of a block
            T.reads(A[0, 0])
            ^^^^^^^^^^^^^^^^""",
    ),
    "attributes inside a block": (
        """\
        with T.block("b"):
            T.func_attr({"a": 1})""",
        """\
        <text>:4:9: T.func_attr stands at the head of a function
            T.func_attr({"a": 1})
            ^^^^^^^^^^^^^^^^^^^^^""",
    ),
    "wrong number of names": (
        """\
        for i, j in T.grid(4, 8):
            with T.block("b"):
                vi, vj, vk = T.axis.remap("SS", [i, j])""",
        """\
        <text>:5:13: wrong number of names
            vi, vj, vk = T.axis.remap("SS", [i, j])
            ^^^^^^^^^^
          wanted: 3 values
          found:  2 values""",
    ),
    "a statement that is not of the language": (
        """\
        import os""",
        """\
        <text>:3:5: Python's `import` is not a statement of the language
            import os
            ^^^^^^^^^""",
    ),
    "try": (
        """\
        try:
            A[0, 0] = 1.0
        finally:
            pass""",
        """\
        <text>:3:5: Python's `try` is not a statement of the language
            try:
            ^^^^""",
    ),
    "return of a value": (
        """\
        return A""",
        """\
        <text>:3:5: a function returns nothing: it writes to its buffers
            return A
            ^^^^^^^^""",
    ),
    "update of a name": (
        """\
        x = P[0]
        x += 1""",
        """\
        <text>:4:5: only elements of buffers can be updated
            x += 1
            ^^^^^^
          try:    x_new: T.int32 = x + 1""",
    ),
    "assignment to a name of a buffer's part": (
        """\
        A.shape = 3""",
        """\
        <text>:3:5: this cannot be assigned
            A.shape = 3
            ^^^^^^^
          wanted: a name, or an element of a buffer""",
    ),
    "not a scope": (
        """\
        with T.grid:
            A[0, 0] = 1.0""",
        """\
        <text>:3:10: this does not open a scope
            with T.grid:
                 ^^^^^^
          wanted: T.block("name"), T.init(), T.LetStmt(value) or T.decl_buffer(...)
          found:  the function grid""",
    ),
    "let without a name": (
        """\
        with T.LetStmt(3):
            A[0, 0] = 1.0""",
        """\
        <text>:3:10: this needs a name
            with T.LetStmt(3):
                 ^^^^^^^^^^^^
          try:    with ... as x:""",
    ),
    "a parameter's type inside": (
        """\
        B = T.Buffer((4,))
        B[0] = 1.0""",
        """\
        <text>:3:5: T.Buffer is the type of a parameter
            B = T.Buffer((4,))
            ^^^^^^^^^^^^^^^^^^
          try:    B = T.alloc_buffer(...)""",
    ),
    "not Python": (
        """\
        A[0, 0] = = 1.0""",
        """\
        <text>:3:15: not Python: invalid syntax
            A[0, 0] = = 1.0
                      ^""",
    ),
}


@pytest.mark.parametrize("name", BODIES)
def test_body_is_refused(name: str) -> None:
    body, expected = map(dedent, BODIES[name])
    with pytest.raises(ParseError) as refused:
        from_source(HEAD + indent(body, "    "))
    assert str(refused.value) == expected.rstrip("\n")


def test_position_in_a_decorated_function_is_that_in_its_file() -> None:
    line = test_position_in_a_decorated_function_is_that_in_its_file.__code__.co_firstlineno + 6
    with pytest.raises(ParseError) as refused:

        @T.prim_func
        def main(A: T.Buffer((4,), "float32")):
            A[0] = T.expp(A[0])

    first, *rest = str(refused.value).split("\n")
    assert first == f"{__file__}:{line}:20: T.expp is not in the language"
    assert rest == [
        "    A[0] = T.expp(A[0])",
        "           ^^^^^^",
        "  try:    did you mean T.exp or T.exp2 or T.exp10?",
    ]


def test_nothing_in_a_decorated_class_is_lost() -> None:
    with pytest.raises(ParseError, match=r"two functions of the name main in one module\n    def main\(A"):

        @I.ir_module
        class Twice:
            @T.prim_func
            def main(A: T.Buffer((4,), "float32")):
                A[0] = 1.0

            @T.prim_func
            def main(A: T.Buffer((4,), "float32")):  # noqa: F811
                A[0] = 2.0

    with pytest.raises(ParseError, match=r"a module holds functions\n    size = 4\n    \^{8}\n"):

        @I.ir_module
        class Constant:
            size = 4

    with pytest.raises(ParseError, match=r"the function main has no @T.prim_func\n    def main\(A"):

        @I.ir_module
        class Undecorated:
            def main(A: T.Buffer((4,), "float32")):
                A[0] = 1.0


def test_attributes_given_in_two_parts_are_joined() -> None:
    func = from_source(
        HEAD
        + """\
    with T.block("b"):
        T.block_attr({"one": 1})
        T.block_attr({**{"two": 2}, "three": 3})
        A[0, 0] = 1.0
"""
    )
    assert isinstance(func, PrimFunc)
    (realize,) = (n for n in walk(func.body) if isinstance(n, BlockRealize) and n.block.name == "b")
    assert dict(realize.block.annotations) == {"one": 1, "two": 2, "three": 3}


@pytest.mark.parametrize("given", [None, 5, HEAD.encode()])
def test_what_is_no_text_is_refused(given: object) -> None:
    with pytest.raises(InputError, match="from_source takes the text of a program, found"):
        from_source(given)  # type: ignore[arg-type]


def test_columns_count_characters_and_not_bytes() -> None:
    with pytest.raises(ParseError) as refused:
        from_source(HEAD + "    assert 3 > 2, 'é' + A[1]\n")
    first, line, carets, *_ = str(refused.value).split("\n")
    assert first == "<text>:3:25: wrong number of indices of A"
    assert (line.index("A[1]"), line.index("A[1]") + 4) == (carets.index("^"), len(carets))
