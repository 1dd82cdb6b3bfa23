"""The memory of an interpreted program: flat arrays with a shadow cell per element, and views of them.

A `Memory` is a piece of storage: an argument, or one allocation of a buffer (one entry of its scope). A `View` is the
meaning of a buffer at some moment: shape, strides and offset in a memory, all plain integers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from minitvm import expr as x
from minitvm.errors import ExecutionError, InputError
from minitvm.tir import nodes as t

from ..domains.domain import Domain, stored
from .scalar import Environment, Evaluate, ScalarCompiler


class Memory:
    """Storage of elements of one dtype.

    `init[k]` tells whether element k has a value (None: not tracked). `writers` and `readers` are accesses inside
    parallel loops with which later ones may conflict; see `reference.meaning.shadow`. For asynchronous copies see
    `reference.meaning.flights`.
    """

    __slots__ = ("arriving", "data", "init", "leaving", "name", "readers", "scope", "writers")

    def __init__(self, name: str, data: np.ndarray, scope: str, init: bytearray | None) -> None:
        self.name, self.data, self.scope, self.init = name, data, scope, init
        self.writers: dict[int, Any] = {}
        self.readers: dict[int, Any] = {}
        self.arriving: dict[int, Any] = {}  # elements that asynchronous copies are to write, each with the copy
        self.leaving: dict[int, list[Any]] = {}  # and those that such copies may still read


class View:
    """A buffer's place in a memory: element (i, j) is `data[offset + i * strides[0] + j * strides[1]]`."""

    __slots__ = ("data", "memory", "offset", "shape", "strides")

    def __init__(self, memory: Memory, shape: tuple[int, ...], strides: tuple[int, ...], offset: int) -> None:
        self.memory, self.data = memory, memory.data
        self.shape, self.strides, self.offset = shape, strides, offset

    @property
    def extent(self) -> tuple[int, int]:
        """The first flat offset of the view, and the last one plus one."""
        if 0 in self.shape:
            return self.offset, self.offset
        reach = [(n - 1) * s for n, s in zip(self.shape, self.strides, strict=True)]
        return self.offset + sum(min(r, 0) for r in reach), self.offset + sum(max(r, 0) for r in reach) + 1

    def offsets(self) -> np.ndarray:
        """Return the flat offset of each element, in the view's shape."""
        total = np.full(self.shape, self.offset, np.int64)
        for axis, (n, s) in enumerate(zip(self.shape, self.strides, strict=True)):
            total += (np.arange(n) * s).reshape([-1 if k == axis else 1 for k in range(len(self.shape))])
        return total


def row_major(shape: Sequence[int]) -> tuple[int, ...]:
    """Return the strides of a dense array, in elements."""
    strides, step = [], 1
    for n in reversed(shape):
        strides.append(step)
        step *= n
    return tuple(reversed(strides))


