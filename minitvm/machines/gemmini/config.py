"""What the machine is: one frozen value, which is the target's description too."""

from __future__ import annotations

from dataclasses import dataclass

from ...errors import InputError, nearest, report
from ..scratchpad.memory import MEMORIES, AluOptions, Dram


@dataclass(frozen=True, slots=True)
class Gemmini:
    """An array of `side` x `side` multipliers of bytes, `scratchpad` bytes for images and weights, and `accumulator`
    bytes of int32. A row of either has `side` numbers. The defaults are those of Gemmini's default configuration.

    `depth_load`, `depth_execute` and `depth_store` are how many instructions wait for a unit at most; `latency` is the
    cycles from a row's last step into the array to its sums in the accumulator, 0 for twice the side. `memory` is
    "tsim" or "board", of a latency of 1 or 100 cycles; it moves `bytes_per_cycle`, and `outstanding` requests of 256
    bytes are on their way at most. Raises `InputError` for a machine that cannot be.
    """

    name: str = "gemmini"
    mhz: int = 1000
    side: int = 16
    scratchpad: int = 256 * 1024
    accumulator: int = 64 * 1024
    depth_load: int = 8
    depth_execute: int = 16
    depth_store: int = 4
    latency: int = 0
    memory: str = "tsim"
    bytes_per_cycle: int = 16
    outstanding: int = 16

    def __post_init__(self) -> None:
        least = {
            "mhz": 1, "side": 1, "scratchpad": 2 * self.side**2, "accumulator": 4 * self.side, "depth_load": 1,
            "depth_execute": 2, "depth_store": 1, "latency": 0, "bytes_per_cycle": 1, "outstanding": 1,
        }  # fmt: skip
        faults = [f"{name} = {getattr(self, name)}, wanted at least {n}" for name, n in least.items()
                  if getattr(self, name) < n]  # fmt: skip
        faults += [f"{name} = {getattr(self, name)}, wanted whole rows of {row} bytes"
                   for name, row in (("scratchpad", self.side), ("accumulator", 4 * self.side))
                   if row > 0 and getattr(self, name) % row]  # fmt: skip
        if self.memory not in MEMORIES:
            faults.append(f"memory = {self.memory}: {nearest(self.memory, list(MEMORIES))}")
        if faults:
            raise InputError(report(f"there is no machine {self.name!r}", wanted="a machine that can be built",
                                    found="\n".join(faults)))  # fmt: skip

    # What the compiler asks of any machine with scratchpads.

    @property
    def config(self) -> Gemmini:
        return self

    @property
    def batch(self) -> int:
        return 1

    @property
    def block_in(self) -> int:
        return self.side

    @property
    def block_out(self) -> int:
        return self.side

    @property
    def inp_dtype(self) -> str:
        return "int8"

    @property
    def wgt_dtype(self) -> str:
        return "int8"

    @property
    def acc_dtype(self) -> str:
        return "int32"

    @property
    def out_dtype(self) -> str:
        return "int8"

    @property
    def options(self) -> AluOptions:
        """The accelerator of `minitvm.machines.vta` may have an ALU with options; there is no ALU here."""
        return AluOptions()

    @property
    def adds_constants(self) -> bool:
        """Whether an instruction adds one number to all sums. Here rows of memory are added."""
        return False

    def elements(self) -> dict[str, tuple[int, ...]]:
        """The shapes of elements: a row of an image, all weights that the array holds, a row of sums."""
        return {"inp": (1, self.side), "wgt": (self.side, self.side), "acc": (1, self.side)}

    def depths(self) -> dict[str, int]:
        """How many elements fit. Images and weights share the scratchpad; each number is for all of it."""
        return {
            "inp": self.scratchpad_rows, "wgt": self.scratchpad_rows // self.side, "acc": self.accumulator_rows
        }  # fmt: skip

    @property
    def clock_mhz(self) -> int:
        return self.mhz

    @property
    def macs_per_cycle(self) -> int:
        """Multiply-adds of a cycle: the size of the array."""
        return self.side**2

    @property
    def dram(self) -> Dram:
        rate = self.bytes_per_cycle
        burst = max(256 // rate, 1) * rate
        return Dram(self.memory, rate, MEMORIES[self.memory].latency, burst, self.outstanding)

    @property
    def scratchpad_rows(self) -> int:
        return self.scratchpad // self.side

    @property
    def accumulator_rows(self) -> int:
        return self.accumulator // (4 * self.side)

    @property
    def drain(self) -> int:
        """Cycles from a row's last step into the array to its sums in the accumulator."""
        return self.latency or 2 * self.side
