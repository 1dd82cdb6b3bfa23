"""A machine in the shape of Gemmini (Genc et al., DAC 2021): a systolic array that keeps weights in place.

    config.py        what the machine is
    isa.py           its instructions, and their text
    interpreter.py   what they mean
    timing.py        how long they take
    instructions.py  what they do to one element, for `tensorize`
    schedule.py      tiles, passes, and what the machine refuses
    emitter.py       kernels as its instructions
    program.py       the runtime

What differs from `minitvm.machines.vta`: weights are preloaded into the array, images and weights share one scratchpad,
the way out shifts and cuts, and the hardware tracks hazards, so no tokens are inserted.
"""

from ...backend.parts import Backend
from ...target import Kind
from .config import Gemmini

BACKEND = Backend(
    kind="gemmini",
    machine=Kind(("gemmini",), Gemmini, Gemmini, "gemmini"),
    operators="minitvm.machines.scratchpad.operators",
    products="minitvm.machines.scratchpad.element_layout:products",
    layouts="minitvm.machines.scratchpad.element_layout:layouts",
    rules=f"{__name__}.schedule:rules",
    passes=f"{__name__}.schedule:PASSES",
    intrinsics="minitvm.machines.scratchpad.instruction_set:register_named",
    instructions=f"{__name__}.instructions:SET",
    language="gemmini-asm",
    generate=f"{__name__}.emitter:generate",
    program=f"{__name__}.program:GemminiProgram",
    hosted=f"{__name__}.program:hosted",
    timed=f"{__name__}.program:timed",
    refusal=f"{__name__}.schedule:refusal",
)
