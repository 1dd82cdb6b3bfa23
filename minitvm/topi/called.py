"""The operators `call_tir` and `call_packed`: a loop program that you wrote or scheduled yourself, and a Python
function, as operators of a graph. The names are Relax's.

The parameters of the program are the operator's inputs, followed by its results: the caller allocates the results, and
the program writes them (destination passing). The values of its symbolic sizes follow from the shapes of the inputs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NoReturn

from .. import expr as ex
from .. import te
from ..errors import InputError, UnsupportedOperator, report
from ..te import Tensor
from ..tir.analysis.block_regions import buffers_written
from ..tir.analysis.first_access import read_before_writes
from ..tir.nodes import Block, Buffer, BufferStore, PrimFunc, root_block
from ..tir.script.printer import script
from ..tir.specialize import specialize
from .registry import TensorType, register
from .shapes import Dim, agree, dims, simple

Sizes = dict[ex.Var, Dim]


@register("call_tir")
def call_tir(*inputs: Tensor, func: PrimFunc, shapes: Any = None, tir_vars: Any = ()) -> Any:
    """Call the loop program `func` and return its results. Its first parameters are the inputs, and the others the
    results.

    `shapes` are the shapes of the results, one tuple each; you need them only if a result has a size that no input has.
    `tir_vars` are the values of the scalar parameters of `func`, in order. Raises `InputError` for inputs that do not
    fit, and for a function that writes an input.
    """
    require_callable(func)
    buffers = func.buffers
    count = len(buffers) - len(_results(func))
    if len(inputs) != count:
        inputs_text = f"{count} inputs ({_names(buffers[:count])})" if count else "no inputs"
        raise _misfit(func, f"{inputs_text}, as it writes {_names(buffers[count:])}", f"{len(inputs)}")
    sizes = _scalars(func, tir_vars)
    types = [(dims(tensor), tensor.dtype) for tensor in inputs]
    types += [(tuple(map(simple, s)), b.dtype) for s, b in zip(_declared(func, shapes), buffers[count:], strict=False)]
    own = dict(zip(buffers, types, strict=False))
    for buffer, (shape, dtype) in own.items():
        if buffer.dtype != dtype or buffer.ndim != len(shape):
            raise _misfit(func, f"{buffer.name}: {_type(buffer)}", _text(shape, dtype))
        sizes.update(
            {d: n for d, n in zip(buffer.shape, shape, strict=True) if isinstance(d, ex.Var) and d not in sizes}
        )
    for buffer, (shape, _) in own.items():
        sizes |= _solved(buffer, shape, sizes)
    values = {var: _of_dtype(dim, var.dtype) for var, dim in sizes.items()}
    for buffer, (shape, dtype) in own.items():
        expected = [_substituted(func, buffer, d, sizes, values) for d in buffer.shape]
        if not all(agree(a, b) for a, b in zip(shape, expected, strict=True)):
            raise _misfit(func, f"{buffer.name}: {_text(expected, dtype)}", _text(shape, dtype))
    written = {b: tuple(_substituted(func, b, d, sizes, values) for d in b.shape) for b in buffers if b not in own}
    bound = specialize(func, values, {**{b: _extents(shape) for b, (shape, _) in own.items()},
                                      **{b: _extents(shape) for b, shape in written.items()}})  # fmt: skip
    return te.extern_primfunc(inputs, bound)


def _types(*_: TensorType, types: Any, **__: Any) -> list[TensorType]:
    return [(tuple(map(simple, shape)), ex.DType(dtype)) for shape, dtype in types]


@register("call_packed", infer=_types)
def call_packed(*inputs: Any, func: str, types: Any) -> NoReturn:  # noqa: ARG001
    """Call the Python function that is registered as `func` (`global_functions`) and return its results.

    `types` are the (shape, dtype) of the results. The function is called with the arrays of the inputs and the results,
    and fills the results. As a te function this always raises `UnsupportedOperator`.
    """
    raise UnsupportedOperator(f"call_packed {func} is no tensor expression: a run calls a Python function")


def require_callable(func: Any) -> None:
    """Raise `InputError` unless a graph can call `func`: a loop program with dense parameters, the last of which it
    writes, and does not read first.
    """
    if not isinstance(func, PrimFunc):
        raise InputError(
            report(
                "call_tir calls a loop program",
                wanted="a tir.PrimFunc",
                found=type(func).__name__,
                tries=["te.create_prim_func(tensors), for tensor expressions", "b.call_te(fcompute, *values)"],
            )
        )
    root_block(func)
    for buffer in func.buffers:
        if buffer.strides or buffer.scope != "global" or not isinstance(buffer.elem_offset, ex.IntImm):
            raise _misfit(func, "dense parameters in global memory, without strides and offsets", repr(buffer))
    if not _results(func):
        raise _misfit(func, "a last parameter that the function writes: its result", "a function that writes none")
    for buffer in _results(func):
        stmt = read_before_writes(func.body, buffer)
        if stmt is not None:
            raise InputError(
                report(
                    f"a call of {signature(func)}",
                    program=script(func, mark={stmt: f"reads {buffer.name}"}, context=1),
                    wanted="results that the function writes before it reads them",
                    found=f"it reads {buffer.name}, whose memory holds arbitrary values before the call",
                    tries=[
                        f"with T.init(): {buffer.name}[...] = 0.0, in the block of a sum",
                        f"an input with the old values, from which the function computes {buffer.name}",
                    ],
                )
            )
    inputs = func.buffers[: len(func.buffers) - len(_results(func))]
    changed = [b for b in inputs if b in _written(func)]
    if changed:
        raise _misfit(
            func,
            "inputs that the function only reads, and then its results",
            f"it writes {_names(changed)}, which comes before {_names(set(inputs) - _written(func)) or 'a result'}",
        )


def signature(func: PrimFunc) -> str:
    """Return the name of a function and the types of its parameters, such as `f(A: float32[n, 4], B: float32[n])`."""
    params = (f"{p.name}: {_type(p) if isinstance(p, Buffer) else p.dtype}" for p in func.params)
    return f"{func.name}({', '.join(params)})"


def finds_its_sizes(func: PrimFunc) -> bool:
    """Return whether the shapes of a function's inputs and its scalar parameters determine all sizes in the shapes of
    its results.
    """
    results = _results(func)
    determined = {dim for buffer in func.buffers if buffer not in results for dim in buffer.shape}
    determined |= {param for param in func.params if isinstance(param, ex.Var)}
    return all(var in determined for buffer in results for dim in buffer.shape for var in ex.free_vars(dim))


def _results(func: PrimFunc) -> tuple[Buffer, ...]:
    """Return the result parameters of a function: all parameters after the last one that it does not write."""
    written = _written(func)
    count = len(func.buffers)
    while count and func.buffers[count - 1] in written:
        count -= 1
    return func.buffers[count:]


def _written(func: PrimFunc) -> set[Buffer]:
    """Return the buffers that a function writes, according to its stores and to the regions that its blocks declare."""
    written = {store.buffer for store in ex.find(func.body, BufferStore)}
    matched: dict[Buffer, Buffer] = {}
    for block in ex.find(func.body, Block):
        written.update(buffers_written(block))
        matched.update((match.buffer, match.source.buffer) for match in block.match_buffers)
    for view in [b for b in written if b in matched]:
        while view in matched:
            view = matched[view]
        written.add(view)
    return written


def _scalars(func: PrimFunc, tir_vars: Any) -> Sizes:
    """Return the values of the function's scalar parameters, by variable."""
    scalars = [p for p in func.params if isinstance(p, ex.Var)]
    values = tir_vars if isinstance(tir_vars, tuple | list) else (tir_vars,)
    if len(scalars) != len(values):
        names = f" ({_names(scalars)})" if scalars else ""
        raise _misfit(func, f"tir_vars with {len(scalars)} values{names}", f"{len(values)}")
    return {var: simple(value) for var, value in zip(scalars, values, strict=True)}


