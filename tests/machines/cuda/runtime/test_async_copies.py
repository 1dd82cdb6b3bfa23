"""Asynchronous copies in CUDA kernels: their PTX, and the simulator, which lets them arrive as late as they may."""

from __future__ import annotations

import numpy as np
import pytest

from minitvm.machines.cuda.codegen.numba_cuda import generate
from minitvm.machines.cuda.runtime import compiler, simulator
from minitvm.machines.opencl.codegen import statements as opencl
from minitvm.target import Target
from minitvm.tir.transform.pipeline import lower
from tests.tir.instruction_programs import PIPELINES, pipeline, pipeline_runs

pytest.importorskip("numba_cuda")


def kernel_source(arch: str, dtype: str = "float32", order: tuple[int, int] = (0, 1)) -> tuple[str, str]:
    target = Target(f"cuda -arch={arch}")
    func = pipeline(order=order)
    if dtype != "float32":
        from minitvm.script import from_source

        text = func.script().replace("float32", dtype)
        func = from_source(text.replace("T.alloc_buffer((2, 64), ", f'T.alloc_buffer((2, 64), "{dtype}", '))
    module = lower(func, target)
    (name,) = [n for n, f in module.items() if not f.attrs.get("host")]
    return generate(module[name], target), name


@pytest.mark.parametrize("k", range(len(PIPELINES)))
def test_a_pipeline_runs(k: int) -> None:
    pipeline_runs(k)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90", "sm_90a"])
def test_ptx(arch: str) -> None:
    source, name = kernel_source(arch)
    ptx = compiler.ptx_of(source, name, arch)
    assert "cp.async.cg.shared.global [" in ptx and ", 16;" in ptx
    assert "cp.async.commit_group;" in ptx
    assert "cp.async.wait_group 1;" in ptx and "cp.async.wait_group 0;" in ptx
    _, log = compiler.linked(ptx, arch)
    assert compiler.resources(log).spill_stores == 0


def test_fewer_bytes_pass_through_the_first_cache() -> None:
    source, name = kernel_source("sm_80", "float16")
    assert "cp.async.ca.shared.global" in compiler.ptx_of(source, name, "sm_80")


def test_older_devices_and_other_languages_copy_at_once() -> None:
    source, name = kernel_source("sm_75")
    assert "async" not in source
    assert "cp.async" not in compiler.ptx_of(source, name, "sm_75")
    module = lower(pipeline(), "opencl")
    text = opencl.generate(next(f for _, f in module.items() if not f.attrs.get("host")), Target("opencl"))
    assert ("async" not in text and "vload" in text) or "float4" in text


def test_the_simulator_notices_a_wait_that_is_missing() -> None:
    source, name = kernel_source("sm_80")
    a = np.random.default_rng(0).random((2, 64), "float32")

    def run(text: str) -> np.ndarray:
        c = np.zeros_like(a)
        simulator.simulated(text, name)((2, 1, 1), (4, 1, 1), [a.ctypes.data, c.ctypes.data])
        return c

    wanted = a.reshape(2, 4, 16)[:, :, ::-1].reshape(2, 64) * 2
    np.testing.assert_array_equal(run(source), wanted)
    for line in ("async_wait(1)", "async_wait(0)", "async_commit()"):
        assert not np.array_equal(run(source.replace(line, "pass")), wanted)
