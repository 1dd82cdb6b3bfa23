"""The interface of a back end for running executables: the protocol of programs, and the program of an executable.

`GraphModule` and `Function` check what a caller passes in, find the values of symbolic dimensions, and provide the
memory of outputs. A `Program` does the rest: it holds constants and arenas, and runs the steps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from ..backend import get
from ..errors import InputError, Unsupported, needed
from ..events import Listener
from ..executable import Executable
from .shapes import Bindings

# A way out where a compiler is missing: an artifact has machine code for one kind of CPU.
ONLY_RUN = "an artifact that was exported on a machine with this CPU, by this version: it needs NumPy alone"

Progress = Callable[[int, int, str], None]  # (kernels done, their total, the name of the last one)


class BoundProgram(Protocol):
    """A program at one choice of dimensions. `env` are their values, `output_shapes` follow from them.

    Of an output whose shape data decide, `output_shapes` has one dimension, the most elements that it can have; a run
    puts the sizes that it found into `env`.

    A program with a `device` (`device.device.Device`) also takes `device.arrays.DeviceArray`s for addresses; its
    `pool` makes them.

    A back end whose program has `run_stamped(inputs, outputs)` as well can be profiled: it runs as `run` does, and
    returns `stamped.StampedRun.times`.
    """

    @property
    def env(self) -> Bindings: ...
    @property
    def output_shapes(self) -> Sequence[tuple[int, ...]]: ...

    def run(self, inputs: Sequence[int], outputs: Sequence[int], listeners: Sequence[Listener] = ()) -> None:
        """Run all steps; returns when the outputs are written.

        `inputs` and `outputs` are the addresses of dense arrays in the host's memory, in the order of the executable's;
        for a scalar input the number is ignored, its value is in `env`. `listeners` are notified of each step. One
        run at a time: the caller holds a lock.
        """


class Program(Protocol):
    """An executable that is ready to run on a machine: `program(executable, threads, ...)` makes it.

    `workers` processes may compile kernels, and `progress` is called after each; `kernels[k]` is the code of kernel k
    that `MachineCode.unpack` loaded, None where it is to be compiled. `threads` is the number of threads that a run
    uses; None means the default.
    """

    @property
    def threads(self) -> int: ...

    @property
    def states(self) -> Sequence[Any]:
        """The memory of the executable's states, in order: dense arrays, or what is read and set as they are.

        That is `copy()`, `state[...] = array` and `fill(number)`.
        """

    def bind(self, key: Any, env: Bindings) -> BoundProgram:
        """The program at the dimensions `env`; equal keys mean equal dimensions."""

    def holds(self, bound: BoundProgram) -> bool:
        """Whether `bound`, made by `bind`, may still run: its memory is in place."""


class MachineCode(Protocol):
    """Converts the compiled kernels of an executable to bytes of an artifact, and back."""

    def pack(
        self, executable: Executable, architectures: Sequence[str] = (), progress: Progress | None = None
    ) -> tuple[dict[str, Any], bytes]:
        """A description of the code as JSON, and the code, for these architectures of the target's devices.

        Without any: for that of the executable's target. Raises `InputError` for a machine without architectures.
        """

    def unpack(self, about: dict[str, Any], data: memoryview, count: int) -> Sequence[Any] | None:
        """The code of `count` kernels, ready to run; None if it is for another machine."""


def open_program(
    executable: Executable,
    threads: int | None,
    workers: int | None = None,
    progress: Progress | None = None,
    kernels: Sequence[Any] | None = None,
    device: str | int | None = None,
) -> Program:
    """The program of an executable, by the back end of its target; raises `TargetError` if there is none.

    `device` chooses among several devices of a kind, by its number or a part of its name.
    """
    machine = executable.target.split()[0]
    with needed(f"to prepare {executable.name} for this machine ({machine})", ONLY_RUN):
        backend = get(executable.target)
        options = {} if device is None else {"device": str(device)}
        if options and backend.part("opened") is None:
            raise InputError(
                f"device={device!r}: a program for {backend.kind} runs on this machine's\n  try:    no device="
            )
        program: Program = backend.part("program")(
            executable, threads, workers=workers, progress=progress, kernels=kernels, **options
        )
    return program


def stamped_times(
    bound: BoundProgram, target: str, inputs: Sequence[int], outputs: Sequence[int]
) -> np.ndarray[Any, Any]:
    """One run with a time stamp between its steps; raises `Unsupported` if the back end has no time stamps."""
    run = getattr(bound, "run_stamped", None)
    if run is None:
        raise Unsupported(f"the back end {target} cannot be profiled: its programs have no run_stamped")
    times: np.ndarray[Any, Any] = run(inputs, outputs)
    return times
