"""Test the example in a primitive's docstring: make the call, and compare the result with the program after it.

    before:
        for i in range(8):
            with T.block("B"): B[vi] = A[vi] * 2.0
    call: `sch.parallel(i)`
    after:
        for i in T.parallel(8):
            with T.block("B"): B[vi] = A[vi] * 2.0

Both programs are TVMScript in which these parts may be left out:

- The head of the function. Its parameters are then the buffers that no block allocates. They are float32 and as large
  as the indices require, unless a line such as `A: T.Buffer((8,), "int32")` declares one.
- The iterators. `vi` or `v_i` binds the loop `i`, and `v0` the loop `ax0`. An iterator is a reduction if its block
  accumulates and the store's indices do not use it; otherwise it is spatial.
- The regions that blocks read and write.

In the call, `sch` is the schedule, and the name of a loop refers to that loop. Bad calls (`Primitive.refuses`) are made
on programs written in the same way.
"""

from __future__ import annotations

import ast
import difflib
import functools
import inspect
import itertools
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ...errors import InternalError, MinitvmError, ScheduleError
from ..nodes import PrimFunc
from ..script import builtins as T
from ..script.source import from_source
from .handles import LoopRV
from .registry import PRIMITIVES, BadCall, Primitive
from .schedule import Schedule

_CALL = re.compile(r"^call: `(?P<code>.+)`(?P<rest>.*)$", re.MULTILINE)
_WANTED = "  wanted: before:, call: `...` and after:, with the programs on lines of their own"


@dataclass(frozen=True, slots=True)
class Example:
    """A worked example: a program, a call, and the program that results from the call.

    Both programs are abbreviated TVMScript.
    """

    before: str
    call: str
    after: str


def example_of(primitive: Primitive | str) -> Example | None:
    """Return the example in a primitive's docstring; None if it has none.

    Raises `InternalError` if a part of the example is missing.
    """
    primitive = PRIMITIVES[primitive] if isinstance(primitive, str) else primitive
    text = inspect.cleandoc(primitive.function.__doc__ or "")
    call = _CALL.search(text)
    before, after = section(text, "before"), section(text, "after")
    if call is None and before is None and after is None:
        return None
    if call is None or before is None or after is None or call["rest"]:
        raise InternalError(f"{primitive.name}: its docstring shows half an example\n{_WANTED}")
    return Example(before, call["code"], after)


def section(text: str, head: str) -> str | None:
    """Return the lines under `head:` in a docstring without their indentation; None if there is no such section."""
    match = re.search(rf"^{head}:\n((?:[ ]{{4}}.*\n|\n)+)", text + "\n", re.MULTILINE)
    return None if match is None else textwrap.dedent(match[1]).strip("\n")


def verify_example(primitive: Primitive | str) -> Schedule:
    """Run the example in a primitive's docstring and compare the result with the program in the docstring.

    Returns the schedule. Raises an `InternalError` that shows the difference if the programs differ, or if there is no
    example.
    """
    primitive = PRIMITIVES[primitive] if isinstance(primitive, str) else primitive
    example = example_of(primitive)
    if example is None:
        raise InternalError(f"{primitive.name}: its docstring shows no example\n{_WANTED}")
    parameters: dict[str, str] = {}
    before = _program(example.before, parameters)
    sch = Schedule(before)
    run_text(example.call, {"sch": sch, "T": T, **loops_by_name(sch)}, f"{primitive.name}: the call of its docstring")
    after = _program(example.after, parameters)
    documented, produced = (_shown(func, example.after) for func in (after, sch.func))
    if documented != produced:
        lines = "\n".join(list(difflib.unified_diff(documented, produced, "docstring", "made", lineterm="", n=100))[3:])
        raise InternalError(f"{primitive.name}: {example.call} does not make what its docstring shows\n{lines}")
    return sch


def run_text(code: str, names: dict[str, Any], subject: str) -> None:
    """Run statements that a registration stores as text.

    Mistakes in the text itself, such as an undefined name, raise an `InternalError` that contains `subject` and the
    text. Errors raised by the code that the text calls, and all of minitvm's own errors, pass through unchanged.
    """
    try:
        exec(code, names)
    except MinitvmError:
        raise
    except Exception as error:
        own = error.__traceback__.tb_next if error.__traceback__ is not None else None
        if own is not None and own.tb_next is not None:
            raise
        raise InternalError(f"{subject}, `{code}`, raises {type(error).__name__}: {error}") from None


