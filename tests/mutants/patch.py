"""How a fault is planted: a few words of one function's source are replaced, and its code is swapped in memory.

    VECTORIZE = Faults("lowering.vectorize", "minitvm.tir.transform.vectorize", by=[...])
    VECTORIZE.edit("the tail has no mask", "_Vectorizer.whole", "if self.limit is not None:", "if False:")

The words are compared as tokens of Python, not as text: how lines are broken does not matter. A name that the function
does not have any more may have been renamed there: it stands for any one name (`locate`). The words must stand exactly
once in the function, so that a fault whose place has moved on breaks loudly instead of planting nothing. The function
object stays the same and gets other code: whoever imported it sees the fault too.
"""

from __future__ import annotations
import __future__

import ast
import builtins
import dis
import importlib
import keyword
import re
import types
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from minitvm.tir.schedule.registry import PRIMITIVES, Primitive, Requirement

from .contracts import refusals
from .oracle import Workload


class Moved(Exception):
    """The source is not any more what the fault was written for."""


@dataclass(frozen=True)
class Mutant:
    """One fault: what part has it (in which module), what is wrong, how it is planted in this process, and what should
    notice.

    `equivalent` is empty, or the proof that no program can tell: then nothing may notice.
    """

    part: str
    fault: str
    plant: Callable[[], None]
    by: tuple[Workload, ...]
    module: str
    equivalent: str = ""

    @property
    def name(self) -> str:
        return f"{self.part}: {self.fault}"


MUTANTS: dict[str, Mutant] = {}


class Faults:
    """The faults of one part, in one module."""

    def __init__(self, part: str, module: str, by: Sequence[Workload]) -> None:
        self.part, self.module, self.by = part, module, tuple(by)

    def edit(
        self, fault: str, where: str, old: str, new: str, *, by: Sequence[Workload] = (), equivalent: str = ""
    ) -> None:
        """In the function or module-level value `where`, `old` becomes `new`. `by` comes before the part's own."""
        self._add(fault, lambda: edit(self.module, where, old, new), by, equivalent)

    def drop(self, fault: str, primitive: str, requirement: str, *, by: Sequence[Workload] = ()) -> None:
        """A primitive does without one of its requirements. Its bad calls come before other workloads."""
        self._add(fault, lambda: drop(primitive, requirement), (refusals(primitive), *by), "")

    def _add(self, fault: str, plant: Callable[[], None], by: Sequence[Workload], equivalent: str) -> None:
        made = Mutant(self.part, fault, plant, (*by, *(w for w in self.by if w not in by)), self.module, equivalent)
        if made.name in MUTANTS:
            raise ValueError(f"two mutants are called {made.name!r}")
        MUTANTS[made.name] = made


def drop(primitive: str, requirement: str) -> None:
    """Take a requirement off a registered primitive."""
    known = PRIMITIVES[primitive]
    kept = tuple(r for r in known.requires if r.name != requirement)
    if len(kept) != len(known.requires) - 1:
        raise Moved(f"{primitive} has no requirement {requirement}; it has {', '.join(r.name for r in known.requires)}")
    known.requires = kept


def edit(module: str, where: str, old: str, new: str) -> None:
    """Replace `old` by `new` in the source of `module.where`, in memory."""
    loaded = importlib.import_module(module)
    assert loaded.__file__ is not None
    text, tree = _source(loaded.__file__)
    node, outermost = _definition(tree, where), _definition(tree, where.partition(".")[0])
    if node is None:
        raise Moved(f"{module} has no {where}")
    lines = text.splitlines(keepends=True)
    first, last = node.lineno - 1, node.end_lineno or node.lineno
    part = "".join(lines[first:last])
    places = locate(part, old)
    if len(places) != 1:
        raise Moved(f"{module}.{where} has {old!r} {len(places)} times; wanted once")
    (place,) = places
    # Only the definition is compiled anew, where it was: the rest of the module is as it is.
    begin, end = outermost.lineno - 1, outermost.end_lineno or outermost.lineno
    above, below = "".join(lines[begin:first]), "".join(lines[last:end])
    changed = "\n" * begin + above + place.replaced(part, new) + below
    if isinstance(node, ast.FunctionDef):
        flags = __future__.annotations.compiler_flag if "from __future__ import annotations" in text else 0
        code = compile(changed, loaded.__file__, "exec", flags, dont_inherit=True)
        _swap_code(_function(loaded, where), _code(code, where))
    else:
        _swap_value(loaded, where, changed)


@dataclass(frozen=True)
class Place:
    """Where words stand in a text: from one character to another, and which names are called otherwise there."""

    begin: int
    end: int
    renamed: tuple[tuple[str, str], ...] = ()

    def replaced(self, text: str, new: str) -> str:
        """The text with other words there, which have the new names."""
        for old_name, name in self.renamed:
            new = re.sub(rf"\b{old_name}\b", name, new)
        return text[: self.begin] + new + text[self.end :]