def _declared(func: PrimFunc, shapes: Any) -> Sequence[Any]:
    """Return the shapes of the results that the caller gave, or () if it gave none."""
    if shapes is None:
        return ()
    results = _results(func)
    listed = (shapes,) if all(isinstance(d, int | ex.Expr) for d in shapes) else tuple(shapes)
    if len(listed) != len(results):
        raise _misfit(func, f"shapes for {len(results)} results ({_names(results)})", f"{len(listed)}")
    return listed


def _solved(buffer: Buffer, shape: Sequence[Dim], sizes: Sizes) -> Sizes:
    """Return the values of sizes that follow from a constant dimension; for example, n is 3 if the dimension 4 * n is
    12.
    """
    solved: Sizes = {}
    for own, actual in zip(buffer.shape, shape, strict=True):
        quotient = ex.divided(own, actual) if isinstance(actual, int) and not isinstance(own, ex.IntImm) else None
        if quotient is not None and quotient[0] not in sizes:
            solved[quotient[0]] = quotient[1]
    return solved


def _substituted(func: PrimFunc, buffer: Buffer, dim: ex.Expr, sizes: Sizes, values: Mapping[ex.Var, ex.Expr]) -> Dim:
    """Return a dimension of a parameter, expressed in the sizes of the graph. Raises `InputError` if it contains a size
    that no input has.
    """
    if isinstance(dim, ex.Var) and dim in sizes:
        return sizes[dim]
    unknown = [v for v in ex.free_vars(dim) if v not in values]
    if unknown:
        raise InputError(
            report(
                f"a call of {signature(func)}: no input has the size {unknown[0].name}, which {buffer.name} needs",
                tries=["shapes=[...], the shapes of the results"],
            )
        )
    return simple(ex.substitute(dim, values))


def _of_dtype(dim: Dim, dtype: ex.DType) -> ex.Expr:
    return ex.const(dim, dtype) if isinstance(dim, int) else dim.astype(dtype)


def _extents(shape: Iterable[Dim]) -> tuple[ex.Expr, ...]:
    return tuple(map(ex.as_expr, shape))


def _type(buffer: Buffer) -> str:
    return _text(buffer.shape, buffer.dtype)


def _text(shape: Iterable[Any], dtype: ex.DType) -> str:
    return f"{dtype}[{', '.join(map(str, shape))}]"


def _names(items: Iterable[Any]) -> str:
    return ", ".join(item.name for item in items)


def _misfit(func: PrimFunc, wanted: str, found: str) -> InputError:
    """Return the error for a call that does not fit. It shows the function's signature."""
    return InputError(report(f"a call of {signature(func)}", wanted=wanted, found=found))
