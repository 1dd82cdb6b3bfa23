"""The names that generated kernel source may use: the contract between `codegen.numba_*` and the runtimes.

A kernel is the text of a Python module such as

    from minitvm.machines.simd.vectors.simd import f32x16, fma, load, pointer_f32, scalar_i32, store

    def scale(args, thread, threads):            # args: int64 words; thread and threads: int64
        A = pointer_f32(args[0])                 # a buffer parameter is an address
        B = pointer_f32(args[1])
        n = scalar_i32(args[2])                  # a scalar parameter: integers by value, floats by their bits
        for i in range(n * thread // threads, n * (thread + 1) // threads):
            store(B, i * 16, fma(load(A, i * 16, 16), f32x16(2.0), f32x16(1.0)))

It imports the names that it uses from here (any of the names below; `import *` does not work, since vector names are
endless). It may call only these names, `range` with a literal step, and arithmetic; it must not allocate or raise.

**Types.** Scalars `b1 i8 i16 i32 i64 u8 u16 u32 u64 f16 f32 f64`; vectors are a scalar, `x` and a number of lanes from
1 to 64, e.g. `f32x16`; masks are `b1xN`. Each type's name is also the conversion to it: `f32(x)`, `i8(x)`, `f32x16(v)`
lane by lane, `f32x16(0.5)` for a constant in every lane. Conversions are those of NumPy's `astype` (float to integer
truncates, integers wrap, non-zero is True). `as_f32(x)` and so on reinterpret bits of the same width.

**Scalar Python operators are Numba's**, which promotes: `i32 + i32` is int64, `f32 + int` is float64, `u64 + i64` is
float64. They are right for int64 index arithmetic and for two f32 or two f64. For all else use the named operations,
which never promote, or convert the result back (`i32(a + b)`). Python literals are int64 and float64: write
`f32(0.5)`. A variable must keep one type through a function.

**Vector operators** `+ - * / // % & | ^ << >> < <= > >= == != ~` and unary `-` work lane by lane. A scalar next to a
vector is converted to its dtype and broadcast.

**Named operations**, on scalars and vectors alike (operands of one dtype; integer literals adapt):

    add sub mul neg absolute sign fma        div (integers: truncates)   truncdiv truncmod  floordiv floormod
    maximum minimum (NaN wins)               max_select min_select (a if a > b else b)
    bitand bitor bitxor invert shl shr       popcount clz ctz
    dot4_u8i8 dot4_add (a, b, c: c + dot4_u8i8(a, b))    int32 words of four bytes, a's unsigned, b's signed
    dot2_bf16(c, a, b)                       c (f32) + the products of int32 words of two bfloat16; `brain_products`
    lt le gt ge eq ne isnan isinf isfinite   -> mask (b1, b1xN)
    sqrt rsqrt floor ceil trunc rint round_away copysign
    exp exp2 exp10 expm1 log log2 log10 log1p sinh cosh tanh asinh acosh atanh sigmoid erf
    sin cos tan asin acos atan atan2 pow hypot fmod   f32, f64: 4 ulp at most, fmod exact; see `elementary`
    select(mask, a, b)                       both sides are evaluated

Integer division by zero is 0, as in NumPy. A shift by the width or more is 0 (or the sign).

**Memory.** `pointer_<t>(address)`; `A[i]` and `A[i] = x` read and write one element (no bounds, no wrap-around), and
`x` must have the element's type. `stack_<t>(n)` is an array of a literal size, 64-byte aligned, uninitialised, gone
when the kernel returns. `i` counts elements; unaligned is fine. bools are bytes 0 and 1 in memory.

    load(A, i, lanes)               store(A, i, v)
    load_masked(A, i, m[, other])   store_masked(A, i, v, m)      lanes outside m are not touched (loads: other or 0)
    load_words(A, i, n)             n int32 of four bytes each, of an array of bytes
    gather(A, iv[, m[, other]])     scatter(A, iv, v[, m])        iv: integer vector of element indices
    tile_dot_i8(A, i, rows, B, j, rows, C, k, rows)               products of tiles of bytes; `tile_products`
    lookup(A, b)                    A[b[l]] in lane l of 256 bytes, b: vector of u8; `byte_tables`
    prefetch(A, i)                  A[i] will be read soon: a hint, i may be anything
    first(n, lanes)                 the mask of the first n lanes: the tail of a loop

A strided access is `gather(A, ramp(i, stride, lanes))`.

**Lanes.** `broadcast(x, lanes)`; `ramp(base, stride, lanes)`; `shuffle(a, b, l0, l1, ...)` with literal lanes of a
followed by b; `concat(a, b, ...)`; `lanes(v, start, n)`; `extract(v, i)` or `v[i]`; `insert(v, i, x)`;
`reduce_add reduce_mul reduce_max reduce_min reduce_and reduce_or (v)`, pairwise, the same order on every machine.

Floating-point contraction is off on CPUs: `a * b + c` is rounded twice, and `fma(a, b, c)` once. Nothing is
reassociated. So a kernel's results do not depend on the compiler.
"""

from __future__ import annotations

import re
from typing import Any

from . import byte_tables, element_operations, memory, tile_products, tiles  # noqa: F401 (register operations in memory)
from .lanes import ELEMENTS, MAX_LANES

_NAMES: dict[str, Any] = {**element_operations.MARKERS, **memory.MARKERS}
_TYPE_NAME = re.compile(r"([a-z]+\d+)(?:x(\d+))?")


def names() -> list[str]:
    """Return all names except those of vector types."""
    return sorted(_NAMES)


def __getattr__(name: str) -> Any:
    if name in _NAMES:
        return _NAMES[name]
    match = _TYPE_NAME.fullmatch(name)
    if match is None or match[1] not in ELEMENTS or not 1 <= int(match[2] or 1) <= MAX_LANES:
        raise AttributeError(f"kernel source has no {name!r}")
    _NAMES[name] = memory.cast_marker(ELEMENTS[match[1]], int(match[2] or 0))
    return _NAMES[name]
