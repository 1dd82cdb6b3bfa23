"""`minitvm accel`: run, show and time programs of the simulated tensor accelerator.

minitvm accel run PROGRAM.asm     verify a program or a layer (C2 ... C12), run it in several orders, time it
minitvm accel run MODEL           quantise a network, run it on the accelerator and its host, count cycles
minitvm accel explain MODEL       list the products of a network that the accelerator cannot run, and why
minitvm accel show PROGRAM        the text of a program, a binary or a layer
minitvm accel sweep C2 C12        cycles of layers for several arrays and memories
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ...errors import InputError, nearest
from . import options as opt
from .accel_output import files, pictures
from .progress import progress
from .run import output_path, save

if TYPE_CHECKING:
    from ...machines.scratchpad.timeline import Timeline
    from ...machines.vta.config import AccelConfig
    from ...machines.vta.isa import Program
    from ...target import Target


def register(commands: opt.Commands) -> None:
    parser = commands.add_parser(
        "accel",
        help="run and time programs of the simulated tensor accelerator",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    run_parser = actions.add_parser("run", help="verify, interpret and time a program or a layer")
    _program(run_parser)
    run_parser.add_argument(
        "--orders",
        type=int,
        default=8,
        metavar="N",
        help="for a program or a layer: orders to try; default: 8",
    )
    run_parser.add_argument("--input", metavar="X.npz", help="file with named inputs; default: seeded random inputs")
    run_parser.add_argument("--output", metavar="Y.npz", help="write the outputs there")
    run_parser.add_argument("--timeline", metavar="OUT.html", help="write a page with the Gantt chart")
    run_parser.add_argument("--trace", metavar="OUT.json", help="write a trace for Perfetto or chrome://tracing")
    run_parser.set_defaults(function=run)
    explain_parser = actions.add_parser("explain", help="say which layers of a network the accelerator runs, and why")
    explain_parser.add_argument("program", metavar="MODEL", help="an ONNX file, or a network of `minitvm models`")
    explain_parser.add_argument("--input", metavar="X.npz", help="a sample to quantise with; default: seeded random")
    _machine(explain_parser)
    explain_parser.set_defaults(function=explain)
    show_parser = actions.add_parser("show", help="print the text of a program, a binary or a layer")
    _program(show_parser)
    show_parser.add_argument("--binary", metavar="OUT.bin", help="write the instructions there, 16 bytes each")
    show_parser.set_defaults(function=show)
    sweep_parser = actions.add_parser("sweep", help="time layers on several arrays and memories")
    sweep_parser.add_argument("layers", nargs="*", metavar="LAYER", help="C2 ... C12; default: all")
    _machine(sweep_parser)
    sweep_parser.add_argument("--array", type=_numbers, default=[None], metavar="8,16,32", help="sides of the array")
    sweep_parser.add_argument(
        "--bandwidth", type=_numbers, default=[None], metavar="8,16,64", help="bytes that DRAM moves per cycle"
    )
    sweep_parser.add_argument(
        "--roofline", metavar="OUT.png", help="draw the layers on the first machine under its roofs"
    )
    sweep_parser.set_defaults(function=sweep)


def _machine(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--config", default="vta", help="the machine: vta, vdla, vta2 with all options, or gemmini; default: vta"
    )
    parser.add_argument("--memory", default="tsim", help="tsim (a latency of one cycle) or board (100); default: tsim")


def _program(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "program", metavar="PROGRAM", help="a text of instructions, a layer of ResNet-18 (C2 ... C12), or a network"
    )
    _machine(parser)
    parser.add_argument(
        "--contexts", type=int, choices=(1, 2), default=2, help="for a layer: 2 hides latency, 1 does not; default: 2"
    )


def _numbers(text: str) -> list[int]:
    try:
        numbers = [int(part) for part in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(f"wanted numbers with commas between, found {text!r}") from None
    if min(numbers) < 1:
        raise argparse.ArgumentTypeError(f"wanted numbers of at least 1, found {text!r}")
    return numbers


def _read(options: argparse.Namespace, target: Target) -> tuple[Program, AccelConfig]:
    from ...machines.vta.assembler import read
    from ...machines.vta.layers import RESNET18
    from ..models import ALL
    from .accel_layers import compiled

    config = target.config
    if options.program in RESNET18:
        return compiled(RESNET18[options.program], target, options.contexts, options.program), config
    path = Path(options.program)
    if not path.is_file():
        near = f"; {nearest(options.program, [*RESNET18, *ALL])}" if path.parent == Path(".") else ""
        raise InputError(f"no such file: {options.program}{near}")
    return read(path.read_bytes(), config, path.name), config


def run(options: argparse.Namespace) -> int:
    from ...machines.vta.timing import simulate
    from ...machines.vta.verifier import verify
    from .accel_layers import machine

    if _is_network(options.program):
        from .accel_network import run as run_network

        return run_network(options, machine(options.config, options.memory))
    targets = files(options)
    target = machine(options.config, options.memory)
    if target.kind != "accel":
        return _run_elsewhere(options, target, targets)
    program, config = _read(options, target)
    verify(program, config)
    inputs = _inputs(program, config, opt.load_arrays(options.input) if options.input else None)
    outputs = _interpreted(program, config, inputs, max(1, options.orders))
    print(opt.describe(outputs))
    if not _right(options.program, config, inputs, outputs):
        return 1
    start = time.perf_counter()
    timeline = simulate(program, config, verified=True)
    print(f"timed in {time.perf_counter() - start:.2f} s")
    if "output" in targets:
        save(targets["output"], outputs)
    written = pictures(timeline, targets)  # before the table, of which a reader may take the head alone
    print(timeline.text())
    for file in written:
        print(f"wrote {file}")
    return 0


def _run_elsewhere(options: argparse.Namespace, target: Target, targets: dict[str, Path]) -> int:
    """A layer on a machine of another kind: what its back end runs and counts."""
    from ...machines.vta.layers import RESNET18
    from .accel_layers import run as run_layer

    if options.program not in RESNET18 or options.input:
        raise InputError(
            f"on {target.kind} run a layer, {', '.join(RESNET18)}, on random inputs, or a network; "
            f"found {options.program!r}"
        )
    outputs, timeline, same = run_layer(options.program, RESNET18[options.program], target, options.contexts)
    print(opt.describe(outputs))
    print("the result is NumPy's, bit by bit" if same else "the result is NOT that of NumPy")
    if "output" in targets:
        save(targets["output"], outputs)
    written = pictures(timeline, targets)
    print(timeline.text())
    for file in written:
        print(f"wrote {file}")
    return 0 if same else 1


def _is_network(name: str) -> bool:
    """Whether a name is that of an ONNX file, or of a network of this package."""
    from ..models import ALL

    return name.endswith(".onnx") or name in ALL


def explain(options: argparse.Namespace) -> int:
    from .accel_layers import machine
    from .accel_network import explain as explain_network

    return explain_network(options, machine(options.config, options.memory))


def _inputs(program: Program, config: AccelConfig, given: dict[str, Any] | None) -> dict[str, Any]:
    """Arrays for the inputs: those that were given, or seeded random ones."""
    if given is not None:
        return given
    rng = np.random.default_rng(0)
    found = {}
    for buffer in program.buffers:
        if buffer.role == "input":
            limits = np.iinfo(config.dtype(buffer.kind))
            shape = (buffer.count, *config.shape(buffer.kind))
            found[buffer.name] = rng.integers(limits.min, limits.max, shape, config.dtype(buffer.kind), endpoint=True)
    return found


def _interpreted(program: Program, config: AccelConfig, inputs: dict[str, Any], orders: int) -> dict[str, Any]:
    """The outputs, the same in all orders."""
    from minitvm.reference import accel

    from ...machines.vta.tokens import tokens

    start = time.perf_counter()
    explored = accel.check(program, config, inputs, orders=orders)
    seconds = time.perf_counter() - start
    print(f"{len(program.instructions)} instructions, ordered by tokens: all orders give one result")
    all_tokens = tokens(program, config)
    needed = sum(one.needed != "" for one in all_tokens)
    print(
        f"{len(all_tokens)} tokens; {needed} of them are needed: without one, two instructions that touch an element "
        "have no order"
    )
    print(f"{len(explored.orders)} orders were run in {seconds:.2f} s: {'; '.join(explored.orders)}")
    return explored.outputs


def _right(name: str, config: AccelConfig, inputs: dict[str, Any], outputs: dict[str, Any]) -> bool:
    """Whether a layer's result is what NumPy has; nothing is known of other programs."""
    from ...machines.vta.layers import RESNET18, unpack_filters, unpack_image, unpack_result

    if name not in RESNET18:
        return True
    layer = RESNET18[name]
    image, filters = unpack_image(inputs["image"], layer, config), unpack_filters(inputs["filters"], layer, config)
    same = np.array_equal(unpack_result(outputs["result"], layer, config), layer.reference(image, filters))
    print("the result is NumPy's, bit by bit" if same else "the result is NOT that of NumPy")
    return same


