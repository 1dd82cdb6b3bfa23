"""Pictures to show to a network."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def picture(shape: Sequence[int], generator: np.random.Generator) -> np.ndarray:
    """A float32 array [..., height, width] of about unit variance: coarse patches of colour under fine noise.

    All white noise looks alike to a network that averages over the picture.
    """
    *outer, height, width = shape
    patches = generator.standard_normal((*outer, -(-height // 32), -(-width // 32)), dtype=np.float32)
    noise = generator.standard_normal((*outer, height, width), dtype=np.float32)
    coarse = patches.repeat(32, axis=-2).repeat(32, axis=-1)[..., :height, :width]
    return np.ascontiguousarray(coarse + np.float32(0.25) * noise)
