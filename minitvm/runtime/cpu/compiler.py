"""Kernel source to object code, by Numba.

A kernel is the text of a Python module that defines `entry(args, thread, threads)`; here it becomes a relocatable
object with one exported symbol, the C function `void entry(int64* args, int64 thread, int64 threads)`. Numba types and
lowers it; its own execution engine is not involved, so machine code is generated once, as bytes that `loader` links.
"""

from __future__ import annotations

import contextlib
import gc
import warnings
from collections import Counter
from collections.abc import Iterator
from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir
from numba.core import compiler, config, typed_passes, types, untyped_passes
from numba.core import ir as numba_ir
from numba.core.codegen import CPUCodeLibrary
from numba.core.compiler_lock import global_compiler_lock
from numba.core.compiler_machinery import AnalysisPass, PassManager, register_pass
from numba.core.errors import NumbaWarning, TypingError
from numba.core.registry import cpu_target
from numba.core.targetconfig import ConfigStack
from numba.core.types.functions import BaseFunction

from ...errors import InternalError
from ..vectors.source import defined, numbered
from . import operations  # noqa: F401 (what kernel source may call)
from .loader import kernel_target_machine

__all__ = ["compile_kernel", "kernel_assembly"]

_ARGUMENT_TYPES = (types.CPointer(types.int64), types.int64, types.int64)
_INT64 = ir.IntType(64)
_C_SIGNATURE = ir.FunctionType(ir.VoidType(), [_INT64.as_pointer(), _INT64, _INT64])


class _ObjectLibrary(CPUCodeLibrary):
    """A code library that stops after optimisation: its module is not passed to an execution engine."""

    def _finalize_final_module(self) -> None:
        self._finalized = True

    @property
    def module(self) -> llvm.ModuleRef:
        return self._final_module


class _LongLibrary(_ObjectLibrary):
    """One for a long kernel: LLVM leaves its loops as they are.

    What pays to be written out is written out in the source: micro-kernels, in a version for each part of a tile. Numba
    runs LLVM's pipeline on each function and on the whole module, and both unroll. A convolution of open sides, of 290
    lines with 35 multiply-adds, became 3,300 of them; without, it compiles in a third of the time, and runs as fast.
    """

    def _optimize_functions(self, ll_module: llvm.ModuleRef) -> None:
        ll_module.data_layout = self._codegen._data_layout

    def _optimize_final_module(self) -> None:
        options = llvm.create_pipeline_tuning_options(speed_level=3)
        options.loop_unrolling = options.slp_vectorization = False
        options.loop_vectorization = bool(config.LOOP_VECTORIZE)
        builder = llvm.create_pass_builder(self._codegen._tm, options)
        builder.getModulePassManager().run(self._final_module, builder)


# Kernels of known sizes are shorter: 74 lines in the median of HRNet, 212 at most.
_LONG = 240  # lines


class _TwoTypes(Exception):
    """A variable is assigned values of two types."""


@register_pass(mutates_CFG=False, analysis_only=True)
class _OneTypeEach(AnalysisPass):
    """Raises `_TwoTypes` unless every variable has the one type of all the values that it is assigned."""

    _name = "one_type_each"

    def __init__(self) -> None:
        AnalysisPass.__init__(self)

    def run_pass(self, state: Any) -> bool:
        assigned = [a for block in state.func_ir.blocks.values() for a in block.find_insts(numba_ir.Assign)]
        often = {name for name, count in Counter(a.target.name for a in assigned).items() if count > 1}
        for a in assigned:
            if a.target.name in often and self._type(a.value, state) != types.unliteral(state.typemap[a.target.name]):
                raise _TwoTypes(a.target.name)
        return False

    @staticmethod
    def _type(value: Any, state: Any) -> Any:
        if isinstance(value, numba_ir.Var):
            return types.unliteral(state.typemap[value.name])
        signature = state.calltypes.get(value)
        return None if signature is None else types.unliteral(signature.return_type)


# The passes that a kernel needs. Numba's own pipeline has twenty more, for Python that kernels do not contain: their
# bookkeeping was half of the compile time.
_BEFORE = (untyped_passes.TranslateByteCode, untyped_passes.FixupArgs, untyped_passes.IRProcessing)
_BEHIND = (typed_passes.PreLowerStripPhis, typed_passes.NativeLowering, typed_passes.NoPythonBackend)


class _KernelPipeline(compiler.CompilerBase):
    """The pipeline for kernels in which each variable has one type."""

    _passes: tuple[type, ...] = (*_BEFORE, typed_passes.NopythonTypeInference, _OneTypeEach, *_BEHIND)

    def define_pipelines(self) -> list[PassManager]:
        manager = PassManager("kernel")
        for step in self._passes:
            manager.add_pass(step, step.__name__)
        manager.finalize()
        return [manager]


class _RenamingPipeline(_KernelPipeline):
    """Splits a name that is used with two types into two variables. The renaming takes a sixth of the compile time."""

    _passes = (*_BEFORE, untyped_passes.ReconstructSSA, typed_passes.NopythonTypeInference, *_BEHIND)


@contextlib.contextmanager
def _types_of_calls_remembered() -> Iterator[None]:
    """Numba looks up the type of each call anew, which is a fifth of the compile time; a kernel has few distinct ones.

    Only below the compiler's lock: it changes Numba's class.
    """
    resolve = BaseFunction.get_call_type
    types: dict[Any, Any] = {}

    def get_call_type(self: Any, context: Any, args: Any, kws: Any) -> Any:
        if kws:
            return resolve(self, context, args, kws)
        key = (self, tuple(args))
        if key not in types:
            types[key] = resolve(self, context, args, kws)
        return types[key]

    BaseFunction.get_call_type = get_call_type
    try:
        yield
    finally:
        BaseFunction.get_call_type = resolve


@contextlib.contextmanager
def _without_collection() -> Iterator[None]:
    """Turns garbage collection off: Numba creates hundreds of thousands of objects and drops them only at the end."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


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


def _optimised_module(source: str, entry: str) -> llvm.ModuleRef:
    function = defined(source, entry)
    typing_context, target_context = cpu_target.typing_context, cpu_target.target_context
    typing_context.refresh()
    target_context.refresh()
    flags = _flags()
    lines = sum(not line.startswith("#") for line in source.splitlines())
    kind = _LongLibrary if lines > _LONG else _ObjectLibrary

    def compiled(pipeline: type[_KernelPipeline]) -> tuple[_ObjectLibrary, Any]:
        library = kind(target_context.codegen(), entry)
        return library, compiler.compile_extra(
            typing_context, target_context, function, _ARGUMENT_TYPES, types.void, flags, {}, library, pipeline
        )

    with ConfigStack().enter(flags.copy()), _types_of_calls_remembered(), _without_collection():
        try:
            library, result = compiled(_KernelPipeline)
        except (_TwoTypes, TypingError):
            library, result = compiled(_RenamingPipeline)
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
    """The machine code of a kernel as readable assembly, for finding out why a kernel is slow."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NumbaWarning)
        return kernel_target_machine().emit_assembly(_optimised_module(source, entry))


def assembly(source: str, entry: str, target: Any) -> str:  # noqa: ARG001 (kernels are compiled for this machine)
    """The part "assembly" of the back end: `kernel_assembly`."""
    return kernel_assembly(source, entry)
