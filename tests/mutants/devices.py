"""Workloads on a pretended CUDA device: what a driver is asked for, and what an artifact holds."""

from __future__ import annotations

import ctypes
import json
from collections.abc import Callable
from typing import Any

import numpy as np

import minitvm
from minitvm.build import code_target
from minitvm.codegen.index_width import index_dtype
from minitvm.errors import ExecutionError, InputError, MinitvmError, TargetError
from minitvm.expr import IntImm, SizeVar, Var
from minitvm.graph import GraphBuilder
from minitvm.machines.cuda.runtime import architectures, machine_code
from minitvm.machines.cuda.runtime.faults import Address, KernelFault
from minitvm.machines.cuda.runtime.simulator import simulated
from minitvm.runtime import dlpack, from_dlpack
from minitvm.script import tir as T
from minitvm.target import Target
from minitvm.tir.nodes import Buffer, BufferStore, For, ForKind, PrimFunc
from tests.machines.cuda.runtime.fake_cuda import Tensor, plugged
from tests.runtime.test_devices import alike, network
from tests.runtime.test_states import log, row
from tests.runtime.test_two_memories import kernels_of_the_host_wait


def a_network_runs_there() -> None:
    with plugged():
        graph = network(SizeVar("n"))
        module = minitvm.build(graph, target="cuda")
        for n in (1, 2, 2, 2):
            alike(graph, module, x=np.random.default_rng(n).standard_normal((n, 2, 5, 6), dtype=np.float32))


def targets_without_a_name_are_the_device_at_hand() -> None:
    with plugged("sm_90"):
        assert code_target("cuda -allow_tf32=true") == Target("cuda -arch=sm_90a -multiprocessors=2 -allow_tf32=true")
        assert code_target("cuda -arch=sm_80") == Target("cuda -arch=sm_80")


def graphs_leave_room_for_the_host() -> None:
    with plugged():
        for on_host in ("nn.max_pool3d", "nn.softmax"):
            module = minitvm.build(network(), target=f"cuda -on_host={on_host}")
            for seed in range(3):
                alike(network(), module, x=np.random.default_rng(seed).standard_normal((2, 2, 5, 6), dtype=np.float32))


def states_stay_there() -> None:
    with plugged():
        module = minitvm.build(log(), target="cuda")
        assert module(**row(3, 1)).tolist() == [[3, 3]]
        assert module(**row(4, 2)).tolist() == [[7, 7]]
        module.reset()
        assert module(**row(5, 4)).tolist() == [[5, 5]]


def tensors_are_used_where_they_lie() -> None:
    b = GraphBuilder("doubled")
    x = b.input("x", (2, 8))
    with plugged() as fake:
        module = minitvm.build(b.build(b.op("add", x, x)), target="cuda")
        for seed, skip in enumerate((0, 4, 0, 8)):
            data = np.random.default_rng(seed).standard_normal((2, 8)).astype(np.float32)
            there, out = Tensor(fake, data, skip=skip), Tensor(fake, data)
            module(there, out=out)
            np.testing.assert_array_equal(out.numpy(), data + data)
            first, second = (module(from_dlpack(there), out="device") for _ in range(2))
            module(np.zeros((2, 8), np.float32), out="device")
            np.testing.assert_array_equal(first.numpy(), data + data)
            np.testing.assert_array_equal(
                np.array(fake.bytes_at(second.address, 64)).view(np.float32), (data + data).ravel()
            )
        assert dlpack.described(second).dtype == "float32"
        for wrong in (Tensor(fake, data, device=(2, 1)), _Gaps(fake, data)):
            try:
                module(wrong)
            except InputError:
                continue
            raise AssertionError("it is taken")


class _Gaps(Tensor):
    """One whose rows are twice as far from each other as they are long."""

    def __dlpack__(self, stream: Any = None) -> Any:
        capsule = super().__dlpack__(stream)
        self.strides = (ctypes.c_int64 * 2)(16, 1)
        dlpack._tensor(capsule).strides = self.strides
        return capsule


