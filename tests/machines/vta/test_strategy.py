"""Convolutions for the accelerator, from the expression to the machine, and the cycles of ResNet-18's layers."""

from __future__ import annotations

import numpy as np
import pytest

from minitvm import strategy, te
from minitvm.errors import InputError, VerificationError
from minitvm.lowering import place
from minitvm.machines.scratchpad.strategy.convolution import convolution_of
from minitvm.machines.scratchpad.topi import add_elements, conv2d_elements, requantize_elements
from minitvm.machines.vta.emitter import program_of
from minitvm.machines.vta.layers import RESNET18, TIMES, Conv2d, conv2d
from minitvm.machines.vta.timing import simulate
from minitvm.machines.vta.verifier import verify
from minitvm.reference import accel
from minitvm.target import Target
from minitvm.tools.cli.accel_layers import compiled, layer_function, machine
from tests.machines.vta.programs import without_a_token

from .accel_programs import (
    SMALL,
    arguments,
    candidates_fit,
    layer,
    lowered,
    machine_computes_it,
    passes_keep_the_meaning,
    results,
    tokens_matter,
)

VTA = machine("vta", "tsim")


@pytest.mark.parametrize("seed", range(3))
def test_passes_keep_the_meaning(seed: int) -> None:
    passes_keep_the_meaning(seed)


@pytest.mark.alike(most=3)
@pytest.mark.parametrize("seed", range(5))
def test_the_machine_computes_what_the_expression_says(seed: int) -> None:
    machine_computes_it(seed)


@pytest.mark.parametrize("seed", range(3))
def test_no_token_is_there_for_nothing(seed: int) -> None:
    tokens_matter(seed)


@pytest.mark.parametrize("seed", range(3))
def test_candidates_have_room_on_machines_of_any_size(seed: int) -> None:
    candidates_fit(seed)


@pytest.mark.full
@pytest.mark.parametrize("seed", range(100, 160))
def test_many_random_layers(seed: int) -> None:
    candidates_fit(seed)
    passes_keep_the_meaning(seed)
    machine_computes_it(seed)
    tokens_matter(seed)


def test_a_layer_of_resnet18_is_as_fast_as_by_hand() -> None:
    """C11, the smallest; `docs/accel.md` has all of them."""
    found = simulate(compiled(RESNET18["C11"], VTA), VTA.config)
    by_hand = simulate(conv2d(RESNET18["C11"], VTA.config), VTA.config, verified=True)
    assert found.cycles <= 1.02 * by_hand.cycles


@pytest.mark.full
@pytest.mark.parametrize("name", ["vta", "vdla"])
def test_the_whole_network_is_below_the_best_published_cycles(name: str) -> None:
    """3x3 layers use 0.88 of the array on average, none less than 0.74; all together at most 7.73 million cycles."""
    target = machine(name, "tsim")
    total, used = 0, []
    for layer_name, conv in RESNET18.items():
        timeline = simulate(compiled(conv, target, name=layer_name), target.config)
        total += TIMES[layer_name] * timeline.cycles
        if conv.kernel == 3:
            used.append(timeline.utilisation)
    assert total < 7.73e6
    assert sum(used) / len(used) > 0.88 and min(used) > 0.74


def test_every_token_of_a_layer_matters() -> None:
    program = compiled(Conv2d(6, 4, 32, 64, 3), VTA)
    verify(program, VTA.config)
    tokens = 0
    for _, _, broken in without_a_token(program):
        with pytest.raises(VerificationError, match="breaks the rule '(order|loaded|complete)'"):
            verify(broken, VTA.config)
        tokens += 1
    assert tokens > 8


def test_one_context_and_two_have_the_same_tiles() -> None:
    layer_of = Conv2d(8, 8, 32, 32, 3)
    one, two = (compiled(layer_of, VTA, contexts) for contexts in (1, 2))
    loads = [sum(str(i).startswith("load.inp") for i in program.instructions) for program in (one, two)]
    assert loads[0] == loads[1]
    assert simulate(two, VTA.config).cycles < simulate(one, VTA.config).cycles


def test_what_a_function_consists_of() -> None:
    conv = convolution_of(layer_function(Conv2d(8, 6, 32, 48, 3, 2), VTA.config))
    assert conv is not None
    assert (conv.outs, conv.rows, conv.columns, conv.ins, conv.points) == (3, 4, 3, 2, 9)
    assert [stage.operation for stage in conv.stages] == ["alu_shr_imm", "alu_min_imm", "alu_max_imm", "store"]
    assert (conv.pad, conv.padded, conv.image_columns(3), conv.row_step) == ("pad", True, 7, 2)
    rows = convolution_of(layer_function(Conv2d(8, 6, 32, 48, 1, 2), VTA.config))
    assert rows is not None and (rows.pad, rows.padded, rows.row_step) == ("rows", False, 1)


