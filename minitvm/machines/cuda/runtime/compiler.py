"""Compile kernel source to PTX with Numba CUDA's operations, and PTX to cubins with nvJitLink, without a device.

`resources` reads a kernel's registers, spills and shared memory from the linker's log.
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
# The files that determine a kernel's code.
_SOURCES = ("compiler.py", "operations.py", "async_copies.py", "tensor_cores.py", "warpgroups.py")
_PACKAGES = ("numba", "numba-cuda", "llvmlite")
_LIBRARIES = {"nvvm": "nvidia-nvvm", "nvJitLink": "nvidia-nvjitlink"}  # as pathfinder and as pip name them


@dataclass(frozen=True, slots=True)
class Resources:
    """The resources of a kernel: registers and bytes per thread, and `shared_bytes` per block."""

    registers: int
    spill_stores: int
    spill_loads: int
    stack_bytes: int
    shared_bytes: int

    def __str__(self) -> str:
        spilled = f"{self.spill_stores} bytes spilled, {self.spill_loads} read back"
        return f"{self.registers} registers, {spilled}, {self.stack_bytes} bytes of stack, {self.shared_bytes} shared"


def needs(package: str, error: ImportError) -> TargetError:
    """Return the error for a missing package of the extra."""
    return TargetError(f"CUDA needs the package {package}: {error}\n  try:    pip install 'minitvm[cuda]'")


def numba_cuda() -> Any:
    """Import Numba CUDA and register the operations of kernel source. Raises `TargetError` if it is not installed."""
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
    """Return the PTX of the kernel `entry` in a module text, under that name.

    If the text defines `THREADS_OF_A_BLOCK`, its blocks have this many threads, and registers are allocated
    accordingly. Raises `InternalError` with the numbered source if it does not compile, because generated source always
    should.
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
    """Return Numba's contexts for CUDA, with the options for kernels."""
    from numba.cuda.core import callconv
    from numba.cuda.descriptor import cuda_target

    from ...simd.vectors.front_end import Operations

    context = cuda_target.target_context
    errors = callconv.create_error_model("numpy", context)
    return Operations(cuda_target.typing_context, context.subtarget(error_model=errors))


def linked(ptx: str, arch: str = DEFAULT_ARCH) -> tuple[bytes, str]:
    """Return (the cubin for some PTX, the linker's log). Raises `TargetError` with the linker's message if it fails."""
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
    """Return the resources of a kernel, read from the linker's log."""

    def number(pattern: str) -> int:
        found = re.search(pattern, log)
        return int(found[1]) if found else 0

    return Resources(
        number(r"Used (\d+) registers"), number(r"(\d+) bytes spill stores"), number(r"(\d+) bytes spill loads"),
        number(r"(\d+) bytes stack frame"), number(r"(\d+) bytes smem"),
    )  # fmt: skip


def kept_cubin(source: str, entry: str, arch: str) -> bytes | None:
    """Return the cached cubin of a kernel, or None."""
    return CUBINS.get(key_of(source, entry, arch), entry)


def cubin_of(source: str, entry: str, arch: str = DEFAULT_ARCH, compiled: Callable[[str], None] | None = None) -> bytes:
    """Return the cubin of a kernel, from the cache if possible. Otherwise `compiled` is called with the PTX."""
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
    """Return the PTX of a kernel, preceded by its resources. This is the part "assembly" of the back end."""
    arch = getattr(target, "arch", "") or DEFAULT_ARCH
    ptx = ptx_of(source, entry, arch)
    _, log = linked(ptx, arch)
    return f"// {entry} for {arch}: {resources(log)}\n{ptx}"


def key_of(source: str, entry: str, arch: str) -> bytes:
    """Return a hash of everything that determines a cubin."""
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
    """Return the version of a CUDA library: that of its package, or the name and size of its file in a toolkit."""
    try:
        return importlib.metadata.version(package)
    except ImportError:
        try:
            from cuda.pathfinder import load_nvidia_dynamic_lib

            file = Path(load_nvidia_dynamic_lib(library).abs_path).resolve()
        except (ImportError, RuntimeError) as error:  # pathfinder's, for a library that is nowhere
            raise TargetError(f"CUDA needs {library}: {error}\n  try:    pip install 'minitvm[cuda]'") from None
        return f"{file.name} of {file.stat().st_size} bytes"
