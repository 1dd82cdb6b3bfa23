"""Products with weights of 4, 5, 6 or 8 bits in blocks along the sum, each block with a separate scale.

    weight = scale * (stored - offset)        one offset for all blocks, or one for each: MatMulNBits, Q4_0, Q8_0
    weight = scale * stored + minimum         a minimum for each block: Q4_1, Q4_K

The product is computed on bytes: each row of the data is quantised in blocks of the same size, to int8 with the
smallest scale that covers the block. So a weight is read from memory once, in the bits in which it is stored.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ...executable.alignment import frozen
from ...topi.shapes import product
from .conversion import Conversion
from .operand import Operand

_LANES = 16
_WORD = 4  # bytes


@dataclass(frozen=True, slots=True)
class BlockNumbers:
    """A number for each block: `numbers` [columns, blocks], times a float16 `unit` [columns, blocks / n] that n blocks
    share, if there is one.
    """

    numbers: np.ndarray
    unit: np.ndarray | None = None

    @property
    def arrays(self) -> list[np.ndarray]:
        return [self.numbers] if self.unit is None else [self.numbers, self.unit]

    def floats(self) -> np.ndarray:
        """Return the numbers as float32. The product of a float16 and a byte is exact."""
        numbers: np.ndarray = self.numbers.astype(np.float32)
        if self.unit is None:
            return numbers
        return numbers * np.repeat(self.unit, numbers.shape[1] // self.unit.shape[1], axis=1).astype(np.float32)

    def map(self, change: Callable[[np.ndarray], np.ndarray]) -> BlockNumbers:
        """Return the numbers and their unit after a change of both arrays."""
        return BlockNumbers(change(self.numbers), None if self.unit is None else change(self.unit))


@dataclass(frozen=True, slots=True)
class BlockWeights:
    """A matrix [columns, depth] of stored integers of `bits` 4, 5, 6 or 8.

    `packed` is uint8 [columns, blocks, block * bits / 8]. With 8 bits, it holds the integers; otherwise first their
    lower four bits, and then the others. Byte k has integer k of the block in its low nibble, and the integer k + block
    / 2 in its high one. The other bits of four neighbours are in neighbouring bytes, which have room for 8 or 4 times
    four neighbours, from the lowest bit on.

    `scale` has a number for each block, and so has `minimum` if the format has minima. Otherwise `offset` is subtracted
    from the integers.
    """

    bits: int
    packed: np.ndarray
    scale: BlockNumbers
    offset: int = 0
    minimum: BlockNumbers | None = None

    @property
    def columns(self) -> int:
        return int(self.packed.shape[0])

    @property
    def depth(self) -> int:
        return int(self.packed.shape[1] * self.block)

    @property
    def block(self) -> int:
        return int(self.packed.shape[2] * 8 // self.bits)

    @property
    def stored(self) -> np.ndarray:
        """The integers, uint8 [columns, blocks, block]."""
        if self.bits == 8:
            return self.packed
        nibbles = self.packed[..., : self.block // 2]
        low = np.concatenate([nibbles & 15, nibbles >> 4], axis=-1)
        if self.bits == 4:
            return low
        rest = self.bits - 4
        upper = self.packed[..., self.block // 2 :].reshape(*low.shape[:2], -1, 1, _WORD)
        return low | (upper >> _shifts(rest) & (1 << rest) - 1).reshape(low.shape) << 4

    def rows(self, order: np.ndarray) -> BlockWeights:
        """Return the matrix whose column k is column `order[k]` of this one."""

        def ordered(array: np.ndarray) -> np.ndarray:
            rows: np.ndarray = array[order]
            return rows

        minimum = None if self.minimum is None else self.minimum.map(ordered)
        return BlockWeights(self.bits, ordered(self.packed), self.scale.map(ordered), self.offset, minimum)

    def floats(self) -> np.ndarray:
        """Return the weights as float32 [columns, depth]."""
        if self.minimum is None:
            return floats(self.stored, self.scale.floats(), offset=self.offset)
        return floats(self.stored, self.scale.floats(), self.minimum.floats())


def fits_words(bits: int, block: int) -> bool:
    """Return whether the integers of a block fill whole words of the kernel, so that `packed` can hold them."""
    return block % {4: 8, 5: 32, 6: 16, 8: 4}[bits] == 0


def packed(stored: np.ndarray, bits: int) -> np.ndarray:
    """Return integers [columns, blocks, block] below 2^bits as `BlockWeights` holds them."""
    if bits == 8:
        return stored
    first, second = np.split(stored, 2, axis=-1)
    nibbles = first & 15 | second << 4
    if bits == 4:
        return nibbles
    words = stored.reshape(*stored.shape[:2], -1, 8 // (bits - 4), _WORD)
    others = np.bitwise_or.reduce(words >> 4 << _shifts(bits - 4), axis=-2)
    return np.concatenate([nibbles, others.reshape(*stored.shape[:2], -1)], axis=-1)


def _shifts(rest: int) -> np.ndarray:
    return np.arange(0, 8, rest, dtype=np.uint8)[:, None]


def floats(
    stored: np.ndarray, scale: np.ndarray, minimum: np.ndarray | None = None, offset: float | np.ndarray = 0
) -> np.ndarray:
    """Return stored integers [columns, blocks, block] as float32 [columns, depth]. The other arrays are float32
    [columns, blocks].
    """
    numbers = stored.astype(np.float32)
    if minimum is not None:
        numbers = numbers * scale[..., None] + minimum[..., None]
    else:
        numbers = (numbers - np.asarray(offset, np.float32)[..., None]) * scale[..., None]
    return np.ascontiguousarray(numbers.reshape(len(numbers), -1))


@dataclass(frozen=True, slots=True)
class PackedWeights:
    """`BlockWeights` in the layout of the kernel, for 16 columns at a time; programs share these arrays.

    `arrays` has the words int32 [columns / 16, blocks, words, 16], the scales [columns / 16, blocks, 16], the minima,
    if there are any, and then the units of both, if they have units. Without minima, every integer has the same
    `offset`.
    """

    bits: int
    columns: int
    block: int
    offset: int
    has_minima: bool
    arrays: tuple[np.ndarray, ...]

    @staticmethod
    def of(weights: BlockWeights) -> PackedWeights:
        kinds = [weights.scale] if weights.minimum is None else [weights.scale, weights.minimum]
        parameters = [_panels(array) for part in zip(*(kind.arrays for kind in kinds), strict=True) for array in part]
        arrays = (_words(weights.packed), *parameters)
        has_minima = weights.minimum is not None
        return PackedWeights(weights.bits, weights.columns, weights.block, weights.offset, has_minima, arrays)


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
    total = n.op("sum", n.cast(rounded, "int32"), axis=(-1,))
    step = n.op("squeeze", step, axis=(-1,))
    if weights.has_minima:
        shift = n.op("multiply", n.cast(total, "float32"), step)
    else:
        shift = n.op("multiply", total, -weights.offset)
    result: Operand = n.op(
        "qnn.contrib_dense_of_blocks", n.op("layout.words", rounded), step, shift, *weights.arrays, bits=weights.bits,
        units=weights.columns,
    )  # fmt: skip
    return result if rows == around else n.reshape(result, (*around, weights.columns))


def _panels(numbers: np.ndarray) -> np.ndarray:
    """Return [columns, blocks] as [columns / x, blocks, x]."""
    full = _padded(numbers)
    return frozen(full.reshape(-1, _LANES, full.shape[1]).transpose(0, 2, 1))


def _words(data: np.ndarray) -> np.ndarray:
    """Return bytes [columns, blocks, n] as words [columns / x, blocks, n / 4, x]."""
    full = _padded(data)
    words = np.ascontiguousarray(full).view(np.int32)
    return frozen(words.reshape(-1, _LANES, *words.shape[1:]).transpose(0, 2, 3, 1))


def _padded(array: np.ndarray) -> np.ndarray:
    """Return an array with zeros as further columns, up to a whole panel."""
    missing = -len(array) % _LANES
    return np.pad(array, [(0, missing), *[(0, 0)] * (array.ndim - 1)]) if missing else array
