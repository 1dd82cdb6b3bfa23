"""From a module and inputs to a `Profile`: run with stamps, count the work, and combine the two."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ... import executable as exe
from ...errors import InputError
from ...executable.memory_report import data_sizes
from ...expr import Var
from ...runtime import GraphModule
from ...tir.nodes import Buffer, PrimFunc
from ...tir.script.source import kernel_function
from ...tir.work import Work, count
from .peak_rates import Machine, machine
from .report import Profile, Row
from .reuse import distances

_WARM_UP = 3


@dataclass(frozen=True, slots=True)
class _StepWork:
    """Operations of a step and the bytes that it moves at each place."""

    flops: int
    slots: int
    places: tuple[tuple[exe.Location, int], ...]
    exact: bool


@dataclass(frozen=True, slots=True)
class _OperatorSteps:
    """The steps of one operator in order, with the barriers after them."""

    operator: str
    steps: range


def profile(module: GraphModule, *args: Any, runs: int = 20, **inputs: Any) -> Profile:
    """The time of each operator of `module(*args, **inputs)`, the best of `runs` runs for each operator.

    Disturbances only add time, and they hit different operators in different runs. So the best times can be compared
    with the machine's peak, and their sum is the time of the program on a quiet machine.
    The machine's peak is measured if it is not known yet, which takes some seconds. Raises `InputError` for inputs
    that the module does not take.
    """
    if runs < 1:
        raise InputError(f"runs={runs}: wanted a number from 1")
    plain, stamps, sizes = _timed(module, args, inputs, runs)
    executable = module.executable
    work = _work_of_steps(executable, sizes)
    groups = _groups(executable)
    result = _profile(module, machine(module.threads), plain, stamps, sizes, work, groups)
    if any(row.share_of_bound > 1 for row in result.rows):
        # Nothing is faster than its bound, so the machine was busy when it was measured.
        result = _profile(module, machine(module.threads, again=True), plain, stamps, sizes, work, groups)
    return result


def _timed(module: GraphModule, args: Any, inputs: Any, runs: int) -> tuple[list[float], Any, Mapping[Var, Any]]:
    """Seconds of plain runs, stamps of stamped ones [runs, threads, steps + 1], taken in turns."""
    for _ in range(_WARM_UP):
        first = module.stamped(*args, **inputs)
    # Outputs whose shapes data decide are new arrays in each run.
    out = None if data_sizes(module.executable) else first.outputs
    plain, stamps = [], []
    for _ in range(runs):
        start = time.perf_counter()
        module(*args, out=out, **inputs)
        plain.append(time.perf_counter() - start)
        stamps.append(module.stamped(*args, out=out, **inputs).times)
    return plain, np.stack(stamps), first.sizes


def _profile(
    module: GraphModule, peak: Machine, plain: Sequence[float], stamps: Any, sizes: Mapping[Var, Any],
    work: Sequence[_StepWork], groups: Sequence[_OperatorSteps],
) -> Profile:  # fmt: skip
    executable = module.executable
    origins = distances(executable, [[place for place, _ in step.places] for step in work], sizes)
    rows = []
    for group in groups:
        levels: dict[str, float] = {}
        for step in group.steps:
            for (_, nbytes), parts in zip(work[step].places, origins[step], strict=True):
                for distance, share in parts:
                    level = peak.level(distance)
                    levels[level.name] = levels.get(level.name, 0.0) + share * nbytes
        seconds, waiting = _times(executable, stamps, group)
        flops = sum(work[step].flops for step in group.steps)
        slots = sum(work[step].slots for step in group.steps)
        moved = sum(nbytes for step in group.steps for _, nbytes in work[step].places)
        by_level = {level.name: levels[level.name] / level.bandwidth for level in peak.levels if level.name in levels}
        rows.append(
            Row(
                group.operator, _kernels(executable, group), seconds, waiting, flops, moved, tuple(by_level.items()),
                2 * slots / peak.peak, sum(by_level.values()), peak.peak, all(work[step].exact for step in group.steps),
                _values(executable, group.steps, sizes), _refusal(executable, group),
                executable.model_nodes.get(group.operator, ()),
            )
        )  # fmt: skip
    totals = _spans(stamps, 0, -1).max(axis=1)
    best = int(np.argmin(totals))
    return Profile(
        executable.name, peak, len(totals), float(totals[best]), float(min(plain)), tuple(rows),
        _timeline(executable, stamps[best], groups), float(np.median(plain) / min(plain)),
    )  # fmt: skip


def _times(executable: exe.Executable, stamps: Any, group: _OperatorSteps) -> tuple[float, float]:
    """(seconds, part of the team's time spent waiting) of an operator, in its best run."""
    first, last = group.steps.start, group.steps.stop
    seconds = _spans(stamps, first, last).mean(axis=1)
    busy = np.zeros(len(stamps))
    for step in group.steps:
        what = executable.steps[step]
        if isinstance(what, exe.Barrier):
            continue
        everyone = isinstance(what, exe.CallKernel) and what.parallel
        begin, end = stamps[:, :, step], stamps[:, :, step + 1]
        durations = np.where((begin != 0) & (end != 0), end - begin, 0) * 1e-9
        busy += durations.sum(axis=1) if everyone else durations[:, 0]
    best = int(np.argmin(seconds))
    team = seconds[best] * stamps.shape[1]
    return float(seconds[best]), float(np.clip(1 - busy[best] / team, 0, 1)) if team else 0.0


def _spans(stamps: Any, first: int, last: int) -> Any:
    """Seconds of each run and thread between two stamps; where a thread has no stamp, that of thread 0 stands in.

    Threads help each other: any one of them may come to an operator when all is done. Each missing stamp is replaced
    by itself, so that the spans of neighbouring operators add up to the span of both.
    """
    begin, end = (np.where(at != 0, at, at[:, :1]) for at in (stamps[:, :, first], stamps[:, :, last]))
    return (end - begin) * 1e-9


def _timeline(executable: exe.Executable, stamps: Any, groups: Sequence[_OperatorSteps]) -> tuple[Any, ...]:
    """One run as (operator, kernel, thread, start, end) in seconds, from when its first thread began."""
    first = stamps[:, 0]
    zero = first[first != 0].min(initial=stamps[0, 0])  # no stamp, no part in the run
    events = []
    for group in groups:
        for step in group.steps:
            what = executable.steps[step]
            everyone = isinstance(what, exe.Barrier) or (isinstance(what, exe.CallKernel) and what.parallel)
            for thread in range(len(stamps) if everyone else 1):
                start, end = stamps[thread, step], stamps[thread, step + 1]
                if start and end > start:
                    name = step_name(executable, step)
                    events.append((group.operator, name, thread, (start - zero) * 1e-9, (end - zero) * 1e-9))
    return tuple((o, k, t, float(a), float(b)) for o, k, t, a, b in events)


def _groups(executable: exe.Executable) -> list[_OperatorSteps]:
    """The steps by operator, in order; a barrier belongs to the operator before it."""
    starts: list[tuple[str, int]] = []
    for number, step in enumerate(executable.steps):
        if isinstance(step, exe.Barrier):
            name = starts[-1][0] if starts else "barrier"
        else:
            name = getattr(step, "operator", "") or step_name(executable, number)
        if not starts or starts[-1][0] != name:
            starts.append((name, number))
    ends = [number for _, number in starts[1:]] + [len(executable.steps)]
    return [_OperatorSteps(name, range(start, end)) for (name, start), end in zip(starts, ends, strict=True)]


def _values(executable: exe.Executable, steps: range, sizes: Mapping[Var, Any]) -> tuple[str, ...]:
    """The names of the values that steps write parts of: a concatenation's, if its parts are written in place."""
    names: dict[str, None] = {}
    for number in steps:
        step = executable.steps[number]
        if not isinstance(step, exe.CallKernel):
            continue
        for arg, param in zip(step.args, executable.kernels[step.kernel].params, strict=True):
            if "w" not in param.access:
                continue
            if isinstance(arg, exe.Output):
                names[executable.outputs[arg.index].name] = None
            elif isinstance(arg, exe.State):
                names[executable.states[arg.index].name] = None
            elif isinstance(arg, exe.ArenaSlice):
                at = exe.evaluate(arg.offset, sizes)
                for one in executable.arenas[arg.arena].residents:
                    inside = 0 <= at - exe.evaluate(one.offset, sizes) < exe.evaluate(one.nbytes, sizes)
                    if inside and one.first <= number <= one.last and one.last not in steps:
                        names[one.name] = None
    return tuple(names)


def step_name(executable: exe.Executable, number: int) -> str:
    """The name of a step: its kernel, "copy", "wait" (a barrier), or the region that an engine computes."""
    step = executable.steps[number]
    if isinstance(step, exe.CallKernel):
        return executable.kernels[step.kernel].name
    if isinstance(step, exe.CallExternal):
        return step.operator
    if isinstance(step, exe.BindSize):
        return "bind_size"
    if isinstance(step, exe.Loop):
        return "loop"
    return "copy" if isinstance(step, exe.Copy) else "wait"


def _kernels(executable: exe.Executable, group: _OperatorSteps) -> tuple[str, ...]:
    names = [step_name(executable, n) for n in group.steps if not isinstance(executable.steps[n], exe.Barrier)]
    return tuple(dict.fromkeys(names))


def _refusal(executable: exe.Executable, group: _OperatorSteps) -> str:
    """Why an operator's kernels do not run on the machine that the network was compiled for."""
    calls = [step for n in group.steps if isinstance(step := executable.steps[n], exe.CallKernel)]
    return next((why for call in calls if (why := executable.kernels[call.kernel].refusal)), "")


# -- the work


def _work_of_steps(executable: exe.Executable, sizes: Mapping[Var, Any]) -> list[_StepWork]:
    functions = [kernel_function(kernel) for kernel in executable.kernels]
    work_of: dict[Any, Work] = {}
    rows = []
    for step in executable.steps:
        if isinstance(step, exe.CallKernel):
            rows.append(_call(functions[step.kernel], step, sizes, work_of))
        elif isinstance(step, exe.Copy):
            nbytes = int(exe.evaluate(step.nbytes, sizes))
            rows.append(_StepWork(0, 0, ((step.dst, nbytes), (step.src, nbytes)), True))
        elif isinstance(step, exe.CallExternal):
            rows.append(_StepWork(0, 0, (), False))  # the work of an engine is unknown
        else:
            rows.append(_StepWork(0, 0, (), True))
    return rows


def _call(func: PrimFunc, step: exe.CallKernel, sizes: Mapping[Var, Any], work_of: dict[Any, Work]) -> _StepWork:
    pairs = list(zip(func.params, step.args, strict=True))
    scalars = {
        p: exe.evaluate(a, sizes)
        for p, a in pairs
        if isinstance(p, Var) and not isinstance(a, exe.Location) and not p.dtype.is_float
    }
    key = (func, tuple(scalars.values()))
    if key not in work_of:
        work_of[key] = count(func, {p: int(n) for p, n in scalars.items()})
    work = work_of[key]
    places = tuple(
        (a, work.reads.get(p, 0) + work.writes.get(p, 0))
        for p, a in pairs
        if isinstance(p, Buffer) and isinstance(a, exe.Location)
    )
    # In a quantised network the products are of integers, and what is behind them of floats.
    of_bytes = not work.flops or "dot4_u8i8" in work.operations
    operations = work.flops + (work.integer_operations if of_bytes else 0)
    return _StepWork(operations, work.slots, places, work.exact)