def poison(size: int, dtype: x.DType, domain: Domain | None = None) -> np.ndarray:
    """Return storage that was not written yet: NaN, or a striking integer, so that errors show even without shadow."""
    if dtype.is_float:
        if domain is not None:
            return domain.poison(size, dtype)
        return np.full(size, np.nan, dtype.numpy)
    if dtype.is_bool:
        return np.ones(size, np.bool_)
    return np.full(size, int(dtype.max) // 3 * 2 + 1, dtype.numpy)


def allocate(name: str, shape: tuple[int, ...], dtype: x.DType, scope: str, shadow: bool,
             domain: Domain | None = None) -> View:  # fmt: skip
    """Return new, uninitialised, dense storage with one element per index of `shape`; the lanes of a dtype are
    ignored.
    """
    if any(n < 0 for n in shape):
        raise ExecutionError(f"{name} is allocated with a negative size: {shape}")
    size = int(np.prod(shape, dtype=np.int64)) if shape else 1
    memory = Memory(name, poison(size, dtype, domain), scope, bytearray(size) if shadow else None)
    return View(memory, shape, row_major(shape), 0)


Allocator = Callable[[Environment], View]


def allocator(compiler: ScalarCompiler, buffer: t.Buffer, shadow: bool) -> Allocator:
    """Return a closure that allocates a buffer, with its strides and elem_offset."""
    dims = [compiler.expr(d) for d in buffer.shape]
    strides = [compiler.expr(s) for s in buffer.strides]
    offset = compiler.expr(buffer.elem_offset)
    name, dtype, scope, domain = buffer.name, buffer.dtype, buffer.scope, compiler.domain

    def make(env: Environment) -> View:
        shape = tuple(int(d(env)) for d in dims)
        start = int(offset(env))
        if not strides and start == 0:
            return allocate(name, shape, dtype, scope, shadow, domain)
        steps = tuple(int(s(env)) for s in strides) or row_major(shape)
        return laid_out(name, shape, steps, start, dtype, scope, shadow, domain)

    return make


def laid_out(name: str, shape: tuple[int, ...], strides: tuple[int, ...], offset: int, dtype: x.DType, scope: str,
             shadow: bool, domain: Domain | None = None) -> View:  # fmt: skip
    """Return storage that is just large enough for a view with that layout."""
    view = View(Memory(name, np.empty(0), scope, None), shape, strides, offset)
    low, high = view.extent
    if low < 0:
        raise ExecutionError(f"{name} reaches {-low} elements before its data: strides {strides}, offset {offset}")
    memory = Memory(name, poison(high, dtype, domain), scope, bytearray(high) if shadow else None)
    return View(memory, shape, strides, offset)


def bind_dimensions(func: t.PrimFunc, args: Sequence[Any], sizes: Mapping[str, int] | None = None,
                    domain: Domain | None = None) -> dict[x.Var, Any]:  # fmt: skip
    """Return the scalar parameters and symbolic dimensions as given by the arguments; raises `InputError` on a misfit.

    `sizes` gives dimensions by name that the shapes do not determine. With a domain, floats are its elements.
    """
    if len(args) != len(func.params):
        names = ", ".join(p.name for p in func.params)
        raise InputError(f"{func.name} takes {len(func.params)} arguments ({names}), found {len(args)}")
    values: dict[x.Var, Any] = {}
    for param, arg in zip(func.params, args, strict=True):
        if isinstance(param, x.Var):
            values[param] = arg if domain and param.dtype.is_float else scalar_argument(param, arg)
        else:
            check_array(func, param, arg, stored(domain, param.dtype))
    if sizes:
        unbound = [v for p in func.buffers for d in p.shape for v in x.free_vars(d) if v not in values]
        values |= {v: int(sizes[v.name]) for v in unbound if v.name in sizes}
    pending = []
    for param, arg in zip(func.params, args, strict=True):
        if isinstance(param, t.Buffer):
            for axis, (dim, extent) in enumerate(zip(param.shape, arg.shape, strict=True)):
                if isinstance(dim, x.Var) and dim not in values:
                    values[dim] = int(extent)
                else:
                    pending.append((param, arg, axis, dim))
    for param, arg, axis, dim in pending:
        size = _dimension(dim, values)
        if size != arg.shape[axis]:
            reason = "" if isinstance(dim, x.IntImm) else f" ({dim} where " + _bound(dim, values) + ")"
            raise InputError(
                f"{func.name}: dimension {axis} of {param.name} does not fit\n"
                f"  wanted: {size}{reason}\n  found:  {arg.shape[axis]}, in an array of shape {arg.shape}"
            )
    return values


def _bound(dim: x.Expr, values: dict[x.Var, Any]) -> str:
    return ", ".join(f"{v.name} = {values[v]}" for v in x.free_vars(dim))


def _dimension(dim: x.Expr, values: dict[x.Var, Any]) -> int:
    if isinstance(dim, x.IntImm):
        return dim.value
    from .scalar import evaluate

    unknown = [v.name for v in x.free_vars(dim) if v not in values]
    if unknown:
        raise InputError(f"the dimension {dim} cannot be found: {', '.join(unknown)} is not a dimension of an argument")
    return int(evaluate(dim, {v: values[v] for v in x.free_vars(dim)}))


def scalar_argument(param: x.Var, arg: Any) -> Any:
    """Return a scalar argument as a value of its parameter's dtype."""
    if np.ndim(arg) != 0:
        raise InputError(f"{param.name} is a scalar of dtype {param.dtype}, found an array of shape {np.shape(arg)}")
    if param.dtype.is_float:
        return param.dtype.numpy.type(arg)
    value = int(arg)
    if value != arg or not param.dtype.min <= value <= param.dtype.max:
        raise InputError(f"{param.name}: {arg} is not a value of dtype {param.dtype}")
    return bool(value) if param.dtype.is_bool else value


def check_array(func: t.PrimFunc, param: t.Buffer, arg: Any, dtype: np.dtype) -> None:
    """Raise `InputError` unless the argument is an array of the parameter's rank and (stored) dtype."""
    if not isinstance(arg, np.ndarray):
        raise InputError(f"{func.name}: {param.name} takes a NumPy array, found {type(arg).__name__}")
    if arg.dtype != dtype:
        raise InputError(f"{func.name}: {param.name} has dtype {param.dtype}, found an array of {arg.dtype}")
    if arg.ndim != len(param.shape):
        shape = ", ".join(map(str, param.shape))
        raise InputError(f"{func.name}: {param.name} has shape ({shape}), found an array of shape {arg.shape}")


class Argument:
    """An array argument during a run: its view, and the caller's array to copy results to."""

    def __init__(
        self, param: t.Buffer, array: np.ndarray, strides: tuple[int, ...], offset: int, init: bool | None,
        domain: Domain | None = None,
    ) -> None:  # fmt: skip
        self.param, self.array = param, array
        dense = strides == row_major(array.shape) and offset == 0 and array.flags.c_contiguous
        shadow = init is not None
        if dense:
            cells = bytearray(b"\x01" if init else b"\x00") * array.size if shadow else None
            memory = Memory(param.name, array.reshape(-1), param.scope, cells)
            self.view = View(memory, array.shape, strides, 0)
            self.copied = False
            return
        self.view = laid_out(param.name, array.shape, strides, offset, param.dtype, param.scope, shadow, domain)
        places = self.view.offsets().reshape(-1)
        self.view.data[places] = array.reshape(-1)
        if init and self.view.memory.init is not None:
            np.frombuffer(self.view.memory.init, np.uint8)[places] = 1
        self.copied = True

    def write_back(self) -> None:
        """Copy the results into the caller's array, unless it was used in place."""
        if self.copied:
            self.array[...] = self.view.data[self.view.offsets()]


def integers(evaluators: Sequence[Evaluate], env: Environment) -> tuple[int, ...]:
    """Evaluate several integer expressions."""
    return tuple(int(f(env)) for f in evaluators)
