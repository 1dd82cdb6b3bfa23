"""Run kernel source in Python: the operations of `vectors.simd` on NumPy arrays, for each thread of a grid.

The oracle (`reference.meaning`) defines the operations, as it does for the simulated accelerator's instructions. The
oracle shares no code with the operations that Numba compiles, so the tests can compare the two. A scalar is a NumPy
scalar (int64 is a Python int), and a vector is a one-dimensional NumPy array. The memory is that of the process, so
addresses are real.
"""

from __future__ import annotations

import builtins
import ctypes
import functools
import re
import sys
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np

from .... import expr as ex
from . import simulated_warpgroups, simulated_warps
from .faults import Address, KernelFault
from .simulated_blocks import Thread, Waits, as_coroutine, begin, coordinates, current, run_block, xyz

SIMD, SHARED = "minitvm.machines.simd.vectors.simd", "minitvm.machines.cuda.runtime.operations"
_DTYPES: dict[str, Any] = {
    "b1": np.bool_, "bf16": ml_dtypes.bfloat16, **{f"f{n}": getattr(np, f"float{n}") for n in (16, 32, 64)},
    **{f"i{n}": getattr(np, f"int{n}") for n in (8, 16, 32, 64)},
    **{f"u{n}": getattr(np, f"uint{n}") for n in (8, 16, 32, 64)},
}  # fmt: skip
_TYPE = re.compile(r"([a-z]+\d+)(?:x(\d+))?")
_HALVES = (np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16))
_BOOL = np.dtype(np.bool_)

Run = Callable[..., None]
Defined = Callable[[Any], Callable[..., Any]]  # what an operation does with operands of a dtype


def simulated(source: str, entry: str) -> Run:
    """Return a function `run(blocks, threads, words, shared_bytes=0)` that runs the text of kernel `entry` for each
    thread.

    If a word is an `Address`, it gives the size of its parameter, and an access outside of it raises `KernelFault`.
    Blocks run one after the other. Threads of a block alternate at barriers and shuffles; without these, each thread
    runs to its end.
    """
    module, together = as_coroutine(source, f"<kernel {entry}>", OPERATIONS)
    namespace: dict[str, Any] = {"__name__": f"minitvm_simulated_{entry}"}
    namespace["__builtins__"] = {**vars(builtins), "__import__": _imported}
    exec(compile(module, f"<kernel {entry}>", "exec"), namespace)
    kernel = namespace[entry]

    def run(blocks: Sequence[int], threads: Sequence[int], words: Sequence[int], shared_bytes: int = 0) -> None:
        place = SimpleNamespace(gridDim=xyz(blocks), blockDim=xyz(threads), blockIdx=None, threadIdx=None)
        before, namespace["cuda"] = namespace.get("cuda"), place
        thread = functools.partial(kernel, *words)
        try:
            for point in coordinates(blocks):
                place.blockIdx = xyz(point)
                _arrays.clear()
                _arrays[_GIVEN] = _array(np.dtype(np.uint8), shared_bytes)
                with np.errstate(all="ignore"):
                    (run_block if together else _in_order)(thread, threads, place)
        finally:
            namespace["cuda"] = before

    return run


def _in_order(kernel: Callable[[], None], threads: Sequence[int], place: Any) -> None:
    """Run the threads of a block one after the other. Without barriers their order does not matter."""
    points = coordinates(threads)
    for number, point in enumerate(points):
        place.threadIdx = xyz(point)
        begin(Thread(number, len(points)))
        try:
            kernel()
        except KernelFault as fault:
            block = place.blockIdx
            raise KernelFault(f"tid={list(point)} ctaid={[block.x, block.y, block.z]}: {fault}") from None


def _imported(name: str, *about: Any) -> Any:
    """Return the module for `from NAME import ...` in kernel source. Each run sets `cuda`."""
    if name in (SIMD, SHARED):
        return _KernelNames()
    return SimpleNamespace(cuda=None) if name == "numba" else builtins.__import__(name, *about)


