"""The rules of a program: one bad program for each, and removing a token is found wherever it can matter."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings

from minitvm.errors import ExecutionError, InputError, VerificationError
from minitvm.machines.vta.assembler import assemble
from minitvm.machines.vta.config import configured
from minitvm.machines.vta.footprint import MicroOps, grain, touched
from minitvm.machines.vta.isa import Alu, AluOp, DramBuffer, Finish, Load, Module, Program, Scratchpad
from minitvm.machines.vta.layers import Conv2d, Tile, conv2d
from minitvm.machines.vta.ordering import ordering
from minitvm.machines.vta.timing import simulate
from minitvm.machines.vta.verifier import RULES, verify
from minitvm.reference import accel
from minitvm.reference.strategies import accelerator_programs

from .programs import VTA, changed, tensors, twice, without_a_token


def swapped(program: Program, a: int, b: int) -> Program:
    instructions = list(program.instructions)
    instructions[a], instructions[b] = instructions[b], instructions[a]
    return replace(program, instructions=tuple(instructions))


def inserted(program: Program, at: int, *new) -> Program:
    instructions = program.instructions
    return replace(program, instructions=(*instructions[:at], *new, *instructions[at:]))


def with_buffer(program: Program, name: str, **changes) -> Program:
    return replace(program, buffers=tuple(replace(b, **changes) if b.name == name else b for b in program.buffers))


# rule -> (program, the instruction that is named, words of the message)
BAD = {
    "buffers": (with_buffer(twice(), "w", address=128), None, "w begins at 128, before 192, where another one ends"),
    "fields": (changed(twice(), {2: {"x_size": 1 << 16}}), 2, "x_size is 65536; its 16 bits hold 0 to 65535"),
    "neighbours": (changed(twice(), {1: {"push_prev": True}}), 1, "load has no neighbour at its side 'prev'"),
    "kinds": (changed(twice(), {5: {"memory": Scratchpad.ACC}}), 5, "only results are stored, not acc"),
    "options": (inserted(twice(), 4, Alu(op=AluOp.CLIP)), 4, "this machine's ALU does not clip"),
    "dram bounds": (changed(twice(), {6: {"x_size": 5}}), 6, "x ends at byte 192, the last row at 208"),
    "scratchpad bounds": (changed(twice(), {2: {"sram": 2045}}), 2, "elements 2045 to 2048 of inp, which has 2048"),
    "micro-ops": (changed(twice(), {4: {"dst_factors": (1000, 0)}}), 4, r"dst is 3000 in iteration (3, 0, 0)"),
    "finish": (inserted(twice(), 3, Finish()), 3, "FINISH is at [3, 11], wanted once, at the end (11)"),
    "balance": (changed(twice(), {10: {"pop_next": False}}), None, "store pushes 2 tokens to compute, which pops 1"),
    "deadlock": (
        changed(twice(), {1: {"pop_next": True}, 6: {"pop_next": False}}),
        1, "load waits for a token of compute, at instruction 1",
    ),
    "order": (changed(twice(), {4: {"push_prev": False}, 6: {"pop_next": False}}), 4, "instruction 6 wrote"),
    "loaded": (changed(twice(), {4: {"src_factors": (2, 0)}}), 4, "inp[4] was never written"),
    "complete": (changed(twice(), {9: {"push_prev": False}, 10: {"pop_next": False}}), 10, "may still be storing"),
}  # fmt: skip


def test_there_is_a_bad_program_for_every_rule() -> None:
    assert list(BAD) == [rule.name for rule in RULES]
    verify(twice(), VTA)


@pytest.mark.parametrize("rule", BAD)
def test_a_program_that_breaks_a_rule(rule: str) -> None:
    program, instruction, words = BAD[rule]
    with pytest.raises(VerificationError) as caught:
        verify(program, VTA)
    text = str(caught.value)
    where = "" if instruction is None else f" at instruction {instruction}"
    assert text.splitlines()[0] == f"twice breaks the rule {rule!r}{where}"
    assert words in text
    if instruction is not None:
        assert f"   {instruction}  {program.instructions[instruction]}\n" in text


MORE = [
    (with_buffer(twice(), "x", address=72, count=4), "x begins at 72, within an element of 16 bytes"),
    (changed(twice(), {0: {"pads": (1, 0, 0, 0)}}), "micro-ops have no frame"),
    (changed(twice(), {1: {"memory": Scratchpad.OUT}}), "results are not loaded"),
    (changed(twice(), {2: {"pad_least": True}}), "this machine pads with zeros only"),
    (inserted(twice(), 4, Alu(op=AluOp.MUL)), "this machine's ALU does not multiply"),
    (changed(twice(), {5: {"dram": 4}}), "x is an input, which nothing may overwrite"),
    (changed(twice(), {2: {"dram": 0, "x_size": 0, "x_stride": 0}}), "was never written"),
    (changed(twice(), {2: {"dram": 500}}), "no buffer holds byte 8000"),
    (changed(twice(), {4: {"uop_end": 2}}), "micro-op 1 was not loaded"),
    (changed(twice(), {4: {"uop_begin": 2}}), "micro-ops 2 to 1 of 8192"),
    (changed(twice(), {4: {"wgt_factors": (600, 0)}}), "wgt is 1200 in iteration (2, 0, 0); wgt has 1024 elements"),
    (changed(twice(), {4: {"src_factors": (0, 0), "inner": 3, "outer": 2048, "dst_factors": (1, 1)}}), "dst is 2048"),
    (swapped(twice(), 0, 3), "micro-op 0 was not loaded"),
    (replace(twice(), instructions=twice().instructions[:-1]), "FINISH is at []"),
]


@pytest.mark.parametrize(("program", "words"), MORE, ids=[words for _, words in MORE])
def test_more_that_is_refused(program: Program, words: str) -> None:
    with pytest.raises(VerificationError) as caught:
        verify(program, VTA)
    assert words in str(caught.value)


def test_micro_ops_that_do_not_fit() -> None:
    program = with_buffer(twice(), "kernel", uops=(replace(twice().buffers[0].uops[0], wgt=1024),))
    with pytest.raises(InputError, match="cannot be encoded for vta"):
        verify(program, VTA)


def test_what_is_allowed_with_the_options_of_the_machine() -> None:
    from minitvm.machines.vta.config import AluOptions

    config = configured("vta", options=AluOptions(multiply_bits=8, pad_value=True, clip=True))
    instructions = (Alu(op=op, uop_end=1, immediate=1) for op in (AluOp.CLIP, AluOp.MUL))
    verify(inserted(twice(), 4, *instructions), config)


def test_numbers_are_extended_into_registers_where_the_machine_can() -> None:
    load = Load(memory=Scratchpad.ACC8, sram=0, dram=4, x_size=4)
    with pytest.raises(VerificationError, match="this machine extends no numbers into registers"):
        verify(inserted(twice(), 4, load), VTA)
    verify(inserted(twice(), 4, load), configured("vta2"))


def test_a_deadlock_through_a_full_command_queue() -> None:
    """Load waits for compute, whose instruction is behind another load for which there is no room."""
    config = configured("vta", command_depth=1)
    verify(twice(), VTA)
    program = changed(twice(), {3: {"push_prev": True}, 1: {"pop_next": True}})
    verify(program, VTA)
    with pytest.raises(VerificationError, match="fetch waits for room among the commands of load: 1 commands wait"):
        verify(program, config)


def test_micro_ops_may_lie_anywhere() -> None:
    moved = {index: {"uop_begin": 5, "uop_end": 6} for index in (3, 4, 7, 8)}
    program = changed(twice(), {0: {"sram": 5}, **moved})
    verify(program, VTA)
    assert (accel.run(program, VTA, tensors())["y"] == accel.run(twice(), VTA, tensors())["y"]).all()


def test_a_token_that_is_pushed_too_early() -> None:
    """The load waits for the instruction before the one that reads what it overwrites."""
    program = changed(twice(), {3: {"push_prev": True}, 4: {"push_prev": False}})
    with pytest.raises(VerificationError, match=r"it writes inp\[0\], which instruction 4 reads, and no tokens order"):
        verify(program, VTA)
    for order in ("fetched", "compute load store"):
        with pytest.raises(accel.Unordered, match=r"writes inp\[0\], which instruction 4 read, and no tokens order"):
            accel.run(program, VTA, tensors(), order=order)


def test_a_push_waits_for_room_after_the_instruction_has_popped() -> None:
    """Both directions between load and compute are full, and a pop of one makes room for the other."""
    text = """