def example_program(primitive: Primitive | str) -> PrimFunc:
    """Return the initial program of a primitive's example; raise `InternalError` if there is no example."""
    primitive = PRIMITIVES[primitive] if isinstance(primitive, str) else primitive
    example = example_of(primitive)
    if example is None:
        raise InternalError(f"{primitive.name}: its docstring shows no example\n{_WANTED}")
    return program_of(example.before)


@functools.cache
def program_of(text: str, lowered: bool = False) -> PrimFunc:
    """Return the program that abbreviated TVMScript describes. With `lowered`, it has no blocks."""
    return _program(text, {}, lowered)


def loops_by_name(sch: Schedule) -> dict[str, LoopRV]:
    """Return the loops of a schedule that have a unique name. A call in a docstring can refer to these by name."""
    tree = sch.state.tree()
    names = [var.name for var in tree.loops]
    return {var.name: LoopRV(var) for var in tree.loops if names.count(var.name) == 1}


def _shown(func: PrimFunc, text: str) -> list[str]:
    """Return the lines of a printed function. The reads and writes of blocks are included only if the example's text
    has them.
    """
    hidden = tuple(f"T.{what}(" for what in ("reads", "writes") if f"T.{what}(" not in text)
    lines = func.script(with_header=False).splitlines()
    return [line for line in lines if line.strip() and not line.strip().startswith(hidden or "\0")]


# ---------------------------------------------------------------------- abbreviated programs


def _program(text: str, parameters: dict[str, str], lowered: bool = False) -> PrimFunc:
    """Return the function that abbreviated text describes.

    If `parameters` is empty, the function's buffers are inferred and added to it by name.
    """
    body = ast.parse(text).body
    if isinstance(body[0], ast.FunctionDef):
        return _with_head(body[0])
    declared = {name: ast.unparse(s.annotation) for s in body if isinstance(s, ast.AnnAssign) and (name := _named(s))}
    body = [s for s in body if not (isinstance(s, ast.AnnAssign) and _named(s))]
    reader = _AbbreviationReader()
    for statement in body:
        reader.read(statement, {})
    if not parameters:
        parameters.update({name: f"T.Buffer({shape}, 'float32')" for name, shape in reader.shapes().items()})
    parameters.update(declared)
    head = ", ".join(f"{name}: {kind}" for name, kind in parameters.items())
    lines = textwrap.indent("\n".join(ast.unparse(ast.fix_missing_locations(s)) for s in body), "    ")
    return _parsed(f"def main({head}):\n{lines}\n", lowered)


def _with_head(function: ast.FunctionDef) -> PrimFunc:
    reader = _AbbreviationReader(sizes=False)
    for statement in function.body:
        reader.read(statement, {})
    return _parsed(ast.unparse(ast.fix_missing_locations(function)))


def _parsed(text: str, lowered: bool = False) -> PrimFunc:
    func = from_source(f"@T.prim_func(lowered={lowered})\n{text}")
    assert isinstance(func, PrimFunc)
    return func


def _named(statement: ast.AnnAssign) -> str:
    """Return the name of the buffer that `A: T.Buffer(...)` declares, or "" if the statement is not such a
    declaration.
    """
    return statement.target.id if isinstance(statement.target, ast.Name) and statement.value is None else ""


