"""Cycles: small cases by hand, and what must hold of every timeline."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minitvm.errors import VerificationError
from minitvm.machines.scratchpad.channel import Channel, OngoingTransfer, bursts
from minitvm.machines.scratchpad.timeline import STALLS, UNITS, WORK, Interval, overlapping
from minitvm.machines.vta.assembler import assemble
from minitvm.machines.vta.config import Dram, Pipelines, Scratchpad, configured
from minitvm.machines.vta.isa import Load, Module, Transfer
from minitvm.machines.vta.layers import RESNET18, Conv2d, Tile, conv2d, cycles_of
from minitvm.machines.vta.ordering import ordering
from minitvm.machines.vta.timing import requests, simulate
from minitvm.reference.strategies import accelerator_programs

from .programs import VTA, changed, twice

HEAD = """\
.constant kernel uop at 0 count 1
    0 0 0
.input x inp at 64 count 64
.input w wgt at 2048 count 1
.input a acc at 4096 count 8
.output y out at 8192 count 8
load.uop sram=0 dram=kernel x=1
"""


def timed(text: str, config=VTA):
    return simulate(assemble(HEAD + text, config, "by hand"), config)


def when(timeline, instruction: int) -> tuple[int, int]:
    """The cycles of one instruction in its module."""
    return next((i.start, i.end) for i in timeline.intervals if i.instruction == instruction and i.unit != "fetch")


def test_one_load() -> None:
    """Three instructions are 48 bytes: 6 cycles of DRAM, and one until they are here, at cycle 7. Fetch sends the load
    of micro-ops at 7, to be seen at 8; 4 bytes take one cycle, and come one later. The load of inp is seen at 9: its 16
    bytes wait for the micro-ops' turn, which ends at 9, take two cycles, and come one later. FINISH is seen at 10."""
    timeline = timed("load.inp sram=0 dram=x x=1\nfinish")
    assert [when(timeline, i) for i in range(3)] == [(8, 10), (9, 12), (10, 11)]
    assert timeline.cycles == 12
    assert timeline.spent["load"] == {"no command": 9, "transfer": 2, "latency": 1}
    assert timeline.spent["compute"] == {"no command": 8, "transfer": 1, "latency": 1, "token": 1, "done": 1}
    assert timeline.spent["fetch"] == {"memory": 7, "dispatch": 3, "done": 2}
    assert timeline.spent["store"] == {"done": 12}


def test_array_and_alu_take_a_cycle_a_micro_op_and_their_pipeline() -> None:
    timeline = timed(
        "gemm uops=0:1 loops=2,4 dst=4,1 reset\n"
        "alu.shr uops=0:1 loops=8,1 dst=1,0 imm=2\n"
        "alu.add uops=0:1 loops=4,1 dst=1,0 src=1,0\nfinish"
    )
    begin = when(timeline, 1)[0]
    assert [when(timeline, i) for i in (1, 2, 3, 4)] == [
        (begin, begin + 8 + 4), (begin + 12, begin + 12 + 8 + 4), (begin + 24, begin + 24 + 4 * 2 + 4),
        (begin + 36, begin + 37),
    ]  # fmt: skip
    assert {k: timeline.spent["compute"][k] for k in ("reset", "alu", "pipeline")} == {
        "reset": 8, "alu": 16, "pipeline": 12,
    }  # fmt: skip
    assert timeline.utilisation == 0.0, "setting registers to zero multiplies nothing"


def test_deeper_pipelines_take_longer() -> None:
    deep = replace(VTA, pipelines=Pipelines(gemm=9, alu=7, alu_two=3))
    timeline = timed("gemm uops=0:1 loops=8,1 dst=1,0 reset\nalu.add uops=0:1 loops=4,1 dst=1,0 src=1,0\nfinish", deep)
    assert [end - start for start, end in (when(timeline, i) for i in (1, 2))] == [17, 19]


def test_a_token_is_waited_for() -> None:
    program = twice()
    timeline = simulate(program, VTA)
    gemm, store = when(timeline, 4), when(timeline, 5)
    assert gemm[0] == when(timeline, 2)[1], "GEMM begins in the cycle in which the load has ended"
    assert gemm[1] - gemm[0] == 4 + 4
    assert store[0] == gemm[1]
    assert when(timeline, 6)[0] == gemm[1], "the load waits for the registers' first use of its place"
    stalls = {(s.unit, s.reason) for s in timeline.stalls}
    assert {("compute", "waits for load"), ("store", "waits for compute"), ("load", "waits for compute")} <= stalls
    tokens = [(t.pushed_by, t.popped_by) for t in timeline.tokens]
    assert sorted(tokens) == [(2, 4), (4, 5), (4, 6), (5, 7), (6, 8), (8, 9), (9, 10)]
    assert timeline.micro_ops == 8 and timeline.utilisation == 8 / timeline.cycles