class _KernelNames:
    """The module from which kernel source imports its names."""

    def __getattr__(self, name: str) -> Any:
        if name in OPERATIONS:
            return OPERATIONS[name]
        kind, _, element = name.rpartition("_")
        if kind in _OF_TYPES and element in _DTYPES:
            return functools.partial(_OF_TYPES[kind], np.dtype(_DTYPES[element]))
        match = _TYPE.fullmatch(name)
        if match is None or match[1] not in _DTYPES:
            raise AttributeError(f"the simulator of CUDA kernels has no {name!r}")
        return functools.partial(_converted, np.dtype(_DTYPES[match[1]]), int(match[2] or 0))


# -- values


def _value(x: Any) -> Any:
    """Return a NumPy scalar in the form that kernel source uses: int64 becomes a Python int, because indices are Python
    ints.
    """
    return int(x) if isinstance(x, np.int64) else x


def _converted(dtype: Any, lanes: int, x: Any) -> Any:
    """Convert as NumPy's `astype` does. Integers below 32 bits are converted through wider ones, as in compiled
    code.
    """
    array = np.asarray(x)
    if array.dtype != dtype and array.dtype.kind in "fV" and dtype.kind in "iu" and dtype.itemsize < 4:
        array = array.astype(np.int32)
    array = array.astype(dtype)
    if lanes:
        return np.broadcast_to(array, (lanes,)).copy()
    return _value(array[()])


def _dtype(args: Sequence[Any]) -> Any:
    """Return the dtype of an operation: that of a vector operand, or else of the first operand that is not a
    literal.
    """
    for kind in (np.ndarray, np.generic):
        for x in args:
            if isinstance(x, kind):
                return x.dtype
    return np.dtype(np.bool_) if all(isinstance(x, bool) for x in args) else np.asarray(args[0]).dtype


# Scalars for which NumPy's result is that of the operation. Scalars of 16 bits are widened, and int64 are Python ints.
_OWN = frozenset(kind for kind in _DTYPES.values() if kind not in (np.float16, np.int64, ml_dtypes.bfloat16))


def _elementwise(defined: Defined, mask: bool = False) -> Callable[..., Any]:
    """Return an operation on operands of one dtype, which is also the result's. Floats of 16 bits are computed in
    float32.
    """
    meaning: Defined = functools.cache(lambda kind: defined(ex.DType(np.dtype(kind).name)))

    def apply(*args: Any) -> Any:
        kind = args[0].__class__
        if kind in _OWN and len(set(map(type, args))) == 1:  # most operations on scalars
            result = meaning(kind)(*args)
            same = result.__class__ is (np.bool_ if mask else kind)
            return result if same else np.asarray(result).astype(np.bool_ if mask else kind)[()]
        dtype = _dtype(args)
        if dtype in _HALVES:
            operands = [np.asarray(x).astype(dtype).astype(np.float32) for x in args]
        else:
            operands = [x if getattr(x, "dtype", None) is dtype else np.asarray(x).astype(dtype) for x in args]
        result = np.asarray(meaning(operands[0].dtype.type)(*operands))
        wanted = _BOOL if mask else dtype
        if result.dtype is not wanted or result is operands[0]:
            result = result.astype(wanted)
        return result if result.ndim else _value(result[()])

    return apply


# -- what operations mean, by the oracle's definitions of operators and intrinsics


def _operator(kind: type[ex.BinaryOp]) -> Defined:
    """Return the definition of an operation that is an operator of expressions."""

    def defined(dtype: ex.DType) -> Callable[..., Any]:
        from minitvm.reference.meaning.operations import on_arrays

        operator = on_arrays(kind, dtype)
        return lambda a, b: operator(a, b, None)

    return defined


