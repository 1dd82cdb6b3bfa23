"""Configurations: the two machines are those of the papers, and one that cannot be is refused when it is made."""

from __future__ import annotations

from dataclasses import replace

import pytest

from minitvm.errors import InputError
from minitvm.machines.vta.config import (
    CONFIGS,
    RULES,
    AccelConfig,
    AluOptions,
    Dram,
    Scratchpad,
    Widths,
    configured,
    scaled,
)

PADS = (Scratchpad.UOP, Scratchpad.WGT, Scratchpad.INP, Scratchpad.ACC)


@pytest.mark.parametrize(
    ("name", "depths", "mhz"), [("vta", (8192, 1024, 2048, 2048), 100), ("vdla", (8192, 128, 2048, 2048), 200)]
)
def test_the_machines_of_the_papers(name: str, depths: tuple[int, ...], mhz: int) -> None:
    config = configured(name)
    assert tuple(config.depth(pad) for pad in PADS) == depths
    assert (config.macs_per_cycle, config.clock_mhz) == (256, mhz)
    assert [config.element_bytes(pad) for pad in Scratchpad] == [4, 256, 16, 64, 16, 16]


def test_the_two_memories_differ_in_latency_alone() -> None:
    tsim, board = configured("vta", "tsim").dram, configured("vta", "board").dram
    assert (tsim.latency, board.latency, tsim.bytes_per_cycle) == (1, 100, 8)
    assert replace(board, name="tsim", latency=1) == tsim


@pytest.mark.parametrize("block", [16, 32, 64])
def test_index_fields_grow_and_shrink_with_the_array(block: int) -> None:
    config = configured("vta", block_in=block, block_out=block)
    for pad in PADS:
        bits = getattr(config.widths, pad.word)
        assert 1 << bits >= config.depth(pad) > 1 << (bits - 1)


@pytest.mark.parametrize("block", [4, 8, 16, 32])
def test_scratchpads_that_grow_with_the_array_hold_as_many_elements(block: int) -> None:
    config, vta = scaled(configured("vta", "board"), block), configured("vta")
    assert [config.depth(pad) for pad in PADS] == [vta.depth(pad) for pad in PADS]
    assert (config.macs_per_cycle, config.dram.latency) == (block * block, 100)


def test_a_smaller_array_with_the_same_bytes_has_more_elements_than_a_micro_op_can_name() -> None:
    with pytest.raises(InputError, match="micro-op"):
        configured("vta", block_in=8, block_out=8)


BAD = {
    "counts": {"batch": 0},
    "dtypes": {"inp_dtype": "float32"},
    "results": {"acc_dtype": "int16", "out_dtype": "int32"},
    "whole elements": {"inp_bytes": 1000},
    "field width": {"acc_bytes": 1 << 18},
    "micro-op": {"widths": Widths(wgt=12)},
    "instruction": {"widths": Widths(dram=40)},
    "bursts": {"dram": Dram(burst=12)},
    "multiply": {"options": AluOptions(multiply_bits=40)},
}


def test_there_is_a_bad_machine_for_every_rule() -> None:
    assert list(BAD) == [rule.name for rule in RULES]


@pytest.mark.parametrize("name", BAD)
def test_a_machine_that_cannot_be_is_refused(name: str) -> None:
    with pytest.raises(InputError, match=f"there is no accelerator 'vta': {name}\n  wanted: .*\n  found: "):
        AccelConfig(**BAD[name])


@pytest.mark.parametrize(
    "changes",
    [{"dram": Dram(latency=0)}, {"widths": Widths(pad=0)}, {"widths": Widths(opcode=2)}, {"widths": Widths(sram=10)}],
)
def test_more_machines_that_cannot_be(changes) -> None:
    with pytest.raises(InputError):
        AccelConfig(**changes)


def test_names_that_nobody_knows() -> None:
    with pytest.raises(InputError, match="no accelerator is called 'vtb': did you mean vta"):
        configured("vtb")
    with pytest.raises(InputError, match="no memory is called 'bord': did you mean board"):
        configured("vta", "bord")
    with pytest.raises(InputError, match="an accelerator has no 'blok_in': did you mean block_in"):
        configured("vta", blok_in=8)
    assert set(CONFIGS) == {"vta", "vdla", "vta2"}
