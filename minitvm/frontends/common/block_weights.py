"""Products with weights of 4 or 8 bits in blocks along the sum, each block with a separate scale.

    weight = scale * (stored - offset)        one offset for all blocks, or one for each: MatMulNBits, Q4_0, Q8_0
    weight = scale * stored + minimum         a minimum for each block: Q4_1, Q4_K

The product is computed on bytes: each row of the data is quantised in blocks of the same size, to int8 with the
smallest scale that covers the block. So a weight is read from memory once, in the bits in which it is stored.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...executable.alignment import frozen
from ...topi.shapes import product
from .conversion import Conversion
from .operand import Operand

_LANES = 16


@dataclass(frozen=True, slots=True)
class BlockWeights:
    """A matrix [columns, depth] of stored integers.

    `stored` is uint8 [columns, blocks, block], with values below 2^bits; `bits` is 4 or 8. `scale` is float32 [columns,
    blocks], and so is `minimum` if the format has minima. Otherwise `offset` is subtracted from the integers: a number,
    or float32 [columns, blocks].
    """

    bits: int
    stored: np.ndarray
    scale: np.ndarray
    offset: float | np.ndarray = 0.0
    minimum: np.ndarray | None = None

    @property
    def columns(self) -> int:
        return int(self.stored.shape[0])

    @property
    def depth(self) -> int:
        return int(self.stored.shape[1] * self.stored.shape[2])

    @property
    def fits_bytes(self) -> bool:
        """Whether a block fills whole words, so that `product_in_bytes` can read it."""
        return bool(self.stored.shape[2] % (32 // self.bits) == 0)

    def rows(self, order: np.ndarray) -> BlockWeights:
        """Return the matrix whose column k is column `order[k]` of this one."""
        offset = self.offset[order] if isinstance(self.offset, np.ndarray) else self.offset
        minimum = None if self.minimum is None else self.minimum[order]
        return BlockWeights(self.bits, self.stored[order], self.scale[order], offset, minimum)

    def floats(self) -> np.ndarray:
        """Return the weights as float32 [columns, depth]."""
        numbers, scale = self.stored.astype(np.float32), self.scale[..., None]
        if self.minimum is not None:
            numbers = numbers * scale + self.minimum[..., None]
        else:
            numbers = (numbers - np.asarray(self.offset, np.float32)[..., None]) * scale
        return np.ascontiguousarray(numbers.reshape(self.columns, self.depth))


@dataclass(frozen=True, slots=True)
class PackedWeights:
    """`BlockWeights` in the layout of the kernel, for 16 columns at a time; programs share these arrays.

    `arrays` has the words int32 [columns / 16, blocks, words, 16], the scales float32 [columns / 16, blocks, 16], and
    the minima in the same shape. Without minima, every integer has the same `offset`.
    """

    bits: int
    columns: int
    block: int
    offset: float
    arrays: tuple[np.ndarray, ...]

    @staticmethod
    def of(weights: BlockWeights) -> PackedWeights:
        arrays = [_words(weights.stored, weights.bits), _panels(weights.scale)]
        offset = 0.0
        if weights.minimum is not None:
            arrays.append(_panels(weights.minimum))
        elif isinstance(weights.offset, np.ndarray):
            arrays.append(_panels(-weights.offset * weights.scale))
        else:
            offset = weights.offset
        return PackedWeights(weights.bits, weights.columns, weights.stored.shape[2], offset, tuple(map(frozen, arrays)))


def product_in_bytes(n: Conversion, x: Operand, weights: PackedWeights) -> Operand:
    """Return x [.., depth] times the transposed weights, as float32 [.., columns].

    The only rounding beside that of float32 is that of x to 255 steps in each block.
    """
    blocks, around = weights.arrays[0].shape[1], x.shape[:-1]
    # All rows are along one axis, so that a weight is read once for several of them.
    rows = (product(around),) if len(around) > 1 and around[0] != 1 else around
    split = n.reshape(x, (*rows, blocks, weights.block))
    largest = n.op("max", n.op("abs", split), axis=(-1,), keepdims=True)
    step = n.op("divide", largest, 127.0)
    step = n.op("where", n.op("equal", step, 0.0), np.array(1, "float32"), step)
    rounded = n.op("round", n.op("divide", split, step))
    # A step that is not a normal number is rounded so much that a quotient can be more than 127.
    rounded = n.cast(n.op("clip", rounded, a_min=-127.0, a_max=127.0), "int8")
    total = n.cast(n.op("sum", n.cast(rounded, "int32"), axis=(-1,)), "float32")
    step = n.op("squeeze", step, axis=(-1,))
    shift = n.op("multiply", total, step)
    if len(weights.arrays) == 2:
        shift = n.op("multiply", shift, -weights.offset)
    result: Operand = n.op(
        "qnn.contrib_dense_of_blocks", n.op("layout.words", rounded), step, shift, *weights.arrays, bits=weights.bits,
        units=weights.columns,
    )  # fmt: skip
    return result if rows == around else n.reshape(result, (*around, weights.columns))


def _panels(parameters: np.ndarray) -> np.ndarray:
    """Return [columns, blocks] as [columns / x, blocks, x]."""
    full = np.pad(parameters, [(0, -parameters.shape[0] % _LANES), (0, 0)])
    return np.ascontiguousarray(full.reshape(-1, _LANES, full.shape[1]).transpose(0, 2, 1))


def _words(stored: np.ndarray, bits: int) -> np.ndarray:
    """Return weights [columns, blocks, block] as words [columns / x, blocks, words, x]."""
    full = np.pad(stored, [(0, -stored.shape[0] % _LANES), (0, 0), (0, 0)])
    if bits == 4:  # of eight neighbours four are low nibbles, and four high ones
        eight = full.reshape(*full.shape[:2], -1, 2, 4)
        full = eight[..., 0, :] | eight[..., 1, :] << 4
    words = np.ascontiguousarray(full.reshape(*full.shape[:2], -1)).view(np.int32)
    return np.ascontiguousarray(words.reshape(-1, _LANES, *words.shape[1:]).transpose(0, 2, 3, 1))
