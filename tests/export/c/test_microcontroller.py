"""An int8 network for a Cortex-M4: C99 in integers of 32 bits, with little memory, equal to minitvm's own answer."""

from __future__ import annotations

import functools
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

import minitvm
from minitvm.build import code_target, compile_executable
from minitvm.export.c.project import project
from minitvm.export.folders import fill
from minitvm.graph import Graph, GraphBuilder
from minitvm.reference import graph as interpreter
from minitvm.runtime import GraphModule
from minitvm.runtime.here import on_this_machine
from minitvm.target.isas import find_isa
from tests.export.c.programs import EQUAL, SANITIZED, call, needs_gcc

pytestmark = needs_gcc

M4 = "cpu -arch=cortex-m4"
C99 = ("-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror", "-ffp-contract=off")
THUMB = ("--target=thumbv7em-none-eabihf", "-mcpu=cortex-m4", "-ffreestanding", "-Os")
INPUTS = 40

MAIN = """
#include "net.h"
#include <stdio.h>

int main(void)
{
    static float x[NET_INPUT_X_ELEMENTS], y[NET_OUTPUT_Y_ELEMENTS];
    net_arguments arguments = {0};
    arguments.input.x = x;
    arguments.output.y = y;
    while (fread(x, sizeof x, 1, stdin) == 1)
        if (net_run(&arguments) != 0 || fwrite(y, sizeof y, 1, stdout) != 1)
            return 1;
    return 0;
}
"""


# The same on an emulated ARM processor without a C library, with Linux's calls: 1 exit, 3 read, 4 write.
BARE = """
#include "net.h"

static long linux_call(long number, long a, void *memory, long bytes)
{
    register long r7 __asm__("r7") = number;
    register long r0 __asm__("r0") = a;
    register void *r1 __asm__("r1") = memory;
    register long r2 __asm__("r2") = bytes;
    __asm__ volatile("svc 0" : "+r"(r0) : "r"(r7), "r"(r1), "r"(r2) : "memory");
    return r0;
}

int memcmp(const void *a, const void *b, size_t bytes)
{
    const unsigned char *x = a, *y = b;
    for (; bytes > 0; --bytes, ++x, ++y)
        if (*x != *y)
            return *x < *y ? -1 : 1;
    return 0;
}

float rintf(float x)
{
    const volatile float shift = x < 0 ? -0x1p23f : 0x1p23f;  /* the last place of the sum is 1 */
    return x > -0x1p22f && x < 0x1p22f ? (x + shift) - shift : x;
}

void run(void)
{
    static NET_ALIGNED unsigned char arena[NET_ARENA_BYTES];
    static float x[NET_INPUT_X_ELEMENTS], y[NET_OUTPUT_Y_ELEMENTS];
    static net_arguments arguments;
    arguments.input.x = x;
    arguments.output.y = y;
    arguments.arena = arena;
    arguments.arena_bytes = sizeof arena;
    while (linux_call(3, 0, x, sizeof x) == sizeof x) {
        if (net_run(&arguments) != 0)
            linux_call(1, 1, NULL, 0);
        linux_call(4, 1, y, sizeof y);
    }
    linux_call(1, 0, NULL, 0);
}

__attribute__((naked)) void _start(void)
{
    __asm__ volatile("b run");
}
"""


@functools.cache
def network() -> Graph:
    """A small depthwise-separable network in int8, of odd sizes."""
    rng = np.random.default_rng(3)
    b = GraphBuilder("keyword")

    def layer(x: object, shape: tuple[int, ...], **attrs: object) -> object:
        weights = b.constant((rng.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))).astype("float32"))
        bias = b.constant(rng.standard_normal(shape[0]).astype("float32") / 8)
        return b.op("nn.relu", b.op("nn.bias_add", b.op("nn.conv2d", x, weights, **attrs), bias))

    y = layer(b.input("x", (1, 1, 13, 10)), (9, 1, 4, 3), strides=(2, 2), padding=(1, 1, 2, 1))
    for _ in range(2):
        y = layer(y, (9, 1, 3, 3), padding=(1, 1, 1, 1), groups=9)
        y = layer(y, (9, 9, 1, 1))
    y = b.op("reshape", b.op("nn.global_avg_pool", y), newshape=(1, 9))
    y = b.op("nn.dense", y, b.constant(rng.standard_normal((5, 9)).astype("float32")), name="y")
    samples = [rng.standard_normal((1, 1, 13, 10)).astype("float32") for _ in range(8)]
    return minitvm.quantize(b.build([y]), samples, dtype="int8").graph


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("keyword") / "net"
    fill(place, project(network(), target=M4))
    return place