def unwritten_elements_stay() -> None:
    @T.prim_func
    def half(x: T.Buffer((8,), "float32"), y: T.Buffer((8,), "float32")) -> None:  # type: ignore[valid-type]
        for i in range(4):
            with T.block("y"):
                v = T.axis.spatial(8, i)
                y[v] = x[v]  # type: ignore[index]

    with plugged():
        out = np.full(8, 7, np.float32)
        minitvm.build(half, target="cuda")(np.zeros(8, np.float32), out)
        assert out.tolist() == [0, 0, 0, 0, 7, 7, 7, 7]


def failed_runs_are_not_forgotten() -> None:
    with plugged() as fake:
        module = minitvm.build(log(), target="cuda")
        for fails in ({"cuLaunchKernel"}, set[str]()):
            fake.fails = fails
            try:
                module(**row(4, 2))
            except ExecutionError:
                continue
            raise AssertionError("the state is used")


def accesses_outside_are_found() -> None:
    source = "from minitvm.machines.simd.vectors.simd import pointer_f32\n\ndef k(a):\n    pointer_f32(a)[{}]\n"
    memory = np.zeros(8, np.float32)
    for index in (-1, 0, 3, 4):
        try:
            simulated(source.format(index), "k")((1, 1, 1), (1, 1, 1), [Address(memory[2:].ctypes.data, "a", 16)])
        except KernelFault:
            assert index in (-1, 4)
            continue
        assert index in (0, 3), "nobody notices"


def indices_fit() -> None:
    i = Var("i", "int64")
    for n, bits in ((2**31 - 1, 32), (2**31, 64)):
        buffer = Buffer("A", (n,), "float32")
        for index in (i, i * 2 - i):
            store = BufferStore(buffer, T.float32(0), (index,))
            func = PrimFunc((buffer,), For(i, IntImm(0, "int64"), IntImm(n, "int64"), ForKind.SERIAL, store))
            assert index_dtype(func).bits == (bits if index is i else 64)


def cubins_come_back() -> None:
    with plugged():
        executable = minitvm.lower(network(), target="cuda -arch=sm_75", stop_at="executable")
        about, data = machine_code.pack(executable, ["sm_75", "sm_90"])
        codes = machine_code.unpack(json.loads(json.dumps(about)), memoryview(data), len(executable.kernels)) or []
        for kernel, code in zip(executable.kernels, codes, strict=True):
            for arch, text in code.code.items():
                assert text.decode() == f"{arch}\n{kernel.entry}\n{kernel.source}"


def architectures_are_told_apart() -> None:
    held = ["sm_75", "sm_80", "sm_86", "sm_90a"]
    best = {
        device: architectures.best_for(device, held)
        for device in ("sm_70", "sm_75", "sm_80", "sm_89", "sm_90", "sm_100")
    }
    assert best == {
        "sm_70": None,
        "sm_75": "sm_75",
        "sm_80": "sm_80",
        "sm_89": "sm_86",
        "sm_90": "sm_90a",
        "sm_100": None,
    }
    assert architectures.compiled_for("sm_75", "sm_90") == "sm_90"
    assert architectures.compiled_for("sm_90a", "sm_90") == "sm_90a"
    for target, device in (("sm_90", "sm_80"), ("sm_90a", "sm_100"), ("sm_89", "sm_86")):
        try:
            architectures.compiled_for(target, device)
        except TargetError:
            continue
        raise AssertionError(f"{target} on {device}")


def checked(number: int) -> None:
    """One of CHECKS; an error of ours is a difference like any other."""
    try:
        CHECKS[number]()
    except (MinitvmError, ValueError) as error:
        raise AssertionError(str(error)) from error


CHECKS: tuple[Callable[[], None], ...] = (
    a_network_runs_there, graphs_leave_room_for_the_host, states_stay_there, tensors_are_used_where_they_lie,
    unwritten_elements_stay,
    failed_runs_are_not_forgotten, accesses_outside_are_found, indices_fit, cubins_come_back,
    architectures_are_told_apart, kernels_of_the_host_wait, targets_without_a_name_are_the_device_at_hand,
)  # fmt: skip
