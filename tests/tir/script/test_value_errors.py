"""Values that are refused while a program is read (names, calls, indices, dtypes): one bad text each, pinned."""

from __future__ import annotations

from textwrap import dedent, indent

import pytest

from minitvm.errors import ParseError
from minitvm.script import from_source

HEAD = '@T.prim_func\ndef main(A: T.Buffer((4, 8), "float32"), P: T.Buffer((4,), "int32")):\n'

VALUES: dict[str, tuple[str, str]] = {
    "plain Python that fails": (
        """\
        A[0, 0] = sum(undefined for k in range(3))""",
        """\
        <text>:3:15: Python's NameError: name 'undefined' is not defined
            A[0, 0] = sum(undefined for k in range(3))
                      ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^""",
    ),
    "unknown name of the language": (
        """\
        with T.blok("C"):
            A[0, 0] = 1.0""",
        """\
        <text>:3:10: T.blok is not in the language
            with T.blok("C"):
                 ^^^^^^
          try:    did you mean T.block or T.sblock or T.log?""",
    ),
    "a buffer handed to foreign code": (
        """\
        T.evaluate(T.call_extern("int32", "copy", A))""",
        """\
        <text>:3:16: T.call_extern takes values and addresses, found the buffer A
            T.evaluate(T.call_extern("int32", "copy", A))
                       ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
          try:    A.access_ptr("r"), or A[...] for an element""",
    ),
    "an integer stored in a narrower one": (
        """\
        P[0] = T.Cast("int64", P[1])""",
        """\
        <text>:3:12: P[0] = Cast("int64", P[1]): dtypes differ
            P[0] = T.Cast("int64", P[1])
                   ^^^^^^^^^^^^^^^^^^^^^
          wanted: int32
          found:  int64
          try:    .astype('int32')""",
    ),
    "a pointer for no access": (
        """\
        T.evaluate(A.access_ptr("x"))""",
        """\
        <text>:3:16: access_ptr('x'): wanted "r", "w" or "rw"
            T.evaluate(A.access_ptr("x"))
                       ^^^^^^^^^^^^^^^^^""",
    ),
    "a function of another dtype": (
        """\
        A[0, 0] = T.exp(A[0, 1], dtype="float16")""",
        """\
        <text>:3:15: exp of float32: the text says dtype=float16
            A[0, 0] = T.exp(A[0, 1], dtype="float16")
                      ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^""",
    ),
    "a choice of another dtype": (
        """\
        A[0, 0] = T.if_then_else(A[0, 1] < 0.0, 1.0, A[0, 1], dtype="int32")""",
        """\
        <text>:3:15: if_then_else of float32: the text says dtype=int32
            A[0, 0] = T.if_then_else(A[0, 1] < 0.0, 1.0, A[0, 1], dtype="int32")
                      ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^""",
    ),
    "undefined name": (
        """\
        A[0, 0] = alhpa""",
        """\
        <text>:3:15: the name alhpa is not defined
            A[0, 0] = alhpa
                      ^^^^^
          try:    known: A, I, P, R, T, tir, tvm
                  alhpa = T.int32() for a symbolic dimension""",
    ),
    "undefined buffer": (
        """\
        Q[0, 0] = 1.0""",
        """\
        <text>:3:5: the name Q is not defined
            Q[0, 0] = 1.0
            ^
          try:    known: A, I, P, R, T, tir, tvm
                  Q = T.alloc_buffer((m, n), "float32")""",
    ),
    "a function of the language without T": (
        """\
        A[0, 0] = exp(A[0, 1])""",
        """\
        <text>:3:15: the name exp is not defined
            A[0, 0] = exp(A[0, 1])
                      ^^^
          try:    T.exp""",
    ),
    "elements of a scalar": (
        """\
        n = T.int32()
        n[0] = 1""",
        """\
        <text>:4:5: n is a scalar and has no elements
            n[0] = 1
            ^^^^
          wanted: a buffer
          found:  a value of dtype int32""",
    ),
    "an unknown argument": (
        """\
        Q = T.alloc_buffer((8,), dtipe="float32")""",
        """\
        <text>:3:9: T.alloc_buffer has no argument 'dtipe'
            Q = T.alloc_buffer((8,), dtipe="float32")
                ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^""",
    ),
    "too many arguments": (
        """\
        A[0, 0] = T.float32(1, 2, 3)""",
        """\
        <text>:3:15: T.float32 takes fewer than 3 arguments without a name
            A[0, 0] = T.float32(1, 2, 3)
                      ^^^^^^^^^^^^^^^^^^""",
    ),
    "wrong number of indices": (
        """\
        A[0] = 1.0""",
        """\
        <text>:3:5: wrong number of indices of A
            A[0] = 1.0
            ^^^^
          wanted: 2, as A has shape (4, 8)
          found:  1""",
    ),
    "wrong number of indices of a load": (
        """\
        A[0, 0] = A[1]""",
        """\
        <text>:3:15: wrong number of indices of A
            A[0, 0] = A[1]
                      ^^^^
          wanted: 2, as A has shape (4, 8)
          found:  1""",
    ),
    "a buffer as a value": (
        """\
        A[0, 0] = P""",
        """\
        <text>:3:15: A cannot hold this
            A[0, 0] = P
                      ^
          wanted: a value of dtype float32
          found:  the buffer P""",
    ),
    "the elements of a buffer as arguments": (
        """\
        A[0, 0] = T.max(*P)""",
        """\
        <text>:3:21: a buffer cannot be iterated
            A[0, 0] = T.max(*P)
                            ^^
          found:  the buffer P""",
    ),
    "the elements of a buffer by Python": (
        """\
        A[0, 0] = sum(A)""",
        """\
        <text>:3:15: a buffer cannot be iterated: A
            A[0, 0] = sum(A)
                      ^^^^^^
          try:    A[i] in a loop over i""",
    ),
    "the elements of an expression": (
        """\
        A[0, 0] = T.max(*A[0, 0])""",
        """\
        <text>:3:21: an expression cannot be iterated
            A[0, 0] = T.max(*A[0, 0])
                            ^^^^^^^^
          found:  A[0, 0] of dtype float32""",
    ),
    "the end of a long line": (
        f"""\
        A[0, 0] = {"A[0, 0] + " * 40}A[0, q]""",
        f"""\
        <text>:3:420: the name q is not defined
            ... {" + A[0, 0]" * 9} + A[0, q]
                {" " * 98}^
          try:    known: A, I, P, R, T, tir, tvm
                  q = T.int32() for a symbolic dimension""",
    ),
    "the middle of a long line": (
        f"""\
        A[0, 0] = {"A[0, 0] + " * 20}A[0, q]{" + A[0, 0]" * 20}""",
        f"""\
        <text>:3:220: the name q is not defined
            ... 0]{" + A[0, 0]" * 4} + A[0, q]{" + A[0, 0]" * 4} + A[0,  ...
                {" " * 50}^
          try:    known: A, I, P, R, T, tir, tvm
                  q = T.int32() for a symbolic dimension""",
    ),
    "dtypes differ": (
        """\
        P[0] = A[0, 0]""",
        """\
        <text>:3:12: P[0] = A[0, 0]: dtypes differ
            P[0] = A[0, 0]
                   ^^^^^^^
          wanted: int32
          found:  float32
          try:    .astype('int32')""",
    ),
    "division of integers": (
        """\
        P[0] = P[1] / P[2]""",
        """\
        <text>:3:12: `/` between integers is ambiguous
            P[0] = P[1] / P[2]
                   ^^^^^^^^^^^
          try:    `//` (floor)
                  T.truncdiv (as in C)""",
    ),
    "a float as an index": (
        """\
        A[0.5, 0] = 1.0""",
        """\
        <text>:3:5: an index of A is not an integer
            A[0.5, 0] = 1.0
            ^^^^^^^^^
          found:  0.5 (float)""",
    ),
    "a condition with and": (
        """\
        A[0, 0] = P and 3""",
        """\
        <text>:3:15: the buffer P stands for no single value
            A[0, 0] = P and 3
                      ^
          try:    P[i]""",
    ),
    "declared with another dtype": (
        """\
        x: T.float32 = P[0]""",
        """\
        <text>:3:20: x is declared with another dtype
            x: T.float32 = P[0]
                           ^^^^
          wanted: float32
          found:  P[0] of dtype int32""",
    ),
    "float beside an integer": (
        """\
        P[0] = P[1] + 0.5""",
        """\
        <text>:3:12: P[0] = Cast("float32", P[1]) + float32(0.5): dtypes differ
            P[0] = P[1] + 0.5
                   ^^^^^^^^^^
          wanted: int32
          found:  float32
          try:    .astype('int32')""",
    ),
    "a float into integers": (
        """\
        P[0] = 0.5""",
        """\
        <text>:3:12: P[0] = float32(0.5): dtypes differ
            P[0] = 0.5
                   ^^^
          wanted: int32
          found:  float32
          try:    .astype('int32')""",
    ),
    "a call of what is no function": (
        """\
        A[0, 0] = P(3)""",
        """\
        <text>:3:15: P is not a function
            A[0, 0] = P(3)
                      ^
          found:  the buffer P""",
    ),
    "a buffer in arithmetic": (
        """\
        A[0, 0] = A * 2.0""",
        """\
        <text>:3:15: the buffer A stands for no single value
            A[0, 0] = A * 2.0
                      ^
          try:    A[i, j]""",
    ),
    "wrong arguments": (
        """\
        A[0, 0] = T.exp(A[0, 0], A[0, 1])""",
        """\
        <text>:3:15: exp takes 1 arguments, found 2
            A[0, 0] = T.exp(A[0, 0], A[0, 1])
                      ^^^^^^^^^^^^^^^^^^^^^^^""",
    ),
    "exp of an integer": (
        """\
        A[0, 0] = T.exp(P[0])""",
        """\
        <text>:3:15: exp takes floats, found P[0] of dtype int32
            A[0, 0] = T.exp(P[0])
                      ^^^^^^^^^^^""",
    ),
    "a slice in the middle": (
        """\
        A[0:4, 0] = 1.0""",
        """\
        <text>:3:5: a slice of A as a value
            A[0:4, 0] = 1.0
            ^^^^^^^^^^^^^^^
          wanted: a constant length, in the last dimension""",
    ),
}


@pytest.mark.parametrize("name", VALUES)
def test_value_is_refused(name: str) -> None:
    body, expected = map(dedent, VALUES[name])
    with pytest.raises(ParseError) as refused:
        from_source(HEAD + indent(body, "    "))
    assert str(refused.value) == expected.rstrip("\n")
