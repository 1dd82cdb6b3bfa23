"""The interpreter of the accelerator: against a machine of plain integers, in all orders, and what it refuses."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from minitvm.errors import ExecutionError, InputError
from minitvm.machines.vta.assembler import assemble
from minitvm.machines.vta.config import AccelConfig, configured
from minitvm.machines.vta.isa import Alu, AluOp, Gemm, MicroOp
from minitvm.reference import accel
from minitvm.reference.fast import micro_ops
from minitvm.reference.strategies import accelerator_programs
from minitvm.reference.strategies.streams import TINY
from tests.machines.vta.programs import TWICE, VTA, changed, expected, tensors, twice
from tests.machines.vta.scalar_machine import ScalarMachine


@settings(max_examples=60)
@given(accelerator_programs())
def test_interpreter_is_a_machine_of_plain_integers(drawn) -> None:
    found = accel.run(drawn.program, drawn.config, drawn.inputs)
    plain = ScalarMachine(drawn.program, drawn.config, drawn.inputs).run()
    assert found.keys() == plain.keys()
    for name in plain:
        np.testing.assert_array_equal(found[name], plain[name])


@settings(max_examples=15)
@given(accelerator_programs(), st.integers(0, 1000))
def test_all_orders_of_a_right_program_give_one_result(drawn, seed: int) -> None:
    explored = accel.check(drawn.program, drawn.config, drawn.inputs, orders=12, seed=seed)
    assert explored.orders[:7] == ("fetched", *accel.PRIORITIES)
    assert explored.orders[-1] == f"random, seed {seed + 11}"


@pytest.mark.parametrize("config", [VTA, replace(VTA, batch=2, inp_bytes=1 << 15, widths=replace(VTA.widths))])
def test_by_hand(config: AccelConfig) -> None:
    if config.batch == 1:
        inputs = tensors()
        np.testing.assert_array_equal(accel.check(twice(), VTA, inputs).outputs["y"], expected(inputs))
        return
    text = TWICE.replace(".output y out at 512", ".output y out at 1024").replace("w wgt at 256", "w wgt at 512")
    rng = np.random.default_rng(1)
    x = rng.integers(-128, 128, (8, 2, 16), dtype=np.int8)
    w = rng.integers(-128, 128, (1, 16, 16), dtype=np.int8)
    found = accel.run(assemble(text, config), config, {"x": x, "w": w})["y"]
    wanted = (x.astype(int) @ w[0].astype(int).T).astype(np.int8)
    np.testing.assert_array_equal(found, wanted)


# --- micro-ops: many at once are one after the other ---------------------------------------------------------------

DEPTH = 6
indices = st.integers(0, DEPTH - 1)
registers = arrays.arrays(np.int32, (DEPTH, 1, 2))


@given(st.lists(st.tuples(indices, indices, indices), max_size=20), registers, st.integers(0, 1000))
def test_products_in_bulk(triples, acc, seed: int) -> None:
    rng = np.random.default_rng(seed)
    inp = rng.integers(-128, 128, (DEPTH, 1, 3), dtype=np.int8)
    wgt = rng.integers(-128, 128, (DEPTH, 2, 3), dtype=np.int8)
    plain = acc.astype(object)
    for dst, src, w in triples:
        plain[dst] = plain[dst] + inp[src].astype(object) @ wgt[w].astype(object).T
    dst, src, w = np.array(triples, dtype=int).reshape(-1, 3).T
    micro_ops.multiply_add(acc, inp, wgt, dst, src, w)
    np.testing.assert_array_equal(acc, ((plain + 2**31) % 2**32 - 2**31).astype(np.int32))


@given(st.lists(st.tuples(indices, indices), max_size=12), registers, st.booleans(), st.integers(-40, 40))
def test_operations_in_waves(pairs, acc, with_src: bool, second: int) -> None:
    """An operation that is neither commutative nor associative shows every change of order."""

    def operation(a, b):
        return a * 3 - b + 1

    plain = acc.copy()
    for dst, src in pairs:
        other = plain[src].astype(np.int64) if with_src else second
        plain[dst] = operation(plain[dst].astype(np.int64), other).astype(np.int32)
    dst, src = np.array(pairs, dtype=int).reshape(-1, 2).T
    micro_ops.apply(acc, operation, dst, src if with_src else None, second)
    np.testing.assert_array_equal(acc, plain)


def test_a_register_is_read_after_it_changed() -> None:
    acc = np.array([[[1]], [[10]], [[100]]], np.int32)
    micro_ops.apply(acc, np.add, np.array([0, 1, 2]), np.array([1, 0, 1]), 0)
    assert acc.ravel().tolist() == [11, 21, 121]


@given(st.integers(-(2**31), 2**31 - 1), st.integers(-70, 70))
def test_shifts(value: int, by: int) -> None:
    shifted = micro_ops.wrapped(micro_ops.shifted(np.array([value]), np.array([by])), np.dtype("int32"))[0]
    exact = value >> by if by >= 0 else value << -by
    assert shifted == (exact + 2**31) % 2**32 - 2**31


# --- what only this machine knows ----------------------------------------------------------------------------------


def test_sums_wrap_and_results_are_cut() -> None:
    """2**20 ones of 127 * 127 * 16 leave 32 bits; the low byte is stored."""
    program = assemble(
        """