def _division(kind: type[ex.BinaryOp]) -> Defined:
    """Return the definition of a division. Dividing an integer by 0 gives 0 in kernel source, and is undefined in
    expressions.
    """

    def defined(dtype: ex.DType) -> Callable[..., Any]:
        divide = _operator(kind)(dtype)
        if dtype.is_float:
            return divide
        return lambda a, b: np.where(b == 0, 0, divide(a, np.where(b == 0, 1, b)))

    return defined


def _intrinsic(name: str, integers: Callable[..., Any] | None = None) -> Defined:
    """Return the definition of an operation that is an intrinsic of expressions. `integers` defines it for integers."""

    def defined(dtype: ex.DType) -> Callable[..., Any]:
        from minitvm.reference.meaning.intrinsics import meaning

        return meaning(name, dtype, dtype) if integers is None or dtype.is_float else integers

    return defined


def _shift(name: str) -> Defined:
    """Return the definition of a shift. A negative amount counts as all bits in kernel source, and is undefined in
    expressions.
    """

    def defined(dtype: ex.DType) -> Callable[..., Any]:
        shift = _intrinsic(name)(dtype)
        return lambda a, b: shift(a, np.where(b < 0, dtype.bits, b))

    return defined


def _dot4_add(dtype: ex.DType) -> Callable[..., Any]:
    dot4 = _intrinsic("dot4_u8i8")(dtype)
    return lambda a, b, c: dot4(a, b) + c


def _dot2(c: Any, a: Any, b: Any) -> Any:
    from minitvm.reference.meaning.intrinsics import dot2_bf16

    return dot2_bf16(c, a, b)


def _tf32(x: Any) -> Any:
    """Return the word of a float32 rounded to 10 bits of mantissa."""
    from minitvm.reference.meaning.intrinsics import round_tf32

    return round_tf32(x).view(np.uint32)


def _plainly(function: Callable[..., Any]) -> Defined:
    """Return the definition of an operation that only kernel source has, and that is the same for each dtype."""
    return lambda _: function


def _zeros(leading: bool) -> Callable[..., Any]:
    """Return a function that counts the zero bits above (or below) all one bits. The result for 0 is the width."""

    def apply(x: Any) -> Any:
        bits = 8 * x.dtype.itemsize
        words = np.atleast_1d(x).astype(object) % 2**bits
        counts = [bits - int(w).bit_length() if leading or not w else (w & -w).bit_length() - 1 for w in words]
        return np.array(counts).reshape(x.shape)

    return apply


def _same(x: Any) -> Any:
    return x


def _always(truth: bool) -> Callable[[Any], Any]:
    return lambda x: np.full(x.shape, truth)


_ELEMENTWISE: dict[str, Defined] = {
    **{name: _intrinsic(name) for name in (
        "exp", "exp2", "exp10", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "asin", "acos", "atan", "sinh",
        "cosh", "tanh", "asinh", "acosh", "atanh", "sqrt", "rsqrt", "erf", "sigmoid", "pow", "atan2", "hypot", "fmod",
        "copysign", "popcount", "fma", "dot4_u8i8")},
    **{name: _intrinsic(own, _same) for name, own in (
        ("floor", "floor"), ("ceil", "ceil"), ("trunc", "trunc"), ("rint", "nearbyint"), ("round_away", "round"))},
    "absolute": _intrinsic("abs"), "invert": _intrinsic("bitwise_not"), "bitand": _intrinsic("bitwise_and"),
    "bitor": _intrinsic("bitwise_or"), "bitxor": _intrinsic("bitwise_xor"), "shl": _shift("shift_left"),
    "shr": _shift("shift_right"), "add": _operator(ex.Add), "sub": _operator(ex.Sub), "mul": _operator(ex.Mul),
    "maximum": _operator(ex.Max), "minimum": _operator(ex.Min), "div": _division(ex.Div), "truncdiv": _division(ex.Div),
    "truncmod": _division(ex.Mod), "floordiv": _division(ex.FloorDiv), "floormod": _division(ex.FloorMod),
    "neg": _plainly(np.negative), "sign": _plainly(np.sign), "expm1": _plainly(np.expm1),
    "max_select": _plainly(lambda a, b: np.where(a > b, a, b)), "clz": _plainly(_zeros(True)),
    "min_select": _plainly(lambda a, b: np.where(a < b, a, b)), "ctz": _plainly(_zeros(False)), "dot4_add": _dot4_add,
}  # fmt: skip
_TESTS: dict[str, Defined] = {
    "lt": _operator(ex.LT), "le": _operator(ex.LE), "gt": _operator(ex.GT), "ge": _operator(ex.GE),
    "eq": _operator(ex.EQ),
    "ne": _operator(ex.NE), "isnan": _intrinsic("isnan", _always(False)), "isinf": _intrinsic("isinf", _always(False)),
    "isfinite": _intrinsic("isfinite", _always(True)),
}  # fmt: skip


