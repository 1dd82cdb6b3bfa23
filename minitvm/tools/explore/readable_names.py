"""The lines of a trace as a person would write them: loops and blocks keep the names that they have in the program."""

from __future__ import annotations

import builtins
import keyword
import re
from collections.abc import Iterator, Mapping

from ...tir.schedule import BlockRV, Instruction, LoopRV, Schedule, Trace
from ...tir.schedule.handles import Handle

TAKEN = frozenset({"sch", "tir", "T", "I", "minitvm", *keyword.kwlist, *dir(builtins)})


def written(trace: Trace, variables: Mapping[Handle, str] | None = None) -> Iterator[tuple[Instruction, str]]:
    """Each instruction of a trace with its line of Python, for a schedule named `sch`.

    `variables` are names that handles have already. Otherwise a block's variable is named `block_C` and a loop's `i`;
    a second handle of the same name becomes `i_2`. The letters of a name in the program that are not allowed in Python
    become underscores.
    """
    names: dict[Handle, str] = dict(variables or {})
    blocks: dict[object, str] = {}
    used: set[str] = {*TAKEN, *names.values()}
    for inst in trace:
        if inst.primitive.name == "get_block" and isinstance(inst.arguments.get("name"), str):
            blocks.update((handle, inst.arguments["name"]) for handle in inst.outputs)
        for handle in inst.outputs:
            if handle not in names:
                names[handle] = unused(_spoken(handle, blocks), used)
                used.add(names[handle])
        yield inst, inst.python(names, brief=True)


def unused(name: str, used: set[str]) -> str:
    """The name as an identifier, with the first number that makes it different from the used ones."""
    base = re.sub(r"\W", "_", name, flags=re.ASCII) or "x"
    base = f"_{base}" if base[0].isdigit() else base
    number, free = 1, base
    while free in used:
        number += 1
        free = f"{base}_{number}"
    return free


def _spoken(handle: Handle, blocks: dict[object, str]) -> str:
    if isinstance(handle, BlockRV):
        return f"block_{blocks.get(handle, '')}".rstrip("_")
    return handle.key.name if isinstance(handle, LoopRV) else handle.name


def grouped(trace: Trace, sch: Schedule) -> Iterator[tuple[tuple[str, ...], bool]]:
    """Replay a trace on a schedule; yields the lines of each step that changes the program, after it was applied.

    The lines of queries, such as `get_loops`, come with the step that follows them. The second part tells whether the
    lines change the program: only the last group may consist of queries alone.
    """
    lines: list[str] = []
    texts = [line for _, line in written(trace)]
    for inst, text in zip(trace.replay(sch), texts, strict=True):
        lines.append(text)
        if not inst.primitive.query and not inst.primitive.decides:
            yield tuple(lines), True
            lines = []
    if lines:
        yield tuple(lines), False
