"""Each block format: the frontend's unpacking, the meaning in reference/, and the gguf package agree to the bit."""

from __future__ import annotations

import gguf
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minitvm.frontends.common.block_weights import packed
from minitvm.frontends.gguf.formats import FORMATS
from minitvm.reference import block_formats

BLOCKS = {number: f for number, f in FORMATS.items() if f.unpack}


def drawn(seed: int, shape: tuple[int, ...]) -> np.ndarray:
    """Bytes of blocks whose float16 numbers are finite: their exponents are never the largest one."""
    data = np.random.default_rng(seed).integers(0, 256, shape, np.uint8)
    data[..., 1::2] &= 0xBF
    return data


@pytest.mark.parametrize("number", BLOCKS)
@given(seed=st.integers(0, 2**32 - 1), columns=st.integers(1, 3), blocks=st.integers(1, 2))
def test_three_meanings(number: int, seed: int, columns: int, blocks: int) -> None:
    form = BLOCKS[number]
    raw = drawn(seed, (columns, blocks, form.nbytes))
    raw[0, 0] = 0 if seed % 3 == 0 else raw[0, 0]
    expected = block_formats.numbers(form.name, raw.tobytes()).reshape(columns, -1)
    assert form.unpack is not None
    weights = form.unpack(raw)
    assert weights.stored.max() < 1 << weights.bits
    np.testing.assert_array_equal(packed(weights.stored, weights.bits), weights.packed)
    np.testing.assert_array_equal(weights.floats(), expected)
    theirs = gguf.quants.dequantize(raw.reshape(columns, -1), gguf.GGMLQuantizationType(number))
    np.testing.assert_array_equal(theirs, expected)


def test_sizes_are_those_of_ggml() -> None:
    for number, form in FORMATS.items():
        assert gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType(number)] == (form.size, form.nbytes)
        assert gguf.GGMLQuantizationType(number).name == form.name
