"""`minitvm export MODEL.onnx -o net.mtvm`: compile a model into files that run without the compiler."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass

from ...errors import InputError, nearest
from . import options as opt
from .progress import progress
from .run import output_path


@dataclass(frozen=True, slots=True)
class ExportForm:
    """A form in which a model is written: what it is, the function that writes it, and the options that it alone has.

    The function returns a description of the result.
    """

    about: str
    write: Callable[[argparse.Namespace], str]
    options: tuple[str, ...] = ()


def register(commands: opt.Commands) -> None:
    parser = commands.add_parser("export", help="compile a model into files that run alone", description=__doc__)
    opt.add_model(parser)
    forms = "; ".join(f"{name}: {form.about}" for name, form in FORMS.items())
    parser.add_argument("--as", dest="form", metavar="FORM", default="mtvm", help=f"{forms}; default: mtvm")
    parser.add_argument(
        "--arch", metavar="sm_80", action="append", default=[],
        help="for --target cuda: include machine code for this architecture; may be repeated",
    )  # fmt: skip
    parser.add_argument(
        "-o", "--output", metavar="NET.mtvm", required=True, help="the file to write; for other forms, a new folder"
    )
    opt.add_engine(parser)
    opt.add_key(
        parser, "sign with the key in this file (at least 16 bytes); default: your key, which is created on first use"
    )
    parser.add_argument(
        "--weights", metavar="FORM",
        help="for --as c: bin (a file), incbin (an assembly file), array (C text); default: by their size",
    )  # fmt: skip
    parser.add_argument("--name", metavar="NAME", help="for --as c: the prefix of all public names; default: net")
    parser.add_argument(
        "--input", metavar="FILE.npz", help="for --as c: the inputs of the program's test; default: random ones"
    )
    parser.set_defaults(function=run)


def run(options: argparse.Namespace) -> int:
    form = FORMS.get(options.form)
    if form is None:
        raise InputError(f"--as {options.form}: wanted {' or '.join(FORMS)}; {nearest(options.form, list(FORMS))}")
    for other in FORMS.values():
        for option in other.options:
            if option not in form.options and getattr(options, option):
                names = [name for name, owner in FORMS.items() if option in owner.options]
                raise InputError(f"--{option} goes with --as {' or '.join(names)}")
    start = time.perf_counter()
    result = form.write(options)
    print(f"compiled in {time.perf_counter() - start:.2f} s: {result}")
    return 0


def _artifact(options: argparse.Namespace) -> str:
    """Write one file for Python, which `minitvm.runtime.load` reads."""
    from ... import lower
    from ...runtime.artifact import sign
    from ...runtime.artifact.export import export

    target = opt.target(options.target)
    destination = output_path(options.output, "--output")
    key = None if options.key is None else sign.key_bytes(options.key)
    graph = opt.read_graph(options.model, options.shape)
    with progress() as report:
        executable = lower(
            graph, target=target, stop_at="executable", progress=report, tuned="auto", engines=opt.engines(options)
        )
        compiling = lambda done, total, name: report("compiling", done, total)  # noqa: E731
        export(executable, destination, key, options.arch, compiling)  # no device is needed
    return f"{destination}, {destination.stat().st_size / 1e6:.1f} MB"


def _c_program(options: argparse.Namespace) -> str:
    """Write a folder with a C program."""
    from ...export import fill, new_folder
    from ...export.c import sized_project

    folder = new_folder(options.output)
    target = opt.target(options.target)
    inputs = None if options.input is None else opt.load_arrays(options.input)
    graph = opt.read_graph(options.model, options.shape)
    with progress() as report:
        files, memory = sized_project(
            graph, target=target, weights=options.weights or "auto", name=options.name or "net", inputs=inputs,
            progress=report,
        )  # fmt: skip
    fill(folder, files)
    sizes = ", ".join(f"{kind} {size:,}" for kind, size in memory.items() if size)
    return f"{folder}, {sum(map(len, files.values())) / 1e6:.1f} MB\nmemory of the program, in bytes: {sizes or 'none'}"


def _web_folder(options: argparse.Namespace) -> str:
    """Write a folder for browsers."""
    from ... import lower
    from ...export import new_folder
    from ...export.wasm import TARGET, export

    new_folder(options.output)
    target = opt.target(TARGET if options.target == "cpu" else options.target)
    graph = opt.read_graph(options.model, options.shape)
    with progress() as report:
        executable = lower(graph, target=target, stop_at="executable", progress=report, tuned="auto")
        compiling = lambda done, total, name: report("compiling", done, total)  # noqa: E731
        sizes = export(executable, options.output, compiling)
    code, weights = sizes["net.wasm"], sizes["net.weights.bin"]
    return f"{options.output}, {code / 1e3:.0f} KB of code and {weights / 1e6:.1f} MB of weights"


# The forms by the name that --as has for them.
FORMS = {
    "mtvm": ExportForm("one file for Python", _artifact, ("arch", "key", "engine")),
    "c": ExportForm("a folder with a C program", _c_program, ("weights", "name", "input")),
    "wasm": ExportForm("a folder for browsers and node", _web_folder),
}
