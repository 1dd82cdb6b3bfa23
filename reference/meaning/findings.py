"""`Finding`: a description of undefined behaviour that the interpreters find, as data.

An `ExecutionError` of the shadow checks is an `UndefinedBehaviour`, which has a finding: the kind of fault, the
element, and the accesses that caused it. Each access has the loop values at which it happened, and its node of the
program, whose text can be marked (`finding.script(func)`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from minitvm.errors import ExecutionError
from minitvm.expr import walk
from minitvm.tir.nodes import IRModule, PrimFunc

from .text import statement_text


@dataclass(frozen=True, slots=True)
class Access:
    """One access: "read" or "written", the values of the loops around it, and the expression or statement that did it.

    The loops are those of the function that contains the access, outermost first.
    """

    verb: str
    node: Any
    loops: tuple[tuple[str, int], ...] = ()

    @property
    def text(self) -> str:
        """The access as program text on one line."""
        return statement_text(self.node)

    @property
    def where(self) -> str:
        """The loop values as text, such as `i = 0, j = 3`; "" outside of all loops."""
        return ", ".join(f"{name} = {value}" for name, value in self.loops)

    @property
    def place(self) -> str:
        """The access as text, with its loop values."""
        return f"{self.text}, where {self.where}" if self.loops else self.text

    def __str__(self) -> str:
        place = f" where {self.where}" if self.loops else ""
        return f"{self.verb}{place} by: {self.text}"


@dataclass(frozen=True, slots=True)
class Finding:
    """Undefined behaviour in a run.

    `kind` is "conflict" (two accesses that nothing orders), "out of bounds", "uninitialised read", "output not written"
    or "divergent barrier". `index` is the element of `buffer`; for "out of bounds" it is the index that was used.
    `accesses` has two accesses for a conflict or a divergent barrier, none for a missing write, and otherwise one.
    """

    kind: str
    buffer: str
    index: tuple[int, ...]
    accesses: tuple[Access, ...] = ()

    def script(self, program: PrimFunc | IRModule) -> str:
        """Return the text of the function that ran, with the accesses underlined, each with its verb and loop values.

        For a module, it is the function that contains the accesses.
        """
        func = program
        if isinstance(program, IRModule):
            candidates = [f for _, f in program.items()]
            nodes = {one.node for one in self.accesses}
            func = next((f for f in candidates if nodes & set(walk(f))), candidates[0])
        inside = set(walk(func))
        marks: dict[Any, str] = {}
        for one in self.accesses:
            if one.node in inside:
                note = f"{one.verb} where {one.where}" if one.loops else one.verb
                marks[one.node] = f"{marks[one.node]}; {note}" if one.node in marks else note
        return func.script(mark=marks)


class UndefinedBehaviour(ExecutionError):
    """An `ExecutionError` that also has a `finding`."""

    def __init__(self, message: str, finding: Finding) -> None:
        super().__init__(message)
        self.finding = finding
