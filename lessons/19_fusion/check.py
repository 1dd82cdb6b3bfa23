"""Draws networks with operators of all classes, and says for the first operator in a wrong kernel why it is wrong."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

from hypothesis import strategies as st

from lessons.fusing import Op
from lessons.grading import attempt, cases, require

KINDS = ("element-wise", "injective", "reduction", "complex", "opaque")


@st.composite
def networks(draw: Callable[..., Any]) -> list[Op]:
    """Up to six operators; each reads one or two values, mostly recent ones."""
    ops: list[Op] = []
    for number in range(draw(st.integers(1, 6))):
        values = [op.name for op in reversed(ops)] + ["x"]
        inputs = draw(st.lists(st.sampled_from(values), min_size=1, max_size=2))
        ops.append(Op(f"op{number}", draw(st.sampled_from(KINDS)), tuple(inputs)))
    return ops


def check(module: ModuleType) -> None:
    """Raises AssertionError with the smallest network in which an operator is in the wrong kernel."""

    @cases(500, ops=networks())
    def fuses_by_the_rule(ops: list[Op]) -> None:
        case = "kernels([\n" + "".join(f"    {shown(op)},\n" for op in ops) + "])"
        answer = attempt(case, module.kernels, list(ops))
        sound = isinstance(answer, list) and all(isinstance(kernel, list) for kernel in answer)
        require(sound, f"{case} returned {answer!r}, wanted a list of lists of names")
        names = [name for kernel in answer for name in kernel]
        every = sorted(op.name for op in ops)
        require(sorted(names) == every, f"{case} is {answer}: wanted each of {', '.join(every)} once")
        partners = joined(ops)
        for op in ops:
            partner, reason = partners[op.name]
            (mine,) = (kernel for kernel in answer if op.name in kernel)
            if partner is None:
                require(mine[0] == op.name, f"{case} is {answer}\n{op.name} begins a kernel: {reason}")
            else:
                require(
                    partner in mine[: mine.index(op.name)],
                    f"{case} is {answer}\n{op.name} joins the kernel of {partner}, after it",
                )
        first = {op.name: number for number, op in enumerate(ops)}
        begun = [first[kernel[0]] for kernel in answer]
        require(begun == sorted(begun), f"{case} is {answer}: wanted the kernels in the order in which they were begun")


def joined(ops: list[Op]) -> dict[str, tuple[str | None, str]]:
    """For each operator, the one whose kernel it joins and "", or None and the reason of each of its inputs."""
    partners: dict[str, tuple[str | None, str]] = {}
    by_name = {op.name: op for op in ops}
    for op in ops:
        refused = {value: refusal(op, value, by_name, partners) for value in dict.fromkeys(op.inputs)}
        partner = next((value for value in refused if not refused[value]), None)
        partners[op.name] = partner, "" if partner else "; ".join(refused.values())
    return partners


def refusal(op: Op, value: str, by_name: dict[str, Op], partners: dict[str, tuple[str | None, str]]) -> str:
    """Why `op` cannot join the kernel of the operator that computes `value`; "" if it can."""
    if value not in by_name:
        return f"no operator computes {value}"
    others = [other.name for other in by_name.values() if value in other.inputs and other is not op]
    if others:
        return f"{', '.join(others)} reads {value} as well"
    kinds = []
    at: str | None = value
    while at is not None:  # back to the operator that began the kernel
        kinds.insert(0, by_name[at].kind)
        at = partners[at][0]
    allowed = {"element-wise": set(KINDS) - {"opaque"}, "complex": set(), "opaque": set()}
    if set(kinds) <= allowed.get(op.kind, {"element-wise", "injective"}):
        return ""
    article = "an" if op.kind[0] in "eio" else "a"
    return f"{article} {op.kind} operator may not join the kernel of {value}, which is {' + '.join(kinds)}"


def shown(op: Op) -> str:
    """As it is written in Python."""
    return f"Op({op.name!r}, {op.kind!r}, {op.inputs!r})"
