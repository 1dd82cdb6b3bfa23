"""Find the text of a program, which is a string or the source of a decorated Python function or class."""

from __future__ import annotations

import ast
import importlib
import inspect
import sys
from collections.abc import Mapping
from types import FrameType, SimpleNamespace
from typing import Any

from ...doors import RELAX
from ...errors import InputError, ParseError, nearest
from ..nodes import IRModule, PrimFunc
from .evaluate import Source
from .parser import FunctionParser
from .signatures import OpenDimension

_OPTIONS = "__minitvm_prim_func__"
GRAPH_FUNCTION = "__minitvm_graph_function__"  # the attribute of a Python function under @R.function, in a class
_ATTRS = "__minitvm_module_attrs__"
# The names that `from tvm.script import ... as ...` may import.
_LANGUAGES = {"tir": "T", "tirx": "T", "ir": "I", "relax": "R"}
_OURS = ("private", "lowered", "s_tir")
_THEIRS = ("check_well_formed",)  # TVM's option, which has no effect here


def from_source(text: str, extra_vars: Mapping[str, Any] | None = None) -> Any:
    """Parse text with one `@I.ir_module` class or `@T.prim_func` function into a module or function (TVM's name).

    `extra_vars` are Python values that the text may refer to by name; `T`, `I`, `tir` and `tvm` are always defined.
    Imports in the text are ignored, and constants assigned above the program are read. Raises `ParseError`, or
    `InputError` for a value that is not a string.
    """
    if not isinstance(text, str):
        raise InputError(f"from_source takes the text of a program, found {type(text).__name__}")
    source = _dedented(text, "<text>", 1)
    captured: dict[str, Any] = {**_standard_names(), **(extra_vars or {})}
    tree = _tree(source)
    program: Any = None
    for node in tree.body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            if program is not None:
                raise source.error(node, "a second program in one text", tries=("one @I.ir_module class around both",))
            program = _program(node, source, captured)
        elif isinstance(node, ast.ImportFrom):
            captured.update(
                {a.asname: captured[_LANGUAGES[a.name]] for a in node.names if a.asname and a.name in _LANGUAGES}
            )
        elif isinstance(node, ast.Assign):
            value = _dimension(node.value) or FunctionParser(source, captured).evaluate(node.value)
            for target in node.targets:
                if not isinstance(target, ast.Name):
                    raise source.error(target, "a constant above the program needs a plain name")
                captured[target.id] = value
        elif not isinstance(node, ast.Import) and not _is_text(node):
            raise source.error(node, "a text holds one program", wanted="@T.prim_func, @R.function or @I.ir_module")
    if program is None:
        raise ParseError(f"{source.file}: no program in this text\n  wanted: @T.prim_func, @R.function or @I.ir_module")
    return program


def _program(node: ast.ClassDef | ast.FunctionDef, source: Source, captured: dict[str, Any]) -> Any:
    kind, options = _decorator(node, source)
    if isinstance(node, ast.FunctionDef):
        if kind == "function":
            return _with_graphs("", IRModule({}), {node.name: (source, node)}, captured).graph
        if kind != "prim_func":
            raise source.error(node, f"the function {node.name} has no @T.prim_func", wanted="@T.prim_func", found=kind)
        return FunctionParser(source, captured).function(node, **options)
    if kind != "ir_module":
        raise source.error(node, f"the class {node.name} has no @I.ir_module", wanted="@I.ir_module", found=kind)
    functions: dict[str, PrimFunc] = {}
    graphs: dict[str, tuple[Source, ast.stmt]] = {}
    attrs: dict[str, Any] = {}
    for item in node.body:
        if isinstance(item, ast.FunctionDef):
            if item.name in functions or item.name in graphs:
                raise source.error(item, f"two functions of the name {item.name} in one module")
            if _decorator(item, source)[0] == "function":
                graphs[item.name] = source, item
            else:
                functions[item.name] = _program(item, source, captured)
        elif (arguments := _module_attrs(item)) is not None:
            attrs.update(FunctionParser(source, captured).evaluate(arguments))
        elif not isinstance(item, ast.Pass) and not _is_text(item):
            raise _no_function(item, source)
    module = IRModule(functions, attrs)
    return _with_graphs(node.name, module, graphs, captured) if graphs else module


def _no_function(item: ast.stmt, source: Source) -> ParseError:
    above = (f"{ast.unparse(item)} above the class",) if isinstance(item, ast.Assign) else ()
    return source.error(item, "a module holds functions", wanted="@T.prim_func def ...", tries=above)


