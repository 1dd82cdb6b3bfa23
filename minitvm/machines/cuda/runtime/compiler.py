"""Kernel source to PTX, with what Numba CUDA knows of each operation, and PTX to cubins by nvJitLink; without a device.

`resources` reads from the linker's log what a kernel takes: registers, spills, shared memory.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ....errors import InternalError, TargetError
from ....store import FileStore
from ....target import Target
from ...simd.vectors.source import defined, numbered, support_of
from .architectures import DEFAULT_ARCH, compute_capability

if TYPE_CHECKING:
    from ...simd.vectors.front_end import Operations

CUBINS = FileStore(".cubin", "compiled CUDA kernels", beside=".ptx")
THREADS = "THREADS_OF_A_BLOCK"  # the constant of a module text that says so
# What decides a kernel's code.
_SOURCES = ("compiler.py", "operations.py", "async_copies.py", "tensor_cores.py", "warpgroups.py")
_PACKAGES = ("numba", "numba-cuda", "llvmlite")
_LIBRARIES = {"nvvm": "nvidia-nvvm", "nvJitLink": "nvidia-nvjitlink"}  # as pathfinder and as pip name them


@dataclass(frozen=True, slots=True)
class Resources:
    """What a thread of a kernel takes of a device: registers, and bytes; `shared_bytes` are those of a block."""

    registers: int
    spill_stores: int
    spill_loads: int
    stack_bytes: int
    shared_bytes: int

    def __str__(self) -> str:
        spilled = f"{self.spill_stores} bytes spilled, {self.spill_loads} read back"
        return f"{self.registers} registers, {spilled}, {self.stack_bytes} bytes of stack, {self.shared_bytes} shared"


def needs(package: str, error: ImportError) -> TargetError:
    """The error for a package of the extra that is missing."""
    return TargetError(f"CUDA needs the package {package}: {error}\n  try:    pip install 'minitvm[cuda]'")


def numba_cuda() -> Any:
    """Numba CUDA, with the operations of kernel source; `TargetError` with what to install where it is missing."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import numba_cuda as _package  # noqa: F401 (without it, numba.cuda is Numba's own, an older one)
            from numba import cuda

            from . import operations  # noqa: F401
    except ImportError as error:
        raise needs("numba-cuda", error) from None
    return cuda


def ptx_of(source: str, entry: str, arch: str = DEFAULT_ARCH) -> str:
    """The PTX of the kernel `entry` of a module text, under that name.

    If the text defines `THREADS_OF_A_BLOCK`, its blocks have as many threads, and registers are shared out for these.
    Raises `InternalError`, with the numbered source, when the text does not compile: generated source always should.
    """
    numba_cuda()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return _ptx(source, entry, arch)
    except TargetError:
        raise
    except Exception as error:  # whatever it is, the source is at fault, and it was generated
        text = f"kernel {entry} does not compile\n{numbered(source)}\n{type(error).__name__}: {error}"
        raise InternalError(text) from error


def _ptx(source: str, entry: str, arch: str) -> str:
    from llvmlite import ir
    from numba.core import types
    from numba.cuda import utils
    from numba.cuda.core.compiler_lock import global_compiler_lock
    from numba.cuda.cudadrv import nvvm

    from ...simd.vectors.front_end import Typed, translated

    with global_compiler_lock, utils.numba_target_override():
        function, meaning = defined(source, entry), _operations()
        meaning.refresh()
        context, word = meaning.target_context, ir.IntType(64)
        library = context.codegen().create_library(entry, nvvm_options={"fastmath": False, "opt": 3})
        module = library.create_ir_module(entry)
        words = [word] * function.__code__.co_argcount
        kernel = ir.Function(module, ir.FunctionType(ir.VoidType(), words), entry)
        builder = ir.IRBuilder(kernel.append_basic_block("entry"))
        with context.push_code_library(library):
            translated(meaning, builder, function, source, [Typed(types.int64, value) for value in kernel.args])
        nvvm.set_cuda_kernel(kernel)
        nvvm.set_launch_bounds(kernel, function.__globals__.get(THREADS))
        library.add_ir_module(module)
        library.finalize()
        (text,) = library.get_asm_strs(cc=compute_capability(arch))
        return str(text)


