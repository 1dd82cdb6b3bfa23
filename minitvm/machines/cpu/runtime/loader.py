"""Load object code and return callable addresses, with llvmlite alone, so that cached kernels run without importing
Numba.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import functools
import os
import struct

import llvmlite.binding as llvm

from ....errors import InternalError
from ....forks import lock
from ....target.host import native, tiles_allowed
from ....target.isas import NATIVE, Isa, find_isa

__all__ = ["LoadedKernel", "cpu_description", "kernel_target_machine", "lacking", "load_kernel", "triple_of"]

_lock = lock()


@functools.cache
def _initialise() -> None:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    llvm.initialize_native_asmparser()  # `pause` is inline assembly
    llvm.load_library_permanently("")  # this process: a program without kernels calls its locks, before numba is there
    # Kernels call libm; an interpreter that links it statically does not export its symbols.
    library = ctypes.util.find_library("m")
    if library is not None:
        llvm.load_library_permanently(library)
    if llvm.get_host_cpu_features().get("amx-tile"):
        tiles_allowed()


def cpu_description(isa: str = NATIVE) -> tuple[str, str]:
    """Return (CPU name, features) that kernels are compiled for. NUMBA_CPU_NAME and NUMBA_CPU_FEATURES override the
    host's.
    """
    if isa != NATIVE:
        facts = find_isa(isa)
        return facts.cpu, facts.attributes
    name = os.environ.get("NUMBA_CPU_NAME") or llvm.get_host_cpu_name()
    features = os.environ.get("NUMBA_CPU_FEATURES")
    return name, _host_features() if features is None else features


@functools.cache
def _host_features() -> str:
    found = llvm.get_host_cpu_features().flatten()
    if "+amx-tile" not in found or tiles_allowed():
        return found
    return ",".join(f"-{name[1:]}" if name.startswith("+amx") else name for name in found.split(","))


def triple_of(isa: str) -> str:
    """Return LLVM's triple: this process's if it has that architecture, so that the code can be linked into it."""
    facts, here = find_isa(isa), llvm.get_process_triple()
    return here if facts.architecture == native().architecture else facts.triple


def kernel_target_machine(isa: str = NATIVE) -> llvm.TargetMachine:
    """Return a new LLVM target machine for generating kernels, or for linking those of this process's CPU."""
    _initialise()
    (name, features), triple = cpu_description(isa), triple_of(isa)
    if triple == llvm.get_process_triple():
        model = {"codemodel": "jitdefault", "jit": True}
    else:
        llvm.initialize_all_targets()
        llvm.initialize_all_asmprinters()
        model = {"codemodel": "default"}
    return llvm.Target.from_triple(triple).create_target_machine(
        cpu=name, features=features, opt=3, reloc="pic", **model
    )


def lacking(isa: Isa) -> list[str]:
    """Name what this machine lacks to run code for an instruction set: the architecture, or some features."""
    if isa.architecture != native().architecture:
        return [f"architecture {isa.architecture}"]
    features = llvm.get_host_cpu_features()
    return [name for name in isa.features if not features.get(name)]


class LoadedKernel:
    """Linked object code. The code stays mapped for as long as this object lives."""

    __slots__ = ("_engine", "address", "entry")

    def __init__(self, engine: llvm.ExecutionEngine, entry: str, address: int) -> None:
        self._engine = engine
        self.entry = entry
        self.address = address

    def __repr__(self) -> str:
        return f"LoadedKernel({self.entry!r} at {self.address:#x})"


def load_kernel(code: bytes, entry: str) -> LoadedKernel:
    """Link `code` (from `compile_kernel`) into this process.

    Raises `InternalError` if it needs a symbol that this process does not have, or does not define `entry`.
    """
    missing = [s for s in undefined_symbols(code) if _address_of(s) is None]
    if missing:
        raise InternalError(f"object code of kernel {entry} needs {', '.join(missing)}, which this process lacks")
    with _lock:
        machine = kernel_target_machine()
        engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
        engine.add_object_file(llvm.ObjectFileRef.from_data(code))
        engine.finalize_object()
        address = engine.get_function_address(entry)
    if not address:
        raise InternalError(f"object code does not define kernel {entry}")
    return LoadedKernel(engine, entry, address)


def _address_of(symbol: str) -> int | None:
    _initialise()
    return llvm.address_of_symbol(symbol)


def undefined_symbols(code: bytes) -> list[str]:
    """Return the names that an ELF64 object uses but does not define. LLVM would end the process if one is missing.

    Returns an empty list for an object of another format (Mach-O).
    """
    if code[:6] != b"\x7fELF\x02\x01":
        return []
    section_offset = struct.unpack_from("<Q", code, 0x28)[0]
    entry_size, count = struct.unpack_from("<HH", code, 0x3A)
    sections = [struct.unpack_from("<IIQQQQIIQQ", code, section_offset + i * entry_size) for i in range(count)]
    names: list[str] = []
    for section in sections:
        if section[1] != 2:  # SHT_SYMTAB
            continue
        offset, size, link = section[4], section[5], section[6]
        strings = sections[link][4]
        for at in range(offset, offset + size, 24):
            name, _, _, index = struct.unpack_from("<IBBH", code, at)
            if index == 0 and name:  # SHN_UNDEF
                end = code.index(b"\0", strings + name)
                names.append(code[strings + name : end].decode())
    return [n for n in names if n != "_GLOBAL_OFFSET_TABLE_"]
