"""Programs for tests: one that is right, and ways to break it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from minitvm.machines.vta.assembler import assemble
from minitvm.machines.vta.config import AccelConfig, configured
from minitvm.machines.vta.isa import QUEUES, Program, Queue

VTA = configured("vta")

# One element of wgt, four of inp, twice through the same registers, so that every queue is needed.
TWICE = """\
.constant kernel uop at 0 count 1
    0 0 0
.input x inp at 64 count 8
.input w wgt at 256 count 1
.output y out at 512 count 8
load.uop sram=0 dram=kernel x=1
load.wgt sram=0 dram=w x=1
load.inp sram=0 dram=x x=4 push(compute)
gemm uops=0:1 loops=4,1 dst=1,0 reset
gemm uops=0:1 loops=4,1 dst=1,0 src=1,0 wgt=0,0 pop(load) push(load) push(store)
store.out sram=0 dram=y x=4 pop(compute) push(compute)
load.inp sram=0 dram=x+4 x=4 pop(compute) push(compute)
gemm uops=0:1 loops=4,1 dst=1,0 reset pop(store)
gemm uops=0:1 loops=4,1 dst=1,0 src=1,0 wgt=0,0 pop(load) push(store)
store.out sram=0 dram=y+4 x=4 pop(compute) push(compute)
finish pop(store)
"""


def twice(config: AccelConfig = VTA) -> Program:
    return assemble(TWICE, config, "twice")


def tensors(seed: int = 0) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    return {
        "x": rng.integers(-128, 128, (8, 1, 16), dtype=np.int8),
        "w": rng.integers(-128, 128, (1, 16, 16), dtype=np.int8),
    }


def expected(inputs: dict[str, Any]) -> np.ndarray[Any, Any]:
    products = inputs["x"].reshape(8, 16).astype(np.int64) @ inputs["w"][0].astype(np.int64).T
    return products.astype(np.int8).reshape(8, 1, 16)


def sides(queue: Queue) -> tuple[str, str]:
    """The names of the bits that push into a queue, and pop out of it."""
    pusher, popper = queue
    return f"push_{'prev' if pusher.prev is popper else 'next'}", f"pop_{'prev' if popper.prev is pusher else 'next'}"


def without_a_token(program: Program) -> Iterator[tuple[int, int, Program]]:
    """(who pushes, who pops, the program without that push and that pop) for each token."""
    for queue in QUEUES:
        push, pop = sides(queue)
        pushers = [i for i, one in enumerate(program.instructions) if queue in one.pushes]
        poppers = [i for i, one in enumerate(program.instructions) if queue in one.pops]
        for pusher, popper in zip(pushers, poppers, strict=True):
            yield pusher, popper, changed(program, {pusher: {push: False}, popper: {pop: False}})


def changed(program: Program, changes: dict[int, dict[str, Any]]) -> Program:
    """The program with other numbers in some instructions."""
    instructions = list(program.instructions)
    for index, fields in changes.items():
        instructions[index] = replace(instructions[index], **fields)
    return replace(program, instructions=tuple(instructions))
