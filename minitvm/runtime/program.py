"""The interface of a back end for running executables: the class `Program`, and the function that opens one.

`GraphModule` and `Function` check the caller's arguments, find the values of symbolic dimensions, and provide the
memory of outputs. A `Program` does the rest: it holds constants and arenas, and its `steps.BoundSteps` run the steps.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from ..backend import get
from ..errors import InputError, Unsupported, needed, report
from ..executable import CallExternal, Executable
from .externals import EngineCall
from .hosted import Run
from .shapes import Bindings
from .steps import BoundSteps

# A solution if a compiler is missing: an artifact has machine code for one kind of CPU.
ONLY_RUN = "an artifact that was exported on a machine with this CPU, by this version: it needs NumPy alone"

_INTERPRETED = 'target="interpreter" (--target interpreter), which is slow and needs no compiler'

Progress = Callable[[int, int, str], None]  # (kernels done, their total, the name of the last one)


BOUND_LIMIT = 16  # the most choices of dimensions that a program keeps; the least recently used are dropped first


class Program:
    """An executable that is ready to run on a machine.

    The part "program" of a back end creates it: `program(executable, threads, workers=, progress=, kernels=)`. There,
    up to `workers` processes compile kernels, and `progress` is called after each kernel. `kernels[k]` is the machine
    code of kernel k that `MachineCode.unpack` loaded; None means that the kernel must be compiled. `threads` is the
    number of threads that a run uses; None means the default.

    `hosted` holds the executable's kernels for other machines, by index. `states` is the memory of its states, in
    order: dense arrays, or objects with the same methods `copy()`, `state[...] = array` and `fill(number)`.
    """

    threads: int = 1
    states: Sequence[Any] = ()
    # The thread that runs the program now: a function that the run calls must not start another run in the same memory.
    # The number of a thread would not do, because a forked child gives it to another thread.
    running: threading.Thread | None = None

    def __init__(self, executable: Executable) -> None:
        self.executable = executable
        self.hosted: Mapping[int, Run] = {}
        self._bound: OrderedDict[Any, Any] = OrderedDict()
        self._engine_calls: dict[int, EngineCall] = {}

    def bound_to(self, env: Bindings) -> Any:
        """Return a new `BoundSteps` for the dimensions `env`."""
        raise NotImplementedError

    def bind(self, key: Any, env: Bindings) -> Any:
        """Return the program for the dimensions `env`, from a cache if possible. Equal keys mean equal dimensions."""
        if key in self._bound:
            self._bound.move_to_end(key)
            return self._bound[key]
        bound = self._bound[key] = self.bound_to(env)  # this may clear the others, if their memory moves
        if len(self._bound) > BOUND_LIMIT:
            self._bound.popitem(last=False)
        return bound

    def engine_call(self, number: int) -> EngineCall:
        """Return the call of an engine at step `number`, which is prepared at most once."""
        if number not in self._engine_calls:
            step: Any = self.executable.steps[number]
            self._engine_calls[number] = EngineCall(self.executable, step, self.threads)
        return self._engine_calls[number]

    def use_states(self, memory: Sequence[Any]) -> None:
        """Use the memory of another program's states, in the order of this one's. Raises `Unsupported` if the back end
        has memory of another kind.
        """
        if not all(isinstance(array, np.ndarray) for array in (*memory, *self.states)):
            raise Unsupported(f"the back end {self.executable.target} shares no states: they are not in this memory")
        self.states = list(memory)
        self._bound.clear()

    def holds(self, bound: BoundSteps) -> bool:
        """Return whether `bound`, a result of `bind`, may still run, which requires that its memory is still in
        place.
        """
        return any(b is bound for b in self._bound.values())


def called_again(what: str) -> InputError:
    """Return the error for a call of a program from a function or listener that its own run calls."""
    return InputError(
        report(
            f"{what} was called during its own run",
            wanted="one run at a time: a run uses the memory of the program",
            found="a call from a Python function or listener that the run calls",
            tries=["copy.deepcopy(module), which has memory of its own, and call the copy there"],
        )
    )


class MachineCode(Protocol):
    """Converts the compiled kernels of an executable to bytes for an artifact, and back."""

    def pack(
        self, executable: Executable, architectures: Sequence[str] = (), progress: Progress | None = None
    ) -> tuple[dict[str, Any], bytes] | None:
        """Return a description of the machine code as JSON, and the code itself, for these architectures.

        The default is the architecture of the executable's target. Returns None if the code can be compiled only on the
        machine that runs it. Raises `InputError` if `architectures` are given for a machine that has none.
        """

    def unpack(self, about: dict[str, Any], data: memoryview, count: int) -> Sequence[Any] | None:
        """Return the code of `count` kernels, ready to run, or None if the code is for another machine."""


def open_program(
    executable: Executable,
    threads: int | None,
    workers: int | None = None,
    progress: Progress | None = None,
    kernels: Sequence[Any] | None = None,
    device: str | int | None = None,
) -> Program:
    """Create the program of an executable with the back end of its target. Raises `TargetError` if there is no back
    end.

    `device` selects one of several devices of a kind, by its number or by a part of its name.
    """
    machine = executable.target.split()[0]
    with needed(f"to prepare {executable.name} for this machine ({machine})", _INTERPRETED, ONLY_RUN):
        backend = get(executable.target)
        options = {} if device is None else {"device": str(device)}
        if options and backend.part("opened") is None:
            raise InputError(
                f"device={device!r}: a program for {backend.kind} runs on this machine's\n  try:    no device="
            )
        program: Program = backend.part("program")(
            executable, threads, workers=workers, progress=progress, kernels=kernels, **options
        )
    for number, step in enumerate(executable.steps):
        if isinstance(step, CallExternal):
            program.engine_call(number)  # the first run need not wait for it
    return program


def stamped_times(
    bound: BoundSteps, target: str, inputs: Sequence[int], outputs: Sequence[int]
) -> np.ndarray[Any, Any]:
    """Run once with a time stamp between the steps, and return the times.

    Raises `Unsupported` if the back end does not record time stamps.
    """
    run = getattr(bound, "run_stamped", None)
    if run is None:
        raise Unsupported(f"the back end {target} cannot be profiled: its programs have no run_stamped")
    times: np.ndarray[Any, Any] = run(inputs, outputs)
    return times
