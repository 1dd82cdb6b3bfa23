"""What the interpreters find when a program does something undefined, as data: `Finding`.

An `ExecutionError` of the shadow checks is an `UndefinedBehaviour` and has one: the kind of fault, the element, and the
accesses behind it, each with the loop values at which it happened and the node of the program, whose text can be marked
(`finding.script(func)`).
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

    The loops are those of the function that the access stands in, outermost first.
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
        """`i = 0, j = 3`, "" outside of all loops."""
        return ", ".join(f"{name} = {value}" for name, value in self.loops)

    @property
    def place(self) -> str:
        """The text, and where."""
        return f"{self.text}, where {self.where}" if self.loops else self.text

    def __str__(self) -> str:
        place = f" where {self.where}" if self.loops else ""
        return f"{self.verb}{place} by: {self.text}"


@dataclass(frozen=True, slots=True)
class Finding:
    """Undefined behaviour in a run.

    `kind` is "conflict" (two accesses that nothing orders), "out of bounds", "uninitialised read", "output not
    written" or "divergent barrier". `index` is the element of `buffer`; for "out of bounds" the index that was asked
    for. `accesses` are the two of a conflict or divergence, otherwise the one that is at fault; none where a write is
    missing.
    """

    kind: str
    buffer: str
    index: tuple[int, ...]
    accesses: tuple[Access, ...] = ()

    def script(self, program: PrimFunc | IRModule) -> str:
        """The text of the function that ran, with the accesses underlined, each with its verb and loop values.

        Of a module, it is the function that the accesses stand in.
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
    """An `ExecutionError` that says what was found as data too."""

    def __init__(self, message: str, finding: Finding) -> None:
        super().__init__(message)
        self.finding = finding
