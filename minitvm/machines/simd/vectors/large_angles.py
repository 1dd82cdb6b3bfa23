"""The remainder of a large angle by pi/2, by arithmetic on integers (Payne and Hanek, 1983).

The product of an angle and 2/pi is needed modulo 4 only. Bits of 2/pi that contribute multiples of 4 are left out. So
of the more than 1000 bits of 2/pi that all angles need together, each angle is multiplied by 192.
"""

from __future__ import annotations

from itertools import pairwise

from .float_formats import fma, format_of, where
from .lanes import F32, F64, I32, I64, U64, Value

_TWO_OVER_PI = (  # its bits after the point
    "a2f9836e4e441529fc2757d1f534ddc0db6295993c439041fe5163abdebbc561b7246e3a424d"
    "d2e006492eea09d1921cfe1deb1cb129a73ee88235f52ebb4484e99c7026b45f7e413991d639"
    "835339f49c845f8bbdf9283b1ff897ffde05980fef2f118b5a0a6d1f6d367ecf27cb09b74f46"
    "3f669e5fea2d7527bac7ebe5f17b3d0739f78a5292ea6bfb5fb11f8d5d0856033046fc7b6bab"
)  # fmt: skip
_WORDS = (0, *(int(_TWO_OVER_PI[k : k + 16], 16) for k in range(0, len(_TWO_OVER_PI), 16)))  # the first is before it
_WINDOW = 3  # words of 64 bits that a mantissa is multiplied by
_LOW = (1 << 32) - 1
HALF_PI = (1.5707963267948966, 6.123233995736766e-17, -1.4973849048591698e-33)  # their sum


def reduced_if_large(x: Value) -> tuple[Value, Value]:
    """Return (r, an integer whose low bits are those of n) with x = n pi/2 + r and |r| <= pi/4, for 1 <= |x| < inf.

    The error of r is below its last place, in float32 and in float64.
    """
    bits = x.cast(F64).bitcast(U64)
    exponent = (bits >> 52) & 0x7FF
    mantissa = (bits & ((1 << 52) - 1)) | (1 << 52)
    high, low = _product(mantissa, _window(exponent - 1013, format_of(x).bias + 10))
    # `high` and `low` are |x| 2/pi modulo 4, the point after the second bit. The fraction is rounded to the nearest
    # integer, and becomes a sign and a magnitude. The complement of `low` is its negative but for the last bit of 126;
    # no fraction of a float64 is so small that this matters.
    fraction = ((high << 2) | (low >> 62)).signed()
    down = fraction >> 63
    quarter = (high >> 62).signed() - down
    above, below = (fraction ^ down).unsigned(), (low << 2) ^ down.unsigned()
    first, second = _float(above >> 32) * 2.0**-32, _float(above & _LOW) * 2.0**-64
    total = first + second
    rest = (second - (total - first)) + _float(below >> 11) * 2.0**-117
    whole = total + rest
    rest = rest - (whole - total)
    r = fma(whole, HALF_PI[0], fma(whole, HALF_PI[1], rest * HALF_PI[0]))
    behind = bits.signed() < 0
    r = where(behind == (down < 0), r, -r)
    quarter = where(behind, -quarter, quarter)
    return (r.cast(F32), quarter.cast(I32)) if x.element is F32 else (r, quarter)


def _float(x: Value) -> Value:
    """Convert an integer below 2^53, exactly."""
    return x.cast(I64).cast(F64)


def _window(place: Value, most: int) -> list[Value]:
    """Return three words of the bits of 2/pi that begin `place` bits after those of a word 0, which is 0.

    `place` is at most `most`. The words are shifted by 2^k words at a time, because lanes differ in their place.
    """
    last = most // 64
    words = [place.constant(w) for w in (*_WORDS, 0)[: last + _WINDOW + 1]]
    for k in reversed(range(last.bit_length())):
        step = 1 << k
        moved = ((place >> (6 + k)) & 1) != 0
        needed = min(len(words), _WINDOW + step)
        words = [moved.select(words[j + step], words[j]) if j + step < len(words) else words[j] for j in range(needed)]
    shift = place & 63
    return [(a << shift) | (b >> (64 - shift)) for a, b in pairwise(words)]


def _product(mantissa: Value, window: list[Value]) -> tuple[Value, Value]:
    """Return the two most significant words of `mantissa * window` modulo 2^192; the mantissa has at most 64 bits."""
    factors = [mantissa & _LOW, mantissa >> 32]
    digits = [digit for word in reversed(window) for digit in (word & _LOW, word >> 32)]
    columns: list[list[Value]] = [[] for _ in digits]  # the terms that count 2^(32 k)
    for i, factor in enumerate(factors):
        for j, digit in enumerate(digits[: len(digits) - i]):
            term = factor * digit
            if i + j > 0:  # alone, the lower half has no carry
                columns[i + j].append(term & _LOW)
            if i + j + 1 < len(digits):
                columns[i + j + 1].append(term >> 32)
    totals: list[Value] = []
    for first, *others in columns[1:]:
        carry = [totals[-1] >> 32] if totals else []
        totals.append(sum([*others, *carry], first))
    digit_2, digit_3, digit_4, digit_5 = totals[1:]
    return (digit_5 << 32) | (digit_4 & _LOW), (digit_3 << 32) | (digit_2 & _LOW)
