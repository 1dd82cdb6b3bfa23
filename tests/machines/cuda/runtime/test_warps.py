"""Warps of the simulator: whose values lanes get, and what PTX's ISA leaves undefined, which is an error."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from minitvm.machines.cuda.runtime import simulated_warps
from minitvm.machines.cuda.runtime.faults import KernelFault
from minitvm.machines.cuda.runtime.simulator import simulated

pytest.importorskip("numba_cuda")

FULL = simulated_warps.WHOLE


def lanes_of(body: str, threads: int = 32) -> list[int]:
    """What each thread writes into `B[t]`; the text has `t`, its number, and `A[t] == t`."""
    names = "warp_active, warp_shuffle, warp_shuffle_down, warp_shuffle_up, warp_shuffle_xor, ldmatrix_x1, shared_f16"
    head = [
        "from numba import cuda", "from minitvm.machines.simd.vectors.simd import pointer_i32",
        f"from minitvm.machines.cuda.runtime.operations import {names}", "", "def k(a, b):", "    A = pointer_i32(a)",
        "    B = pointer_i32(b)", "    t = cuda.threadIdx.x",
    ]  # fmt: skip
    source = "\n".join([*head, *(f"    {line}" for line in body.splitlines()), ""])
    a, b = np.arange(threads, dtype=np.int32), np.full(threads, -1, np.int32)
    simulated(source, "k")((1, 1, 1), (threads, 1, 1), [a.ctypes.data, b.ctypes.data])
    return [int(v) for v in b]


def two(lower: Any, upper: Any) -> list[int]:
    return [lower(t) if t < 16 else upper(t) for t in range(32)]


@pytest.mark.parametrize(
    ("call", "source"),
    [
        (f"warp_shuffle({FULL}, A[t], 3, 32)", lambda t: t // 32 * 32 + 3),
        (f"warp_shuffle({FULL}, A[t], 31 - t % 32, 32)", lambda t: t // 32 * 32 + 31 - t % 32),
        (f"warp_shuffle({FULL}, A[t], 11, 8)", lambda t: t // 8 * 8 + 3),
        (f"warp_shuffle_down({FULL}, A[t], 5, 8)", lambda t: t + 5 if t % 8 < 3 else t),
        (f"warp_shuffle_up({FULL}, A[t], 2, 16)", lambda t: t - 2 if t % 16 > 1 else t),
        (f"warp_shuffle_xor({FULL}, A[t], 9, 8)", lambda t: t ^ 9 if (t ^ 9) < t // 8 * 8 + 8 else t),
    ],
)
def test_lanes_get_the_value_of_the_lane_that_the_isa_says(call: str, source: Any) -> None:
    assert lanes_of(f"B[t] = {call}", 64) == [source(t) for t in range(64)]


def test_halves_of_a_warp_may_part_each_with_its_mask() -> None:
    body = (
        "if t < 16:\n"
        "    B[t] = warp_shuffle_down(0xFFFF, A[t], 1, 16)\n"
        "    B[t] = warp_shuffle_xor(0xFFFF, B[t], 2, 16)\n"
        "else:\n"
        "    B[t] = warp_shuffle(0xFFFF0000, A[t], 20, 32)\n"
    )
    assert lanes_of(body) == two(lambda t: min((t ^ 2) + 1, 15), lambda t: 20)


def test_lanes_may_meet_at_different_places_of_the_text() -> None:
    """Since sm_70 a mask decides who meets, not the place in the text."""
    first, second = (f"B[t] = warp_shuffle({FULL}, A[t], {lane}, 32)" for lane in (20, 7))
    body = f"if t < 16:\n    {first}\nelse:\n    {second}"
    assert lanes_of(body) == two(lambda t: 20, lambda t: 7)


def test_the_lanes_that_a_warp_has() -> None:
    assert lanes_of("B[t] = int(warp_active()) >> 4", 40) == [FULL >> 4] * 32 + [0b1111] * 8


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (f"if t < 7:\n    B[t] = warp_shuffle({FULL}, A[t], 0, 32)", "lane 7 of warp 0.* never comes"),
        ("B[t] = warp_shuffle(0xFF, A[t], 0, 32)", r"lane \d+ is not in its mask 0xff"),
        ("if t < 8:\n    B[t] = warp_shuffle_down(0xFF, A[t], 1, 32)", "lane 7 reads from lane 8, which does not take"),
        (
            f"if t < 16:\n    B[t] = warp_shuffle({FULL}, A[t], 0, 32)\n"
            f"else:\n    B[t] = warp_shuffle_up({FULL}, A[t], 1, 32)",
            "do different things together: warp_shuffle over 32 lanes, warp_shuffle_up over 32 lanes",
        ),
        (
            f"if t < 16:\n    B[t] = warp_shuffle({FULL}, A[t], 0, 32)\n"
            f"else:\n    B[t] = warp_shuffle({FULL}, A[t], 0, 16)",
            "do different things together: warp_shuffle over 16 lanes, warp_shuffle over 32 lanes",
        ),
        (
            f"s = shared_f16(512)\nif t < 16:\n    B[t] = warp_shuffle({FULL}, A[t], 0, 32)\n"
            "else:\n    ldmatrix_x1(s, 8 * (t % 8))",
            "do different things together: ldmatrix, warp_shuffle over 32 lanes",
        ),
        ("s = shared_f16(512)\nif t < 31:\n    ldmatrix_x1(s, 8 * (t % 8))", "ldmatrix: lane 31 .* never comes"),
    ],
    ids=["never", "stranger", "outside", "names", "widths", "kinds", "ldmatrix"],
)  # fmt: skip
def test_what_is_undefined_is_an_error(body: str, message: str) -> None:
    with pytest.raises(KernelFault, match=message):
        lanes_of(body)
