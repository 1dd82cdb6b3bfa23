"""Workloads of the simulated accelerator: its bits, its text, its meaning, its order and its cycles.

`bits()`         instructions there and back, and where VTA has their fields
`read_back()`    programs through their text
`interpreted()`  random programs beside a machine of plain integers, in several orders
`tokens()`       random programs without one of their tokens: verifier and interpreter beside the closure of edges
`rules()`        a bad program for each rule of the verifier
`timed()`        cycles by hand, and what holds of every timeline
`layered()`      convolutions beside NumPy
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import strategies as st

from minitvm.errors import InputError, VerificationError
from minitvm.machines.vta.assembler import assemble
from minitvm.machines.vta.config import configured, scaled
from minitvm.machines.vta.disassembler import disassemble
from minitvm.machines.vta.encoding import decode, decode_micro_op, encode, encode_micro_op
from minitvm.machines.vta.layers import Conv2d, Tile
from minitvm.machines.vta.timing import simulate
from minitvm.machines.vta.verifier import verify
from minitvm.reference import accel
from minitvm.reference.strategies import accelerator_programs
from tests.machines.vta import test_encoding, test_layers, test_timing, test_verifier
from tests.machines.vta.instructions import instructions, micro_ops
from tests.machines.vta.programs import VTA, without_a_token
from tests.machines.vta.scalar_machine import ScalarMachine

from .oracle import Noticed, Trial, Workload, directed, drawn, failing

Draw = Callable[[st.SearchStrategy[Any]], Any]


def holds(test: Callable[[], None]) -> None:
    """Run a test of the suite. It notices a fault if it fails, whatever it raises."""
    with failing("by hand", test.__name__):
        test()


def by_hand(name: str, *tests: Callable[[], None]) -> Workload:
    """Tests that need no arguments."""
    return directed(f"by hand: {name}", lambda: tests, lambda _, test: holds(test))


def bits() -> list[Workload]:
    def there_and_back(_: Trial, draw: Draw) -> None:
        one, op = draw(instructions(VTA)), draw(micro_ops(VTA))
        try:
            same = decode(encode(one, VTA), VTA) == one and decode_micro_op(encode_micro_op(op, VTA), VTA) == op
        except InputError as refused:
            raise Noticed("bits", f"{one}, {op}: {refused}") from refused
        if not same:
            raise Noticed("bits", f"{one}, {op}")

    return [
        drawn("instructions as bits", there_and_back, 60),
        by_hand("bits", test_encoding.test_bits_of_one_instruction_by_hand, _places),
    ]


def _places() -> None:
    """Where the fields of `hw_spec.h` are."""
    for kind, path, low, width in (
        (test_encoding.Gemm, "src_factors.0", 86, 11),
        (test_encoding.Gemm, "wgt_factors.1", 118, 10),
        (test_encoding.Alu, "immediate", 112, 16),
        (test_encoding.Load, "pads.0", 112, 4),
    ):
        place = next(f for f in test_encoding.fields(kind, VTA.widths) if f.path == path)
        assert (place.low, place.bits) == (low, width), path


def read_back() -> Workload:
    def body(_: Trial, draw: Draw) -> None:
        program = draw(accelerator_programs())
        text = disassemble(program.program, program.config)
        if assemble(text, program.config) != program.program:
            raise Noticed("text", text)

    return drawn("programs as text", body, 60)


def interpreted() -> Workload:
    def body(_: Trial, draw: Draw) -> None:
        found = draw(accelerator_programs())
        verify(found.program, found.config)
        outputs = accel.check(found.program, found.config, found.inputs, orders=7).outputs
        plain = ScalarMachine(found.program, found.config, found.inputs).run()
        for name, array in plain.items():
            if not np.array_equal(outputs[name], array):
                raise Noticed("integers", repr(found))

    return drawn("programs of the accelerator", body, 80)


def tokens() -> Workload:
    def body(_: Trial, draw: Draw) -> None:
        found = draw(accelerator_programs(most=10))
        last = len(found.program.instructions) - 1
        for _, popper, program in without_a_token(found.program):
            closure = test_verifier.reachable(program)
            stores = [(i, last) for i in range(last) if program.instructions[i].module is test_verifier.Module.STORE]
            pairs = set(test_verifier.conflicting(program, found.config) + stores)
            right = pairs <= closure | {(b, a) for a, b in closure}
            verdicts = test_verifier.judged(program, found.config, found.inputs)
            if verdicts != (right, right):
                raise Noticed("order", f"{found!r}\nwithout the token of instruction {popper}: {verdicts}, {right}")

    return drawn("programs without a token", body, 40)


def rules() -> Workload:
    def cases() -> list[tuple[str, Any, str]]:
        named = [(rule, program, words) for rule, (program, _, words) in test_verifier.BAD.items()]
        return named + [("", program, words) for program, words in test_verifier.MORE]

    def body(_: Trial, case: tuple[str, Any, str]) -> None:
        rule, program, words = case
        try:
            verify(program, VTA)
        except VerificationError as error:
            if f"breaks the rule '{rule}" in str(error) and words in str(error):
                return
            raise Noticed("rules", f"{rule}: {error}") from error
        raise Noticed("rules", f"{rule}, {words}: nothing was found")

    return directed("bad programs of the accelerator", cases, body)


def timed() -> list[Workload]:
    def body(_: Trial, draw: Draw) -> None:
        found = draw(accelerator_programs())
        timeline = simulate(found.program, found.config)
        for unit, spent in timeline.spent.items():
            if sum(spent.values()) != timeline.cycles:
                raise Noticed("cycles", f"{unit}: {spent} of {timeline.cycles}{found!r}")

    cases = [
        test_timing.test_one_load,
        test_timing.test_array_and_alu_take_a_cycle_a_micro_op_and_their_pipeline,
        test_timing.test_a_token_is_waited_for,
        test_timing.test_rows_that_follow_each_other_are_one_row,
        test_timing.test_two_modules_share_the_way_to_dram,
        test_timing.test_a_frame_is_written_while_data_are_on_their_way,
        test_timing.test_fetch_waits_for_room_among_commands,
        test_timing.test_a_module_waits_for_room_for_its_token,
        test_timing.test_the_channel_accounts_for_every_cycle,
        *(_latency(n, cycles) for n, cycles in ((1, 528), (2, 296), (8, 228))),
    ]
    return [by_hand("cycles", *cases), drawn("timelines add up", body, 40)]


def _latency(outstanding: int, cycles: int) -> Callable[[], None]:
    def latency() -> None:
        test_timing.test_latency_is_hidden_by_requests_on_their_way(outstanding, cycles)

    return latency


def layered() -> Workload:
    config = scaled(configured("vta", uop_bytes=1 << 12), 4)
    layers = [
        (Conv2d(5, 6, 8, 8, 3, 1, 4), Tile(2, 1, 1)), (Conv2d(5, 6, 8, 8, 3, 2, 4), Tile(2, 2, 1)),
        (Conv2d(6, 6, 8, 16, 1, 2, 4), Tile(1, 2, 2)),
    ]  # fmt: skip

    def body(_: Trial, case: Any) -> None:
        layer, tile = case
        for contexts in (1, 2):
            found, wanted = test_layers.run(layer, config, contexts, tile, orders=7)
            if not np.array_equal(found, wanted):
                raise Noticed("numpy", f"{layer} with {contexts} contexts")

    return directed("layers of the accelerator", lambda: layers, body)
