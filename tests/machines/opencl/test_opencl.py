"""OpenCL devices, PoCL here: their kernels, and what they refuse. `test_devices` runs programs on them."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

import minitvm
from minitvm.build import code_target
from minitvm.errors import ExecutionError, TargetError, Unsupported
from minitvm.executable import Kernel
from minitvm.graph import GraphBuilder
from minitvm.machines.opencl.codegen.statements import generate
from minitvm.machines.opencl.runtime import devices
from minitvm.machines.opencl.runtime.kernels import compiled
from minitvm.target import Target
from minitvm.tir import Schedule
from minitvm.tir.transform import lower
from tests.codegen.test_backends import elementwise

pytest.importorskip("pyopencl")


def test_devices_get_different_schedules() -> None:
    b = GraphBuilder("wide")
    x, weight = b.input("x", (1, 32, 8, 8)), np.ones((32, 32, 3, 3), np.float32)
    graph, texts = b.build(b.op("nn.conv2d", x, weight, padding=1)), {}
    for device in ("mali", "pocl"):
        kernels = minitvm.lower(graph, target=f"opencl -device={device}", stop_at="executable").kernels
        texts[device] = "".join(kernel.source for kernel in kernels)
    assert "float4" in texts["mali"] and "float8" not in texts["mali"]
    widest = Target("opencl -device=pocl").vector_lanes("float32")  # as wide as the CPU's
    assert widest >= 4 and f"float{widest}" in texts["pocl"]


# -- what is refused


def test_without_pyopencl_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyopencl", None)
    with pytest.raises(TargetError, match=r"OpenCL needs the package pyopencl.*\n.*pip install 'minitvm\[opencl\]'"):
        devices.pyopencl()


def test_a_device_that_is_not_there_is_refused_with_those_that_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(devices.VARIABLE, "no such thing")
    with pytest.raises(TargetError, match="no OpenCL device is called 'no such thing'.*\n  found:  .*"):
        devices.current()


def test_what_the_drivers_compiler_rejects_is_shown_with_its_line() -> None:
    source = "__kernel void k(__global float *a) {\n    a[0] = nothing;\n}\n"
    with pytest.raises(TargetError) as refused:
        compiled(devices.current(), [Kernel("k", "opencl", source, "k", ())], None)
    assert "rejects kernel k" in str(refused.value)
    assert "a[0] = nothing;" in str(refused.value)


def test_a_kernel_of_another_language_is_refused() -> None:
    with pytest.raises(TargetError, match="kernel k is written in numba; this runtime runs opencl"):
        compiled(devices.current(), [Kernel("k", "numba", "def k(): pass", "k", ())], None)


def test_a_device_without_float64_is_named_with_what_to_do() -> None:
    from types import SimpleNamespace

    b = GraphBuilder("wide")
    graph = b.build(b.op("exp", b.input("x", (8,), "float64")))
    kernels = minitvm.lower(graph, target="opencl", stop_at="executable").kernels
    small: Any = SimpleNamespace(name="a small GPU", handle=SimpleNamespace(extensions="cl_khr_fp16"))
    with pytest.raises(TargetError, match=r"needs the extension cl_khr_fp64 \(arithmetic of float64\)") as refused:
        compiled(small, kernels, None)
    assert "found:  a small GPU does not have it\n  try:    a model in float32; or -on_host=OP" in str(refused.value)


def on_a_grid(threads: int) -> Any:
    sch = Schedule(elementwise(64, 64))
    whole = sch.fuse(*sch.get_loops(sch.get_block("C")))
    blocks, inner = sch.split(whole, [None, threads])
    sch.bind(blocks, "blockIdx.x")
    sch.bind(inner, "threadIdx.x")
    return sch


def test_a_block_of_too_many_threads_is_refused_with_the_limit() -> None:
    target = Target("opencl -max_threads_per_block=128")
    kernel = lower(on_a_grid(256).func, target, "main")["main_kernel_0"]
    with pytest.raises(Unsupported, match="a block of too many threads(.|\n)*at most 128 threads(.|\n)*256"):
        generate(kernel, target)


def test_too_much_shared_storage_is_refused_with_the_limit() -> None:
    sch = on_a_grid(64)
    copy = sch.cache_read(sch.get_block("C"), 0, "shared")
    sch.compute_at(copy, sch.get_loops(sch.get_block("C"))[0])
    target = Target("opencl -max_shared_memory_per_block=64")
    kernel = lower(sch.func, target, "main")["main_kernel_0"]
    with pytest.raises(Unsupported, match="too much shared storage(.|\n)*at most 64 bytes"):
        generate(kernel, target)


@pytest.mark.parametrize(
    ("group", "local", "text"),
    [
        (16, 0, r"groups of 32 work-items\n  found:  Portable .* has the registers for 16 of this kernel in a group"),
        (1024, 1 << 40, r"needs 1099511627776 bytes of local memory a group\n  found:  Portable .* has \d+\n"),
    ],
)
def test_what_a_device_has_too_little_of_for_a_kernel_is_said_before_it_is_launched(
    monkeypatch: pytest.MonkeyPatch, group: int, local: int, text: str
) -> None:
    import pyopencl

    module = minitvm.build(on_a_grid(32).func, target="opencl")
    arrays = [np.ones((64, 64), np.float32), np.ones(64, np.float32), np.full((64, 64), 77, np.float32)]
    answers = {
        pyopencl.kernel_work_group_info.WORK_GROUP_SIZE: group,
        pyopencl.kernel_work_group_info.LOCAL_MEM_SIZE: local,
    }
    with monkeypatch.context() as patch:
        patch.setattr(pyopencl.Kernel, "get_work_group_info", lambda kernel, what, device: answers[what])
        with pytest.raises(TargetError, match=f"kernel main_kernel_0 {'has ' if local == 0 else ''}{text}"):
            module(*arrays)
    assert (arrays[2] == 77).all(), "nothing ran"
    module(*arrays)
    assert (arrays[2] == 3).all()


def test_without_a_driver_it_is_said_where_they_were_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "available", list)
    monkeypatch.setenv("OCL_ICD_VENDORS", "/nowhere")
    with pytest.raises(TargetError, match=r"no driver was found where OCL_ICD_VENDORS=/nowhere says\n  try: .* unset"):
        devices._opened.__wrapped__("")


def test_a_failed_run_leaves_the_outputs_as_they_were(monkeypatch: pytest.MonkeyPatch) -> None:
    import pyopencl

    module = minitvm.build(elementwise(8, 8), target="opencl")
    arrays = [np.ones((8, 8), np.float32), np.ones(8, np.float32), np.full((8, 8), 77, np.float32)]
    module(*[a.copy() for a in arrays])

    def fails(*args: Any, **options: Any) -> Any:
        raise pyopencl.RuntimeError("out of resources")

    monkeypatch.setattr(pyopencl, "enqueue_nd_range_kernel", fails)
    with pytest.raises(ExecutionError, match="main failed on .*: out of resources"):
        module(*arrays)
    assert (arrays[2] == 77).all()
    monkeypatch.undo()
    module(*arrays)
    assert (arrays[2] == 3).all()


def test_info_lists_the_devices(capsys: pytest.CaptureFixture[str]) -> None:
    from minitvm.tools.cli import main

    assert main(["info"]) == 0
    assert any(line.startswith("opencl       ") for line in capsys.readouterr().out.splitlines())


def pretended(**about: Any) -> Any:
    """What the driver of a GPU says of it."""
    from types import SimpleNamespace

    import pyopencl

    says = {
        "type": pyopencl.device_type.GPU, "vendor": "ARM", "name": "Mali-G78", "max_work_group_size": 384,
        "platform": SimpleNamespace(name="ARM Platform"), "max_work_item_sizes": [384, 384, 384],
        "local_mem_size": 32768, "max_compute_units": 20, "preferred_vector_width_float": 4,
        "local_mem_type": pyopencl.device_local_mem_type.GLOBAL, "extensions": "cl_khr_fp64",
    }  # fmt: skip
    return SimpleNamespace(**{**says, **about})


@pytest.mark.parametrize(
    ("about", "text"),
    [
        ({}, "opencl -device=mali -max_threads_per_block=384 -max_block_dim=384,384,384 -multiprocessors=20"),
        (
            {"vendor": "Advanced Micro Devices, Inc.", "name": "gfx1030", "max_work_group_size": 256,
             "max_work_item_sizes": [256] * 3, "local_mem_size": 65536, "preferred_vector_width_float": 1,
             "local_mem_type": 1},
            "opencl -device=amd -multiprocessors=20",
        ),
        (
            {"vendor": "Somebody", "name": "GPU", "local_mem_size": 16384, "preferred_vector_width_float": 8},
            "opencl -max_threads_per_block=384 -max_block_dim=384,384,384 -max_shared_memory_per_block=16384 "
            "-multiprocessors=20 -vector_bits=256 -local_memory_helps=false",
        ),
        (
            {"extensions": "cl_khr_fp64 cl_khr_fp16", "half_fp_config": 0b111},
            "opencl -device=mali -max_threads_per_block=384 -max_block_dim=384,384,384 -multiprocessors=20 "
            "-half_arithmetic=true",
        ),
        (  # numbers near 0 would become 0
            {"extensions": "cl_khr_fp16", "half_fp_config": 0b110},
            "opencl -device=mali -max_threads_per_block=384 -max_block_dim=384,384,384 -multiprocessors=20",
        ),
    ],
)  # fmt: skip
def test_a_target_that_names_no_device_is_the_gpu_at_hand(
    monkeypatch: pytest.MonkeyPatch, about: dict[str, Any], text: str
) -> None:
    monkeypatch.delenv(devices.VARIABLE)
    monkeypatch.setattr(devices, "available", lambda: [pretended(**about)])
    assert code_target("opencl") == Target(text)
    assert code_target("opencl -max_threads_per_block=64") == Target(f"{text} -max_threads_per_block=64")
    for named in ("opencl -device=adreno", "opencl -device=pocl"):
        assert code_target(named) == Target(named)
    monkeypatch.setattr(devices, "available", lambda: [pretended(type=2)])
    assert code_target("opencl") == Target("opencl"), "a processor"
    monkeypatch.setattr(devices, "available", list)
    assert code_target("opencl") == Target("opencl")
