"""Kernels for CUDA without a device: what they compile to, what Python says that they compute, what is refused."""

from __future__ import annotations

import platform
import re
import sys
from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import minitvm
from minitvm.errors import ExecutionError, InternalError, TargetError, Unsupported
from minitvm.machines.cpu.runtime.compiler import compile_kernel
from minitvm.machines.cpu.runtime.executor import native_call
from minitvm.machines.cpu.runtime.loader import load_kernel
from minitvm.machines.cuda.codegen.numba_cuda import SHARED_BYTES, generate
from minitvm.machines.cuda.runtime import compiler, devices, driver
from minitvm.machines.cuda.runtime.faults import Address, KernelFault
from minitvm.machines.cuda.runtime.simulator import simulated
from minitvm.machines.simd.vectors import lanes, masked
from minitvm.machines.simd.vectors.element_operations import _rows
from minitvm.runtime.words import scalar_word
from minitvm.target import Target
from minitvm.tir import Schedule
from minitvm.tir.analysis.dynamic_shared import dynamic_storage
from minitvm.tir.transform import lower
from tests.codegen.test_backends import through_shared_storage
from tests.machines.opencl.test_opencl import on_a_grid
from tests.runtime.grids_along import along
from tests.tir.schedule import programs

pytest.importorskip("numba_cuda")

ARCHITECTURES = ("sm_75", "sm_80", "sm_90", "sm_90a")
FLOATS = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "f64": np.float64}
INTEGERS = {f"{k}{n}": np.dtype(f"{'u' * (k == 'u')}int{n}") for k in "iu" for n in (8, 32, 64)}
OPERATIONS = {row.name: row for row in _rows()}


# -- what they compile to


def matmul_of_tiles(n: int = 64) -> Any:
    """A tile of 4 x 4 results a thread, in registers, of rows that lie in shared storage."""
    sch = Schedule(programs.matmul(n, n, n))
    block = sch.get_block("C")
    i, j, k = sch.get_loops(block)
    bi, ti, ri = sch.split(i, [None, 8, 4])
    bj, tj, rj = sch.split(j, [None, 8, 4])
    ko, ki = sch.split(k, [None, 8])
    sch.reorder(bi, bj, ti, tj, ko, ki, ri, rj)
    local = sch.cache_write(block, 0, "local")
    sch.reverse_compute_at(local, tj)
    for loop, axis in ((bi, "blockIdx.y"), (bj, "blockIdx.x"), (ti, "threadIdx.y"), (tj, "threadIdx.x")):
        sch.bind(loop, axis)
    sch.unroll(ri)
    sch.vectorize(rj)
    sch.vectorize(sch.get_loops(local)[-1])
    return sch.func


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_a_matmul_keeps_its_tile_in_registers_and_moves_128_bits_at_once(arch: str) -> None:
    target = Target(f"cuda -arch={arch}")
    (kernel,) = minitvm.lower(matmul_of_tiles(), target=target, stop_at="executable").kernels
    ptx = compiler.ptx_of(kernel.source, kernel.entry, arch)
    cubin, log = compiler.linked(ptx, arch)
    taken = compiler.resources(log)
    assert f".target {arch}" in ptx and f".visible .entry {kernel.entry}(" in ptx
    assert "ld.global.v4.f32" in ptx and "st.global.v4.f32" in ptx and "fma.rn.f32" in ptx
    assert cubin.startswith(b"\x7fELF")
    assert taken.spill_stores == taken.spill_loads == taken.stack_bytes == 0
    assert 16 < taken.registers <= target.max_registers_per_thread
    assert taken.shared_bytes <= target.max_shared_memory_per_block


def test_a_matmul_of_tiles_is_right() -> None:
    func = matmul_of_tiles(32)
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-4, 5, (32, 32)).astype(np.float32) for _ in range(2))
    found = np.zeros((32, 32), np.float32)
    minitvm.build(func, target="cuda")(a, b, found)
    np.testing.assert_array_equal(found, a @ b)


