"""`minitvm check FILE.py`: programs in TVMScript, each level against the first, pairs against each other.

Schedule primitives that the file registers are checked too (`check_primitive`).
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import ExecutionError, InternalError, MinitvmError, MissingExtra, Unsupported, VerificationError
from ...target import Target
from .check_primitive import check_primitive
from .difference import TOLERANCE_OF_INTEGERS, indented, judged, line, relative_difference
from .levels import LEVELS, Descent
from .program_file import Pair, blamed_on, read_programs
from .progress import progress


def check_file(path: Path, target: Target, seed: int) -> int:
    """Check all programs of a file and print the results; returns the number of failed checks."""
    programs = read_programs(path)
    faults = 0
    for name, func in programs.functions.items():
        print(name)
        for text, right in check_function(func, target, seed):
            faults += not right
            print(f"  {text}")
    for primitive in programs.primitives:
        print(primitive.name, flush=True)
        with blamed_on(path):
            for text, right in check_primitive(primitive, seed):
                faults += not right
                print(f"  {text}", flush=True)
    for pair in programs.pairs:
        faults += not _compare(pair, seed)
    return faults


def check_function(func: Any, target: Target, seed: int) -> Iterator[tuple[str, bool]]:
    """A line for the verifier and one for each level: its text, and whether it passed."""
    from ...reference.judging.programs import is_lowered

    trial = _Trial(func, target, seed)
    levels = ("kernel",) if is_lowered(func) else ("tir", "compiled", "kernel", "executable")
    for level in ("verifier", *levels):
        start = time.perf_counter()
        try:
            with progress(f"{getattr(func, 'name', 'the program')}: {level}"):
                verdict, note = trial.run(level)
        except (ExecutionError, VerificationError) as error:
            verdict, note = "WRONG", indented(error)
        except (InternalError, MissingExtra):
            raise
        except MinitvmError as error:
            verdict, note = "none", f"not run: {indented(error)}"
        yield line(level, verdict, note, time.perf_counter() - start), verdict != "WRONG"
        if verdict == "WRONG" and level in ("verifier", "tir"):
            return  # its machine code would write outside its buffers


INTERPRETED = ("tir", "kernel")  # levels whose interpreter takes a list of the parameters that are both in and out


class _Trial:
    """A function on one set of arguments; the first level that runs provides the expected results."""

    def __init__(self, func: Any, target: Target, seed: int) -> None:
        self.func, self.seed = func, seed
        self.descent = Descent(func, target)
        self.expected: list[np.ndarray] | None = None

    @cached_property
    def inputs(self) -> list[Any]:
        from ...reference import random_inputs
        from ...reference.judging.inplace import marked

        return random_inputs(marked(self.func, self.updated), self.seed, magnitude=4)

    @cached_property
    def updated(self) -> tuple[int, ...]:
        """The places of the parameters that the function reads before it writes them."""
        from ...reference.judging.inplace import read_first

        return read_first(self.func, self.seed)

    @property
    def entry(self) -> Any:
        """The function that a run starts with."""
        from ...reference.judging.programs import entry

        return entry(self.func)

    def run(self, level: str) -> tuple[str, str]:
        """The verdict on a level, and its text."""
        from ...reference.judging.inputs.arguments import copies
        from ...reference.judging.programs import is_lowered

        if level == "verifier":
            from ...tir.verifier import verify

            verify(self.func, "kernel" if is_lowered(self.func) else "tir")
            return "ok", ""
        args = copies(self.inputs)
        inout = [self.entry.params[k].name for k in self.updated]
        options = {"inout": inout} if inout and level in INTERPRETED else {}
        LEVELS[level](self.descent, args, **options)
        arrays = [a for a in args if isinstance(a, np.ndarray)]
        if self.expected is None:
            self.expected = arrays
            note = f"; in and out: {', '.join(inout)} (what the caller passes in is read)" if inout else ""
            return "ok", f"ran {_shapes(args)}{note}"
        worst = max((relative_difference(f, w) for f, w in zip(arrays, self.expected, strict=True)), default=0.0)
        return judged(worst, TOLERANCE_OF_INTEGERS)


def _shapes(inputs: Sequence[Any]) -> str:
    shapes = {"x".join(map(str, np.shape(a))) or "scalar": None for a in inputs}
    return f"on arrays of {', '.join(shapes)}" if shapes else "without arguments"


def _compare(pair: Pair, seed: int) -> bool:
    """Print the oracle's verdict on a pair; whether both mean the same, as far as it can decide."""
    from ...reference import check

    try:
        with progress(f"{pair.name}: comparing"):
            verdict = check(pair.before, pair.after, seed=seed)
    except (InternalError, MissingExtra):
        raise
    except MinitvmError as error:  # the pairs that follow may be comparable
        print(f"{pair.name}\n  cannot be compared: {indented(error)}")
        return isinstance(error, Unsupported)
    print(f"{pair.name}\n  {str(verdict) if verdict else 'DIFFERENT: ' + indented(verdict)}")
    if not verdict:
        print(f"# ---- {pair.name}: a file that runs and shows it\n{verdict.script()}# ----")
    return bool(verdict)