@dataclass(slots=True)
class _AbbreviationReader:
    """Walks an abbreviated program and adds the iterators that it leaves out.

    With `sizes`, it also records how far buffers are indexed.
    """

    sizes: bool = True
    reach: dict[str, list[int]] = field(default_factory=dict)
    allocated: set[str] = field(default_factory=set)

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Return the shapes of the buffers that no block allocates, sorted by name."""
        return {name: tuple(self.reach[name]) for name in sorted(self.reach) if name not in self.allocated}

    def read(self, statement: ast.stmt, ranges: Mapping[str, range]) -> None:
        """Read one statement; `ranges` has the possible values of the variables around it."""
        names = dict(ranges)
        if isinstance(statement, ast.For):
            names.update(_loop_values(statement, ranges))
        elif isinstance(statement, ast.With) and _is(statement.items[0].context_expr, "block"):
            names.update(_axes(statement.body, names))
            left_out = [name for name in _used(statement.body) if name not in names and _loop_of(name, names)]
            reduced = _reduced(statement.body)
            for position, name in enumerate(sorted(left_out, key=lambda n: list(names).index(_loop_of(n, names)))):
                loop = _loop_of(name, names)
                kind = "reduce" if name in reduced else "spatial"
                values = names[loop]
                domain = str(values.stop) if values.start == 0 else f"({values.start}, {values.stop})"
                declaration = ast.parse(f"{name} = T.axis.{kind}({domain}, {loop})").body[0]
                statement.body.insert(position, declaration)
                names[name] = values
        elif isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Call):
            if any(_is(statement.value, what) for what in ("alloc_buffer", "decl_buffer", "match_buffer")):
                self.allocated.update(target.id for target in statement.targets if isinstance(target, ast.Name))
        inner = [s for name in ("body", "orelse") for s in getattr(statement, name, [])]
        for part in ast.walk(statement) if not inner else _heads(statement):
            if self.sizes and isinstance(part, ast.Subscript) and isinstance(part.value, ast.Name):
                self._note(part.value.id, part.slice, names)
        for item in inner:
            self.read(item, names)

    def _note(self, buffer: str, index: ast.expr, names: Mapping[str, range]) -> None:
        indices = index.elts if isinstance(index, ast.Tuple) else [index]
        reached = [_most(i, names) for i in indices]
        before = self.reach.setdefault(buffer, [1] * len(reached))
        self.reach[buffer] = [max(a, b) for a, b in zip(before, reached, strict=True)]


def _heads(statement: ast.stmt) -> Iterator[ast.AST]:
    """Yield the parts of a compound statement that are outside its body, such as the condition of an `if`."""
    if isinstance(statement, ast.If):
        yield from ast.walk(statement.test)


def _is(expression: ast.expr, what: str) -> bool:
    return isinstance(expression, ast.Call) and ast.unparse(expression.func) == f"T.{what}"


def _loop_values(loop: ast.For, ranges: Mapping[str, range]) -> dict[str, range]:
    assert isinstance(loop.iter, ast.Call)
    names = [n.id for n in ast.walk(loop.target) if isinstance(n, ast.Name)]
    bounds = [_most(argument, ranges) - 1 for argument in loop.iter.args]  # the largest, if it depends on a loop
    if _is(loop.iter, "grid"):
        return {name: range(extent) for name, extent in zip(names, bounds, strict=True)}
    return {names[0]: range(*bounds[:2])}


def _axes(body: list[ast.stmt], loops: Mapping[str, range]) -> dict[str, range]:
    """Return the iterators that a block declares explicitly, with their possible values."""
    iterators: dict[str, range] = {}
    for statement in body:
        if not isinstance(statement, ast.Assign) or not ast.unparse(statement.value).startswith("T.axis."):
            continue
        assert isinstance(statement.value, ast.Call)
        names = [n.id for n in ast.walk(statement.targets[0]) if isinstance(n, ast.Name)]
        first, second = statement.value.args
        if _is(statement.value, "axis.remap"):
            assert isinstance(second, ast.List)
            iterators.update((n, loops[ast.unparse(loop)]) for n, loop in zip(names, second.elts, strict=True))
        else:
            domain = ast.literal_eval(first)
            iterators[names[0]] = range(*domain) if isinstance(domain, tuple) else range(domain)
    return iterators


def _used(body: list[ast.stmt]) -> list[str]:
    """Return the names used in a block's own statements; blocks inside it are skipped."""
    names: dict[str, None] = {}
    queue: list[ast.AST] = list(body)
    while queue:
        node = queue.pop(0)
        if isinstance(node, ast.With) and _is(node.items[0].context_expr, "block"):
            continue
        if isinstance(node, ast.Name):
            names[node.id] = None
        queue.extend(ast.iter_child_nodes(node))
    return list(names)


def _loop_of(iterator: str, names: Mapping[str, range]) -> str:
    """Return the loop that an iterator binds according to its name, or "" if there is none."""
    loop = iterator.removeprefix("v")
    candidates = (loop, loop.removeprefix("_"), f"ax{loop}") if iterator != loop else ()
    return next((name for name in candidates if name in names), "")


