"""Exercise 30: bytes whose scales are powers of two.

A byte q (int8) in units of 2^-e represents q * 2^-e. Write

    exponent(x) -> e               for a tensor of floats
    narrow(total, places) -> q     int32 sums to int8
    add(a, ea, b, eb, e) -> q      the sum of two tensors of int8

- `exponent`: find the largest e for which |x| * 2^e is at most 127.5 for all elements. Compare it with e + 1 and e + 2,
  and return the exponent with the smallest sum of squared errors. The error of an element x is x - q * 2^-e, where q is
  the nearest int8 (`np.rint` of x * 2^e, limited to -128 to 127). If two sums are equal, return the smaller e. If all
  elements are zero, return 0. (Tiny numbers are not zero.) x has at least one element.
- `narrow`: compute total * 2^-places, round it to an integer with halves up (2.5 becomes 3, and -2.5 becomes -2), and
  limit it to -128 to 127. `places` is from -16 to 40. If `places` is negative, shift to the left. Use integers, because
  a float32 cannot represent every int32. `total` may be as large as an int32 can be.
- `add`: a counts in units of 2^-ea, and b counts in units of 2^-eb. Return their sum in units of 2^-e, rounded once as
  in `narrow`. The three exponents differ by at most 8.
- No function changes its arguments.

Check it with: minitvm lesson 30 --check
"""

from __future__ import annotations

import numpy as np


def exponent(x: np.ndarray) -> int:
    """The e for which int8 in units of 2^-e are nearest to x."""
    raise NotImplementedError("exponent, narrow and add: the text at the top describes the task")


def narrow(total: np.ndarray, places: int) -> np.ndarray:
    """total * 2^-places as int8, halves up."""
    raise NotImplementedError("exponent, narrow and add: the text at the top describes the task")


def add(a: np.ndarray, ea: int, b: np.ndarray, eb: int, e: int) -> np.ndarray:
    """a * 2^-ea + b * 2^-eb in units of 2^-e, as int8."""
    raise NotImplementedError("exponent, narrow and add: the text at the top describes the task")
