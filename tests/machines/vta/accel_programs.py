"""Random layers for a small accelerator, compiled: what tests ask of each, and faults are judged by."""

from __future__ import annotations

import functools
import random
from collections.abc import Callable
from typing import Any

import numpy as np

from minitvm import strategy, te
from minitvm.errors import InputError, Unsupported, VerificationError
from minitvm.machines.scratchpad.topi import (
    add_elements,
    conv2d_elements,
    depthwise_conv2d_elements,
    max_pool2d_elements,
    requantize_elements,
)
from minitvm.machines.vta.emitter import program_of
from minitvm.machines.vta.isa import Program
from minitvm.machines.vta.strategy import PASSES
from minitvm.machines.vta.verifier import verify
from minitvm.reference import accel
from minitvm.reference import tir as interpreter
from minitvm.target import Target
from minitvm.tir.nodes import PrimFunc
from tests.machines.vta.programs import without_a_token
from tests.machines.vta.test_verifier import conflicting

SMALL = Target(
    "accel -block_in=4 -block_out=4 -uop_buffer=4096 -input_buffer=8192 -weight_buffer=16384 -accumulator_buffer=32768 "
    "-multiply_bits=8 -pad_value=1 -clip=1 -widen=1"
)
TWO_ROWS = Target(f"{SMALL} -batch=2 -input_buffer=16384 -accumulator_buffer=65536")
# After these, storage that each virtual thread owns stands outside of their loop, until it is placed.
OUTSIDE = ("drop_blocks", "simplify")


def layer(draw: random.Random, target: Target = SMALL) -> PrimFunc:
    """A convolution of any kind, with what may stand behind it, or what registers compute alone."""
    return in_registers(draw, target) if draw.random() < 0.4 else convolution(draw, target, _narrowed)


