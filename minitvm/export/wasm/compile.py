"""An executable as a WebAssembly module, by LLVM alone: no linker, no C library."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import llvmlite.binding as llvm

from ... import executable as exe
from ...errors import InternalError
from ...machines.cpu.runtime.compiler import kernel_text
from ...target.isas import find_isa
from .object_file import read_object
from .program import EXPORTS, StepProgram
from .shared_kernels import SYMBOL, share

_ISA = find_isa("wasm")
# Beyond those of the target: conversions of large floats to integers that do not trap, and extensions of signs.
_FEATURES = f"{_ISA.attributes},+nontrapping-fptoint,+sign-ext,+mutable-globals"
HOST_FUNCTIONS = ("fmod", "fmodf")  # those of the C library that JavaScript provides: remainders of long divisions

_WHOLE = "threaded_kernel"  # a kernel with the arguments `thread` and `threads`
_ALONE = f"""
declare void @{_WHOLE}(ptr, i64, i64)

define void @{SYMBOL}(ptr %arguments) {{
  call void @{_WHOLE}(ptr %arguments, i64 0, i64 1)
  ret void
}}
"""

_STACK_ARRAY = re.compile(r"= alloca (?:\[(\d+) x )?(?:<(\d+) x )?(i\d+|half|float|double|ptr)[\]>, ]")
_BITS = {"half": 16, "float": 32, "double": 64, "ptr": 32}
_GUARD_BYTES = 4096  # for what LLVM puts on the stack besides the arrays in the text


@dataclass(frozen=True, slots=True)
class WasmModule:
    """A WebAssembly module: its bytes, and the sizes in bytes of its data, which begin at address 0, and its stack."""

    code: bytes
    data_bytes: int
    stack_bytes: int


@functools.cache
def _machine(relaxed: bool) -> llvm.TargetMachine:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    features = _FEATURES if relaxed else _FEATURES.replace("+relaxed-simd", "-relaxed-simd")
    target = llvm.Target.from_triple(_ISA.triple)
    return target.create_target_machine(cpu=_ISA.cpu, features=features, opt=3, reloc="static", codemodel="default")


def compile_modules(
    executable: exe.Executable, kinds: Sequence[bool], progress: Callable[[int, int, str], None] | None = None
) -> tuple[list[WasmModule], dict[str, Any]]:
    """Compile the kernels and steps of an executable: a module for each of `kinds`, with relaxed SIMD or without it.

    The second result describes the functions of the modules for JavaScript, as JSON. `progress(done, total, name)` is
    called after each kernel. Raises `Unsupported` for an executable with steps or kernels of other machines.
    """
    machine = _ISA.triple, str(_machine(True).target_data)
    jobs = list(dict.fromkeys((kernel.source, kernel.entry) for kernel in executable.kernels))
    texts: list[list[str]] = [[] for _ in kinds]
    for done, (source, entry) in enumerate(jobs):
        for relaxed, kernels in zip(kinds, texts, strict=True):
            kernels.append(str(_optimised(_alone(kernel_text(source, entry, _WHOLE, machine, relaxed)), relaxed)))
        if progress is not None:
            progress(done + 1, len(jobs), entry)
    modules = []
    for relaxed, kernels in zip(kinds, texts, strict=True):
        functions, calls = share(kernels)
        by_job = dict(zip(jobs, calls, strict=True))
        program = StepProgram(executable, [by_job[k.source, k.entry] for k in executable.kernels], *machine)
        draft = _optimised(_parsed(str(program.module)), relaxed)
        for text in functions:
            draft.link_in(_parsed(text))
        modules.append(_module(draft, relaxed))
    return modules, program.description()


def _parsed(text: str) -> llvm.ModuleRef:
    module = llvm.parse_assembly(text)
    module.verify()
    return module


def _alone(text: str) -> llvm.ModuleRef:
    """The module of a kernel with a function `SYMBOL` that calls it as the only thread."""
    module = _parsed(text)
    head = f'target datalayout = "{module.data_layout}"\ntarget triple = "{module.triple}"\n'
    module.link_in(_parsed(head + _ALONE))
    _hide_all_but(module, (SYMBOL,))
    return module


def _optimised(module: llvm.ModuleRef, relaxed: bool) -> llvm.ModuleRef:
    options = llvm.create_pipeline_tuning_options(speed_level=3)
    # Kernels are unrolled where it helps. In mobilenet_v2, more unrolling makes a fifth more code that runs as fast.
    options.loop_unrolling = options.slp_vectorization = False
    options.loop_vectorization = True
    builder = llvm.create_pass_builder(_machine(relaxed), options)
    builder.getModulePassManager().run(module, builder)
    return module


def _module(draft: llvm.ModuleRef, relaxed: bool) -> WasmModule:
    _hide_all_but(draft, EXPORTS)
    compiled = read_object(_machine(relaxed).emit_object(draft))
    _require_known(compiled.imports)
    return WasmModule(compiled.module(EXPORTS), compiled.data_end, _stack_bytes(str(draft)))


def _hide_all_but(module: llvm.ModuleRef, names: Sequence[str]) -> None:
    for symbol in (*module.functions, *module.global_variables):
        if not symbol.is_declaration and symbol.name not in names:
            symbol.linkage = llvm.Linkage.internal


def _require_known(imports: Sequence[str]) -> None:
    unknown = [name for name in imports if name not in HOST_FUNCTIONS]
    if unknown:
        raise InternalError(f"the WebAssembly module needs {', '.join(unknown)}, which nothing defines")


def _stack_bytes(text: str) -> int:
    """The bytes of all arrays on the stack of all functions, which is the most that a chain of calls can use."""
    total = 0
    for line in text.splitlines():
        if "= alloca " in line:
            array = _STACK_ARRAY.search(line)
            if array is None:
                raise InternalError(f"an array on the stack of unknown size: {line.strip()}")
            count, lanes, element = array.groups()
            bits = _BITS.get(element) or int(element[1:])
            total += int(count or 1) * int(lanes or 1) * max(bits, 8) // 8 + 64
    return total + _GUARD_BYTES
