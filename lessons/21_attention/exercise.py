"""Exercise 21: a softmax of scores that come in parts.

A row of attention is sum(exp(s[j]) * v[j]) / sum(exp(s[j])), where s[j] is the score of key j, and v[j] is the value of
key j, a vector. You do not get all keys at once, but in several parts. Keep a state of fixed size, and write

    start(width)                  the state before any key, for values of `width` numbers
    add(state, scores, values)    the state after one more part; scores has shape (k,), values has shape (k, width), and
                                  k may be 0
    merge(a, b)                   the state of all keys of the two states a and b
    result(state)                 the row, of shape (width,)

All numbers are in float64 NumPy arrays. You decide what a state consists of. `add` and `merge` return a new state, and
no function changes its arguments.

- Scores may be as large as 10000, and exp(10000) is too large for any float. So subtract the largest score so far
  before you use exp. If there is only one key, its weight is 1, even if its score is -1e100.
- A key with the score -inf is masked: its weight is 0, whether it comes first or later.
- If all keys have the weight 0, or there are no keys, the row is zeros.
- The result must not contain NaN, and NumPy must not print a warning.

Check it with: minitvm lesson 21 --check
"""

from __future__ import annotations

from typing import Any

import numpy as np


def start(width: int) -> Any:
    """The state before any key."""
    raise NotImplementedError("start, add, merge and result: the text at the top describes the task")


def add(state: Any, scores: np.ndarray, values: np.ndarray) -> Any:
    """The state after one more part."""
    raise NotImplementedError("start, add, merge and result: the text at the top describes the task")


def merge(a: Any, b: Any) -> Any:
    """The state of all keys of a and b."""
    raise NotImplementedError("start, add, merge and result: the text at the top describes the task")


def result(state: Any) -> np.ndarray:
    """The row."""
    raise NotImplementedError("start, add, merge and result: the text at the top describes the task")
