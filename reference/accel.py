"""Interpret programs of the accelerator: run instructions on NumPy scratchpads, with the machine's integer arithmetic.

The modules load, compute and store run their instructions at their own pace; only tokens order them. A run uses one of
the many possible orders, and `order` says which module is ahead. But a run also checks all orders at once. Each
instruction has a clock (the number of instructions of each module that happen before it, by tokens and by the order
within modules), and each element remembers the instructions that accessed it. If two instructions access the same
element, at least one writes it, and neither happens before the other, that is an `ExecutionError`, no matter which
order this run used. If there is no such pair, all orders give the same result: two unordered neighbours in a run access
different elements, so they can be swapped.

Other errors are reads of elements that were never written, accesses outside of scratchpads and buffers, tokens left at
the end, and deadlocks. Each error names the instruction, and gives its text and the contents of the queues.

The semantics come from `hw_spec.h` and the functional simulator's description of VTA, and Moreau et al.
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

# The six priority orders: the first module runs as far ahead as tokens permit, the last one as late as possible.
PRIORITIES = {" ".join(m.value for m in order): order for order in permutations(MODULES)}
ORDERS = ("fetched", *PRIORITIES, "random")


@dataclass(frozen=True)
class Exploration:
    """The result of `explore`: the outputs, and the orders that were run."""

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
    """Run a program on its input arrays, given by name, and return its output arrays by name.

    An array has the element's dtype, and the shape (count, *shape of an element) or any shape with the same number of
    elements. `order` is "fetched" (run the instruction that was fetched first), a list of modules from first to last
    ("load compute store"), or "random" with a `seed`. With `ordered`, two conflicting instructions that are not ordered
    are an error; without it, the result of this order is returned. Raises `InputError` for arrays that do not fit, and
    `ExecutionError` for undefined behaviour.
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
    """Run a program in `orders` orders, the systematic ones first and then random ones, and compare the results.

    This proves nothing: a missing order between two instructions is only found if one of the runs fails or gives
    another result. Raises `ExecutionError` if two orders differ.
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
    """Prove that all orders give the same result, and run some of them. Raises `ExecutionError` if they do not."""
    proved = run(program, config, inputs)
    explored = explore(program, config, inputs, orders=orders, seed=seed)
    for name, array in explored.outputs.items():
        if not np.array_equal(array, proved[name]):
            raise AssertionError(f"{name} differs between two runs in the same order")
    return explored
