"""A CUDA device, used through NVIDIA's driver (the package cuda-bindings): memory, launches, and graphs of launches."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import count
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from ....errors import TargetError
from ....executable import Executable, Kernel
from ....executable.alignment import ALIGNMENT
from ....garbage import not_collected
from ....runtime import dlpack
from ....runtime.device.device import Bytes, Launch, Limits, Place, Shape, words_of
from ....runtime.device.owned import Owned, Owner
from ....target import Target, find_kind
from .architectures import compiled_for, compute_capability
from .compile_pool import cubins
from .compiler import needs
from .machine_code import Cubins

if TYPE_CHECKING:
    from ....runtime.program import Progress

LANGUAGE = "numba-cuda"
_SPECIFIC = {"sm_90": "sm_90a"}  # of a device's architecture: the one with what only that has
_SERIAL = count()  # of devices that were opened
SHARED_BYTES = 48 << 10  # of shared storage a launch may give to any block


# After these errors the driver accepts no commands: the context is lost, with all memory in it.
STICKY = frozenset(
    f"CUDA_ERROR_{name}" for name in (
        "ILLEGAL_ADDRESS", "ILLEGAL_INSTRUCTION", "MISALIGNED_ADDRESS", "INVALID_ADDRESS_SPACE", "INVALID_PC",
        "HARDWARE_STACK_ERROR", "LAUNCH_FAILED", "LAUNCH_TIMEOUT", "ASSERT", "ECC_UNCORRECTABLE",
        "CONTEXT_IS_DESTROYED",
    )
)  # fmt: skip


class CudaError(Exception):
    """The driver's message for a command that failed. `status` is the driver's name of the error."""

    def __init__(self, text: str, status: str = "") -> None:
        super().__init__(text)
        self.status = status


def bindings() -> Any:
    """Return the module with the driver's functions. Raises `TargetError` if it is not installed."""
    try:
        from cuda.bindings import driver
    except ImportError as error:
        raise needs("cuda-bindings", error) from None
    return driver


def found() -> list[str]:
    """Return the names of all devices. The list is empty if there is no driver."""
    try:
        driver = bindings()
        _checked(driver, driver.cuInit(0))
        count = _checked(driver, driver.cuDeviceGetCount())
        return [_name(driver, _checked(driver, driver.cuDeviceGet(n))) for n in range(count)]
    except TargetError:
        return []
    except (CudaError, RuntimeError, OSError):  # the library of the driver is absent, or finds nothing
        return []


def _name(driver: Any, device: Any) -> str:
    name = _checked(driver, driver.cuDeviceGetName(128, device))
    return name.split(b"\0")[0].decode() if isinstance(name, bytes) else str(name)


def _checked(driver: Any, result: tuple[Any, ...]) -> Any:
    """Return the values of a driver call. Raises `CudaError` with the driver's message if it failed."""
    status, *values = result
    if status:  # CUDA_SUCCESS is 0
        _, text = driver.cuGetErrorString(status)
        raise CudaError(f"{status.name}: {text.decode() if isinstance(text, bytes) else text}", status.name)
    return values[0] if len(values) == 1 else tuple(values)


def described(number: int) -> str:
    """Return the target of a device as text: its architecture, with specific features, and its number of
    multiprocessors.

    If there are no figures for its architecture, it gets those of the next older one, with the device's own limits.
    """
    driver = bindings()
    handle = _checked(driver, driver.cuDeviceGet(number))

    def attribute(name: str) -> int:
        asked = getattr(driver.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}")
        return int(_checked(driver, driver.cuDeviceGetAttribute(asked, handle)))

    arch = f"sm_{attribute('COMPUTE_CAPABILITY_MAJOR')}{attribute('COMPUTE_CAPABILITY_MINOR')}"
    arch = _SPECIFIC.get(arch, arch)
    units = f"-multiprocessors={attribute('MULTIPROCESSOR_COUNT')}"
    known = find_kind("cuda").presets
    if arch in known:
        return f"cuda -arch={arch} {units}"
    version = compute_capability(arch)[:2]
    older = [one for one in known if one.startswith("sm_") and compute_capability(one)[:2] <= version]
    like = f"-model={max(older, key=lambda one: (compute_capability(one)[:2], one[-1] != 'a'))} " if older else ""
    shared = attribute("MAX_SHARED_MEMORY_PER_BLOCK_OPTIN")
    return f"cuda {like}-arch={arch} -max_shared_memory_per_block={shared} {units}"


