"""The folder of a C program, and which files it has."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...build import code_target, compile_executable, imported
from ...build_options import ForBuild, options_of
from ...errors import TargetError, report
from ...executable import Executable
from ...graph.checked import checked_indices
from ...runtime import Function, GraphModule
from ...runtime.here import on_this_machine
from ...target import Target
from ...target.isas import find_isa
from ...tir.nodes import IRModule, PrimFunc
from ..folders import fill, new_folder
from .build_files import cmake_text, example_cpp, makefile
from .check import check_files
from .cpp import hpp_text
from .example import computed
from .header import header_text
from .interface import interface
from .kernel_texts import kernel_texts
from .program import program_text
from .program_names import program_name
from .weights import collect
from .weights import files as weight_files

_ROUNDING = 1e-4  # of the largest element


def export(
    model: Any,
    folder: str | os.PathLike[str],
    *,
    target: str | Target = "cpu",
    weights: str = "auto",
    name: str = "net",
    inputs: Mapping[str, Any] | None = None,
    **options: Any,
) -> Path:
    """Write a model as a C program into a new folder, and return the folder.

    `model` is a model that `minitvm.build` takes, a module that it built or that was loaded, or an `Executable`; for
    the last ones, `target` and `options` have no meaning. `options` are those of `minitvm.build` that describe the
    model and decide how it is compiled. All public names of the program begin with `name`. `weights` is "bin" (a file
    that the program reads), "incbin" (an assembly file that includes them), "array" (C text), or "auto": C text for up
    to 256 KiB, else a file. `inputs` are arrays for the test of the program, by name; None means random ones.

    Raises `TargetError` if the target is no CPU, `Unsupported` if C cannot express the program, and `InputError` if
    the folder has files or cannot be created, or for an invalid argument.
    """
    place = new_folder(folder)
    fill(place, project(model, target=target, weights=weights, name=name, inputs=inputs, **options))
    return place


def project(model: Any, **options: Any) -> dict[str, bytes]:
    """Return the files of a C program by their paths. The arguments are those of `export`."""
    return sized_project(model, **options)[0]


def sized_project(
    model: Any,
    *,
    target: str | Target = "cpu",
    weights: str = "auto",
    name: str = "net",
    inputs: Mapping[str, Any] | None = None,
    **options: Any,
) -> tuple[dict[str, bytes], dict[str, int]]:
    """Return the files of a C program by their paths, and the bytes of each kind of memory that it needs.

    An arena whose size depends on open sizes is left out. The arguments are those of `export`.
    """
    program_name(name)
    executable = _executable(model, target, options)
    machine = Target(executable.target)
    _require_cpu(machine)
    module = model if isinstance(model, GraphModule) else GraphModule(on_this_machine(executable))
    api = interface(executable, name)
    block = collect(executable, weights)
    kernels = kernel_texts(executable)
    example = computed(api, module, inputs, _tolerance(machine), kernels.casts_to_unsigned)
    sizes = {var.name: value for var, value in example.sizes.items()}
    texts = {
        f"{name}.h": header_text(api, block, kernels.stack_bytes),
        f"{name}.c": program_text(api, block, kernels),
        f"{name}.hpp": hpp_text(api, block),
        "example.cpp": example_cpp(api, block, sizes),
        "Makefile": makefile(api, block, machine),
        "CMakeLists.txt": cmake_text(api, block, machine),
    }
    files = {
        **{path: content.encode() for path, content in texts.items()},
        **weight_files(block, name),
        **check_files(api, block, example),
    }
    arena = {"arena": api.arena_bytes} if isinstance(api.arena_bytes, int) else {}
    states = sum(t.elements * t.spec.dtype.bytes for t in api.states if isinstance(t.elements, int))
    return files, {**arena, "states": states, "weights": block.nbytes, "stack": kernels.stack_bytes}


def _executable(model: Any, target: str | Target, options: dict[str, Any]) -> Executable:
    if isinstance(model, Function | GraphModule):
        return model.executable
    if isinstance(model, Executable):
        return model
    machine = code_target(target)
    _require_cpu(machine)
    settings = options_of("export", {"tuned": "auto", **options}, ForBuild)
    if not isinstance(model, PrimFunc | IRModule):
        model = imported(model, settings.of_model)
        if settings.checked:
            model = checked_indices(model)
    return compile_executable(model, machine, settings)


def _tolerance(target: Target) -> float:
    """Return how much results may differ, as a part of the largest element: not at all if the CPU has `fma`.

    Otherwise it is a function of the C library, and some of them round twice. 32-bit ARM has none for float64.
    """
    return 0.0 if target.has_fma and find_isa(target.isa).architecture != "arm" else _ROUNDING


def _require_cpu(target: Target) -> None:
    if target.kind != "cpu":
        raise TargetError(report("C", wanted="a target that is a CPU", found=target.brief, tries=['target="cpu"']))
    if find_isa(target.isa).architecture == "wasm32":
        tries = ["minitvm export MODEL --as wasm -o DIR: a folder for browsers and node", 'target="cpu"']
        raise TargetError(report("C", wanted="a CPU for which gcc compiles", found=target.brief, tries=tries))