.input x inp at 0 count 1
load.inp dram=x push(compute)
load.inp x=0 push(compute)
load.inp x=0 pop(compute)
load.inp x=0 pop(compute)
load.acc x=0 push(load)
load.acc x=0 pop(load) push(load)
load.acc x=0 pop(load)
finish
"""
    full = configured("vta", token_depth=1)
    program = assemble(text, full)
    verify(program, full)
    accel.check(program, full, {"x": tensors()["x"][:1]})
    assert simulate(program, full).cycles > 0


def conflicting(program: Program, config) -> list[tuple[int, int]]:
    """All pairs of instructions of different modules that touch an element, of which one writes it, by sets."""
    ops, size, reads, writes = MicroOps(program, config), grain(program, config), [], []
    for one in program.instructions:
        touches = list(touched(one, ops, config, size))
        reads.append({(t.name, int(i)) for t in touches if not t.writes for i in t.indices})
        writes.append({(t.name, int(i)) for t in touches if t.writes for i in t.indices})
    return [
        (a, b)
        for b in range(len(program.instructions))
        for a in range(b)
        if program.instructions[a].module is not program.instructions[b].module
        and (writes[a] & (reads[b] | writes[b]) or reads[a] & writes[b])
    ]


def reachable(program: Program) -> set[tuple[int, int]]:
    """Happens-before as the transitive closure of its edges, without clocks."""
    edges: set[tuple[int, int]] = set()
    for module in Module:
        own = [i for i, one in enumerate(program.instructions) if one.module is module]
        edges |= set(pairwise(own))
    for pusher, popper, _ in without_a_token(program):
        edges.add((pusher, popper))
    count = len(program.instructions)
    reached = [[(a, b) in edges for b in range(count)] for a in range(count)]
    for middle in range(count):
        for row in reached:
            if row[middle]:
                row[:] = [one or other for one, other in zip(row, reached[middle], strict=True)]
    return {(a, b) for a in range(count) for b in range(count) if reached[a][b]}


@settings(max_examples=40)
@given(accelerator_programs(most=8))
def test_clocks_are_the_closure_of_tokens_and_queues(drawn) -> None:
    order, closure = ordering(drawn.program, drawn.config), reachable(drawn.program)
    for a in range(len(drawn.program.instructions)):
        for b in range(len(drawn.program.instructions)):
            assert order.before(drawn.program, a, b) == ((a, b) in closure)


def judged(program: Program, config, inputs) -> tuple[bool, bool]:
    """Whether the verifier, and the interpreter, let a program pass."""
    verdicts = []
    for judge in (lambda: verify(program, config), lambda: accel.run(program, config, inputs)):
        try:
            judge()
            verdicts.append(True)
        except (VerificationError, ExecutionError):
            verdicts.append(False)
    return verdicts[0], verdicts[1]


@settings(max_examples=40)
@given(accelerator_programs(most=10))
def test_a_removed_token_is_found_wherever_it_can_matter(drawn) -> None:
    """It matters if a pair of instructions that conflict, or a store and FINISH, is in no order any more.

    Verifier and interpreter decide that apart from each other, and from the closure of edges here. If it does not
    matter, all explored orders agree.
    """
    last = len(drawn.program.instructions) - 1
    for _, _, program in without_a_token(drawn.program):
        closure = reachable(program)
        stores = [(i, last) for i, one in enumerate(program.instructions) if one.module is Module.STORE]
        matters = not set(conflicting(program, drawn.config) + stores) <= closure | {(b, a) for a, b in closure}
        assert judged(program, drawn.config, drawn.inputs) == (not matters, not matters)
        if not matters:
            accel.check(program, drawn.config, drawn.inputs)


def test_every_token_of_a_convolution_matters() -> None:
    """Three tiles of two steps on two contexts: no token that the hand-written stream inserts is there for nothing."""
    layer = Conv2d(6, 4, 32, 32, 3)
    program = conv2d(layer, VTA, tile=Tile(2, 1, 1), contexts=2)
    verify(program, VTA)
    found = 0
    for _, _, broken in without_a_token(program):
        with pytest.raises(VerificationError, match="breaks the rule '(order|loaded|complete)'"):
            verify(broken, VTA)
        found += 1
    assert found > 30


def test_a_load_of_what_a_store_wrote_needs_tokens_through_compute() -> None:
    """DRAM is memory like any other: a temporary is stored, and loaded again."""
    text = twice()
    program = with_buffer(text, "y", role="temporary")
    program = inserted(program, 10, Load(memory=Scratchpad.INP, sram=8, dram=512 // 16))
    with pytest.raises(VerificationError, match=r"it reads dram\[\d+\], which instruction 5 wrote"):
        verify(program, VTA)
    ordered = changed(program, {7: {"push_prev": True}, 10: {"pop_next": True}})
    verify(ordered, VTA)
    assert accel.run(ordered, VTA, tensors()) == {}


def test_the_names_of_buffers_and_their_text() -> None:
    assert str(DramBuffer("x", "input", Scratchpad.INP, 64, 8)) == ".input x inp at 64 count 8"