def _dimension(node: ast.expr) -> OpenDimension | None:
    """Return the dimension that `n = TypeVar("n")` declares above a program in TVM's printed text; None for anything
    else.
    """
    if isinstance(node, ast.Call) and _last(node.func) == "TypeVar" and len(node.args) == 1:
        name = node.args[0]
        return OpenDimension(str(name.value)) if isinstance(name, ast.Constant) else None
    return None


def _module_attrs(node: ast.stmt) -> ast.expr | None:
    call = node.value if isinstance(node, ast.Expr) else None
    return call.args[0] if isinstance(call, ast.Call) and _last(call.func) == "module_attrs" else None


def _decorator(node: ast.ClassDef | ast.FunctionDef, source: Source) -> tuple[str, dict[str, bool]]:
    for decorator in node.decorator_list:
        call = decorator if isinstance(decorator, ast.Call) else None
        name = _last(call.func if call else decorator)
        if name == "function":
            return name, {}
        if name in ("prim_func", "ir_module"):
            flags = {k.arg: ast.literal_eval(k.value) for k in call.keywords if k.arg} if call else {}
            unknown = [flag for flag in flags if flag not in (*_OURS, *_THEIRS)]
            if unknown:
                raise source.error(
                    decorator, f"{name} has no option {unknown[0]}", tries=(nearest(unknown[0], [*_OURS, *_THEIRS]),)
                )
            return name, {flag: value for flag, value in flags.items() if flag in _OURS}
        raise source.error(
            decorator,
            f"the decorator {ast.unparse(decorator)} is not one of the language",
            wanted="@T.prim_func, @R.function or @I.ir_module",
        )
    return "nothing", {}


