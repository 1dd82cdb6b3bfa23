"""Texts that are almost programs: they are read, or refused with an error that shows the line."""

from __future__ import annotations

import random
import re
import warnings

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from minitvm.errors import InternalError, MinitvmError, ParseError
from minitvm.reference.strategies import KINDS, NEST_KINDS, prim_funcs
from minitvm.script import from_source
from minitvm.tir.nodes import PrimFunc
from minitvm.tir.verifier import verify

TOKENS = re.compile(r"\w+|\s+|[^\w\s]")
OTHERS = (
    "T.", "(", ")", "[", "]", ":", ",", "0", "-1", "10**30", "None", '"float32"', '"x"', "True", "lambda x: x", "*",
    "**", "=", "T.block", "T.grid", "T.axis.spatial", "if", "else", "while", "with", "A", "B", "i", "T.Buffer",
    "...", "{}", "1.5", "T.reads", "T.writes", "T.where", "T.init", "T.match_buffer", "T.alloc_buffer", "//", "%",
    "/", "not", "in", "@", "\n", "  ", "T.block_attr", "T.func_attr", "T.Cast", "import os", "T.int32",
    "T.evaluate", "T.thread_binding", "for", "def", "return", "assert", "del", '"', "T.serial", "T.launch_thread",
    "yield", "T.ramp", "T.let", "is",
)  # fmt: skip
PROGRAMS = prim_funcs(kinds=(*KINDS, *NEST_KINDS), max_blocks=3)


def mutated(text: str, numbers: random.Random) -> str:
    """The text with one to five tokens left out, put in the place of others, put in between, or exchanged."""
    tokens = TOKENS.findall(text)
    for _ in range(numbers.choice((1, 1, 1, 2, 3, 5))):
        at, other = numbers.randrange(len(tokens)), numbers.randrange(len(tokens))
        change = numbers.randrange(5)
        if change == 0:
            tokens[at] = ""
        elif change == 1:
            tokens[at] = numbers.choice(OTHERS)
        elif change == 2:
            tokens[at] += numbers.choice(OTHERS)
        elif change == 3:
            tokens[at] = tokens[other]
        else:
            tokens[at], tokens[other] = tokens[other], tokens[at]
    return "".join(tokens)


def is_read_or_refused(text: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)
        try:
            program = from_source(text)
            if isinstance(program, PrimFunc):
                program.script()
                verify(program)
        except InternalError as error:
            raise AssertionError(text) from error
        except ParseError as error:
            assert "<text>:" in str(error), text
        except MinitvmError:
            pass
        except Exception as error:
            raise AssertionError(text) from error


@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(PROGRAMS, st.integers(0, 2**32))
def test_a_mutated_text_is_read_or_refused(func: PrimFunc, seed: int) -> None:
    text, numbers = func.script(), random.Random(seed)
    for _ in range(40):
        is_read_or_refused(mutated(text, numbers))


@pytest.mark.full
@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(PROGRAMS, st.integers(0, 2**32))
def test_many_mutated_texts_are_read_or_refused(func: PrimFunc, seed: int) -> None:
    text, numbers = func.script(), random.Random(seed)
    for _ in range(100):
        is_read_or_refused(mutated(text, numbers))


SHAPES = ("(lambda x: x, 4)", '"4,), (4"', "(None,)", "4, 4, 4, 4, 4, 4, 4", '("a b",)', "(A,)")


@pytest.mark.parametrize("shape", SHAPES)
def test_a_shape_that_is_none_is_refused_where_it_stands(shape: str) -> None:
    with pytest.raises(ParseError, match="<text>:2:"):
        from_source(f"@T.prim_func\ndef main(A: T.Buffer({shape})):\n    T.evaluate(0)\n")