@pytest.fixture(scope="module")
def runs(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    """Inputs of several sizes, and minitvm's own answers; the inputs are also in a file."""
    rng = np.random.default_rng(5)
    inputs = (rng.standard_normal((INPUTS, 1, 1, 13, 10)) * rng.choice([0.1, 1, 9], (INPUTS, 1, 1, 1, 1))).astype("f4")
    (folder / "inputs").write_bytes(inputs.tobytes())
    module = GraphModule(on_this_machine(compile_executable(network(), code_target(M4))))
    return inputs, np.stack([np.array(module(x)) for x in inputs])


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_results_have_the_bits_of_the_module(compiler: str, folder: Path, runs: tuple[np.ndarray, np.ndarray]) -> None:
    if shutil.which(compiler) is None:
        pytest.skip(f"{compiler} is not installed")
    (folder / "main.c").write_text(MAIN)
    sources = ("main.c", "net.c", "net_weights.c")
    call(compiler, *C99, *SANITIZED, "-DNET_STATIC_ARENA", *sources, "-o", f"main_{compiler}", "-lm", folder=folder)
    call("sh", "-c", f"./main_{compiler} < inputs > outputs", folder=folder)
    inputs, expected = runs
    assert (folder / "outputs").read_bytes() == expected.tobytes() and len(np.unique(expected)) > INPUTS
    for x, y in zip(inputs[:3], expected, strict=False):
        np.testing.assert_allclose(interpreter.run(network(), [x])[0], y, rtol=1e-6)


@pytest.mark.skipif(
    not all(map(shutil.which, ("arm-none-eabi-gcc", "qemu-arm"))), reason="no gcc for ARM without a system, or no qemu"
)
def test_thumb_code_computes_the_same_bits(folder: Path, runs: tuple[np.ndarray, np.ndarray]) -> None:
    """Code for a Cortex-M4 also runs on ARM's other processors, which qemu emulates with Linux's calls."""
    (folder / "bare.c").write_text(BARE)
    flags = [*find_isa("cortex-m4").flags, "-Os", "-ffreestanding", "-nostdlib", "-Wl,-Ttext=0x10000"]
    sources = ("bare.c", "net.c", "net_weights.c")
    call("arm-none-eabi-gcc", "-std=gnu99", *C99[2:], *flags, *sources, "-o", "bare", "-lgcc", folder=folder)
    call("sh", "-c", "qemu-arm -cpu max ./bare < inputs > outputs", folder=folder)
    assert (folder / "outputs").read_bytes() == runs[1].tobytes()


def test_the_files_are_c99(folder: Path) -> None:
    for compiler in filter(shutil.which, ("gcc", "clang")):
        for file in ("net.c", "net_weights.c", "check.c"):
            call(compiler, *C99, "-O2", "-DNET_STATIC_ARENA", "-c", file, "-o", "c99.o", folder=folder)
    assert call("make", "-s", "check", folder=folder) == EQUAL


@pytest.mark.skipif(shutil.which("clang") is None, reason="clang is not installed")
def test_thumb_code_needs_no_library_but_mathematics(folder: Path) -> None:
    """No 64-bit division, which is a function call on this CPU, and no header of a C library."""
    call("clang", *C99, *THUMB, "-c", "net.c", "-o", "thumb.o", folder=folder)
    needed = set(re.findall(r"U (\w+)", call("nm", "thumb.o", folder=folder)))
    assert needed <= {"memcmp", "memcpy", "memset", "net_weights", "rintf", "fmaf"}


def test_kernels_have_neither_threads_nor_indices_of_64_bits(folder: Path) -> None:
    text = (folder / "net.c").read_text()
    kernels = text[text.index("// kernel") : text.index("int net_run")]
    assert "for (int32_t" in kernels and "share(" not in text
    before_support = kernels[: kernels.index("static const unsigned char identity")]
    assert "int64_t" not in before_support


def test_the_arena_holds_two_layers_of_bytes(folder: Path) -> None:
    """No copies in words of four channels, no sums of 32 bits in memory, and no padded copy of all channels."""
    (size,) = re.findall(r"NET_ARENA_BYTES (\d+)", (folder / "net.h").read_text())
    layer = 9 * 7 * 5  # bytes
    assert int(size) <= 2 * (layer + 64)