@pytest.mark.parametrize(
    ("outstanding", "cycles"),
    [
        (1, 4 * (32 + 100)),  # each of four bursts waits for its own latency
        (2, 2 * (32 + 100) + 32),  # two on their way: the third is asked when the first is answered
        (8, 4 * 32 + 100),  # all on their way: one latency
    ],
)
def test_latency_is_hidden_by_requests_on_their_way(outstanding: int, cycles: int) -> None:
    config = replace(VTA, dram=Dram(latency=100, burst=256, outstanding=outstanding))
    timeline = timed("load.inp sram=0 dram=x x=64\nfinish", config)
    start, end = when(timeline, 1)
    waited = timeline.spent["load"].get("contention", 0)
    assert end - start - waited == cycles
    assert timeline.spent["load"]["transfer"] == 128


def test_rows_that_follow_each_other_are_one_row() -> None:
    def cycles(**changes) -> list[int]:
        return requests(Load(memory=Scratchpad.INP, **changes), VTA)

    assert cycles(y_size=4, x_size=4, x_stride=4) == [32]
    assert cycles(y_size=4, x_size=4, x_stride=8) == [8] * 4
    assert cycles(y_size=2, x_size=17, x_stride=20) == [32, 2] * 2
    assert bursts(0, VTA.dram) == [] and bursts(9, VTA.dram) == [2]


def test_two_modules_share_the_way_to_dram() -> None:
    """Loads of inp and of acc begin one cycle apart; bursts take turns, and each waits while the other is served."""
    config = replace(VTA, dram=Dram(latency=1, burst=64, outstanding=1))
    timeline = timed("load.inp sram=0 dram=x x=32\nload.acc sram=0 dram=a x=8\nfinish", config)
    assert timeline.spent["load"]["transfer"] == timeline.spent["compute"]["transfer"] - 1 == 64
    assert timeline.spent["load"]["contention"] > 40 and timeline.spent["compute"]["contention"] > 40
    assert sum(timeline.channel.values()) <= timeline.cycles


def test_a_frame_is_written_while_data_are_on_their_way() -> None:
    short = timed("load.inp sram=0 dram=x x=1 pads=0,0,2,0\nfinish")
    assert "frame" not in short.spent["load"]
    long = timed("load.inp sram=0 dram=x y=1 x=1 pads=4,4,2,0\nfinish")
    start, end = when(long, 1)
    assert end - start == 9 * 3 - 1, "27 elements, one of which is data"
    assert long.spent["load"]["frame"] == 26 - 3
    nothing = timed("load.inp sram=0 dram=0 y=0 x=2 pads=2,1\nfinish".replace("2,1", "2,1,0,0"))
    assert nothing.spent["load"]["frame"] == 6


def test_fetch_waits_for_room_among_commands() -> None:
    loads = "load.inp sram=0 dram=x x=64\n" * 4
    wide, narrow = (timed(loads + "finish", replace(VTA, command_depth=n)) for n in (8, 1))
    assert "command queue full" not in wide.spent["fetch"]
    assert narrow.spent["fetch"].get("command queue full", 0) > 300
    assert when(narrow, 5)[0] > when(wide, 5)[0], "FINISH is behind loads for which there is no room"


def test_a_module_waits_for_room_for_its_token() -> None:
    """Load pushes three tokens while compute is busy with registers; there is room for one."""
    text = (
        "gemm uops=0:1 loops=1024,1 dst=1,0 reset\n"
        + "load.inp sram=0 dram=x x=1 push(compute)\n" * 3
        + "gemm uops=0:1 loops=1,1 reset pop(load)\n" * 3
        + "finish"
    )
    roomy, full = (timed(text, replace(VTA, token_depth=n)) for n in (3, 1))
    assert "token queue full" not in roomy.spent["load"]
    assert full.spent["load"].get("token queue full", 0) > 900


def test_transfers_of_nothing_take_a_cycle() -> None:
    timeline = timed("load.inp x=0 push(compute)\ngemm uops=0:0 pop(load)\nfinish")
    assert [end - start for start, end in (when(timeline, i) for i in (1, 2, 3))] == [1, 1, 1]


def test_a_hazard_is_an_error() -> None:
    with pytest.raises(VerificationError, match="breaks the rule 'order' at instruction 4"):
        simulate(changed(twice(), {4: {"push_prev": False}, 6: {"pop_next": False}}), VTA)


