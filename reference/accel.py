"""Level 4 of the accelerator, interpreted: instructions on NumPy scratchpads, integers as the machine has them.

Load, compute and store go through their instructions at their own pace; only tokens order them. A run takes one order,
of many: `order` says which module is ahead. And a run judges all orders at once: each instruction has a clock (how many
instructions of each module happen before it, by tokens and by the order within modules), and each element remembers who
touched it. Two instructions that touch an element, one of which writes, and neither of which happens before the other,
are an ExecutionError, whatever the order of this run was. If there are none, all orders give the same result: two
instructions that follow each other in a run without being ordered touch nothing in common, and may change places.

So are errors: reads of what was never written, places outside of scratchpads and buffers, tokens that are left over, a
deadlock, with who waits for whom. Each names the instruction, its text and what the queues hold.

The source of the meaning: `hw_spec.h` and the functional simulator's description of VTA, and Moreau et al.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import permutations
from typing import Any

import numpy as np

from minitvm.errors import ExecutionError, InputError, report
from minitvm.machines.vta.config import AccelConfig
from minitvm.machines.vta.isa import Program

from .meaning.accelerator import MODULES, Array, Deadlock, Machine, Unordered

__all__ = ["ORDERS", "PRIORITIES", "Deadlock", "Exploration", "Unordered", "check", "explore", "run"]

# The six ways to prefer one module to another: the first is as far ahead as tokens permit, the last as far behind.
PRIORITIES = {" ".join(m.value for m in order): order for order in permutations(MODULES)}
ORDERS = ("fetched", *PRIORITIES, "random")


@dataclass(frozen=True)
class Exploration:
    """What exploring orders found: the outputs, and the orders that were run."""

    outputs: dict[str, Array]
    orders: tuple[str, ...]


def run(
    program: Program,
    config: AccelConfig,
    inputs: Mapping[str, Any],
    *,
    order: str = "fetched",
    seed: int = 0,
    ordered: bool = True,
) -> dict[str, Array]:
    """Run a program on arrays by the names of its input buffers; returns its output buffers by name.

    An array has the shape (count, *shape of an element) or any other of so many elements, and the element's dtype.
    `order` is "fetched" (the instruction that was fetched first of those that can run), a list of modules from the one
    that is ahead to the one that is behind ("load compute store"), or "random", with its `seed`. With `ordered`, two
    instructions that nothing orders are an error; without, this order's result is returned.
    Raises `InputError` for arrays that do not fit, `ExecutionError` for what the machine does not define.
    """
    if order not in ORDERS:
        raise InputError(f"no order is called {order!r}; there are {', '.join(ORDERS)}")
    machine = Machine(program, config, inputs, ordered)
    choose = random.Random(seed)
    while runnable := [module for module in MODULES if machine.can_run(module)]:
        if order == "random":
            machine.step(choose.choice(runnable))
        elif order == "fetched":
            machine.step(min(runnable, key=lambda module: machine.commands[module][0]))
        else:
            machine.step(next(module for module in PRIORITIES[order] if module in runnable))
    machine.end()
    return machine.outputs()


def explore(
    program: Program, config: AccelConfig, inputs: Mapping[str, Any], *, orders: int = 12, seed: int = 0
) -> Exploration:
    """Run a program in `orders` orders, each module ahead and behind first, then random ones, and compare the results.

    Nothing is proved here: two instructions that nothing orders are seen only if an order changes a result, or breaks.
    Raises ExecutionError where two orders differ.
    """
    tried: list[str] = []
    first: dict[str, Array] | None = None
    systematic = ["fetched", *PRIORITIES]
    for number in range(max(1, orders)):
        order = systematic[number] if number < len(systematic) else "random"
        told = order if order != "random" else f"random, seed {seed + number}"
        outputs = run(program, config, inputs, order=order, seed=seed + number, ordered=False)
        tried.append(told)
        if first is None:
            first = outputs
        for name, array in outputs.items():
            if not np.array_equal(array, first[name]):
                at = tuple(int(i) for i in np.argwhere(array != first[name])[0])
                raise ExecutionError(
                    report(
                        f"{program.name}: the result depends on the order of the modules",
                        wanted=f"{name}{list(at)} = {first[name][at]}, as in the order {tried[0]!r}",
                        found=f"{array[at]} in the order {told!r}",
                        tries=["run(...), which names two instructions that no tokens order"],
                    )
                )
    assert first is not None
    return Exploration(first, tuple(tried))


def check(
    program: Program, config: AccelConfig, inputs: Mapping[str, Any], *, orders: int = 12, seed: int = 0
) -> Exploration:
    """Prove that all orders give one result, and explore some of them. Raises ExecutionError for what is found."""
    proved = run(program, config, inputs)
    explored = explore(program, config, inputs, orders=orders, seed=seed)
    for name, array in explored.outputs.items():
        if not np.array_equal(array, proved[name]):
            raise AssertionError(f"{name} differs between two runs in the same order")
    return explored