# -- memory


class Pointer:
    """A pointer to elements of a dtype: `length` elements if known, in memory that `owner` keeps alive.

    `name` describes the memory in messages.
    """

    def __init__(self, address: int, dtype: Any, length: int | None = None, owner: Any = None, name: str = "") -> None:
        self.address, self.dtype, self.length, self.owner = int(address), dtype, length, owner
        self.name = name or "an array"
        self._whole: Any = None  # a view of all elements, where their number is known

    def elements(self, index: Any, count: int) -> Any:
        """Return a view of `count` elements. Bools are stored as bytes."""
        size, index = self.dtype.itemsize, int(index)
        if self.length is not None and not 0 <= index <= self.length - count:
            raise KernelFault(
                f"elements {index} to {index + count - 1} of {self.name} of {self.length}, at byte {index * size}"
            )
        if self._whole is None:
            first, room = (index, count) if self.length is None else (0, self.length)
            memory = (ctypes.c_uint8 * (size * room)).from_address(self.address + first * size)
            view = np.frombuffer(memory, np.uint8 if self.dtype == bool else self.dtype)
            if self.length is None:
                return view
            self._whole = view
        return self._whole[index : index + count]

    def __getitem__(self, index: Any) -> Any:
        return _value(self.elements(index, 1).astype(self.dtype, copy=False)[0])

    def __setitem__(self, index: Any, value: Any) -> None:
        self.elements(index, 1)[0] = value


_ALIGNMENT = 1024  # bytes, of what a launch gives a block
_arrays: dict[Any, Any] = {}  # what the block that runs shares, by the line that declares it
_GIVEN = "given"  # and what the launch gave it


def _pointer(dtype: Any, word: int) -> Pointer:
    if not isinstance(word, Address) or word.nbytes is None:
        return Pointer(word, dtype)
    if dtype not in word.pointers:  # all threads have the same
        length = word.nbytes // dtype.itemsize
        word.pointers[dtype] = Pointer(word, dtype, length, None, f"parameter {word.parameter}, {dtype}")
    return word.pointers[dtype]


def _scalar(dtype: Any, word: int) -> Any:
    if dtype.kind not in "fV":
        return _converted(dtype, 0, word)
    bits = np.array([int(word) % 2**64], np.uint64).view(np.uint8)[: dtype.itemsize]
    return np.frombuffer(bits.tobytes(), dtype)[0]


