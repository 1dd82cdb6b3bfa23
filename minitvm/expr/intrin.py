"""The scalar intrinsics that a `Call` may name, each with its number of arguments and the rule for its dtype.

The *meaning* of an intrinsic is written twice on purpose: in the code generators, and in `reference/`. The oracle must
not share code with the compiler.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import TypeMismatch, nearest
from .dtypes import DType, promote
from .nodes import Broadcast, Call, Expr, FloatImm, as_expr


@dataclass(frozen=True, slots=True)
class Intrinsic:
    """A scalar intrinsic.

    `result` is the rule for the result dtype: "same" (the dtype of the first argument), "value" (the dtype of the
    second argument), "bool", "mask" (uint32) or "void". `operands` lists the dtypes of the arguments if they are fixed;
    only the number of lanes may then vary.
    """

    name: str
    arity: int
    result: str = "same"
    domain: str = "float"  # the dtypes that it takes: float, int, any
    pure: bool = True
    operands: tuple[str, ...] = ()


SHUFFLES = ("tvm_warp_shuffle", "tvm_warp_shuffle_up", "tvm_warp_shuffle_down", "tvm_warp_shuffle_xor")
COLLECTIVES = frozenset((*SHUFFLES, "tvm_warp_activemask"))  # operations that the threads of a warp do together
_FLOAT_UNARY = (
    "exp exp2 exp10 log log2 log10 log1p sqrt rsqrt sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh "
    "sigmoid erf floor ceil trunc round nearbyint"
)
_INTRINSICS = [
    *(Intrinsic(name, 1) for name in _FLOAT_UNARY.split()),
    Intrinsic("abs", 1, domain="any"),  # TVM prints fabs for floats; both spellings are read
    Intrinsic("pow", 2),
    Intrinsic("atan2", 2),
    Intrinsic("hypot", 2),
    Intrinsic("copysign", 2),
    Intrinsic("fmod", 2),
    Intrinsic("fma", 3),
    Intrinsic("isnan", 1, "bool"),
    Intrinsic("isinf", 1, "bool"),
    Intrinsic("isfinite", 1, "bool"),
    Intrinsic("if_then_else", 3, "value", "any"),
    Intrinsic("likely", 1, domain="any"),
    *(Intrinsic(name, 2, domain="int") for name in ("shift_left", "shift_right")),
    *(Intrinsic(name, 2, domain="int") for name in ("bitwise_and", "bitwise_or", "bitwise_xor")),
    Intrinsic("bitwise_not", 1, domain="int"),
    Intrinsic("popcount", 1, domain="int"),
    # q_multiply_shift(x, y, q, s): x * y / 2**(q - s), ties rounded up, on int32; see `codegen.decompose`.
    Intrinsic("q_multiply_shift", 4, domain="int", operands=("int32",) * 4),
    # dot4_u8i8(a, b): the int32 sum of the products of four bytes; the bytes of a are unsigned, those of b signed.
    Intrinsic("dot4_u8i8", 2, domain="int", operands=("int32",) * 2),
    # dot2_bf16(acc, a, b) for words of two bfloat16: fma(low, low, fma(high, high, acc)) in float32. Each fma rounds to
    # nearest even; subnormal operands and results become zeros of the same sign.
    Intrinsic("dot2_bf16", 3, domain="any", operands=("float32", "int32", "int32")),
    # round_tf32(x): rounds to 10 bits of mantissa, ties away from zero; infinities and NaN stay. See
    # `codegen.decompose`.
    Intrinsic("round_tf32", 1, operands=("float32",)),
    Intrinsic("reinterpret", 1, "given", "any"),  # the same bits as another dtype; the Call's dtype says which
    Intrinsic("tvm_storage_sync", 1, "void", "any", pure=False),  # barrier; the argument is the scope
    # For asynchronous copies (`tir.nodes.Async`): make the copies started since the last group one group; wait until at
    # most n groups are still being copied.
    Intrinsic("ptx_commit_group", 0, "void", "any", pure=False),
    Intrinsic("ptx_wait_group", 1, "void", "any", pure=False),
    # tvm_warp_shuffle*(mask, value, lane or offset, width, warp size): another lane's value, or the lane's own value at
    # the edge of a section of `width` lanes. All lanes of the mask do this together.
    *(Intrinsic(name, 5, "value", "any", pure=False) for name in SHUFFLES),
    Intrinsic("tvm_warp_activemask", 0, "mask", "any", pure=False),  # the lanes that run this call together
]
INTRINSICS: dict[str, Intrinsic] = {row.name: row for row in _INTRINSICS}


def call(name: str, *args: object) -> Expr:
    """Build a `Call` of an intrinsic and work out its result dtype. Raises `TypeMismatch` if the arguments do not
    fit.
    """
    if name not in INTRINSICS:
        raise TypeMismatch(f"{name} is not an intrinsic; {nearest(name, list(INTRINSICS))}")
    row = INTRINSICS[name]
    if len(args) != row.arity:
        raise TypeMismatch(f"{name} takes {row.arity} arguments, found {len(args)}")
    values = [as_expr(a) for a in args]
    if name in COLLECTIVES:
        return Call(values[1].dtype if values else DType("uint32"), name, tuple(values))
    if name == "if_then_else":
        from .nodes import match

        first, second = match(args[1], args[2])
        return Call(first.dtype, name, (values[0], first, second))
    if row.arity > 1 and row.domain in ("float", "int"):
        common = values[0].dtype
        for value in values[1:]:
            common = promote(common, value.dtype)
        values = [v.astype(common) for v in values]
    if row.domain == "float" and not values[0].dtype.is_float:
        raise TypeMismatch(f"{name} takes floats, found {values[0]} of dtype {values[0].dtype}")
    if row.domain == "int" and not (values[0].dtype.is_int or values[0].dtype.is_bool):
        raise TypeMismatch(f"{name} takes integers, found {values[0]} of dtype {values[0].dtype}")
    for value, wanted in zip(values, row.operands, strict=False):
        if value.dtype.scalar != wanted or value.dtype.lanes != values[0].dtype.lanes:
            kinds = row.operands[0] if len(set(row.operands)) == 1 else ", ".join(row.operands)
            raise TypeMismatch(f"{name} takes {kinds}, found {value} of dtype {value.dtype}")
    dtype = {"bool": DType("bool").with_lanes(values[0].dtype.lanes), "void": DType("int32")}.get(
        row.result, values[0].dtype
    )
    return Call(dtype, name, tuple(values))


def factors_of_words(e: Expr) -> tuple[Expr, Expr] | None:
    """Return the two words if an expression is a product of packed words, or None otherwise.

    A product of packed words is either `dot4_u8i8(a, b)`, or a `dot2_bf16` that is added to 0. For example, `c +
    dot2_bf16(0, a, b)` may be computed as `dot2_bf16(c, a, b)`, just as `c + a * b` may be computed as `fma(a, b, c)`.
    """
    if not isinstance(e, Call) or e.op not in ("dot4_u8i8", "dot2_bf16"):
        return None
    *acc, a, b = e.args
    return (a, b) if all(map(_is_zero, acc)) else None


def _is_zero(e: Expr) -> bool:
    return _is_zero(e.value) if isinstance(e, Broadcast) else isinstance(e, FloatImm) and e.value == 0