def test_shared_storage_is_counted_and_barriers_are_there() -> None:
    sch = Schedule(programs.matmul(32, 32, 32))
    through_shared_storage(sch)
    kernel = lower(sch.func, Target("cuda"), "main")["main_kernel_0"]
    source = generate(kernel, Target("cuda"))
    ptx = compiler.ptx_of(source, kernel.name)
    arrays = sum(int(size) for size in re.findall(r"= shared_f32\((\d+)\)", source))
    assert compiler.resources(compiler.linked(ptx)[1]).shared_bytes == 4 * arrays > 0
    assert "ld.shared.f32" in ptx and "st.shared.f32" in ptx
    assert ptx.count("bar.sync") >= source.count("cuda.syncthreads()") > 0


def test_the_same_source_gives_the_same_code_and_is_compiled_once() -> None:
    source = "def k(a_word):\n    pass\n"
    told: list[str] = []
    first = compiler.cubin_of(source, "k", compiled=told.append)
    assert compiler.cubin_of(source, "k", compiled=lambda ptx: pytest.fail(ptx)) == first
    assert compiler.ptx_of(source, "k") == compiler.ptx_of(source, "k")
    assert compiler.key_of(source, "k", "sm_80") != compiler.key_of(source, "k", "sm_90")


def every_operation(element: str, lanes_of: int) -> str:
    """A kernel that calls each operation of a dtype, and stores what it gives."""
    kind = element[0] if element != "bf16" else "f"
    used, lines = set(), []
    at = 0
    for row in OPERATIONS.values():
        if kind not in row.kinds or row.element not in ("", element):
            continue
        args = ", ".join((f"load(A, {4 * n}, {lanes_of})" if lanes_of else f"A[{n}]") for n in range(row.arity))
        to = "M" if row.mask else "B"
        used.add(row.name)
        call = f"{row.name}({args})"
        lines.append(f"    store({to}, {at}, {call})" if lanes_of else f"    {to}[{at}] = {call}")
        at += lanes_of or 1
    names = ", ".join(sorted(used | {"load", "store", f"pointer_{element}", "pointer_b1"}))
    head = [f"from minitvm.machines.simd.vectors.simd import {names}", "", "def k(a, b, m):"]
    head += [f"    A = pointer_{element}(a)", f"    B = pointer_{element}(b)", "    M = pointer_b1(m)"]
    return "\n".join([*head, *lines, ""])


@pytest.mark.alike("lanes_of", "element")
@pytest.mark.parametrize("lanes_of", [0, 4])
@pytest.mark.parametrize("element", [*FLOATS, *INTEGERS])
def test_every_operation_has_code(element: str, lanes_of: int) -> None:
    ptx = compiler.ptx_of(every_operation(element, lanes_of), "k")
    undefined = [line for line in ptx.splitlines() if line.startswith(".extern .func")]
    assert not undefined  # libdevice is linked
    assert compiler.linked(ptx)[0]


# -- what Python says that they compute


def on_cpu(source: str, arrays: list[np.ndarray]) -> None:
    """The text of a kernel that is the same on a CPU but for its header."""
    body = source.replace(
        "def k(a, b, m):", "def k(args, thread, threads):\n    a = args[0]\n    b = args[1]\n    m = args[2]"
    )
    loaded = load_kernel(compile_kernel(body, "k"), "k")
    words = np.array([a.ctypes.data for a in arrays], np.int64)
    native_call(loaded.address)(words.ctypes.data, 0, 1)


def three(element: str, rng: np.random.Generator) -> list[np.ndarray]:
    """Operands, and room for results and masks."""
    if element in FLOATS:
        a = (rng.standard_normal(16) * 3).astype(FLOATS[element])
    else:
        info = np.iinfo(INTEGERS[element])
        a = rng.integers(max(info.min, -9), 10, 16).astype(INTEGERS[element])
        a[:2] = info.min, info.max
    return [a, np.zeros(600, a.dtype), np.zeros(600, np.uint8)]