def show(options: argparse.Namespace) -> int:
    from ...machines.vta.disassembler import disassemble
    from ...machines.vta.encoding import encode_program
    from .accel_layers import machine

    target = machine(options.config, options.memory)
    if target.kind != "accel":
        print(_elsewhere(options, target), end="")
        return 0
    program, config = _read(options, target)
    if options.binary:
        file = output_path(options.binary, "--binary")
        file.write_bytes(encode_program(program.instructions, config))
        print(f"wrote {file}")
        return 0
    print(disassemble(program, config), end="")
    return 0


def _elsewhere(options: argparse.Namespace, target: Target) -> str:
    """The text of a layer's program on a machine of another kind."""
    from ...machines.vta.layers import RESNET18
    from .accel_layers import source

    if options.binary:
        raise InputError(f"--binary is for the machines of kind accel: the programs of {target.kind} have a text only")
    if options.program not in RESNET18:
        raise InputError(f"on {target.kind} show a layer, {', '.join(RESNET18)}; found {options.program!r}")
    return source(RESNET18[options.program], target, options.contexts)


def sweep(options: argparse.Namespace) -> int:
    from ...machines.scratchpad.viz import roofline
    from ...machines.vta.layers import RESNET18, Conv2d
    from ...machines.vta.lower_bounds import beside_a_processor, bound
    from ...plots import figure_type
    from .accel_layers import machine, timed

    unknown = [name for name in options.layers if name not in RESNET18]
    if unknown:
        raise InputError(f"no layer is called {unknown[0]!r}: {nearest(unknown[0], list(RESNET18))}")
    targets = [
        machine(options.config, options.memory, block, bandwidth)
        for block in options.array
        for bandwidth in options.bandwidth
    ]

    drawing = output_path(options.roofline, "--roofline") if options.roofline else None
    if drawing:
        figure_type()  # what is missing is said before the work
    drawn: dict[str, tuple[Timeline, Timeline]] = {}

    def row(name: str, layer: Conv2d) -> list[str]:
        cells = []
        for target in targets:
            config = target.config
            if layer.in_channels % config.block_in or layer.out_channels % config.block_out:
                cells.append("does not fit")
                continue
            alone, hidden = (timed(layer, target, n, name) for n in (1, 2))
            if target is targets[0]:
                drawn[name] = alone, hidden
            if target.kind == "accel":
                lowest = bound(layer, config)
                least, limit = lowest.cycles, lowest.name
            else:  # products and bytes of this program, of which other programs may move fewer
                least, limit = hidden.bound
            share = f"{least / hidden.cycles:.2f} of {limit}"
            cells.append(f"{hidden.cycles:,} {alone.utilisation:.2f} {hidden.utilisation:.2f} {share}")
        return cells

    configs = [target.config for target in targets]
    heads = [f"{c.block_in}x{c.block_out}, {c.dram.bytes_per_cycle} B" for c in configs]
    ours = targets[0].kind == "accel"
    least, where = ("no program can beat", "accel.bounds") if ours else ("its transfers and products take", "Timeline")
    print(
        f"{options.config}, {options.memory} memory: cycles, the array's use with one context and with two, and the"
        f" share of what {least} (`{where}`), of compiled programs"
    )
    rows, names = {}, options.layers or list(RESNET18)
    with progress() as report:
        for number, name in enumerate(names):
            report(f"timing {name}", number, len(names))
            rows[name] = row(name, RESNET18[name])
    _table(heads, rows)
    cycles = {name: hidden.cycles for name, (_, hidden) in drawn.items()}
    if ours and cycles.keys() == RESNET18.keys():
        print(beside_a_processor(cycles, RESNET18, configs[0]))
    if drawing and drawn:
        roofline.save(drawn, drawing)
        print(f"wrote {drawing}")
    return 0


def _table(heads: Sequence[str], rows: dict[str, list[str]]) -> None:
    widths = [max(len(head), *(len(cells[n]) for cells in rows.values())) for n, head in enumerate(heads)]
    print("    ", *(f"{head:>{width}}" for head, width in zip(heads, widths, strict=True)), sep="  ")
    for name, cells in rows.items():
        print(f"{name:<4}", *(f"{cell:>{width}}" for cell, width in zip(cells, widths, strict=True)), sep="  ")
