"""Compile kernel source to object code with Numba.

A kernel is the text of a Python module that defines `entry(args, thread, threads)`. It is compiled to a relocatable
object with one exported symbol, the C function `void entry(int64* args, int64 thread, int64 threads)`. Numba provides
the LLVM code of each operation. Its front end, which accepts any Python, and its execution engine are not used, so
machine code is generated once and in one walk, as bytes that `loader` links.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import warnings
from collections.abc import Iterator

import llvmlite.binding as llvm
from llvmlite import ir
from numba.core import callconv, compiler, config, types
from numba.core.codegen import CPUCodeLibrary, JITCPUCodegen
from numba.core.compiler_lock import global_compiler_lock
from numba.core.errors import NumbaWarning
from numba.core.registry import cpu_target
from numba.core.targetconfig import ConfigStack

from ....errors import InternalError, Unsupported
from ....target import Target
from ....target.isas import NATIVE
from ...simd.vectors.float_formats import FUSES
from ...simd.vectors.front_end import Operations, Typed, translated
from ...simd.vectors.lanes import HALVES
from ...simd.vectors.source import defined, numbered
from . import machine_instructions, wasm_instructions  # noqa: F401 (what kernel source may call)
from .compiled_for import ISA
from .loader import cpu_description, kernel_target_machine, triple_of

__all__ = ["compile_kernel", "kernel_assembly", "kernel_module", "kernel_text"]

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
    """A code library for a long kernel, whose loops LLVM does not unroll.

    The source already contains unrolled micro-kernels, in a version for each partial tile. Numba runs LLVM's pipeline
    on each function and on the whole module, and both unroll. A convolution of unknown image size, with 290 lines and
    35 multiply-adds, grew to 3,300 multiply-adds. Without unrolling, it compiles in a third of the time and runs as
    fast.
    """

    def _optimize_functions(self, ll_module: llvm.ModuleRef) -> None:
        ll_module.data_layout = self._codegen._data_layout

    def _optimize_final_module(self) -> None:
        options = llvm.create_pipeline_tuning_options(speed_level=3)
        options.loop_unrolling = options.slp_vectorization = False
        options.loop_vectorization = bool(config.LOOP_VECTORIZE)
        builder = llvm.create_pass_builder(self._codegen._tm, options)
        builder.getModulePassManager().run(self._final_module, builder)


class _CrossCodegen(JITCPUCodegen):
    """Numba's code generator for another CPU: it has no execution engine, which could not run that code."""

    def __init__(self, isa: str) -> None:
        self._isa = isa
        super().__init__(f"for {isa}")

    def _init(self, llvm_module: llvm.ModuleRef) -> None:  # noqa: ARG002 (Numba's name)
        self._tm = kernel_target_machine(self._isa)
        self._target_data = self._tm.target_data
        self._data_layout = str(self._target_data)
        self._loopvect, self._opt_level = bool(config.OPT.is_opt_max), 3 if config.OPT.is_opt_max else 0

    def _create_empty_module(self, name: str) -> ir.Module:
        module = super()._create_empty_module(name)
        module.triple = triple_of(self._isa)
        return module


@functools.cache
def _codegen(isa: str) -> JITCPUCodegen:
    return cpu_target.target_context.codegen() if isa == NATIVE else _CrossCodegen(isa)


# Kernels of known sizes are shorter: 74 lines in the median of HRNet, 212 at most.
_LONG = 240  # lines


@contextlib.contextmanager
def _without_collection() -> Iterator[None]:
    """Within this scope, turn garbage collection off: Numba creates hundreds of thousands of objects and frees them
    only at the end.
    """
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
    flags.fastmath = False  # kernels call `fma` where a product and a sum are rounded once: so all compilers agree
    flags.forceinline = True
    flags.nrt = False
    return flags


@functools.cache
def _operations() -> Operations:
    """Return Numba's contexts for this machine, with the options for kernels."""
    context = cpu_target.target_context
    errors = callconv.create_error_model("numpy", context)
    return Operations(cpu_target.typing_context, context.subtarget(error_model=errors, fastmath=_flags().fastmath))


def _library(source: str, entry: str, isa: str) -> _ObjectLibrary:
    lines = sum(not line.startswith("#") for line in source.splitlines())
    return (_LongLibrary if lines > _LONG else _ObjectLibrary)(_codegen(isa), entry)