.constant k uop at 0 count 1
    0 0 0
.input x inp at 64 count 1
.input w wgt at 256 count 1
.output y out at 512 count 1
load.uop dram=k
load.wgt dram=w
load.inp dram=x push(compute)
gemm uops=0:1 reset
gemm uops=0:1 loops=128,128 pop(load) push(store)
store.out dram=y pop(compute) push(compute)
finish pop(store)
""",
        VTA,
    )
    full = {"x": np.full((1, 1, 16), -128, np.int8), "w": np.full((1, 16, 16), -128, np.int8)}
    full["w"][0, :, 0] = 127
    total = 128 * 128 * (15 * 128 * 128 - 128 * 127)
    assert total > 2**31
    assert np.unique(accel.run(program, VTA, full)["y"]) == [np.array([total]).astype(np.int8)[0]]


def test_a_missing_token_is_found_in_every_order_and_changes_the_result_in_some() -> None:
    """The load of the second half overwrites what the first GEMM reads."""
    broken = changed(twice(), {4: {"push_prev": False}, 6: {"pop_next": False}})
    for order in ("fetched", *accel.PRIORITIES):
        with pytest.raises(accel.Unordered) as caught:
            accel.run(broken, VTA, tensors(), order=order)
        assert {caught.value.first, caught.value.second} == {4, 6}
    with pytest.raises(ExecutionError, match="the result depends on the order of the modules"):
        accel.explore(broken, VTA, tensors())
    same = accel.run(broken, VTA, tensors(), order="fetched", ordered=False)["y"]
    np.testing.assert_array_equal(same, expected(tensors())), "in the order of the program nothing is wrong"


def test_the_text_of_a_missing_token() -> None:
    broken = changed(twice(), {4: {"push_prev": False}, 6: {"pop_next": False}})
    with pytest.raises(accel.Unordered) as caught:
        accel.run(broken, VTA, tensors(), order="load compute store")
    assert str(caught.value).splitlines() == [
        "twice: instruction 4: reads inp[0], which instruction 6 wrote, and no tokens order the two",
        "       2  load.inp sram=0 dram=4 y=1 x=4 stride=1 push(compute)",
        "       3  gemm uops=0:1 loops=4,1 dst=1,0 src=0,0 wgt=0,0 reset",
        "       4  gemm uops=0:1 loops=4,1 dst=1,0 src=1,0 wgt=0,0 pop(load) push(store)",
        "          "
        + "^" * len(str(broken.instructions[4]))
        + " reads inp[0], which instruction 6 wrote, and no tokens order the two",
        "       5  store.out sram=0 dram=32 y=1 x=4 stride=1 pop(compute) push(compute)",
        "       6  load.inp sram=0 dram=8 y=1 x=4 stride=1 push(compute)",
        "          " + "^" * len(str(broken.instructions[6])) + " the other one",
        "       7  gemm uops=0:1 loops=4,1 dst=1,0 src=0,0 wgt=0,0 reset pop(store)",
        "       8  gemm uops=0:1 loops=4,1 dst=1,0 src=1,0 wgt=0,0 pop(load) push(store)",
        "  found:  tokens    load->compute: 1, compute->load: 0, compute->store: 0, store->compute: 0",
        "          commands  load: 0, compute: 4, store: 2",
    ]


def test_the_text_of_a_deadlock() -> None:
    stuck = changed(twice(), {1: {"pop_next": True}, 6: {"pop_next": False}})
    with pytest.raises(accel.Deadlock) as caught:
        accel.run(stuck, VTA, tensors())
    text = str(caught.value)
    assert text.startswith("twice: a deadlock\n")
    assert (
        "load waits for a token of compute, which instruction 4 would push, at instruction 1: load.wgt sram=0" in text
    )
    assert "compute waits for a token of load, which instruction 2 would push, at instruction 4: gemm" in text
    assert "store waits for a token of compute, which instruction 4 would push, at instruction 5: store.out" in text
    assert "tokens    load->compute: 0, compute->load: 0" in text
    nobody = changed(twice(), {2: {"push_next": False}, 6: {"push_next": False}})
    with pytest.raises(accel.Deadlock, match="a token of load, which nobody pushes any more"):
        accel.run(nobody, VTA, tensors())
    with pytest.raises(accel.Deadlock, match="fetch waits for room among the commands of load, at instruction 2"):
        accel.run(stuck, configured("vta", command_depth=1), tensors())


BAD = [
    (changed(twice(), {8: {"push_prev": True}}), "tokens are left over at the end"),
    (changed(twice(), {2: {"sram": 2046}}), "instruction 2: elements 2046 to 2049 of inp, which has 2048"),
    (changed(twice(), {5: {"sram": 2046}}), "instruction 5: elements 2046 to 2049 of acc, which has 2048"),
    (changed(twice(), {4: {"dst_factors": (900, 0)}}), "instruction 4: dst is 2700; acc has 2048 elements"),
    (changed(twice(), {4: {"src_factors": (9, 0)}}), "instruction 4: reads inp[9], which was never written"),
    (changed(twice(), {4: {"wgt_factors": (1, 0)}}), "instruction 4: reads wgt[1], which was never written"),
    (changed(twice(), {3: {"reset": False}}), "reads inp[0], which instruction 2 wrote, and no tokens order the two"),
    (changed(twice(), {4: {"dst_factors": (2, 0)}}), "reads acc[4], which was never written"),
    (changed(twice(), {3: {"uop_end": 2}}), "reads uop[1], which was never written"),
    (changed(twice(), {3: {"uop_end": 9000}}), "micro-ops up to 9000; there is room for 8192"),
    (changed(twice(), {6: {"x_size": 6}}), "instruction 6: bytes 128 to 223 of DRAM are not within a buffer"),
    (changed(twice(), {5: {"dram": 4}}), "instruction 5: overwrites x, an input"),
    (changed(twice(), {9: {"push_prev": False}, 10: {"pop_next": False}}), "no tokens order instruction 9 before"),
    (changed(twice(), {1: {"pad_least": True}}), "instruction 1: this machine cannot load that"),
]


@pytest.mark.parametrize(("program", "words"), BAD, ids=[words for _, words in BAD])
def test_what_the_machine_does_not_define(program, words: str) -> None:
    with pytest.raises(ExecutionError) as caught:
        accel.run(program, VTA, tensors())
    assert words in str(caught.value)
    assert "tokens    load->compute: " in str(caught.value)


@pytest.mark.parametrize("op", [AluOp.MUL, AluOp.CLIP])
def test_operations_that_this_machine_has_not(op: AluOp) -> None:
    instructions = list(twice().instructions)
    instructions.insert(4, Alu(op=op, uop_end=1, immediate=1))
    with pytest.raises(ExecutionError, match=f"this machine's ALU has no {op.name}"):
        accel.run(replace(twice(), instructions=tuple(instructions)), VTA, tensors())


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"x": np.zeros((8, 1, 16), np.int16)}, "wanted: int8[8, 1, 16]\n  found:  int16[8, 1, 16]"),
        ({"w": np.zeros((2, 16, 16), np.int8)}, "the input w does not fit"),
        ({"z": 1}, "'z', which is no input"),
    ],
)
def test_arrays_that_do_not_fit(change, words: str) -> None:
    with pytest.raises(InputError) as caught:
        accel.run(twice(), VTA, {**tensors(), **change})
    assert words in str(caught.value)
    with pytest.raises(InputError, match="nothing for 'x'"):
        accel.run(twice(), VTA, {"w": tensors()["w"]})
    with pytest.raises(InputError, match="no order is called 'backwards'"):
        accel.run(twice(), VTA, tensors(), order="backwards")


def test_inputs_stay_as_they_are() -> None:
    inputs = tensors()
    before = {name: array.copy() for name, array in inputs.items()}
    accel.check(twice(), VTA, inputs)
    for name in before:
        np.testing.assert_array_equal(inputs[name], before[name])


def test_micro_ops_of_one_instruction_are_counted() -> None:
    assert Gemm(uop_begin=2, uop_end=5, outer=4, inner=2).count == 24
    assert Gemm(uop_begin=5, uop_end=2).count == 0
    assert str(MicroOp(1, 2, 3)) == "1 2 3"


def test_each_operation_on_registers() -> None:
    """Every operation, with an immediate and with a register, on numbers of all sizes; results keep all their bits."""
    config = replace(TINY, out_dtype="int32")
    values = np.array([-(2**31), -70000, -129, -1, 0, 1, 200, 2**31 - 1], np.int32)
    for op in AluOp:
        for immediate in (None, -3, 0, 1, 127, -300):
            second = "" if immediate is None else f" imm={immediate}"
            text = f"""
.constant k uop at 0 count 1
    0 4 0
.input a acc at 64 count 8
.output y out at 256 count 8
load.uop dram=k
load.acc dram=a x=8 stride=8
alu.{op.name.lower()} uops=0:1 loops=4,1 dst=1,0 src=1,0{second} push(store)
store.out dram=y x=8 stride=8 pop(compute) push(compute)
finish pop(store)
"""
            program = assemble(text, config)
            for seed in range(3):
                rng = np.random.default_rng(seed)
                inputs = {"a": rng.choice(values, (8, 1, 2))}
                found, plain = accel.run(program, config, inputs), ScalarMachine(program, config, inputs).run()
                assert np.array_equal(found["y"], plain["y"]), f"{op.name} {immediate} of {inputs['a'].ravel()}"
