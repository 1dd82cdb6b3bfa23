"""`minitvm show MODEL.onnx --level LEVEL`: print a model at one level of the compiler."""

from __future__ import annotations

import argparse
from typing import Any

from ...errors import InputError, nearest
from ...executable.memory_report import memory_plan
from ...target import Target
from . import options as opt
from .level_texts import text, write
from .progress import progress
from .run import is_artifact

LEVELS = {
    "graph": "the imported model: operators on tensors",
    "fused": "after the graph passes: one function for each group of operators; its name is for --op",
    "te": "tensor expressions: a formula for each element",
    "tir": "loops and blocks, before scheduling",
    "schedule": "the choice of a schedule with its reasons, its steps, and the loops and blocks after them",
    "kernel": "flat loop nests over vectors: a host function and its kernels",
    "source": "the kernels in the language of the target's compiler: Python for Numba, OpenCL C",
    "asm": "the kernels as machine code: assembly of this CPU; PTX of a GPU, with registers, spills and shared memory",
    "executable": "steps over memory arenas",
    "memory": "the memory plan: the place and lifetime of each value, and the peak",
}
_WHOLE = ("graph", "fused", "executable", "memory")  # levels of the model, not of an operator


def register(commands: opt.Commands) -> None:
    parser = commands.add_parser(
        "show",
        help="print a model at one level",
        description=f"{__doc__}\n\nlevels:\n" + "\n".join(f"  {name:<11} {what}" for name, what in LEVELS.items()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    opt.add_model(parser)
    parser.add_argument("--level", required=True, choices=LEVELS, metavar="LEVEL", help="one of the list above")
    parser.add_argument("--op", metavar="NAME", help="only this operator; --level fused prints the names")
    opt.add_engine(parser)
    parser.add_argument(
        "--why-simplified", action="store_true",
        help="with --level kernel: explain the difficult simplifications of symbolic sizes",
    )  # fmt: skip
    parser.set_defaults(function=show)


def show(options: argparse.Namespace) -> int:
    from ... import lower
    from ...arith.reasons import recording, summary

    if is_artifact(options.model):
        return show_artifact(options)
    if options.op is not None and options.level in _WHOLE:
        raise InputError(f"--op goes with --level te, tir, schedule, kernel, source or asm, not with {options.level}")
    if options.why_simplified and options.level != "kernel":
        raise InputError(f"--why-simplified goes with --level kernel, not with {options.level}")
    target = opt.target(options.target)
    graph = opt.read_graph(options.model, options.shape)
    with progress() as report:
        whole = options.level in ("memory", "asm")
        only = None if whole else options.op
        with recording() as reasons:
            result = lower(
                graph,
                target=target,
                stop_at="executable" if whole else options.level,
                only=only,
                progress=report,
                tuned="auto",
                engines=opt.engines(options),
            )
    if options.why_simplified:
        write(summary(reasons))
        return 0
    if options.level == "memory":
        print(memory_plan(result))
        return 0
    if options.level == "asm":
        write(text(machine_code(result, target, options.op)))
        return 0
    write(text(result, target=target if options.level == "schedule" else None))
    return 0


def machine_code(executable: Any, target: Target, only: str | None = None) -> dict[str, str]:
    """The assembly of an executable's kernels for a target, or of those of one operator."""
    from ... import backend
    from ...target import Target

    kernels = [k for k in executable.kernels if only is None or k.name.startswith(f"{only}_kernel_")]
    if not kernels:
        names = sorted({k.name.rpartition("_kernel_")[0] for k in executable.kernels})
        raise InputError(f"no operator {only}: {nearest(str(only), names)}")
    texts = {}
    for kernel in kernels:
        machine = Target(kernel.target) if kernel.target else target
        assembly = backend.get(machine).part("assembly")
        if assembly is None:
            raise InputError(
                f"{machine.kind} has no level asm: the device's driver compiles its kernels; try --level source"
            )
        texts[kernel.name] = assembly(kernel.source, kernel.entry, machine)
    return texts


def show_artifact(options: argparse.Namespace) -> int:
    """The program of an artifact, to be read before the artifact is trusted: nothing of it is run."""
    from ...runtime.artifact.load import look_at

    if options.op is not None or options.shape or options.target != "cpu" or options.why_simplified or options.engine:
        raise InputError(
            "--op, --shape, --target, --engine and --why-simplified go with a model; an artifact is compiled already"
        )
    if options.level not in ("kernel", "source", "asm", "executable", "memory"):
        levels = "kernel, source, asm, executable and memory"
        raise InputError(f"an artifact has the levels {levels}, and no {options.level}")
    executable = look_at(options.model)
    if options.level == "memory":
        print(memory_plan(executable))
    elif options.level == "asm":
        from ...target import Target

        write(text(machine_code(executable, Target(executable.target))))
    elif options.level == "executable":
        write(text(executable))
    else:
        part = "script" if options.level == "kernel" else "source"
        write(text({kernel.name: getattr(kernel, part) for kernel in executable.kernels}))
    return 0