def convolution(
    draw: random.Random, target: Target, narrowed: Callable[[random.Random, te.Tensor], te.Tensor]
) -> PrimFunc:
    """A convolution of any kind; `narrowed` makes bytes of its sums."""
    c = target.config
    ins, outs, size = draw.randint(1, 2), draw.choice((1, 2, 4)), draw.choice((1, 1, 3))
    stride, padding = draw.randint(1, 2), draw.choice((0, size // 2))
    height, width = draw.choice((4, 5, 6)), draw.choice((3, 4, 5))
    image = te.placeholder((1, ins, height, width, c.batch, c.block_in), "int8", name="image")
    filters = te.placeholder((outs, ins, size, size, c.block_out, c.block_in), "int8", name="filters")
    sums = conv2d_elements(image, filters, stride=stride, padding=padding)
    others = []
    kind = draw.choice(("none", "none", "none", "full", "spread"))
    if kind == "full":
        other = te.placeholder(sums.shape, "int32", name="other")
        others.append(other)
        held = sums
        sums = te.compute(sums.shape, lambda *i: held[i] + other[i], name="added")
    elif kind == "spread":
        others.append(te.placeholder((1, outs, 1, 1, c.batch, c.block_out), "int32", name="offset"))
        sums = _shifted(sums, others[0])
    return te.create_prim_func([image, filters, *others, narrowed(draw, sums)])


def _narrowed(draw: random.Random, sums: te.Tensor) -> te.Tensor:
    least, most = draw.choice(((-128, 127), (0, 127), (-100, 100)))
    return requantize_elements(sums, shift=draw.choice((0, 3)), least=least, most=most, offset=draw.choice((0, 4)))


def _shifted(sums: te.Tensor, offset: te.Tensor) -> te.Tensor:
    """One number more for all pixels of a channel."""
    return te.compute(
        sums.shape, lambda n, o, y, x, i, j: sums[n, o, y, x, i, j] + offset[0, o, 0, 0, i, j], name="added"
    )


def in_registers(draw: random.Random, target: Target = SMALL) -> PrimFunc:
    """A sum of two tensors, a pool, or a convolution of each channel alone."""
    c = target.config
    blocks, height, width = draw.choice((1, 2)), draw.choice((4, 5, 6)), draw.choice((3, 4))
    shape, stride = (1, blocks, height, width, c.batch, c.block_out), draw.choice((1, 2))
    image = te.placeholder(shape, "int8", name="image")
    kind = draw.choice(("sum", "pool", "depthwise"))
    if kind == "pool":
        size = draw.choice((2, 3))
        return te.create_prim_func([image, max_pool2d_elements(image, size=size, stride=stride, padding=size - 2)])
    if kind == "sum":
        other = te.placeholder(shape, "int8", name="other")
        sums = add_elements(image, other, left_a=draw.choice((0, 2)))
    else:
        size = draw.choice((2, 3))
        other = te.placeholder((1, blocks, size, size, c.batch, c.block_out), "int8", name="other")
        sums = depthwise_conv2d_elements(image, other, stride=stride, padding=draw.choice((0, 1)))
        if draw.random() < 0.5:
            offset = te.placeholder((1, blocks, 1, 1, c.batch, c.block_out), "int32", name="offset")
            return te.create_prim_func([image, other, offset, _narrowed(draw, _shifted(sums, offset))])
    return te.create_prim_func([image, other, _narrowed(draw, sums)])


def knobs(draw: random.Random, func: PrimFunc, target: Target) -> dict[str, Any]:
    """Those of any candidate."""
    return dict(draw.choice(strategy.candidates(func, target)).knobs)


def lowered(func: PrimFunc, target: Target) -> PrimFunc:
    for step in PASSES:
        func = step.run(func, target)
    return func


def accepted(check: Callable[[int], None]) -> Callable[[int], None]:
    """A check in which what the compiler refuses of its own candidates is a failure like a wrong result."""

    @functools.wraps(check)
    def run(seed: int) -> None:
        try:
            check(seed)
        except Unsupported as refused:
            raise AssertionError(f"refused: {refused}") from refused

    return run


def compiled(seed: int) -> tuple[PrimFunc, PrimFunc, Program, Target]:
    """A function, its schedule, the program, and the machine."""
    draw = random.Random(seed)
    target = draw.choice((SMALL, SMALL, TWO_ROWS))
    func = layer(draw, target)
    scheduled = strategy.schedule(func, target, knobs=knobs(draw, func, target)).func
    return func, scheduled, program_of(lowered(scheduled, target), target.config), target


def arguments(func: PrimFunc, seed: int = 0) -> list[Any]:
    rng = np.random.default_rng(seed)
    arrays: list[Any] = []
    for p in func.params:
        shape, dtype = [d.value for d in p.shape], p.dtype.numpy  # type: ignore[union-attr]
        limits = np.iinfo(dtype) if dtype == np.int8 else np.iinfo(np.int16)
        arrays.append(rng.integers(limits.min, limits.max, shape, dtype=dtype, endpoint=True))
    return arrays


def results(func: PrimFunc, arrays: list[Any]) -> Any:
    """What a function's interpreter computes."""
    *inputs, result = arrays
    found = np.zeros_like(result)
    interpreter.run(func, *[a.reshape([d.value for d in p.shape]) for a, p in zip(inputs, func.params)],
                    found := found.reshape([d.value for d in func.params[-1].shape]))  # fmt: skip
    return found.reshape(-1)


@accepted
def passes_keep_the_meaning(seed: int) -> None:
    """The interpreter sees the same before and after each pass, from the expression to the sequence of instructions."""
    draw = random.Random(seed)
    func = layer(draw)
    arrays = arguments(func, seed)
    expected = results(func, arrays)
    stage = strategy.schedule(func, SMALL, knobs=knobs(draw, func, SMALL)).func
    assert np.array_equal(results(stage, arrays), expected), "the schedule"
    for step in PASSES:
        stage = step.run(stage, SMALL)
        if step.name in OUTSIDE:
            continue
        assert np.array_equal(results(stage, arrays), expected), step.name


@accepted
def machine_computes_it(seed: int) -> None:
    """The program passes the verifier, gives one result in all orders, and that is the expression's."""
    func, _, program, target = compiled(seed)
    arrays = arguments(func, seed)
    try:
        verify(program, target.config)
    except VerificationError as error:
        raise AssertionError(str(error)) from None
    inputs = {p.name: a.reshape(-1) for p, a in zip(func.params[:-1], arrays)}
    found = accel.check(program, target.config, inputs, orders=7, seed=seed).outputs["result"]
    assert np.array_equal(found.reshape(-1), results(func, arrays))


@accepted
def tokens_matter(seed: int) -> None:
    """A token is between instructions that touch an element, and without any one the verifier refuses the program."""
    _, _, program, target = compiled(seed)
    verify(program, target.config)
    meeting, end = set(conflicting(program, target.config)), len(program.instructions) - 1
    for pusher, popper, broken in without_a_token(program):
        assert popper == end or (pusher, popper) in meeting, (
            f"{popper} waits for {pusher}, which touches other elements"
        )
        try:
            verify(broken, target.config)
        except VerificationError:
            continue
        raise AssertionError(f"the token from {pusher} to {popper} is not needed")


def candidates_fit(seed: int) -> None:
    """On a machine with scratchpads of any size, what a rule offers has room there: data and micro-ops."""
    draw = random.Random(seed)
    sizes = {"input": draw.choice((64, 128, 256, 512)), "weight": draw.choice((512, 1024, 4096)),
             "accumulator": draw.choice((512, 1024, 2048)), "uop": draw.choice((512, 1024, 4096))}  # fmt: skip
    target = Target(" ".join([str(SMALL), *(f"-{name}_buffer={size}" for name, size in sizes.items())]))
    func = layer(draw, target)
    candidates = strategy.candidates(func, target)
    if not candidates:
        return
    candidate = draw.choice(candidates)
    try:
        program_of(lowered(candidate.schedule(func).func, target), target.config)
    except (InputError, Unsupported) as error:
        raise AssertionError(f"{dict(candidate.knobs)} on {target}: {error}") from error


CHECKS = (passes_keep_the_meaning, machine_computes_it, tokens_matter)
