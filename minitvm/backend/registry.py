"""The registry of back ends, by kind of target, and the checks when a back end is registered."""

from __future__ import annotations

import ast
import functools
import importlib.util
import inspect
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..errors import TargetError, report
from ..target import KINDS, Target, find_kind, register_kind
from ..target.machines import machines_in_folders
from .parts import PARTS, Backend, Part

Check = Callable[[str], str]  # called with the name of a part; returns what is wrong with it

_BACKENDS: dict[str, Backend] = {}
_DOTTED = re.compile(r"\w+(\.\w+)+|\w+(\.\w+)*:\w+")


def register(backend: Backend) -> Backend:
    """Add a back end, along with its kind of target if that is new.

    Raises `TargetError` if required parts are missing (the message gives the purpose of each), if a part cannot be
    called with the arguments that it will get, or if the kind of target already has a back end or has no description.
    """
    own()
    return _register(backend, checked=_named_fault)


def _register(backend: Backend, checked: Check | None = None) -> Backend:
    values = [(part, getattr(backend, part.name)) for part in PARTS]
    faults = [fault for part, value in values if (fault := _fault(part, value, checked))]
    if faults:
        raise TargetError(
            report(
                f"back end {backend.kind!r} cannot be registered",
                wanted="\n".join(f"{part.call}, for {part.purpose}" for part, _ in faults),
                found="\n".join(fault for _, fault in faults),
                tries=("minitvm.backend.PARTS lists the parts, and which of them have a default",),
            )
        )
    if backend.kind in _BACKENDS:
        raise TargetError(f"target kind {backend.kind!r} has a back end already")
    if backend.machine is not None and KINDS.get(backend.kind) is not backend.machine:
        if backend.kind not in backend.machine.names:
            names = ", ".join(backend.machine.names)
            raise TargetError(f"back end {backend.kind!r} has a machine of another name: {names}")
        register_kind(backend.machine)
    find_kind(backend.kind)
    _BACKENDS[backend.kind] = backend
    return backend


def _fault(part: Part, value: Any, checked: Check | None = None) -> tuple[Part, str] | None:
    """Return the part and its fault, or None if it has none. A part that is given by name is checked without
    importing it.
    """
    if value is None:
        return None if part.default else (part, f"no {part.name}")
    if part.name == "language":
        return None if isinstance(value, str) and value else (part, f"language: {value!r}")
    if isinstance(value, str):
        if _DOTTED.fullmatch(value):
            fault = checked(value) if checked is not None else ""
            return (part, f"{part.name}: {fault}") if fault else None
        return part, f"{part.name}: the text {value!r}, which is not a name such as 'package.module:attribute'"
    missing = [name for name in part.methods if not callable(getattr(value, name, None))]
    if missing:
        return part, f"{part.name}: {_name(value)} without {' and '.join(missing)}"
    if part.arguments is None:
        return None
    if not callable(value):
        return part, f"{part.name}: {_name(value)}, which cannot be called"
    try:
        signature = inspect.signature(value)
        signature.bind(*part.arguments)
    except ValueError:  # a builtin function, which has no signature
        return None
    except TypeError as error:
        return part, f"{part.name}{signature}: {error}"
    return None


def _named_fault(name: str) -> str:
    """Return the reason why `"module:attribute"` does not name an object, or "" if it does. This imports only
    packages.
    """
    path, _, attribute = name.partition(":")
    try:
        spec = importlib.util.find_spec(path)
    except ModuleNotFoundError:
        spec = None
    if spec is None:
        return f"there is no module {path}"
    if not attribute or hasattr(sys.modules.get(path), attribute) or not str(spec.origin).endswith(".py"):
        return ""
    defined = _TopLevel()
    defined.visit(ast.parse(Path(str(spec.origin)).read_text(encoding="utf-8")))
    return "" if defined.names & {attribute, "__getattr__"} else f"{path} has no {attribute}"


class _TopLevel(ast.NodeVisitor):
    """Collects the names that a module defines, by reading its source without running it."""

    def __init__(self) -> None:
        self.names: set[str] = set()

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.ClassDef) -> None:
        self.names.add(node.name)

    visit_ClassDef = visit_FunctionDef

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Store):
            self.names.add(node.id)

    def visit_alias(self, node: ast.alias) -> None:
        self.names.add(node.asname or node.name)


def _name(value: Any) -> str:
    return str(getattr(value, "__qualname__", None) or repr(value))


@functools.cache
def own() -> tuple[Backend, ...]:
    """Return the back ends of the folders in `machines/`, registering them on the first call."""
    return tuple(_register(backend) for backend in machines_in_folders())


def registered() -> dict[str, Backend]:
    """Return all back ends by kind of target."""
    own()
    return dict(_BACKENDS)


def names() -> str:
    """Return the kinds of target that have a back end, as text for messages."""
    return ", ".join(sorted(registered()))


def find(target: Target | str | None) -> Backend | None:
    """Return the back end of a target, or None if there is no back end or no target. The target may be given as text.

    If a kind has no back end of its own, the back end of the device that runs its code is returned.
    """
    if target is None:
        return None
    own()
    kind = target.split()[0] if isinstance(target, str) else target.kind
    return _BACKENDS.get(kind) or _BACKENDS.get(find_kind(kind).device)


def lookup(target: Target | str | None, part: str) -> Any:
    """Return a part of a target's back end, or None if there is no back end or it lacks the part."""
    backend = find(target)
    return None if backend is None else backend.part(part)


def get(target: Target | str) -> Backend:
    """Like `find`, but raise `TargetError` if there is no back end."""
    backend = find(target)
    if backend is None:
        kind = target if isinstance(target, str) else target.kind
        raise TargetError(f"target {kind}: there is no code generator for it yet, only for {names()}")
    return backend
