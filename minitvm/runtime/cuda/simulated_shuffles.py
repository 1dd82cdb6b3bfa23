"""Shuffles of the simulator: the threads of a warp, which Python runs side by side, meet at a line of the kernel.

A thread waits until all lanes of its mask are there. A lane that reads from one outside of the mask gets an error, and
so does one that waits for a lane that does not come.
"""

from __future__ import annotations

import sys
import threading
import time
from typing import Any

from .faults import KernelFault

WARP = 32
PATIENCE = 20.0  # seconds, after which a lane is taken never to come

_met = threading.Condition()


def _source(name: str, lane: int, by: int, width: int) -> int:
    base, place = lane // width * width, lane % width
    if name == "warp_shuffle":
        return base + by % width
    if name == "warp_shuffle_down":
        return lane + by if place + by < width else lane
    if name == "warp_shuffle_up":
        return lane - by if place >= by else lane
    return lane ^ by if (lane ^ by) // width * width <= base else lane


def shuffle(name: str, mask: Any, value: Any, by: Any, width: Any) -> Any:
    """What the lane gets from the lane that `name` and `by` say, once all lanes of the mask are here."""
    thread: Any = threading.current_thread()
    warp, lane = divmod(thread.thread_id, WARP)
    mask, by, width = int(mask) & 0xFFFFFFFF, int(by), int(width)
    named = {k for k in range(WARP) if mask >> k & 1}
    if lane not in named:
        raise KernelFault(f"{name}: lane {lane} is not in its mask {hex(mask)}")
    here = (warp, sys._getframe(1).f_lineno)
    with _met:
        places = thread._manager.__dict__.setdefault("minitvm_warps", {})
        arrived = places.setdefault(here, {})
        mine: dict[str, Any] = {"value": value}
        arrived[lane] = mine
        if arrived.keys() == named:
            del places[here]
            mine["all"] = arrived
            for one in arrived.values():
                one["all"] = arrived
            _met.notify_all()
        began = time.monotonic()
        while "all" not in mine:
            _met.wait(0.1)
            if thread.abort:
                raise RuntimeError("another thread failed")
            if time.monotonic() - began > PATIENCE:
                missing = sorted(named - arrived.keys())
                raise KernelFault(
                    f"{name}: lane {missing[0]} of warp {warp}, which the mask {hex(mask)} names, never comes"
                )
    source = _source(name, lane, by, width)
    if source not in mine["all"]:
        raise KernelFault(f"{name}: lane {lane} reads from lane {source}, which does not take part")
    return mine["all"][source]["value"]


def active() -> int:
    """The mask of the lanes that a warp has: a program that asks has not parted them."""
    thread: Any = threading.current_thread()
    x, y, z = thread._manager._block_dim
    return (1 << min(WARP, x * y * z - thread.thread_id // WARP * WARP)) - 1