def _last(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


# ---- decorated Python ----------------------------------------------------------------------------------------------


def prim_func(func: Any = None, *, private: bool = False, lowered: bool = False, s_tir: bool = False) -> Any:
    """`@T.prim_func`: create a `PrimFunc` from the source of a Python function, without running it.

    Names that the text does not define are looked up where the function is defined: in its closure, in the functions
    around it, and in its module. In a class, the function is parsed later by `@I.ir_module`. Raises `ParseError`, or
    `InputError` if Python cannot find the source (for example, for a function typed at the prompt of a plain
    interpreter).
    """
    options = {"private": private, "lowered": lowered, "s_tir": s_tir}
    if func is None:
        return lambda decorated: _decorated(decorated, sys._getframe(1), options)
    caller = sys._getframe(1)
    while caller.f_globals.get("__name__") == f"{__package__}.builtins":
        caller = caller.f_back  # type: ignore[assignment]
    return _decorated(func, caller, options)


def ir_module(cls: Any = None, **options: Any) -> Any:
    """`@I.ir_module`: create an `IRModule` from a class of functions. Raises `ParseError` if the class contains
    anything else.
    """
    del options  # TVM's option check_well_formed
    if cls is None:
        return ir_module
    functions: dict[str, PrimFunc] = {}
    graphs: dict[str, Any] = {}
    for name, value in vars(cls).items():
        if isinstance(value, PrimFunc):
            functions[name] = value
        elif hasattr(value, GRAPH_FUNCTION):
            graphs[name] = value
        elif hasattr(value, _OPTIONS):
            functions[name] = _parse_function(value, *getattr(value, _OPTIONS))
        elif not (name.startswith("__") and name.endswith("__")):
            raise _stray(cls, name)
    module = IRModule(functions, dict(vars(cls).get(_ATTRS, {})))
    if not graphs:
        return module
    captured = getattr(next(iter(graphs.values())), GRAPH_FUNCTION)
    return _with_graphs(cls.__name__, module, {name: source_of(func) for name, func in graphs.items()}, captured)


def _with_graphs(
    name: str, module: IRModule, graphs: Mapping[str, tuple[Source, ast.stmt]], captured: Mapping[str, Any]
) -> Any:
    """Return the module of loop programs and of functions under `@R.function`, which a frontend reads."""
    return importlib.import_module(RELAX).module_of(name, module, graphs, captured)


def _stray(cls: type, name: str) -> ParseError:
    """Return the error for a name in a module's class that is not a function of the language."""
    source, node = source_of(cls)
    for item in getattr(node, "body", ()):
        targets = item.targets if isinstance(item, ast.Assign) else [getattr(item, "target", None)]
        if isinstance(item, ast.FunctionDef) and item.name == name:
            return source.error(item, f"the function {name} has no @T.prim_func", wanted="@T.prim_func")
        if any(isinstance(one, ast.Name) and one.id == name for one in targets):
            return _no_function(item, source)
    return source.error(node, f"a module holds functions, found {name}", wanted="@T.prim_func def ...")


def module_attrs(attrs: Mapping[str, Any]) -> None:
    """`I.module_attrs({...})` in the class of a module: sets the module's attributes."""
    sys._getframe(1).f_locals[_ATTRS] = dict(attrs)


def _decorated(func: Any, caller: FrameType, options: dict[str, bool]) -> Any:
    captured = visible_names(func, caller)
    parent, _, _ = func.__qualname__.rpartition(".")
    if parent and not parent.endswith("<locals>"):
        if hasattr(caller.f_locals.get(func.__name__), _OPTIONS):
            source, node = source_of(func)
            raise source.error(node, f"two functions of the name {func.__name__} in one module")
        setattr(func, _OPTIONS, (captured, options))
        return func
    return _parse_function(func, captured, options)


def visible_names(func: Any, caller: FrameType) -> dict[str, Any]:
    # Names that are used only in annotations are not closure variables of `func`, but the frames that are running while
    # it is defined still have them.
    names: dict[str, Any] = {**_standard_names(), **func.__globals__}
    frames = [caller]
    while frames[-1].f_back is not None and _is_class_body(frames[-1]):
        frames.append(frames[-1].f_back)
    for frame in reversed(frames):
        names.update(frame.f_locals)
    for name, cell in zip(func.__code__.co_freevars, func.__closure__ or (), strict=False):
        try:
            names[name] = cell.cell_contents
        except ValueError:  # defined later
            continue
    return names


def _is_class_body(frame: FrameType) -> bool:
    return "__qualname__" in frame.f_locals and "__module__" in frame.f_locals


def source_of(item: Any) -> tuple[Source, ast.stmt]:
    """Return the text of a Python function or class and its `def` or `class` node; raise `InputError` if Python cannot
    find the source.
    """
    try:
        lines, first = inspect.getsourcelines(item)
    except (OSError, TypeError) as problem:
        raise InputError(
            f"the source of {item.__name__} cannot be found: {problem}\n"
            "  try:    tvm.script.from_source(text), or a file"
        ) from None
    source = _dedented("".join(lines), inspect.getsourcefile(item) or "<text>", first)
    return source, _tree(source).body[0]


def _parse_function(func: Any, captured: Mapping[str, Any], options: dict[str, bool]) -> PrimFunc:
    source, node = source_of(func)
    if not isinstance(node, ast.FunctionDef):
        raise source.error(node, "@T.prim_func must be above a function")
    return FunctionParser(source, captured).function(node, **options)


def _dedented(text: str, file: str, first_line: int) -> Source:
    lines = text.splitlines()
    indents = [len(line) - len(line.lstrip()) for line in lines if line.strip() and not line.lstrip().startswith("#")]
    margin = indents[0] if indents else 0
    if margin:
        text = "\n".join(line[margin:] if not line[:margin].strip() else line for line in lines)
    return Source(text, file, first_line, margin)


def _tree(source: Source) -> ast.Module:
    try:
        return ast.parse(source.text)
    except SyntaxError as problem:
        start, stop = max(0, (problem.offset or 1) - 1), max(0, (problem.end_offset or 1) - 1)
        where = ast.Constant(0)
        where.lineno, where.end_lineno = problem.lineno or 1, problem.end_lineno
        where.col_offset, where.end_col_offset = start, stop
        raise source.error(where, f"not Python: {problem.msg}") from None


# The language that `I` refers to.
MODULE_LANGUAGE = SimpleNamespace(ir_module=ir_module, module_attrs=module_attrs)


def _standard_names() -> dict[str, Any]:
    from ... import tir
    from . import builtins

    package = sys.modules[__package__.partition(".")[0]]  # loaded already, as this module is a part of it
    return {"T": builtins, "I": MODULE_LANGUAGE, "R": _Graphs(), "tir": tir, "tvm": package}


class _Graphs:
    """The language that `R` refers to in a text; it is imported when it is used."""

    def __getattr__(self, name: str) -> Any:
        return getattr(importlib.import_module(f"{RELAX}.language"), name)


def kernel_function(kernel: Any) -> PrimFunc:
    """Return the function of an executable's kernel: the one that it was built from or, in a saved program, the one
    that its text describes.
    """
    if kernel.func is not None:
        func: PrimFunc = kernel.func()
        return func
    program = from_source(kernel.script)
    return program if isinstance(program, PrimFunc) else next(iter(program.functions.values()))
