"""The state of an explored schedule: every version of its lines. Pure functions from a state to a state, without I/O.

A version is a text and the version that it came from, so versions form a tree. Nothing is ever deleted: `undo` goes to
the parent, `redo` to the newest child, and a change after an undo begins a new branch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ...errors import InputError


@dataclass(frozen=True, slots=True)
class Version:
    """The lines of a schedule, the number of the version that they came from (None for the first), and a label."""

    lines: str
    parent: int | None
    label: str


@dataclass(frozen=True, slots=True)
class State:
    """A program in TVMScript, all versions of its schedule, and the number of the current one."""

    program: str
    versions: tuple[Version, ...]
    at: int = 0

    @property
    def lines(self) -> str:
        """The lines of the current version."""
        return self.versions[self.at].lines


def start(program: str, lines: str) -> State:
    """The state with one version."""
    return State(program, (Version(_trimmed(lines), None, "start"),))


def edit(state: State, lines: str, label: str = "edit") -> State:
    """Make these lines the current version, as a child of the one before; the same lines change nothing."""
    lines = _trimmed(lines)
    return state if lines == state.lines else _add(state, Version(lines, state.at, label))


def append(state: State, line: str) -> State:
    """Add a line at the end of the schedule."""
    return edit(state, f"{state.lines}\n{line}", line.strip().split("\n")[-1])


def fork(state: State) -> State:
    """Begin a branch: a copy of the current version next to it."""
    parent = state.versions[state.at].parent
    return _add(state, Version(state.lines, state.at if parent is None else parent, f"fork of {state.at}"))


def undo(state: State) -> State:
    """Go to the version that the current one came from; the first version stays."""
    parent = state.versions[state.at].parent
    return state if parent is None else replace(state, at=parent)


def redo(state: State) -> State:
    """Go to the newest version that came from the current one, if there is one."""
    children = [k for k, version in enumerate(state.versions) if version.parent == state.at]
    return replace(state, at=children[-1]) if children else state


def go(state: State, number: int) -> State:
    """Go to a version by its number. Raises `InputError` if there is none."""
    if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number < len(state.versions):
        raise InputError(f"there is no version {number!r}; wanted 0 to {len(state.versions) - 1}")
    return replace(state, at=number)


def shared(state: State) -> str:
    """The current version as a Python file, which `minitvm check` and `minitvm explore` read."""
    body = "\n".join(f"    {line}".rstrip() for line in (state.lines or "pass").split("\n"))
    return (
        f"from minitvm import tir\nfrom minitvm.script import ir as I\nfrom minitvm.script import tir as T\n\n\n"
        f"{state.program.strip()}\n\n\ndef schedule(sch: tir.Schedule) -> None:\n{body}\n"
    )


def view(state: State) -> Mapping[str, Any]:
    """The state as plain data for the page."""
    return {
        "at": state.at,
        "lines": state.lines,
        "versions": [{"parent": version.parent, "label": version.label} for version in state.versions],
        "undo": undo(state).at != state.at,
        "redo": redo(state).at != state.at,
    }


def _add(state: State, version: Version) -> State:
    return replace(state, versions=(*state.versions, version), at=len(state.versions))


def _trimmed(lines: str) -> str:
    """The text without blank lines at its ends and blanks at the ends of lines; this also makes line ends alike."""
    return "\n".join(line.rstrip() for line in lines.splitlines()).strip("\n")