@contextlib.contextmanager
def _instructions_of(isa: str) -> Iterator[None]:
    """The features of a CPU that `machine_instructions` and the operations on vectors may use."""
    features = {name for name in cpu_description(isa)[1].split(",") if name.startswith("+")}
    on_x86 = triple_of(isa).startswith("x86_64")
    mark, fuses = ISA.set(isa), FUSES.set(not on_x86 or bool(features & {"+fma", "+fma4", "+avx512f"}))
    halves = HALVES.set(not on_x86 or "+f16c" in features)
    try:
        yield
    finally:
        ISA.reset(mark)
        FUSES.reset(fuses)
        HALVES.reset(halves)


def kernel_module(source: str, entry: str, isa: str = NATIVE) -> llvm.ModuleRef:
    """Return a kernel as an optimised LLVM module for an instruction set, this machine's if none is named.

    Its one exported symbol is the C function `entry`. Only machines with pointers of 64 bits are supported.
    """
    with _instructions_of(isa):
        return _optimised_module(source, entry, isa)


def _optimised_module(source: str, entry: str, isa: str) -> llvm.ModuleRef:
    library = _library(source, entry, isa)
    library.add_ir_module(_translated_module(library, source, entry, entry, cross=isa != NATIVE))
    library.finalize()
    for symbol in (*library.module.functions, *library.module.global_variables):
        if not symbol.is_declaration and symbol.name != entry:
            symbol.linkage = llvm.Linkage.internal
    return library.module


def _translated_module(
    library: _ObjectLibrary,
    source: str,
    entry: str,
    symbol: str,
    machine: tuple[str, str] | None = None,
    cross: bool = False,
) -> ir.Module:
    """Return the LLVM module of a kernel, in which nothing is optimised. Its C function is named `symbol`.

    `machine` is the triple and the data layout of the module, by default those of the library. Operations read the
    architecture from the triple to choose their instructions. `cross` says that the library is for another CPU.
    """
    function, meaning = defined(source, entry), _operations()
    meaning.refresh()
    context = meaning.target_context
    module = library.create_ir_module(symbol)
    if machine is not None:
        module.triple, module.data_layout = machine
    kernel = ir.Function(module, _C_SIGNATURE, symbol)
    builder = ir.IRBuilder(kernel.append_basic_block("entry"))
    parameters = [Typed(kind, value) for kind, value in zip(_ARGUMENT_TYPES, kernel.args, strict=True)]
    with ConfigStack().enter(_flags()), _without_collection(), context.push_code_library(library):
        translated(meaning, builder, function, source, parameters)
        if not cross:  # this links Numba's runtime library, which is for this machine
            context.post_lowering(module, library)
    return module


@global_compiler_lock
def kernel_text(source: str, entry: str, symbol: str, machine: tuple[str, str], fuses: bool = True) -> str:
    """Return a kernel as the text of an LLVM module for another machine, whose triple and data layout you give.

    The module defines the C function `symbol` and contains no optimised code. Its architecture is in the triple: it
    has no instruction of this machine. `fuses` says whether the machine has fused multiply-adds.
    """
    library = _ObjectLibrary(cpu_target.target_context.codegen(), symbol)
    mark = FUSES.set(fuses)
    try:
        return str(_translated_module(library, source, entry, symbol, machine))
    finally:
        FUSES.reset(mark)


@global_compiler_lock
def compile_kernel(source: str, entry: str, isa: str = NATIVE) -> bytes:
    """Return object code for the kernel `entry` of the module text `source`, for an instruction set.

    Raises `InternalError` with the numbered source if it does not compile, because generated source always should.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NumbaWarning)
            module = kernel_module(source, entry, isa)
        return kernel_target_machine(isa).emit_object(module)
    except Exception as error:  # whatever it is, the source is at fault, and it was generated
        text = f"kernel {entry} does not compile\n{numbered(source)}\n{type(error).__name__}: {error}"
        raise InternalError(text) from error


@global_compiler_lock
def kernel_assembly(source: str, entry: str, isa: str = NATIVE) -> str:
    """Return the machine code of a kernel as readable assembly, to find out why the kernel is slow."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NumbaWarning)
        return kernel_target_machine(isa).emit_assembly(kernel_module(source, entry, isa))


def assembly(source: str, entry: str, target: Target) -> str:
    """Return the assembly of a kernel for the target's instruction set. This is the part "assembly" of the back end.

    Raises `Unsupported` for machines with pointers of 32 bits.
    """
    if target.instruction_set.pointer_bits != 64:
        raise Unsupported(
            f"kernels for Numba have addresses of 64 bits, those of {target.brief} have 32\n"
            "  try:    --level kernel, which every target has"
        )
    return kernel_assembly(source, entry, target.isa)
