"""Forms of Relax that are no operators of a graph, or several: `R.call_tir`, `R.match_cast`, `R.const`, ...

Each function gets the parser, the call in the text, and the values of the arguments.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ...errors import nearest
from ...expr import DType, Var, as_expr, structural_equal
from ...graph.nodes import CALL_TIR, MATCH_CAST, Value
from ...tir.nodes import PrimFunc
from ...tir.script.signatures import OpenDimension
from ...topi.called import finds_its_sizes
from ...topi.shapes import differ
from .language import Tensor

if TYPE_CHECKING:
    from .parser import RelaxParser

OPEN_DIMENSION = OpenDimension
TYPES = ("Tensor", "Tuple")
ATTRIBUTES = " attributes"  # not a name that a text can define


@dataclass(frozen=True, slots=True)
class Global:
    """A function of the module, by name; "" is the module itself."""

    name: str


def call_tir(
    p: RelaxParser, node: ast.Call, func: Any, args: Any, out_sinfo: Any = None, dtype: Any = None, tir_vars: Any = (),
    out_ty: Any = None,
) -> Any:  # fmt: skip
    """A call of a loop program of the module. Before 0.12, the types are a shape and `dtype`."""
    name = func.name if isinstance(func, Global) else func
    if isinstance(func, Global) and name not in p.functions:
        raise p.source.error(node, f"the module has no loop program {name}; {nearest(func.name, list(p.functions))}")
    if isinstance(name, str) and name not in p.functions:
        return call_dps_packed(p, node, name, args, out_sinfo, dtype, out_ty)
    called = name if isinstance(name, PrimFunc) else p.functions[name]
    types = _types(p, node, out_ty if out_sinfo is None else out_sinfo, dtype)
    shapes = None if finds_its_sizes(called) else tuple(shape for shape, _ in types)
    sizes = tir_vars if isinstance(tir_vars, tuple) else (tir_vars,)
    results = p.op(node, CALL_TIR, *_tensors(p, node, args), func=called, shapes=shapes, tir_vars=sizes)
    _check(p, node, results if isinstance(results, tuple) else (results,), types)
    return results


def call_dps_packed(
    p: RelaxParser, node: ast.Call, func: Any, args: Any, out_sinfo: Any = None, dtype: Any = None, out_ty: Any = None
) -> Any:
    """A call of a Python function that is registered under a name, or of a loop program of the module."""
    name = func.name if isinstance(func, Global) else func
    if name in p.functions:
        return call_tir(p, node, Global(name), args, out_sinfo, dtype, out_ty=out_ty)
    if isinstance(func, Global):
        raise p.source.error(node.args[0], f"{p.module} has no function {name}")
    types = _types(p, node, out_ty if out_sinfo is None else out_sinfo, dtype)
    named = tuple((tuple(shape), str(kind)) for shape, kind in types)
    return p.op(node, "call_packed", *_tensors(p, node, args), func=name, types=named)


def _types(p: RelaxParser, node: ast.Call, out: Any, dtype: Any) -> list[tuple[Any, DType]]:
    if isinstance(out, Tensor):
        out = (out,)
    if isinstance(out, tuple) and out and all(isinstance(kind, Tensor) for kind in out):
        return [(tuple(p.dim(d, node) for d in kind.shape or ()), DType(kind.dtype)) for kind in out]
    if isinstance(out, tuple) and dtype is not None:
        shapes = out if out and isinstance(out[0], tuple) else (out,)
        dtypes = dtype if isinstance(dtype, tuple) else (dtype,) * len(shapes)
        return [(tuple(p.dim(d, node) for d in shape), DType(kind)) for shape, kind in zip(shapes, dtypes, strict=True)]
    raise p.source.error(node, "a call needs the types of its results", wanted='R.Tensor((1, 128), dtype="float32")')


def _tensors(p: RelaxParser, node: ast.Call, args: Any) -> tuple[Value, ...]:
    return p.tensors(node, args if isinstance(args, tuple) else (args,))


def _check(p: RelaxParser, node: ast.Call, results: tuple[Value, ...], types: list[tuple[Any, DType]]) -> None:
    fits = len(results) == len(types) and all(
        value.dtype == dtype and value.ndim == len(shape) and not any(map(differ, value.shape, shape))
        for value, (shape, dtype) in zip(results, types, strict=True)
    )
    if not fits:
        declared = ", ".join(Value("", tuple(shape), dtype).type for shape, dtype in types)
        raise p.source.error(
            node, "the results have other types", wanted=", ".join(v.type for v in results), found=declared
        )


def match_cast(p: RelaxParser, node: ast.Call, value: Any, kind: Any) -> Any:
    """The value, whose dimensions are equal to those of the type. A size that has no value yet gets it here."""
    if not isinstance(value, Value) or not isinstance(kind, Tensor) or kind.shape is None:
        raise p.source.error(node, "match_cast needs a tensor and its type", wanted='R.Tensor((n, 4), "float32")')
    if DType(kind.dtype) != value.dtype or len(kind.shape) != value.ndim:
        raise p.source.error(node, "the value has another type", wanted=value.type, found=ast.unparse(node.args[1]))
    pairs = []
    for own, written in zip(value.shape, kind.shape, strict=True):
        dim = p.dim(written, node)
        if isinstance(dim, Var) and dim in p.unbound:
            p.unbound.discard(dim)
            p.env.update((name, own) for name, size in list(p.env.items()) if size is dim)
        elif not structural_equal(as_expr(own), as_expr(dim)):
            pairs.append((own, dim))
    if not pairs:
        return value
    return p.op(node, MATCH_CAST, value, dims=tuple(pairs))


def const(p: RelaxParser, node: ast.Call, value: Any, dtype: Any = "float32") -> Any:  # noqa: ARG001 (a form)
    """A constant of the text."""
    name, p.target = p.target, None
    return p.b.constant(np.asarray(value, DType(str(dtype)).numpy), name)


def shape(p: RelaxParser, node: ast.Call, dims: Any) -> Any:  # noqa: ARG001 (a form)
    """A shape: the tuple of its dimensions."""
    return dims


def tuple_of(p: RelaxParser, node: ast.Call, *items: Any) -> Any:  # noqa: ARG001 (a form)
    """A tuple."""
    return items


def flatten(p: RelaxParser, node: ast.Call, x: Any) -> Any:
    """All elements of a tensor in one dimension."""
    return p.op(node, "reshape", x, newshape=(-1,))


def square(p: RelaxParser, node: ast.Call, x: Any) -> Any:
    """x * x."""
    return p.op(node, "multiply", x, x)


def relu6(p: RelaxParser, node: ast.Call, x: Any) -> Any:
    """Each element, limited to the range from 0 to 6."""
    return p.op(node, "clip", x, a_min=0.0, a_max=6.0)


def full(p: RelaxParser, node: ast.Call, dims: Any, fill_value: Any, dtype: Any = None) -> Any:
    """A tensor of one value."""
    array = p.b.data(fill_value) if isinstance(fill_value, Value) else np.asarray(fill_value)
    if array is None:
        raise p.source.error(node, "the value of R.full is a constant")
    return p.op(node, "full", shape=dims, fill_value=array.item(), dtype=str(dtype or array.dtype))


def zeros(p: RelaxParser, node: ast.Call, dims: Any, dtype: Any = "float32") -> Any:
    """A tensor of zeros."""
    return full(p, node, dims, 0, dtype)


def ones(p: RelaxParser, node: ast.Call, dims: Any, dtype: Any = "float32") -> Any:
    """A tensor of ones."""
    return full(p, node, dims, 1, dtype)


def adaptive_avg_pool2d(
    p: RelaxParser, node: ast.Call, x: Any, output_size: Any = None, layout: str = "NCHW", out_layout: Any = None
) -> Any:
    """The mean of each channel. Other output sizes are refused."""
    if output_size not in (1, (1,), (1, 1)) or layout != "NCHW" or out_layout not in (None, "NCHW"):
        raise p.source.error(node, "only output_size=[1, 1] in the layout NCHW is supported")
    return p.op(node, "nn.global_avg_pool", x)


def batch_norm(
    p: RelaxParser, node: ast.Call, data: Any, gamma: Any, beta: Any, mean: Any, var: Any, axis: int = 1,
    epsilon: float = 1e-5, center: bool = True, scale: bool = True, momentum: float = 0.1, training: bool = False,
) -> Any:  # fmt: skip
    """The tuple (normalised data, mean, variance) of inference."""
    del momentum  # of training
    if training or not center or not scale:
        raise p.source.error(node, "only inference with beta and gamma is supported",
                             wanted="training=False, center=True, scale=True")  # fmt: skip
    normal = p.op(node, "nn.batch_norm", data, gamma, beta, mean, var, axis=axis, epsilon=epsilon)
    return normal, mean, var


def dropout(p: RelaxParser, node: ast.Call, x: Any, rate: float = 0.5) -> Any:  # noqa: ARG001 (a form)
    """The tuple (x, x): inference drops nothing."""
    return x, x


FORMS: Mapping[str, Callable[..., Any]] = {
    "call_tir": call_tir, "call_dps_packed": call_dps_packed, "match_cast": match_cast, "const": const,
    "shape": shape, "tuple": tuple_of, "prim_value": shape, "dtype": shape, "flatten": flatten, "square": square,
    "nn.relu6": relu6, "full": full, "zeros": zeros, "ones": ones, "nn.adaptive_avg_pool2d": adaptive_avg_pool2d,
    "nn.batch_norm": batch_norm, "nn.dropout": dropout,
}  # fmt: skip
