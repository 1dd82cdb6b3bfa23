"""The parts of a back end: the class `Backend`, and the table of its parts."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..target import Kind

AnyPart = Callable[..., Any] | str | None


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a back end: how it is called, its purpose, and what happens without it ("" if every back end must have
    it).

    `arguments` are the names of the positional arguments that it is called with, or None if it is not called. If the
    part is a class, it must have the `methods`.
    """

    name: str
    call: str
    purpose: str
    default: str = ""
    arguments: tuple[str, ...] | None = None
    methods: tuple[str, ...] = ()


PARTS: tuple[Part, ...] = (
    Part(
        "machine", "machine: target.Kind", "Target() to read the options of such a machine",
        default="the kind of target that is registered under the name",
    ),
    Part(
        "products", "products(target, accuracy) -> [(name, pass on a Graph)]",
        "graph passes to choose the numbers in which products are computed",
        default="in integers where operands are bytes, as the target computes them in 16-bit floats",
        arguments=("target", "accuracy"),
    ),
    Part(
        "operators", "operators: a module", "graphs to have operators of the machine's own, which its import registers",
        default="graphs for it consist of the neutral operators",
    ),
    Part(
        "layouts", "layouts(target, accuracy) -> [(name, pass on a Graph)]", "graph passes to put values into layouts",
        default="values stay in the layouts that the model has", arguments=("target", "accuracy"),
    ),
    Part(
        "rules", "rules(target) -> [strategy.Rule]", "the strategy to schedule a function",
        default="the rules that `strategy.rule` registered for the kind; else loops run as written",
        arguments=("target",),
    ),
    Part(
        "algorithms", "algorithms(conv, block, target, accuracy) -> [strategy.Option]",
        "layouts to choose the algorithm of a convolution", default="a convolution is computed as it is written",
        arguments=("conv", "block", "target", "accuracy"),
    ),
    Part(
        "channel_block", "channel_block(use, lanes, target, accuracy) -> int | None",
        "layouts to choose how many channels lie together", default="the widest vector that divides them",
        arguments=("use", "lanes", "target", "accuracy"),
    ),
    Part(
        "explain", "explain(func, target) -> [str]", "`show --level schedule` to say why a function is scheduled so",
        default="the rule is named, with no figures", arguments=("func", "target"),
    ),
    Part(
        "passes", "passes: {name of a pass: [tir.transform.pipeline.Pass]}, added behind it; or (Pass, ...) for all",
        "lowering a scheduled function to kernels", default="tir.transform.pipeline.PASSES, the neutral ones",
    ),
    Part(
        "intrinsics", "intrinsics(name)", "tensorize to know the tensor intrinsic of a name",
        default="those are known that something registered", arguments=("name",),
    ),
    Part(
        "instructions", "instructions: tir.tensor_intrin.accelerator.InstructionSet",
        "tensorize to name what a machine with scratchpads does to one element", default="no names begin with the kind",
    ),
    Part("language", "language: str", "kernels to say what their source is written in"),
    Part("generate", "generate(kernel, target) -> str", "build to get the source of a kernel",
         arguments=("kernel", "target")),
    Part(
        "assembly", "assembly(source, entry, target) -> str", "`show --level asm` to print machine code",
        default="there is none to print: the device's driver compiles", arguments=("source", "entry", "target"),
    ),
    Part(
        "waits", "waits(parallel, touches) -> [bool]", "link to put barriers between steps",
        default="steps of which one writes what the other touches wait, unless both run on one thread",
        arguments=("parallel", "touches"),
    ),
    Part(
        "program", "program(executable, threads, workers=, progress=, kernels=) -> runtime.program.Program",
        "the runtime to run an executable", arguments=("executable", "threads"), methods=("bind", "holds"),
    ),
    Part(
        "hosted", "hosted(kernel, threads) -> run(arguments, parallel)",
        "a program of another machine to run a kernel in the host's memory",
        default="its kernels work in memory of its own, in its programs alone", arguments=("kernel", "threads"),
    ),
    Part(
        "timed", "timed(kernel, target) -> accel.timeline.Timeline", "`minitvm accel` to count a kernel's cycles",
        default="nobody counts them", arguments=("kernel", "target"),
    ),
    Part(
        "refusal", "refusal(func, target) -> str", "a network to run an operator on the host, and to say why",
        default="all operators of a network run on the target", arguments=("func", "target"),
    ),
    Part(
        "opened", "opened() -> runtime.device.device.Device",
        "build to say what is missing before it works, and a tuner to measure many candidates in one process",
        default="a process measures one candidate, by the host's clock or that of its program's device", arguments=(),
    ),
    Part(
        "at_hand", "at_hand(target) -> target.Target",
        "build to fill in the device of this machine where a target names none",
        default="a target is what its text says", arguments=("target",),
    ),
    Part("devices", "devices() -> [str]", "info to list the devices of this machine", default="none is listed",
         arguments=()),
    Part(
        "memory", "memory(device) -> runtime.device.device.Device | None",
        "from_dlpack to use an array on the device that DLPack calls so", default="arrays on its devices are refused",
        arguments=("device",),
    ),
    Part(
        "machine_code", "machine_code: runtime.program.MachineCode", "artifacts to hold compiled kernels",
        default="artifacts hold the source alone", methods=("pack", "unpack"),
    ),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Backend:
    """The back end for one kind of target. `kind` is the name of the target, and `PARTS` describes the other fields."""

    kind: str
    machine: Kind | None = None
    products: AnyPart = None
    operators: Any = None
    layouts: AnyPart = None
    rules: AnyPart = None
    algorithms: AnyPart = None
    channel_block: AnyPart = None
    explain: AnyPart = None
    passes: Mapping[str, Sequence[Any]] | Sequence[Any] | str | None = None
    intrinsics: AnyPart = None
    instructions: Any = None
    language: str | None = None
    generate: AnyPart = None
    assembly: AnyPart = None
    waits: AnyPart = None
    program: AnyPart = None
    hosted: AnyPart = None
    timed: AnyPart = None
    refusal: AnyPart = None
    opened: AnyPart = None
    at_hand: AnyPart = None
    devices: AnyPart = None
    memory: AnyPart = None
    machine_code: Any = None

    def part(self, name: str) -> Any:
        """Return a part, importing it if it is given by name, or None if the back end does not have it."""
        value = getattr(self, name)
        return imported(value) if isinstance(value, str) and name != "language" else value


def imported(name: str) -> Any:
    """Import and return the object that `"module:attribute"` names, or the module itself if there is no attribute."""
    path, _, attribute = name.partition(":")
    module = importlib.import_module(path)
    return getattr(module, attribute) if attribute else module
