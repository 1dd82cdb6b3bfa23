"""`minitvm info`: targets, this machine, versions, and the folder of compiled kernels."""

from __future__ import annotations

import argparse
import platform
from typing import Any

from ...errors import TargetError, installed_version
from .options import Commands

PACKAGES = (
    "numpy", "numba", "llvmlite", "sympy", "islpy", "z3-solver", "onnx", "onnxruntime", "pyopencl", "numba-cuda",
)  # fmt: skip


def register(commands: Commands) -> None:
    parser = commands.add_parser("info", help="print targets, devices and versions", description=__doc__)
    parser.set_defaults(function=info)


def info(options: argparse.Namespace) -> int:
    from ... import __version__, backend
    from ...lowering.cache import FUNCTIONS
    from ...machines.cpu.runtime import kernel_cache
    from ...target import Target, find_kind

    print(f"minitvm      {__version__}, Python {platform.python_version()} on {platform.system()} {platform.machine()}")
    print(f"target       {Target('cpu')}")
    print(f'CPUs         {", ".join(find_kind("cpu").presets)} (--target "cpu -arch=...")')
    functions, kernels = FUNCTIONS.info(), kernel_cache.KERNELS.info()
    size = (functions.bytes + kernels.bytes) / 1e6
    print(f"cache        {kernels.files} kernels, {functions.files} functions, {size:.1f} MB in {kernels.directory}")
    for kind, back_end in backend.registered().items():
        for device in devices(back_end):
            print(f"{kind:<12} {device}")
    for package in PACKAGES:
        print(f"{package:<12} {installed_version(package) or 'not installed'}")
    return 0


def devices(back_end: Any) -> list[str]:
    """The devices of a back end, or why there are none."""
    listed = back_end.part("devices")
    try:
        return [] if listed is None else listed() or ["no device"]
    except TargetError as error:
        return [str(error).splitlines()[0]]
