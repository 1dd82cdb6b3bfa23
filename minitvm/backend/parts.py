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
        "machine", "machine: target.Kind", "Target() to read the options of the machine",
        default="the kind of target that is registered under the same name is used",
    ),
    Part(
        "products", "products(target, accuracy) -> [(name, pass on a Graph)]",
        "graph passes to choose the dtype in which products are computed",
        default="products of bytes are computed in integers, and 16-bit floats depend on the target",
        arguments=("target", "accuracy"),
    ),
    Part(
        "operators", "operators: a module", "graphs to use additional operators, which the module registers on import",
        default="graphs consist of the neutral operators",
    ),
    Part(
        "layouts", "layouts(target, accuracy) -> [(name, pass on a Graph)]", "graph passes to choose layouts",
        default="values keep the layouts of the model", arguments=("target", "accuracy"),
    ),
    Part(
        "rules", "rules(target) -> [strategy.Rule]", "the strategy to schedule a function",
        default="the rules that `strategy.rule` registered for the kind are used; without any, loops run as written",
        arguments=("target",),
    ),
    Part(
        "algorithms", "algorithms(conv, block, target, accuracy) -> [strategy.Option]",
        "layout passes to choose the algorithm of a convolution", default="a convolution is computed directly",
        arguments=("conv", "block", "target", "accuracy"),
    ),
    Part(
        "channel_block", "channel_block(use, lanes, target, accuracy) -> int | None",
        "layout passes to choose the number of channels in a block", default="the widest vector that divides them",
        arguments=("use", "lanes", "target", "accuracy"),
    ),
    Part(
        "explain", "explain(func, target) -> [str]", "`show --level schedule` to explain the choice of a schedule",
        default="only the name of the rule is printed", arguments=("func", "target"),
    ),
    Part(
        "passes", "passes: {name of a pass: [tir.transform.pipeline.Pass]} to add after it, or (Pass, ...) for all",
        "lowering a scheduled function to kernels", default="the neutral passes: tir.transform.pipeline.PASSES",
    ),
    Part(
        "intrinsics", "intrinsics(name)", "tensorize to find a tensor intrinsic by its name",
        default="only intrinsics that are already registered are found", arguments=("name",),
    ),
    Part(
        "instructions", "instructions: tir.tensor_intrin.accelerator.InstructionSet",
        "tensorize to find the element operations of a machine with scratchpads",
        default="the machine has no element operations",
    ),
    Part("language", "language: str", "kernels to name the language of their source"),
    Part("generate", "generate(kernel, target) -> str", "build to get the source of a kernel",
         arguments=("kernel", "target")),
    Part(
        "assembly", "assembly(source, entry, target) -> str", "`show --level asm` to print machine code",
        default="nothing is printed, because the device's driver compiles", arguments=("source", "entry", "target"),
    ),
    Part(
        "waits", "waits(parallel, touches) -> [bool]", "link to put barriers between steps",
        default="there is a barrier if one step writes bytes that the other touches, unless both run on one thread",
        arguments=("parallel", "touches"),
    ),
    Part(
        "program", "program(executable, threads, workers=, progress=, kernels=) -> runtime.program.Program",
        "the runtime to run an executable", arguments=("executable", "threads"), methods=("bind", "holds"),
    ),
    Part(
        "hosted", "hosted(kernel, threads) -> run(arguments, parallel)",
        "a program of another machine to run a kernel in the host's memory",
        default="its kernels run only in its own programs, in the machine's memory", arguments=("kernel", "threads"),
    ),
    Part(
        "timed", "timed(kernel, target) -> accel.timeline.Timeline", "`minitvm accel` to count a kernel's cycles",
        default="cycles are not counted", arguments=("kernel", "target"),
    ),
    Part(
        "refusal", "refusal(func, target) -> str", "a network to run an operator on the host, and to give the reason",
        default="all operators of a network run on the target", arguments=("func", "target"),
    ),
    Part(
        "opened", "opened() -> runtime.device.device.Device",
        "build to report a missing device early, and the tuner to measure many candidates in one process",
        default="each candidate is measured in a separate process", arguments=(),
    ),
    Part(
        "at_hand", "at_hand(target) -> target.Target",
        "build to fill in the device of this machine if a target does not name one",
        default="targets are used as they are written", arguments=("target",),
    ),
    Part(
        "require_runnable", "require_runnable(target)",
        "build to refuse a target early, by a `TargetError`, if this machine cannot run its code",
        default="code for every target of the kind runs here", arguments=("target",),
    ),
    Part("devices", "devices() -> [str]", "info to list the devices of this machine", default="no devices are listed",
         arguments=()),
    Part(
        "memory", "memory(device) -> runtime.device.device.Device | None",
        "from_dlpack to find the device of an array by its DLPack number", default="arrays on its devices are refused",
        arguments=("device",),
    ),
    Part(
        "machine_code", "machine_code: runtime.program.MachineCode", "artifacts to contain compiled kernels",
        default="artifacts contain only the source", methods=("pack", "unpack"),
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
    require_runnable: AnyPart = None
    devices: AnyPart = None
    memory: AnyPart = None
    machine_code: Any = None

    def part(self, name: str) -> Any:
        """Return the part called `name`, or None if the back end does not have it. A part that is declared as
        "module:attribute" is imported first.
        """
        value = getattr(self, name)
        return imported(value) if isinstance(value, str) and name != "language" else value


def imported(name: str) -> Any:
    """Import and return the object that `"module:attribute"` names, or the module itself if there is no attribute."""
    path, _, attribute = name.partition(":")
    module = importlib.import_module(path)
    return getattr(module, attribute) if attribute else module
