"""The OpenCL devices of this machine, and the device on which programs run.

MINITVM_OPENCL_DEVICE selects it by a part of its name or of its platform's name ("pocl", "mali", "oclgrind"). The
default is the first GPU, or else the first other device that is not a simulator.
"""

from __future__ import annotations

import ctypes
import functools
import os
from dataclasses import dataclass, field
from typing import Any

from ....errors import TargetError
from ....target import Target, find_kind
from ....workers.cores import available_cores
from . import driver_cache

VARIABLE = "MINITVM_OPENCL_DEVICE"
_DRIVERS = "OCL_ICD_VENDORS"  # the loader reads it: the folder in which drivers are registered
_SIMULATORS = ("oclgrind",)
_NICKNAMES = {"pocl": "portable computing language"}


@dataclass(frozen=True, slots=True)
class Device:
    """A device with a context and a queue, in which commands run in order."""

    handle: Any
    context: Any
    queue: Any
    stuck: list[str] = field(default_factory=list)  # the kernels whose compilation did not end

    def require_usable(self) -> None:
        """Raise `TargetError` if the driver is still compiling a kernel that it did not finish in time."""
        if self.stuck:
            raise TargetError(
                f"{self.name} can run nothing in this process: it still compiles kernel {self.stuck[0]}\n"
                "  try:    a new process, with another target or without this kernel"
            )

    def keep(self) -> None:
        """Never release the context, because PoCL aborts when it releases a program that it could not read."""
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self.context))

    @property
    def name(self) -> str:
        """The names of the platform and the device, for messages."""
        return _described(self.handle)

    @property
    def is_simulator(self) -> bool:
        """Return whether the device runs kernels step by step to find mistakes in them."""
        return _is_simulator(self.handle)


def pyopencl() -> Any:
    """Return the module pyopencl. Raises `TargetError` if it is not installed."""
    try:
        import pyopencl
    except ImportError as error:
        raise TargetError(
            f"OpenCL needs the package pyopencl: {error}\n  try:    pip install 'minitvm[opencl]'"
        ) from None
    return pyopencl


def available() -> list[Any]:
    """Return the handles of all devices, platform by platform."""
    cl = pyopencl()
    _start()
    try:
        platforms = cl.get_platforms()
    except cl.Error:  # no driver is installed
        return []
    devices: list[Any] = []
    for platform in platforms:
        try:
            devices += platform.get_devices()
        except cl.Error:  # a driver without its device
            continue
    return devices


@functools.cache
def _start() -> None:
    """Set the environment that drivers read when they start, once per process."""
    _pin_threads()
    driver_cache.prepare()


def _pin_threads() -> None:
    """Let PoCL pin each of its threads to a core, if this process may use all cores. PoCL reads this setting at its
    start.

    Otherwise the system may wake two threads on one core, and a kernel takes twice as long. MINITVM_PIN=0 turns this
    off.
    """
    if os.environ.get("MINITVM_PIN") != "0" and available_cores() == list(range(os.cpu_count() or 1)):
        os.environ.setdefault("POCL_AFFINITY", "1")


def names() -> list[str]:
    """Return readable names of the devices that `available` returns."""
    return [_described(handle) for handle in available()]


def current(wanted: str = "") -> Device:
    """Return the device on which programs run, or the one with this name. Raises `TargetError` if there is none."""
    return _opened(wanted or os.environ.get(VARIABLE, ""))


@functools.cache
def _opened(wanted: str) -> Device:
    cl = pyopencl()
    devices = available()
    if not devices:
        folder = os.environ.get(_DRIVERS)
        where = "" if folder is None else f" where {_DRIVERS}={folder} says\n  try:    {_DRIVERS} unset"
        raise TargetError(
            f"there is no OpenCL device: no driver was found{where}\n"
            "  try:    the driver of the GPU, or pip install pocl-binary-distribution, which runs on the CPU"
        )
    handle = _chosen(cl, devices, wanted.lower())
    if handle is None:
        listed = "\n          ".join(map(_described, devices))
        raise TargetError(f"no OpenCL device is called {wanted!r}, as {VARIABLE} or device= says\n  found:  {listed}")
    context = cl.Context([handle])
    return Device(handle, context, cl.CommandQueue(context, handle))


# Models of targets, by a word in the name of a device or its maker.
_MODELS = {"mali": "mali", "adreno": "adreno", "intel": "intel", "amd": "amd", "advanced micro devices": "amd"}
_PROCESSORS = ("pocl", *_SIMULATORS)


def at_hand(target: Target) -> Target:
    """Return the target of the GPU on which programs run, if `target` names no model and there is a GPU.

    Otherwise return `target`. Processors and simulators are not described; for them, `opencl` has the limits that all
    devices support.
    """
    wanted = os.environ.get(VARIABLE, "").lower()
    if target.name != find_kind("opencl").default().name or wanted in _PROCESSORS:
        return target
    try:
        cl, devices = pyopencl(), available()
    except TargetError:  # whoever runs the code is told what is missing
        return target
    handle = _chosen(cl, devices, wanted) if devices else None
    if handle is None or not handle.type & cl.device_type.GPU:
        return target
    return target.on(described(cl, handle))


def described(cl: Any, handle: Any) -> str:
    """Return the target of a device as text: the figures of its maker's GPUs, with the device's own limits."""
    maker = f"{handle.vendor} {_described(handle)}".lower()
    model = next((f"-device={model} " for word, model in _MODELS.items() if word in maker), "")
    helps = handle.local_mem_type == cl.device_local_mem_type.LOCAL
    return (
        f"opencl {model}-max_threads_per_block={int(handle.max_work_group_size)} "
        f"-max_block_dim={','.join(str(int(n)) for n in handle.max_work_item_sizes)} "
        f"-max_shared_memory_per_block={int(handle.local_mem_size)} -multiprocessors={int(handle.max_compute_units)} "
        f"-vector_bits={max(128, 32 * int(handle.preferred_vector_width_float))} "
        f"-local_memory_helps={str(helps).lower()} -half_arithmetic={str(_has_half(cl, handle)).lower()}"
    )


def _has_half(cl: Any, handle: Any) -> bool:
    """Return whether a device computes with halves as IEEE 754 requires, including denormal numbers."""
    if "cl_khr_fp16" not in handle.extensions.split():
        return False
    needed = cl.device_fp_config.DENORM | cl.device_fp_config.INF_NAN | cl.device_fp_config.ROUND_TO_NEAREST
    return bool(handle.half_fp_config & needed == needed)


def _chosen(cl: Any, devices: list[Any], wanted: str) -> Any:
    if wanted:
        sought = _NICKNAMES.get(wanted, wanted)
        return next((d for d in devices if sought in _described(d).lower()), None)
    real = [d for d in devices if not _is_simulator(d)] or devices
    return next((d for d in real if d.type & cl.device_type.GPU), real[0])


def _is_simulator(handle: Any) -> bool:
    return any(name in _described(handle).lower() for name in _SIMULATORS)


def _described(handle: Any) -> str:
    return f"{handle.platform.name}: {handle.name}"
