"""Elementary functions over `Value`s, for scalars and vectors of every float dtype.

Each function has one definition for float32 and float64, in lanes. Floats of 16 bits are computed in float32 and
rounded once. The stated errors are measured in tests/machines/simd/vectors/test_elementary.py over the whole range.
Coefficients were fitted for these files by weighted least squares on Chebyshev nodes in extended precision; argument
reductions follow Muller, "Elementary Functions", chapters 5, 11 and 12. GPUs, whose threads have one lane each, call
their own library.
"""

from __future__ import annotations

from collections.abc import Callable

from . import circular, division, error_function, exponentials, logarithms, powers
from .float_formats import has_device_library, in_float32, libm
from .lanes import F32, Value


def sign(x: Value) -> Value:
    if x.kind == "u":
        return (x == 0).select(x, x.constant(1))
    result = (x > 0).select(x.constant(1), (x < 0).select(x.constant(-1), x.constant(0)))
    return x.is_nan().select(x, result) if x.kind == "f" else result


def _in_lanes(name: str, function: Callable[..., Value]) -> Callable[..., Value]:
    """Return a function that is computed in lanes. A GPU calls its own library instead, except for functions that are
    fast in float32.
    """
    library = libm(name)

    def apply(*xs: Value) -> Value:
        own = has_device_library(xs[0]) and (name not in _QUICK or xs[0].element is not F32)
        return library(*xs) if own else function(*xs)

    apply.__doc__ = function.__doc__
    return in_float32(apply)


_QUICK = ("exp", "log", "log1p", "tanh", "erf", "sin", "cos")  # these are as quick on a GPU as its library's

UNARY: dict[str, Callable[..., Value]] = {
    "sigmoid": in_float32(exponentials.sigmoid),
    "erf": _in_lanes("erf", error_function.erf),
    **{
        function.__name__: _in_lanes(function.__name__, function)
        for function in (
            exponentials.exp, exponentials.exp2, exponentials.exp10, exponentials.expm1, exponentials.sinh,
            exponentials.cosh, exponentials.tanh, logarithms.log, logarithms.log2, logarithms.log10, logarithms.log1p,
            logarithms.asinh, logarithms.acosh, logarithms.atanh, circular.sin, circular.cos, circular.tan,
            circular.asin, circular.acos, circular.atan,
        )
    },
}  # fmt: skip

BINARY: dict[str, Callable[..., Value]] = {
    "pow": _in_lanes("pow", powers.power),
    "atan2": _in_lanes("atan2", circular.atan2),
    "hypot": _in_lanes("hypot", powers.hypot),
    "fmod": division.fmod,
}
