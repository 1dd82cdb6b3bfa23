"""Tasks: the distinct operators of a model, each with the number of its uses."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ..backend import lookup
from ..build import code_target, optimize_graph, to_graph
from ..build_options import BuildOptions
from ..expr import Var, free_vars
from ..expr.as_json import to_json
from ..expr.structural import structural_digest
from ..link.levels import level_of, units_of
from ..lowering import SharedFunction, cache
from ..lowering.placement import place
from ..records.record import target_key
from ..target import Target
from ..tir.nodes import Buffer, IRModule, PrimFunc
from ..tools.profile import known, machine

_CYCLE = 1e-9 / 3.0  # seconds, where a target does not say


@dataclass(frozen=True, eq=False)
class Task:
    """One loop program, not scheduled, on one target. A run of the model calls it `weight` times.

    `key` is the structural hash of the function, by which a build finds its records; the operator's name does not
    matter. If `rules` is not empty, only candidates of these rules are searched. They are compared with the cheapest of
    them, or, with `beside_build`, with the schedule of a build. `operators` are the names of the function's uses in the
    model. `constants` are the positions of the parameters that are constants of the model in all uses.
    """

    name: str
    func: PrimFunc
    target: Target
    key: str
    weight: int = 1
    shared: SharedFunction | None = None  # of a model: a build may have lowered it before
    rules: tuple[str, ...] = ()
    beside_build: bool = False
    operators: tuple[str, ...] = ()
    constants: frozenset[int] = frozenset()

    @property
    def built(self) -> str:
        """The lowered form that a build without records has left on disk, as text; "" if there is none."""
        if self.shared is None or not cache.usable(self.target) or not cache.keeps(self.shared):
            return ""
        lowered = cache.get(self.shared, self.target)
        return "" if lowered is None else cache.encode(lowered).decode()

    def keep_built(self, lowered: str) -> None:
        """Store the text that `built` returns, for builds and for the next session."""
        if self.shared is not None and cache.usable(self.target) and cache.keeps(self.shared):
            cache.put(self.shared, self.target, lowered.encode())

    @cached_property
    def seconds_a_cycle(self) -> float:
        """The seconds of a predicted cycle: at the measured clock if the target is this machine and was measured, else
        at the clock that the target names.
        """
        named = float(getattr(self.target.description, "cycle_seconds", _CYCLE))
        return named / clock(self.target)

    @property
    def device(self) -> str:
        """The kind of device that one process opens once for many measurements; "" if each measurement has a new
        process.
        """
        return device_of(self.target)

    @cached_property
    def target_key(self) -> str:
        """The target as a part of record keys."""
        return target_key(self.target)

    @cached_property
    def text(self) -> str:
        """The function as JSON, to send to other processes."""
        return json.dumps(to_json(self.func))

    @cached_property
    def open_sizes(self) -> list[str]:
        """The names of sizes that are only known when the function runs; a task with such sizes cannot be measured."""
        dims = [dim for param in self.func.params if isinstance(param, Buffer) for dim in param.shape]
        scalars = [param for param in self.func.params if isinstance(param, Var)]
        return sorted({v.name for v in (*scalars, *(v for dim in dims for v in free_vars(dim)))})


def clock(target: Target) -> float:
    """Return the measured clock of the target's machine as a multiple of the clock that the target names; 1 if
    unknown.
    """
    measured = known(target.description.cores) if _is_here(target) else None
    return 1.0 if measured is None else measured.clock


def measure_clock(target: Target) -> None:
    """Measure this machine's clock if it is the target; this takes 2 s the first time."""
    if _is_here(target):
        machine(target.description.cores)


def _is_here(target: Target) -> bool:
    """Return whether the target is this machine's CPU."""
    return target.code_identity() == Target("cpu").code_identity()


def device_of(target: Target) -> str:
    """Return the kind of device that one process opens once for many measurements of this target; "" if there is
    none.
    """
    return "" if lookup(target, "opened") is None else target.kind


def extract(model: Any, target: str | Target = "cpu", accuracy: str = "fast", **options: Any) -> list[Task]:
    """Return the tasks of a model, a function or a module of functions, in the order of their first use.

    `options` are the options of `build` that describe the model: shapes, params, states, max_length, cache_dtype,
    slots, stop_before. The body of a loop counts once. If the target's back end refuses a function, the task is for the
    host, as in a build.
    """
    machine = code_target(target)
    if isinstance(model, PrimFunc):
        return [function_task(model, machine)]
    if isinstance(model, IRModule):
        return _merged([function_task(func, machine) for _, func in model.items()])
    level = level_of(optimize_graph(to_graph(model, **options), machine, BuildOptions(accuracy=accuracy)))
    units = units_of(level)
    nodes = [node for inner in level.all() for node in inner.graph.nodes if inner.needs_function(node)]
    stored = {constant.value for inner in level.all() for constant in inner.graph.constants}
    uses: dict[bytes, list[Any]] = {}
    for node in nodes:
        uses.setdefault(units[node].function.key, []).append(node)
    tasks = []
    for key, same in uses.items():
        function, names = units[same[0]].function, tuple(units[node].name for node in same)
        # A function that updates an input in place has a different order of parameters.
        inputs = [node.inputs if function.updated is None else () for node in same]
        constants = [frozenset(p for p, value in enumerate(one) if value in stored) for one in inputs]
        where = place(function.func, machine, function.operators).target
        tasks.append(
            Task(
                function.name, function.func, where, key.hex(), len(same), function,
                operators=names, constants=frozenset.intersection(*constants),
            )
        )  # fmt: skip
    return tasks


def function_task(func: PrimFunc, target: str | Target = "cpu", rules: Sequence[str] = ()) -> Task:
    """Return the task that tunes one function, searching only these rules (default: all)."""
    nameless = func.with_attr("global_symbol", "")
    return Task(func.name, func, code_target(target), structural_digest(nameless).hex(), rules=tuple(rules))


def _merged(tasks: Sequence[Task]) -> list[Task]:
    """Merge tasks for equal functions into one task."""
    uses = Counter(task.key for task in tasks)
    first = {task.key: task for task in reversed(tasks)}
    return [
        Task(first[key].name, first[key].func, first[key].target, key, uses[key])
        for key in dict.fromkeys(task.key for task in tasks)
    ]
