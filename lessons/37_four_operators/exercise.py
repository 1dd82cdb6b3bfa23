"""Exercise 37: rotary positions, in the forms of real models.

Write

    rotate(x, start, base, rotated, interleaved) -> array

which turns queries or keys by the positions of their tokens.

- x is float32 [heads, length, width]. In each head, row t belongs to the token at position start + t.
- In each row, the first `rotated` features are rotated. `rotated` is even, at least 2 and at most the width. The other
  features stay as they are.
- The rotated features form rotated / 2 pairs. With `interleaved`, pair i consists of the neighbours 2 i and 2 i + 1.
  Otherwise the first features of all pairs come first: pair i consists of the features i and i + rotated / 2.
- At position p, pair i is turned by the angle p * base ** (-2 * i / rotated), in radians. A pair (a, b) becomes
  (a cos - b sin, a sin + b cos). Positions may be large, so compute the angles in float64.
- The result is float32, and has the shape of x. x itself does not change.

Files in the format GGUF store models with interleaved pairs (architecture "llama"), and Hugging Face stores the same
models with pairs in halves.

Check it with: minitvm lesson 37 --check
"""

from __future__ import annotations

import numpy as np


def rotate(x: np.ndarray, start: int, base: float, rotated: int, interleaved: bool) -> np.ndarray:
    """Turn each pair of features of x [heads, length, width] by the position of its row."""
    raise NotImplementedError("rotate: the text at the top describes the task")