@settings(max_examples=30)
@given(accelerator_programs(), st.sampled_from([1, 3, 512]), st.sampled_from([1, 40]), st.sampled_from([1, 4]))
def test_what_holds_of_every_timeline(drawn, depth: int, latency: int, outstanding: int) -> None:
    """Cycles add up; modules run their instructions in order; what happens before ends before; queues keep their depth.

    So no two instructions that touch an element run at the same time: the verifier has shown that they are in order.
    """
    dram = replace(drawn.config.dram, latency=latency, outstanding=outstanding)
    config = replace(drawn.config, command_depth=depth, dram=dram)
    program = drawn.program
    if ordering(program, config).blocked:
        return
    timeline = simulate(program, config)
    for unit in UNITS:
        assert sum(timeline.spent[unit].values()) == timeline.cycles
        assert set(timeline.spent[unit]) <= {*WORK, *STALLS}
        busy = sorted(
            [(i.start, i.end) for i in timeline.intervals if i.unit == unit]
            + [(s.start, s.end) for s in timeline.stalls if s.unit == unit]
        )
        assert [b for _, b in busy[:-1]] == [a for a, _ in busy[1:]], "no cycle is missing, and none is there twice"
        assert not busy or (busy[0][0], busy[-1][1]) == (0, timeline.cycles)
    spans = {i.instruction: (i.start, i.end) for i in timeline.intervals if i.unit != "fetch"}
    assert len(spans) == len(program.instructions)
    order = ordering(program, config)
    for a in spans:
        for b in spans:
            if order.before(program, a, b):
                assert spans[a][1] <= spans[b][0]
    assert all(t.pushed_at <= t.popped_at for t in timeline.tokens)
    sent = {i.instruction: i.start for i in timeline.intervals if i.unit == "fetch"}
    for module in Module:
        own = [i for i, one in enumerate(program.instructions) if one.module is module]
        for earlier, later in zip(own, own[depth:]):
            assert sent[later] >= spans[earlier][1], "more commands than the queue has room for"


def test_the_channel_accounts_for_every_cycle() -> None:
    channel = Channel(Dram(latency=10, outstanding=2))
    channel.ask("other", 5, 0)
    moving = OngoingTransfer(channel, "load", [4, 4, 4], 2)
    assert list(moving.ask(2)) == [19, 23]  # behind 5 cycles of the other: 5..9, 9..13, and the latency
    moving.answered = 1
    assert list(moving.ask(19)) == [33]
    moving.answered = 3
    assert moving.done
    # 2..5 contention, 5..13 transfer, 13..19 all on their way, 19..23 transfer, 23..33 latency
    assert moving.spent(33) == {"contention": 3, "transfer": 12, "latency": 16}


def test_overlapping_counts_cycles_with_two_at_once() -> None:
    spans = [("load", 0, 10), ("compute", 5, 20), ("store", 18, 30), ("fetch", 0, 30), ("load", 20, 20)]
    assert overlapping([Interval(unit, n, a, b) for n, (unit, a, b) in enumerate(spans)]) == 5 + 2


def test_the_table_of_a_timeline() -> None:
    timeline = simulate(twice(), VTA)
    rows = dict(timeline.table())
    assert rows["gemm"] == {"fetch": 0, "load": 0, "compute": 8, "store": 0}
    text = timeline.text().splitlines()
    assert text[0] == f"{timeline.cycles:,} cycles, {timeline.milliseconds:.3f} ms at 100 MHz"
    cycles, what = timeline.bound
    assert text[2] == f"its bound, {cycles:,} cycles of the {what}, is {cycles / timeline.cycles:.1%} of that"
    assert text[4:] and all(line[:20].strip() in {*WORK, *STALLS} for line in text[4:])


def test_the_bound_of_a_timeline() -> None:
    """Two products of four rows on two sets of weights: bytes that 8 bytes a cycle bring take longer."""
    timeline = simulate(twice(), VTA)
    moved = sum(
        one.elements * VTA.element_bytes(one.memory) for one in twice().instructions if isinstance(one, Transfer)
    )
    assert (timeline.micro_ops, timeline.moved) == (8, moved)
    assert timeline.bound == (-(-moved // 8), "DRAM") and timeline.bound[0] <= timeline.cycles
    timeline.moved = 8
    assert timeline.bound == (8, "array")


# --- layers -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("memory", ["tsim", "board"])
@pytest.mark.parametrize("name", ["C2", "C10"])
def test_two_contexts_hide_latency(name: str, memory: str) -> None:
    """Published: 52 % to 74 %, and 70 % to 88 % of the array in use; 7 % to 54 % of a layer's cycles saved."""
    config, layer = configured("vta", memory), RESNET18[name]
    alone, hidden = (simulate(conv2d(layer, config, contexts=n), config, verified=True) for n in (1, 2))
    assert alone.micro_ops == hidden.micro_ops == layer.macs // 256
    assert 0.07 < 1 - hidden.cycles / alone.cycles < 0.54
    assert hidden.utilisation > 0.88
    assert overlapping(hidden.intervals) > 3 * overlapping(alone.intervals)


def test_the_estimate_of_a_tile_is_near_what_it_takes() -> None:
    for memory in ("tsim", "board"):
        config = configured("vta", memory)
        for layer in (RESNET18["C8"], Conv2d(14, 14, 32, 64, 3)):
            tiles = [Tile(7, 2, 1), Tile(7, 4, 1), Tile(2, 2, 2)]
            cycles = [simulate(conv2d(layer, config, tile=tile), config).cycles for tile in tiles]
            estimates = [cycles_of(layer, tile, config) for tile in tiles]
            assert np.allclose(estimates, cycles, rtol=0.35)
