"""Heads, signatures and modules that are refused while a program is read: one bad program each, its text pinned."""

from __future__ import annotations

from textwrap import dedent

import pytest

from minitvm.errors import ParseError
from minitvm.script import from_source

HEAD = '@T.prim_func\ndef main(A: T.Buffer((4, 8), "float32"), P: T.Buffer((4,), "int32")):\n'

PROGRAMS: dict[str, tuple[str, str]] = {
    "two functions of one name": (
        """\
        @I.ir_module
        class M:
            @T.prim_func
            def main(A: T.Buffer((4,), "float32")):
                A[0] = 1.0

            @T.prim_func
            def main(A: T.Buffer((4,), "float32")):
                A[0] = 2.0""",
        """\
        <text>:8:5: two functions of the name main in one module
            def main(A: T.Buffer((4,), "float32")):
            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^""",
    ),
    "a constant in a module": (
        """\
        @I.ir_module
        class M:
            x = 1""",
        """\
        <text>:3:5: a module holds functions
            x = 1
            ^^^^^
          wanted: @T.prim_func def ...
          try:    x = 1 above the class""",
    ),
    "two parameters of one name": (
        """\
        @T.prim_func
        def main(A: T.Buffer((4,), "float32"), A: T.int32):
            A[0] = 1.0""",
        """\
        <text>:2:40: two parameters of the name A
            def main(A: T.Buffer((4,), "float32"), A: T.int32):
                                                   ^^^^^^^^^^""",
    ),
    "a parameter behind a star": (
        """\
        @T.prim_func
        def main(A: T.Buffer((4,), "float32"), *, n: T.int32):
            A[0] = 1.0""",
        """\
        <text>:2:43: parameters are given in their order, without `*` and `/`
            def main(A: T.Buffer((4,), "float32"), *, n: T.int32):
                                                      ^^^^^^^^^^""",
    ),
    "a parameter with a default": (
        """\
        @T.prim_func
        def main(A: T.Buffer((4,), "float32"), n: T.int32 = 3):
            A[0] = 1.0""",
        """\
        <text>:2:53: a parameter has no default value
            def main(A: T.Buffer((4,), "float32"), n: T.int32 = 3):
                                                                ^""",
    ),
    "an error of Python's own": (
        """\
        @T.prim_func
        def main(A: T.Buffer((4,), "float32")):
            A[(1, 2)[3]] = 1.0""",
        """\
        <text>:3:7: Python's IndexError: tuple index out of range
            A[(1, 2)[3]] = 1.0
              ^^^^^^^^^""",
    ),
    "unknown option": (
        """\
        @T.prim_func(privat=True)
        def main(A: T.Buffer((4,), "float32")):
            A[0] = 1.0""",
        """\
        <text>:1:2: prim_func has no option privat
            @T.prim_func(privat=True)
             ^^^^^^^^^^^^^^^^^^^^^^^^
          try:    did you mean private?""",
    ),
    "parameter without a type": (
        """\
        @T.prim_func
        def main(A):
            A[0] = 1.0""",
        """\
        <text>:2:10: the parameter A has no type
            def main(A):
                     ^
          try:    A: T.Buffer((m, n), "float32")
                  A: T.int32""",
    ),
    "parameter of an unknown type": (
        """\
        @T.prim_func
        def main(A: 3):
            A[0] = 1.0""",
        """\
        <text>:2:13: the type of the parameter A is not one of the language
            def main(A: 3):
                        ^
          wanted: T.Buffer(...), T.handle or a dtype
          found:  3 (int)""",
    ),
    "handle that is never matched": (
        """\
        @T.prim_func
        def main(a: T.handle):
            pass""",
        """\
        <text>:2:10: the handle a is not matched to a buffer
            def main(a: T.handle):
                     ^^^^^^^^^^^
          try:    A = T.match_buffer(a, (m, n), "float32")""",
    ),
    "handle matched twice": (
        """\
        @T.prim_func
        def main(a: T.handle):
            A = T.match_buffer(a, (4,))
            B = T.match_buffer(a, (4,))""",
        """\
        <text>:4:5: the handle a is matched twice
            B = T.match_buffer(a, (4,))
            ^^^^^^^^^^^^^^^^^^^^^^^^^^^""",
    ),
    "no decorator": (
        """\
        def main(A: T.Buffer((4,), "float32")):
            A[0] = 1.0""",
        """\
        <text>:1:1: the function main has no @T.prim_func
            def main(A: T.Buffer((4,), "float32")):
            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
          wanted: @T.prim_func
          found:  nothing""",
    ),
    "another language's decorator": (
        """\
        @R.kernel
        def main(x):
            return x""",
        """\
        <text>:1:2: the decorator R.kernel is not one of the language
            @R.kernel
             ^^^^^^^^
          wanted: @T.prim_func, @R.function or @I.ir_module""",
    ),
    "class without a decorator": (
        """\
        class Module:
            pass""",
        """\
        <text>:1:1: the class Module has no @I.ir_module
            class Module:
            ^^^^^^^^^^^^^
          wanted: @I.ir_module
          found:  nothing""",
    ),
    "two programs": (
        """\
        @T.prim_func
        def f():
            pass
        @T.prim_func
        def g():
            pass""",
        """\
        <text>:5:1: a second program in one text
            def g():
            ^^^^^^^^
          try:    one @I.ir_module class around both""",
    ),
    "no program": (
        """\
        x = 3""",
        """\
        <text>: no program in this text
          wanted: @T.prim_func, @R.function or @I.ir_module""",
    ),
    "a loop at the top": (
        """\
        for i in range(3):
            pass""",
        """\
        <text>:1:1: a text holds one program
            for i in range(3):
            ^^^^^^^^^^^^^^^^^^
          wanted: @T.prim_func, @R.function or @I.ir_module""",
    ),
    "not a function in a module": (
        """\
        @I.ir_module
        class M:
            for i in range(3):
                pass""",
        """\
        <text>:3:5: a module holds functions
            for i in range(3):
            ^^^^^^^^^^^^^^^^^^
          wanted: @T.prim_func def ...""",
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_program_is_refused(name: str) -> None:
    text, expected = map(dedent, PROGRAMS[name])
    with pytest.raises(ParseError) as refused:
        from_source(text)
    assert str(refused.value) == expected.rstrip("\n")
