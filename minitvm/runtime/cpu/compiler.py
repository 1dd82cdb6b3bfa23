"""Kernel source to object code, by Numba.

A kernel is the text of a Python module that defines `entry(args, thread, threads)`; here it becomes a relocatable
object with one exported symbol, the C function `void entry(int64* args, int64 thread, int64 threads)`. Numba types and
lowers it; its own execution engine is not involved, so machine code is generated once, as bytes that `loader` links.
"""

from __future__ import annotations

import linecache
import warnings
from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir
from numba.core import compiler, typed_passes, types, untyped_passes
from numba.core.codegen import CPUCodeLibrary
from numba.core.compiler_lock import global_compiler_lock
from numba.core.compiler_machinery import PassManager
from numba.core.errors import NumbaWarning
from numba.core.registry import cpu_target
from numba.core.targetconfig import ConfigStack

from ...errors import InternalError
from .loader import kernel_target_machine

__all__ = ["compile_kernel", "kernel_assembly"]

_ARGUMENT_TYPES = (types.CPointer(types.int64), types.int64, types.int64)
_INT64 = ir.IntType(64)
_C_SIGNATURE = ir.FunctionType(ir.VoidType(), [_INT64.as_pointer(), _INT64, _INT64])


class _ObjectLibrary(CPUCodeLibrary):
    """A code library that stops after optimisation: no execution engine gets to see its module."""

    def _finalize_final_module(self) -> None:
        self._finalized = True

    @property
    def module(self) -> llvm.ModuleRef:
        return self._final_module


class _KernelPipeline(compiler.CompilerBase):
    """The passes that a kernel needs. Numba's own pipeline has twenty more, for Python that kernels do not contain.

    Their bookkeeping was half of the compile time.
    """

    def define_pipelines(self) -> list[PassManager]:
        manager = PassManager("kernel")
        for step in (
            untyped_passes.TranslateByteCode,
            untyped_passes.FixupArgs,
            untyped_passes.IRProcessing,
            untyped_passes.ReconstructSSA,  # a name that is used twice with two types is two variables
            typed_passes.NopythonTypeInference,
            typed_passes.PreLowerStripPhis,
            typed_passes.NativeLowering,
            typed_passes.NoPythonBackend,
        ):
            manager.add_pass(step, step.__name__)
        manager.finalize()
        return [manager]


def _flags() -> compiler.Flags:
    flags = compiler.Flags()
    flags.no_compile = True
    flags.no_cpython_wrapper = True
    flags.no_cfunc_wrapper = True
    flags.boundscheck = False
    flags.error_model = "numpy"
    flags.fastmath = {"contract"}
    flags.forceinline = True
    flags.nrt = False
    return flags


def _define(source: str, entry: str) -> Any:
    """Run the module text and return its entry function; Numba's messages find the text in `linecache`."""
    filename = f"<kernel {entry}>"
    linecache.cache[filename] = (len(source), None, source.splitlines(True), filename)
    namespace: dict[str, Any] = {"__name__": f"minitvm_kernel_{entry}", "__file__": filename}
    exec(compile(source, filename, "exec"), namespace)
    return namespace[entry]


def numbered(source: str) -> str:
    return "\n".join(f"{n:4d}  {line}" for n, line in enumerate(source.split("\n"), 1))


def _optimised_module(source: str, entry: str) -> llvm.ModuleRef:
    function = _define(source, entry)
    typing_context, target_context = cpu_target.typing_context, cpu_target.target_context
    typing_context.refresh()
    target_context.refresh()
    flags = _flags()
    library = _ObjectLibrary(target_context.codegen(), entry)
    with ConfigStack().enter(flags.copy()):
        result = compiler.compile_extra(
            typing_context, target_context, function, _ARGUMENT_TYPES, types.void, flags, {}, library, _KernelPipeline
        )
        library.add_ir_module(_c_wrapper(library, target_context, result.fndesc, entry))
    library.finalize()
    for symbol in (*library.module.functions, *library.module.global_variables):
        if not symbol.is_declaration and symbol.name != entry:
            symbol.linkage = llvm.Linkage.internal
    return library.module


def _c_wrapper(library: _ObjectLibrary, target_context: Any, fndesc: Any, entry: str) -> ir.Module:
    """The exported C function: calls the Numba function (inlined) and drops its status, which is always success."""
    module = library.create_ir_module("c_wrapper")
    function_type = target_context.call_conv.get_function_type(fndesc.restype, fndesc.argtypes)
    callee = ir.Function(module, function_type, fndesc.llvm_func_name)
    wrapper = ir.Function(module, _C_SIGNATURE, entry)
    builder = ir.IRBuilder(wrapper.append_basic_block("entry"))
    target_context.call_conv.call_function(builder, callee, fndesc.restype, fndesc.argtypes, list(wrapper.args))
    builder.ret_void()
    return module


@global_compiler_lock
def compile_kernel(source: str, entry: str) -> bytes:
    """Object code for the kernel `entry` of the module text `source`.

    Raises `InternalError`, with the numbered source, when the text does not compile: generated source always should.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NumbaWarning)
            module = _optimised_module(source, entry)
        return kernel_target_machine().emit_object(module)
    except Exception as error:  # whatever it is, the source is at fault, and it was generated
        text = f"kernel {entry} does not compile\n{numbered(source)}\n{type(error).__name__}: {error}"
        raise InternalError(text) from error


@global_compiler_lock
def kernel_assembly(source: str, entry: str) -> str:
    """The machine code of a kernel as readable assembly: what to look at when a kernel is slow."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NumbaWarning)
        return kernel_target_machine().emit_assembly(_optimised_module(source, entry))