@functools.cache
def _operations() -> Operations:
    """Numba's contexts for CUDA, with the options of kernels."""
    from numba.cuda.core import callconv
    from numba.cuda.descriptor import cuda_target

    from ...simd.vectors.front_end import Operations

    context = cuda_target.target_context
    errors = callconv.create_error_model("numpy", context)
    return Operations(cuda_target.typing_context, context.subtarget(error_model=errors))


def linked(ptx: str, arch: str = DEFAULT_ARCH) -> tuple[bytes, str]:
    """(the cubin of PTX, the linker's log); raises `TargetError` with the linker's words if it refuses."""
    try:
        from cuda.core import Linker, LinkerOptions, ObjectCode
    except ImportError as error:
        raise needs("cuda-core", error) from None
    options = LinkerOptions(arch=arch, ptxas_options=["-v"], verbose=True)
    try:
        linker = Linker(ObjectCode.from_ptx(ptx.encode()), options=options)
        code = linker.link("cubin")
        log = str(linker.get_info_log())
    except Exception as error:
        raise TargetError(f"nvJitLink refuses PTX for {arch}: {error}") from None
    return bytes(code.code), log


def resources(log: str) -> Resources:
    """What the linker's log says of a kernel."""

    def number(pattern: str) -> int:
        found = re.search(pattern, log)
        return int(found[1]) if found else 0

    return Resources(
        number(r"Used (\d+) registers"), number(r"(\d+) bytes spill stores"), number(r"(\d+) bytes spill loads"),
        number(r"(\d+) bytes stack frame"), number(r"(\d+) bytes smem"),
    )  # fmt: skip


def kept_cubin(source: str, entry: str, arch: str) -> bytes | None:
    """The cubin of a kernel that was compiled before, from the disk; None otherwise."""
    return CUBINS.get(key_of(source, entry, arch), entry)


def cubin_of(source: str, entry: str, arch: str = DEFAULT_ARCH, compiled: Callable[[str], None] | None = None) -> bytes:
    """The cubin of a kernel, from the disk if it was compiled before; `compiled` is called with the PTX otherwise."""
    kept = kept_cubin(source, entry, arch)
    if kept is not None:
        return kept
    ptx = ptx_of(source, entry, arch)
    code, _ = linked(ptx, arch)
    CUBINS.put(key_of(source, entry, arch), entry, code, beside=ptx.encode())
    CUBINS.trim()
    if compiled is not None:
        compiled(ptx)
    return code


def assembly(source: str, entry: str, target: Target) -> str:
    """The part "assembly" of the back end: PTX below what nvJitLink says of the kernel's registers and memory."""
    arch = getattr(target, "arch", "") or DEFAULT_ARCH
    ptx = ptx_of(source, entry, arch)
    _, log = linked(ptx, arch)
    return f"// {entry} for {arch}: {resources(log)}\n{ptx}"


def key_of(source: str, entry: str, arch: str) -> bytes:
    """A hash of all that decides a cubin."""
    h = hashlib.sha256(_toolchain())
    for part in (arch, entry, source):
        h.update(part.encode() + b"\0")
    return h.digest()


@functools.cache
def _toolchain() -> bytes:
    here = Path(__file__).parent
    try:
        support = support_of([here / name for name in _SOURCES], _PACKAGES)
    except ImportError as error:  # importlib's, for a package that is not installed
        raise needs(str(error.name), error) from None
    return support + "".join(f"{name} {_version(name, package)}\n" for name, package in _LIBRARIES.items()).encode()


def _version(library: str, package: str) -> str:
    """The version of a library of CUDA: its package's, or of a toolkit without packages its file's name and size."""
    try:
        return importlib.metadata.version(package)
    except ImportError:
        try:
            from cuda.pathfinder import load_nvidia_dynamic_lib

            file = Path(load_nvidia_dynamic_lib(library).abs_path).resolve()
        except (ImportError, RuntimeError) as error:  # pathfinder's, for a library that is nowhere
            raise TargetError(f"CUDA needs {library}: {error}\n  try:    pip install 'minitvm[cuda]'") from None
        return f"{file.name} of {file.stat().st_size} bytes"