def _sums(behind) -> te.Tensor:
    x = te.placeholder((1, 1, 4, 4, 1, 4), "int8", name="x")
    w = te.placeholder((1, 1, 1, 1, 4, 4), "int8", name="w")
    return te.create_prim_func([x, w, behind(conv2d_elements(x, w))])


@pytest.mark.parametrize(
    "behind",
    [
        lambda s: s,  # the machine stores no int32
        lambda s: te.compute(s.shape, lambda *i: (s[i] - 3).astype("int8")),  # two operations in one block
        lambda s: te.compute(s.shape, lambda *i: te.abs(s[i])),
        lambda s: te.compute(s.shape, lambda n, o, y, x, i, j: s[n, o, x, y, i, j].astype("int8")),
    ],
)
def test_functions_that_are_no_convolution_of_the_machine(behind) -> None:
    assert convolution_of(_sums(behind)) is None
    assert strategy.candidates(_sums(behind), SMALL) == []


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"least": -100_000, "most": 100_000}, "its constant 100000 is beyond the 16 bits"),
        ({"least": -(1 << 15), "most": (1 << 15) - 1}, ""),
        ({"least": -(1 << 15) - 1}, "its constant -32769 is"),
        ({"offset": 1 << 15}, "its constant 32768 is"),
        ({"shift": 32}, "it shifts by 32; numbers of 32 bits are shifted by 0 to 31"),
        ({"shift": -1}, "it shifts by -1"),
    ],
)
def test_constants_that_no_instruction_holds(options, words: str) -> None:
    """Of a convolution and in registers; what is refused has no schedule, and what is not has one."""
    x = te.placeholder((1, 1, 4, 4, 1, 4), "int8", name="x")
    alone = requantize_elements(add_elements(x, x), **{"shift": 3, **options})
    behind = _sums(lambda s: requantize_elements(s, **{"shift": 3, **options}))
    for func in (te.create_prim_func([x, alone]), behind):
        why = place(func, SMALL).refusal
        assert why.startswith(words) and bool(why) == bool(words)
        assert bool(strategy.candidates(func, SMALL)) == (not words)
        if not words:
            program_of(lowered(strategy.schedule(func, SMALL).func, SMALL), SMALL.config)


def test_candidates_fit_the_scratchpads() -> None:
    import random

    small = Target(f"{SMALL} -input_buffer=256 -accumulator_buffer=1024")
    func = layer(random.Random(3))
    few, many = (len(strategy.candidates(func, target)) for target in (small, SMALL))
    assert few < many


@pytest.mark.parametrize(("width", "stride", "columns"), [(60, 1, 30), (59, 2, 15), (61, 1, 31)])
def test_a_row_that_does_not_fit_is_divided(width: int, stride: int, columns: int) -> None:
    """30 columns of a result need 3 x 32 elements of the image, of 128; of 61 columns the last tile has 30."""
    image = te.placeholder((1, 1, 2, width, 1, 4), "int8", name="image")
    filters = te.placeholder((2, 1, 3, 3, 4, 4), "int8", name="filters")
    sums = conv2d_elements(image, filters, stride=stride, padding=1)
    func = te.create_prim_func([image, filters, requantize_elements(sums, shift=3)])
    target = Target(f"{SMALL} -input_buffer=512")
    candidates = strategy.candidates(func, target)
    assert {one.knobs["columns"] for one in candidates} == {columns}
    program = program_of(lowered(strategy.schedule(func, target).func, target), target.config)
    verify(program, target.config)
    arrays = arguments(func)
    inputs = {p.name: a.reshape(-1) for p, a in zip(func.params[:-1], arrays)}
    found = accel.check(program, target.config, inputs, orders=3).outputs["result"]
    assert np.array_equal(found.reshape(-1), results(func, arrays))


def test_a_layer_of_which_nothing_fits() -> None:
    with pytest.raises(InputError, match="no tile of the layer fits vta's scratchpads"):
        compiled(Conv2d(8, 8, 16, 16, 47), VTA)
    with pytest.raises(InputError, match="wanted a batch of 1 and multiples of 16 and 16 channels"):
        compiled(Conv2d(8, 8, 20, 16, 3), VTA)


def test_the_target_is_the_machine() -> None:
    assert Target("vta").config == VTA.config
    fast = machine("vta", "board", 32, 64).config
    assert (fast.block_in, fast.dram.bytes_per_cycle, fast.dram.latency) == (32, 64, 100)
    assert fast.depths() == VTA.config.depths()
    assert np.prod(fast.elements()["wgt"]) == 1024
