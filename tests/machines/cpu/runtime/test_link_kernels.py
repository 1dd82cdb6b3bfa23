"""Linked images: code runs from one as it does where LLVM loads it, and what cannot be linked is refused."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable
from typing import Any

import llvmlite.binding as llvm
import numpy as np
import pytest

from minitvm.errors import InternalError, Unsupported
from minitvm.machines.cpu.runtime.compiler import compile_kernel
from minitvm.machines.cpu.runtime.executor import native_call
from minitvm.machines.cpu.runtime.image import CodeImage, map_image
from minitvm.machines.cpu.runtime.link_kernels import link
from minitvm.machines.cpu.runtime.loader import kernel_target_machine, load_kernel

pytestmark = pytest.mark.skipif(
    not llvm.get_process_triple().startswith("x86_64") or "linux" not in llvm.get_process_triple(),
    reason="images are for Linux on AMD64",
)

KERNEL = """\
from minitvm.machines.simd.vectors.simd import load, pointer_f32, sin, store
def kernel(args, thread, threads):
    A, B = pointer_f32(args[0]), pointer_f32(args[1])
    for i in range(args[2]):
        store(B, i * 8, sin(load(A, i * 8, 8)) * FACTOR + 0.125)
"""


def run(address: int, values: Any) -> Any:
    out = np.zeros_like(values)
    words = np.array([values.ctypes.data, out.ctypes.data, len(values) // 8], np.int64)
    native_call(address)(words.ctypes.data, 0, 1)
    return out


def test_kernels_of_one_name_run_side_by_side() -> None:
    values = np.linspace(-40, 4000, 64, dtype=np.float32)
    objects = [compile_kernel(KERNEL.replace("FACTOR", factor), "kernel") for factor in ("3.0", "5.0", "7.0")]
    image = link([(code, "kernel") for code in objects])
    names = [name for name, _ in image.externals]
    assert len(names) == len(set(names)), "an address is kept once for all kernels"
    for code, kernel in zip(objects, map_image(image), strict=True):
        by_llvm = load_kernel(code, "kernel")
        np.testing.assert_array_equal(run(kernel.address, values), run(by_llvm.address, values))


SWITCH = """
define i64 @pick(i64 %x) {
entry:
  switch i64 %x, label %other [CASES]
LABELS
other:
  %far = call double @sqrt(double 81.0)
  %whole = fptosi double %far to i64
  ret i64 %whole
}
declare double @sqrt(double) nobuiltin
"""


def native_object(text: str) -> bytes:
    machine = kernel_target_machine()
    module = llvm.parse_assembly(text)
    module.triple = machine.triple
    return machine.emit_object(module)


def test_jump_tables_and_foreign_functions() -> None:
    cases = "".join(f" i64 {i}, label %l{i}" for i in range(12))
    labels = "\n".join(f'l{i}:\n  call void asm sideeffect "nop", ""()\n  ret i64 {i * i + 100}' for i in range(12))
    code = native_object(SWITCH.replace("CASES", cases).replace("LABELS", labels))
    kernel = map_image(link([(code, "pick")]))[0]
    pick: Callable[[int], int] = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(kernel.address)
    assert [pick(i) for i in range(12)] == [i * i + 100 for i in range(12)]
    assert pick(12) == pick(-1) == 9


def test_the_mapped_memory_cannot_be_written() -> None:
    image = link([(compile_kernel(KERNEL.replace("FACTOR", "1.0"), "kernel"), "kernel")])
    kernel = map_image(image)[0]
    with open("/proc/self/maps") as maps:
        spans = [line.split()[:2] for line in maps]
    flags = [f for span, f in spans if int(span.split("-")[0], 16) <= kernel.address < int(span.split("-")[1], 16)]
    assert flags == ["r-xp"]


WRITABLE = "@state = global i64 7\ndefine i64 @get() {\n  %v = load volatile i64, ptr @state\n  ret i64 %v\n}\n"


@pytest.mark.parametrize(
    ("code", "entry", "text"),
    [
        (lambda: native_object(WRITABLE), "get", "refers to state by relocation"),
        (lambda: native_object("define i64 @f() {\n  ret i64 1\n}\n"), "g", "does not define g once"),
        (lambda: b"", "f", "not a relocatable ELF64 file for AMD64"),
        (lambda: b"\xcf\xfa\xed\xfe" + bytes(80), "f", "not a relocatable ELF64 file for AMD64"),
        (lambda: b"\x7fELF\x02\x01" + bytes(10) + struct.pack("<HH", 1, 183) + bytes(60), "f", "ELF64 file for AMD64"),
    ],
    ids=["writable", "no entry", "empty", "Mach-O", "ARM"],
)
def test_what_cannot_be_linked_is_refused(code: Callable[[], bytes], entry: str, text: str) -> None:
    with pytest.raises(Unsupported, match=text):
        link([(code(), entry)])


def test_a_function_that_is_nowhere_is_named() -> None:
    with pytest.raises(InternalError, match="needs no_such_function, which this process lacks"):
        map_image(CodeImage(bytes(4096 + 8), (0,), (("no_such_function", 4096),)))
