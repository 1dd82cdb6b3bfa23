"""Running a lowered module by itself: kernels compiled and called through ctypes, no executable, no thread team."""

from __future__ import annotations

import ctypes
import re
import struct
from typing import Any

import numpy as np
import pytest

from minitvm.codegen.numba_cpu import generate
from minitvm.expr import IntImm, SizeVar, Var, substitute
from minitvm.runtime.cpu.compiler import compile_kernel
from minitvm.runtime.cpu.loader import load_kernel
from minitvm.tir.nodes import Allocate, Buffer, IRModule, KernelCall, PrimFunc, Seq, Stmt
from minitvm.tir.transform import lower

_C_TYPE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)


class CompiledModule:
    """The kernels of a lowered module, and its host function interpreted: `self(*params)` runs in place."""

    def __init__(self, module: IRModule, original: PrimFunc, target: Any = None) -> None:
        self.host = next(f for _, f in module.items() if f.attrs.get("host"))
        self.original = original
        self.sources = {n: generate(f, target) for n, f in module.items() if not f.attrs.get("host")}
        # One symbol a process: kernels of different tests have the same names.
        self.loaded = {n: load_kernel(compile_kernel(text, n), n) for n, text in self.sources.items()}
        self.functions = {n: _C_TYPE(kernel.address) for n, kernel in self.loaded.items()}

    def __call__(self, *params: Any, threads: int = 1) -> None:
        places: dict[Any, Any] = dict(zip(self.host.params, params, strict=True))
        for before, value in zip(self.original.params, params, strict=True):
            if isinstance(before, Buffer):
                self._bind_shape(before, value, places)
        self._run(self.host.body, places, threads)

    def _bind_shape(self, buffer: Buffer, array: np.ndarray, places: dict[Any, Any]) -> None:
        for dim, size in zip(buffer.shape, array.shape, strict=True):
            if isinstance(dim, Var):
                places[dim] = size

    def _run(self, stmt: Stmt, places: dict[Any, Any], threads: int) -> None:
        if isinstance(stmt, Seq):
            for part in stmt.stmts:
                self._run(part, places, threads)
        elif isinstance(stmt, Allocate):
            size = self._number(stmt.buffer.shape[0], places)
            room = np.frombuffer(bytearray(b"\xa5" * max(1, size * stmt.buffer.dtype.bytes)), np.uint8)
            self._run(stmt.body, {**places, stmt.buffer: room}, threads)
        else:
            assert isinstance(stmt, KernelCall)
            table = (ctypes.c_int64 * max(1, len(stmt.args)))(*(self._argument(a, places) for a in stmt.args))
            for thread in range(threads if stmt.parallel else 1):
                self.functions[stmt.kernel](table, thread, threads if stmt.parallel else 1)

    def _argument(self, argument: Any, places: dict[Any, Any]) -> int:
        value = places[argument] if argument in places else self._number(argument, places)
        if isinstance(value, np.ndarray):
            return value.ctypes.data
        if isinstance(argument, Var) and argument.dtype.is_float:
            code = {16: "e", 32: "f", 64: "d"}[argument.dtype.bits]
            return int.from_bytes(struct.pack("<" + code, float(value)), "little", signed=argument.dtype.bits == 64)
        return int(value)

    def _number(self, e: Any, places: dict[Any, Any]) -> int:
        from minitvm.tir.transform.simplify import fold

        values = {v: IntImm(int(x), v.dtype) for v, x in places.items() if isinstance(v, SizeVar | Var)}
        result = fold(substitute(e, values), {})
        assert isinstance(result, IntImm), f"{e} is not a number here"
        return result.value


@pytest.fixture
def compiled() -> Any:
    """`compiled(func, target=None)` lowers, generates and compiles a level-3 function."""

    def build(func: PrimFunc, target: Any = None) -> CompiledModule:
        name = re.sub(r"\W", "_", func.name)
        return CompiledModule(lower(func, target, name), func, target)

    return build