def _reduced(body: list[ast.stmt]) -> set[str]:
    """Return the names that an accumulating block uses, but not in the indices of its stores; an empty set for other
    blocks.
    """
    stores = [s for top in body for s in ast.walk(top) if isinstance(s, ast.Assign)]
    targets = [t for s in stores for t in s.targets if isinstance(t, ast.Subscript)]
    if not any(ast.unparse(t) in ast.unparse(s.value) for s in stores for t in s.targets if t in targets):
        return set()
    at = {n.id for t in targets for n in ast.walk(t.slice) if isinstance(n, ast.Name)}
    return set(_used(body)) - at


def _most(index: ast.expr, names: Mapping[str, range]) -> int:
    """Return the smallest extent of a dimension with which an index is always in bounds."""
    if isinstance(index, ast.Slice):
        assert index.upper is not None
        return _most(index.upper, names) - 1
    used = sorted({n.id for n in ast.walk(index) if isinstance(n, ast.Name) and n.id in names})
    values = [names[name] for name in used]
    code = compile(ast.unparse(index), "index", "eval")
    try:
        combinations = itertools.product(*values)
        return 1 + max((int(eval(code, {}, dict(zip(used, at, strict=True)))) for at in combinations), default=0)
    except (NameError, TypeError):
        return 1  # an index that depends on data


# --- The error gallery of a primitive: for each requirement a call that it refuses, and the text that the caller reads.


def bad_calls() -> dict[str, tuple[Primitive, BadCall]]:
    """Return the registered bad calls of the package's own primitives, keyed by "primitive.requirement"."""
    return {
        f"{primitive.name}.{bad.requirement.name}": (primitive, bad)
        for primitive in PRIMITIVES.values()
        if primitive.function.__module__.startswith("minitvm.")
        for bad in primitive.bad_calls
    }


def prepared(primitive: Primitive, bad: BadCall) -> tuple[Schedule, Callable[[], Any]]:
    """Return the schedule for a bad call, and a function that makes the call.

    The statements before the call have already been run on the schedule.
    """
    sch = Schedule(program_of(bad.before) if bad.before else example_program(primitive))
    *first, last = bad.call.split("; ")
    names: dict[str, Any] = {**primitive.function.__globals__, "sch": sch, "T": T, **loops_by_name(sch)}
    subject = f"{primitive.name}: the bad call for {bad.requirement.name}"
    for statement in first:
        run_text(statement, names, subject)
    return sch, lambda: run_text(last, names, subject)


def refusal(primitive: Primitive, bad: BadCall) -> str:
    """Return the text of the error that a bad call raises.

    Raises `InternalError` if the call succeeds, if a different requirement refuses it, or if the program changes.
    """
    sch, call = prepared(primitive, bad)
    subject = f"{primitive.name}: the bad call for {bad.requirement.name}, `{bad.call}`,"
    before = sch.mod
    try:
        call()
    except ScheduleError as error:
        text, by = str(error), error.requirement
    else:
        raise InternalError(f"{subject} is not refused\n{sch.mod.script()}")
    if by != bad.requirement.name:
        raise InternalError(f"{subject} is refused by another requirement\n{text}")
    if sch.mod is not before:
        raise InternalError(f"{subject} is refused and changes the program all the same\n{sch.mod.script()}")
    return text


def gallery(primitive: Primitive | str) -> dict[str, str]:
    """Return the errors of a primitive's bad calls: first those for its own requirements in order, then those from the
    steps that it performs.

    Raises `InternalError` like `refusal`, and also if a requirement has no bad call.
    """
    primitive = PRIMITIVES[primitive] if isinstance(primitive, str) else primitive
    shown = {bad.requirement.name: refusal(primitive, bad) for bad in primitive.bad_calls}
    needed = [requirement.name for requirement in primitive.requires]
    missing = [name for name in needed if name not in shown]
    if missing:
        example = f'{primitive.name}.refuses({missing[0]}, "sch.{primitive.name}(...)")'
        raise InternalError(f"{primitive.name}: no bad call for {', '.join(missing)}\n  wanted: {example}")
    return {name: shown[name] for name in needed} | shown
