"""The error function, for float32 and float64."""

from __future__ import annotations

from .exponentials import exp_normal
from .float_formats import fma, horner, where
from .lanes import F32, Value

# In float32, erf x = x p(s) with s from -1 to 1 where x^2 runs from 0 to the square of `_END`; beyond, it rounds to 1.
_F32 = (
    0.36073681712150574, -0.18010865151882172, 0.13408437371253967, -0.10917811840772629, 0.09060011804103851,
    -0.07403311133384705, 0.058375559747219086, -0.043367788195610046, 0.029759898781776428, -0.020176870748400688,
    0.014113573357462883, -0.007407058030366898, 0.001993115758523345, -0.0015727364225313067, 0.002077128505334258,
    -0.0007942196098156273,
)  # fmt: skip
_END = 3.92
# In float64, erf x = x + x p(x^2) below 0.9375; -ln(erfc x) = q(x - 5/4) above
_NEAR_F64 = (
    0.1283791670955126, -0.37612638903183754, 0.11283791670955064, -0.026866170645115553, 0.005223977625237277,
    -0.0008548327007525145, 0.0001205533218661224, -1.4925623717621288e-05, 1.6461502109820644e-06,
    -1.6356148003790016e-07, 1.4702785935402497e-08, -1.1554847737100326e-09, 6.293950944775606e-11,
)  # fmt: skip
_FAR_F64 = (
    2.5626536619221256, 3.0677239416692395, 0.8708101640587786, 0.032687008682627715, -0.007791961611589491,
    0.0016069509617111207, -0.0002467839940497707, 1.0041688299326322e-05, 1.0830876240967071e-05,
    -5.166531609006557e-06, 1.445769716854163e-06, -2.508560458432342e-07, 1.6260118751961026e-09,
    1.8647719527942013e-08, -8.603713293766956e-09, 2.527635145248194e-09, -5.448694871506441e-10,
    8.658347599790163e-11, -9.644687159002458e-12, 6.718674184920492e-13, -2.1953872719295434e-14,
)  # fmt: skip


def erf(x: Value) -> Value:
    """Return the error function: in float32 within 4 ulp and an absolute error below 2e-7, in float64 within 2 ulp."""
    magnitude, square = x.intrinsic("fabs"), x * x
    if x.element is F32:
        s = fma(square, 2 / _END**2, -1.0)
        return where(magnitude > _END, x.constant(1.0).intrinsic("copysign", x), x * horner(s, _F32))
    near = fma(x, horner(square, _NEAR_F64), x)
    exponent = horner(where(magnitude > 6.0, 6.0, magnitude) - 1.25, _FAR_F64)
    far = (1.0 - exp_normal(-exponent)).intrinsic("copysign", x)
    return where(magnitude < 0.9375, near, where(x.is_nan(), x, far))