# In `make test` each type once, every second one in vectors.
ELEMENTS = [
    pytest.param(element, lanes_of, marks=[] if (number + lanes_of // 4) % 2 else pytest.mark.full)
    for number, element in enumerate([*FLOATS, *INTEGERS]) for lanes_of in (0, 4)
]  # fmt: skip


@pytest.mark.parametrize(("element", "lanes_of"), ELEMENTS)
def test_python_computes_what_a_cpu_does(element: str, lanes_of: int) -> None:
    """The simulator shares no code with what Numba compiles: each stands for the other's mistakes."""
    source = every_operation(element, lanes_of)
    for seed in range(4):
        arrays = three(element, np.random.default_rng(seed))
        other = [a.copy() for a in arrays]
        on_cpu(source, arrays)
        simulated(source, "k")((1, 1, 1), (1, 1, 1), [a.ctypes.data for a in other])
        np.testing.assert_array_equal(other[2], arrays[2])
        if element in FLOATS:
            close = {"f16": 2e-3, "bf16": 2e-2, "f32": 2e-6, "f64": 1e-13}[element]
            one, two = (x[1].astype(np.float64) for x in (arrays, other))
            np.testing.assert_allclose(two, one, rtol=close, atol=close / 4)
        else:
            np.testing.assert_array_equal(other[1], arrays[1])


@pytest.mark.parametrize("element", ["f32", "f64", "f16", "bf16", "i8", "b1"])
def test_lanes_one_by_one_are_what_the_intrinsics_do(element: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What stands for instructions that CUDA's LLVM does not have, on a CPU that has them."""
    names = f"first, gather, load_masked, pointer_{element}, ramp, scatter, store_masked, i64, absolute, neg"
    float_ops = element not in ("i8", "b1")
    source = "\n".join([
        f"from minitvm.machines.simd.vectors.simd import {names}", "", "def k(a, b, m):",
        f"    A = pointer_{element}(a)",
        f"    B = pointer_{element}(b)", "    mask = first(i64(5), 8)",
        "    store_masked(B, 1, load_masked(A, 2, mask), first(i64(6), 8))",
        "    scatter(B, ramp(i64(20), 3, 8), gather(A, ramp(i64(1), 2, 8)), mask)",
        "    scatter(B, ramp(i64(60), 1, 8), gather(A, ramp(i64(0), 2, 8), mask))",
        *(["    store_masked(B, 80, neg(load_masked(A, 0, mask)), mask)",
           "    store_masked(B, 90, absolute(load_masked(A, 0, mask)), mask)"] if float_ops else []), "",
    ])  # fmt: skip
    rng = np.random.default_rng(3)
    kind = FLOATS.get(element, np.uint8 if element == "b1" else np.int8)
    a = (rng.integers(0, 2, 40) if element == "b1" else rng.standard_normal(40) * 9).astype(kind)
    wanted, found = np.full(100, 7, kind), np.full(100, 7, kind)
    on_cpu(source, [a, wanted, a])
    compiler.numba_cuda()
    machine = platform.machine()
    monkeypatch.setattr(masked, "LANE_BY_LANE", {machine})
    monkeypatch.setitem(lanes.INTRINSICS, machine, {k: lanes.INTRINSICS["nvptx64"][k] for k in ("fneg", "fabs")})
    on_cpu(source, [a, found, a])
    np.testing.assert_array_equal(found.view(np.uint8), wanted.view(np.uint8))


def test_a_vector_at_a_place_that_its_size_does_not_divide_is_found() -> None:
    source = (
        "from minitvm.machines.simd.vectors.simd import load_whole, pointer_f32, store\n\n"
        "def k(a, b):\n    store(pointer_f32(b), 0, load_whole(pointer_f32(a), 1, 4))\n"
    )
    a = devices.SimulatedDevice().allocated(64)
    with pytest.raises(ExecutionError, match="a vector of 4 float32 at a place that its size does not divide"):
        simulated(source, "k")((1, 1, 1), (1, 1, 1), [a.ctypes.data, a.ctypes.data])


def test_an_element_outside_of_a_kernels_own_array_is_found() -> None:
    source = "from minitvm.machines.simd.vectors.simd import f32, stack_f32\n\ndef k():\n    stack_f32(4)[4] = f32(0)\n"
    with pytest.raises(ExecutionError, match="elements 4 to 4 of an array of 4"):
        simulated(source, "k")((1, 1, 1), (1, 1, 1), [])


NUMBERS = {
    "float16": st.floats(width=16), "float32": st.floats(width=32), "float64": st.floats(),
    "int8": st.integers(-128, 127), "uint8": st.integers(0, 255), "int64": st.integers(-(2**63), 2**63 - 1),
    "uint64": st.integers(0, 2**64 - 1), "bool": st.booleans(),
}  # fmt: skip


@given(data=st.data(), dtype=st.sampled_from(sorted(NUMBERS)))
def test_a_word_holds_any_number(data: Any, dtype: str) -> None:
    value = data.draw(NUMBERS[dtype])
    word = scalar_word(value, dtype)
    assert -(2**63) <= word < 2**63
    low = np.array([word % 2**64], np.uint64).view(np.uint8)[: np.dtype(dtype).itemsize]
    np.testing.assert_array_equal(low.view(dtype)[0], np.array(value, dtype))


# -- what is refused


def test_without_the_package_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cuda.bindings", None)
    with pytest.raises(TargetError, match=r"CUDA needs the package cuda-bindings.*\n.*pip install 'minitvm\[cuda\]'"):
        driver.bindings()
    assert driver.found() == []


def test_numbas_own_cuda_is_not_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "numba_cuda", None)
    with pytest.raises(TargetError, match=r"CUDA needs the package numba-cuda.*\n.*pip install 'minitvm\[cuda\]'"):
        compiler.ptx_of("def k(a):\n    pass\n", "k")


def test_without_a_device_it_is_said_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "found", list)
    with pytest.raises(TargetError, match=r"there is no CUDA device(.|\n)*MINITVM_CUDA_DEVICE=simulator"):
        devices.current("h100")


def test_a_device_of_another_name_is_refused_with_those_that_are_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "found", lambda: ["NVIDIA X", "NVIDIA Y"])
    with pytest.raises(TargetError, match=r"no CUDA device is called 'h100'(.|\n)*NVIDIA X\n +NVIDIA Y"):
        devices.current("h100")


