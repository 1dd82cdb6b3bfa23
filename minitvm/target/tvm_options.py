"""TVM's target strings, such as `llvm -mcpu=cascadelake -num-cores=4`: convert them to targets of minitvm.

An option without a counterpart raises an error that suggests what to write instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..errors import TargetError
from .isas import ISAS, NATIVE, find_isa
from .machines import KINDS

# CPUs by LLVM's names, each with a model that has the same vectors and similar caches.
_LIKE: dict[str, tuple[str, ...]] = {
    "x86-64": ("core2",),
    "x86-64-v2": ("nehalem", "westmere"),
    "haswell": ("core-avx2", "broadwell", "skylake", "alderlake", "raptorlake"),
    "skylake-avx512": (
        "cascadelake", "cooperlake", "cannonlake", "icelake-client", "icelake-server", "rocketlake", "tigerlake",
        "sapphirerapids", "emeraldrapids", "graniterapids",
    ),
    "znver3": ("znver1", "znver2"),
    "znver4": ("znver5",),
    "cortex-a53": ("cortex-a55",),
    "cortex-a72": ("cortex-a57", "cortex-a73"),
    "cortex-a76": ("neoverse-n1",),
}  # fmt: skip
MODELS = {name: model for model, names in _LIKE.items() for name in names}

_WIDTHS = {"avx512f": 512, "avx2": 256, "avx": 256, "sse4.2": 128, "sse4.1": 128, "neon": 128}
_NO_EFFECT = ("keys", "tag")
_MACHINES = {
    "x86_64": ("x86_64", "amd64"), "aarch64": ("aarch64", "arm64"), "arm": ("arm", "thumb", "thumbv7em"),
}  # fmt: skip

TAGS = {
    "nvidia/nvidia-h100": ("cuda", {"model": "h100"}),
    "nvidia/nvidia-a100": ("cuda", {"model": "a100"}),
    "nvidia/geforce-gtx-1080-ti": ("cuda", {"model": "gtx-1080-ti"}),
}

# Options without a counterpart: (the reason, what to write instead).
_GRID = "there is no code generator for it"
KINDS_REFUSED = {
    "vulkan": (_GRID, "opencl"),
    "metal": (_GRID, "opencl"),
    "webgpu": (_GRID, "opencl"),
    "rocm": (_GRID, "opencl -model=amd"),
    "nvptx": (_GRID, "cuda"),
    "hexagon": (_GRID, "cpu"),
    "ext_dev": (_GRID, "accel"),
    "c": ("code is generated for the CPU at hand", "cpu"),
}
OPTIONS_REFUSED = {
    "libs": ("libraries are engines: minitvm.runtime.register_engine", "cpu"),
    "device": ("a CPU is named by its model", "cpu -mcpu=cortex-a72"),
    "opt-level": ("kernels are compiled at one level", "cpu"),
    "fast-math": ("kernels keep the order of operations that a schedule gives", "cpu"),
    "link-params": ("constants are a part of the executable", "cpu"),
    "system-lib": ("a saved module is a file: module.export(path)", "cpu"),
    "runtime": ("there is one runtime", "cpu"),
    "executor": ("there is one executor", "cpu"),
    "mabi": ("code runs on the machine at hand", "cpu"),
    "mfloat-abi": ("code runs on the machine at hand", "cpu"),
}


def as_ours(kind: str, options: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Convert TVM's kind and options to minitvm's. Options that are minitvm's own are returned unchanged.

    Raises `TargetError` for a kind, tag or option of TVM without a counterpart.
    """
    if kind not in KINDS:
        kind, options = _without_tag(kind, options)
    if kind in KINDS_REFUSED and kind not in KINDS:
        raise _refusal(f"target {kind!r}", *KINDS_REFUSED[kind])
    options = {key: value for key, value in options.items() if key not in _NO_EFFECT}
    return (kind, _cpu(options)) if kind in ("cpu", "llvm") else (kind, options)


def _without_tag(kind: str, options: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    if kind in TAGS:
        named, more = TAGS[kind]
        return named, {**more, **options}
    vendor = kind.partition("/")[0]
    if vendor != kind:
        tags = ", ".join(TAGS)
        write = "cuda -arch=sm_86" if vendor == "nvidia" else "cpu -mcpu=cortex-a72" if "pi" in vendor else "cpu"
        raise _refusal(f"target tag {kind!r}", f"known: {tags}", write)
    return kind, options


def _cpu(options: dict[str, Any]) -> dict[str, Any]:
    for key in options:
        reason = OPTIONS_REFUSED.get("fast-math" if key.startswith("fast-math") else key)
        if reason is not None:
            raise _refusal(f"option -{key} of llvm", *reason)
    if "mtriple" in options:
        _require_architecture(str(options.pop("mtriple")), str(options.get("mcpu", "")))
    if "vector-width" in options:
        options["vector_bits"] = options.pop("vector-width")
    features = str(options.pop("mattr", ""))
    if features:
        options = {**_of_features(features), **options}
    model = options.get("mcpu")
    if model in MODELS:
        options = {"name": model, **options, "mcpu": MODELS[str(model)]}
    return options


def _of_features(text: str) -> dict[str, Any]:
    """Return the options that correspond to an LLVM feature list such as `+avx2,+fma`."""
    there = [part[1:] for part in text.split(",") if part.startswith("+")]
    options: dict[str, Any] = {"features": ",".join(name.replace(".", "_") for name in there)}
    widths = [_WIDTHS[name] for name in there if name in _WIDTHS]
    if widths:
        options["vector_bits"] = max(widths)
    if "fma" in there:
        options["has_fma"] = True
    return options


def _require_architecture(triple: str, model: str) -> None:
    """Raise `TargetError` unless the CPU that `model` names, or this machine if it names none, has the architecture of
    a triple.
    """
    name = MODELS.get(model, model)
    here, there = find_isa(name if name in ISAS else NATIVE).architecture, triple.partition("-")[0].lower()
    if not any(here in names and there in names for names in _MACHINES.values()) and here != there:
        whose = f"{model} is" if name in ISAS else "without a model, code is for the machine at hand,"
        raise _refusal(f"option -mtriple={triple} of llvm", f"{whose} {here}", "cpu -mcpu=cortex-a72")


def _refusal(what: str, why: str, write: str) -> TargetError:
    return TargetError(f"{what} has no counterpart: {why}\n  try:    Target({write!r})")
