"""Compares the learner's unpacking with the definition, weight by weight, and runs the learner's kernel."""

from __future__ import annotations

from types import ModuleType

import numpy as np
from hypothesis import strategies as st

from lessons.grading import attempt, cases, require
from minitvm import reference
from minitvm.errors import MinitvmError
from minitvm.tir.nodes import PrimFunc

SCALES = (1.0, 0.5, -2.0, 0.1, 3e-5)
PARAMETERS = "nibbles int32 [n, 4], fifths int32 [n], row int8 [n, 32], sums int32 [n]"
Block = tuple[float, int, list[int]]  # the scale, the fifth bits, and the bytes with nibbles


@st.composite
def stored(draw: st.DrawFn) -> Block:
    """A block of which most bytes are 0."""
    fifths = draw(st.one_of(st.integers(0, 31).map(lambda k: 1 << k), st.integers(0, 2**32 - 1), st.just(0)))
    nibbles = [0] * 16
    for place, byte in draw(st.dictionaries(st.integers(0, 15), st.integers(0, 255), max_size=4)).items():
        nibbles[place] = byte
    return draw(st.sampled_from(SCALES)), fifths, nibbles


def bytes_of(block: Block) -> bytes:
    """The 22 bytes of a block."""
    scale, fifths, nibbles = block
    return np.array(scale, "<f2").tobytes() + fifths.to_bytes(4, "little") + bytes(nibbles)


def parts(block: Block, k: int) -> tuple[int, int]:
    """The lower four bits and the fifth bit of weight k."""
    _, fifths, nibbles = block
    return nibbles[k % 16] >> 4 * (k // 16) & 15, fifths >> k & 1


def origin(block: Block, k: int) -> str:
    """Where the bits of weight k come from, in words."""
    low, fifth = parts(block, k)
    half = "high" if k > 15 else "low"
    return (
        f"weight {k}: the {half} nibble of byte {6 + k % 16} is {low}, and bit {k} of the fifth bits is {fifth}, so q "
        f"is {low + 16 * fifth}, and q - 16 is {low + 16 * fifth - 16}"
    )


def check(module: ModuleType) -> None:
    """Raises AssertionError with a block of which a weight, or the sum of products, is wrong."""

    @cases(150, blocks=st.lists(stored(), min_size=1, max_size=2))
    def every_weight_is_unpacked(blocks: list[Block]) -> None:
        data = np.array([list(bytes_of(block)) for block in blocks], "uint8")
        call = f"unpack of {' and '.join(bytes_of(block).hex(' ') for block in blocks)}"
        weights = attempt(call, module.unpack, data)
        kind = f"{weights.dtype} of shape {weights.shape}" if isinstance(weights, np.ndarray) else repr(weights)
        wanted = f"float32 of shape {(len(blocks), 32)}"
        require(kind == wanted, f"{call} returned {kind}, wanted {wanted}")
        for number, block in enumerate(blocks):
            scale = np.float32(np.float16(block[0]))
            for k in range(32):
                low, fifth = parts(block, k)
                right = scale * np.float32(low + 16 * fifth - 16)
                message = f"{call}: weight {k} of block {number} is {weights[number, k]:.8g}, wanted {right:.8g}"
                require(weights[number, k] == right, f"{message}\n{origin(block, k)}; the scale is {scale:.8g}")

    rows = st.dictionaries(st.integers(0, 31), st.integers(-127, 127), min_size=1, max_size=2)

    @cases(60, blocks=st.lists(st.tuples(stored(), rows), min_size=1, max_size=2))
    def the_kernel_computes_the_sums(blocks: list[tuple[Block, dict[int, int]]]) -> None:
        n = len(blocks)
        program = attempt(f"kernel({n})", module.kernel, n)
        require(isinstance(program, PrimFunc), f"kernel({n}) returned {program!r}, wanted a program (T.prim_func)")
        data = np.frombuffer(b"".join(bytes_of(block) for block, _ in blocks), "uint8").reshape(n, 22)
        nibbles = np.ascontiguousarray(data[:, 6:]).view("<i4")
        fifths = np.ascontiguousarray(data[:, 2:6]).view("<i4")[:, 0].copy()
        row, sums = np.zeros((n, 32), "int8"), np.full(n, 1000, "int32")
        for number, (_, entries) in enumerate(blocks):
            row[number, list(entries)] = list(entries.values())
        try:
            reference.tir.run(program, nibbles, fifths, row, sums)
        except MinitvmError as error:
            raise AssertionError(f"kernel({n}) does not run with {PARAMETERS}:\n{error}") from None
        for number, (block, entries) in enumerate(blocks):
            products = [(sum(parts(block, k)[j] * (1, 16)[j] for j in (0, 1)) - 16) * x for k, x in entries.items()]
            shown = ", ".join(f"row[{number}, {k}] = {x}" for k, x in entries.items())
            message = (
                f"kernel({n}) for the block {bytes_of(block).hex(' ')}, where {shown} and the rest of the row is 0:\n"
                f"sums[{number}] was 1000 before, and is {sums[number]}, wanted {sum(products)}"
            )
            require(sums[number] == sum(products), "\n".join([message, *(origin(block, k) for k in entries)]))