class Memory:
    """Memory of the device, which is freed with this object."""

    def __init__(self, device: CudaDevice, nbytes: int) -> None:
        self.device = device  # which lives as long as its memory
        self.address = int(device.call("cuMemAlloc", nbytes))
        self.free = device.owner.take(self, self.address, device.driver.cuMemFree)


@dataclass(frozen=True, slots=True)
class Function:
    """A kernel, and the module that contains its code."""

    handle: Any
    module: Owned


@dataclass(frozen=True, slots=True)
class Adopted:
    """Memory of the device that belongs to another library."""

    address: int


class CudaDevice:
    """A `runtime.device.Device` whose commands run on one stream."""

    errors: tuple[type[Exception], ...] = (CudaError,)

    def __init__(self, number: int) -> None:
        self.driver = bindings()
        self.call("cuInit", 0)
        self.number = number
        self.lost = ""  # the words of the error after which the driver accepts nothing
        self.handle = handle = self.call("cuDeviceGet", number)
        self.name = _name(self.driver, handle)
        self.context = self.call("cuDevicePrimaryCtxRetain", handle)
        self.owner = Owner(partial(_entered, self.driver, self.context))
        self._end = weakref.finalize(self, _released, self.owner, self.driver.cuDevicePrimaryCtxRelease, handle)
        self.enter()
        self.dlpack = (dlpack.CUDA, number)
        self.identity = (*self.dlpack, next(_SERIAL))  # memory is lost with the context
        # It does not wait for the default stream.
        self._stream = Owned(self.owner, self.call("cuStreamCreate", 1), self.driver.cuStreamDestroy)
        self.queue = self._stream.handle
        self.arch = f"sm_{self._attribute(handle, 'COMPUTE_CAPABILITY_MAJOR')}" + str(
            self._attribute(handle, "COMPUTE_CAPABILITY_MINOR")
        )
        self.shared_limit = self._attribute(handle, "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN")
        axes = tuple(self._attribute(handle, f"MAX_BLOCK_DIM_{axis}") for axis in "XYZ")
        blocks = tuple(self._attribute(handle, f"MAX_GRID_DIM_{axis}") for axis in "XYZ")
        memory = int(self.call("cuDeviceTotalMem", handle))
        units = self._attribute(handle, "MULTIPROCESSOR_COUNT")
        self.limits = Limits(self._attribute(handle, "MAX_THREADS_PER_BLOCK"), axes, memory, units, blocks)

    @property
    def target(self) -> str:
        """The target that describes the device."""
        return described(self.number)

    def _attribute(self, handle: Any, name: str) -> int:
        attribute = getattr(self.driver.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}")
        return int(self.call("cuDeviceGetAttribute", attribute, handle))

    def call(self, function: str, *args: Any) -> Any:
        """Call a function of the driver. Raises `CudaError` with the driver's message if it fails."""
        return self._values(getattr(self.driver, function)(*args))

    def _values(self, result: tuple[Any, ...]) -> Any:
        try:
            return _checked(self.driver, result)
        except CudaError as error:
            if error.status in STICKY:
                self.lost = self.lost or str(error)
            raise

    def close(self) -> None:
        """Free all objects of this device. Its programs and arrays cannot be used afterwards."""
        self.lost = self.lost or "it was closed"
        self._end()

    def reset(self) -> None:
        """Clear an error after which the driver accepts no commands. All memory of the device is lost."""
        self.owner.lose()
        self.driver.cuDevicePrimaryCtxReset(self.handle)
        self.close()

    def compiled(self, executable: Executable, progress: Progress | None, codes: Sequence[Cubins] | None) -> list[Any]:
        """Return the functions in the kernels' cubins, which come from an artifact, from the cache, or are compiled
        here.
        """
        for kernel in executable.kernels:
            if kernel.language != LANGUAGE:
                raise TargetError(f"kernel {kernel.name} is written in {kernel.language}; this runtime runs {LANGUAGE}")
        self.enter()
        loaded: dict[bytes, Owned] = {}
        functions: list[Function] = []
        for kernel, code in zip(executable.kernels, self._codes(executable, progress, codes), strict=True):
            try:
                if code not in loaded:
                    image = self.call("cuModuleLoadData", code)
                    loaded[code] = Owned(self.owner, image, self.driver.cuModuleUnload)
                handle = self.call("cuModuleGetFunction", loaded[code].handle, kernel.entry.encode())
                self._allow_shared(handle, kernel)
                functions.append(Function(handle, loaded[code]))
            except CudaError as error:
                raise TargetError(f"{self.name} does not take kernel {kernel.name}: {error}") from None
        return functions

    def _check_registers(self, kernel: Any, name: str, shape: Shape) -> None:
        """Raise `TargetError` for a block whose threads need more registers or local storage than a multiprocessor
        has.
        """
        attributes = self.driver.CUfunction_attribute
        most = int(self.call("cuFuncGetAttribute", attributes.CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, kernel))
        threads = prod(shape.threads)
        if threads <= most:
            return
        registers = int(self.call("cuFuncGetAttribute", attributes.CU_FUNC_ATTRIBUTE_NUM_REGS, kernel))
        raise TargetError(
            f"kernel {name} has blocks of {threads} threads, each with {registers} registers\n"
            f"  found:  {self.name} runs up to {most} such threads in a block\n"
            "  try:    a target with fewer max_threads_per_block, or smaller tiles"
        )

    def _allow_shared(self, function: Any, kernel: Kernel) -> None:
        """Allow launches to give blocks of a kernel the shared storage that it needs; more than `SHARED_BYTES` must be
        requested.
        """
        if kernel.shared_bytes > self.shared_limit:
            raise TargetError(
                f"kernel {kernel.name} needs {kernel.shared_bytes} bytes of shared storage a block\n"
                f"  found:  {self.name} gives {self.shared_limit}"
            )
        if kernel.shared_bytes > SHARED_BYTES:
            attribute = self.driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            self.call("cuFuncSetAttribute", function, attribute, kernel.shared_bytes)

    def _codes(self, executable: Executable, progress: Progress | None, codes: Sequence[Cubins] | None) -> list[bytes]:
        """Return the cubin of each kernel for this device."""
        try:
            arch = compiled_for(str(Target(executable.target).arch), self.arch)
        except TargetError as error:
            raise TargetError(f"{executable.name} cannot run on {self.name}: {error}") from None
        kept = [code.for_device(self.arch) for code in codes or ()]
        if codes is not None and None not in kept:
            return [code for code in kept if code is not None]
        try:
            return cubins([(kernel.source, kernel.entry, arch) for kernel in executable.kernels], None, progress)
        except TargetError as error:
            if codes is None:
                raise
            held = ", ".join(codes[0].code)
            raise TargetError(
                f"{executable.name} has machine code for {held}, and {self.name} is {self.arch}\n"
                f"  try:    minitvm export --arch {self.arch}, on the machine that compiles it\n"
                f"  found:  it cannot be compiled here: {error}"
            ) from None

    @property
    def stream(self) -> int:
        """The handle of the stream, as DLPack uses it."""
        return int(self.queue)

    shares_host = False
    has_addresses = True

    def enter(self) -> None:
        if self.lost:
            raise CudaError(
                f"the device lost what the program has there ({self.lost})\n  try:    build or load it again"
            )
        self._quickly(self.driver.cuCtxSetCurrent, self.context)

    def _quickly(self, function: Callable[..., Any], *args: Any) -> None:
        """Call a function of the driver that returns no values. Like `call`, but faster, for use in every run."""
        (status,) = function(*args)
        if status:
            self._values((status,))

    def over_host(self, address: int, nbytes: int) -> Any:
        raise NotImplementedError

    def adopted(self, address: int, nbytes: int) -> Adopted:  # noqa: ARG002
        return Adopted(address)

    def address(self, buffer: Memory | Adopted) -> int:
        return buffer.address

    def is_aligned(self, buffer: Memory | Adopted) -> bool:
        return buffer.address % ALIGNMENT == 0

    def allocated(self, nbytes: int) -> Memory:
        self.enter()
        return Memory(self, nbytes)

    def write(self, place: Place, data: Bytes) -> None:
        self.enter()
        self.call("cuMemcpyHtoDAsync", _address(place), data.ctypes.data, data.size, self.queue)

    def read(self, data: Bytes, place: Place) -> None:
        self.enter()
        self.call("cuMemcpyDtoHAsync", data.ctypes.data, _address(place), data.size, self.queue)

    def copy(self, to: Place, source: Place, nbytes: int) -> None:
        self.enter()
        self.call("cuMemcpyDtoDAsync", _address(to), _address(source), nbytes, self.queue)

    def launch(self, kernel: Any, about: Kernel, values: Sequence[Any], shape: Shape) -> Launch:
        function = kernel.handle
        self._check_registers(function, about.name, shape)
        words = np.array(words_of(values, about, _address), np.int64)
        pointers = words.ctypes.data + 8 * np.arange(len(words), dtype=np.uint64)
        place, launch = pointers.ctypes.data, self.driver.cuLaunchKernel

        def queue() -> None:
            self._quickly(launch, function, *shape.blocks, *shape.threads, about.shared_bytes, self.queue, place, 0)

        queue.words = words, pointers, kernel.module  # type: ignore[attr-defined] # what the driver reads
        return queue

    def finish(self) -> None:
        self._quickly(self.driver.cuStreamSynchronize, self.queue)

    def recorded(self, queue: Callable[[], None]) -> Launch | None:
        """Return a graph of the commands that `queue` queues, which the host launches at once, whatever its length.

        Garbage collection is off while recording, because freeing the memory of a dropped program would invalidate the
        graph.
        """
        mode = self.driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
        with not_collected():
            self.call("cuStreamBeginCapture", self.queue, mode)
            try:
                queue()
            finally:
                graph = self.call("cuStreamEndCapture", self.queue)
        try:
            ready = Owned(self.owner, self.call("cuGraphInstantiate", graph, 0), self.driver.cuGraphExecDestroy)
        finally:
            self.driver.cuGraphDestroy(graph)
        return lambda: self._quickly(self.driver.cuGraphLaunch, ready.handle, self.queue)

    def timed(self, before: Callable[[], None], queue: Callable[[], None]) -> float:
        """Return the seconds between two events on the stream."""
        self.enter()
        begin, end = (Owned(self.owner, self.call("cuEventCreate", 0), self.driver.cuEventDestroy) for _ in range(2))
        before()
        self.call("cuEventRecord", begin.handle, self.queue)
        queue()
        self.call("cuEventRecord", end.handle, self.queue)
        self.finish()
        seconds = float(self.call("cuEventElapsedTime", begin.handle, end.handle)) * 1e-3
        begin.free()
        end.free()
        return seconds


@contextmanager
def _entered(driver: Any, context: Any) -> Iterator[None]:
    """Within this scope, make the context current for this thread, and restore the previous one afterwards."""
    driver.cuCtxPushCurrent(context)
    try:
        yield
    finally:
        driver.cuCtxPopCurrent()


def _released(owner: Owner, release: Callable[[Any], Any], handle: Any) -> None:
    """Free all objects of a device's owner, and release its context."""
    owner.close()
    release(handle)


def _address(place: Place) -> int:
    return int(place.buffer.address) + place.offset
