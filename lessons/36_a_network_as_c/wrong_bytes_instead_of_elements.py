"""Wrong: a member is an array of its elements, not of its bytes."""

from __future__ import annotations

from collections.abc import Sequence

from lessons.arenas import Placed


def declaration(values: Sequence[Placed], size: int) -> str:
    """Return C text that declares the type `arena_t`, with a member for each value."""
    members = [f"    unsigned char every_byte[{size}];"]
    for number, value in enumerate(values):
        padding = f"unsigned char gap_before_{number}[{value.offset}]; " if value.offset else ""
        members.append(f"    struct {{ {padding}unsigned char {value.name}[{value.end - value.offset}]; }};")
    return "\n".join(["typedef union {", *members, "} arena_t;"])
