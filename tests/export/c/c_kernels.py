"""Kernels as C programs with GCC's sanitizers: a process reads arrays, runs kernels, and writes the arrays."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from minitvm.export.c.kernels import CKernel, generate, source
from minitvm.target import Target
from minitvm.tir.nodes import Buffer, PrimFunc

WARNINGS = ("-std=c11", "-Wall", "-Wextra", "-Werror", "-ffp-contract=off", "-D_GNU_SOURCE")
SANITIZERS = ("-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
FAST = ("-O1", "-march=native")
ARM = "aarch64-linux-gnu-gcc"
RUN_ON_ARM = ("qemu-aarch64", "-L", "/usr/aarch64-linux-gnu")

# The sanitizer reports accesses beyond an array. Without it, the next page may not be accessed.
_MAIN = """
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__)
#define memory malloc
#define release free
#else
static void *memory(size_t size) {
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), pages = (size + page - 1) / page * page;
    char *data = mmap(NULL, pages + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data == MAP_FAILED || mprotect(data + pages, page, PROT_NONE) != 0) return NULL;
    return data + pages - size;
}
#define release (void)
#endif

static void *array(size_t size) {
    void *data = memory(size);
    if (data == NULL || fread(data, 1, size, stdin) != size) exit(2);
    return data;
}
"""


def run_in_c(func: PrimFunc, arrays: Sequence[np.ndarray], threads: int = 1) -> list[np.ndarray]:
    """The arrays after each thread's share of the kernel has run, as C with sanitizers."""
    return run_many([(func, arrays, threads)])[0]


def run_many(
    calls: Sequence[tuple[PrimFunc, Sequence[np.ndarray], int]],
    compiler: str = "gcc",
    flags: Sequence[str] = (*FAST, *SANITIZERS),
    target: Target | None = None,
) -> list[list[np.ndarray]]:
    """As `run_in_c`, for several kernels in one program. Their names differ."""
    runner = RUN_ON_ARM if compiler == ARM else ()
    for program in (compiler, *runner[:1]):
        if shutil.which(program) is None:
            pytest.skip(f"no {program}")
    kernels = [generate(func, target) for func, _, _ in calls]
    with tempfile.TemporaryDirectory() as folder:
        program = built(Path(folder), _program(kernels, calls), compiler, flags)
        data = b"".join(np.ascontiguousarray(a).tobytes() for _, arrays, _ in calls for a in arrays)
        result = subprocess.run([*runner, program], input=data, capture_output=True, check=False, timeout=100)
    assert result.returncode == 0, f"{result.stderr.decode()[:4000]}\n{source(kernels)[-6000:]}"
    return _arrays(result.stdout, calls)


def built(folder: Path, text: str, compiler: str = "gcc", flags: Sequence[str] = ()) -> Path:
    """The program of a C text. Fails with the compiler's messages."""
    (folder / "k.c").write_text(text)
    command = [compiler, *WARNINGS, *flags, "k.c", "-o", "k", "-lm"]
    result = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert result.returncode == 0, f"{result.stderr[:4000]}\n{text[-6000:]}"
    return folder / "k"


def _program(kernels: Sequence[CKernel], calls: Sequence[tuple[PrimFunc, Sequence[np.ndarray], int]]) -> str:
    """The kernels, and a `main` that reads all arrays, calls each kernel for each thread, and writes all arrays."""
    read, run, write = [], [], []
    for number, (kernel, (func, arrays, threads)) in enumerate(zip(kernels, calls, strict=True)):
        names = []
        for position, (param, data) in enumerate(zip(func.params, arrays, strict=True)):
            name = f"a{number}_{position}"
            read.append(f"void *{name} = array({data.nbytes});")
            write.append(f"fwrite({name}, 1, {data.nbytes}, stdout);")
            names.append(name if isinstance(param, Buffer) else f"*({_scalar(data)} *){name}")
        for t in range(threads):
            share = [str(t), str(threads)] if kernel.is_shared else []
            run.append(f"{kernel.name}({', '.join([*names, *share])});")
        write += [f"release(a{number}_{position});" for position in range(len(arrays))]
    body = "\n    ".join([*read, *run, *write, "return 0;"])
    return f"{source(kernels)}{_MAIN}\nint main(void) {{\n    {body}\n}}\n"


def _scalar(data: np.ndarray) -> str:
    name = str(data.dtype)
    return {"float32": "float", "float64": "double", "bool": "_Bool"}.get(name, f"{name}_t")


def _arrays(data: bytes, calls: Sequence[tuple[PrimFunc, Sequence[np.ndarray], int]]) -> list[list[np.ndarray]]:
    results, at = [], 0
    for _, arrays, _ in calls:
        results.append([])
        for a in arrays:
            results[-1].append(np.frombuffer(data, a.dtype, a.size, at).reshape(a.shape).copy())
            at += a.nbytes
    return results
