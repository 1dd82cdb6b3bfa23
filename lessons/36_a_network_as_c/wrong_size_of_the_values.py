"""Wrong: the arena ends after the last value, so it is smaller than `size` where there is room to spare."""

from __future__ import annotations

from collections.abc import Sequence

from lessons.arenas import Placed


def declaration(values: Sequence[Placed], size: int) -> str:
    """Return C text that declares the type `arena_t`, with a member for each value."""
    members = [f"    unsigned char every_byte[{max((value.end for value in values), default=size)}];"]
    for number, value in enumerate(values):
        padding = f"unsigned char gap_before_{number}[{value.offset}]; " if value.offset else ""
        members.append(f"    struct {{ {padding}{value.ctype} {value.name}[{value.count}]; }};")
    return "\n".join(["typedef union {", *members, "} arena_t;"])
