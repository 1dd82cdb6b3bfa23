"""Random layers for a small machine, compiled: what tests ask of each, and faults are judged by."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import Any

import numpy as np

from minitvm import strategy, te
from minitvm.machines.gemmini import interpreter
from minitvm.machines.gemmini.emitter import GemminiEmitter, program_of
from minitvm.machines.gemmini.isa import Compute, ConfigEx, Mvin, Mvout, Preload, Program, assemble
from minitvm.machines.gemmini.schedule import PASSES
from minitvm.machines.gemmini.timing import simulate
from minitvm.machines.scratchpad.timeline import Timeline
from minitvm.machines.scratchpad.topi import requantize_elements
from minitvm.target import Target
from minitvm.tir.nodes import PrimFunc
from tests.machines.vta.accel_programs import OUTSIDE, accepted, arguments, convolution, knobs, results

SMALL = Target(
    "gemmini -side=4 -scratchpad=8192 -accumulator=8192 -depth_load=2 -depth_execute=3 -depth_store=1 -outstanding=2 "
    "-memory=board -bytes_per_cycle=4"
)


def layer(draw: random.Random, target: Target = SMALL) -> PrimFunc:
    """A convolution of any kind with the machine's way out behind it."""
    return convolution(draw, target, _narrowed)


def _narrowed(draw: random.Random, sums: te.Tensor) -> te.Tensor:
    return requantize_elements(sums, shift=draw.choice((0, 3)), least=draw.choice((-128, 0)))


def lowered(func: PrimFunc, target: Target = SMALL) -> PrimFunc:
    for step in PASSES:
        func = step.run(func, target)
    return func


def compiled(seed: int) -> tuple[PrimFunc, PrimFunc]:
    """A function, and its kernel."""
    draw = random.Random(seed)
    func = layer(draw, SMALL)
    return func, lowered(strategy.schedule(func, SMALL, knobs=knobs(draw, func, SMALL)).func)


def run(program: Program, func: PrimFunc, arrays: list[Any], order: list[int] | None = None) -> Any:
    inputs = {p.name: a for p, a in zip(func.params[:-1], arrays)}
    (found,) = interpreter.run(program, SMALL.config, inputs, order).values()
    return found.view(np.int8)


@accepted
def passes_keep_the_meaning(seed: int) -> None:
    """The interpreter of tir sees the same before and after each pass."""
    draw = random.Random(seed)
    func = layer(draw, SMALL)
    arrays = arguments(func, seed)
    expected = results(func, arrays)
    stage = strategy.schedule(func, SMALL, knobs=knobs(draw, func, SMALL)).func
    for step in PASSES:
        stage = step.run(stage, SMALL)
        if step.name not in OUTSIDE:
            assert np.array_equal(results(stage, arrays), expected), step.name


@accepted
def machine_computes_it(seed: int) -> None:
    """The program, as it was written and in the order in which it is sent, gives what the expression gives."""
    func, kernel = compiled(seed)
    arrays = arguments(func, seed)
    expected = results(func, arrays)
    for program in (GemminiEmitter(kernel, SMALL.config).program(), program_of(kernel, SMALL.config)):
        assert np.array_equal(run(assemble(str(program)), func, arrays), expected)


@accepted
def hazards_are_tracked(seed: int) -> None:
    """Instructions in the order in which they begin give the same result, and none begins before one has ended that
    conflicts with it; the cycles of each row of the chart are all cycles.
    """
    func, kernel = compiled(seed)
    arrays = arguments(func, seed)
    for program in (GemminiEmitter(kernel, SMALL.config).program(), program_of(kernel, SMALL.config)):
        line = simulate(program, SMALL.config)
        began = {i.instruction: i.start for i in line.intervals if i.unit != "host"}
        order = sorted(range(len(program.instructions) - 1), key=lambda n: (began[n], n))
        assert np.array_equal(run(program, func, arrays, order), results(func, arrays))
        adds_up(line)
        conflicts_wait(program, line)


def adds_up(line: Timeline) -> None:
    assert {unit: sum(spent.values()) for unit, spent in line.spent.items()} == dict.fromkeys(line.units, line.cycles)
    assert line.bound[0] <= line.cycles
    for unit in line.units:
        runs = [i for i in line.intervals if i.unit == unit]
        assert all(a.end <= b.start for a, b in pairwise(runs)), f"{unit} does two things at once"


def touched(program: Program) -> list[tuple[set[Any], set[Any]]]:
    """(rows read, rows written) by each instruction, in plain loops."""
    found: list[tuple[set[Any], set[Any]]] = []
    stride = 1
    for one in program.instructions:
        reads, writes = set[Any](), set[Any]()
        if isinstance(one, ConfigEx):
            stride = one.stride
        elif isinstance(one, Preload):
            reads = {("sp", one.sp + i) for i in range(SMALL.config.side)}
        elif isinstance(one, Mvin | Compute | Mvout):
            for i in range(one.lines):
                for j in range(one.rows):
                    if isinstance(one, Compute):
                        reads.add(("sp", one.sp + i * one.step[0] + j * stride))
                    if isinstance(one, Mvout):
                        reads.add(("acc", one.acc + i * one.step[1] + j))
                        continue
                    first = one.acc if one.acc is not None else one.sp
                    at = ("sp" if one.acc is None else "acc", first + i * one.step[1] + j)
                    writes.add(at)
                    if one.add:
                        reads.add(at)
        found.append((reads, writes))
    return found


def conflicts_wait(program: Program, line: Timeline) -> None:
    """An instruction's data are there when it begins. What a transfer or products leave comes behind its interval:
    after the last burst's latency, and after the array's depth."""
    config, touches = SMALL.config, touched(program)
    spans = {i.instruction: i for i in line.intervals if i.unit != "host"}
    for later, (reads, writes) in enumerate(touches):
        for earlier in range(later):
            its_reads, its_writes = touches[earlier]
            one, other = program.instructions[earlier], program.instructions[later]
            if one.unit == other.unit or not (its_writes & (reads | writes) or its_reads & writes):
                continue
            end = spans[earlier].end + (config.drain if isinstance(one, Compute) else 0)
            assert spans[later].start >= end, f"{later} begins before {earlier} has ended\n{one}\n{other}"


CHECKS = (passes_keep_the_meaning, machine_computes_it, hazards_are_tracked)
