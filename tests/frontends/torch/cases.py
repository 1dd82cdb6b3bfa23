"""Calls of each ATen operator that has a converter. The tensors among the arguments are inputs of a program."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch


class _Draw:
    """Seeded tensors."""

    def __init__(self) -> None:
        self._generator = torch.Generator().manual_seed(7)

    @property
    def generator(self) -> torch.Generator:
        """What all are drawn from."""
        return self._generator

    def f(self, *shape: int) -> torch.Tensor:
        """Normal numbers."""
        return torch.randn(shape, generator=self._generator)

    def unit(self, *shape: int) -> torch.Tensor:
        """Numbers from 0.05 to 0.95."""
        return torch.rand(shape, generator=self._generator) * 0.9 + 0.05

    def i(self, low: int, high: int, *shape: int) -> torch.Tensor:
        """int64 from `low` to below `high`."""
        return torch.randint(low, high, shape, generator=self._generator)

    def b(self, *shape: int) -> torch.Tensor:
        """Truth values."""
        return self.i(0, 2, *shape).bool()

    def distinct(self, *shape: int) -> torch.Tensor:
        """Numbers that all differ."""
        count = torch.Size(shape).numel()
        return torch.randperm(count, generator=self._generator).reshape(shape).float()


Call = tuple[tuple[Any, ...], dict[str, Any]]


def _c(*args: Any, **kwargs: Any) -> Call:
    return args, kwargs


def calls() -> dict[str, list[Call]]:
    """Arguments, positional and by name, of each operator."""
    d = _Draw()
    table: dict[str, list[Call]] = {}
    table.update(_elementwise(d))
    table.update(_arithmetic(d))
    table.update(_products(d))
    table.update(_networks(d))
    table.update(_pictures(d))
    table.update(_reductions(d))
    table.update(_shapes(d))
    table.update(_places(d))
    table.update(_layers(d))
    table.update(_rare(d))
    for name, more in _special(d).items():
        table[name] = [*table.get(name, ()), *more]
    return table


def _layers(d: _Draw) -> dict[str, list[Call]]:
    """Whole layers in evaluation mode, and what picks elements of a line."""
    x, table = d.f(2, 5, 8), d.f(10, 3)
    attention = [d.f(24, 8), d.f(24), d.f(8, 8), d.f(8)]
    norms, products = [d.f(8), d.f(8), d.f(8), d.f(8)], [d.f(16, 8), d.f(16), d.f(8, 16), d.f(8)]
    hidden = torch.tensor([[False] * 5, [False] * 3 + [True] * 2])
    causal = torch.triu(torch.ones(5, 5, dtype=torch.bool), 1)
    bags: list[Call] = []
    indices, offsets = torch.tensor([1, 2, 1, 4, 1, 1]), torch.tensor([0, 2, 4, 6])
    for mode in (0, 1, 2):
        bags.append(_c(table, d.i(0, 10, 7), torch.tensor([0, 2, 2, 5]), False, mode))
        bags.append(_c(table, indices, offsets, False, mode, False, None, True, 1))
    bags.append(_c(table, d.i(0, 10, 6), torch.tensor([0, 3]), False, 0, False, d.f(6)))
    heads = [x, x, x, 8, 2, *attention]
    whole = [x, 8, 2, *attention]
    return {
        "_embedding_bag.default": bags, "_embedding_bag_forward_only.default": bags[:2],
        "_native_multi_head_attention.default": [
            _c(*heads, need_weights=False), _c(*heads, hidden, False, True, 1), _c(*heads, causal, False, True, 0)
        ],
        "_transformer_encoder_layer_fwd.default": [
            _c(*whole, gelu, before, 1e-5, *norms, *products) for gelu, before in ((False, False), (True, True))
        ] + [_c(*whole, False, False, 1e-5, *norms, *products, hidden, 1)],
        "adaptive_max_pool2d.default": [_c(d.f(1, 2, 8, 7), size) for size in ([2, 3], [3, 4], [1, 1], [8, 7])]
        + [_c(d.f(2, 6, 5), [4, 2])],
        "adaptive_max_pool3d.default": [_c(d.f(1, 2, 5, 6, 4), [2, 3, 1])],
        "cummax.default": [_c(d.f(3, 5), 1), _c(d.i(0, 3, 4, 6), 0), _c(_odd(d.f(2, 6)), -1)],
        "cummin.default": [_c(d.f(3, 5), 1), _c(d.i(0, 3, 4, 6), 0), _c(_odd(d.f(2, 6)), -1)],
        "median.default": [_c(d.f(7)), _c(d.f(2, 4)), _c(_odd(d.f(5))), _c(d.i(0, 9, 6))],
        "median.dim": [_c(d.f(3, 8), 1), _c(d.distinct(5, 3), 0, True), _c(_odd(d.f(2, 5)), -1)],
        "rrelu_with_noise_functional.default": [_c(d.f(3, 4), torch.zeros(3, 4), 0.1, 0.3, False)],
        "sgn.default": [_c(d.f(3, 4)), _c(d.i(-2, 3, 6)), _c(_odd(d.f(5)))],
    }  # fmt: skip


def _rare(d: _Draw) -> dict[str, list[Call]]:
    """Functions that fewer models call."""
    bits, matrix = torch.tensor([5, -3, 0, 9]), d.f(4, 5)
    nan, inf, some = torch.nan, torch.inf, d.f(6)
    a, b = torch.tensor([nan, 1.0, nan, -0.0, inf, 3.0]), torch.tensor([1.0, nan, nan, 2.0, -inf, -4.0])
    signs = torch.tensor([-0.0, 0.0, -1.0, 2.0, -inf, 4.0])
    x, index = d.f(4, 5), d.i(0, 4, 3, 5)
    table = {f"bitwise_{name}.Scalar_Tensor": [_c(6, bits)] for name in ("and", "or", "xor")}
    table |= {f"bitwise_{name}_shift.Scalar_Tensor": [_c(96, bits.abs())] for name in ("left", "right")}
    table |= {f"{name}.default": [_c(a, b), _c(bits, bits.flip(0)), _c(d.b(4), d.b(4))] for name in ("fmax", "fmin")}
    return table | {
        "_trilinear.default": [_c(d.f(2, 3), d.f(4, 3, 5), d.f(2, 5), [1, 3], [0], [1, 2], [2, 3])],
        "addbmm.default": [_c(d.f(4), d.f(3, 2, 5), d.f(3, 5, 4), beta=0.5, alpha=2)],
        "addmv.default": [_c(d.f(4), matrix, d.f(5), beta=2, alpha=0.5), _c(d.f(4), matrix, d.f(5), beta=0)],
        "angle.default": [_c(a), _c(bits)],
        "as_strided_copy.default": [_c(matrix, [2, 2], [5, 1], 3)],
        "as_strided_scatter.default": [_c(matrix, d.f(2, 2), [2, 2], [6, 1], 1)],
        "copysign.Scalar": [_c(some, -0.0), _c(bits, 2.0)],
        "copysign.Tensor": [_c(some, signs), _c(a, signs), _c(bits, bits.flip(0))],
        "diagonal_copy.default": [_c(matrix, 1)],
        "diagonal_scatter.default": [_c(matrix, d.f(4)), _c(matrix, d.f(3), -1), _c(d.f(3, 2, 4), d.f(2, 3), 1, 0, 2)],
        "dist.default": [_c(matrix, d.f(5), 3.0), _c(some, some + 1)],
        "hypot.default": [_c(d.f(6), some), _c(a * 1e30, b * 1e30), _c(signs * 1e-30, some * 1e-30)],
        "index_reduce.default": [
            _c(x, 1, d.i(0, 5, 7), d.f(4, 7), reduce, include_self=includes)
            for reduce in ("prod", "mean", "amax", "amin") for includes in (True, False)
        ],
        "kthvalue.default": [_c(d.distinct(3, 6), 2), _c(d.distinct(3, 6), 3, 0, True)],
        "ldexp.Tensor": [_c(some, torch.tensor([1, -2, 0, 5, -7, 3]))],
        "nanmedian.default": [_c(_odd(d.f(6))), _c(d.i(0, 9, 5))],
        "nanmedian.dim": [_c(_odd(d.distinct(3, 5)), 1), _c(torch.tensor([[nan, nan], [3.0, 1.0]]), 1, True)],
        "narrow_copy.default": [_c(matrix, 1, 2, 2), _c(matrix, 0, -3, 2)],
        "permute_copy.default": [_c(d.f(2, 3, 4), [2, 0, -2])],
        "prims.convert_element_type.default": [_c(some * 4, torch.int32), _c(bits, torch.float32)],
        "_pdist_forward.default": [_c(matrix, 2.0), _c(matrix, 1.0)],
        "bucketize.Scalar": [_c(0.5, some.sort()[0])],
        "logcumsumexp.default": [_c(matrix, 1), _c(matrix * 90, 0), _c(torch.tensor(3.0), 0)],
        "searchsorted.Scalar": [_c(some.sort()[0], 0.5, right=True)],
        "tril_indices.default": [_c(3, 5, 1), _c(4, 3, -1)],
        "triu_indices.default": [_c(3, 5, 1), _c(4, 3, -1)],
        "put.default": [_c(matrix, d.i(0, 20, 3, 4), d.f(3, 4), True), _c(matrix, torch.tensor([5, 0]), d.f(2))],
        "remainder.Scalar_Tensor": [_c(7.5, signs[2:]), _c(7, bits[:2])],
        "round.decimals": [_c(some, decimals=2), _c(some * 100, decimals=-1), _c(some, decimals=0)],
        "scatter.reduce": [_c(x, 0, index, d.f(3, 5), reduce=reduce) for reduce in ("add", "multiply")],
        "scatter.value_reduce": [_c(x, 0, index, 1.5, reduce=reduce) for reduce in ("add", "multiply")],
        "signbit.default": [_c(signs), _c(bits), _c(d.b(3)), _c(d.f(3).double())],
        "take.default": [_c(matrix, index), _c(torch.tensor(2.0), torch.tensor(0))],
        "view_copy.default": [_c(matrix, [2, -1])],
        "true_divide.Tensor": [_c(some, signs[2:3]), _c(bits, bits[:1])],
    }  # fmt: skip


def _odd(x: torch.Tensor) -> torch.Tensor:
    """The tensor with a NaN as its third element."""
    x.view(-1)[2] = torch.nan
    return x


def _special(d: _Draw) -> dict[str, list[Call]]:
    """Further calls of operators: values and dtypes on which PyTorch has its own mind."""
    nan, inf = torch.nan, torch.inf
    a = torch.tensor([7.5, -7.5, 7.5, 0.3, 1e10, 3.0, -0.0, 5.0, inf, 1.0, nan, 6.0])
    b = torch.tensor([0.1, 0.1, -0.1, 0.1, 3.0, 0.0, 2.0, inf, 2.0, -inf, 1.0, -2.0])
    photo = d.f(1, 2, 9, 7)
    pixels = d.i(0, 256, 1, 3, 5, 6).to(torch.uint8)
    grid = torch.rand(1, 3, 3, 2, generator=d.generator) * 2 - 1
    grid[0, 0, 0, 0], grid[0, 1, 1], grid[0, 2, 2, 1] = nan, inf, -inf
    picture = d.f(1, 2, 4, 5)
    one, first, x = torch.tensor(1.5), torch.tensor(0), d.f(3, 4)
    written, onto = d.i(0, 3, 5, 4), d.f(5, 4)
    lines = {
        f"{name}.default": [_c(one, -1), _c(one, 0)]
        for name in ("cumsum", "cumprod", "cummax", "cummin", "sort", "argsort", "argmax", "argmin", "_safe_softmax")
    }
    lines |= {f"{name}.dim": [_c(one, 0), _c(one, 0, True)] for name in ("max", "min", "median", "any", "all")}
    lines |= {f"{name}.default": [_c(one, [0], True)] for name in ("amax", "amin", "logsumexp")}
    return lines | {
        "adaptive_max_pool2d.default": [_c(d.distinct(1, 2, 8, 7), [3, 4]), _c(d.distinct(2, 6, 5), [4, 2])],
        "adaptive_max_pool3d.default": [_c(d.distinct(1, 2, 5, 6, 4), [2, 3, 1])],
        "any.dims": [_c(d.b(3, 4), [])],
        "avg_pool2d.default": [
            _c(d.f(1, 2, 7, 8), [3, 2], [2, 2], [1, 1], ceil, True, 5) for ceil in (False, True)
        ],
        "arange.start_step": [_c(0.5, 2.9, 1, dtype=torch.int64), _c(1.0, 2.0, 0.3)],
        "index_put.default": [
            _c(d.f(5, 5), [None, torch.randperm(5, generator=d.generator)], d.f(5)),
            _c(d.f(4, 5, 6), [None, torch.tensor([[3, 0], [1, 2]])], d.f(4, 2, 2, 6)),
            _c(d.f(4, 5, 6), [None, torch.tensor([3, 1]), torch.tensor([0, 4])], d.f(2), True),
        ],
        "gather.default": [_c(one, 0, torch.tensor([0, 0])), _c(x[0], 0, first), _c(x, 0, first.repeat(0, 2))],
        "index_select.default": [_c(x[0], 0, first), _c(one, 0, first)],
        "kthvalue.default": [_c(one, 1)],
        "linalg_vector_norm.default": [_c(one, 2, [0]), _c(one, 3.0, [-1], True)],
        "masked_scatter.default": [_c(x[0], d.b(3, 4), d.f(12))],
        "max_pool1d_with_indices.default": [_c(d.distinct(2, 9), [3], [2], [1])],
        "max_pool2d_with_indices.default": [
            _c(d.distinct(2, 2, 7, 8), [3, 2], [2, 2], [1, 1], [1, 1], True),
            _c(d.distinct(1, 9, 9) - 90, [2, 3], [2, 1], [1, 1], [2, 2]),
        ],
        "bucketize.Tensor": [
            _c(torch.tensor([nan, 1.0, 0.5]), torch.tensor([0.0, 1.0, 2.0]), right=right) for right in (False, True)
        ],
        "searchsorted.Tensor": [_c(d.f(3, 6).sort()[0], d.f(3, 4)), _c(torch.tensor([1, 3, 5]), d.f(4) * 4)],
        "pow.Tensor_Scalar": [_c(torch.tensor([7, -9, 0]), 22), _c(torch.tensor([7, -9, 0]), 0)],
        "pow.Tensor_Tensor": [
            _c(torch.tensor([7, 0, 0, -1, -1, 2, 3, 2]), torch.tensor([22, 0, 512, -5, 300, -1, 39, 64])),
            _c(torch.tensor([3, 200, 0, 1]).to(torch.uint8), torch.tensor([5, 1, 255, 255]).to(torch.uint8)),
        ],
        "scatter.src": [_c(one, 0, torch.tensor([0]), torch.tensor([2.0])), _c(x[0], 0, first, one)],
        "scatter_reduce.two": [
            _c(values, 0, written, updates, reduce, include_self=includes)
            for values, updates in ((x, onto), (d.i(-9, 9, 3, 4), d.i(-9, 9, 5, 4)))
            for reduce in ("sum", "prod", "mean", "amax", "amin")
            for includes in (True, False)
        ],
        "slice_scatter.default": [_c(x, d.f(3, 2), 1, -3, -1)],
        "topk.default": [_c(one, 1)],
        "var_mean.correction": [_c(x, [1], correction=1.5), _c(x[:0]), _c(x, [0], correction=5)],
        "_safe_softmax.default": [*lines["_safe_softmax.default"],
                                  _c(torch.tensor([[1.0, -inf], [-inf, -inf], [nan, -inf]]), -1)],
        "div.Tensor_mode": [_c(a.to(dtype), b.to(dtype), rounding_mode="floor")
                            for dtype in (torch.float32, torch.float64, torch.float16)],
        "floor_divide.default": [_c(a, b), _c(a, 0.1)],
        "grid_sampler_2d.default": [_c(picture, grid, 0, border, align) for border in (0, 1, 2) for align in (0, 1)],
        **{
            f"_upsample_{name}2d_aa.{overload}": [_c(photo, [4, 9], align, *last) for align in (False, True)]
            for name in ("bilinear", "bicubic") for overload, last in (("vec", [None]), ("default", []))
        },
        "sign.default": [_c(torch.tensor([nan, inf, -inf, -0.0, 0.0, 2.0]))],
        "upsample_bilinear2d.vec": [_c(pixels, [7, 9], False, None), _c(pixels, None, False, [2.0, 2.0])],
        "upsample_bicubic2d.vec": [_c(pixels, [7, 9], False, None)],
    }  # fmt: skip


def _elementwise(d: _Draw) -> dict[str, list[Call]]:
    any_sign = (
        "abs asinh atan ceil cos cosh erf exp expm1 floor hardsigmoid hardswish mish neg positive relu relu6 round "
        "sigmoid sign silu sin sinh tan tanh trunc clone alias detach contiguous isfinite isinf isnan lift_fresh_copy"
    )
    positive = "log log10 log1p log2 reciprocal rsqrt sqrt acos asin atanh"
    table = {f"{name}.default": [_c(d.f(3, 5) * 2)] for name in any_sign.split()}
    table |= {f"{name}.default": [_c(d.unit(3, 5))] for name in positive.split()}
    special = torch.tensor([1.0, -2.0, float("inf"), -float("inf"), float("nan")])
    for name in ("isfinite", "isinf", "isnan"):
        table[f"{name}.default"] += [_c(special), _c(d.i(0, 3, 4))]
    table["exp.default"] += [_c(d.i(-2, 3, 4))]  # integers become floats
    table["expm1.default"] += [_c(torch.tensor([0.0, 1e-6, -1e-4, 0.3, 20.0, 90.0, -90.0]))]
    table["round.default"] += [_c(torch.tensor([0.5, 1.5, 2.5, -0.5]))]
    table["neg.default"] += [_c(d.i(-3, 3, 4))]
    table["acosh.default"] = [_c(d.unit(3, 5) + 1)]
    table["logical_not.default"] = [_c(d.b(6)), _c(d.i(0, 2, 6)), _c(d.f(3))]
    table["bitwise_not.default"] = [_c(d.b(6)), _c(d.i(-5, 5, 6))]
    table["dropout.default"] = [_c(d.f(4), 0.5, False)]
    table["_to_copy.default"] = [
        _c(d.f(4) * 3, dtype=torch.int32), _c(d.i(0, 2, 5), dtype=torch.bool), _c(d.b(4), dtype=torch.float32),
        _c(d.f(4), dtype=torch.float64),
    ]  # fmt: skip
    table["view.dtype"] = [_c(d.f(4), torch.int32)]
    table["exp2.default"] = [_c(d.f(9)), _c(d.i(-3, 4, 5))]
    table["erfc.default"] = [_c(d.f(9))]
    table["gelu.default"] = [_c(d.f(4, 5)), _c(d.f(4, 5), approximate="tanh")]
    table["elu.default"] = [
        _c(d.f(9)), _c(d.f(9), 0.5), _c(d.f(9), 1.6732632, 1.0507009),
        _c(d.f(9), 2.0, 1.0, 0.5), _c(d.f(9), 2.0, 3.0, 0.7),
    ]  # fmt: skip
    table["leaky_relu.default"] = [_c(d.f(9)), _c(d.f(9), 0.3)]
    table["softplus.default"] = [_c(d.f(9) * 12), _c(d.f(9) * 4, 2.0, 5.0)]
    table["hardtanh.default"] = [_c(d.f(9)), _c(d.f(9), 0.0, 6.0)]
    table["clamp.default"] = [_c(d.f(9), -0.5, 0.5), _c(d.f(9), min=0.1), _c(d.i(-5, 5, 9), max=2)]
    table["prelu.default"] = [_c(d.f(2, 3, 4), d.f(3)), _c(d.f(2, 3), d.f(1)), _c(d.f(6), d.f(1))]
    table["_prelu_kernel.default"] = [_c(d.f(2, 3, 4), d.f(1, 3, 1))]
    return table


def _arithmetic(d: _Draw) -> dict[str, list[Call]]:
    table: dict[str, list[Call]] = {}
    for name in ("add", "sub", "mul", "rsub"):
        table[f"{name}.Tensor"] = [_c(d.f(3, 4), d.f(4)), _c(d.f(3), d.i(0, 5, 3)), _c(d.i(0, 9, 3, 1), d.i(0, 9, 2))]
        table[f"{name}.Scalar"] = [_c(d.f(3, 4), 2.5), _c(d.i(0, 5, 4), 3), _c(d.i(0, 5, 4), 0.5)]
    for name in ("add", "sub", "rsub"):
        table[f"{name}.Tensor"] += [_c(d.f(3, 4), d.f(3, 4), alpha=0.25)]
    for name in ("add", "mul"):
        table[f"{name}.Tensor"] += [_c(d.b(8), d.b(8))]
    for name in ("div.Tensor", "div.Tensor_mode"):
        mode = {"rounding_mode": None} if name.endswith("mode") else {}
        table[name] = [_c(d.f(3, 4), d.unit(4), **mode), _c(d.i(-9, 9, 5), d.i(1, 4, 5), **mode)]
    for mode in ("floor", "trunc"):
        table["div.Tensor_mode"] += [
            _c(d.f(9) * 5, d.unit(9), rounding_mode=mode), _c(d.i(-9, 9, 9), d.i(1, 4, 9), rounding_mode=mode),
        ]  # fmt: skip
    table["div.Scalar"] = [_c(d.f(4), 3.0), _c(d.i(-9, 9, 5), 2)]
    table["div.Scalar_mode"] = [
        _c(d.f(9) * 5, 0.7, rounding_mode="floor"),
        _c(d.i(-9, 9, 9), -2, rounding_mode="trunc"),
    ]
    table["floor_divide.default"] = [_c(d.f(9) * 5, d.unit(9)), _c(d.i(-9, 9, 9), d.i(1, 4, 9))]
    for name in ("fmod", "remainder"):
        table[f"{name}.Tensor"] = [_c(d.f(9) * 5, d.f(9) + 3), _c(d.i(-9, 9, 9), d.i(1, 4, 9))]
        table[f"{name}.Scalar"] = [_c(d.f(9) * 5, -1.5), _c(d.i(-9, 9, 9), 4)]
    table["atan2.default"] = [_c(d.f(9), d.f(9))]
    for name in ("maximum", "minimum"):
        table[f"{name}.default"] = [_c(d.f(3, 4), d.f(4)), _c(d.i(0, 9, 4), d.f(4)), _c(d.b(8), d.b(8))]
    for name in ("bitwise_and", "bitwise_or", "bitwise_xor", "__and__", "__or__", "__xor__"):
        table[f"{name}.Tensor"] = [_c(d.i(0, 9, 6), d.i(0, 9, 6)), _c(d.b(6), d.b(6))]
        table[f"{name}.Scalar"] = [_c(d.i(0, 9, 6), 5)]
    for name in ("__lshift__", "__rshift__"):
        table[f"{name}.Tensor"] = [_c(d.i(0, 99, 6), d.i(0, 4, 6))]
        table[f"{name}.Scalar"] = [_c(d.i(0, 99, 6), 2)]
    for name in ("bitwise_left_shift", "bitwise_right_shift"):
        table[f"{name}.Tensor"] = [_c(d.i(0, 99, 6), d.i(0, 4, 6))]
        table[f"{name}.Tensor_Scalar"] = [_c(d.i(0, 99, 6), 2)]
    for name in ("eq", "ge", "gt", "le", "lt", "ne"):
        table[f"{name}.Tensor"] = [_c(d.i(0, 3, 3, 4), d.i(0, 3, 4)), _c(d.i(0, 3, 9), d.f(9)), _c(d.b(8), d.b(8))]
        table[f"{name}.Scalar"] = [_c(d.i(0, 3, 9), 1), _c(d.i(0, 3, 9), 0.5), _c(d.f(9), 0)]
    for name in ("logical_and", "logical_or", "logical_xor"):
        table[f"{name}.default"] = [_c(d.b(8), d.b(8)), _c(d.i(0, 2, 8), d.b(8))]
    table["pow.Tensor_Scalar"] = [
        *(_c(d.unit(9), p) for p in (0.5, -0.5, -1, 1, 2, 3, 2.5)), _c(d.i(-3, 4, 9), 2), _c(d.i(-3, 4, 9), 3),
    ]  # fmt: skip
    table["pow.Tensor_Tensor"] = [_c(d.unit(9), d.f(9)), _c(d.i(1, 4, 5), d.i(0, 4, 5))]
    table["pow.Scalar"] = [_c(2.0, d.f(9)), _c(3, d.i(0, 4, 5))]
    table["clamp.Tensor"] = [_c(d.f(9), d.f(9) - 1, d.f(9) + 1), _c(d.f(9), max=d.f(9))]
    table["where.self"] = [_c(d.b(3, 4), d.f(4), d.f(3, 1)), _c(d.b(5), d.i(0, 5, 5), d.f(5))]
    table["masked_fill.Scalar"] = [_c(d.f(3, 4), d.b(4), -1.5)]
    table["masked_fill.Tensor"] = [_c(d.f(3, 4), d.b(3, 4), torch.tensor(2.0))]
    return table


def _products(d: _Draw) -> dict[str, list[Call]]:
    mask = d.b(5, 6)
    mask[2] = False
    added = torch.where(mask, 0.0, -float("inf"))
    q, k, v = d.f(2, 4, 5, 8), d.f(2, 4, 6, 8), d.f(2, 4, 6, 8)
    return {
        "linear.default": [
            _c(d.f(2, 5), d.f(3, 5), d.f(3)), _c(d.f(2, 4, 5), d.f(3, 5)), _c(d.f(5), d.f(3, 5), d.f(3)),
        ],
        "mm.default": [_c(d.f(3, 4), d.f(4, 5))],
        "bmm.default": [_c(d.f(2, 3, 4), d.f(2, 4, 5))],
        "matmul.default": [_c(d.f(2, 3, 4), d.f(4, 5)), _c(d.f(4), d.f(4)), _c(d.f(2, 1, 3, 4), d.f(5, 4, 2))],
        "mv.default": [_c(d.f(3, 4), d.f(4))],
        "dot.default": [_c(d.f(4), d.f(4))],
        "addmm.default": [
            _c(d.f(5), d.f(3, 4), d.f(4, 5)), _c(d.f(3, 5), d.f(3, 4), d.f(4, 5), beta=0.5, alpha=2.0),
            _c(d.f(3, 5), d.f(3, 4), d.f(4, 5), beta=0),
        ],
        "baddbmm.default": [_c(d.f(2, 3, 5), d.f(2, 3, 4), d.f(2, 4, 5), beta=0.5, alpha=2.0)],
        "einsum.default": [_c("bij,bjk->bik", [d.f(2, 3, 4), d.f(2, 4, 5)]), _c("ij,j", [d.f(3, 4), d.f(4)])],
        "scaled_dot_product_attention.default": [
            _c(q, k, v), _c(q, k, v, scale=0.3), _c(q, k, v, is_causal=True), _c(q, k, v, mask), _c(q, k, v, added),
            _c(q, k[:, :2], v[:, :2], enable_gqa=True), _c(q, k, v, d.f(2, 1, 5, 6)), _c(q[0, 0], k[0, 0], v[0, 0]),
        ],
    }  # fmt: skip


def _networks(d: _Draw) -> dict[str, list[Call]]:
    def convolution(x: Any, w: Any, b: Any, stride: Any, padding: Any, dilation: Any, transposed: bool = False,
                    output_padding: Any = (0,), groups: int = 1) -> Call:  # fmt: skip
        return _c(x, w, b, stride, padding, dilation, transposed, output_padding, groups)

    image, statistics = d.f(2, 4, 6, 5), (d.f(4), d.f(4), d.f(4), d.unit(4))
    return {
        "convolution.default": [
            convolution(d.f(1, 3, 8, 7), d.f(4, 3, 3, 2), d.f(4), (1, 1), (0, 0), (1, 1)),
            convolution(d.f(1, 4, 8, 7), d.f(4, 2, 3, 3), None, (2, 1), (1, 2), (1, 2), groups=2),
            convolution(d.f(1, 3, 9), d.f(4, 3, 3), d.f(4), (2,), (1,), (1,)),
            convolution(d.f(1, 2, 4, 5, 6), d.f(3, 2, 2, 2, 2), None, (1, 1, 1), (0, 0, 0), (1, 1, 1)),
            convolution(d.f(1, 3, 5, 4), d.f(3, 2, 3, 3), d.f(2), (2, 2), (1, 1), (1, 1), True, (1, 0)),
            convolution(d.f(1, 4, 5), d.f(4, 3, 2), None, (2,), (0,), (1,), True, (0,), 2),
        ],
        "_native_batch_norm_legit_no_training.default": [
            _c(image, *statistics, 0.1, 1e-5), _c(image, None, None, *statistics[2:], 0.1, 1e-3),
        ],
        "layer_norm.default": [
            _c(d.f(2, 3, 4), [4], d.f(4), d.f(4)), _c(d.f(2, 3, 4), [3, 4]), _c(d.f(2, 4), [4], d.f(4)),
        ],
        "native_layer_norm.default": [_c(d.f(2, 3, 4), [4], d.f(4), d.f(4), 1e-5)],
        "instance_norm.default": [
            _c(image, d.f(4), d.f(4), None, None, True, 0.1, 1e-5, False),
            _c(image, None, None, None, None, True, 0.1, 1e-3, False),
        ],
        "_native_batch_norm_legit.no_stats": [
            _c(image, d.f(4), d.f(4), True, 0.1, 1e-5), _c(image, None, None, True, 0.1, 1e-5),
        ],
        "rms_norm.default": [_c(d.f(2, 3, 4), [4], d.f(4)), _c(d.f(2, 3, 4), [3, 4], None, 1e-3)],
        "group_norm.default": [_c(image, 2, d.f(4), d.f(4)), _c(image, 4)],
        "native_group_norm.default": [_c(image, d.f(4), d.f(4), 2, 4, 30, 2, 1e-5)],
        "_softmax.default": [_c(d.f(2, 3, 4), 1, False)],
        "softmax.int": [_c(d.f(2, 3, 4), -1), _c(d.f(5), 0)],
        "_safe_softmax.default": [_c(d.f(2, 3, 4), -1)],
        "_log_softmax.default": [_c(d.f(2, 3, 4), -1, False)],
        "log_softmax.int": [_c(d.f(2, 3, 4), 1)],
        "embedding.default": [_c(d.f(9, 4), d.i(0, 9, 2, 3)), _c(d.f(9, 4), d.i(0, 9, 5), 2)],
    }  # fmt: skip


def _pictures(d: _Draw) -> dict[str, list[Call]]:
    table: dict[str, list[Call]] = {}
    x = {1: d.f(2, 3, 9), 2: d.f(2, 3, 7, 8), 3: d.f(1, 2, 5, 6, 7)}
    for rank in (1, 2, 3):
        one, two, three = [1] * rank, [2] * rank, [3] * rank
        plain = [_c(x[rank], three), _c(x[rank], three, two, one), _c(x[rank], two, two, [0] * rank, two, True)]
        table[f"max_pool{rank}d.default"] = plain + ([_c(x[2][0], three, two)] if rank == 2 else [])
        table[f"max_pool{rank}d_with_indices.default"] = plain
        table[f"avg_pool{rank}d.default"] = [
            _c(x[rank], three), _c(x[rank], three, two, one, True), _c(x[rank], three, two, one, False, False),
            _c(x[rank], two, three, [0] * rank, True),
        ]  # fmt: skip
        sizes = [[3] * rank, [1] * rank, [4, 1, 2][:rank]]
        table[f"adaptive_avg_pool{rank}d.default"] = [_c(x[rank], size) for size in sizes]
        if rank > 1:
            table[f"_adaptive_avg_pool{rank}d.default"] = [_c(x[rank], size) for size in sizes]
        pads = [2, 1, 1, 2, 3, 0][: 2 * rank]
        for name in ("reflection_pad", "replication_pad"):
            table[f"{name}{rank}d.default"] = [_c(x[rank], pads)]
        nearest = [*(_c(x[rank], size) for size in ([14] * rank, [5] * rank))]
        table[f"upsample_nearest{rank}d.default"] = nearest
        table[f"_upsample_nearest_exact{rank}d.default"] = nearest
        factors = [2.0, 1.5, 0.5][:rank]
        for name in ("upsample_nearest", "_upsample_nearest_exact"):
            table[f"{name}{rank}d.vec"] = [_c(x[rank], None, factors), _c(x[rank], [11] * rank, None)]
        linear = {1: "upsample_linear1d", 2: "upsample_bilinear2d", 3: "upsample_trilinear3d"}[rank]
        for name in (linear, "upsample_bicubic2d") if rank == 2 else (linear,):
            table[f"{name}.default"] = [_c(x[rank], [11] * rank, align) for align in (False, True)]
            table[f"{name}.vec"] = [_c(x[rank], None, align, factors) for align in (False, True)]
    table["constant_pad_nd.default"] = [
        _c(x[2], [1, 2]), _c(x[2], [1, 2, 0, 3], 1.5), _c(x[2], [-1, 2, -2, -1]), _c(d.b(3, 4), [1, 1], True),
        _c(d.i(0, 5, 4), [0, 2], 7),
    ]  # fmt: skip
    grid = d.f(2, 4, 5, 2) * 0.8
    for name in ("grid_sampler", "grid_sampler_2d"):
        table[f"{name}.default"] = [_c(x[2], grid, m, p, a) for m, p, a in ((0, 0, False), (0, 1, True), (1, 2, False))]
    table["grid_sampler_3d.default"] = [_c(x[3], d.f(1, 2, 3, 4, 3) * 0.8, 0, 0, False)]
    table["pixel_shuffle.default"] = [_c(d.f(2, 8, 3, 4), 2)]
    return table


def _reductions(d: _Draw) -> dict[str, list[Call]]:
    x = d.f(2, 3, 4)
    table: dict[str, list[Call]] = {
        "sum.default": [_c(x), _c(d.b(5)), _c(d.i(0, 5, 4), dtype=torch.float32)],
        "sum.dim_IntList": [_c(x, [1]), _c(x, [0, -1], True), _c(d.i(0, 9, 3, 4), [1]), _c(x, None)],
        "mean.default": [_c(x)],
        "mean.dim": [_c(x, [1]), _c(x, [-1, -2], True), _c(d.i(0, 9, 3, 4), [0], dtype=torch.float32)],
        "prod.default": [_c(x)],
        "prod.dim_int": [_c(x, 1), _c(d.i(1, 4, 3, 3), 0, True)],
        "logsumexp.default": [_c(x, [1]), _c(x, [0, 2], True)],
        "var.correction": [_c(x, [1]), _c(x, [1, 2], correction=0, keepdim=True), _c(x, None, correction=1)],
        "var.dim": [_c(x, [1], False), _c(x, [2], True, True)],
        "var.default": [_c(x), _c(x, False)],
        "std.correction": [_c(x, [1]), _c(x, [1, 2], correction=0, keepdim=True)],
        "std.dim": [_c(x, [1], False)],
        "std.default": [_c(x)],
        "var_mean.correction": [_c(x, [1], correction=0), _c(x, None)],
        "linalg_vector_norm.default": [
            *(_c(x, p, [1], True) for p in (2, 1, 0, float("inf"), -float("inf"), 3)),
            _c(x),
            _c(x, 2, [0, 2]),
        ],
        "_cdist_forward.default": [_c(d.f(4, 3), d.f(5, 3), p, None) for p in (2.0, 1.0)]
        + [_c(x, d.f(2, 5, 4), 2.0, None)],
    }
    for name in ("amax", "amin"):
        table[f"{name}.default"] = [_c(x, [1]), _c(x, [], True), _c(d.i(0, 9, 3, 4), [-1], True)]
    for name in ("max", "min"):
        table[f"{name}.default"] = [_c(x)]
        table[f"{name}.dim"] = [_c(x, 1), _c(d.i(0, 3, 3, 6), -1, True)]
        table[f"arg{name}.default"] = [_c(x), _c(x, 1), _c(d.i(0, 3, 3, 6), -1, True)]
    for name in ("any", "all"):
        table[f"{name}.default"] = [_c(d.b(3, 4)), _c(x)]
        table[f"{name}.dim"] = [_c(d.b(3, 4), 1), _c(d.i(0, 2, 3, 2), 0, True)]
        table[f"{name}.dims"] = [_c(d.b(2, 3, 2), [0, 2])]
    for name in ("cumsum", "cumprod"):
        table[f"{name}.default"] = [_c(x, 1), _c(d.i(1, 3, 5), 0), _c(d.b(5), -1)]
    return table


def _shapes(d: _Draw) -> dict[str, list[Call]]:
    x = d.f(2, 3, 4)
    table: dict[str, list[Call]] = {
        "view.default": [_c(x, [6, 4]), _c(x, [-1]), _c(x, [2, 3, 4])],
        "_unsafe_view.default": [_c(x, [6, 4])],
        "reshape.default": [_c(x, [4, -1])],
        "flatten.using_ints": [_c(x, 1), _c(x)],
        "expand.default": [_c(d.f(3, 1), [3, 4]), _c(d.f(4), [2, 3, -1])],
        "squeeze.dim": [_c(d.f(2, 1, 3), 1), _c(x, 0)],
        "squeeze.dims": [_c(d.f(2, 1, 3, 1), [1, -1, 0])],
        "squeeze.default": [_c(d.f(2, 1, 3, 1))],
        "unsqueeze.default": [_c(x, 0), _c(x, -1), _c(x, 2)],
        "permute.default": [_c(x, [2, 0, 1]), _c(x, [0, -2, -1])],
        "transpose.int": [_c(x, 1, -1), _c(x, 0, 0)],
        "t.default": [_c(d.f(3, 4)), _c(d.f(5))],
        "cat.default": [_c([x, x], 1), _c([x, d.f(0)]), _c([d.i(0, 5, 3), d.f(2)], -1)],
        "stack.default": [_c([x, x]), _c([x, x, x], -1)],
        "split_with_sizes.default": [_c(d.f(2, 6), [1, 2, 3], 1), _c(x, [2], 0)],
        "slice.Tensor": [
            _c(x), _c(x, 1, 1), _c(x, 2, -3, -1), _c(x, -1, 0, 9, 2), _c(x, 2, 1, 9223372036854775807), _c(x, 1, 2, 1),
        ],
        "select.int": [_c(x, 1, 2), _c(x, -1, -2)],
        "repeat.default": [_c(x, [1, 2, 3]), _c(d.f(3), [2, 1, 2])],
        "flip.default": [_c(x, [0, -1])],
        "full.default": [_c([2, 3], 1.5), _c([2], 3), _c([], True), _c([2], 1, dtype=torch.float64)],
        "full_like.default": [_c(x, 2.5), _c(d.i(0, 3, 2), 4)],
        "new_full.default": [_c(x, [2, 2], 7.0)],
        "fill.Scalar": [_c(x, 2.0)],
        "fill.Tensor": [_c(x, torch.tensor(2.0))],
        "scalar_tensor.default": [_c(2.5), _c(3, dtype=torch.int64)],
        "arange.default": [_c(5), _c(3.5)],
        "arange.start": [_c(2, 7)],
        "arange.start_step": [_c(1, 8, 3), _c(5, -2, -2), _c(0.0, 1.0, 0.25)],
        "tril.default": [_c(d.f(3, 4)), _c(d.f(2, 4, 4), 1), _c(d.b(4, 4), -1)],
        "triu.default": [_c(d.f(3, 4)), _c(d.f(2, 4, 4), -1)],
    }  # fmt: skip
    for name in ("zeros", "ones"):
        table[f"{name}.default"] = [_c([2, 3]), _c([2], dtype=torch.int64)]
        table[f"{name}_like.default"] = [_c(x), _c(x, dtype=torch.bool)]
        table[f"new_{name}.default"] = [_c(x, [3])]
    table["empty.memory_format"] = [_c([2, 0])]
    table["empty_strided.default"] = [_c([2, 0], [1, 1])]
    table["empty_permuted.default"] = [_c([2, 0], [1, 0])]
    table["new_empty_strided.default"] = [_c(x, [2, 0], [1, 1])]
    table["empty_like.default"] = [_c(d.f(0, 3))]
    table["new_empty.default"] = [_c(x, [0])]
    return table


def _places(d: _Draw) -> dict[str, list[Call]]:
    x, vector = d.f(4, 5, 6), d.i(0, 4, 7)
    rows, columns = d.i(-4, 4, 2, 3), d.i(0, 5, 3)
    unique = torch.tensor([2, 0, 3])
    return {
        "index_select.default": [_c(x, 1, d.i(0, 5, 3)), _c(x, -1, d.i(0, 6, 2))],
        "gather.default": [_c(x, 1, d.i(0, 5, 4, 2, 6)), _c(x, 0, d.i(0, 4, 2, 5, 3))],
        "index.Tensor": [
            _c(x, [rows]), _c(x, [None, columns]), _c(x, [rows, columns]), _c(x, [None, columns, columns]),
            _c(x, [columns % 4, None, columns]), _c(x, [vector.int()]), _c(x, [d.b(4)]), _c(x, [None, d.b(5, 6)]),
            _c(x, [d.b(4, 5)]), _c(x, [torch.zeros(4, dtype=torch.bool)]),
        ],
        "nonzero.default": [_c(d.i(0, 2, 4, 5)), _c(d.b(7)), _c(torch.zeros(2, 3)), _c(d.i(0, 3, 2, 3, 4))],
        "where.default": [_c(d.b(4, 5)), _c(d.b(7))],
        "masked_select.default": [_c(x, d.b(4, 5, 6)), _c(x, d.b(5, 1)), _c(d.f(6), d.b(3, 6))],
        "diagonal.default": [_c(d.f(4, 5)), _c(x, 1, 0, 2), _c(x, -2, 2, 1)],
        "unfold.default": [_c(d.f(2, 9), 1, 3, 2), _c(x, 0, 2, 1)],
        "as_strided.default": [_c(d.f(3, 4), [2, 2, 2], [4, 1, 2]), _c(d.f(9), [3, 3], [2, 1], 1)],
        "scatter.src": [_c(x, 0, torch.stack([unique[:, None].expand(3, 6)] * 5, 1), d.f(4, 5, 6))],
        "scatter.value": [_c(x, 1, d.i(0, 5, 4, 2, 6), 1.5)],
        "scatter_add.default": [_c(x, 1, d.i(0, 5, 4, 7, 6), d.f(4, 7, 6)), _c(x, 0, d.i(0, 4, 2, 3, 4), d.f(4, 5, 6))],
        "scatter_reduce.two": [_c(x, 1, d.i(0, 5, 4, 7, 6), d.f(4, 7, 6), r) for r in ("sum", "prod", "amax", "amin")],
        "index_put.default": [
            _c(x, [unique], d.f(3, 5, 6)), _c(x, [rows, columns], torch.tensor(1.0), True),
            _c(x, [vector], d.f(6), True),
            _c(x, [None, unique], torch.tensor(2.0)), _c(x, [unique, unique], d.f(3, 6)),
        ],
        "copy.default": [_c(x, d.f(5, 6)), _c(d.i(0, 5, 3), d.f(3) * 5)],
        "masked_scatter.default": [_c(x, d.b(4, 5, 6), d.f(120)), _c(x, d.b(5, 6), d.f(120))],
        "col2im.default": [
            _c(d.f(2, 8, 12), [4, 5], [2, 2], [1, 1], [0, 0], [1, 1]),
            _c(d.f(8, 9), [5, 5], [2, 2], [1, 1], [1, 1], [2, 2]),
        ],
        "bucketize.Tensor": [
            _c(d.f(3, 4), torch.tensor([-1.0, 0.0, 0.5])), _c(d.i(0, 4, 5), torch.arange(4), right=True),
        ],
        "searchsorted.Tensor": [
            _c(torch.tensor([-1.0, 0.0, 0.5]), d.f(3, 4)), _c(torch.arange(4), d.i(0, 4, 5), side="right"),
        ],
        "select_scatter.default": [_c(x, d.f(4, 6), 1, 2), _c(x, d.f(4, 5), -1, -1)],
        "slice_scatter.default": [_c(x, d.f(4, 2, 6), 1, 1, 3), _c(x, d.f(4, 5, 3), 2, 0, 6, 2), _c(x, d.f(4, 5, 6))],
        "topk.default": [_c(d.distinct(3, 8), 3), _c(d.distinct(8, 3), 2, 0, False)],
        "sort.default": [_c(d.distinct(3, 8)), _c(d.distinct(8, 3), 0, True)],
        "sort.stable": [_c(d.i(0, 3, 3, 8), stable=True, dim=1)],
        "argsort.default": [_c(d.distinct(3, 8))],
        "argsort.stable": [_c(d.i(0, 3, 3, 8), stable=True, dim=-1, descending=True)],
    }  # fmt: skip


def tensors(call: Call) -> Iterator[torch.Tensor]:
    """The tensors among the arguments of a call, in order."""
    yield from torch.utils._pytree.tree_leaves([v for v in torch.utils._pytree.tree_leaves(call) if torch.is_tensor(v)])


class Called(torch.nn.Module):
    """A module that calls an operator; the tensors among the arguments are its inputs."""

    def __init__(self, name: str, call: Call) -> None:
        super().__init__()
        *namespace, packet, overload = name.split(".")
        operators = getattr(torch.ops, namespace[0] if namespace else "aten")
        self.operator = getattr(getattr(operators, packet), overload)
        leaves, self.structure = torch.utils._pytree.tree_flatten(call)
        self.leaves = [None if torch.is_tensor(v) else (v,) for v in leaves]

    def forward(self, *inputs: torch.Tensor) -> Any:
        rest = iter(inputs)
        leaves = [next(rest) if v is None else v[0] for v in self.leaves]
        args, kwargs = torch.utils._pytree.tree_unflatten(leaves, self.structure)
        return self.operator(*args, **kwargs)
