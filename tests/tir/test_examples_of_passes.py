"""Each pass of lowering shows a small program before and after in its docstring, and that is what it does.

    before:
        for i in T.unroll(2):
            B[i] = A[i] * 2.0
    after:
        B[0] = A[0] * 2.0
        B[1] = A[1] * 2.0

`before` is TVMScript in which heads may be left out (`tir.schedule.examples`); `after` is what is printed, without the
reads and writes of blocks, with float32 constants as plain numbers, and with the parameters that the text names. Under
"after, simplified:" stands what `simplify` makes of it, as lowering does later.
"""

from __future__ import annotations

import inspect
import re

import pytest

from minitvm.target import Target
from minitvm.tir.nodes import PrimFunc
from minitvm.tir.schedule.examples import program_of, section
from minitvm.tir.transform.pipeline import Pass, passes
from minitvm.tir.transform.simplify import simplify

TARGETS = ("opencl -device=mali", "cuda -arch=sm_80", "cpu")  # of passes that several have, the last counts
PASSES = {step.name: step for target in TARGETS for step in passes(Target(target)) if step.name != "simplify_again"}
_HIDDEN = re.compile(r"\s*(T\.reads\(|T\.writes\(|\w+ = T\.match_buffer\(var_)")


def example(docstring: str) -> tuple[PrimFunc, str, bool]:
    """The program before, the text after, and whether that is simplified."""
    text = inspect.cleandoc(docstring)
    before, after, simplified = (section(text, head) for head in ("before", "after", "after, simplified"))
    shows = after or simplified
    assert before and shows, "the docstring shows no program before and after"
    return program_of(before, lowered="T.block(" not in before), joined(shows), simplified is not None


def joined(text: str) -> str:
    """A text in which no line breaks inside of brackets, as the printer writes it."""
    lines: list[str] = []
    depth = 0
    for line in text.splitlines():
        if depth and lines:
            lines[-1] += ("" if lines[-1][-1] in "([{" or line.strip()[0] in ")]}" else " ") + line.strip()
        else:
            lines.append(line)
        depth += sum(line.count(c) for c in "([{") - sum(line.count(c) for c in ")]}")
    return "\n".join(lines)


def shown(func: PrimFunc, after: str) -> str:
    """A function as the docstring shows it: the parameters that `after` names, and the body."""
    head, *body = func.script(with_header=False).splitlines()[1:]
    named = re.findall(r"^(\w+): T\.Buffer", after, re.MULTILINE)
    parameters = re.findall(r"\w+: T\.Buffer\((?:[^()]|\([^()]*\))*\)", head)
    lines = [part for part in parameters if part.split(":")[0] in named]
    lines += [line[4:] for line in body if not _HIDDEN.match(line)]
    return re.sub(r"T\.float32\((-?[\d.e+-]+)\)", r"\1", "\n".join(lines))


def after_of(step: Pass) -> tuple[str, str]:
    """The program that the docstring of a pass shows, and the one that the pass makes."""
    func, after, simplified = example(step.run.__doc__ or "")
    result = step.run(func, None)
    result_text = shown(simplify(result) if simplified else result, after)
    assert result_text != shown(func, after), "the example shows a program that the pass leaves alone"
    return after, result_text


@pytest.mark.parametrize("name", PASSES)
def test_the_docstring_shows_what_the_pass_does(name: str) -> None:
    after, result = after_of(PASSES[name])
    assert result == after


def test_a_docstring_that_lies_is_caught() -> None:
    step = PASSES["unroll"]

    def run(func: PrimFunc, target: None) -> PrimFunc:
        return step.run(func, target)

    run.__doc__ = (step.run.__doc__ or "").replace("B[1] = A[1]", "B[1] = A[0]")
    after, result = after_of(Pass("unroll", run, ""))
    assert after != result
