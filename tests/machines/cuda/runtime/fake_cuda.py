"""A stand-in for `cuda.bindings.driver`: its functions over the memory of the process, kernels run by the simulator.

It refuses what a driver refuses: a call with another number of arguments than the real function takes, memory that was
not allocated or was freed, a cubin for another architecture, more shared memory than was asked for. Its clock is not
the host's: a kernel takes `kernel_seconds`, and the first command for an idle device comes `gap_seconds` late.
"""

from __future__ import annotations

import ctypes
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from enum import IntEnum
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from minitvm.machines.cuda.runtime import compile_pool, devices, driver
from minitvm.machines.cuda.runtime.architectures import compute_capability, runs_on
from minitvm.machines.cuda.runtime.simulator import simulated
from minitvm.runtime import dlpack

Status = IntEnum("Status", {
    "CUDA_SUCCESS": 0, "CUDA_ERROR_INVALID_VALUE": 1, "CUDA_ERROR_INVALID_CONTEXT": 201,
    "CUDA_ERROR_NO_BINARY_FOR_GPU": 209, "CUDA_ERROR_ILLEGAL_ADDRESS": 700,
})  # fmt: skip
_SUCCESS, _INVALID, _NO_CONTEXT, _NO_IMAGE, _ILLEGAL = Status
STREAM = 77  # as DLPack calls each stream
_WITHOUT_CONTEXT = ("cuInit", "cuDevice", "cuCtx", "cuGetErrorString")  # what needs none
ATTRIBUTES = {
    "MAX_THREADS_PER_BLOCK": 1024, "MAX_BLOCK_DIM_X": 1024, "MAX_BLOCK_DIM_Y": 1024, "MAX_BLOCK_DIM_Z": 64,
    "MAX_GRID_DIM_X": 2**31 - 1, "MAX_GRID_DIM_Y": 65535, "MAX_GRID_DIM_Z": 65535,
    "MULTIPROCESSOR_COUNT": 2, "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN": 163 << 10,
}  # fmt: skip


def cubin(source: str, entry: str, arch: str) -> bytes:
    """What stands for a cubin: the text, and the architecture for which it is."""
    return f"{arch}\n{entry}\n{source}".encode()


