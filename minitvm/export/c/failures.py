"""The errors of a C program: a status for each place that may fail, and the text that says why.

A status is `kind + 16 * number`: the kind is what a caller tells apart, and the number finds the text.
"""

from __future__ import annotations

from .names import quoted

# The kinds, in the order of their numbers from 1 on, each with the meaning that the header prints.
KINDS = {
    "NULL": "a pointer is NULL",
    "ALIGNMENT": "a pointer has the wrong alignment",
    "OVERLAP": "memory that the program writes overlaps other memory",
    "MEMORY": "the arena or a tensor is too small",
    "WEIGHTS": "the weights belong to another program",
    "SIZE": "the program does not take these sizes",
    "VALUE": "an element of an input or state is out of bounds",
    "DATA": "a size that the data decide is out of bounds",
    "LOOP": "a loop would continue beyond its bound",
    "THREADS": "the number of threads is not positive",
}


class Failures:
    """The statuses of one program, each with its text."""

    def __init__(self, macro: str) -> None:
        self._macro = macro
        self._numbers: dict[tuple[str, str], int] = {}

    def returns(self, kind: str, text: str) -> str:
        """Return the C statement that ends a run with this failure; the same kind and text have the same status."""
        number = self._numbers.setdefault((kind, text), len(self._numbers))
        return f"return {self._macro}_ERROR_{kind} + 16 * {number};"

    def table(self) -> list[str]:
        """Return the entries of the C table of texts."""
        return [quoted(text) for _, text in self._numbers]
