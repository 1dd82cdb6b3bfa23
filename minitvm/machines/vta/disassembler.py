"""Program or binary -> text that the assembler reads back to the same program."""

from __future__ import annotations

from dataclasses import replace

from .config import AccelConfig
from .encoding import decode_program
from .isa import DramBuffer, Instruction, Program, Transfer


def disassemble(program: Program, config: AccelConfig) -> str:
    """The text of a program; a transfer names the buffer in which it begins."""
    lines = []
    for buffer in program.buffers:
        lines.append(str(buffer))
        lines += [f"    {op}" for op in buffer.uops]
    lines += [instruction_text(one, program.buffers, config) for one in program.instructions]
    return "\n".join(lines) + "\n"


def disassemble_binary(data: bytes, config: AccelConfig) -> str:
    """The text of a binary of instructions. Raises InputError where a number is not an instruction."""
    return disassemble(Program((), decode_program(data, config)), config)


def instruction_text(instruction: Instruction, buffers: tuple[DramBuffer, ...], config: AccelConfig) -> str:
    """The text of one instruction: `dram=x+4` for a place in x."""
    if not isinstance(instruction, Transfer):
        return str(instruction)
    size = config.element_bytes(instruction.memory)
    for buffer in buffers:
        first, beside = divmod(buffer.address, size)
        offset = instruction.dram - first
        if buffer.kind is instruction.memory and not beside and 0 <= offset < buffer.count:
            place = f"{buffer.name}+{offset}" if offset else buffer.name
            # The number is printed once in the whole text, so the text with another number shows where it stands.
            before, _, behind = str(replace(instruction, dram=0)).partition(" dram=0 ")
            return f"{before} dram={place} {behind}"
    return str(instruction)
