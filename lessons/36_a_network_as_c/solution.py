"""A union of one structure for each value: the padding before it, and the value."""

from __future__ import annotations

from collections.abc import Sequence

from lessons.arenas import Placed


def declaration(values: Sequence[Placed], size: int) -> str:
    """Return C text that declares the type `arena_t`, with a member for each value."""
    names = {value.name for value in values}
    prefix = "pad"
    while any(name.startswith(prefix) for name in names):
        prefix += "_"
    members = []
    for number, value in enumerate(values):
        padding = f"unsigned char {prefix}{number}[{value.offset}]; " if value.offset else ""
        members.append(f"    struct {{ {padding}{value.ctype} {value.name}[{value.count}]; }};")
    return "\n".join(["typedef union {", f"    unsigned char {prefix}[{size}];", *members, "} arena_t;", ""])
