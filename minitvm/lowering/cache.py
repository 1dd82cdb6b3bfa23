"""Lowered functions on disk: a function that was lowered before is read from a file instead of being lowered again.

The key is a hash of everything that decides the result: the computation, the function's name, the target, and the code
of the compiler. So a result is not stored if code from outside the package takes part: a back end, a rule or an
operator. A file that is damaged, or was written by another version, is ignored.
"""

from __future__ import annotations

import functools
import hashlib
import json
import sys
from pathlib import Path
from typing import Any

from .. import backend
from ..errors import MinitvmError, installed_version, verification_asked
from ..executable.nodes import KernelParam
from ..expr import DType
from ..expr.as_json import from_json, to_json
from ..store import FileStore
from ..strategy.candidate import Decision
from ..strategy.registry import rules
from ..target import Target
from ..tir.passes import PassContext
from ..topi import registry
from .lowered import LoweredFunc, LoweredKernel, taken_for
from .units import SharedFunction

FUNCTIONS = FileStore(".fn", "lowered functions")

_PACKAGE = Path(__file__).resolve().parents[1]
# The packages that schedule and lower a function. The result does not depend on the others.
_COMPILER = (
    "arith", "backend", "codegen", "executable", "expr", "graph", "lowering", "machines", "strategy", "target",
    "te", "tir", "topi", "errors.py",
)  # fmt: skip
_LIBRARIES = ("numpy", "sympy", "islpy", "z3-solver")


def usable(target: Target) -> bool:
    """Return whether functions for a target may be cached.

    They may not be if MINITVM_VERIFY=1, because verification needs all levels.
    """
    return not verification_asked() and decides_all(target)


def decides_all(target: Target) -> bool:
    """Return whether the cache key determines the result: no callback watches the passes, and all rules are from
    this package.
    """
    return (
        not PassContext.current().instruments
        and backend.find(target) in backend.own()
        and all(_is_ours(row.propose) and _is_ours(row.matches) and not row.local for row in rules(target))
    )


def keeps(function: SharedFunction) -> bool:
    """Return whether all operators of a function are defined in this package."""
    return all(_is_ours(registry.get(node.op).compute) for node in function.graph.nodes)


def operators_are_ours() -> bool:
    """Return whether all operators so far are defined in this package."""
    return all(_is_ours(operator.compute) for operator in registry.OPERATORS.values())


def _is_ours(function: Any) -> bool:
    return str(getattr(function, "__module__", "")).partition(".")[0] == __name__.partition(".")[0]


@functools.cache
def code_version() -> bytes:
    """Return a hash of the compiler's own code, of Python's version, and of the versions of the libraries it uses."""
    h = hashlib.sha256(sys.version.encode())
    for package in _LIBRARIES:
        h.update(f"{package} {installed_version(package)}\0".encode())
    for part in _COMPILER:
        path = _PACKAGE / part
        for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            h.update(str(file.relative_to(_PACKAGE)).encode() + b"\0" + file.read_bytes() + b"\0")
    return h.digest()


def key_of(function: SharedFunction, target: Target, decision: Decision | None = None) -> bytes:
    """Return the 32-byte cache key for the result of lowering `function` for `target`.

    `decision` is the schedule of the function, if one was decided.
    """
    h = hashlib.sha256(code_version())
    decided = () if decision is None else (decision.to_json().encode(),)
    for part in (function.key, function.name.encode(), target.code_identity().encode(), *decided):
        h.update(len(part).to_bytes(8, "little") + part)
    return h.digest()


def get(function: SharedFunction, target: Target, decision: Decision | None = None) -> LoweredFunc | None:
    """Return the cached result of lowering a function, or None."""
    data = FUNCTIONS.get(key_of(function, target, decision), function.name)
    lowered = None if data is None else decode(data)
    return None if lowered is None else taken_for(lowered, target)


def put(function: SharedFunction, target: Target, data: bytes, decision: Decision | None = None) -> None:
    """Cache the result of lowering a function, as encoded by `encode`."""
    FUNCTIONS.put(key_of(function, target, decision), function.name, data)


def encode(func: LoweredFunc) -> bytes:
    """Return a lowered function as JSON.

    Kernels are stored as source and text, not as trees, because a build does not need the trees.
    """
    kernels = [
        {
            "name": k.name,
            "source": k.source,
            "params": [[p.name, str(p.dtype), p.role, p.access] for p in k.params],
            "written": k.written,
            "surely_read": k.surely_read,
            "script": k.script,
            "target": k.target,
            "shared_bytes": k.shared_bytes,
            "tasks": k.tasks,
        }
        for k in func.kernels.values()
    ]
    signature = to_json((func.params, func.host, func.conditions))
    return json.dumps({"name": func.name, "signature": signature, "kernels": kernels}).encode()


def decode(data: bytes) -> LoweredFunc | None:
    """Decode a lowered function that `encode` wrote. Returns None if the data is anything else."""
    try:
        body = json.loads(data)
        params, host, conditions = from_json(body["signature"])
        kernels = [
            LoweredKernel(
                k["name"],
                k["source"],
                tuple(KernelParam(name, DType(dtype), role, access) for name, dtype, role, access in k["params"]),
                tuple(k["written"]),
                tuple(k["surely_read"]),
                k["script"],
                k["target"],
                None,
                k["shared_bytes"],
                k["tasks"],
            )
            for k in body["kernels"]
        ]
        return LoweredFunc(body["name"], params, host, {k.name: k for k in kernels}, conditions=tuple(conditions))
    except (MinitvmError, ValueError, TypeError, LookupError, AttributeError):
        return None
