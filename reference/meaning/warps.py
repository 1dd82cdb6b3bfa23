"""The *collective* operations of a warp: each thread waits until all threads that take part have arrived.

A warp is `warp_size` threads of a block, numbered along x, then y, then z. A thread that reaches a collective operation
makes a `Request`, and `resolve` answers the requests of complete groups. The shuffles follow NVIDIA's CUDA C++
Programming Guide ("Warp Shuffle Functions"): lane i of a section of `width` lanes gets the value of

    tvm_warp_shuffle       lane `by % width` of its section
    tvm_warp_shuffle_down  lane i + by, or its own value if that lane is in another section
    tvm_warp_shuffle_up    lane i - by, or its own value if that lane is in another section
    tvm_warp_shuffle_xor   lane i ^ by, or its own value if that lane is in a later section

Behaviour that the guide leaves undefined is an error: a lane in the mask that never arrives, a lane that arrives but is
not in the mask, and the value of a lane that does not take part.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from minitvm import expr as x
from minitvm.errors import ExecutionError


@dataclass(slots=True, eq=False)
class Request:
    """A thread waiting at a collective operation: its number among the `threads` of the block, and its arguments."""

    call: x.Call
    thread: int
    threads: int
    args: tuple[Any, ...]
    result: Any = None
    done: bool = False


def source_lane(op: str, lane: int, by: int, width: int) -> int:
    """Return the lane of the warp whose value a lane gets in a shuffle."""
    first = lane - lane % width
    if op == "tvm_warp_shuffle":
        return first + by % width
    if op == "tvm_warp_shuffle_xor":
        return lane ^ by if (lane ^ by) < first + width else lane
    other = lane + by if op == "tvm_warp_shuffle_down" else lane - by
    return other if first <= other < first + width else lane


def _shuffled(requests: Sequence[Request]) -> bool:
    """Give each lane its value; return False if a lane of the mask is missing."""
    call, size = requests[0].call, int(requests[0].args[4])
    lanes = {r.thread % size: r for r in requests}
    masks = {int(r.args[0]) % 2**64 for r in requests}
    if len(masks) > 1:
        raise ExecutionError(f"{call}: the lanes of a warp name different masks, {', '.join(map(hex, sorted(masks)))}")
    named = {lane for lane in range(size) if masks.copy().pop() >> lane & 1}
    stranger = next((lane for lane in lanes if lane not in named), None)
    if stranger is not None:
        raise ExecutionError(
            f"{call}: lane {stranger} of a warp takes part\n  wanted: a lane of the mask {hex(masks.pop())}"
        )
    if named != lanes.keys():
        return False
    for lane, r in lanes.items():
        width = int(r.args[3])
        if not 0 < width <= size or width & (width - 1):
            raise ExecutionError(f"{call}: a width of {width}\n  wanted: a power of two, at most {size}")
        source = source_lane(call.op, lane, int(r.args[2]), width)
        if source not in lanes:
            raise ExecutionError(
                f"{call}: lane {lane} reads from lane {source}, which does not take part\n"
                f"  wanted: one of lanes {', '.join(map(str, sorted(lanes)))}"
            )
        r.result = lanes[source].args[1]
    return True


def _active(requests: Sequence[Request]) -> bool:
    """Give each lane the mask of the lanes that are present; return True."""
    mask = sum(1 << r.thread % 32 for r in requests)
    for r in requests:
        r.result = mask
    return True


_SHUFFLES = ("tvm_warp_shuffle", "tvm_warp_shuffle_down", "tvm_warp_shuffle_up", "tvm_warp_shuffle_xor")
# Each function answers the requests of one warp at one place in the text, or returns False if threads are missing.
COLLECTIVES: dict[str, Callable[[Sequence[Request]], bool]] = {
    **dict.fromkeys(_SHUFFLES, _shuffled),
    "tvm_warp_activemask": _active,
}


def is_collective(node: x.Node) -> bool:
    """Return whether a node is a collective operation of a warp."""
    return isinstance(node, x.Call) and node.op in COLLECTIVES


def resolve(requests: Sequence[Request]) -> None:
    """Answer all requests of complete groups. Raises `ExecutionError` if there are none: the threads wait forever."""
    groups: dict[tuple[int, x.Call], list[Request]] = {}
    for r in requests:
        size = int(r.args[4]) if len(r.args) > 4 else 32
        groups.setdefault((r.thread // size, r.call), []).append(r)
    answered = False
    for group in groups.values():
        if COLLECTIVES[group[0].call.op](group):
            answered = True
            for r in group:
                r.done = True
    if not answered:
        raise _divergent(next(iter(groups.values())))


def _divergent(group: Sequence[Request]) -> ExecutionError:
    first, size = group[0], int(group[0].args[4])
    mask = int(first.args[0])
    here = sorted(r.thread % size for r in group)
    missing = [lane for lane in range(size) if mask >> lane & 1 and lane not in here]
    warp = first.thread // size
    exists = [lane for lane in missing if warp * size + lane < first.threads]
    why = "never comes" if exists else f"does not exist, in a block of {first.threads} threads"
    return ExecutionError(
        f"{first.call}: lane {(exists or missing)[0]} of warp {warp}, which the mask {hex(mask)} names, {why}\n"
        f"  wanted: every lane of the mask at this shuffle\n  found:  lanes {', '.join(map(str, here))}"
    )
