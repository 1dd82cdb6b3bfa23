"""Exercise 18: a softmax of scores that come in parts.

A row of attention is sum(exp(s[j]) * v[j]) / sum(exp(s[j])), where s[j] is the score of key j and v[j] its value, a
vector. The keys come in parts. Keep a state of fixed size, and write

    start(width)                  the state of no keys, for values of so many numbers
    add(state, scores, values)    the state with a part more: scores has shape (k,), values (k, width); k may be 0
    merge(a, b)                   the state of the keys of both; both have at least been started
    result(state)                 the row, of shape (width,)

All numbers are float64 NumPy arrays. What a state is, is up to you; `add` and `merge` return a new one, and no function
changes its arguments.

- Scores may be as large as 10000, whose exponential no float holds: take the largest score so far off first. A key
  that is alone weighs 1, even if its score is -1e100.
- A score of -inf is a key that is masked: it weighs nothing, in whatever order it comes.
- Where no key weighs anything, the row is zeros.
- There may be no NaN anywhere, and no warning of NumPy.

Check it with: minitvm lesson 18 --check
"""

from __future__ import annotations

from typing import Any

import numpy as np


def start(width: int) -> Any:
    """The state of no keys."""
    raise NotImplementedError("start, add, merge and result: the text at the top says what is wanted")


def add(state: Any, scores: np.ndarray, values: np.ndarray) -> Any:
    """The state with a part more."""
    raise NotImplementedError("start, add, merge and result: the text at the top says what is wanted")


def merge(a: Any, b: Any) -> Any:
    """The state of the keys of both."""
    raise NotImplementedError("start, add, merge and result: the text at the top says what is wanted")


def result(state: Any) -> np.ndarray:
    """The row."""
    raise NotImplementedError("start, add, merge and result: the text at the top says what is wanted")
