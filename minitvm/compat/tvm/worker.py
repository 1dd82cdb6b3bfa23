"""The other end of `compat.tvm.bridge`: a script for the Python that has Apache TVM, which serves line by line.

A request is a JSON object on a line of standard input, `{"do": "open", ...}`; the answer is one on a line of standard
output: `{"ok": true, ...}`, or `{"ok": false, "error": class, "message": text}` where TVM refused. This file imports
nothing of minitvm: the interpreter that runs it need not have it. What TVM itself prints goes to standard error.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
from typing import Any


def load() -> tuple[Any, Any]:
    """TVM, and its structural equality.

    This script's folder, where Python looks first, holds a module `tvm` that is not the one wanted.
    """
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or ".") != here]
    import tvm
    import tvm.s_tir
    import tvm.script
    from tvm_ffi import structural_equal

    return tvm, structural_equal


class Worker:
    """Schedules by number, and the random variables of each by the names that the caller gave them."""

    def __init__(self) -> None:
        self.tvm, self.same = load()
        self.schedules: dict[int, tuple[Any, dict[str, Any]]] = {}
        self.numbers = itertools.count()

    # ---- requests ----------------------------------------------------------------------------------------------

    def version(self) -> dict[str, Any]:
        """TVM's version, and the names of its schedule primitives."""
        kind = self.tvm.s_tir.Schedule
        names = [name for name in dir(kind) if not name.startswith("_") and callable(getattr(kind, name))]
        return {"version": self.tvm.__version__, "primitives": names}

    def script(self, text: str) -> dict[str, Any]:
        """The text as TVM prints it after parsing."""
        return {"text": self.program(text).script()}

    def equal(self, text: str, other: str) -> dict[str, Any]:
        """Whether TVM parses both texts as the same program."""
        return {"equal": bool(self.same(self.program(text), self.program(other)))}

    def open(self, text: str, debug_mask: str) -> dict[str, Any]:
        """A new schedule on a program."""
        number = next(self.numbers)
        self.schedules = {number: (self.schedule(text, debug_mask), {})}
        return {"schedule": number}

    def call(
        self, schedule: int, method: str, args: list[Any], kwargs: dict[str, Any], outputs: list[str]
    ) -> dict[str, Any]:
        """One step; its results get the names `outputs`. The answer holds the program after it."""
        sch, handles = self.schedules[schedule]
        arguments = [self.decoded(a, handles) for a in args]
        result = getattr(sch, method)(*arguments, **{key: self.decoded(a, handles) for key, a in kwargs.items()})
        results = [] if result is None else list(result) if _is_list(result) else [result]
        handles.update(zip(outputs, results, strict=False))
        return {"results": len(results), "text": sch.mod.script()}

    def trace(self, schedule: int) -> dict[str, Any]:
        """The trace so far as TVM's JSON and as its Python."""
        sch, _ = self.schedules[schedule]
        return {"json": plain(sch.trace.as_json()), "python": list(sch.trace.as_python())}

    def replay(self, text: str, trace: list[Any]) -> dict[str, Any]:
        """A JSON trace applied to a program, and the trace that TVM has of that."""
        sch = self.schedule(text, "none")
        self.tvm.s_tir.schedule.Trace.apply_json_to_schedule(trace, sch)
        return {"text": sch.mod.script(), "json": plain(sch.trace.as_json())}

    def schedule(self, text: str, debug_mask: str) -> Any:
        """A schedule that works on the only function, or on "main"."""
        module = self.program(text)
        schedule = self.tvm.s_tir.Schedule(module, debug_mask=debug_mask)
        names = [variable.name_hint for variable in module.functions]
        schedule.work_on("main" if "main" in names else names[0])
        return schedule

    def program(self, text: str) -> Any:
        """The module of a text."""
        parsed = self.tvm.script.from_source(text)
        if isinstance(parsed, self.tvm.IRModule):
            return parsed
        attrs = parsed.attrs or {}
        return self.tvm.IRModule({str(attrs["global_symbol"]) if "global_symbol" in attrs else "main": parsed})

    def decoded(self, value: Any, handles: dict[str, Any]) -> Any:
        """An argument: `{"rv": name}` is an earlier result, `{"index_map": source}` a function over indices."""
        if isinstance(value, list):
            return [self.decoded(item, handles) for item in value]
        if not isinstance(value, dict):
            return value
        if "rv" in value:
            return handles[value["rv"]]
        if "tuple" in value:
            return tuple(self.decoded(item, handles) for item in value["tuple"])
        if "index_map" in value:
            return eval(value["index_map"], {"T": self.tvm.script.tirx, "tir": self.tvm.tirx})
        return {key: self.decoded(item, handles) for key, item in value.items()}

    def crash(self) -> dict[str, Any]:
        """End as a fault in native code would; for tests of the other side."""
        os.abort()

    def sleep(self, seconds: float) -> dict[str, Any]:
        """Answer late; for tests of the other side."""
        import time

        time.sleep(seconds)
        return {}


def plain(value: Any) -> Any:
    """A part of TVM's JSON traces as plain Python: numbers may be nodes in it."""
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if hasattr(value, "value"):
        return value.value
    return value


def _is_list(value: Any) -> bool:
    return isinstance(value, list | tuple) or type(value).__name__ == "Array"


def main() -> None:
    """Serve until standard input ends."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what native code prints must not get between the answers
    worker = Worker()
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = {"ok": True, **getattr(worker, request.pop("do"))(**request)}
        except Exception as error:  # whatever TVM raises is its answer
            answer = {"ok": False, "error": type(error).__name__, "message": str(error)}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
