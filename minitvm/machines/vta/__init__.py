"""The simulated tensor accelerator: load, compute and store run at the same time and meet only through tokens.

    config         what the machine is: array, scratchpads, fields, queues, memory
    isa            the instructions and micro-ops, and what a program is
    encoding       instructions of 128 bits, micro-ops of 32
    assembler      text -> program
    disassembler   program or binary -> text
    footprint      which elements of which memory an instruction touches
    ordering       which instructions tokens put in order; deadlocks
    verifier       the rules of a program that the machine can run
    timing         when each instruction runs, cycle by cycle
    stream         a program that is written instruction by instruction, with tokens
    layers         matrix products and convolutions as streams, written by hand
    viz            the timeline as a page and as a Chrome trace

`reference/accel.py` says what an instruction means.
"""

from ...backend.parts import Backend
from .machine import KIND

BACKEND = Backend(
    kind="accel",
    machine=KIND,
    operators="minitvm.machines.scratchpad.operators",
    products="minitvm.machines.scratchpad.element_layout:products",
    layouts="minitvm.machines.scratchpad.element_layout:layouts",
    rules="minitvm.machines.vta.strategy:rules",
    passes="minitvm.machines.vta.strategy:PASSES",
    intrinsics="minitvm.machines.scratchpad.instruction_set:register_named",
    instructions="minitvm.machines.scratchpad.instruction_set:SET",
    language="accel-asm",
    generate="minitvm.machines.vta.emitter:generate",
    assembly="minitvm.machines.vta.emitter:assembly",
    program="minitvm.machines.vta.program:AccelProgram",
    hosted="minitvm.machines.vta.program:hosted",
    timed="minitvm.machines.vta.program:timed",
    refusal="minitvm.machines.vta.strategy:refusal",
)

__all__ = [
    "BACKEND", "assembler", "config", "disassembler", "encoding", "footprint", "isa", "layers", "lower_bounds",
    "ordering", "stream", "timing", "tokens", "verifier",
]  # fmt: skip
