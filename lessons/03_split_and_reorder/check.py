"""Splits loops with the learner's function and asks the reference interpreter which iterations then run, in order."""

from __future__ import annotations

from types import ModuleType

import numpy as np
from hypothesis import strategies as st

from lessons import example
from lessons.grading import attempt, cases, require
from minitvm import reference
from minitvm.errors import ExecutionError
from minitvm.expr import Var, const, free_vars, walk
from minitvm.reference.meaning.scalar import evaluate
from minitvm.tir.nodes import Buffer, BufferStore, For, ForKind, If, PrimFunc, Seq, root_block, with_root


def iterations(loop: For, diary: Buffer, count: Buffer) -> list[int]:
    """The values of i for which the body of a loop from `keeps_a_diary` runs, in order."""
    entries, written = np.full(int(diary.shape[0]), -1, "int32"), np.zeros(1, "int32")
    func = with_root((diary, count), loop, {"global_symbol": "main"})
    reference.tir.run(func, entries, written, inout=["diary", "count"], mode="slow")
    return entries[: written[0]].tolist()


def keeps_a_diary(name: str, extent: int, room: int) -> tuple[For, Buffer, Buffer]:
    """A loop over i, or another name, whose body writes i down on the next free line."""
    i, diary, count = Var(name), Buffer("diary", (room,), "int32"), Buffer("count", (1,), "int32")
    body = Seq((BufferStore(diary, i, (count[0],)), BufferStore(count, count[0] + 1, (const(0),))))
    return For(i, const(0), const(extent), ForKind.SERIAL, body), diary, count


def indented(node: object) -> str:
    """The text of a node, set in by four."""
    return "\n".join("    " + line for line in str(node).splitlines())


def shape_of(loop: For, answer: For, extent: int, factor: int, case: str) -> None:
    """The two loops must be there, with their names and extents, and an `If` only where there is a tail."""
    shown = f"{case} the result is\n{indented(answer)}\n"
    require(isinstance(answer.body, For), f"{shown}wanted a loop directly inside the outer one")
    for which, one, expected, name in (
        ("outer", answer, -(-extent // factor), f"{loop.var.name}_0"),
        ("inner", answer.body, factor, f"{loop.var.name}_1"),
    ):
        actual = int(evaluate(one.extent, {}))  # `(n + factor - 1) // factor` need not be worked out
        require(actual == expected, f"{shown}the {which} loop has extent {actual}; wanted {expected}")
        require(one.var.name == name, f"{shown}the {which} loop's variable is {one.var.name}; wanted {name}")
        require(one.kind == ForKind.SERIAL, f"{shown}the {which} loop is {one.kind.value}; wanted a serial one")
    name = loop.var.name
    require(
        not any(v.name == name for v in free_vars(answer)), f"{shown}{name} is still used, and no loop gives it a value"
    )
    tests = sum(isinstance(item, If) for item in walk(answer))
    if extent % factor == 0:
        require(tests == 0, f"{shown}{factor} divides {extent}: there is no tail, and no If is needed")
    require(tests <= 1, f"{shown}there are {tests} Ifs; wanted one, which keeps {name} below {extent}")


def check(module: ModuleType) -> None:
    """Raises AssertionError with the smallest extent and factor for which a split changes what a loop does."""

    extents = st.sampled_from([*range(1, 13), 0])  # 0 last: a tail tells more

    @cases(150, name=st.sampled_from(["i", "row", "k"]), extent=extents, factor=st.integers(1, 8))
    def runs_the_same_iterations(name: str, extent: int, factor: int) -> None:
        loop, diary, count = keeps_a_diary(name, extent, room=2 * (extent + factor + 1))
        case = f"with a loop over {name}, n = {extent} and factor = {factor}"
        answer = attempt(case, module.split, loop, factor)
        require(isinstance(answer, For), f"{case}: split returned {type(answer).__name__}, wanted a For")
        expected = iterations(loop, diary, count)
        try:
            actual = iterations(answer, diary, count)
        except ExecutionError as error:
            raise AssertionError(f"{case} the result is\n{indented(answer)}\nand cannot be run: {error}") from None
        case_and_loops = f"{case} the result is\n{indented(answer)}\n"
        story = f"its body runs for {name} = {listed(actual)}; wanted {name} = {listed(expected)}"
        require(actual == expected, case_and_loops + story)
        shape_of(loop, answer, extent, factor, case)

    @cases(30, m=st.integers(1, 7), n=st.integers(1, 4), k=st.integers(1, 4), factor=st.integers(1, 5))
    def keeps_the_example(m: int, n: int, k: int, factor: int) -> None:
        before = example.three_loops(m, n, k)
        rows = next(item for item in walk(root_block(before).body) if isinstance(item, For))
        after = PrimFunc(before.params, with_root((), module.split(rows, factor), {}).body, before.attrs)
        verdict = reference.check(before, after)
        case = f"after splitting i of the {m} x {n} x {k} example by {factor}:"
        require(bool(verdict), f"{case}\n{verdict}")


def listed(values: list[int]) -> str:
    """Numbers in a row."""
    return ", ".join(map(str, values)) or "(never)"