class FakeDriver:
    """The module `cuda.bindings.driver` of a machine with devices of the architecture `arch`.

    Each thread has a current context; `alive` counts what was handed out and not destroyed, by its kind.
    """

    CUresult = Status
    CUfunction_attribute = SimpleNamespace(
        CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES="dynamic", CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK="threads",
        CU_FUNC_ATTRIBUTE_NUM_REGS="registers",
    )  # fmt: skip
    registers = 32  # of a thread, in all kernels
    CUstreamCaptureMode = SimpleNamespace(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL=1)

    def __init__(self, arch: str = "sm_80", total: int = 1 << 30, devices: int = 1) -> None:
        self.devices = devices
        self.alive: Counter[str] = Counter()
        self.retained: Counter[int] = Counter()  # contexts, by their devices
        self.places: dict[int, str] = {}  # the context of each piece of memory
        self.contexts = threading.local()
        self.is_broken = False  # by a kernel: until the context is reset
        self.breaks = False  # the next kernel does
        major, minor = int(arch[3:-1]), int(arch[-1])
        self.arch, self.total = arch, total
        self.attributes = {**ATTRIBUTES, "COMPUTE_CAPABILITY_MAJOR": major, "COMPUTE_CAPABILITY_MINOR": minor}
        self.CUdevice_attribute = SimpleNamespace(**{f"CU_DEVICE_ATTRIBUTE_{n}": n for n in self.attributes})
        self.memory: dict[int, Any] = {}
        self.commands: list[str] = []  # the names of the calls, in order
        self._captured: list[Callable[[], None]] | None = None
        self.fails: set[str] = set()  # functions that fail
        self.seconds, self.kernel_seconds, self.gap_seconds = 0.0, 1e-5, 0.0
        self._is_idle = True
        self._is_spoilt = False  # the graph that is captured: by a call that may wait for the device

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("cu"):
            raise AttributeError(name)
        return self._function(name)

    def _function(self, name: str) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            method = getattr(type(self), f"_{name}")
            _require_arguments(name, args)
            self.commands.append(name)
            try:
                if not name.startswith(_WITHOUT_CONTEXT):
                    if self.context is None:
                        return (_NO_CONTEXT,)
                    if self.is_broken:
                        return (_ILLEGAL,)
                if name in self.fails:
                    raise ValueError
                value = method(self, *args)
                if self.is_broken and not name.startswith(_WITHOUT_CONTEXT):
                    return (_ILLEGAL,)
            except LookupError:
                return (_NO_IMAGE,)
            except ValueError:
                return (_INVALID,)
            return (_SUCCESS,) if value is None else (_SUCCESS, value)

        return call

    # -- the device

    def _cuInit(self, flags: int) -> None:
        pass

    def _cuDeviceGetCount(self) -> int:
        return self.devices

    def _cuDeviceGet(self, number: int) -> int:
        if number >= self.devices:
            raise ValueError
        return number

    def _cuDeviceGetName(self, length: int, device: int) -> bytes:
        return b"NVIDIA Pretended\0" if self.devices == 1 else f"NVIDIA Pretended {device}\0".encode()

    def _cuDevicePrimaryCtxRetain(self, device: int) -> str:
        self.retained[device] += 1
        return f"context {device}"

    def _cuDevicePrimaryCtxRelease(self, device: int) -> None:
        if not self.retained[device]:
            raise ValueError
        self.retained[device] -= 1

    def _cuDevicePrimaryCtxReset(self, device: int) -> None:
        """All that is in the context is gone."""
        self.is_broken = False
        for address in [a for a, context in self.places.items() if context == f"context {device}"]:
            del self.memory[address], self.places[address]
        self.alive.clear()

    @property
    def context(self) -> str | None:
        """The current context of this thread."""
        stack = getattr(self.contexts, "stack", [])
        return stack[-1] if stack else None

    def _require(self, context: Any) -> None:
        if context not in {f"context {device}" for device, count in self.retained.items() if count}:
            raise ValueError

    def _cuCtxSetCurrent(self, context: Any) -> None:
        self._require(context)
        self.contexts.stack = [*getattr(self.contexts, "stack", [])[:-1], context]

    def _cuCtxPushCurrent(self, context: Any) -> None:
        self._require(context)
        self.contexts.stack = [*getattr(self.contexts, "stack", []), context]

    def _cuCtxPopCurrent(self) -> str | None:
        *self.contexts.stack, context = self.contexts.stack
        return str(context)

    def _cuStreamCreate(self, flags: int) -> Any:
        self.alive["stream"] += 1
        return Stream(self.context)

    def _cuStreamDestroy(self, stream: Any) -> None:
        self.alive["stream"] -= 1

    def _cuDeviceTotalMem(self, device: int) -> int:
        return self.total

    def _cuDeviceGetAttribute(self, attribute: str, device: int) -> int:
        return int(self.attributes[attribute])

    def _cuGetErrorString(self, status: Any) -> bytes:
        return b"the words of the driver"

    # -- memory

    def _cuMemAlloc(self, nbytes: int) -> int:
        if nbytes <= 0 or sum(a.size for a in self.memory.values()) + nbytes > self.total:
            raise ValueError
        room = np.full(nbytes + 256, 0xA5, np.uint8)
        begin = -room.ctypes.data % 256
        array = room[begin : begin + nbytes]
        self.memory[array.ctypes.data] = array
        self.places[array.ctypes.data] = str(self.context)
        return int(array.ctypes.data)

    def _cuMemFree(self, address: int) -> None:
        self._is_spoilt = self._captured is not None
        if self.places[address] != self.context:
            raise ValueError
        del self.memory[address], self.places[address]

    def bytes_at(self, address: int, nbytes: int) -> Any:
        """The device's memory from an address on; ValueError where that is no memory of the device."""
        for begin, array in self.memory.items():
            if begin <= address and address + nbytes <= begin + array.size:
                return array[address - begin : address - begin + nbytes]
        raise ValueError

    def _queue(self, command: Callable[[], None]) -> None:
        if self._captured is None:
            self._begin()
            command()
        else:
            self._captured.append(command)

    def _begin(self) -> None:
        self.seconds += self.gap_seconds if self._is_idle else 0.0
        self._is_idle = False

    def _cuMemcpyHtoDAsync(self, to: int, source: int, nbytes: int, stream: int) -> None:
        self.bytes_at(to, nbytes)[:] = _host(source, nbytes)

    def _cuMemcpyDtoHAsync(self, to: int, source: int, nbytes: int, stream: int) -> None:
        _host(to, nbytes)[:] = self.bytes_at(source, nbytes)

    def _cuMemcpyDtoDAsync(self, to: int, source: int, nbytes: int, stream: int) -> None:
        there, here = self.bytes_at(to, nbytes), self.bytes_at(source, nbytes)

        def command() -> None:
            there[:] = here.copy()

        self._queue(command)

    # -- kernels

    def _cuModuleLoadData(self, image: bytes) -> Any:
        arch, entry, source = image.decode().split("\n", 2)
        if not runs_on(arch, self.arch):
            raise LookupError
        words = len(_parameters(source, entry))
        self.alive["module"] += 1
        return SimpleNamespace(run=simulated(source, entry), entry=entry, words=words, shared_most=48 << 10)

    def _cuModuleUnload(self, module: Any) -> None:
        self.alive["module"] -= 1

    def _cuModuleGetFunction(self, module: Any, name: bytes) -> Any:
        if name.decode() != module.entry:
            raise ValueError
        return module

    def _cuFuncSetAttribute(self, kernel: Any, attribute: str, value: int) -> None:
        if value > self.attributes["MAX_SHARED_MEMORY_PER_BLOCK_OPTIN"]:
            raise ValueError
        kernel.shared_most = value

    def _cuFuncGetAttribute(self, attribute: str, kernel: Any) -> int:
        most = min(self.attributes["MAX_THREADS_PER_BLOCK"], 65536 // self.registers // 32 * 32)
        return {"threads": most, "registers": self.registers}[attribute]

    def _cuLaunchKernel(
        self, kernel: Any, gx: int, gy: int, gz: int, bx: int, by: int, bz: int, shared: int, stream: int,
        parameters: int, extra: int,
    ) -> None:  # fmt: skip
        pointers = (ctypes.c_uint64 * kernel.words).from_address(parameters) if kernel.words else ()
        words = [ctypes.c_int64.from_address(pointer).value for pointer in pointers]  # read when it is queued
        if bx * by * bz > self.attributes["MAX_THREADS_PER_BLOCK"] or bz > self.attributes["MAX_BLOCK_DIM_Z"]:
            raise ValueError
        if shared > kernel.shared_most:
            raise ValueError

        if stream.context != self.context:
            raise ValueError
        if self.breaks:
            self.is_broken, self.breaks = True, False
            return

        def command() -> None:
            kernel.run((gx, gy, gz), (bx, by, bz), words, shared)
            self.seconds += self.kernel_seconds

        self._queue(command)

    # -- streams and graphs

    def _cuStreamSynchronize(self, stream: int) -> None:
        if self._captured is not None:
            raise ValueError
        self._is_idle = True

    def _cuStreamBeginCapture(self, stream: int, mode: int) -> None:
        self._captured, self._is_spoilt = [], False

    def _cuStreamEndCapture(self, stream: int) -> Any:
        graph, self._captured = self._captured, None
        if self._is_spoilt:
            raise ValueError
        self.alive["graph"] += 1
        return graph

    def _cuGraphDestroy(self, graph: Any) -> None:
        self.alive["graph"] -= 1

    def _cuGraphInstantiate(self, graph: Any, flags: int) -> Any:
        self.alive["executable graph"] += 1
        return graph

    def _cuGraphExecDestroy(self, graph: Any) -> None:
        self.alive["executable graph"] -= 1

    def _cuGraphLaunch(self, graph: Sequence[Callable[[], None]], stream: int) -> None:
        self._begin()
        for command in graph:
            command()

    # -- events

    def _cuEventCreate(self, flags: int) -> Any:
        self.alive["event"] += 1
        return SimpleNamespace(at=None)

    def _cuEventRecord(self, event: Any, stream: int) -> None:
        event.at = self.seconds

    def _cuEventElapsedTime(self, begin: Any, end: Any) -> float:
        if begin.at is None or end.at is None:
            raise ValueError
        return float(end.at - begin.at) * 1e3

    def _cuEventDestroy(self, event: Any) -> None:
        self.alive["event"] -= 1


class Stream(int):
    """A stream of a context; DLPack calls it by its number."""

    context: str | None

    def __new__(cls, context: str | None) -> Stream:
        made = super().__new__(cls, STREAM)
        made.context = context
        return made


def _host(address: int, nbytes: int) -> Any:
    return np.frombuffer((ctypes.c_uint8 * nbytes).from_address(address), np.uint8)


def _parameters(source: str, entry: str) -> list[str]:
    match = re.search(rf"^def {entry}\(([^)]*)\)", source, re.MULTILINE)
    assert match is not None
    return [name for name in match[1].split(",") if name.strip()]


def _require_arguments(name: str, args: Sequence[Any]) -> None:
    """The real module's signature is the first line of the function's documentation."""
    try:
        from cuda.bindings import driver
    except ImportError:
        return
    text = str(getattr(driver, name).__doc__).strip().splitlines()[0]
    inside = text[text.index("(") + 1 : text.rindex(")")]
    expected = len([part for part in inside.split(",") if part.strip()])
    if len(args) != expected:
        raise TypeError(f"{text} is called with {len(args)} arguments")


def cubins(jobs: Sequence[Any], workers: int | None = None, progress: Any = None) -> list[bytes]:
    """What stands for `compile_pool.cubins`."""
    for _, _, arch in jobs:
        compute_capability(arch)
    return [cubin(*job) for job in jobs]


@contextmanager
def plugged(arch: str = "sm_80", **about: Any) -> Iterator[FakeDriver]:
    """A machine with a device: its driver. Cubins are texts."""
    fake = FakeDriver(arch, **about)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(driver, "bindings", lambda: fake)
        patch.setattr(driver, "cubins", cubins)
        patch.setattr(compile_pool, "cubins", cubins)
        patch.setattr(devices, "_OPENED", {})
        patch.delenv(devices.VARIABLE, raising=False)
        yield fake


class Tensor:
    """A dense tensor that another library has on the pretended device."""

    def __init__(
        self, fake: FakeDriver, array: np.ndarray[Any, Any], device: tuple[int, int] = (2, 0), skip: int = 0
    ) -> None:
        _, context = fake.cuDevicePrimaryCtxRetain(device[1])
        fake.cuCtxPushCurrent(context)
        _, self.base = fake.cuMemAlloc(array.nbytes + skip + 1)
        fake.cuCtxPopCurrent()
        self.fake, self.shape, self.dtype, self.device, self.skip = fake, array.shape, array.dtype, device, skip
        self.streams: list[Any] = []
        self.bytes[:] = np.ascontiguousarray(array).reshape(-1).view(np.uint8)

    @property
    def bytes(self) -> Any:
        """Its memory."""
        return self.fake.bytes_at(self.base + self.skip, int(np.prod(self.shape)) * self.dtype.itemsize)

    def numpy(self) -> np.ndarray[Any, Any]:
        return np.array(self.bytes.view(self.dtype).reshape(self.shape))

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device

    def __dlpack__(self, stream: Any = None) -> Any:
        self.streams.append(stream)
        return dlpack.capsule_of(self.base, self.dtype.name, self.shape, self.device, self, offset=self.skip)