@pytest.mark.parametrize("arch", ["sm_8", "compute_80", "ampere"])
def test_an_architecture_that_does_not_exist_is_refused(arch: str) -> None:
    with pytest.raises(TargetError, match=f"'{arch}' is no architecture of CUDA\n.*sm_90a"):
        compiler.ptx_of("def k(a):\n    pass\n", "k", arch)


def test_text_that_does_not_compile_is_shown() -> None:
    with pytest.raises(InternalError, match="kernel k does not compile\n   1  def k"):
        compiler.ptx_of("def k(a):\n    return nothing(a)\n", "k")


def test_what_the_linker_refuses_is_said_with_its_words() -> None:
    ptx = compiler.ptx_of("def k(a):\n    pass\n", "k", "sm_90")
    with pytest.raises(TargetError, match="nvJitLink refuses PTX for sm_75"):
        compiler.linked(ptx, "sm_75")


def test_a_block_of_too_many_threads_is_refused() -> None:
    kernel = lower(on_a_grid(256).func, Target("cuda"), "main")["main_kernel_0"]
    with pytest.raises(Unsupported, match="main_kernel_0 cannot become a CUDA kernel: a block of too many threads"):
        generate(kernel, Target("cuda -max_threads_per_block=128"))


@pytest.mark.parametrize(("axis", "most"), [("blockIdx.y", 65535), ("blockIdx.z", 65535), ("threadIdx.z", 64)])
def test_an_axis_of_too_many_blocks_or_threads_is_refused(axis: str, most: int) -> None:
    generate(along(axis, most), Target("cuda"))
    with pytest.raises(Unsupported, match=f"too many iterations along {axis}(.|\n)*at most {most}(.|\n)*{most + 1}"):
        generate(along(axis, most + 1), Target("cuda"))


