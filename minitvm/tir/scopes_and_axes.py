"""The scopes of storage and the axes of threads, by TVM's names.

The parser and the schedule primitives accept the same names, so both ask here.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..errors import nearest

# A scope is one of these, and after a dot which part or layout of it ("shared.dyn", "wmma.matrix_a").
SCOPES = (
    "global", "shared", "local", "warp", "warpgroup",
    "wmma", "m16n8k8", "metal", "texture", "amx", "vtcm", "acc", "inp", "wgt", "out",
)  # fmt: skip
SWIZZLED = "shared.dyn.swizzled"  # lines of 128 bytes, whose pieces lie as `transform.swizzle_shared` says
_SCOPE = re.compile(rf"^({'|'.join(SCOPES)})\b[\w.]*$")

# "vthread" alone is an axis of virtual threads as well.
THREAD_AXES = (*(f"{grid}.{axis}" for grid in ("blockIdx", "threadIdx", "vthread") for axis in "xyz"), "vthread")

# What an error lists where nothing is near.
COMMON_SCOPES = "global, shared, local, warp, or a scope of an accelerator"


def is_scope(name: object) -> bool:
    """Whether storage can be of this scope."""
    return isinstance(name, str) and _SCOPE.match(name) is not None


def is_within(scope: str, described: str) -> bool:
    """Whether storage of a scope is storage of a described one: the same, or a part of it ("shared.dyn" of "shared").

    Instructions tell memories apart, not who allocates a piece of them.
    """
    return scope == described or (scope.startswith(f"{described}.") and scope != SWIZZLED)


def is_thread_axis(name: object) -> bool:
    """Whether a loop can be bound to this axis."""
    return name in THREAD_AXES


def suggestion(name: str, names: Sequence[str]) -> tuple[str, ...]:
    """What to try instead of a name: the nearest of `names`, if one is near."""
    hint = nearest(name, names)
    return (hint,) if hint.startswith("did you mean") else ()
