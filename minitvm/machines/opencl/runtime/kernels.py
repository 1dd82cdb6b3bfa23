"""Compile the kernels of an executable for a device: one OpenCL program for each source.

Drivers cache compiled programs on disk. pyopencl's cache of binaries is not used, because PoCL's binaries contain no
kernels.
"""

from __future__ import annotations

import os
import re
import threading
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from ....errors import TargetError, report
from ....executable import Kernel
from . import driver_cache
from .devices import Device, pyopencl

if TYPE_CHECKING:
    from ....runtime.program import Progress

LANGUAGE = "opencl"
LIMIT = "MINITVM_OPENCL_LIMIT"  # seconds
_SECONDS = 180.0
_ATTEMPTS = 3  # to compile a program in which a kernel is missing
_LINE = re.compile(r":(\d+):\d+: error|<source>:(\d+)")
_EXTENSIONS = re.compile(r"^#pragma OPENCL EXTENSION (\w+)", re.MULTILINE)
# What an extension brings, and what a program can do without it.
_BRINGS = {
    "cl_khr_fp64": (
        "arithmetic of float64",
        "a model in float32; or -on_host=OP of the target, for what needs float64",
    ),
    "cl_khr_fp16": ("arithmetic of float16", "a target without -half_arithmetic: float16 computed in float32"),
}


def compiled(device: Device, kernels: Sequence[Kernel], progress: Progress | None) -> list[Any]:
    """Return the programs of the kernels' sources, in order.

    Raises `TargetError` for a source in another language, for an extension that the device lacks, and for a source that
    the compiler rejects, with the compiler's message and the line.
    """
    programs: dict[str, Any] = {}
    for number, kernel in enumerate(kernels):
        if kernel.language != LANGUAGE:
            raise TargetError(f"kernel {kernel.name} is written in {kernel.language}; this runtime runs {LANGUAGE}")
        if kernel.source not in programs:
            programs[kernel.source] = _compiled(device, kernel)
        if progress is not None:
            progress(number + 1, len(kernels), kernel.name)
    return [programs[kernel.source] for kernel in kernels]


def _compiled(device: Device, kernel: Kernel) -> Any:
    cl = pyopencl()
    for extension in _EXTENSIONS.findall(kernel.source):
        if extension not in device.handle.extensions.split():
            brings, instead = _BRINGS.get(extension, ("", "--target cpu"))
            raise TargetError(
                f"kernel {kernel.name} needs the extension {extension}{brings and f' ({brings})'}\n"
                f"  found:  {device.name} does not have it\n  try:    {instead}"
            )
    device.require_usable()
    for attempt in range(_ATTEMPTS):
        again = [f"-DMINITVM_ATTEMPT={attempt}"] if attempt else []
        try:
            program = _within(
                limit(), lambda extra=again: _built(cl, device, kernel.source, extra)  # type: ignore[misc]
            )  # fmt: skip
        except TimeoutError:
            device.stuck.append(kernel.name)
            raise too_slow(device, kernel.name) from None
        except cl.Error as error:
            raise TargetError(_rejected(device, kernel, str(error))) from None
        if _has(cl, program, kernel.entry):
            return program
        device.keep()
    raise TargetError(
        f"the program that {device.name} makes of kernel {kernel.name} does not have it\n"
        f"  found:  no {kernel.entry} in {_ATTEMPTS} attempts\n"
        f"  try:    without the driver's cache, which may be damaged: {driver_cache.location()}"
    )


def _built(cl: Any, device: Device, source: str, extra: Sequence[str]) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # compilers that have something to say and no error
        return cl.Program(device.context, source).build(options=[*_options(cl, device), *extra], cache_dir=False)


def _has(cl: Any, program: Any, entry: str) -> bool:
    """Return whether a program contains a kernel. A program that PoCL reads from a damaged file has none, without an
    error.

    A driver looks up cached programs by source and options, so another option makes it compile again.
    """
    try:
        cl.Kernel(program, entry)
    except cl.Error:
        return False
    return True


def limit() -> float:
    """Return the time limit, in seconds, for compiling a kernel."""
    text = os.environ.get(LIMIT, "")
    try:
        seconds = float(text or _SECONDS)
    except ValueError:
        seconds = 0.0
    if seconds <= 0:
        raise TargetError(f"{LIMIT}={text!r}\n  wanted: seconds, such as {_SECONDS}")
    return seconds


def too_slow(device: Device, name: str) -> TargetError:
    """Return the error for a kernel that a driver does not compile within the limit."""
    return TargetError(
        f"{device.name} has not compiled kernel {name} in {limit():g} seconds\n"
        f"  wanted: a kernel that its compiler digests; the limit is {LIMIT}\n"
        "  try:    narrower vectors, as in --target 'opencl -device=pocl -vector_bits=128'; or --target cpu"
    )


def _within(seconds: float, work: Callable[[], Any]) -> Any:
    """Return the result of `work`. Raises TimeoutError if it takes longer than `seconds`; it then continues in its
    thread.
    """
    answer: Future[Any] = Future()

    def run() -> None:
        try:
            answer.set_result(work())
        except BaseException as error:
            answer.set_exception(error)

    threading.Thread(target=run, name="minitvm-opencl-compiler", daemon=True).start()
    return answer.result(seconds)


def _options(cl: Any, device: Device) -> list[str]:
    """Return the compiler options. Divisions and square roots are rounded correctly if the device can; processors
    always do so.

    Warnings are off, because PoCL 3.0 treats a program with warnings as one without kernels. For simulators,
    optimisation is off, so that they check the program as written.
    """
    if device.is_simulator:
        return ["-w", "-cl-opt-disable"]
    asked = not device.handle.type & cl.device_type.CPU
    exact = asked and device.handle.single_fp_config & cl.device_fp_config.CORRECTLY_ROUNDED_DIVIDE_SQRT
    return ["-w", *(["-cl-fp32-correctly-rounded-divide-sqrt"] if exact else [])]


def _rejected(device: Device, kernel: Kernel, message: str) -> str:
    lines = kernel.source.splitlines()
    found = _LINE.search(message)
    at = int(next(g for g in found.groups() if g)) if found else 0
    shown = "\n".join(lines[max(0, at - 3) : at + 2]) if 0 < at <= len(lines) else kernel.source
    return report(
        f"the compiler of {device.name} rejects kernel {kernel.name}",
        program=shown,
        wanted="OpenCL C 1.2 that the device compiles",
        found=message.strip(),
        tries=("minitvm show --level source prints the whole kernel",),
    )