def tiles(scope: str, n: int = 800) -> Any:
    """A product of matrices whose blocks keep all that they read in shared storage: 68 * n bytes."""
    sch = Schedule(programs.matmul(2, 16, n))
    through_shared_storage(sch, scope)
    return sch.func


def test_more_shared_storage_than_a_kernel_can_declare_is_refused() -> None:
    target = Target("cuda -arch=sm_90")
    kernel = lower(tiles("shared"), target, "main")["main_kernel_0"]
    with pytest.raises(
        Unsupported, match=f"too much shared storage(.|\n)*at most {SHARED_BYTES} bytes(.|\n)*shared.dyn"
    ):
        generate(kernel, target)


@pytest.mark.parametrize(("arch", "most"), [("sm_75", 64), ("sm_80", 163), ("sm_90", 227)])
def test_a_launch_gives_more_up_to_the_targets_limit(arch: str, most: int) -> None:
    target = Target(f"cuda -arch={arch}")
    fitting = [n for n in (700, 800, 1600, 3000, 4000) if lower_shared(n, target) <= most << 10]
    assert fitting and len(fitting) < 5
    for n in (700, 800, 1600, 3000, 4000):
        kernel = lower(tiles("shared.dyn", n), target, "main")["main_kernel_0"]
        if n in fitting:
            assert "dynamic_f32(0, " in generate(kernel, target)
            continue
        with pytest.raises(
            Unsupported, match=f"too much shared storage(.|\n)*at most {most << 10} bytes a block, the lim"
        ):
            generate(kernel, target)


def lower_shared(n: int, target: Target) -> int:
    """The bytes that a launch gives."""
    return dynamic_storage(lower(tiles("shared.dyn", n), target, "main")["main_kernel_0"])[1]


def test_storage_that_the_launch_gives_is_a_symbol_without_a_size() -> None:
    target = Target("cuda -arch=sm_80")
    (kernel,) = minitvm.lower(tiles("shared.dyn"), target=target, stop_at="executable").kernels
    assert SHARED_BYTES < kernel.shared_bytes <= target.max_shared_memory_per_block
    ptx = compiler.ptx_of(kernel.source, kernel.entry, "sm_80")
    assert ".extern .shared .align 1024 .b8 minitvm_dynamic[]" in ptx
    assert "ld.shared.f32" in ptx and "st.shared.f32" in ptx
    assert compiler.resources(compiler.linked(ptx, "sm_80")[1]).shared_bytes == 0  # the kernel declares none


def test_given_storage_is_right_and_survives_a_file(tmp_path: Any, rng: np.random.Generator) -> None:
    a, b = (rng.integers(-4, 5, shape).astype(np.float32) for shape in ((2, 800), (800, 16)))
    built = minitvm.build(tiles("shared.dyn"), target="cuda -arch=sm_80")
    built.export(tmp_path / "tiles.mtvm")
    for run in (built, minitvm.runtime.load(tmp_path / "tiles.mtvm", trust=True)):
        found = np.zeros((2, 16), np.float32)
        run(a, b, found)
        np.testing.assert_array_equal(found, a @ b)


def test_a_launch_that_gives_too_little_is_found() -> None:
    body = "    x = dynamic_f32(128, 4)\n    x[3] = 1.0\n"
    source = f"from minitvm.machines.cuda.runtime.operations import dynamic_f32\n\ndef k():\n{body}"
    run = simulated(source, "k")
    run((1, 1, 1), (1, 1, 1), [], 144)
    with pytest.raises(
        KernelFault, match="4 float32 of shared storage from byte 128 on: the launch gives a block 143 by"
    ):
        run((1, 1, 1), (1, 1, 1), [], 143)


# -- what a kernel's parameters are


