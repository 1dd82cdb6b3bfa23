"""Loops that run on the host: the order of the steps, for programs whose steps the host starts one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ..executable import Executable, Location, Loop, Step, evaluate
from .shapes import Bindings, beyond_bound


@dataclass(frozen=True, slots=True)
class Memory:
    """How the host reads an int64 at a place and writes it, and reads whether a bool there is true."""

    number: Callable[[Location], int]
    flag: Callable[[Location], bool]
    count: Callable[[Location, int], None]


def in_order(
    executable: Executable, memory: Memory, env: Bindings, first: int = 0, last: int | None = None
) -> Iterator[tuple[int, Step]]:
    """The steps with their numbers in the order in which they run; a loop comes once, in front of its iterations.

    Raises `InputError` if a loop would go on beyond its bound.
    """
    steps, index = executable.steps, first
    while index < (len(steps) if last is None else last):
        step = steps[index]
        yield index, step
        index += 1
        if isinstance(step, Loop):
            done = 0
            memory.count(step.number, done)
            while done < memory.number(step.limit) and (step.going is None or memory.flag(step.going)):
                most = None if step.most is None else int(evaluate(step.most, env))
                if most is not None and done >= most:
                    raise beyond_bound(executable, index - 1, most)
                yield from in_order(executable, memory, env, index, index + step.steps)
                done += 1
                memory.count(step.number, done)
            index += step.steps
