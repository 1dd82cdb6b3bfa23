"""The kernels of an executable, compiled for a device: one OpenCL program for each source.

Drivers keep what they compiled on disk. pyopencl's own cache of binaries is not used: what PoCL saves has no kernels.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ...errors import TargetError, report
from ...executable import Kernel
from .devices import Device, pyopencl

if TYPE_CHECKING:
    from ..program import Progress

LANGUAGE = "opencl"
_LINE = re.compile(r":(\d+):\d+: error|<source>:(\d+)")
_EXTENSIONS = re.compile(r"^#pragma OPENCL EXTENSION (\w+)", re.MULTILINE)
# What an extension brings, and what a program can do without it.
_BRINGS = {
    "cl_khr_fp64": ("arithmetic of float64", "a model in float32; or -on_host=OP of the target, for what needs float64")
}


def compiled(device: Device, kernels: Sequence[Kernel], progress: Progress | None) -> list[Any]:
    """The programs of the kernels' sources, in order.

    Raises `TargetError` for a source in another language, for an extension that the device lacks, and for what its
    compiler rejects, with its message and the line of the source.
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
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # compilers that have something to say and no error
            return cl.Program(device.context, kernel.source).build(options=_options(cl, device), cache_dir=False)
    except cl.RuntimeError as error:
        raise TargetError(_rejected(device, kernel, str(error))) from None


def _options(cl: Any, device: Device) -> list[str]:
    """Divisions and square roots are rounded correctly, where the device can; processors do so unasked.

    Without warnings: PoCL 3.0 takes a program with any for one without kernels. Simulators look at what is written, not
    at what an optimiser makes of it.
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