@given(st.data())
def test_an_access_outside_of_a_parameter_is_found(data: Any) -> None:
    """Every element of a parameter may be accessed by every way of access, and nothing else."""
    length, lanes_of = data.draw(st.integers(1, 12)), data.draw(st.integers(1, 4))
    index = data.draw(st.integers(-8, 24))
    access = data.draw(st.sampled_from(sorted(ACCESSES)))
    text = ACCESSES[access].format(i=index, n=lanes_of, m=", ".join(["A"] * lanes_of))
    names = (
        "b1, f32, first, gather, i64, load, load_masked, pointer_f32, ramp, scatter, store, store_masked, f32x4, f32x2"
    )
    source = (
        f"from minitvm.machines.simd.vectors.simd import {names}\n\ndef k(a):\n    A = pointer_f32(a)\n    {text}\n"
    )
    memory = np.zeros(64, np.float32)
    word = Address(memory[16:].ctypes.data, "a", 4 * length)
    count = 1 if access in ("read", "write") else lanes_of
    if 0 <= index <= length - count:
        simulated(source, "k")((1, 1, 1), (1, 1, 1), [word])
        return
    at = rf"tid=.* ctaid=.*: elements -?\d+ to -?\d+ of parameter a, float32 of {length}, at byte -?\d+"
    with pytest.raises(KernelFault, match=at):
        simulated(source, "k")((1, 1, 1), (1, 1, 1), [word])
    assert not memory[:16].any() and not memory[16 + length :].any()


ACCESSES = {
    "read": "A[{i}]", "write": "A[{i}] = f32(1)", "load": "load(A, {i}, {n})",
    "masked": "load_masked(A, {i}, first(i64({n}), {n}))", "gather": "gather(A, ramp(i64({i}), 1, {n}))",
}  # fmt: skip


def test_lanes_outside_of_a_mask_are_not_accessed() -> None:
    names = "first, i64, load_masked, pointer_f32, store_masked"
    source = (
        f"from minitvm.machines.simd.vectors.simd import {names}\n\ndef k(a):\n    A = pointer_f32(a)\n"
        "    mask = first(i64(2), 4)\n    store_masked(A, 3, load_masked(A, 3, mask), mask)\n"
    )
    memory = np.zeros(8, np.float32)
    simulated(source, "k")((1, 1, 1), (1, 1, 1), [Address(memory.ctypes.data, "a", 20)])
    with pytest.raises(KernelFault, match="elements 4 to 4 of parameter a, float32 of 4, at byte 16"):
        simulated(source, "k")((1, 1, 1), (1, 1, 1), [Address(memory.ctypes.data, "a", 16)])


def test_the_kernel_the_parameter_and_the_thread_are_named() -> None:
    executable = minitvm.lower(on_a_grid(8).func, target="cuda", stop_at="executable")
    (kernel,) = executable.kernels
    name = kernel.params[0].name
    source = kernel.source.replace(f"pointer_f32({name}_word)", f"pointer_f32({name}_word)\n    {name}[4096]")
    assert source != kernel.source
    module = minitvm.runtime.Function(replace(executable, kernels=(replace(kernel, source=source),)))
    text = rf"simulator of CUDA: kernel {kernel.name}: tid=.*: elements 4096 to 4096 of parameter {name}"
    with pytest.raises(ExecutionError, match=text):
        module(*(np.zeros([int(n) for n in buffer.shape], np.float32) for buffer in on_a_grid(8).func.buffers))


# -- on a device


@pytest.mark.gpu
@pytest.mark.skipif(not driver.found(), reason="there is no CUDA device")
def test_a_network_is_right_on_a_device(monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator) -> None:
    from tests.runtime.test_devices import alike, network

    monkeypatch.setenv(devices.VARIABLE, "0")
    graph = network()
    module = minitvm.build(graph, target="cuda")
    for _ in range(3):
        alike(graph, module, x=rng.standard_normal((2, 2, 5, 6), dtype=np.float32))