def locate(text: str, old: str) -> list[Place]:
    """The places where `old` stands in a text: to the letter; else token by token; else with other names.

    A name of `old` that the text has nowhere may stand for another name: always for the same, and no two for one.
    All other tokens must be the same, in the same order. Blanks, line breaks and comments do not count.
    """
    exact = [match.start() for match in re.finditer(re.escape(old), text)]
    if exact:
        return [Place(begin, begin + len(old)) for begin in exact]
    here, words = _tokens(text), [token for token, _, _ in _tokens(old)]
    free = {w for w in words if w.isidentifier() and not keyword.iskeyword(w)} - {token for token, _, _ in here}
    places = []
    for start in range(len(here) - len(words) + 1):
        stretch = here[start : start + len(words)]
        renamed = _renamed(words, [token for token, _, _ in stretch], free)
        if renamed is not None:
            places.append(Place(stretch[0][1], stretch[-1][2], tuple(sorted(renamed.items()))))
    return places


def _renamed(old: Sequence[str], now: Sequence[str], free: set[str]) -> dict[str, str] | None:
    """Which free names are called how now; None if the tokens differ otherwise."""
    names: dict[str, str] = {}
    for a, b in zip(old, now, strict=True):
        if a in free and b.isidentifier() and not keyword.iskeyword(b):
            if names.setdefault(a, b) != b:
                return None
        elif a != b:
            return None
    return names if len(set(names.values())) == len(names) else None


# A string (with its prefix), a name, a number, or an operator; of a text that need not be a whole statement.
_TOKEN = re.compile(
    r"""(?P<skip>\s+|\#[^\n]*|\\\n)
    |[rbfRBF]{0,2}(?:\"{3}[\s\S]*?\"{3}|\'{3}[\s\S]*?\'{3}|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')
    |[^\W\d]\w*|\d[\w.]*|\*\*=?|//=?|<<=?|>>=?|[-+*/%&|^@=<>!:]=|->|\.\.\.|.""",
    re.VERBOSE,
)
_CLOSING = (")", "]", "}")


def _tokens(text: str) -> list[tuple[str, int, int]]:
    """The tokens of a text with their places; no blanks, no comments, no comma before a bracket on its own line."""
    tokens = [(m.group(), m.start(), m.end()) for m in _TOKEN.finditer(text) if m["skip"] is None]
    return [
        one
        for one, after in zip(tokens, [*tokens[1:], ("", 0, 0)], strict=True)
        if not (one[0] == "," and after[0] in _CLOSING and "\n" in text[one[2] : after[1]])
    ]


@cache
def _source(path: str) -> tuple[str, ast.Module]:
    """The text of a file, and its tree."""
    text = Path(path).read_text()
    return text, ast.parse(text)


def _definition(tree: ast.AST, where: str) -> Any:
    for name in where.split("."):
        found = [item for item in getattr(tree, "body", ()) if name in _names(item)]
        if len(found) != 1:
            return None
        tree = found[0]
    return tree


def _names(item: ast.AST) -> list[str]:
    if isinstance(item, ast.FunctionDef | ast.ClassDef):
        return [item.name]
    targets = item.targets if isinstance(item, ast.Assign) else [getattr(item, "target", None)]
    return [t.id for t in targets if isinstance(t, ast.Name)]


def _code(module: types.CodeType, where: str) -> types.CodeType:
    found, stack = [], [module]
    while stack:
        code = stack.pop()
        if code.co_qualname == where:
            found.append(code)
        stack += [c for c in code.co_consts if isinstance(c, types.CodeType)]
    if len(found) != 1:
        raise Moved(f"{len(found)} functions are called {where}")
    return found[0]


def _function(module: Any, where: str) -> types.FunctionType:
    """The function object behind whatever decorators made of it."""
    found = module
    for name in where.split("."):
        found = found.__dict__[name]
    while not isinstance(found, types.FunctionType) or hasattr(found, "__wrapped__"):
        if isinstance(found, Requirement):
            found = found.check
        elif isinstance(found, Primitive):
            found = found.function
        elif isinstance(found, property):
            found = found.fget
        else:  # staticmethod, functools.cache, functools.wraps
            found = found.__wrapped__
    return found


def _swap_code(function: types.FunctionType, code: types.CodeType) -> None:
    if code.co_freevars != function.__code__.co_freevars:
        raise Moved(f"{function.__qualname__} would close over other variables: {code.co_freevars}")
    if unknown := sorted(_globals_of(code) - function.__globals__.keys() - vars(builtins).keys()):
        raise Moved(f"{function.__qualname__} would use names that nothing defines: {', '.join(unknown)}")
    function.__code__ = code


def _globals_of(code: types.CodeType) -> set[str]:
    """The global names that a function reads, and those inside it: a variable that was renamed becomes one."""
    inner = (c for c in code.co_consts if isinstance(c, types.CodeType))
    loads = {i.argval for i in dis.get_instructions(code) if i.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
    return loads.union(*map(_globals_of, inner))


def _swap_value(module: Any, name: str, changed: str) -> None:
    node = _definition(ast.parse(changed), name)
    made = eval(compile(ast.Expression(node.value), module.__file__, "eval"), module.__dict__)
    value = getattr(module, name)
    if isinstance(value, dict):  # in place: others hold it too
        value.clear()
        value.update(made)
    elif isinstance(value, list):
        value[:] = made
    else:
        setattr(module, name, made)
