"""Wrong: a structure whose members follow each other cannot let two values share bytes."""

from __future__ import annotations

from collections.abc import Sequence

from lessons.arenas import Placed


def declaration(values: Sequence[Placed], size: int) -> str:
    """Return C text that declares the type `arena_t`, with a member for each value."""
    lines, end = ["typedef struct {"], 0
    for number, value in enumerate(sorted(values, key=lambda value: value.offset)):
        if value.offset > end:
            lines.append(f"    unsigned char hole_{number}[{value.offset - end}];")
        lines.append(f"    {value.ctype} {value.name}[{value.count}];")
        end = value.end
    if size > end:
        lines.append(f"    unsigned char rest_of_it[{size - end}];")
    return "\n".join([*lines, "} arena_t;"])
