"""Runs the learner's search on random sums of products, and compares its mappings with what computing them finds."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from types import ModuleType
from typing import Any

from hypothesis import strategies as st

from lessons.grading import attempt, cases, require

OPERANDS = ("result", "left", "right")


def text(what: dict[str, Any]) -> str:
    """A sum of products in one line."""
    loops = ", ".join(f"{name}: {extent}" for name, extent in what["loops"].items())
    return f"result[{what['result']}] = sum of left[{what['left']}] * right[{what['right']}], loops {loops}"


@st.composite
def sums(draw: Callable[..., Any], letters: str, extents: tuple[int, ...]) -> dict[str, Any]:
    """Loops that are in the result or not, and in one operand or both."""
    loops: dict[str, int] = {}
    where = dict.fromkeys(OPERANDS, "")
    for letter in letters[: draw(st.integers(1, len(letters)))]:
        loops[letter] = draw(st.sampled_from(extents))
        result = draw(st.sampled_from([("result",), ()]))
        inputs = draw(st.sampled_from([("left",), ("right",), ("left", "right")]))
        for operand in (*result, *inputs):
            where[operand] += letter
    return {"loops": loops, **where}


def expected(computation: dict[str, Any], instruction: dict[str, Any]) -> set[tuple[tuple[str, str], ...]]:
    """For each loop of the instruction those of whole tiles that are, in one of the two orders of operands, in the
    same operands."""
    found = set()
    for order in (("result", "left", "right"), ("result", "right", "left")):

        def is_like(loop: str, other: str, order: tuple[str, ...] = order) -> bool:
            extent, tile = computation["loops"][loop], instruction["loops"][other]
            ours = [loop in computation[operand] for operand in OPERANDS]
            its = [other in instruction[operand] for operand in order]
            return extent % tile == 0 and ours == its

        choices = [
            [(other, loop) for loop in computation["loops"] if is_like(loop, other)] for other in instruction["loops"]
        ]
        found |= {pairs for pairs in product(*choices) if len({loop for _, loop in pairs}) == len(pairs)}
    return found


def check(module: ModuleType) -> None:
    """Raises AssertionError with the smallest computation for which a mapping is wrong or missing."""

    @cases(300, computation=sums("ijkl", (8, 16, 12)), instruction=sums("mnp", (4, 16, 6)))
    def finds_all(computation: dict[str, Any], instruction: dict[str, Any]) -> None:
        what = f"for the computation  {text(computation)}\nand the instruction  {text(instruction)}\n"
        answer = attempt(what, module.mappings, computation, instruction)
        require(
            isinstance(answer, list) and all(isinstance(one, dict) for one in answer),
            f"{what}wanted a list of dictionaries, found {answer!r}",
        )
        right = expected(computation, instruction)
        for one in answer:
            named = set(one) == set(instruction["loops"])
            keys = f"its keys must be the loops of the instruction, {', '.join(instruction['loops'])}"
            require(named, f"{what}{one} is not a mapping: {keys}")
        listed = [tuple((other, one[other]) for other in instruction["loops"]) for one in answer]
        for one, pairs in zip(answer, listed, strict=True):
            require(pairs in right, f"{what}{one} does not fit: {why(one, computation, instruction)}")
        require(len(set(listed)) == len(listed), f"{what}a mapping is in the list twice: {answer}")
        for pairs in sorted(right):
            require(pairs in listed, f"{what}{dict(pairs)} is missing")


def why(mapping: dict[str, str], computation: dict[str, Any], instruction: dict[str, Any]) -> str:
    """What is wrong with a mapping."""
    if len(set(mapping.values())) < len(mapping):
        return "two loops of the instruction are mapped to the same loop"
    for other, loop in mapping.items():
        if loop not in computation["loops"]:
            return f"the computation has no loop {loop}"
        extent, tile = computation["loops"][loop], instruction["loops"][other]
        if extent % tile:
            return f"{extent} iterations of {loop} cannot be cut into whole tiles of {tile}"
    return "the operands do not have these loops in the same places"