def _array(dtype: Any, size: int) -> Pointer:
    room = np.full(size * dtype.itemsize + _ALIGNMENT, 0xA5, np.uint8)  # as if never written
    return Pointer(-(-room.ctypes.data // _ALIGNMENT) * _ALIGNMENT, dtype, size, room)


def _shared(dtype: Any, size: int) -> Pointer:
    line = sys._getframe(1).f_lineno
    if line not in _arrays:
        _arrays[line] = _array(dtype, size)
    found: Pointer = _arrays[line]
    return found


def _dynamic(dtype: Any, offset: int, size: int) -> Pointer:
    """Return a part of the shared storage that the launch gives each block."""
    given = _arrays[_GIVEN]
    if offset + size * dtype.itemsize > given.length:
        raise KernelFault(
            f"{size} {dtype} of shared storage from byte {offset} on: the launch gives a block {given.length} bytes"
        )
    return Pointer(given.address + offset, dtype, size, given, "a shared array")


def _bits(dtype: Any, x: Any) -> Any:
    array = np.asarray(x)
    result = np.ascontiguousarray(array).reshape(-1).view(dtype).reshape(array.shape)
    return result if result.ndim else _value(result[()])


_OF_TYPES: dict[str, Callable[..., Any]] = {
    "pointer": _pointer, "scalar": _scalar, "stack": _array, "shared": _shared, "dynamic": _dynamic, "as": _bits,
}  # fmt: skip


def _load(a: Pointer, index: Any, lanes: int) -> Any:
    return a.elements(index, lanes).astype(a.dtype)


def _load_words(a: Pointer, index: Any, words: int) -> Any:
    return a.elements(index, 4 * words).view(np.int32).copy()


def _load_whole(a: Pointer, index: Any, lanes: int) -> Any:
    _check_whole(a, index, lanes)
    return _load(a, index, lanes)


def _check_whole(a: Pointer, index: Any, lanes: int) -> None:
    size = a.dtype.itemsize
    if (a.address + int(index) * size) % (size * lanes):
        raise KernelFault(f"a vector of {lanes} {a.dtype} at a place that its size does not divide")


def _store(a: Pointer, index: Any, value: Any) -> None:
    a.elements(index, len(value))[:] = value


def _store_whole(a: Pointer, index: Any, value: Any) -> None:
    _check_whole(a, index, len(value))
    _store(a, index, value)


def _gather(a: Pointer, places: Any, mask: Any = None, other: Any = 0) -> Any:
    chosen = np.ones(len(places), bool) if mask is None else mask
    rest = np.broadcast_to(np.asarray(other).astype(a.dtype), len(places))
    return np.array([a[p] if m else r for p, m, r in zip(places, chosen, rest, strict=True)], a.dtype)


def _scatter(a: Pointer, places: Any, value: Any, mask: Any = None) -> None:
    chosen = np.ones(len(places), bool) if mask is None else mask
    for place, x, m in zip(places, value, chosen, strict=True):
        if m:
            a[place] = x


def _load_masked(a: Pointer, index: Any, mask: Any, other: Any = 0) -> Any:
    return _gather(a, int(index) + np.arange(len(mask)), mask, other)


def _store_masked(a: Pointer, index: Any, value: Any, mask: Any) -> None:
    _scatter(a, int(index) + np.arange(len(mask)), value, mask)


# -- asynchronous copies: as late as they may come


def _groups() -> list[list[Callable[[], None]]]:
    """Return the unfinished copies of a thread, in groups of which the last is still open."""
    groups: list[list[Callable[[], None]]] = current().under_way.setdefault("copies", [[]])
    return groups


def _async_copy(to: Pointer, at: Any, source: Pointer, place: Any, lanes: int, holds: Any = True) -> None:
    if lanes * to.dtype.itemsize not in (4, 8, 16):
        raise KernelFault(f"an asynchronous copy of {lanes} {to.dtype}")
    for pointer, index in ((to, at), (source, place)) if holds else ((to, at),):
        _check_whole(pointer, index, lanes)
    value = source.elements(place, lanes).copy() if holds else np.zeros(lanes, to.dtype)
    to.elements(at, lanes)
    _groups()[-1].append(lambda: to.elements(at, lanes).__setitem__(slice(None), value))


def _async_commit() -> None:
    _groups().append([])


def _async_wait(pending: int) -> None:
    groups = _groups()
    done = max(0, len(groups) - 1 - pending)
    for group in groups[:done]:
        for arrive in group:
            arrive()
    del groups[:done]


# -- warps


def _ldmatrix(count: int, trans: bool, s: Pointer, index: Any) -> Waits:
    if (s.address + int(index) * s.dtype.itemsize) % 16:
        raise KernelFault("ldmatrix of a row that does not begin at a multiple of 16 bytes")
    row = s.elements(index, 8).view(np.uint16).copy()
    return (yield from simulated_warps.ldmatrix(row, count, trans))


def _mma(kind: str, a: Any, b: Any, c: Any) -> Waits:
    return (yield from simulated_warps.mma_16x8x16((*a, *b, *c), kind))


def _mma_tf32(a: Any, b: Any, c: Any) -> Waits:
    return (yield from simulated_warps.mma_16x8x8((*a, *b, *c)))


# -- lanes


def _ramp(base: Any, stride: Any, lanes: int) -> Any:
    dtype = _dtype((base,))
    return np.asarray(base).astype(dtype) + np.arange(lanes, dtype=dtype) * np.asarray(stride).astype(dtype)


def _select(mask: Any, a: Any, b: Any) -> Any:
    dtype = _dtype((a, b))
    result = np.where(mask, np.asarray(a).astype(dtype), np.asarray(b).astype(dtype))
    return result if result.ndim else _value(result[()])


def _folded(function: Callable[[Any, Any], Any]) -> Callable[[Any], Any]:
    """Return a function that combines halves of a vector, as compiled code does. An odd vector keeps its middle lane
    for the next step.
    """

    def reduce(v: Any) -> Any:
        while len(v) > 1:
            low = len(v) // 2
            high = len(v) - low
            v = np.concatenate([function(v[:low], v[high:]), v[low:high]])
        return _value(v[0])

    return reduce


OPERATIONS: dict[str, Callable[..., Any]] = {
    **{name: _elementwise(defined) for name, defined in _ELEMENTWISE.items()},
    **{name: _elementwise(defined, mask=True) for name, defined in _TESTS.items()},
    "load": _load, "load_words": _load_words, "load_whole": _load_whole, "store": _store, "store_whole": _store_whole,
    "gather": _gather, "lookup": _gather, "scatter": _scatter, "ramp": _ramp,
    "load_masked": _load_masked, "store_masked": _store_masked,
    "async_copy": _async_copy, "async_copy_if": _async_copy, "async_commit": _async_commit, "async_wait": _async_wait,
    **{f"ldmatrix_x{n}{'_trans' if t else ''}": functools.partial(_ldmatrix, n, t)
       for n in (1, 2, 4) for t in (False, True)},
    **{f"mma_16x8x16_{kind}": functools.partial(_mma, kind) for kind in ("f16", "bf16")},
    "mma_16x8x8_tf32": _mma_tf32, "tf32": _tf32,
    **simulated_warpgroups.operations(range(8, 257, 8)),
    "broadcast": lambda x, lanes: np.full(lanes, x, _dtype((x,))), "select": _select,
    "dot2_bf16": _dot2, "first": lambda n, lanes: np.arange(lanes) < int(n),
    "shuffle": lambda a, b, *picks: np.concatenate([a, b])[list(picks)],
    "concat": lambda *vectors: np.concatenate(vectors), "lanes": lambda v, start, n: v[start : start + n].copy(),
    "extract": lambda v, i: _value(v[int(i)]),
    "insert": lambda v, i, x: np.where(np.arange(len(v)) == int(i), np.asarray(x).astype(v.dtype), v),
    **{name: functools.partial(simulated_warps.shuffle, name) for name in (
        "warp_shuffle", "warp_shuffle_up", "warp_shuffle_down", "warp_shuffle_xor")},
    "warp_active": simulated_warps.active,
    **{f"reduce_{n}": _folded(_elementwise(_ELEMENTWISE[f])) for n, f in (
        ("add", "add"), ("mul", "mul"), ("max", "maximum"), ("min", "minimum"), ("and", "bitand"), ("or", "bitor"))},
}  # fmt: skip
